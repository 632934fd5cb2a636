//go:build linux || darwin

package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ListenPlaceholder stands in a command for the address that the child is to listen on.
const ListenPlaceholder = "{listen}"

// tailLines is how much of a child's last output an error about it quotes.
const tailLines = 12

// Command says how to start an engine process.
type Command struct {
	// Argv is the program and its arguments; [ListenPlaceholder] in them is replaced by Listen.
	Argv []string
	// Listen is the host:port for the child.
	Listen string
	// Env is added to this process's environment.
	Env []string
	// Log takes the child's log (its standard error) as it comes; nil discards it.
	Log io.Writer
}

// Process is a running engine process. It stops when this process ends, however that ends.
type Process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	ready  ReadyLine
	done   chan struct{}
	err    error
	output *tail
}

// Start starts an engine process and waits until it accepts requests or ctx ends. When the child ends before that, the
// error quotes the last it said.
func Start(ctx context.Context, c Command) (*Process, error) {
	if len(c.Argv) == 0 {
		return nil, errors.New("engine: no command to start")
	}
	argv := make([]string, len(c.Argv))
	for i, a := range c.Argv {
		argv[i] = strings.ReplaceAll(a, ListenPlaceholder, c.Listen)
	}
	p := &Process{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}), output: &tail{next: c.Log}}
	p.cmd.Env = append(append(os.Environ(), "TZ=UTC"), c.Env...)
	p.cmd.Stderr = p.output
	p.cmd.SysProcAttr = childAttributes()
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	started := make(chan error, 1)
	ready := make(chan ReadyLine, 1)
	go func() {
		// The kernel's parent-death signal follows the thread that started the child: this one stays until the end.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := p.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.readOutput(stdout, ready)
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("engine: cannot start %s: %w: check that the program exists and can be run", argv[0], err)
	}
	select {
	case p.ready = <-ready:
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("engine: the engine process ended before it was ready (%s)%s", exitText(p.err), p.output.quote())
	case <-ctx.Done():
		_ = p.cmd.Process.Kill()
		<-p.done
		return nil, fmt.Errorf("engine: the engine process was not ready in time: %w%s", context.Cause(ctx), p.output.quote())
	}
}

// readOutput finds the ready line and passes anything else on as log.
func (p *Process) readOutput(stdout io.Reader, ready chan<- ReadyLine) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line ReadyLine
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Ready {
			select {
			case ready <- line:
			default:
			}
			continue
		}
		_, _ = p.output.Write(append(lines.Bytes(), '\n'))
	}
	// After an over-long line the scanner stops; the pipe must be drained or the child blocks.
	_, _ = io.Copy(io.Discard, stdout)
}

// Addr returns the host:port that the engine listens on.
func (p *Process) Addr() string { return p.ready.Addr }

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the process ended, once Done is closed; nil is exit code 0.
func (p *Process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	if p.err == nil {
		return nil
	}
	return fmt.Errorf("engine process %d: %s%s", p.PID(), exitText(p.err), p.output.quote())
}

// Kill ends the process at once, as kill -9 does, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop asks the process to end, kills it after grace, and waits for its end.
func (p *Process) Stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}

func exitText(err error) string {
	if err == nil {
		return "exit code 0"
	}
	return err.Error()
}

// tail passes a child's output on and remembers its last lines.
type tail struct {
	mu    sync.Mutex
	next  io.Writer
	part  []byte
	lines []string
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range strings.SplitAfter(string(b), "\n") {
		t.part = append(t.part, line...)
		if strings.HasSuffix(line, "\n") || len(t.part) > 64<<10 {
			t.lines = append(t.lines, strings.TrimRight(string(t.part), "\n"))
			t.part = t.part[:0]
			if len(t.lines) > tailLines {
				t.lines = t.lines[1:]
			}
		}
	}
	if t.next != nil {
		// A log that cannot be written must not stop the child.
		_, _ = t.next.Write(b)
	}
	return len(b), nil
}

func (t *tail) quote() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	if len(t.part) > 0 {
		lines = append(lines[:len(lines):len(lines)], string(t.part))
	}
	if len(lines) == 0 {
		return "; it said nothing"
	}
	return "; it said: " + strings.Join(lines, " | ")
}
