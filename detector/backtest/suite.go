package backtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"driftline/detector"
)

// Options say what to play.
type Options struct {
	// Config is the engine's under test.
	Config detector.Config
	Seed   uint64
	// Kinds are the names of the kinds to play; empty is all but the held-out ones, or with
	// HeldOut all.
	Kinds []string
	// PerKind is how many scenarios of each kind are drawn.
	PerKind int
	// HeldOut adds the held-out kinds and draws from the reserved parts of all ranges too.
	HeldOut bool
	// HealthyDays times HealthySlices are how much healthy traffic is played; 0 days is none.
	HealthyDays, HealthySlices int
	// Workers is how many runs go on at once; 0 is one per processor. It changes no result.
	Workers int
	// Progress, if not nil, is told what is done; it is not called twice at once.
	Progress func(line string)
}

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	var errs []error
	known := map[string]bool{}
	var names []string
	for _, k := range Kinds() {
		known[k.Name] = true
		names = append(names, k.Name)
	}
	for _, k := range o.Kinds {
		if !known[k] {
			errs = append(errs, fmt.Errorf("scenario kind %q: want one of %v", k, names))
		}
	}
	if o.PerKind < 0 || o.PerKind > 1000 {
		errs = append(errs, fmt.Errorf("%d scenarios per kind: want 0 to 1000", o.PerKind))
	}
	if o.HealthyDays < 0 || o.HealthyDays > 3650 {
		errs = append(errs, fmt.Errorf("%d healthy days: want 0 to 3650", o.HealthyDays))
	}
	if o.HealthySlices < slicesPerAgent || o.HealthySlices > 1000 {
		errs = append(errs, fmt.Errorf("%d healthy slices: want %d to 1000", o.HealthySlices, slicesPerAgent))
	}
	if o.Workers < 0 {
		errs = append(errs, fmt.Errorf("%d workers: want 0 for one per processor, or more", o.Workers))
	}
	if o.PerKind == 0 && o.HealthyDays == 0 {
		errs = append(errs, errors.New("neither scenarios nor healthy days: there is nothing to play"))
	}
	return errors.Join(append(errs, o.Config.Validate())...)
}

func (o Options) scenarios() []*Scenario {
	var out []*Scenario
	for _, k := range Kinds() {
		if len(o.Kinds) > 0 && !slices.Contains(o.Kinds, k.Name) || len(o.Kinds) == 0 && k.HeldOut && !o.HeldOut {
			continue
		}
		for i := range o.PerKind {
			out = append(out, NewScenario(k, i, o.Seed, o.HeldOut))
		}
	}
	return out
}

// Play plays the suite and scores it. One seed and one set of options give one report,
// whatever the number of workers.
func Play(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	scenarios, parts := o.scenarios(), chunks(o.Seed, o.HealthyDays, o.HealthySlices)
	results, healthy := make([]*Result, len(scenarios)), make([]*healthyResult, len(parts))
	var mu sync.Mutex
	say := func(format string, args ...any) {
		if o.Progress != nil {
			mu.Lock()
			defer mu.Unlock()
			o.Progress(fmt.Sprintf(format, args...))
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	days, pages := 0, 0
	// The long ones first, so that none is left alone at the end.
	for i, c := range parts {
		g.Go(func() (err error) {
			healthy[i], err = soak(ctx, o.Config, c, func(day int, paged []Page) {
				mu.Lock()
				days, pages = days+1, pages+len(paged)
				done, sent := days, pages
				mu.Unlock()
				for _, p := range paged {
					say("healthy fleet %d, day %d: %s %s at %s on %s of %s: %s", i+1, day, p.Severity, p.Detection, p.At.Format(time.DateTime), p.Slice, p.Slice.Service, p.Text)
				}
				say("healthy day %d of %d, %d pages", done, o.HealthyDays, sent)
			})
			return err
		})
	}
	done := 0
	for i, sc := range scenarios {
		g.Go(func() (err error) {
			results[i], err = Run(ctx, o.Config, sc)
			if err != nil {
				return err
			}
			mu.Lock()
			done++
			n := done
			mu.Unlock()
			say("scenario %d of %d: %s", n, len(scenarios), sc.Name())
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return score(o, results, healthy), nil
}
