package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"driftline/internal/engine"
	"driftline/internal/engine/enginetest"
)

// Three writers and two readers share the engine; it is killed amid the writing. Every acknowledged row is there once.
func TestKill9KeepsAcknowledgedRows(t *testing.T) {
	e := enginetest.Start(t)
	ctx := context.Background()
	conn := e.Conn(t)
	must(t, conn.Exec(ctx, "CREATE TABLE t (writer UInt8, batch UInt64, n UInt64, s LowCardinality(String)) ENGINE = MergeTree ORDER BY (writer, batch, n)"))
	const rowsPerBatch = 2000
	type key struct{ writer, batch int }
	var mu sync.Mutex
	acknowledged := map[key]bool{}
	var total, reads atomic.Int64
	stop := make(chan struct{})
	var work sync.WaitGroup
	for writer := range 3 {
		work.Go(func() {
			c := e.Conn(t)
			for batch := 0; ; batch++ {
				b, err := c.PrepareBatch(ctx, "INSERT INTO t")
				if err != nil {
					return
				}
				for n := range rowsPerBatch {
					if err := b.Append(uint8(writer), uint64(batch), uint64(n), fmt.Sprint("s", n%10)); err != nil {
						t.Error(err)
						return
					}
				}
				if b.Send() != nil {
					return
				}
				mu.Lock()
				acknowledged[key{writer, batch}] = true
				mu.Unlock()
				total.Add(1)
			}
		})
	}
	for range 2 {
		work.Go(func() {
			c := e.Conn(t)
			for {
				select {
				case <-stop:
					return
				default:
				}
				var rows, distinct uint64
				if c.QueryRow(ctx, "SELECT count(), uniqExact(writer, batch, n) FROM t").Scan(&rows, &distinct) != nil {
					return
				}
				if rows != distinct || rows%rowsPerBatch != 0 {
					t.Errorf("a reader saw %d rows, %d distinct: a batch in parts or twice", rows, distinct)
				}
				reads.Add(1)
			}
		})
	}
	for deadline := time.Now().Add(60 * time.Second); total.Load() < 60 || reads.Load() < 5; {
		if time.Now().After(deadline) {
			t.Fatalf("only %d batches and %d reads in a minute", total.Load(), reads.Load())
		}
		time.Sleep(time.Millisecond)
	}
	e.Kill9(t)
	close(stop)
	work.Wait()
	e.Restart(t)
	rows, err := e.Conn(t).Query(ctx, "SELECT writer, batch, count(), uniqExact(n) FROM t GROUP BY writer, batch")
	must(t, err)
	defer rows.Close()
	found := map[key]bool{}
	for rows.Next() {
		var writer uint8
		var batch, count, distinct uint64
		must(t, rows.Scan(&writer, &batch, &count, &distinct))
		if count != rowsPerBatch || distinct != rowsPerBatch {
			t.Errorf("writer %d batch %d: %d rows, %d distinct, want %d", writer, batch, count, distinct, rowsPerBatch)
		}
		found[key{int(writer), int(batch)}] = true
	}
	must(t, rows.Err())
	for k := range acknowledged {
		if !found[k] {
			t.Errorf("acknowledged batch %v is gone", k)
		}
	}
	if extra := len(found) - len(acknowledged); extra > 3 {
		t.Errorf("%d batches beyond the acknowledged ones; at most one per writer was on its way", extra)
	}
}

func TestBoundParametersStreamingAndErrorCodes(t *testing.T) {
	e := enginetest.Shared(t)
	ctx := context.Background()
	conn := e.Conn(t)
	var sum uint64
	bound := clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{"n": "3", "s": "a'b\\c"}))
	var text string
	must(t, conn.QueryRow(bound, "SELECT {n:UInt64} + 1, {s:String}").Scan(&sum, &text))
	if sum != 4 || text != "a'b\\c" {
		t.Errorf("server-side parameters: %d %q", sum, text)
	}
	must(t, conn.QueryRow(ctx, "SELECT toUInt64(? + 1), ?", uint64(3), "a'b\\c").Scan(&sum, &text))
	if sum != 4 || text != "a'b\\c" {
		t.Errorf("client-side parameters: %d %q", sum, text)
	}
	const n = 3_000_000
	rows, err := conn.Query(ctx, "SELECT number, toString(number % 7) FROM numbers(3000000)")
	must(t, err)
	defer rows.Close()
	var got, total uint64
	for rows.Next() {
		var v uint64
		must(t, rows.Scan(&v, &text))
		got++
		total += v
	}
	must(t, rows.Err())
	if got != n || total != n*(n-1)/2 {
		t.Errorf("streamed %d rows with sum %d", got, total)
	}
	var exception *clickhouse.Exception
	if err := conn.Exec(ctx, "SELECT * FROM nope"); !errors.As(err, &exception) || exception.Code != 60 {
		t.Errorf("unknown table: %v", err)
	}
	late, err := conn.Query(ctx, "SELECT throwIf(number = 3000000) FROM numbers(100000000) SETTINGS max_threads = 1")
	must(t, err)
	defer late.Close()
	for late.Next() {
	}
	if err := late.Err(); !errors.As(err, &exception) || exception.Code != 395 {
		t.Errorf("an error amid the rows came as %v", err)
	}
}

func runMain(t *testing.T, env []string, args ...string) string {
	t.Helper()
	binary, err := enginetest.Binary()
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	code := 1
	if strings.Contains(string(out), "engine options:") {
		code = 2 // a mistake on the command line
	}
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		t.Fatalf("%v: want exit code %d, got %v: %s", args, code, err, out)
	}
	return string(out)
}

func TestStartErrorsSayCauseAndMend(t *testing.T) {
	e := enginetest.Start(t)
	if e.External() {
		t.Fatalf("this test starts engines: unset %s", enginetest.EnvDSN)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, []byte("not a library"), 0o600))
	library := os.Getenv("DRIFTLINE_LIBCHDB")
	if library == "" {
		library = "../../.libchdb/libchdb.so"
	}
	truncated := filepath.Join(dir, "truncated.so")
	head := make([]byte, 1<<20)
	f, err := os.Open(library)
	must(t, err)
	_, err = f.Read(head)
	must(t, err)
	must(t, f.Close())
	must(t, os.WriteFile(truncated, head, 0o600))
	var other string
	for _, path := range []string{"/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6", "/lib64/libm.so.6"} {
		if _, err := os.Stat(path); err == nil {
			other = path
		}
	}
	addr := strings.TrimPrefix(e.URL(t), "http://")
	for _, c := range []struct {
		name string
		env  []string
		args []string
		want []string
	}{
		{"missing library", nil, []string{"--libchdb=" + dir + "/none.so"}, []string{"none.so: no such file", "make libchdb"}},
		{"missing library by environment", []string{"DRIFTLINE_LIBCHDB=" + dir + "/none.so"}, nil, []string{"none.so: no such file", "make libchdb"}},
		{"not a library", nil, []string{"--libchdb=" + file}, []string{"not a shared library", "make libchdb"}},
		{"truncated library", nil, []string{"--libchdb=" + truncated}, []string{"truncated", "make libchdb"}},
		{"another library", nil, []string{"--libchdb=" + other}, []string{"not libchdb", "make libchdb"}},
		{"port in use", nil, []string{"--listen=" + addr}, []string{"cannot listen on " + addr, "the port is in use"}},
		{"open to the network without password", nil, []string{"--listen=0.0.0.0:0"}, []string{"needs a password", engine.EnvPassword}},
		{"folder is a file", nil, []string{"--data-dir=" + file + "/x"}, []string{"cannot be written to", "a part of the path is a file"}},
		{"folder not writable", nil, []string{"--data-dir=/proc/driftline"}, []string{"cannot be written to", "--data-dir"}},
		{"folder in use", nil, []string{"--data-dir=" + e.Dir()}, []string{"in use by process " + fmt.Sprint(e.PID()), addr, "another --data-dir"}},
		{"all problems at once", nil, []string{"--data-dir=", "--listen=x", "--max-queued=-1"}, []string{"--data-dir", "--listen", "--max-queued"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"--data-dir=" + filepath.Join(t.TempDir(), "d"), "--listen=127.0.0.1:0"}, c.args...)
			out := runMain(t, c.env, args...)
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q lacks %q", out, want)
				}
			}
		})
	}
}

// stepClock lets the test decide when a wait is over.
type stepClock struct{ waits chan time.Duration }

func (stepClock) Now() time.Time { return time.Unix(1_000_000_000, 0) }
func (c stepClock) After(d time.Duration) <-chan time.Time {
	c.waits <- d
	now := make(chan time.Time, 1)
	now <- c.Now()
	return now
}

func TestSupervisorRestartsAtTheSameAddress(t *testing.T) {
	binary, err := enginetest.Binary()
	must(t, err)
	ctx := context.Background()
	clock := stepClock{make(chan time.Duration, 10)}
	s, err := engine.Supervise(ctx, engine.SupervisorOptions{
		Argv:  []string{binary, "--parent-pipe", "--data-dir=" + t.TempDir(), "--listen=" + engine.ListenPlaceholder},
		Clock: clock,
	})
	must(t, err)
	defer s.Stop()
	dsn, addr := s.DSN(""), s.Addr()
	opt, err := clickhouse.ParseDSN(dsn)
	must(t, err)
	conn, err := clickhouse.Open(opt)
	must(t, err)
	defer conn.Close()
	must(t, conn.Exec(ctx, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a"))
	for i := range 3 {
		before := s.Status()
		if before.State != engine.StateReady || before.Restarts != uint64(i) {
			t.Fatalf("before kill %d: %+v", i, before)
		}
		must(t, syscall.Kill(before.PID, syscall.SIGKILL))
		if wait, want := <-clock.waits, 200*time.Millisecond<<i; wait != want {
			t.Errorf("restart %d after %s, want %s", i, wait, want)
		}
		limit, cancel := context.WithTimeout(ctx, time.Minute)
		for s.Status().Restarts != uint64(i+1) || s.Status().State != engine.StateReady {
			must(t, s.WaitReady(limit))
		}
		cancel()
		if s.Addr() != addr || !strings.Contains(s.Status().LastError, "killed") {
			t.Errorf("after kill %d: address %s, %+v", i, s.Addr(), s.Status())
		}
		must(t, conn.Exec(ctx, "INSERT INTO t SELECT number FROM numbers(10)"))
	}
	var n uint64
	must(t, conn.QueryRow(ctx, "SELECT count() FROM t").Scan(&n))
	if n != 30 {
		t.Errorf("%d rows, want 30", n)
	}
	pid := s.Status().PID
	s.Stop()
	if s.Status().State != engine.StateStopped || syscall.Kill(pid, 0) == nil {
		t.Errorf("after Stop: %+v, process %d alive: %v", s.Status(), pid, syscall.Kill(pid, 0) == nil)
	}
}

func TestSuperviseReportsAFailedFirstStart(t *testing.T) {
	binary, err := enginetest.Binary()
	must(t, err)
	_, err = engine.Supervise(context.Background(), engine.SupervisorOptions{
		Argv: []string{binary, "--parent-pipe", "--data-dir=/proc/driftline", "--listen=" + engine.ListenPlaceholder},
	})
	if err == nil || !strings.Contains(err.Error(), "cannot be written to") {
		t.Errorf("got %v, want the child's own words", err)
	}
}

func TestEngineStopsWhenItsParentPipeCloses(t *testing.T) {
	binary, err := enginetest.Binary()
	must(t, err)
	cmd := exec.Command(binary, "--parent-pipe", "--data-dir="+t.TempDir())
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	_, err = out.Read(make([]byte, 1))
	must(t, err)
	must(t, in.Close())
	if err := cmd.Wait(); err != nil {
		t.Errorf("want an orderly end, got %v", err)
	}
}

// Randomly cut and joined insert bodies store the same rows.
func TestInsertBodiesInPieces(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	e := enginetest.Shared(t)
	db := e.Database(t)
	post(t, e, in(db), "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
	want := 0
	for range 5 {
		n := 1 + rng.IntN(300000)
		var b strings.Builder
		b.WriteString("INSERT INTO t FORMAT JSONEachRow\n")
		for i := range n {
			fmt.Fprintf(&b, "{\"a\":%d}\n", i)
		}
		status, _, text, err := call(t, e, "POST", in(db), &pieces{text: b.String(), rng: rng}, nil)
		must(t, err)
		if status != 200 {
			t.Fatalf("status %d: %s", status, text)
		}
		want += n
	}
	if got := post(t, e, in(db), "SELECT count() FROM t"); got != fmt.Sprintln(want) {
		t.Errorf("%q rows, want %d", got, want)
	}
}

// pieces reads its text in random pieces, which makes the body chunked.
type pieces struct {
	text string
	rng  *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := min(1+p.rng.IntN(50000), len(p.text), len(b))
	copy(b, p.text[:n])
	p.text = p.text[n:]
	return n, nil
}
