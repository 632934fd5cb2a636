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
	"syscall"
)

// Main is the whole of an engine program: flags in args, the ready line on stdout, the log on stderr, the parent's pipe on
// stdin when --parent-pipe is given. It returns the exit code: 0 for an orderly stop, 1 for a failure, 2 for bad flags.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opt := Options{Password: os.Getenv(EnvPassword), Ready: stdout}
	fs := flag.NewFlagSet("engine", flag.ContinueOnError)
	fs.SetOutput(stderr)
	opt.AddFlags(fs)
	parent := fs.Bool("parent-pipe", false, "stop when standard input ends")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if *parent {
		opt.Parent = stdin
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
