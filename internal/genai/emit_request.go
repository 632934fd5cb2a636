package genai

import (
	"driftline/internal/identity"
	"driftline/internal/rows"
)

func (a *analysis) requestRow(q *request) *rows.Request {
	first := q.root
	if first < 0 {
		first = q.roots[0]
	}
	n := &a.nodes[first]
	r := &rows.Request{Common: a.common(n)}
	a.fillFacts(&r.Facts, n, n)
	q.sums.fill(&r.Segments)
	r.RequestID, r.ReleaseReason, r.RequestKey, r.LinkedTraceID = q.id, a.t.Reason, a.requestKey(q), a.linkedTrace(q)
	r.UserHash, r.TenantHash = a.hashed(q, slotUser, identity.User), a.hashed(q, slotTenant, identity.Tenant)
	r.Kind, r.Agent = a.kindOf(q), q.agent
	r.StartedAt, r.EndedAt = q.start, q.end
	r.SkewedSpans = q.skewed
	r.Incomplete = q.incomplete
	if q.root < 0 {
		// Several spans of a parent that never came: when it ended is not known.
		r.Outcome, r.ErrorClass, r.ErrorType, r.HTTPStatus, r.Censored = rows.OutcomeOpen, "", "", 0, true
		r.Name = q.agent
	}
	a.countOperations(q, r)
	r.UserTimeNS = q.end - q.start
	a.agentTime(q, r)
	for _, p := range q.points {
		if p.stated {
			r.DecisionPoints++
		}
	}
	a.verdictOf(&r.Times, q.deadline, q.points, q.began, q.end, q.anchor, r.Outcome == rows.OutcomeError)
	return r
}

// hashed is the keyed hash of whom the request was for: what its root states, else the
// first of its spans that states it; nil where none does or there is no key.
func (a *analysis) hashed(q *request, s slot, kind identity.Kind) *int64 {
	if a.opt.Identity == nil {
		return nil
	}
	of := func(n *node) *int64 {
		if hash, ok := a.opt.Identity.Hash(kind, n.f.str(s)); ok {
			return a.num(hash)
		}
		return nil
	}
	if q.root >= 0 {
		if hash := of(&a.nodes[q.root]); hash != nil {
			return hash
		}
	}
	for i := range a.nodes {
		if n := &a.nodes[i]; n.f.has(s) && n.req >= 0 && &a.reqs[n.req] == q {
			if hash := of(n); hash != nil {
				return hash
			}
		}
	}
	return nil
}

// countOperations sums over the request's operations. Tokens come from model calls
// alone, since agents repeat them; hidden time skips what lies in a failed try of an
// agent, which is hidden as a whole.
func (a *analysis) countOperations(q *request, r *rows.Request) {
	var attempts, retries uint32
	var hidden, path int64
	knows := false
	for _, i := range q.ops {
		o := &a.ops[i]
		last := &a.nodes[o.lastMember()]
		r.Operations++
		switch {
		case last.class == classTool:
			r.ToolCalls++
			if last.failed() {
				r.ToolErrors++
			}
		case rows.IsModelKind(last.kind):
			r.Steps++
		}
		if last.class == classModel {
			var t rows.Tokens
			a.fillTokens(o, &t)
			a.addCount(&r.InputTokens, t.InputTokens)
			a.addCount(&r.OutputTokens, t.OutputTokens)
			a.addCount(&r.CachedTokens, t.CachedTokens)
			a.addCount(&r.ReasoningTokens, t.ReasoningTokens)
		}
		if o.attempts == nil {
			r.AttemptsUnknown++
			continue
		}
		attempts += *o.attempts
		retries += *o.attempts - 1
		r.Attempts, r.Retries = &attempts, &retries
		if o.hidden != nil {
			knows = true
			if !o.dead {
				hidden += *o.hidden
				path += o.path.hidden()
			}
		}
	}
	if knows {
		r.HiddenTotalNS, r.HiddenPathNS = &hidden, &path
	}
}

func (a *analysis) addCount(sum **int64, n *int64) {
	if n == nil {
		return
	}
	if *sum == nil {
		*sum = a.num(0)
	}
	**sum = min(**sum+*n, maxTime)
}

// agentTime is what an agent reports, else user time minus hidden time, where every
// model call's attempts are known.
func (a *analysis) agentTime(q *request, r *rows.Request) {
	if q.timeNode >= 0 {
		if d, ok := a.nodes[q.timeNode].f.dur(slotAgentTime); ok && d >= 0 {
			r.AgentTimeNS, r.AgentTimeSource = a.num(d), rows.AgentTimeReported
			return
		}
	}
	if r.HiddenPathNS == nil {
		return
	}
	for _, i := range q.ops {
		if o := &a.ops[i]; o.hidden == nil && a.nodes[o.lastMember()].class == classModel {
			return
		}
	}
	d := r.UserTimeNS - *r.HiddenPathNS
	r.AgentTimeNS, r.AgentTimeSource = &d, rows.AgentTimeDerived
}

func (a *analysis) segmentRows(q *request, req *rows.Request) []*rows.Segment {
	out, slab := make([]*rows.Segment, 0, len(q.path)), make([]rows.Segment, len(q.path))
	for k := len(q.path) - 1; k >= 0; k-- {
		s := &q.path[k]
		row := &slab[len(out)]
		*row = rows.Segment{
			Common:         req.Common,
			RequestID:      q.id,
			RequestEndedAt: q.end,
			SegmentIndex:   uint32(len(out)),
			AttemptOrdinal: s.ordinal,
			Kind:           rows.SegmentKinds[s.kind],
			StartedAt:      s.start,
			DurationNS:     s.end - s.start,
		}
		if s.op >= 0 {
			row.OperationID = a.nodes[a.ops[s.op].first()].SpanID
		}
		out = append(out, row)
	}
	return out
}
