//go:build linux || darwin

package engine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"driftline/internal/chdb"
)

// Main is the whole of an engine program: flags in args, the ready line on standard output, the log on standard error, the
// parent's pipe on standard input when --parent-pipe is given. It returns the exit code: 0 for an orderly stop, 1 for a failure, 2 for bad flags.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opt := Options{Password: os.Getenv(EnvPassword), Ready: stdout}
	fs := flag.NewFlagSet("engine", flag.ContinueOnError)
	fs.SetOutput(stderr)
	opt.AddFlags(fs)
	parent := fs.Bool("parent-pipe", false, "stop when standard input ends")
	confined := fs.String("confine", "auto", "auto: where the kernel can (Landlock), keep the process from files outside its folder and from outgoing TCP; off: do not")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	err := opt.Validate()
	if *confined != "auto" && *confined != "off" {
		err = errors.Join(err, fmt.Errorf("--confine: want auto or off, not %q", *confined))
	}
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 2
	}
	opt.confined = "no: --confine=off"
	if *confined == "auto" {
		opt.confined = confineTo(opt)
	}
	pipe, err := detachStdin()
	if err != nil {
		fmt.Fprintln(stderr, "error: engine: set standard input aside:", err)
		return 1
	}
	if *parent {
		opt.Parent = pipe
	}
	opt.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := Serve(ctx, opt); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	return 0
}

// detachStdin moves standard input to another descriptor and puts the null device in its place, since the engine reads
// standard input for some statements.
func detachStdin() (*os.File, error) {
	fd, err := syscall.Dup(0)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	if err := replaceFile(null, 0); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "parent"), nil
}

// confineTo confines the process to the options' folder. What is wrong with the folder or the library is told later, by [Serve].
func confineTo(opt Options) string {
	library, err := chdb.Locate(opt.Library)
	if err != nil {
		return "no: " + err.Error()
	}
	if library, err = filepath.EvalSymlinks(library); err != nil {
		return "no: " + err.Error()
	}
	dir, err := filepath.Abs(opt.DataDir)
	if err != nil {
		return "no: " + err.Error()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "no: " + err.Error()
	}
	return confine(dir, library)
}
