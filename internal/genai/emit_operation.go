package genai

import (
	"strconv"

	"driftline/internal/rows"
)

func (a *analysis) operationRow(r *rows.Operation, o *op, id int32, step uint32) {
	first, last := &a.nodes[o.first()], &a.nodes[o.lastMember()]
	r.Common = a.common(first)
	a.fillFacts(&r.Facts, first, last)
	r.OperationID, r.RequestID = first.SpanID, a.requestID(o.request)
	r.Target, r.Dialect, r.Stream = clip(a.textOf(o, slotModel, last), maxName), a.set.name(last.f.seen), o.tok.stream
	o.ownPath.fill(&r.Segments)
	r.StepIndex = step
	r.EndedAt = o.end
	r.FallbackOf, r.WastedNS = o.fallbackOf, o.wasted
	r.Agent = a.agentOf(o)
	r.SkewedSpans = o.skewed
	r.Incomplete = a.incomplete(o.request)
	if o.parent >= 0 {
		r.ParentOperationID = a.nodes[a.ops[o.parent].first()].SpanID
	}
	sources := o.sources
	r.Provider = clip(firstText(sources, slotProvider), 64)
	r.ResponseModel = clip(firstText(sources, slotResponseModel), maxName)
	for _, n := range sources {
		if r.FinishReason == "" {
			r.FinishReason = n.finishReason()
		}
	}
	r.Endpoint, r.Region = a.endpointOf(o, sources)
	if last.class == classModel {
		a.fillTokens(o, &r.Tokens)
	}
	a.fillAttempts(o, r, sources)
	a.fillTimes(o, id, r)
	r.TTFTNS, r.TTFTState, r.TTFTConflict = o.tok.ttft, o.tok.state, o.tok.conflict
	r.FirstChunkNS, r.FirstVisibleNS, r.TimePerOutputTokenNS = o.tok.firstChunk, o.tok.visible, o.tok.perToken
}

// textOf is the operation's target: the model asked for, or the tool's or agent's name.
func (a *analysis) textOf(o *op, s slot, last *node) string {
	if last.class != classModel {
		return last.target()
	}
	return firstText(o.sources, s)
}

func firstText(sources []*node, s slot) string {
	for _, n := range sources {
		if v := n.f.str(s); v != "" {
			return v
		}
	}
	return ""
}

// fillAttempts sets what is known of attempts, limits and the inference time.
func (a *analysis) fillAttempts(o *op, r *rows.Operation, sources []*node) {
	r.Attempts, r.LeafAttempts, r.AttemptSource = o.attempts, o.leaves, o.source
	for _, n := range sources {
		if v, ok := n.f.num(slotMaxRetries); ok && v < 1<<31 && r.MaxRetries == nil {
			r.MaxRetries = a.cnt(uint32(v))
		}
	}
	if v, ok := sources[0].f.num(slotMaxAttempts); ok && v >= 1 && v < 1<<31 && r.MaxRetries == nil {
		r.MaxRetries = a.cnt(uint32(v - 1))
	}
	if v, ok := allowedByEvents(&a.nodes[o.lastMember()]); ok && r.MaxRetries == nil {
		r.MaxRetries = a.cnt(v)
	}
	from := o.tok.from
	if t := o.lastTry(); t != nil {
		r.TimeoutNS = a.timeoutOf(t, o)
	} else if d, ok := sources[0].f.timeout(); ok {
		r.TimeoutNS = a.num(d)
	} else if d, ok := a.opt.timeout(sources[0]); ok {
		r.TimeoutNS = a.num(d)
	}
	r.AtCap = r.Outcome == rows.OutcomeError && atCap(o.end-from, r.TimeoutNS)
	r.Censored = r.Censored || r.AtCap
	if sources[0].class != classModel || r.Outcome == rows.OutcomeError && !r.Censored {
		return
	}
	queue, connect := a.netTimes(o)
	r.InferenceTimeNS, r.InferenceSource = a.num(max(o.end-from-queue-connect, 0)), "operation"
	if len(o.top) > 0 {
		r.InferenceSource = "attempt"
	}
}

// atCap says whether work of length took was ended by its declared timeout.
func atCap(took int64, timeout *int64) bool {
	return timeout != nil && took >= *timeout-capTolerance(*timeout) && took <= *timeout+capTolerance(*timeout)
}

// timeoutOf is the declared timeout of a try: its own, else its operation's, else the
// configured one of its operation's service.
func (a *analysis) timeoutOf(t *try, o *op) *int64 {
	if t.node >= 0 {
		if d, ok := a.nodes[t.node].f.timeout(); ok {
			return a.num(d)
		}
	}
	last := &a.nodes[o.lastMember()]
	if d, ok := last.f.timeout(); ok && (len(o.members) == 1 || o.within(t, o.lastMember())) {
		return a.num(d)
	}
	if d, ok := a.opt.timeout(last); ok {
		return a.num(d)
	}
	return nil
}

// within says whether a try is the given span, or one of its tries.
func (o *op) within(t *try, node int32) bool {
	for t.parent >= 0 && t.node != node {
		t = &o.tries[t.parent]
	}
	return t.node == node
}

// fillTimes sets user, agent and hidden time, and deadlines.
func (a *analysis) fillTimes(o *op, id int32, r *rows.Operation) {
	r.UserTimeNS = o.end - o.start
	r.HiddenTotalNS = o.hidden
	if a.t.Complete {
		for _, t := range o.path {
			r.PathNS += t
		}
		r.OnPath = o.onPath
		if o.hidden != nil {
			r.HiddenPathNS = a.num(o.path.hidden())
		}
	}
	last := &a.nodes[o.lastMember()]
	if d, ok := last.f.dur(slotAgentTime); ok && d >= 0 {
		r.AgentTimeNS, r.AgentTimeSource = a.num(d), rows.AgentTimeReported
	} else if o.hidden != nil {
		r.AgentTimeNS, r.AgentTimeSource = a.num(r.UserTimeNS-*o.hidden), rows.AgentTimeDerived
	}
	anchor := o.start
	if o.request >= 0 && a.eff[id].inherited {
		anchor = a.reqs[o.request].anchor
	}
	a.verdictOf(&r.Times, a.eff[id], o.points, o.start, o.end, anchor, last.failed())
}

func (a *analysis) attemptRow(r *rows.Attempt, o *op, id int32, t *try, or *rows.Operation) {
	n := &a.nodes[o.lastMember()]
	if t.node >= 0 {
		n = &a.nodes[t.node]
	}
	r.Common = a.common(n)
	a.fillFacts(&r.Facts, n, n)
	r.AttemptID, r.OperationID, r.RequestID = a.attemptID(o, t), or.OperationID, or.RequestID
	r.Ordinal, r.Last, r.Leaf, r.Layer, r.Source = t.ordinal, t.last, len(t.kids) == 0, t.layer, t.source
	r.Target, r.Provider, r.Endpoint, r.Stream = or.Target, or.Provider, or.Endpoint, or.Stream
	r.DurationNS, r.BackoffBeforeNS, r.TimeoutNS = t.end-t.start, t.backoff, a.timeoutOf(t, o)
	r.Agent, r.Kind, r.Incomplete = or.Agent, or.Kind, or.Incomplete
	if n.class == classModel && t.node >= 0 {
		if model := n.f.str(slotModel); model != "" {
			r.Target = clip(model, maxName) // another one than the operation's after a fallback
		}
	}
	r.StartedAt, r.EndedAt = t.start, t.end
	r.Outcome, r.ErrorClass, r.Censored = rows.OutcomeOK, t.errClass, cut(t.errClass) || t.last && n.cutShort
	switch {
	case t.errClass != "":
		r.Outcome = rows.OutcomeError
		if t.last && r.ErrorType == "" {
			r.ErrorType = or.ErrorType
		}
	default:
		r.ErrorType = ""
	}
	if t.node < 0 && !t.last {
		r.HTTPStatus, r.ErrorType = 0, ""
	}
	r.Priority, r.Attributes = or.Priority, or.Attributes
	r.SkewedSpans = 0
	if n.skewed {
		r.SkewedSpans = 1
	}
	if t.parent >= 0 {
		r.ParentAttemptID = a.attemptID(o, &o.tries[t.parent])
	}
	if e, _ := endpoint(n); e != "" {
		r.Endpoint = e
	}
	if t == o.lastTry() {
		r.TTFTNS = o.tok.ttft
	}
	r.AtCap = r.Outcome == rows.OutcomeError && atCap(r.DurationNS, r.TimeoutNS)
	r.Censored = r.Censored || r.AtCap
	d := a.eff[id]
	if o.request >= 0 && a.reqs[o.request].deadline.known {
		d = a.reqs[o.request].deadline
	}
	if d.known {
		r.RemainingNS = a.num(d.at - t.start)
	}
}

func (a *analysis) attemptID(o *op, t *try) string {
	if t.node >= 0 {
		return a.nodes[t.node].SpanID
	}
	return a.nodes[o.first()].SpanID + "." + strconv.FormatUint(uint64(t.ordinal), 10)
}
