package backtest

import (
	"context"
	"fmt"
	"time"

	"driftline/detector"
	"driftline/detector/backtest/traffic"
	"driftline/detector/memory"
	"driftline/internal/clock"
	"driftline/internal/rows"
)

// lag is how long after its end a row arrives, and evalAfter how long after a minute's end the
// engine's round comes: the delay of 30 s and a round that happens to come 5 s later.
const (
	lag       = 3 * time.Second
	evalAfter = 35 * time.Second
	// blindMinutes are played before the first round.
	blindMinutes = 60
)

var start = time.Unix(traffic.Start, 0).UTC()

// at is an instant by its seconds since the start.
func at(sec float64) time.Time { return start.Add(time.Duration(sec * float64(time.Second))) }

// Page is an alert that was sent, at the time of sending.
type Page struct {
	At        time.Time      `json:"at"`
	Detection string         `json:"detection"`
	Slice     detector.Slice `json:"slice"`
	Severity  string         `json:"severity"`
	Text      string         `json:"text"`
}

// pager keeps what was sent, once per alert.
type pager struct {
	pages []Page
	seen  map[string]bool
	now   time.Time
}

// Name is the notifier's.
func (*pager) Name() string { return "backtest" }

// Notify takes alerts; repeats, resolves and rises of severity are no pages.
func (p *pager) Notify(_ context.Context, alerts []detector.Alert) error {
	for _, a := range alerts {
		key := fmt.Sprint(a.Fingerprint, a.FiredAt.UnixNano())
		if a.Resend || a.Shadow || a.State != detector.Firing || p.seen[key] {
			continue
		}
		p.seen[key] = true
		p.pages = append(p.pages, Page{At: p.now, Detection: a.Detection, Slice: a.Slice, Severity: a.Severity, Text: a.Annotations["description"]})
	}
	return nil
}

// drive runs an engine round by round in event time over traffic.
type drive struct {
	engine *detector.Engine
	store  *memory.Store
	pager  *pager
	gen    *traffic.Generator
	rivals *rivalSeries
	minute int
}

// stored puts rows into the store; lost says which do not arrive.
type stored struct {
	store *memory.Store
	lost  func(service string, ended int64) bool
	tap   traffic.Sink
}

// Request stores a request.
func (s *stored) Request(r *rows.Request) {
	if s.lost != nil && s.lost(r.ServiceName, r.EndedAt) {
		return
	}
	s.store.AddRequests(lag, r)
	if s.tap != nil {
		s.tap.Request(r)
	}
}

// Operation stores an operation.
func (s *stored) Operation(o *rows.Operation) {
	if s.lost != nil && s.lost(o.ServiceName, o.EndedAt) {
		return
	}
	s.store.AddOperations(o)
	if s.tap != nil {
		s.tap.Operation(o)
	}
}

// Attempt stores an attempt.
func (s *stored) Attempt(a *rows.Attempt) {
	if s.lost != nil && s.lost(a.ServiceName, a.EndedAt) {
		return
	}
	s.store.AddAttempts(a)
}

func newDrive(cfg detector.Config, seed uint64, agents []*traffic.Agent, sink *stored) (*drive, error) {
	d := &drive{store: memory.New(), pager: &pager{seen: map[string]bool{}}, rivals: newRivalSeries()}
	sink.store = d.store
	d.gen = traffic.New(seed, agents, sink)
	e, err := detector.New(cfg, d.store, d.store, []detector.Notifier{d.pager}, clock.NewManual(start))
	d.engine = e
	return d, err
}

// step plays a minute and the round that judges it. Rounds begin after blindMinutes.
func (d *drive) step(ctx context.Context) ([]detector.Alert, error) {
	d.gen.Minute(d.minute)
	d.minute++
	end := start.Add(time.Duration(d.minute) * time.Minute)
	if err := d.rivals.read(ctx, d.store, end); err != nil {
		return nil, err
	}
	if d.minute < blindMinutes {
		return nil, nil
	}
	if d.minute%60 == 0 {
		d.store.Forget(end.Add(-keepHours * time.Hour))
	}
	d.pager.now = end.Add(evalAfter)
	r, err := d.engine.Evaluate(ctx, d.pager.now)
	return r.Changes, err
}

// keepHours is how much of the past the store keeps, a little more than the baseline.
const keepHours = 27

// Result is what one scenario gave.
type Result struct {
	Scenario *Scenario
	Onset    time.Time
	// Alert504 is when the late rule fired on the agent that was hit; zero if it did not.
	Alert504 time.Time
	// Oracle is when the oracle alarmed; zero where there is none.
	Oracle time.Time
	Pages  []Page
	Ended  time.Time
	series *rivalSeries
}

// Run plays a scenario.
func Run(ctx context.Context, cfg detector.Config, sc *Scenario) (*Result, error) {
	res := &Result{Scenario: sc, Onset: at(sc.OnsetSec)}
	onset := res.Onset.UnixNano()
	sink := &stored{}
	seen := newFeatures(sc.Hit.Service)
	sink.tap = seen
	if sc.Kind.Outage {
		sink.lost = func(service string, ended int64) bool { return service == sc.Hit.Service && ended >= onset }
	}
	d, err := newDrive(cfg, sc.Seed, sc.Agents, sink)
	if err != nil {
		return nil, err
	}
	for d.minute < sc.MaxMinutes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		changes, err := d.step(ctx)
		if err != nil {
			return nil, fmt.Errorf("scenario %s, minute %d: %w", sc.Name(), d.minute, err)
		}
		for _, c := range changes {
			if c.Detection == detector.Alert504 && c.State == detector.Firing && c.Slice.Service == sc.Hit.Service && res.Alert504.IsZero() && c.FiredAt.After(res.Onset) {
				res.Alert504 = c.FiredAt
			}
		}
		now := start.Add(time.Duration(d.minute) * time.Minute)
		if !res.Alert504.IsZero() && now.Sub(res.Alert504) >= tail || sc.Kind.Outage && now.Sub(res.Onset) >= outageLength {
			break
		}
	}
	res.Pages, res.Ended, res.series = d.pager.pages, start.Add(time.Duration(d.minute)*time.Minute), d.rivals
	if !res.Alert504.IsZero() && !sc.Kind.Outage {
		res.Oracle = oracle(sc, res.Alert504, seen)
	}
	return res, nil
}

// tail is how long a run goes on after the 504 alert, outageLength how long an outage lasts.
const (
	tail         = 10 * time.Minute
	outageLength = 40 * time.Minute
)
