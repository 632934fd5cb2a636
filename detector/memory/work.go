package memory

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"driftline/detector/stats"
	"driftline/detector/store"
	"driftline/internal/rows"
)

// work is a cell of store.Work with what its medians and percentiles are taken from.
type work struct {
	store.Work
	limits, declared, good stats.Hist
}

func (m *minute) workOf(s store.Slice) *work {
	if m.work == nil {
		m.work = map[store.Slice]*work{}
	}
	w := m.work[s]
	if w == nil {
		w = &work{}
		w.Slice, w.Left.Hist = s, &stats.Hist{}
		m.work[s] = w
	}
	return w
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// add counts one piece of work: try is how long its last try took, cap its declared timeout.
func (w *work) add(f *rows.Facts, t *rows.Times, try, busy, queue, limit int64, gone bool) {
	left, told := int64(0), t.DeadlineAt != nil
	if told {
		left = max(*t.DeadlineAt-f.StartedAt, 0)
	}
	good := f.Outcome == rows.OutcomeOK
	bound, used := limit, try
	if limit == 0 {
		bound, used = left, t.UserTimeNS
	}
	w.N++
	count(&w.OK, good)
	if limit > 0 || told {
		w.Limited++
		w.limits.Add(ms(bound))
		count(&w.Past, float64(used) > float64(bound)/2 || gone)
	}
	count(&w.Lost, gone)
	if limit > 0 {
		w.Declared++
		w.declared.Add(ms(limit))
		if good && float64(try) > 1.5*float64(limit) && try > limit+1e9 {
			w.Overran++
			w.OverranNS += try
		}
	}
	if told {
		known(&w.Left, &left)
		count(&w.Capped, limit > 0)
		count(&w.Uncovered, limit > left)
	}
	missed := or(t.DeadlineMissed)
	count(&w.Known, t.DeadlineMissed != nil)
	count(&w.Missed, missed)
	count(&w.Inherited, missed && !good && t.MissCause == rows.MissInherited)
	count(&w.Own, missed && !good && t.MissCause == rows.MissOwn)
	if good {
		w.OKNS += try
		w.good.Add(ms(try))
	}
	w.BusyNS, w.QueueNS, w.BusySquared = w.BusyNS+busy, w.QueueNS+queue, w.BusySquared+math.Pow(float64(busy)/1e9, 2)
}

func (m *minute) operationWork(s store.Slice, o *rows.Operation) {
	try := max(o.UserTimeNS-o.FailedAttemptNS-o.BackoffNS, 0)
	m.workOf(s).add(&o.Facts, &o.Times, try, max(o.UserTimeNS-o.BackoffNS-o.QueueNS, 0), o.QueueNS, max(or(o.TimeoutNS), 0), false)
}

func (m *minute) requestWork(s store.Slice, r *rows.Request) {
	m.workOf(s).add(&r.Facts, &r.Times, r.UserTimeNS, max(r.UserTimeNS-r.QueueNS, 0), r.QueueNS, 0, r.ReleaseReason == rows.ReleaseTimeout)
}

// OperationWork sums up calls that ended in [from, to), in stretches of width, whole
// minutes. Medians and percentiles are those of a histogram.
func (s *Store) OperationWork(_ context.Context, from, to time.Time, width time.Duration) ([]store.Work, error) {
	return s.works(from, to, width, false), nil
}

// RequestWork is the same of requests.
func (s *Store) RequestWork(_ context.Context, from, to time.Time, width time.Duration) ([]store.Work, error) {
	return s.works(from, to, width, true), nil
}

func (s *Store) works(from, to time.Time, width time.Duration, requests bool) []store.Work {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []store.Work
	for at := from; at.Before(to); at = at.Add(width) {
		cells := map[store.Slice]*work{}
		for _, m := range s.between(at, minTime(at.Add(width), to)) {
			for slice, c := range m.work {
				if slice.IsRequest() != requests {
					continue
				}
				w := cells[slice]
				if w == nil {
					w = &work{}
					w.Slice, w.At, w.Left.Hist = slice, at, &stats.Hist{}
					cells[slice] = w
				}
				w.Work.Add(c.Work)
				w.limits.Merge(&c.limits)
				w.declared.Merge(&c.declared)
				w.good.Merge(&c.good)
			}
		}
		for _, w := range cells {
			w.LimitNS, w.DeclaredNS, w.P95NS = quantileNS(&w.limits, 0.5), quantileNS(&w.declared, 0.5), quantileNS(&w.good, 0.95)
			out = append(out, w.Work)
		}
	}
	slices.SortFunc(out, func(a, b store.Work) int { return cmp.Or(a.At.Compare(b.At), compareSlices(a.Slice, b.Slice)) })
	return out
}

func quantileNS(h *stats.Hist, q float64) int64 {
	v, err := h.Quantile(q)
	if err != nil {
		return 0
	}
	return int64(v * 1e6)
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Spenders is empty: rows are not kept.
func (s *Store) Spenders(context.Context, store.Slice, store.Slice, time.Time, time.Time) ([]store.Spender, error) {
	return nil, nil
}

// MissTable is empty: rows are not kept.
func (s *Store) MissTable(context.Context, store.Slice, time.Time, time.Time) ([]store.Misses, error) {
	return nil, nil
}

// snapshotsFor is how long snapshots of open requests are kept, before and after an instant
// that is asked for.
const (
	snapshotsFor   = time.Minute
	snapshotsApart = 25 * time.Second
	oldestPerAgent = 20
)

// OpenRequests lists the oldest requests of each agent that were open at an instant, by the
// snapshots of the minute before it; see the store's.
func (s *Store) OpenRequests(_ context.Context, at time.Time) ([]store.OpenRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type key struct{ service, trace string }
	last := map[key]*rows.OpenRequest{}
	newest := map[string]int64{}
	for _, m := range s.between(at.Add(-snapshotsFor).Truncate(time.Minute), at) {
		for _, o := range m.open {
			k := key{o.ServiceName, o.TraceID}
			if o.ObservedAt < at.Add(-snapshotsFor).UnixNano() || o.ObservedAt >= at.UnixNano() {
				continue
			}
			newest[k.service] = max(newest[k.service], o.ObservedAt)
			if l := last[k]; l == nil || o.ObservedAt > l.ObservedAt {
				last[k] = o
			}
		}
	}
	type agent struct{ service, agent string }
	by := map[agent][]store.OpenRequest{}
	for k, o := range last {
		if o.Agent == "" || o.ObservedAt < newest[k.service]-int64(snapshotsApart) {
			continue
		}
		age := at.UnixNano() - o.ObservedAt + o.AgeNS
		r := store.OpenRequest{Service: k.service, Agent: o.Agent, TraceID: k.trace, Age: time.Duration(age), Silence: time.Duration(at.UnixNano() - o.LastSpanAt),
			Lived: time.Duration(o.LastSpanAt - o.StartedAt), Spans: o.Spans}
		if o.DeadlineAt != nil {
			r.Budget = time.Duration(*o.DeadlineAt - o.ObservedAt + o.AgeNS)
		}
		by[agent{k.service, o.Agent}] = append(by[agent{k.service, o.Agent}], r)
	}
	var out []store.OpenRequest
	for _, all := range by {
		slices.SortFunc(all, func(a, b store.OpenRequest) int {
			return cmp.Or(cmp.Compare(b.Age, a.Age), cmp.Compare(a.TraceID, b.TraceID))
		})
		for i := range all[:min(len(all), oldestPerAgent)] {
			all[i].Open = uint64(len(all))
			out = append(out, all[i])
		}
	}
	slices.SortFunc(out, func(a, b store.OpenRequest) int {
		return cmp.Or(cmp.Compare(b.Age, a.Age), cmp.Compare(a.TraceID, b.TraceID))
	})
	return out, nil
}

func (s *Store) openRequest(o *rows.OpenRequest) {
	if o.Deleted {
		return
	}
	m, _ := s.at(o.ServiceName, o.ObservedAt)
	m.open = append(m.open, o)
}
