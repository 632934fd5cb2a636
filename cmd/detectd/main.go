// Command detectd is driftline's detector: it warns minutes before LLM latency
// becomes errors. See `detectd --help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes: 0 success, 1 failure, 2 wrong usage; demo and check have their own
// meaning for 1, said in their help.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newRoot().ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	var usage usageError
	if errors.As(err, &usage) {
		os.Exit(exitUsage)
	}
	os.Exit(exitFailure)
}

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage joins mistakes into one error; nil if there are none.
func usage(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}
