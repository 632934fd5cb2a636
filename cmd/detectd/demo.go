package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"driftline/detector"
	"driftline/internal/demo"
	"driftline/internal/sim"
)

type demoFlags struct {
	scenario, output, data, library, ui string
	seed                                uint64
	headless                            bool
	history, play                       time.Duration
	alertmanagers, webhooks             []string
}

func newDemo(g *global) *cobra.Command {
	f := &demoFlags{}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play a simulated incident and see it warned of before the 504s",
		Long: `demo starts the embedded engine and the UI on loopback, back-fills a healthy history, and
plays a scenario in compressed time through the processor, exporter, rollups and detections
that run live. It prints each alert as it fires, and its lead over the classic alert on a 504
share above 5 % for two minutes.

It exits 0 only if the scenario went as it must: incident: retry_bimodality, deadline_drift
and p95_spread fired before the 504 alert; healthy and more-steps: nothing paged.`,
		Example: `  detectd demo
  detectd demo --headless --output json --seed 7
  detectd demo --scenario more-steps --headless`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("seed") {
				f.seed = rand.Uint64() % 1_000_000
			}
			return runDemo(c.Context(), g, f, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.scenario, "scenario", string(sim.ScenarioIncident), "incident, healthy or more-steps")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of the simulated traffic; random and printed by default")
	fs.BoolVar(&f.headless, "headless", false, "end after the play instead of leaving the UI up until Ctrl-C")
	fs.DurationVar(&f.history, "history", demo.DefaultHistory, "healthy history to back-fill")
	fs.DurationVar(&f.play, "play", demo.DefaultPlay, "how much of the scenario to play")
	fs.StringVar(&f.data, "data", "", "folder for the engine's data, kept afterwards; a temporary one by default")
	fs.StringVar(&f.library, "libchdb", "", "path of libchdb.so; found by itself by default")
	fs.StringVar(&f.ui, "ui-listen", "127.0.0.1:8686", "address of the UI; a free port is taken if this one is in use by default")
	fs.StringArrayVar(&f.alertmanagers, "alertmanager", nil, "URL of an Alertmanager that gets the alerts too; may be repeated")
	fs.StringArrayVar(&f.webhooks, "webhook", nil, "URL of a webhook that gets the alerts too; may be repeated")
	outputFlag(c, &f.output)
	return c
}

func (f *demoFlags) validate() error {
	var errs []error
	if err := checkOutput(f.output); err != nil {
		errs = append(errs, err)
	}
	known := false
	for _, s := range sim.Scenarios() {
		known = known || string(s) == f.scenario
	}
	if !known {
		errs = append(errs, fmt.Errorf("--scenario %q: want one of %v", f.scenario, sim.Scenarios()))
	}
	if f.history < 40*time.Minute || f.history > 24*time.Hour {
		errs = append(errs, fmt.Errorf("--history %s: want 40m to 24h; a baseline needs that much", f.history))
	}
	if f.play < time.Minute || f.play > 4*time.Hour {
		errs = append(errs, fmt.Errorf("--play %s: want 1m to 4h", f.play))
	}
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}

func runDemo(ctx context.Context, g *global, f *demoFlags, stdout, stderr io.Writer) (err error) {
	if err := f.validate(); err != nil {
		return err
	}
	// The play prints what matters; the log only adds what went wrong.
	if g.logLevel == "info" {
		g.logLevel = "error"
	}
	logger, err := g.logger()
	if err != nil {
		return err
	}
	dir, remove, err := demoFolder(f.data)
	if err != nil {
		return err
	}
	defer remove()
	argv, err := engineArgv()
	if err != nil {
		return err
	}
	engineLog, err := os.Create(filepath.Join(dir, "engine.log"))
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	defer engineLog.Close()

	progress := func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	progress("scenario %s, seed %d (repeat it with --seed %d)", f.scenario, f.seed, f.seed)
	began := time.Now()
	first := true
	var seen []detector.Alert
	d, err := demo.Play(ctx, demo.Options{
		Scenario: sim.Scenario(f.scenario), Seed: f.seed, History: f.history, Play: f.play,
		DataDir: dir, Engine: argv, Library: f.library, UIListen: freeIfTaken(f.ui, logger),
		Alertmanagers: f.alertmanagers, Webhooks: f.webhooks, Now: time.Now(),
		Progress: progress, Logger: logger, EngineLog: engineLog,
		Transition: func(a detector.Alert) {
			seen = append(seen, a)
			if f.output == "table" {
				printTransition(stdout, a)
			}
			if first && a.State == detector.Firing {
				first = false
				progress("first alert %.1f s after the start", time.Since(began).Seconds())
			}
		},
	})
	if ctx.Err() != nil {
		return errors.Join(errors.New("interrupted before the scenario was played to its end"), printOutcome(stdout, f.output, seen))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := printOutcome(stdout, f.output, d.Transitions); err != nil {
		return err
	}
	verdict := demo.Check(sim.Scenario(f.scenario), d.Transitions)
	if verdict == nil {
		progress("the scenario went as it must")
	}
	if !f.headless {
		if verdict != nil {
			progress("NOT as it must: %v", verdict)
		}
		progress("the UI stays up at %s until Ctrl-C", d.URL)
		<-ctx.Done()
	}
	return verdict
}

// printTransition says in one line what changed, as it happens.
func printTransition(w io.Writer, a detector.Alert) {
	if a.State == detector.Pending {
		return
	}
	state := a.State
	if a.State == detector.Firing {
		state = a.Severity
	}
	fmt.Fprintf(w, "%s  %-9s %-17s %s\n", a.At.UTC().Format("15:04:05"), state, a.Detection, a.Annotations["summary"])
	if a.State == detector.Firing {
		fmt.Fprintf(w, "          %s\n", a.Annotations["description"])
	}
}

// printOutcome states the lead of each alert; only now is the 504 alert's time known.
func printOutcome(w io.Writer, output string, transitions []detector.Alert) error {
	first504 := demo.First504(transitions)
	enc := json.NewEncoder(w)
	told := map[string]bool{}
	for _, a := range transitions {
		l := demo.NewLine(a, first504)
		if output == "json" {
			if err := enc.Encode(l); err != nil {
				return err
			}
			continue
		}
		if a.State == detector.Firing && l.LeadSeconds != nil && a.Detection != detector.Alert504 && !told[a.Fingerprint] {
			told[a.Fingerprint] = true
			fmt.Fprintf(w, "lead of %s on %s: %s before the 504 alert\n", a.Detection, a.Slice,
				time.Duration(*l.LeadSeconds*float64(time.Second)).Round(time.Second))
		}
	}
	return nil
}

// demoFolder returns the folder to use and what to do with it afterwards.
func demoFolder(given string) (dir string, remove func(), err error) {
	if given != "" {
		entries, err := os.ReadDir(given)
		if err == nil && len(entries) > 0 {
			return "", nil, fmt.Errorf("--data %s is not empty: the demo plays into a fresh folder; name another or remove it", given)
		}
		if err := os.MkdirAll(given, 0o750); err != nil {
			return "", nil, fmt.Errorf("--data: %w; give a folder that this user may write to", err)
		}
		return given, func() {}, nil
	}
	dir, err = os.MkdirTemp("", "driftline-demo-")
	if err != nil {
		return "", nil, fmt.Errorf("temporary folder: %w; give one with --data", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

// freeIfTaken falls back to a free port if the default one is in use, so that a demo
// beside a running detectd works.
func freeIfTaken(addr string, logger *slog.Logger) string {
	if addr != "127.0.0.1:8686" || canListen(addr) {
		return addr
	}
	logger.Warn("port in use, taking a free one", "addr", addr)
	return "127.0.0.1:0"
}
