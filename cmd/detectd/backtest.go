package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"driftline/detector/backtest"
	"driftline/detector/backtest/series"
	"driftline/internal/settings"
)

type backtestFlags struct {
	config, output      string
	seed                uint64
	scenarios           []string
	perKind             int
	heldOut             bool
	healthyDays, slices int
	workers             int
	csv, unit           string
}

func newBacktest() *cobra.Command {
	f := &backtestFlags{}
	c := &cobra.Command{
		Use:   "backtest",
		Short: "Score detection against simulated incidents whose truth is known",
		Long: `backtest draws incidents and healthy traffic from a seed, plays them through the engine that
runs live, in event time and in memory, and scores what it sends: recall, precision, lead over
the 504 alert, and lead over headroom, which an oracle that knows all parameters computes. The
same is said of a static threshold on P95 and of three sigma on P95, both set to page on as much
healthy traffic as the detector does. One seed gives one result.

With --output json the object's "total" has the figures over all scenarios.

With --csv it runs the detections of P95 over a file of lines "timestamp,value" instead, one latency
each, and prints what would have been sent. Timestamps are RFC 3339, or seconds, ms, us or ns since 1970.`,
		Example: `  detectd backtest --seed 7
  detectd backtest --seed 7 --scenarios tool_503_storm,queueing --healthy-days 0
  detectd backtest --seed 7 --held-out --healthy-days 90 --output json
  detectd backtest --csv latencies.csv --unit ms`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c.Flags().Changed); err != nil {
				return usageError{err}
			}
			if f.csv != "" {
				return runCSV(c.Context(), f, c.InOrStdin(), c.OutOrStdout())
			}
			if !c.Flags().Changed("seed") {
				f.seed = rand.Uint64() % 1_000_000
			}
			return runBacktest(c.Context(), f, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.config, "config", "", "YAML file with the settings of detection; the defaults without it")
	fs.Uint64Var(&f.seed, "seed", 0, "base of all seeds; random and printed by default")
	fs.StringSliceVar(&f.scenarios, "scenarios", nil, "kinds of incidents to play; all but the held-out ones by default")
	fs.IntVar(&f.perKind, "per-kind", 5, "scenarios of each kind")
	fs.BoolVar(&f.heldOut, "held-out", false, "play the kinds and parameters that tuning must not see too")
	fs.IntVar(&f.healthyDays, "healthy-days", 2, "days of healthy traffic; 0 is none")
	fs.IntVar(&f.slices, "healthy-slices", 100, "slices of healthy traffic")
	fs.IntVar(&f.workers, "workers", 0, "runs at once; one per processor by default; changes no result")
	fs.StringVar(&f.csv, "csv", "", "file of lines timestamp,value to run the detections of P95 over, - for standard input")
	fs.StringVar(&f.unit, "unit", "s", "unit of the values in --csv: ns, us, ms or s")
	outputFlag(c, &f.output)
	return c
}

// check reports every flag that means nothing beside the others, rather than leave it out.
func (f *backtestFlags) check(given func(flag string) bool) error {
	var errs []error
	if !given("csv") {
		if given("unit") {
			errs = append(errs, errors.New("--unit: is of the values in --csv, which is not given"))
		}
		return errors.Join(errs...)
	}
	if f.csv == "" {
		errs = append(errs, errors.New("--csv: want the name of a file, or - for standard input"))
	}
	for _, name := range []string{"seed", "scenarios", "per-kind", "held-out", "healthy-days", "healthy-slices", "workers"} {
		if given(name) {
			errs = append(errs, fmt.Errorf("--%s: is of the simulated suite, and --csv judges a file instead", name))
		}
	}
	return errors.Join(errs...)
}

// runCSV judges a plain series.
func runCSV(ctx context.Context, f *backtestFlags, in io.Reader, stdout io.Writer) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	cfg, err := settings.Load(f.config)
	if err != nil {
		return err
	}
	if f.csv != "-" {
		file, err := os.Open(f.csv)
		if err != nil {
			return fmt.Errorf("--csv: %w", err)
		}
		defer file.Close()
		in = file
	}
	points, err := series.Read(in, f.unit)
	if err != nil {
		return fmt.Errorf("%s: %w", f.csv, err)
	}
	alerts, err := series.Run(ctx, cfg, points)
	if err != nil {
		return fmt.Errorf("%s: %w", f.csv, err)
	}
	if f.output == "table" && len(alerts) == 0 {
		_, err := fmt.Fprintf(stdout, "%d values, no alert\n", len(points))
		return err
	}
	for _, a := range alerts {
		if err := printReplayed(stdout, f.output, a); err != nil {
			return err
		}
	}
	return nil
}

func runBacktest(ctx context.Context, f *backtestFlags, stdout, stderr io.Writer) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	cfg, err := settings.Load(f.config)
	if err != nil {
		return err
	}
	// Most of what a run makes is short-lived, and memory is plenty.
	debug.SetGCPercent(400)
	began := time.Now()
	o := backtest.Options{Config: cfg, Seed: f.seed, Kinds: f.scenarios, PerKind: f.perKind, HeldOut: f.heldOut, HealthyDays: f.healthyDays, HealthySlices: f.slices, Workers: f.workers,
		Progress: func(line string) { fmt.Fprintf(stderr, "%6.1f s  %s\n", time.Since(began).Seconds(), line) }}
	if err := o.Validate(); err != nil {
		return usageError{err}
	}
	fmt.Fprintf(stderr, "seed %d (repeat it with --seed %d)\n", f.seed, f.seed)
	r, err := backtest.Play(ctx, o)
	if err != nil {
		return err
	}
	if f.output == "json" {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return r.Table(stdout)
}
