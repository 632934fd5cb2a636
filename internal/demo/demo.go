package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	"driftline/detector"
	"driftline/internal/chconn"
	"driftline/internal/clock"
	"driftline/internal/daemon"
	"driftline/internal/sim"
	"driftline/internal/standalone"
	"driftline/schema"
)

const (
	// step is how far event time moves at once.
	step = 5 * time.Second
	// DefaultHistory is the healthy history that is back-filled, and DefaultPlay how long
	// the scenario is played after it.
	DefaultHistory = 90 * time.Minute
	DefaultPlay    = 20 * time.Minute
	// batchSpans is the exporter's batch while the history is back-filled; flushEvery is
	// how often everything is written while the scenario plays, a multiple of step.
	batchSpans = 16_384
	flushEvery = 10 * time.Second
	// rollupOverlap is short because the demo's writes have ended before a round begins,
	// and long in event time, which runs many times faster than the stored_at it is about.
	rollupOverlap = 10 * time.Millisecond
	// memoryLimit keeps this process well inside the demo's bound of 1.5 GB, of which the
	// engine may take engineMemory.
	memoryLimit  = 400 << 20
	engineMemory = 900 << 20
	// gcPercent trades memory, which memoryLimit bounds, for the time to the first alert.
	gcPercent = 400
)

// Options are the settings of a demo.
type Options struct {
	Scenario sim.Scenario
	Seed     uint64
	// History and Play default to DefaultHistory and DefaultPlay.
	History, Play time.Duration
	// DataDir takes the engine's data; it must be empty or absent.
	DataDir string
	// Engine are the argv that starts the embedded engine; Library the path of libchdb.so.
	Engine  []string
	Library string
	// UIListen is the address of the UI.
	UIListen string
	// Alertmanagers and Webhooks get the alerts too.
	Alertmanagers, Webhooks []string
	// Now is the wall clock's instant at which the play ends; history lies before it.
	Now time.Time
	// Progress gets one line for each thing worth knowing while it runs.
	Progress func(format string, args ...any)
	// Transition gets each change of an alert as it happens, the internal 504 rule's too.
	Transition func(detector.Alert)
	// Logger takes the log of all parts, EngineLog the engine's own.
	Logger    *slog.Logger
	EngineLog io.Writer
}

// Demo is a played scenario whose UI is up.
type Demo struct {
	// URL is where the UI is.
	URL string
	// Transitions are all changes of alerts in order.
	Transitions []detector.Alert
	// Truth is what was wrong, from the simulator.
	Truth sim.Truth

	daemon  *daemon.Daemon
	storage *standalone.Storage
}

// Play starts every part, back-fills the history, plays the scenario and returns with
// the UI up. Close ends it.
func Play(ctx context.Context, o Options) (_ *Demo, err error) {
	if o.History == 0 {
		o.History = DefaultHistory
	}
	if o.Play == 0 {
		o.Play = DefaultPlay
	}
	start := o.Now.UTC().Truncate(time.Minute).Add(-o.History - o.Play)
	source, err := sim.New(sim.Config{Seed: o.Seed, Start: start, Scenario: o.Scenario, HealthyFor: o.History})
	if err != nil {
		return nil, err
	}
	previous := debug.SetMemoryLimit(memoryLimit)
	defer debug.SetMemoryLimit(previous)
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))

	d := &Demo{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	opt := standalone.Options{
		DataDir: o.DataDir, Engine: o.Engine, Library: o.Library, EngineListen: "127.0.0.1:0", EngineMemoryBytes: engineMemory,
		EngineLog: o.EngineLog, Logger: o.Logger, Schema: schema.Options{Database: schema.DefaultDatabase},
	}
	if d.storage, err = standalone.StartStorage(ctx, opt); err != nil {
		return nil, err
	}
	clk := clock.NewManual(start)
	if d.daemon, err = newDaemon(ctx, o, opt.Schema, d.storage.Target, clk); err != nil {
		return nil, err
	}
	d.URL = d.daemon.URL
	d.daemon.Serve()
	o.Progress("the UI is at %s", d.URL)

	pipe, err := newPipeline(ctx, clk, "http://"+d.storage.Supervisor.Addr(), d.storage.Target.Database(), batchSpans, o.Logger)
	if err != nil {
		return nil, err
	}
	p := &player{Options: o, demo: d, clock: clk, source: source, pipe: pipe}
	if err := p.backfill(ctx, start.Add(o.History)); err != nil {
		return nil, err
	}
	if err := p.play(ctx, start.Add(o.History+o.Play)); err != nil {
		return nil, err
	}
	d.Truth = source.Truth()
	return d, nil
}

func newDaemon(ctx context.Context, o Options, s schema.Options, target chconn.Target, clk clock.Clock) (*daemon.Daemon, error) {
	return daemon.New(ctx, daemon.Options{
		Target: target, Schema: s, UIListen: o.UIListen, Alertmanagers: o.Alertmanagers, Webhooks: o.Webhooks,
		Detector: detector.DefaultConfig(), RollupOverlap: rollupOverlap, Clock: clk, Logger: o.Logger,
		AlertLog: slog.New(slog.DiscardHandler), // the demo prints them itself
	})
}

// Close stops the UI and the engine.
func (d *Demo) Close() error {
	if d.daemon != nil {
		d.daemon.Close(context.Background())
	}
	if d.storage != nil {
		d.storage.Supervisor.Stop()
	}
	return nil
}

// player moves event time and carries spans from the simulator through the pipeline.
type player struct {
	Options
	demo   *Demo
	clock  *clock.Manual
	source *sim.Sim
	pipe   *pipeline
}

// step plays what is exported in the next few seconds, then moves the clock there.
func (p *player) step(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, e := range p.source.Next(p.clock.Now().Add(step)) {
		if err := p.pipe.consume(ctx, e.Traces); err != nil {
			return fmt.Errorf("processor: %w", err)
		}
	}
	p.clock.Advance(step)
	return p.pipe.flush(ctx, false)
}

// backfill plays until the end of the history without judging anything, then computes
// the rollups of all of it in one round.
func (p *player) backfill(ctx context.Context, until time.Time) error {
	began := time.Now()
	from := p.clock.Now()
	next := from
	for p.clock.Now().Before(until) {
		if now := p.clock.Now(); !now.Before(next) {
			p.Progress("back-filling healthy history: %d of %d min", int(now.Sub(from).Minutes()), int(until.Sub(from).Minutes()))
			next = next.Add(until.Sub(from) / 4)
		}
		if err := p.step(ctx); err != nil {
			return err
		}
	}
	if err := p.pipe.flush(ctx, true); err != nil {
		return err
	}
	if _, err := p.demo.daemon.Engine.Evaluate(ctx, p.clock.Now()); err != nil {
		return fmt.Errorf("first evaluation: %w", err)
	}
	p.Progress("back-filled %d min with %d spans in %.1f s; playing %q from %s UTC, seed %d",
		int(until.Sub(from).Minutes()), p.pipe.sent, time.Since(began).Seconds(), p.Scenario, until.Format("15:04"), p.Seed)
	return nil
}

// play moves on in steps and evaluates at the detector's interval, as live running does.
func (p *player) play(ctx context.Context, until time.Time) error {
	began := time.Now()
	from := p.clock.Now()
	interval := detector.DefaultConfig().Interval
	due := from.Add(interval)
	for p.clock.Now().Before(until) {
		if err := p.step(ctx); err != nil {
			return err
		}
		now := p.clock.Now()
		if now.Sub(from)%flushEvery == 0 {
			if err := p.pipe.flush(ctx, true); err != nil {
				return err
			}
		}
		if now.Before(due) {
			continue
		}
		due = due.Add(interval)
		round, err := p.demo.daemon.Engine.Evaluate(ctx, now)
		if err != nil {
			return fmt.Errorf("evaluate %s: %w", now.Format(time.RFC3339), err)
		}
		for _, a := range round.Changes {
			p.demo.Transitions = append(p.demo.Transitions, a)
			p.Transition(a)
		}
	}
	p.Progress("played %d min in %.1f s", int(until.Sub(from).Minutes()), time.Since(began).Seconds())
	return nil
}
