package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"driftline/detector/stats"
	"driftline/detector/store"
	"driftline/internal/rows"
)

type operationKey struct {
	slice   store.Slice
	retries string
}

type requestKey struct {
	slice          store.Slice
	steps, retries string
}

// retriesBucket divides by retries: attempts less one, or a request's own.
func retriesBucket(n *uint32, first uint32) string {
	switch {
	case n == nil:
		return "unknown"
	case *n <= first:
		return "0"
	case *n == first+1:
		return "1"
	}
	return "2+"
}

func stepsBucket(n uint32) string {
	switch {
	case n == 0:
		return "0"
	case n <= 3:
		return "1-3"
	case n <= 7:
		return "4-7"
	case n <= 14:
		return "8-14"
	}
	return "15+"
}

// known counts a duration that is known and not negative.
func known(m *store.Measure, ns *int64) {
	if ns == nil || *ns < 0 {
		return
	}
	if m.Hist == nil {
		m.Hist = &stats.Hist{}
	}
	m.N++
	m.SumNS += *ns
	m.Hist.Add(float64(*ns) / 1e6)
}

func or[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func count(n *uint64, when bool) {
	if when {
		*n++
	}
}

// believed leaves out counts of tokens that no model could have made.
func believed(n *int64) uint64 {
	if n == nil || *n < 0 || *n > 1e9 {
		return 0
	}
	return uint64(*n)
}

func reported(t *rows.Times) bool {
	return t.AgentTimeSource == rows.AgentTimeReported && t.AgentTimeNS != nil
}

// drift has no negative values, and one that is not known is none.
func drift(ns *int64) *int64 {
	if ns != nil && *ns < 0 {
		zero := int64(0)
		return &zero
	}
	return ns
}

func (s *Store) operation(o *rows.Operation) {
	if o.Deleted {
		return
	}
	m, at := s.at(o.ServiceName, o.EndedAt)
	k := operationKey{store.Slice{Service: o.ServiceName, Agent: o.Agent, Kind: o.Kind, Target: o.Target, Stream: o.Stream}, retriesBucket(o.Attempts, 1)}
	c := m.ops[k]
	if c == nil {
		c = &store.OperationCell{Slice: k.slice, Minute: at, Retries: k.retries}
		m.ops[k] = c
	}
	c.N++
	if o.LateFragment {
		c.Late++
		return
	}
	d := m.timeouts[k.slice]
	if d == nil {
		d = &budgets{}
		m.timeouts[k.slice] = d
	}
	d.n++
	if o.TimeoutNS != nil {
		d.values = append(d.values, *o.TimeoutNS)
	}
	m.operationWork(k.slice, o)
	count(&c.OK, o.Outcome == rows.OutcomeOK)
	count(&c.Timeouts, o.ErrorClass == rows.ClassTimeout)
	count(&c.Overloads, o.ErrorClass == rows.ClassOverload)
	count(&c.ClientErrors, o.ErrorClass == rows.ClassClient)
	count(&c.Cancelled, o.ErrorClass == rows.ClassCancelled)
	count(&c.Status504, o.HTTPStatus == 504)
	count(&c.AtCap, o.AtCap)
	count(&c.Censored, o.Censored)
	c.Attempts += uint64(or(o.Attempts))
	c.LeafAttempts += uint64(or(o.LeafAttempts))
	count(&c.AttemptsUnknown, o.Attempts == nil)
	count(&c.DeadlineKnown, o.DeadlineMissed != nil)
	count(&c.DeadlineMissed, or(o.DeadlineMissed))
	count(&c.AgentReported, reported(&o.Times))
	c.HiddenNS += or(o.HiddenTotalNS)
	c.FailedNS += o.FailedAttemptNS
	c.BackoffNS += o.BackoffNS
	c.InputTokens += believed(o.InputTokens)
	c.OutputTokens += believed(o.OutputTokens)
	c.CachedTokens += believed(o.CachedTokens)
	known(&c.User, &o.UserTimeNS)
	known(&c.Agent, o.AgentTimeNS)
	known(&c.Inference, o.InferenceTimeNS)
	if o.TTFTState == rows.TTFTKnown {
		known(&c.TTFT, o.TTFTNS)
	}
	if o.TTFTState != rows.TTFTSuspect {
		known(&c.PerToken, o.TimePerOutputTokenNS)
	}
}

func (s *Store) request(r *rows.Request, lag time.Duration) {
	if r.Deleted {
		return
	}
	m, at := s.at(r.ServiceName, r.EndedAt)
	slice := store.Slice{Service: r.ServiceName, Agent: r.Agent, Kind: r.Kind}
	k := requestKey{slice, stepsBucket(r.Steps), retriesBucket(r.Retries, 0)}
	c := m.reqs[k]
	if c == nil {
		c = &store.RequestCell{Slice: slice, Minute: at, Steps: k.steps, Retries: k.retries}
		m.reqs[k] = c
	}
	c.N++
	if r.LateFragment {
		c.Late++
		return
	}
	m.requestWork(slice, r)
	b := m.budgets[slice]
	if b == nil {
		b = &budgets{}
		m.budgets[slice] = b
	}
	b.n++
	if r.BudgetNS != nil {
		b.values = append(b.values, *r.BudgetNS)
	}
	if r.ReleaseReason == rows.ReleaseRoot {
		m.lag.Add(max(0, lag.Seconds()*1e3))
	}
	count(&c.OK, r.Outcome == rows.OutcomeOK)
	count(&c.Timeouts, r.ErrorClass == rows.ClassTimeout)
	count(&c.Status504, r.HTTPStatus == 504)
	count(&c.Censored, r.Censored)
	c.Operations += uint64(r.Operations)
	c.ToolCalls += uint64(r.ToolCalls)
	c.ToolErrors += uint64(r.ToolErrors)
	c.Attempts += uint64(or(r.Attempts))
	c.AttemptsUnknown += uint64(r.AttemptsUnknown)
	count(&c.DeadlineKnown, r.DeadlineMissed != nil)
	count(&c.DeadlineMissed, or(r.DeadlineMissed))
	c.DecisionPoints += uint64(r.DecisionPoints)
	count(&c.AgentReported, reported(&r.Times))
	c.FailedNS += r.FailedAttemptNS
	c.BackoffNS += r.BackoffNS
	known(&c.User, &r.UserTimeNS)
	known(&c.Agent, r.AgentTimeNS)
	known(&c.Hidden, r.HiddenPathNS)
	known(&c.Drift, drift(r.DriftNS))
}

// own gives a measure a histogram of its own, also when it is empty, as a read of the
// tables does.
func own(measures ...*store.Measure) {
	for _, m := range measures {
		m.Hist = m.Hist.Clone()
	}
}

// OperationCells reads the cells of all slices with minutes in [from, to).
func (s *Store) OperationCells(_ context.Context, from, to time.Time) ([]store.OperationCell, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []store.OperationCell
	for _, m := range s.between(from, to) {
		for _, c := range m.ops {
			cell := *c
			own(&cell.User, &cell.Agent, &cell.Inference, &cell.TTFT, &cell.PerToken)
			out = append(out, cell)
		}
	}
	slices.SortFunc(out, func(a, b store.OperationCell) int {
		return cmp.Or(compareSlices(a.Slice, b.Slice), a.Minute.Compare(b.Minute), cmp.Compare(a.Retries, b.Retries))
	})
	return out, nil
}

// RequestCells reads the cells of all agents with minutes in [from, to).
func (s *Store) RequestCells(_ context.Context, from, to time.Time) ([]store.RequestCell, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []store.RequestCell
	for _, m := range s.between(from, to) {
		for _, c := range m.reqs {
			cell := *c
			own(&cell.User, &cell.Agent, &cell.Hidden, &cell.Drift)
			out = append(out, cell)
		}
	}
	slices.SortFunc(out, func(a, b store.RequestCell) int {
		return cmp.Or(compareSlices(a.Slice, b.Slice), a.Minute.Compare(b.Minute), cmp.Compare(a.Steps, b.Steps), cmp.Compare(a.Retries, b.Retries))
	})
	return out, nil
}
