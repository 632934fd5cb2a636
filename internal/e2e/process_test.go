package e2e

import (
	"bytes"
	"errors"
	"net"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is a started program. It ends with the test at the latest.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr output
	done           chan struct{}
	err            error
}

// output is what a program has written so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// stopGrace is longer than any program under test takes to stop in order.
const stopGrace = 60 * time.Second

// start starts a program in an empty folder, with env added to its environment.
func start(t *testing.T, env []string, program string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = environment(env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	// A grandchild that outlives the program must not keep the test waiting for its output.
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The parent-death signal follows the thread that started the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	require.NoError(t, <-started, "start %s", program)
	t.Cleanup(func() {
		if p.running() {
			p.signal(syscall.SIGTERM)
			if _, ended := p.wait(stopGrace); !ended {
				t.Errorf("%s did not stop within %s", program, stopGrace)
				p.signal(syscall.SIGKILL)
				<-p.done
			}
		}
		if t.Failed() {
			t.Logf("%s %q wrote:\n%s\n%s", program, args, last(p.stdout.String()), last(p.stderr.String()))
		}
	})
	return p
}

// last is the end of a long text.
func last(s string) string {
	const most = 16 << 10
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// wait returns the exit code once the program has ended; -1 if a signal ended it.
func (p *process) wait(within time.Duration) (code int, ended bool) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), true
	case <-time.After(within):
		return 0, false
	}
}

// stop asks the program to end and requires that it does in order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	code, ended := p.wait(stopGrace)
	require.True(t, ended, "still running after %s: %s", stopGrace, p.stderr.String())
	require.Zero(t, code, p.stderr.String())
}

// run runs a program to its end.
func run(t *testing.T, env []string, program string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := start(t, env, program, args...)
	code, ended := p.wait(2 * time.Minute)
	require.True(t, ended, "%s %q does not end: %s", program, args, p.stderr.String())
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		t.Fatalf("%s %q: %v", program, args, p.err)
	}
	return code, p.stdout.String(), p.stderr.String()
}

// eventually polls until check finds nothing wrong. The failure names what was wrong last.
func eventually(t *testing.T, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", within, err)
		}
		<-tick.C
	}
}

// freeAddresses returns loopback addresses that were free a moment ago.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	out := make([]string, n)
	for i := range out {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		out[i] = l.Addr().String()
	}
	return out
}
