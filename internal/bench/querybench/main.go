package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
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
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "querybench:", err)
		os.Exit(1)
	}
}

// smallDays is how many of the last days the small dataset has.
const smallDays = 3

type options struct {
	attempts, days, slices, runs int
	seed                         uint64
	settle                       time.Duration
	dir, out, only               string
	load, dense                  bool
}

// made says what a data folder holds.
type made struct {
	Attempts, Days, Slices int
	Seed                   uint64
	To                     time.Time
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	var o options
	flags := flag.NewFlagSet("querybench", flag.ContinueOnError)
	flags.IntVar(&o.attempts, "attempts", 50_000_000, "attempts in the large dataset")
	flags.IntVar(&o.days, "days", 30, fmt.Sprintf("days of the large dataset; the small one is its last %d", smallDays))
	flags.IntVar(&o.slices, "slices", 1000, "slices (service, agent, kind, target, streaming)")
	flags.IntVar(&o.runs, "runs", 7, "warm runs of each query, of which the median counts")
	flags.StringVar(&o.dir, "dir", "", "keep the data in this folder and use again what is there; default: a temporary folder")
	flags.StringVar(&o.out, "out", "", "write the tables into this page; default: only print them")
	flags.StringVar(&o.only, "only", "", "measure only the queries whose name has this in it, and print no tables")
	flags.BoolVar(&o.load, "load", false, "measure a start of the detector on the large dataset instead of the queries")
	flags.BoolVar(&o.dense, "dense", false, "with --load: on slices with 0.5 to 50 calls a minute each, of which only the rollup of operations is made")
	flags.DurationVar(&o.settle, "settle", 11*time.Minute, "let data that was just made grow so old before queries are measured: the rollup job looks for new rows in young parts, and those of 30 days are not young")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the generated rows")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q: there are flags only, see --help", flags.Arg(0))
	}
	if o.attempts < 1000 || o.days < smallDays || o.slices < targetsPerAgent || o.runs < 1 {
		return fmt.Errorf("want --attempts of 1000 or more, --days of %d or more, --slices of %d or more, --runs of 1 or more", smallDays, targetsPerAgent)
	}
	if o.only != "" && o.out != "" {
		return fmt.Errorf("--only leaves queries out: it cannot write the page that --out names")
	}
	if o.dir == "" {
		temp, err := os.MkdirTemp("", "driftline-querybench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		o.dir = temp
	} else if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	progress := func(format string, a ...any) { fmt.Fprintf(log, time.Now().Format("15:04:05 ")+format+"\n", a...) }
	engineLog, err := os.Create(filepath.Join(o.dir, "engine.log"))
	if err != nil {
		return err
	}
	defer engineLog.Close()
	d := &db{dir: filepath.Join(o.dir, "data"), log: engineLog}
	defer d.stop()
	s, err := prepare(ctx, d, o, progress)
	if err != nil {
		return err
	}
	if o.load && o.dense {
		if err := d.buildDense(ctx, s, progress); err != nil {
			return err
		}
		return measureLoad(ctx, d, s, dense, o, out, progress)
	}
	if o.load {
		return measureLoad(ctx, d, s, large, o, out, progress)
	}
	if err := settle(ctx, filepath.Join(o.dir, marker), o.settle, progress); err != nil {
		return err
	}
	return measure(ctx, d, s, o, out, progress)
}

// marker is the file that says what a folder holds, written when it is complete.
const marker = "made.json"

// settle waits until a file is so old.
func settle(ctx context.Context, file string, age time.Duration, progress func(string, ...any)) error {
	f, err := os.Stat(file)
	if err != nil {
		return err
	}
	left := age - time.Since(f.ModTime())
	if left <= 0 {
		return nil
	}
	progress("wait for %.0f s until the data's parts are not young", left.Seconds())
	select {
	case <-time.After(left):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// prepare makes the datasets unless the folder has them.
func prepare(ctx context.Context, d *db, o options, progress func(string, ...any)) (shape, error) {
	want := made{Attempts: o.attempts, Days: o.days, Slices: o.slices, Seed: o.seed}
	s := shape{step: time.Hour, seed: o.seed, days: o.days, attempts: o.attempts, slices: o.slices, to: time.Now().UTC().Truncate(time.Hour)}
	file := filepath.Join(o.dir, marker)
	text, err := os.ReadFile(file)
	if err == nil {
		var have made
		if err := json.Unmarshal(text, &have); err != nil {
			return s, fmt.Errorf("%s: %w: delete the folder", file, err)
		}
		s.to, have.To = have.To, time.Time{}
		if have != want {
			return s, fmt.Errorf("%s holds other data (%+v): delete it or give its flags", o.dir, have)
		}
		progress("use the data in %s, which ends at %s", o.dir, s.to.Format(time.RFC3339))
		return s, d.upgrade(ctx, s, o.dir)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if err := d.startLarge(ctx); err != nil {
		return s, err
	}
	defer d.stop()
	if err := d.build(ctx, s, large, progress); err != nil {
		return s, err
	}
	if err := d.cut(ctx, s, large, small, smallDays); err != nil {
		return s, err
	}
	want.To = s.to
	if text, err = json.Marshal(want); err != nil {
		return s, err
	}
	return s, os.WriteFile(file, text, 0o600)
}

// The two datasets.
const (
	large = "large"
	small = "small"
)
