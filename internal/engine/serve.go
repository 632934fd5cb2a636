//go:build linux || darwin

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"driftline/internal/chdb"
	"driftline/internal/engine/server"
)

// EnvPassword names the environment variable that holds the password asked of clients, so that it is in no argument list.
const EnvPassword = "DRIFTLINE_ENGINE_PASSWORD"

// drainTime is how long running requests may go on after a stop was asked for.
const drainTime = 10 * time.Second

// Options configure the engine process. Zero limits take the defaults of [server.Options].
type Options struct {
	// DataDir is the folder with the tables; it is created if missing and belongs to one engine at a time.
	DataDir string
	// Listen is the host:port to listen on; port 0 takes a free one. Default 127.0.0.1:0.
	Listen string
	// Library is the path of libchdb.so; empty searches for it as [chdb.Locate] says.
	Library string
	// User and Password are asked of clients when Password is not empty.
	User, Password string
	// MaxMemoryBytes and MaxQueryMemoryBytes bound the engine and one statement.
	MaxMemoryBytes, MaxQueryMemoryBytes int64
	// MaxQueryTime bounds one statement.
	MaxQueryTime time.Duration
	// MaxConcurrent, MaxQueued and QueueTimeout bound how many statements run and wait.
	MaxConcurrent, MaxQueued int
	QueueTimeout             time.Duration
	// StallTimeout is how long a client may neither send nor take a byte of its statement.
	StallTimeout time.Duration
	// Ready, if not nil, gets one line of JSON (see [ReadyLine]) when the engine accepts requests.
	Ready io.Writer
	// Parent, if not nil, is read to its end, upon which the engine stops: the parent holds the other side of the pipe.
	Parent io.Reader
	// Logger takes the engine's log; default slog.Default().
	Logger *slog.Logger
	// confined says what came of [confine], for the log.
	confined string
}

// ReadyLine is what the engine writes when it accepts requests.
type ReadyLine struct {
	Ready   bool   `json:"driftline_engine_ready"`
	Addr    string `json:"addr"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
}

// AddFlags defines the options' flags with their present values as defaults.
func (o *Options) AddFlags(fs *flag.FlagSet) {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	fs.StringVar(&o.DataDir, "data-dir", o.DataDir, "folder with the tables; created if missing, used by one engine at a time")
	fs.StringVar(&o.Listen, "listen", o.Listen, "host:port to listen on; port 0 takes a free one")
	fs.StringVar(&o.Library, "libchdb", o.Library, "path of libchdb.so; default: "+chdb.EnvLibrary+", beside the binary, or in a parent of the working directory")
	fs.StringVar(&o.User, "user", o.User, "user asked of clients when "+EnvPassword+" holds a password (default \"default\")")
	fs.Int64Var(&o.MaxMemoryBytes, "max-memory-bytes", o.MaxMemoryBytes, "memory limit of the engine; 0 is 1 GiB")
	fs.Int64Var(&o.MaxQueryMemoryBytes, "max-query-memory-bytes", o.MaxQueryMemoryBytes, "memory limit of one statement; 0 is half of the engine's")
	fs.DurationVar(&o.MaxQueryTime, "max-query-time", o.MaxQueryTime, "time limit of one statement; 0 is 5m")
	fs.IntVar(&o.MaxConcurrent, "max-concurrent", o.MaxConcurrent, "statements that run at once; 0 is 8")
	fs.IntVar(&o.MaxQueued, "max-queued", o.MaxQueued, "statements that may wait for their turn; 0 is 64")
	fs.DurationVar(&o.QueueTimeout, "queue-timeout", o.QueueTimeout, "how long a statement may wait for its turn; 0 is 10s")
	fs.DurationVar(&o.StallTimeout, "stall-timeout", o.StallTimeout, "how long a client may neither send nor take a byte of its statement; 0 is 15s")
}

// Validate reports everything that is wrong with the options, by flag name.
func (o *Options) Validate() error {
	var problems []error
	if o.DataDir == "" {
		problems = append(problems, errors.New("--data-dir: a folder is needed"))
	}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		problems = append(problems, fmt.Errorf("--listen: %w: give host:port, such as 127.0.0.1:8123", err))
	} else if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && o.Password == "" {
		problems = append(problems, fmt.Errorf("--listen: %s is reachable from other machines, which needs a password: set %s", o.Listen, EnvPassword))
	}
	for name, v := range map[string]int64{
		"--max-memory-bytes": o.MaxMemoryBytes, "--max-query-memory-bytes": o.MaxQueryMemoryBytes, "--max-query-time": int64(o.MaxQueryTime),
		"--max-concurrent": int64(o.MaxConcurrent), "--max-queued": int64(o.MaxQueued), "--queue-timeout": int64(o.QueueTimeout),
		"--stall-timeout": int64(o.StallTimeout),
	} {
		if v < 0 {
			problems = append(problems, fmt.Errorf("%s: must not be negative", name))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("engine options: %w", errors.Join(problems...))
	}
	return nil
}

// Serve runs the engine until ctx ends or the parent goes away, then lets running requests finish for a few seconds. An
// error says what was wrong and what to do; nil is an orderly stop.
func Serve(ctx context.Context, opt Options) error {
	if opt.Listen == "" {
		opt.Listen = "127.0.0.1:0"
	}
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	if err := opt.Validate(); err != nil {
		return err
	}
	path, err := chdb.Locate(opt.Library)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(opt.DataDir)
	if err != nil {
		return folderError(opt.DataDir, err)
	}
	// The port comes first: it is cheap to try, and the folder's lock then names it.
	listener, err := net.Listen("tcp", opt.Listen)
	if err != nil {
		return listenError(opt.Listen, err)
	}
	defer listener.Close()
	host, _ := os.Hostname()
	lock, err := openFolder(dir, holder{PID: os.Getpid(), Host: host, Listen: listener.Addr().String(), Started: time.Now().UTC()})
	if err != nil {
		return err
	}
	defer lock.release()
	lib, err := chdb.Load(path)
	if err != nil {
		return err
	}
	handler, err := server.New(lib, server.Options{
		DataDir: filepath.Join(dir, "store"), User: opt.User, Password: opt.Password,
		MaxConcurrent: opt.MaxConcurrent, MaxQueued: opt.MaxQueued, QueueTimeout: opt.QueueTimeout, StallTimeout: opt.StallTimeout,
		MaxMemoryBytes: opt.MaxMemoryBytes, MaxQueryMemoryBytes: opt.MaxQueryMemoryBytes, MaxQueryTime: opt.MaxQueryTime,
		Logger: opt.Logger,
	})
	if err != nil {
		return err
	}
	defer handler.Close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if opt.Parent != nil {
		go func() {
			_, _ = io.Copy(io.Discard, opt.Parent)
			opt.Logger.Info("engine stops: its parent closed the pipe")
			cancel()
		}()
	}
	requests, abort := context.WithCancel(context.Background())
	defer abort()
	httpServer := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       5 * time.Minute,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(opt.Logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- httpServer.Serve(nativeListener{listener}) }()
	if opt.Ready != nil {
		if err := json.NewEncoder(opt.Ready).Encode(ReadyLine{true, listener.Addr().String(), os.Getpid(), lib.Version()}); err != nil {
			return fmt.Errorf("engine: write the ready line: %w", err)
		}
	}
	opt.Logger.Info("engine ready", "addr", listener.Addr().String(), "data_dir", dir, "version", lib.Version(), "confined", first(opt.confined, "no"))
	select {
	case err := <-failed:
		return fmt.Errorf("engine: serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancelDrain := context.WithTimeout(context.Background(), drainTime)
	defer cancelDrain()
	if httpServer.Shutdown(drain) != nil {
		// Statements still running are killed in the engine, then their handlers return.
		opt.Logger.Warn("engine stops with requests still running", "waited", drainTime)
		abort()
		last, cancelLast := context.WithTimeout(context.Background(), drainTime)
		defer cancelLast()
		if err := httpServer.Shutdown(last); err != nil {
			return fmt.Errorf("engine: requests did not end within %s of the stop: %w", 2*drainTime, err)
		}
	}
	return nil
}

func listenError(addr string, err error) error {
	mend := "give another --listen address"
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		mend = "the port is in use: stop what listens there, or give another --listen address"
	case errors.Is(err, unix.EACCES):
		mend = "this user may not take that port: give a --listen port above 1023"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		mend = "that address is not one of this machine: give another --listen address"
	}
	return fmt.Errorf("engine: cannot listen on %s: %w: %s", addr, err, mend)
}
