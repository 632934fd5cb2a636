package clickhouse

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"driftline/detector"
	"driftline/detector/store"
	"driftline/internal/rows"
	"driftline/internal/ui"
)

const (
	before        = time.Hour        // how much quiet is shown before an alert
	after         = 15 * time.Minute // and after its last transition
	maxShown      = 6 * time.Hour
	defaultWindow = 30 * time.Minute
	maxExamples   = 5
)

// Alert implements ui.Source.
func (s *Source) Alert(ctx context.Context, now time.Time, fingerprint string) (*ui.AlertDetail, error) {
	history, err := s.store.AlertHistory(ctx, fingerprint)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ui.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	d := &ui.AlertDetail{}
	for _, a := range history {
		d.Transitions = append(d.Transitions, alert(a))
	}
	last := history[len(history)-1]
	d.EvidenceFrom, d.EvidenceTo = evidenceWindow(history)
	d.From, d.To = shown(last, now)
	if d.Retries, err = s.retries(ctx, last.Slice, d.EvidenceFrom, d.EvidenceTo); err != nil {
		return nil, err
	}
	if err := s.minutes(ctx, d, last.Slice); err != nil {
		return nil, err
	}
	if err := s.first504(ctx, d, last.Service); err != nil {
		return nil, err
	}
	if d.Examples, err = s.examples(ctx, last, d.EvidenceFrom, d.EvidenceTo); err != nil {
		return nil, err
	}
	versions, err := s.store.Versions(ctx, last.Service, d.From, d.To)
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		d.Versions = append(d.Versions, ui.VersionSeen{Version: v.Version, First: v.First, Last: v.Last, N: v.N})
	}
	return d, nil
}

// evidenceWindow is the window that the newest transition to firing judged, or, if it
// never fired, the newest one's.
func evidenceWindow(history []store.AlertRow) (from, to time.Time) {
	a := history[len(history)-1]
	for i := len(history) - 1; i >= 0; i-- {
		if history[i].State == "firing" {
			a = history[i]
			break
		}
	}
	w := a.Window
	if w <= 0 {
		w = defaultWindow
	}
	to = a.At.Truncate(time.Minute)
	if to.Before(a.At) {
		to = to.Add(time.Minute)
	}
	return to.Add(-w).Truncate(time.Minute), to
}

// shown is the period of the lines over time.
func shown(a store.AlertRow, now time.Time) (from, to time.Time) {
	to = now
	if a.ResolvedAt != nil && a.ResolvedAt.Add(after).Before(now) {
		to = a.ResolvedAt.Add(after)
	}
	from = a.StartedAt.Add(-before)
	if to.Sub(from) > maxShown {
		// The beginning matters most: it shows what was normal and how it changed.
		to = from.Add(maxShown)
	}
	return from.Truncate(time.Minute), to.Truncate(time.Minute)
}

var retryOrder = []string{"0", "1", "2+", "unknown"}

func (s *Source) retries(ctx context.Context, slice store.Slice, from, to time.Time) ([]ui.RetrySlice, error) {
	got, err := s.store.RetrySlices(ctx, slice, from, to)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(got, func(a, b store.RetrySlice) int {
		return slices.Index(retryOrder, a.Retries) - slices.Index(retryOrder, b.Retries)
	})
	var out []ui.RetrySlice
	for _, r := range got {
		out = append(out, ui.RetrySlice{Retries: r.Retries, User: r.User.Hist, AgentTime: r.Agent.Hist, AgentReported: r.AgentReported})
	}
	return out, nil
}

// minutes fills the lines over time: inference time for model calls, user time for the rest.
func (s *Source) minutes(ctx context.Context, d *ui.AlertDetail, slice store.Slice) error {
	byMinute := map[time.Time]*ui.Minute{}
	at := func(t time.Time) *ui.Minute {
		if byMinute[t] == nil {
			byMinute[t] = &ui.Minute{At: t}
		}
		return byMinute[t]
	}
	d.Series = "user time"
	if !slice.IsRequest() && rows.IsModelKind(slice.Kind) {
		d.Series = "inference time"
		got, err := s.store.Series(ctx, slice, d.From, d.To, time.Minute)
		if err != nil {
			return err
		}
		for _, p := range got {
			at(p.At).Latency = p.Time.Hist
		}
	} else {
		got, err := s.store.UserMinutes(ctx, slice, d.From, d.To)
		if err != nil {
			return err
		}
		for _, p := range got {
			at(p.At).Latency = p.Time.Hist
		}
	}
	errs, err := s.store.ErrorMinutes(ctx, slice.Service, d.From, d.To)
	if err != nil {
		return err
	}
	for _, e := range errs {
		at(e.At).Requests, at(e.At).Status504 = e.N, e.Status504
	}
	for _, t := range slices.SortedFunc(maps.Keys(byMinute), time.Time.Compare) {
		d.Minutes = append(d.Minutes, *byMinute[t])
	}
	return nil
}

// first504 finds when the 504 rule fired: from a stored alert about 504s of the same
// service, or else by the rule itself.
func (s *Source) first504(ctx context.Context, d *ui.AlertDetail, service string) error {
	transitions, err := s.store.AlertTransitions(ctx, d.From, d.To.Add(time.Minute), 5000)
	if err != nil {
		return err
	}
	for _, a := range transitions {
		if a.Service == service && a.State == "firing" && strings.Contains(a.Detection, "504") && !a.At.Before(d.Current().StartedAt) {
			d.First504, d.Source504 = a.At, "alert"
			return nil
		}
	}
	if t := ui.First504(d.Minutes, d.Current().StartedAt); !t.IsZero() {
		d.First504, d.Source504 = t, "computed"
	}
	return nil
}

var traceID = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// named lists the trace ids that the alert itself mentions, without its fingerprint.
func named(a store.AlertRow) []string {
	var text []string
	for _, k := range slices.Sorted(maps.Keys(a.Annotations)) {
		if strings.Contains(k, "trace") && k != "normal_trace_id" {
			text = append(text, a.Annotations[k])
		}
	}
	text = append(text, a.Evidence)
	var out []string
	for _, id := range traceID.FindAllString(strings.Join(text, " "), -1) {
		if id != a.Fingerprint && !slices.Contains(out, id) && len(out) < maxExamples {
			out = append(out, id)
		}
	}
	return out
}

// order is that of the detection; an alert of a version that had others has the slowest.
func order(a store.AlertRow) store.ExampleOrder {
	if o, ok := detector.ExampleOrder(a.Detection, a.Slice); ok {
		return o
	}
	return store.ByUserTime
}

func (s *Source) examples(ctx context.Context, a store.AlertRow, from, to time.Time) ([]ui.Example, error) {
	var out []ui.Example
	have := map[string]bool{}
	for _, id := range named(a) {
		requests, err := s.store.Requests(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, r := range requests[:min(1, len(requests))] {
			have[id] = true
			out = append(out, ui.Example{TraceID: id, RequestID: r.RequestID, EndedAt: r.EndedAt, UserTime: time.Duration(r.UserNS), Outcome: r.Outcome,
				Attempts: r.Attempts, Hidden: duration(r.HiddenPathNS), Named: true})
		}
	}
	if len(out) < maxExamples {
		found, err := s.store.Examples(ctx, a.Slice, from, to, order(a), maxExamples)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			if have[e.TraceID] || len(out) == maxExamples {
				continue
			}
			out = append(out, ui.Example{TraceID: e.TraceID, RequestID: e.RequestID, EndedAt: e.EndedAt, UserTime: time.Duration(e.UserNS), Outcome: e.Outcome,
				Attempts: e.Attempts, Hidden: duration(e.HiddenNS)})
		}
	}
	for i := range out {
		segments, err := s.store.Segments(ctx, out[i].TraceID)
		if err != nil {
			return nil, err
		}
		for _, g := range segments {
			if g.RequestID == out[i].RequestID {
				out[i].Segments = append(out[i].Segments, segment(g))
			}
		}
	}
	return out, nil
}
