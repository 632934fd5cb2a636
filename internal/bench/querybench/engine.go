package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"driftline/internal/engine"
)

// engineCommand makes this program the engine's process.
const engineCommand = "engine-process"

// db is an engine process of the benchmark's own and a connection to it.
type db struct {
	dir     string
	log     io.Writer
	proc    *engine.Process
	conn    driver.Conn
	address string
	read    readCounter
}

// start starts the engine; args are further flags of it.
func (d *db) start(ctx context.Context, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if d.address == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		d.address = l.Addr().String()
		if err := l.Close(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	argv := append([]string{self, engineCommand, "--parent-pipe", "--data-dir=" + d.dir, "--listen=" + engine.ListenPlaceholder}, args...)
	if d.proc, err = engine.Start(ctx, engine.Command{Argv: argv, Listen: d.address, Log: d.log}); err != nil {
		return err
	}
	d.conn, err = d.connTo("default")
	return err
}

// startLarge starts the engine with room to make and merge data.
func (d *db) startLarge(ctx context.Context) error {
	return d.start(ctx, "--max-memory-bytes=8000000000", "--max-query-time=1h")
}

func (d *db) stop() {
	if d.conn != nil {
		_ = d.conn.Close()
		d.conn = nil
	}
	if d.proc != nil {
		d.proc.Stop(time.Minute)
		d.proc = nil
	}
}

func (d *db) exec(ctx context.Context, sql string, args ...any) error {
	if err := d.conn.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%.300s: %w", sql, err)
	}
	return nil
}

// number asks for one number.
func (d *db) number(ctx context.Context, sql string) (uint64, error) {
	var n uint64
	if err := d.conn.QueryRow(ctx, sql).Scan(&n); err != nil {
		return 0, fmt.Errorf("%.300s: %w", sql, err)
	}
	return n, nil
}

// cpu is the user and system time of the engine's process so far.
func (d *db) cpu() time.Duration {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(d.proc.PID()), "stat"))
	if err != nil {
		return 0
	}
	// The command may hold spaces and brackets; the fields after it do not.
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system, ticksPerSecond = 11, 12, 100
	u, _ := strconv.ParseInt(f[user], 10, 64)
	s, _ := strconv.ParseInt(f[system], 10, 64)
	return time.Duration(u+s) * time.Second / ticksPerSecond
}

// dropCaches empties the engine's caches and, for root, the page cache. It says whether
// the page cache was emptied.
func (d *db) dropCaches(ctx context.Context) (bool, error) {
	for _, cache := range []string{"MARK", "UNCOMPRESSED", "INDEX MARK", "INDEX UNCOMPRESSED"} {
		if err := d.exec(ctx, "SYSTEM DROP "+cache+" CACHE"); err != nil {
			return false, err
		}
	}
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0o200) == nil, nil
}

// readCounter adds up what the engine says it read from its tables.
type readCounter struct {
	mu          sync.Mutex
	rows, bytes uint64
	statements  int
}

func (c *readCounter) wrap(t *http.Transport) (http.RoundTripper, error) {
	return counting{c, t}, nil
}

type counting struct {
	c    *readCounter
	next http.RoundTripper
}

func (t counting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	c := t.c
	var s struct {
		Rows  uint64 `json:"read_rows,string"`
		Bytes uint64 `json:"read_bytes,string"`
	}
	if text := resp.Header.Get("X-ClickHouse-Summary"); text != "" && json.Unmarshal([]byte(text), &s) == nil {
		c.mu.Lock()
		c.rows, c.bytes, c.statements = c.rows+s.Rows, c.bytes+s.Bytes, c.statements+1
		c.mu.Unlock()
	}
	return resp, nil
}

func (c *readCounter) take() (rows, bytes uint64, statements int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rows, bytes, statements = c.rows, c.bytes, c.statements
	c.rows, c.bytes, c.statements = 0, 0, 0
	return rows, bytes, statements
}
