package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"driftline/detector"
	"driftline/detector/memory"
	"driftline/detector/rollup"
	"driftline/detector/store"
	"driftline/internal/clock"
)

// Options say what to replay.
type Options struct {
	Config detector.Config
	// From and To bound the rounds: their times, not those of the windows they read.
	From, To time.Time
	// Speed is how many times faster than life rounds follow each other; 0 is as fast as they
	// can be run.
	Speed float64
	// Transition gets each alert that fires or resolves, shadow ones included, and Round each
	// round with its time, after it. Both may be nil.
	Transition func(detector.Alert)
	Round      func(now time.Time, round detector.Round)
	// Sleep waits between rounds where Speed is not 0; nil is by the machine's clock.
	Sleep func(ctx context.Context, d time.Duration) error
	// Logger gets what is not an alert; nil is nowhere.
	Logger *slog.Logger
}

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	var errs []error
	if !o.From.Before(o.To) {
		errs = append(errs, fmt.Errorf("from %s to %s: want the first before the second", o.From.UTC().Format(time.RFC3339), o.To.UTC().Format(time.RFC3339)))
	}
	if !(o.Speed >= 0) {
		errs = append(errs, fmt.Errorf("speed %v: want 0 for as fast as possible, or how many times faster than life", o.Speed))
	}
	return errors.Join(append(errs, o.Config.Validate())...)
}

// Stats say what a replay did.
type Stats struct {
	Rounds int
	// Verdicts counts those that said something, that is, had traffic and a baseline.
	Verdicts int
	// Fired counts alerts that would have been sent, Shadow those that would only have been
	// stored, the late rule among them.
	Fired, Shadow int
}

// readOnly reads the past from a real store and keeps what the engine writes to itself. It
// also stands for the rollup: the stored cells are what they are.
type readOnly struct {
	detector.Store
	own *memory.Store
}

func (r readOnly) SaveAlerts(context.Context, []store.AlertRow) error { return nil }

func (r readOnly) LoadState(ctx context.Context, key string) (string, bool, error) {
	return r.own.LoadState(ctx, key)
}

func (r readOnly) SaveState(ctx context.Context, key, state string, version uint64) error {
	return r.own.SaveState(ctx, key, state, version)
}

// Run names no minute as changed, but a service, so that the engine drops what is old.
func (r readOnly) Run(context.Context, time.Time) (rollup.Stats, error) {
	return rollup.Stats{Touched: map[string][]int64{"": nil}}, nil
}

// Run replays. Late rows are in the past's cells from the start, so a replay sees a little
// more than the live engine saw at that time.
func Run(ctx context.Context, o Options, st detector.Store) (Stats, error) {
	var stats Stats
	if err := o.Validate(); err != nil {
		return stats, err
	}
	sleep := o.Sleep
	if sleep == nil {
		sleep = wait
	}
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	ro := readOnly{Store: st, own: memory.New()}
	e, err := detector.New(o.Config, ro, ro, nil, clock.NewManual(o.From), detector.WithLogger(logger))
	if err != nil {
		return stats, err
	}
	told := map[string]bool{}
	for now := o.From; !now.After(o.To); now = now.Add(o.Config.Interval) {
		began := time.Now()
		r, err := e.Evaluate(ctx, now)
		if err != nil {
			return stats, fmt.Errorf("round of %s: %w", now.UTC().Format(time.RFC3339), err)
		}
		stats.Rounds++
		for _, v := range r.Verdicts {
			if v.Level != detector.Insufficient && v.Level != detector.NoBaseline {
				stats.Verdicts++
			}
		}
		for _, a := range r.Changes {
			if a.State == detector.Pending || a.FiredAt.IsZero() {
				continue
			}
			if key := fmt.Sprint(a.Fingerprint, a.FiredAt.UnixNano()); a.State == detector.Firing && !told[key] {
				told[key] = true
				if a.Shadow {
					stats.Shadow++
				} else {
					stats.Fired++
				}
			}
			if o.Transition != nil {
				o.Transition(a)
			}
		}
		if o.Round != nil {
			o.Round(now, r)
		}
		if o.Speed > 0 {
			pause := time.Duration(float64(o.Config.Interval)/o.Speed) - time.Since(began)
			if err := sleep(ctx, max(0, pause)); err != nil {
				return stats, err
			}
		}
	}
	return stats, nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
