package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"driftline/internal/engine"
	"driftline/internal/engine/enginetest"
)

// killStages are the moments of one insert at which the engine is killed; send writes the request up to there.
var killStages = []struct {
	name string
	send func(t *testing.T, peer net.Conn, head, body string)
}{
	{"before the body", func(t *testing.T, peer net.Conn, head, _ string) {
		_, err := peer.Write([]byte(head))
		must(t, err)
	}},
	{"amid the body", func(t *testing.T, peer net.Conn, head, body string) {
		_, err := peer.Write([]byte(head + body[:len(body)/2]))
		must(t, err)
	}},
	{"one byte before the end", func(t *testing.T, peer net.Conn, head, body string) {
		_, err := peer.Write([]byte(head + body[:len(body)-1]))
		must(t, err)
	}},
	{"after the body, before the answer", func(t *testing.T, peer net.Conn, head, body string) {
		_, err := peer.Write([]byte(head + body))
		must(t, err)
	}},
	{"after the answer", func(t *testing.T, peer net.Conn, head, body string) {
		_, err := peer.Write([]byte(head + body))
		must(t, err)
		_, err = peer.Read(make([]byte, 1))
		must(t, err)
	}},
}

// At every stage of an insert, kill -9 leaves the insert there whole or not at all, and there if it was acknowledged; sent again with its
// token it is there once.
func TestKill9AtEveryStageOfAnInsert(t *testing.T) {
	e := enginetest.Start(t)
	post(t, e, nil, "CREATE TABLE t (stage UInt8, n UInt64) ENGINE = MergeTree ORDER BY (stage, n) SETTINGS non_replicated_deduplication_window = 1000")
	const rows = 200_000
	for stage, s := range killStages {
		t.Run(s.name, func(t *testing.T) {
			var body strings.Builder
			for n := range rows {
				fmt.Fprintf(&body, "%d,%d\n", stage, n)
			}
			params := url.Values{"query": {"INSERT INTO t FORMAT CSV"}, "insert_deduplication_token": {s.name}}
			peer, err := net.Dial("tcp", strings.TrimPrefix(e.URL(t), "http://"))
			must(t, err)
			defer peer.Close()
			s.send(t, peer, fmt.Sprintf("POST /?%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", params.Encode(), body.Len()), body.String())
			e.Kill9(t)
			e.Restart(t)
			count := func() string {
				return post(t, e, nil, fmt.Sprintf("SELECT count(), uniqExact(n) FROM t WHERE stage = %d", stage))
			}
			whole, got := fmt.Sprintf("%d\t%d\n", rows, rows), count()
			switch acknowledged := s.name == "after the answer"; {
			case got == whole:
				if stage < 3 {
					t.Error("rows of a body that never ended are there")
				}
			case got != "0\t0\n" || acknowledged:
				t.Errorf("after the kill: %q", got)
			}
			post(t, e, params, body.String())
			if got := count(); got != whole {
				t.Errorf("sent again with its token: %q, want %q", got, whole)
			}
		})
	}
}

const envDiskFull = "DRIFTLINE_TEST_DISK_FULL"

// A full disk refuses inserts with an error that is tried again, loses nothing acknowledged, and is over as soon as there is space.
func TestDiskFull(t *testing.T) {
	dir := os.Getenv(envDiskFull)
	if dir == "" {
		inOwnMountNamespace(t)
		return
	}
	must(t, unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"))
	ballast := filepath.Join(dir, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 40<<20), 0o600))
	e := enginetest.Start(t, "--data-dir="+filepath.Join(dir, "data"))
	post(t, e, nil, "CREATE TABLE t (batch UInt64, s String) ENGINE = MergeTree ORDER BY batch")
	pid := e.PID()
	rng := rand.New(rand.NewPCG(1, 1))
	var acknowledged, refused, batch int
	insert := func() (ok bool) {
		batch++
		var body strings.Builder
		for range 1000 {
			fmt.Fprintf(&body, "%d,%x%x%x%x\n", batch, rng.Uint64(), rng.Uint64(), rng.Uint64(), rng.Uint64())
		}
		_, h, text, err := call(t, e, http.MethodPost, url.Values{"query": {"INSERT INTO t FORMAT CSV"}}, strings.NewReader(body.String()), nil)
		must(t, err)
		switch code := h.Get("X-ClickHouse-Exception-Code"); {
		case code == "":
			acknowledged++
			return true
		// NOT_ENOUGH_SPACE where the engine foresees it, otherwise the write's own error with the kernel's words.
		case code == "243" || strings.Contains(text, "No space left on device"):
			refused++
			t.Logf("refused: %.200s", text)
			return false
		default:
			t.Fatalf("a full disk gave code %s: %s", code, text)
			return false
		}
	}
	for insert() {
	}
	for range 3 {
		insert()
	}
	check := func(when string) {
		t.Helper()
		want := fmt.Sprintf("%d\t%d\n", acknowledged*1000, acknowledged)
		if got := post(t, e, nil, "SELECT count(), uniqExact(batch) FROM t"); got != want {
			t.Errorf("%s: %q rows and batches, want %q", when, got, want)
		}
	}
	check("full")
	must(t, os.Remove(ballast))
	eventually(t, "inserts after there is space", insert)
	check("with space again")
	if e.PID() != pid {
		t.Errorf("the engine did not survive: process %d, then %d", pid, e.PID())
	}
	e.Restart(t)
	check("after a restart")
	if refused == 0 || acknowledged < 2 {
		t.Errorf("%d batches refused, %d acknowledged: the disk was not full", refused, acknowledged)
	}
}

// inOwnMountNamespace runs the calling test once more in a child that may mount: as root, or as the root of a user namespace of
// its own. What the child mounts goes with it.
func inOwnMountNamespace(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	var reasons []error
	for _, attr := range []*syscall.SysProcAttr{
		{Cloneflags: syscall.CLONE_NEWNS},
		{
			Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), envDiskFull+"="+dir)
		cmd.SysProcAttr = attr
		out, err := cmd.CombinedOutput()
		if err == nil {
			if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
				t.Fatalf("the child ran no test:\n%s", out)
			}
			t.Logf("in the child:\n%s", out)
			return
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) && !strings.Contains(string(out), "operation not permitted") && !strings.Contains(string(out), "permission denied") {
			t.Fatalf("in the child: %v\n%s", err, out)
		}
		reasons = append(reasons, fmt.Errorf("%w: %s", err, out))
	}
	t.Fatalf("this test needs a small file system to fill, and may mount none: run it as root, or allow user namespaces (in Docker: --cap-add SYS_ADMIN): %v", errors.Join(reasons...))
}

// An engine that hangs is noticed, killed and started again at the same address.
func TestSupervisorEndsAHungEngine(t *testing.T) {
	binary, err := enginetest.Binary()
	must(t, err)
	s, err := engine.Supervise(context.Background(), engine.SupervisorOptions{
		Argv:      []string{binary, "--parent-pipe", "--data-dir=" + t.TempDir(), "--listen=" + engine.ListenPlaceholder},
		PingEvery: 500 * time.Millisecond, HangAfter: 3 * time.Second,
	})
	must(t, err)
	defer s.Stop()
	pid := s.Status().PID
	// A short stop is noticed and forgiven.
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	eventually(t, "the stop is noticed", func() bool { return s.Status().State == engine.StateUnresponsive })
	must(t, syscall.Kill(pid, syscall.SIGCONT))
	eventually(t, "the answer is noticed", func() bool { return s.Status().State == engine.StateReady })
	if s.Status().PID != pid {
		t.Fatalf("an engine that only paused was killed: %+v", s.Status())
	}
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	// Its clients get an end, not a hang.
	client := &http.Client{Timeout: time.Minute}
	if resp, err := client.Get("http://" + s.Addr() + "/?query=SELECT+1"); err == nil {
		resp.Body.Close()
		t.Errorf("a hung engine answered %s", resp.Status)
	} else if os.IsTimeout(err) {
		t.Errorf("the client waited for its own timeout: %v", err)
	}
	eventually(t, "another engine", func() bool { return s.Status().State == engine.StateReady && s.Status().PID != pid })
	if last := s.Status().LastError; !strings.Contains(last, "hung") || s.Status().Restarts != 1 {
		t.Errorf("after the hang: %+v", s.Status())
	}
	resp, err := client.Get("http://" + s.Addr() + "/?query=SELECT+1")
	must(t, err)
	resp.Body.Close()
}

// What docs/embedded.md says of a damaged folder.
func TestDamagedDataFolder(t *testing.T) {
	find := func(e *enginetest.Engine, pattern string) string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(e.Dir(), "store", "store", "*", "*", pattern))
		must(t, err)
		if len(found) == 0 {
			t.Fatalf("no %s in %s", pattern, e.Dir())
		}
		return found[0]
	}
	e := enginetest.Start(t)
	post(t, e, nil, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
	post(t, e, nil, "SYSTEM STOP MERGES")
	post(t, e, nil, "INSERT INTO t SELECT number FROM numbers(100)")
	post(t, e, nil, "INSERT INTO t SELECT number FROM numbers(1000)")
	e.Kill9(t)
	must(t, os.Truncate(find(e, "all_1_1_0/data.bin"), 5))
	e.Restart(t)
	if got := post(t, e, nil, "SELECT count() FROM t"); got != "1000\n" {
		t.Errorf("with a damaged part: %q rows, want those of the other part", got)
	}
	if got := post(t, e, nil, "SELECT name FROM system.detached_parts"); got != "broken-on-start_all_1_1_0\n" {
		t.Errorf("set aside: %q", got)
	}
	e.Kill9(t)
	e.Restart(t)
	post(t, e, nil, "CREATE DATABASE d")
	post(t, e, nil, "CREATE TABLE d.t2 (a UInt64) ENGINE = MergeTree ORDER BY a")
	e.Kill9(t)
	definition := find(e, "t2.sql")
	must(t, os.WriteFile(definition, []byte("garbage"), 0o600))
	out := runMain(t, nil, "--data-dir="+e.Dir())
	for _, want := range []string{"t2.sql", "data folder " + e.Dir(), "restore it from a copy", "move it aside"} {
		if !strings.Contains(out, want) {
			t.Errorf("a folder that cannot be opened: %q lacks %q", out, want)
		}
	}
	must(t, os.Rename(definition, filepath.Join(t.TempDir(), "t2.sql")))
	e.Restart(t)
	if got := post(t, e, nil, "SELECT count() FROM t"); got != "1000\n" {
		t.Errorf("the other table: %q", got)
	}
	post(t, e, nil, "CREATE TABLE d.t2 (a UInt64) ENGINE = MergeTree ORDER BY a")
	if got := post(t, e, nil, "SELECT count() FROM d.t2"); got != "0\n" {
		t.Errorf("the table made anew: %q", got)
	}
	e.Kill9(t)
	must(t, os.Rename(e.Dir(), e.Dir()+".aside"))
	e.Restart(t)
	post(t, e, nil, "SELECT 1")
}
