package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"driftline/internal/engine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == engineCommand {
		os.Exit(engine.Main(ctx, os.Args[2:], os.Stdout, os.Stderr))
	}
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "querybench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	fs := flag.NewFlagSet("querybench", flag.ContinueOnError)
	attempts := fs.Int("attempts", 50_000_000, "attempts in the large dataset")
	days := fs.Int("days", 30, "days of the large dataset")
	slices := fs.Int("slices", 1000, "slices (service, agent, kind, target, streaming)")
	dir := fs.String("dir", "", "keep the data in this folder, and use what is there; default: a temporary folder")
	seed := fs.Uint64("seed", 1, "seed of the generated rows")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		temp, err := os.MkdirTemp("", "driftline-querybench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		*dir = temp
	}
	progress := func(format string, a ...any) { fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", a...) }
	s := shape{seed: *seed, days: *days, attempts: *attempts, slices: *slices, to: time.Now().UTC().Truncate(time.Hour)}
	log, err := os.Create(filepath.Join(*dir, "engine.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	d := &db{dir: filepath.Join(*dir, "data"), log: log}
	if err := d.start(ctx, "--max-memory-bytes=8000000000", "--max-query-time=1h"); err != nil {
		return err
	}
	defer d.stop()
	return d.build(ctx, s, "large", progress)
}
