// Package enginetest gives tests a real engine: a child process on a temporary folder and a free loopback port, or the
// server named by DRIFTLINE_TEST_CLICKHOUSE_DSN. The engine's library is never loaded into the test binary, so -race works.
//
// A package shares one engine among its tests:
//
//	func TestMain(m *testing.M) { enginetest.Main(m) }
//
//	func TestX(t *testing.T) {
//		e := enginetest.Shared(t)
//		db := e.Database(t)
//		conn := e.ConnTo(t, db)
//	}
package enginetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"driftline/internal/engine"
)

// EnvDSN names the environment variable that points the tests at a ClickHouse server instead of an engine of their own.
const EnvDSN = "DRIFTLINE_TEST_CLICKHOUSE_DSN"

// startTimeout bounds how long an engine may take to accept requests on a busy machine.
const startTimeout = 60 * time.Second

// Engine is a running engine, or a server given from outside.
type Engine struct {
	dsn      *url.URL
	external bool

	argv []string
	env  []string
	dir  string
	log  *logBuffer

	mu   sync.Mutex
	proc *engine.Process
}

// Start starts an engine of its own for one test and stops it at the test's end. extraArgs are flags of the engine
// process, such as "--max-concurrent=1"; they have no effect on a server given from outside.
func Start(t testing.TB, extraArgs ...string) *Engine {
	t.Helper()
	if e := fromEnvironment(t); e != nil {
		return e
	}
	e, err := start(t.TempDir(), extraArgs)
	if err != nil {
		t.Fatalf("enginetest: %v", err)
	}
	t.Cleanup(func() {
		e.stop()
		if t.Failed() {
			t.Logf("engine log:\n%s", e.log.text())
		}
	})
	return e
}

var shared struct {
	once   sync.Once
	inMain bool
	engine *Engine
	err    error
}

// Main runs a package's tests and then stops the engine that [Shared] started, if any. It does not return.
func Main(m *testing.M) {
	shared.inMain = true
	code := m.Run()
	if e := shared.engine; e != nil && !e.external {
		e.stop()
		_ = os.RemoveAll(filepath.Dir(e.dir))
	}
	os.Exit(code)
}

// Shared returns the package's one engine, started by the first test that asks. It needs [Main] as TestMain.
func Shared(t testing.TB) *Engine {
	t.Helper()
	if !shared.inMain {
		t.Fatal("enginetest: Shared needs func TestMain(m *testing.M) { enginetest.Main(m) }")
	}
	shared.once.Do(func() {
		if os.Getenv(EnvDSN) != "" {
			shared.engine = fromEnvironment(t)
			return
		}
		var dir string
		if dir, shared.err = os.MkdirTemp("", "driftline-engine-"); shared.err == nil {
			shared.engine, shared.err = start(filepath.Join(dir, "data"), nil)
		}
	})
	if shared.err != nil {
		t.Fatalf("enginetest: %v", shared.err)
	}
	return shared.engine
}

func fromEnvironment(t testing.TB) *Engine {
	t.Helper()
	text := os.Getenv(EnvDSN)
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil {
		t.Fatalf("enginetest: %s is not a URL: %v: give one such as http://default@127.0.0.1:8123/default", EnvDSN, err)
	}
	return &Engine{dsn: u, external: true}
}

func start(dir string, extraArgs []string) (*Engine, error) {
	binary, err := build()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	e := &Engine{dir: dir, log: &logBuffer{}}
	e.argv = append([]string{binary, "--parent-pipe", "--data-dir=" + dir, "--listen=" + engine.ListenPlaceholder}, extraArgs...)
	e.dsn = &url.URL{Scheme: "http", User: url.User("default"), Host: addr, Path: "/default"}
	return e, e.launch()
}

func (e *Engine) launch() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), startTimeout, fmt.Errorf("waited %s", startTimeout))
	defer cancel()
	p, err := engine.Start(ctx, engine.Command{Argv: e.argv, Listen: e.dsn.Host, Env: e.env, Log: e.log})
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.proc = p
	e.mu.Unlock()
	return nil
}

func (e *Engine) stop() {
	e.mu.Lock()
	p := e.proc
	e.proc = nil
	e.mu.Unlock()
	if p != nil {
		p.Stop(20 * time.Second)
	}
}

// freeAddress returns a loopback address that was free a moment ago: the engine keeps it over restarts.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// DSN returns the data source name for clickhouse-go, with the database "default".
func (e *Engine) DSN() string { return e.dsn.String() }

// DSNFor returns the data source name with another database.
func (e *Engine) DSNFor(database string) string {
	u := *e.dsn
	u.Path = "/" + database
	return u.String()
}

// URL returns the HTTP base URL, such as "http://127.0.0.1:41234"; it fails the test for a server given by a native DSN.
func (e *Engine) URL(t testing.TB) string {
	t.Helper()
	if e.dsn.Scheme != "http" && e.dsn.Scheme != "https" {
		t.Fatalf("enginetest: this test speaks HTTP, %s is a %s address: give the server's HTTP address", EnvDSN, e.dsn.Scheme)
	}
	return (&url.URL{Scheme: e.dsn.Scheme, Host: e.dsn.Host}).String()
}

// Dir returns the engine's data folder; empty for a server given from outside.
func (e *Engine) Dir() string { return e.dir }

// External is true when the engine is a server given from outside.
func (e *Engine) External() bool { return e.external }

// PID returns the engine's process id; 0 for a server given from outside or while it is down.
func (e *Engine) PID() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.proc == nil {
		return 0
	}
	return e.proc.PID()
}

// Conn returns a clickhouse-go connection to the database "default", closed at the test's end.
func (e *Engine) Conn(t testing.TB) driver.Conn {
	t.Helper()
	return e.ConnTo(t, "")
}

// ConnTo returns a clickhouse-go connection to a database, closed at the test's end.
func (e *Engine) ConnTo(t testing.TB, database string) driver.Conn {
	t.Helper()
	opt, err := clickhouse.ParseDSN(e.DSN())
	if err != nil {
		t.Fatalf("enginetest: data source name: %v", err)
	}
	if database != "" {
		opt.Auth.Database = database
	}
	conn, err := clickhouse.Open(opt)
	if err != nil {
		t.Fatalf("enginetest: open %s: %v", e.dsn.Host, err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Database creates a database with a fresh name for this test and drops it at the test's end.
func (e *Engine) Database(t testing.TB) string {
	t.Helper()
	var b [6]byte
	_, _ = rand.Read(b[:])
	name := "test_" + hex.EncodeToString(b[:])
	conn := e.Conn(t)
	if err := conn.Exec(context.Background(), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("enginetest: create database: %v", err)
	}
	t.Cleanup(func() {
		if e.external || e.PID() != 0 {
			if err := conn.Exec(context.Background(), "DROP DATABASE IF EXISTS "+name+" SYNC"); err != nil {
				t.Errorf("enginetest: drop database: %v", err)
			}
		}
	})
	return name
}

// Kill9 ends the engine as kill -9 does. Use it on an engine from [Start] only.
func (e *Engine) Kill9(t testing.TB) {
	t.Helper()
	if e.external {
		t.Fatalf("enginetest: this test kills the engine, which it cannot do to the server given by %s: unset it", EnvDSN)
	}
	e.mu.Lock()
	p := e.proc
	e.proc = nil
	e.mu.Unlock()
	if p == nil {
		t.Fatal("enginetest: the engine is not running")
	}
	p.Kill()
}

// Restart starts the engine again on the same folder and address, after stopping it in order if it still runs.
func (e *Engine) Restart(t testing.TB) {
	t.Helper()
	if e.external {
		t.Fatalf("enginetest: this test restarts the engine, which it cannot do to the server given by %s: unset it", EnvDSN)
	}
	e.stop()
	if err := e.launch(); err != nil {
		t.Fatalf("enginetest: restart: %v", err)
	}
}

// logBuffer keeps an engine's log for the report of a failed test.
type logBuffer struct {
	mu  sync.Mutex
	buf []byte
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, b...)
	if excess := len(l.buf) - 64<<10; excess > 0 {
		l.buf = l.buf[excess:]
	}
	return len(b), nil
}

func (l *logBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.buf)
}
