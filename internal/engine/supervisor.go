//go:build linux || darwin

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"sync"
	"time"
)

// Clock is the time a [Supervisor] goes by.
type Clock interface {
	Now() time.Time
	// After returns a channel that gets the time once d has passed.
	After(d time.Duration) <-chan time.Time
}

type wallClock struct{}

func (wallClock) Now() time.Time                         { return time.Now() }
func (wallClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// State is what a supervised engine is doing.
type State string

// The states of a supervised engine.
const (
	// StateStarting: the process runs and does not yet accept requests.
	StateStarting State = "starting"
	// StateReady: it accepts requests.
	StateReady State = "ready"
	// StateUnresponsive: it runs and has not answered the last time it was asked.
	StateUnresponsive State = "unresponsive"
	// StateBackoff: it ended, and the supervisor waits before it starts another.
	StateBackoff State = "backoff"
	// StateStopped: the supervisor was stopped.
	StateStopped State = "stopped"
)

// SupervisorOptions configure a [Supervisor].
type SupervisorOptions struct {
	// Argv starts the engine, such as ["detectd", "engine", "--parent-pipe", "--data-dir=d", "--listen={listen}"].
	Argv []string
	// Env is added to the environment; put the password here as DRIFTLINE_ENGINE_PASSWORD.
	Env []string
	// Listen is the engine's host:port. With port 0 a free one is chosen once and kept over restarts. Default 127.0.0.1:0.
	Listen string
	// User and Password go into the DSN.
	User, Password string
	// StartTimeout is how long a start may take; default 60 s.
	StartTimeout time.Duration
	// MinBackoff and MaxBackoff bound the wait before a restart, which doubles each time; defaults 200 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// StableAfter is how long an engine must have run for the wait to begin at MinBackoff again; default 1 minute.
	StableAfter time.Duration
	// PingEvery is how often the engine is asked whether it is there, and how long it may take to say so; default 10 s.
	PingEvery time.Duration
	// HangAfter is how long it may give no answer before it is killed and started again; default 1 minute.
	HangAfter time.Duration
	// StopGrace is how long the engine may take to stop before it is killed; default 25 s.
	StopGrace time.Duration
	// Log takes the engine's log.
	Log io.Writer
	// Logger takes the supervisor's own log; default slog.Default().
	Logger *slog.Logger
	// Clock is the time to go by; default the wall clock.
	Clock Clock
}

// Status is a supervised engine's state, for metrics and health checks.
type Status struct {
	State State
	// Since is when the state began.
	Since time.Time
	// Restarts counts the starts after the first.
	Restarts uint64
	// PID is the running process; 0 when none is ready.
	PID int
	// LastError is how the last process ended or failed to start; empty if none did.
	LastError string
}

// Supervisor keeps an engine process running at one address.
type Supervisor struct {
	opt    SupervisorOptions
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	status  Status
	changed chan struct{}
}

// Supervise starts an engine and keeps it running until Stop or the end of ctx. It returns once the first start has
// succeeded; a first start that fails is an error, since its cause (a bad folder, library or port) will not go away by itself.
func Supervise(ctx context.Context, opt SupervisorOptions) (*Supervisor, error) {
	setDefault(&opt.Listen, "127.0.0.1:0")
	setDefault(&opt.User, "default")
	setDefault(&opt.StartTimeout, 60*time.Second)
	setDefault(&opt.MinBackoff, 200*time.Millisecond)
	setDefault(&opt.MaxBackoff, 30*time.Second)
	setDefault(&opt.StableAfter, time.Minute)
	setDefault(&opt.PingEvery, 10*time.Second)
	setDefault(&opt.HangAfter, time.Minute)
	setDefault(&opt.StopGrace, drainTime+drainTime+5*time.Second)
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	if opt.Clock == nil {
		opt.Clock = wallClock{}
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Supervisor{opt: opt, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{})}
	s.set(StateStarting, 0, nil)
	process, err := s.start(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	// A port chosen by the first process is asked for by name from now on.
	s.opt.Listen = process.Addr()
	s.set(StateReady, process.PID(), nil)
	go s.run(ctx, process)
	return s, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (s *Supervisor) start(ctx context.Context) (*Process, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.opt.StartTimeout, fmt.Errorf("waited %s", s.opt.StartTimeout))
	defer cancel()
	return Start(ctx, Command{Argv: s.opt.Argv, Listen: s.opt.Listen, Env: s.opt.Env, Log: s.opt.Log})
}

func (s *Supervisor) run(ctx context.Context, process *Process) {
	defer close(s.done)
	defer s.cancel()
	backoff := s.opt.MinBackoff
	for {
		begun := s.opt.Clock.Now()
		var ended error
		if process != nil {
			hung := s.watch(ctx, process)
			if ctx.Err() != nil {
				process.Stop(s.opt.StopGrace)
				s.set(StateStopped, 0, nil)
				return
			}
			if ended = process.Err(); hung != nil {
				ended = hung
			} else if ended == nil {
				ended = errors.New("engine process ended by itself, with exit code 0")
			}
			if s.opt.Clock.Now().Sub(begun) >= s.opt.StableAfter {
				backoff = s.opt.MinBackoff
			}
			s.set(StateBackoff, 0, ended)
			s.opt.Logger.Error("engine ended; it is started again", "error", ended, "backoff", backoff)
		}
		select {
		case <-s.opt.Clock.After(backoff):
		case <-ctx.Done():
			s.set(StateStopped, 0, nil)
			return
		}
		backoff = min(2*backoff, s.opt.MaxBackoff)
		s.restarting()
		var err error
		if process, err = s.start(ctx); err != nil {
			if ctx.Err() != nil {
				s.set(StateStopped, 0, nil)
				return
			}
			s.set(StateBackoff, 0, err)
			s.opt.Logger.Error("engine did not start; trying again", "error", err, "backoff", backoff)
			process = nil
			continue
		}
		s.set(StateReady, process.PID(), nil)
		s.opt.Logger.Info("engine is back", "addr", process.Addr(), "restarts", s.Status().Restarts)
	}
}

func (s *Supervisor) restarting() {
	s.mu.Lock()
	s.status.Restarts++
	s.mu.Unlock()
	s.set(StateStarting, 0, nil)
}

// set changes the state; a nil error keeps the last one.
func (s *Supervisor) set(state State, pid int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.State != state {
		s.status.Since = s.opt.Clock.Now()
	}
	s.status.State, s.status.PID = state, pid
	if err != nil {
		s.status.LastError = err.Error()
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Status returns the present state.
func (s *Supervisor) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// WaitReady waits until the engine accepts requests. It fails when ctx ends or the supervisor is stopped.
func (s *Supervisor) WaitReady(ctx context.Context) error {
	for {
		s.mu.Lock()
		status, changed := s.status, s.changed
		s.mu.Unlock()
		switch status.State {
		case StateReady:
			return nil
		case StateStopped:
			return errors.New("engine: the supervisor is stopped")
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("engine: not ready (%s): %w; last error: %s", status.State, ctx.Err(), first(status.LastError, "none"))
		}
	}
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// Addr returns the engine's host:port, the same over restarts.
func (s *Supervisor) Addr() string { return s.opt.Listen }

// DSN returns a data source name for clickhouse-go with the given database; empty is "default". It holds the password.
func (s *Supervisor) DSN(database string) string {
	user := url.User(s.opt.User)
	if s.opt.Password != "" {
		user = url.UserPassword(s.opt.User, s.opt.Password)
	}
	return (&url.URL{Scheme: "http", User: user, Host: localAddress(s.opt.Listen), Path: "/" + first(database, "default")}).String()
}

// Stop stops the engine in order, kills it after the grace time, and returns when it has ended.
func (s *Supervisor) Stop() {
	s.cancel()
	<-s.done
}

// Done is closed when the supervisor has stopped.
func (s *Supervisor) Done() <-chan struct{} { return s.done }
