package traffic

import "driftline/internal/rows"

func (g *Generator) common(m *member, st *state, c *rows.Common, f *rows.Facts, kind string, start, end float64) {
	c.ServiceName, c.TraceID, c.Revision = m.Service, st.trace, 1
	f.Agent, f.Kind, f.SampleWeight, f.ServiceVersion = m.Name, kind, 1, st.version
	f.StartedAt, f.EndedAt, f.Outcome = instant(start), instant(end), rows.OutcomeOK
}

func (g *Generator) operationRow(m *member, st *state, o *rows.Operation, kind string, k int, start, begun, failed, backoff float64, tries, leaves int, y try, out outcome) {
	s := &g.mem
	g.common(m, st, &o.Common, &o.Facts, kind, start, out.end)
	s.attempts, s.leaves = uint32(tries), uint32(leaves)
	o.Attempts, o.LeafAttempts = &s.attempts, &s.leaves
	o.UserTimeNS = o.EndedAt - o.StartedAt
	o.FailedAttemptNS, o.BackoffNS = ns(failed), ns(backoff)
	s.hidden, s.path = ns(failed)+ns(backoff), ns(failed)+ns(backoff)
	o.HiddenTotalNS, o.HiddenPathNS = &s.hidden, &s.path
	s.agent = o.UserTimeNS - s.hidden
	o.AgentTimeNS, o.AgentTimeSource = &s.agent, rows.AgentTimeDerived
	o.ConnectNS = ns(y.connect)
	o.TTFTState = rows.TTFTNotApplicable
	o.StepIndex, o.OnPath, o.PathNS = uint32(st.operations), true, o.UserTimeNS
	g.deadline(&o.Times, st, start, out.end, out.failed)
	switch {
	case out.cut:
		o.Outcome, o.ErrorClass, o.Censored = rows.OutcomeError, rows.ClassCancelled, true
	case out.failed:
		o.Outcome, o.ErrorClass, o.HTTPStatus, o.AtCap, o.Censored = rows.OutcomeError, y.class, y.status, y.atCap, y.atCap
	}
	if k == 0 {
		if o.Outcome == rows.OutcomeOK || o.Censored {
			s.inference = max(0, ns(out.end-begun-y.connect))
			o.InferenceTimeNS, o.InferenceSource = &s.inference, "attempt"
		}
		if m.Model.Stream {
			o.TTFTState = rows.TTFTMissing
		}
		if st.decisions > 0 { // the decision was taken as the call began
			s.opPerceived, s.opTrue = ns(st.perceived), ns(st.left)
			s.opDrift = s.opPerceived - s.opTrue
			o.PerceivedRemainingNS, o.TrueRemainingNS, o.DriftNS = &s.opPerceived, &s.opTrue, &s.opDrift
		}
		if o.Outcome == rows.OutcomeOK {
			o.InputTokens, o.OutputTokens, o.CachedTokens = &s.input, &s.output, &s.cached
			if m.Model.Stream {
				s.ttft, s.perToken = ns(y.ttft), ns(y.perToken)
				o.TTFTNS, o.TTFTState, o.TimePerOutputTokenNS = &s.ttft, rows.TTFTKnown, &s.perToken
			}
		}
	}
	st.operations++
	g.sink.Operation(o)
}

// attemptRow emits one attempt. Of hedged ones, the first is emitted: the second has no end of
// its own.
func (g *Generator) attemptRow(m *member, st *state, o *rows.Operation, kind string, ordinal int, t float64, y try, limit float64) {
	a, s := &g.att, &g.mem
	*a = rows.Attempt{AttemptID: "a", OperationID: o.OperationID, RequestID: st.trace, Ordinal: uint32(ordinal), Last: y.ok, Leaf: true,
		Layer: rows.LayerSDK, Source: rows.SourceHTTPChild, Target: o.Target, Stream: o.Stream}
	end := min(t+y.took, st.limit)
	g.common(m, st, &a.Common, &a.Facts, kind, t, end)
	a.DurationNS = a.EndedAt - a.StartedAt
	s.timeout, s.remaining = ns(limit), ns(st.start+st.budget-t)
	a.TimeoutNS, a.RemainingNS, a.AtCap = &s.timeout, &s.remaining, y.atCap
	if !y.ok {
		a.Outcome, a.ErrorClass, a.HTTPStatus, a.Censored = rows.OutcomeError, y.class, y.status, y.atCap
	}
	g.sink.Attempt(a)
}

// deadline judges work by the request's deadline. What failed shortly before it counts as
// ended by it, as the processor has it.
func (g *Generator) deadline(t *rows.Times, st *state, start, end float64, failed bool) {
	s := &g.mem
	at := st.start + st.budget
	s.deadline, s.missed = instant(at), end > at || failed && end >= at-max(st.budget/50, 0.05)
	t.DeadlineAt, t.DeadlineMissed, t.DeadlineSource = &s.deadline, &s.missed, rows.DeadlineInherited
	if s.missed {
		t.MissCause = rows.MissOwn
		if start > at {
			t.MissCause = rows.MissInherited
		}
	}
}

func (g *Generator) requestRow(m *member, st *state, end float64) {
	r, s := &g.req, &g.mem
	*r = rows.Request{RequestID: st.trace, Operations: uint32(st.operations), Steps: uint32(st.steps), ToolCalls: uint32(st.toolCalls), ToolErrors: uint32(st.toolErrors),
		DecisionPoints: uint32(st.decisions), ReleaseReason: rows.ReleaseRoot}
	g.common(m, st, &r.Common, &r.Facts, rows.KindAgent, st.start, end)
	s.reqAttempts, s.retries = uint32(st.operations+st.extra), uint32(st.extra)
	r.Attempts, r.Retries = &s.reqAttempts, &s.retries
	r.UserTimeNS = r.EndedAt - r.StartedAt
	s.reqHidden = min(ns(st.hidden), r.UserTimeNS)
	s.reqPath = s.reqHidden
	r.HiddenTotalNS, r.HiddenPathNS = &s.reqHidden, &s.reqPath
	r.FailedAttemptNS = s.reqHidden
	s.reqAgent = r.UserTimeNS - s.reqHidden
	r.AgentTimeNS, r.AgentTimeSource = &s.reqAgent, rows.AgentTimeDerived
	if m.Reports {
		r.AgentTimeSource = rows.AgentTimeReported
	}
	g.deadline(&r.Times, st, st.start, end, st.timedOut || st.failed)
	s.budget = ns(st.budget)
	r.BudgetNS, r.DeadlineSource = &s.budget, rows.DeadlineAttribute
	if st.decisions > 0 {
		// The end of a request past its deadline is a point of drift too.
		s.drift = ns(max(st.drift, end-st.start-st.budget))
		r.DriftNS = &s.drift
	}
	switch {
	case st.timedOut:
		r.Outcome, r.ErrorClass, r.HTTPStatus = rows.OutcomeError, rows.ClassTimeout, 504
	case st.failed:
		r.Outcome, r.ErrorClass, r.HTTPStatus = rows.OutcomeError, rows.ClassServer, 500
	}
	g.sink.Request(r)
}
