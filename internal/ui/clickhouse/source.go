// Package clickhouse lets the pages read driftline's tables through detector/store.
package clickhouse

import (
	"context"
	"errors"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"driftline/detector/store"
	"driftline/internal/ui"
)

// history is how far back alerts are looked for: their retention.
const history = 400 * 24 * time.Hour

// ahead allows for clocks that run a little before the pages' own.
const ahead = time.Hour

const (
	maxSlices      = 100
	maxAlerts      = 1000
	maxTransitions = 20
	recent         = 24 * time.Hour
)

// Source implements ui.Source.
type Source struct {
	store *store.Store
	now   func() time.Time
}

// New makes a source on an open connection to a migrated database. now is the clock of
// the pages; it bounds the list of alerts.
func New(conn driver.Conn, database string, now func() time.Time) (*Source, error) {
	s, err := store.New(conn, database)
	if err != nil {
		return nil, err
	}
	return &Source{store: s, now: now}, nil
}

// Ping fails when the tables cannot be read.
func (s *Source) Ping(ctx context.Context) error { return s.store.Ping(ctx) }

// Overview implements ui.Source.
func (s *Source) Overview(ctx context.Context, now time.Time, window time.Duration) (*ui.Overview, error) {
	newest, err := s.store.Newest(ctx, now.Add(-recent), now)
	if err != nil {
		return nil, err
	}
	out := &ui.Overview{Pipeline: ui.Pipeline{LastEnd: newest.Ended, LastIngested: newest.Ingested, LastRollup: newest.Rollup, Open: newest.Open, OldestOpen: time.Duration(newest.OldestNS)}}
	latest, err := s.store.Alerts(ctx, now.Add(-history), now.Add(ahead), maxAlerts)
	if err != nil {
		return nil, err
	}
	for _, a := range latest {
		switch a.State {
		case "firing":
			out.Firing = append(out.Firing, alert(a))
		case "pending":
			out.Pending++
		}
	}
	transitions, err := s.store.AlertTransitions(ctx, now.Add(-recent), now.Add(ahead), 5000)
	if err != nil {
		return nil, err
	}
	for i := len(transitions) - 1; i >= 0 && len(out.Transitions) < maxTransitions; i-- {
		out.Transitions = append(out.Transitions, alert(transitions[i]))
	}
	from := now.Add(-window).Truncate(time.Minute)
	calls, err := s.store.Calls(ctx, from, now.Add(time.Minute), maxSlices+1)
	if err != nil {
		return nil, err
	}
	if len(calls) > maxSlices {
		calls, out.More = calls[:maxSlices], out.More+1
	}
	for _, c := range calls {
		out.Operations = append(out.Operations, ui.Slice{
			Service: c.Service, Agent: c.Agent, Kind: c.Kind, Target: c.Target, N: c.N, AttemptsKnown: c.RetriesKnown, Retried: c.Retried,
			User: c.User.Hist, Inference: c.Inference.Hist, Hidden: time.Duration(c.HiddenNS), UserSum: time.Duration(c.User.SumNS),
			Status504: c.Status504, DeadlineKnown: c.DeadlineKnown, DeadlineMissed: c.DeadlineMissed,
		})
	}
	requests, err := s.store.Overview(ctx, from, now.Add(time.Minute))
	if err != nil {
		return nil, err
	}
	if len(requests) > maxSlices {
		out.More += len(requests) - maxSlices
		requests = requests[:maxSlices]
	}
	for _, r := range requests {
		out.Requests = append(out.Requests, ui.Slice{
			Service: r.Service, Agent: r.Agent, Kind: r.Kind, N: r.N, AttemptsKnown: r.RetriesKnown, Retried: r.Retried,
			User: r.User.Hist, Hidden: time.Duration(r.FailedNS + r.BackoffNS), UserSum: time.Duration(r.User.SumNS),
			Status504: r.Status504, DeadlineKnown: r.DeadlineKnown, DeadlineMissed: r.DeadlineMissed,
		})
	}
	return out, nil
}

// Alerts implements ui.Source.
func (s *Source) Alerts(ctx context.Context, limit int) ([]ui.Alert, error) {
	now := s.now()
	got, err := s.store.Alerts(ctx, now.Add(-history), now.Add(ahead), limit)
	if err != nil {
		return nil, err
	}
	out := make([]ui.Alert, 0, len(got))
	for _, a := range got {
		out = append(out, alert(a))
	}
	return out, nil
}

// Trace implements ui.Source.
func (s *Source) Trace(ctx context.Context, id string) (*ui.Trace, error) {
	t := &ui.Trace{ID: id}
	requests, err := s.store.Requests(ctx, id)
	if err != nil {
		return nil, err
	}
	operations, err := s.store.Operations(ctx, id)
	if err != nil {
		return nil, err
	}
	attempts, err := s.store.Attempts(ctx, id)
	if err != nil {
		return nil, err
	}
	segments, err := s.store.Segments(ctx, id)
	if err != nil {
		return nil, err
	}
	spans, err := s.store.Spans(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) { // spans are kept for a shorter time than rows
		return nil, err
	}
	if len(requests)+len(operations)+len(attempts)+len(spans) == 0 {
		return nil, ui.ErrNotFound
	}
	for _, r := range requests {
		t.Requests = append(t.Requests, request(r))
	}
	for _, o := range operations {
		t.Operations = append(t.Operations, operation(o))
	}
	for _, a := range attempts {
		t.Attempts = append(t.Attempts, attempt(a))
	}
	for _, g := range segments {
		t.Segments = append(t.Segments, segment(g))
	}
	for _, p := range spans {
		t.Spans = append(t.Spans, ui.Span{ID: p.SpanID, ParentID: p.ParentSpanID, Name: p.Name, Kind: p.Kind, Service: p.Service, Status: p.Status,
			StartedAt: p.StartedAt, Duration: time.Duration(p.DurationNS), Attributes: p.Attributes})
	}
	return t, nil
}
