package golden

import "time"

// scenario is a hand-written trace and how it arrives.
type scenario struct {
	name string
	// cases are the ids of the field cases behind it, where there are any.
	cases string
	play  func(r *rig)
}

// settle is longer than the linger after a root or a late span.
const settle = 3 * time.Second

// whole plays one trace that arrives at once, soon after its end.
func whole(end time.Duration, build func() *trace) func(r *rig) {
	return func(r *rig) {
		r.clock.Advance(end)
		r.consume(build().td)
		r.clock.Advance(settle)
	}
}

var scenarios = []scenario{
	{"retries_below_a_call", "C1", whole(22*time.Second, retriedCall)},
	{"stated_ttft_from_first_attempt", "S9", whole(22*time.Second, func() *trace { return retriedStream(18.4) })},
	{"stated_ttft_from_last_attempt", "S9", whole(22*time.Second, func() *trace { return retriedStream(1.2) })},
	{"siblings_with_total", "C2", whole(7*time.Second, siblingsWithTotal)},
	{"siblings_unmarked", "C3", whole(10*time.Second, siblingsUnmarked)},
	{"retry_events", "C5", whole(10*time.Second, retryEvents)},
	{"suspect_ttft", "C25", whole(7*time.Second, suspectTTFT)},
	{"openinference", "C36", whole(7*time.Second, openInference)},
	{"openllmetry", "", whole(6*time.Second, openLLMetry)},
	{"missed_deadline", "S2", whole(36*time.Second, missedDeadline)},
	{"skewed_clock", "C39", whole(6*time.Second, skewed)},
	{"duplicates", "C47", duplicated},
	{"late_attempt", "C40", lateAttempt},
	{"late_span_moves_slice", "", lateSpanMovesSlice},
	{"folded_by_late_span", "", foldedByLateSpan},
	{"no_root", "", noRoot},
}

// retriedCall is a call that an SDK tried three times over HTTP, below an agent that
// then used a tool.
func retriedCall() *trace {
	b := newTrace(1)
	b.agent(1, 0, 0, 22, nil)
	b.chat(2, 1, 0, 21, attrs{"gen_ai.usage.input_tokens": 900, "gen_ai.usage.output_tokens": 60})
	b.post(3, 2, 0, 8, 503)
	b.post(4, 2, 8.6, 16, 504).Attributes().PutInt("http.request.resend_count", 1)
	b.post(5, 2, 17.2, 21, 200).Attributes().PutInt("http.request.resend_count", 2)
	b.tool(6, 1, 21.2, 21.7, nil)
	return b
}

// retriedStream is the same call streamed, with a TTFT that was timed from somewhere.
func retriedStream(ttft float64) *trace {
	b := newTrace(2)
	b.chat(2, 0, 0, 21, attrs{
		"gen_ai.request.stream": true, "gen_ai.response.time_to_first_chunk": ttft, "gen_ai.usage.output_tokens": 27,
	})
	b.post(3, 2, 0, 8, 503)
	b.post(4, 2, 8.6, 16, 504)
	b.post(5, 2, 17.2, 18.3, 200)
	return b
}

func siblingsWithTotal() *trace {
	b := newTrace(3)
	root := b.span(1, 0, "claude_code.interaction", 1, 0, 6, attrs{"user_prompt": secret})
	root.SetKind(1)
	for i, s := range []struct {
		from, to float64
		status   int
	}{{0, 1, 500}, {1.5, 1.6, 429}, {3.1, 6, 0}} {
		a := attrs{"model": "m1", "success": s.status == 0}
		if s.status > 0 {
			a["http.response.status_code"] = s.status
		} else {
			a["attempt"] = 3
		}
		span := b.span(byte(2+i), 1, "claude_code.llm_request", 1, s.from, s.to, a)
		if s.status > 0 {
			fail(span)
		}
	}
	return b
}

func siblingsUnmarked() *trace {
	b := newTrace(4)
	b.agent(1, 0, 0, 9, nil)
	fail(b.chat(2, 1, 0, 2, nil))
	fail(b.chat(3, 1, 2.4, 4, nil))
	b.chat(4, 1, 4.9, 9, nil)
	return b
}

func retryEvents() *trace {
	b := newTrace(5)
	s := b.chat(1, 0, 0, 9, nil)
	event(s, "gen_ai.retry", 3, attrs{"attempt": 1, "max_attempts": 4, "backoff_seconds": 0.5, "reason": secret})
	event(s, "gen_ai.retry", 6.5, attrs{"attempt": 2, "max_attempts": 4, "backoff_seconds": 1.0})
	return b
}

func suspectTTFT() *trace {
	b := newTrace(6)
	b.chat(1, 0, 0, 6, attrs{"gen_ai.request.stream": true, "gen_ai.response.time_to_first_chunk": 6.0, "gen_ai.usage.output_tokens": 300})
	return b
}

func openInference() *trace {
	b := newTrace(7)
	b.span(1, 0, "run", 1, 0, 6.4, attrs{"openinference.span.kind": "AGENT", "agent.name": "planner", "input.value": secret})
	s := b.span(2, 1, "ChatCompletion", 1, 0, 6, attrs{
		"openinference.span.kind": "LLM", "llm.model_name": "m1", "llm.provider": "p1", "llm.token_count.prompt": 40,
		"llm.token_count.completion": 50, "llm.input_messages.0.message.content": secret, "output.value": secret,
	})
	event(s, "First Token Stream Event", 1.1, nil)
	b.span(3, 1, "lookup", 1, 6.1, 6.3, attrs{"openinference.span.kind": "TOOL", "tool.name": "lookup", "tool.parameters": secret})
	return b
}

func openLLMetry() *trace {
	b := newTrace(8)
	b.span(1, 0, "plan.workflow", 1, 0, 5, attrs{"traceloop.span.kind": "workflow", "traceloop.workflow.name": "plan", "traceloop.entity.name": "plan", "traceloop.entity.input": secret})
	s := b.span(2, 1, "openai.chat", 3, 0.5, 4.5, attrs{
		"llm.request.type": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m1", "llm.is_streaming": true, "traceloop.workflow.name": "plan",
		"gen_ai.usage.prompt_tokens": 12, "gen_ai.usage.completion_tokens": 101, "gen_ai.completion.0.content": secret,
	})
	for i := range 3 {
		event(s, "llm.content.completion.chunk", 1.5+float64(i), nil)
	}
	return b
}

// missedDeadline is a budget of 30 s that the planner is told anew at 15 s, and that a
// hanging tool then overruns.
func missedDeadline() *trace {
	b := newTrace(9)
	b.agent(1, 0, 0, 36, attrs{"driftline.request.budget_s": 30, "driftline.agent.time_ms": 33000})
	b.chat(2, 1, 0.5, 14.5, nil)
	b.post(3, 2, 0.5, 2.5, 503)
	b.post(4, 2, 3.5, 14.5, 200)
	b.span(5, 1, "plan", 1, 15, 15.2, attrs{"remaining": 30.0})
	b.tool(6, 1, 15.2, 36, nil)
	return b
}

func skewed() *trace {
	b := newTrace(10)
	b.chat(1, 0, 0, 5, nil)
	s := b.in("gateway").span(2, 1, "POST /v1/chat", 2, -0.8, 3.9, attrs{"http.request.method": "POST", "http.response.status_code": 200, "http.route": "/v1/chat"})
	s.SetKind(2)
	return b
}

func duplicated(r *rig) {
	r.clock.Advance(22 * time.Second)
	r.consume(retriedCall().td)
	r.clock.Advance(settle)
	r.store()
	r.clock.Advance(5*time.Second - settle)
	r.consume(retriedCall().td)
	r.clock.Advance(settle)
	r.store()
}

// lateAttempt is a call whose last attempt, and then whose root, come long after the
// first two attempts were passed on.
func lateAttempt(r *rig) {
	b := newTrace(11)
	fail(b.chat(2, 1, 0, 5, attrs{"error.type": "timeout"}))
	fail(b.chat(3, 1, 15, 45, attrs{"error.type": "timeout"}))
	r.clock.Advance(46 * time.Second)
	r.consume(b.td)
	r.clock.Advance(40 * time.Second) // past the wait for a next attempt
	r.store()
	r.clock.Advance(25 * time.Second)
	b = newTrace(11)
	b.chat(4, 1, 75, 110, nil)
	b.agent(1, 0, 0, 110, nil)
	r.consume(b.td)
	r.clock.Advance(settle)
	r.store()
}

// lateSpanMovesSlice is a call that looked like one attempt until the spans of two
// earlier ones came.
func lateSpanMovesSlice(r *rig) {
	b := newTrace(12)
	b.chat(1, 0, 0, 9, nil)
	b.post(4, 1, 6, 9, 200)
	r.clock.Advance(9 * time.Second)
	r.consume(b.td)
	r.clock.Advance(settle)
	r.store()
	b = newTrace(12)
	b.post(2, 1, 0, 2, 503)
	b.post(3, 1, 3, 5, 503)
	r.consume(b.td)
	r.clock.Advance(settle)
	r.store()
}

// foldedByLateSpan is two calls, in two minutes, that a late span in between shows to be
// attempts of one: the second call's row goes.
func foldedByLateSpan(r *rig) {
	b := newTrace(13)
	b.agent(1, 0, 50, 75, nil)
	fail(b.chat(2, 1, 50, 55, attrs{"error.type": "timeout"}))
	b.chat(4, 3, 62, 75, nil)
	r.clock.Advance(75 * time.Second)
	r.consume(b.td)
	r.clock.Advance(settle)
	r.store()
	b = newTrace(13)
	b.chat(3, 1, 61, 75, nil)
	r.consume(b.td)
	r.clock.Advance(settle)
	r.store()
}

// noRoot is a trace of which the root never comes.
func noRoot(r *rig) {
	b := newTrace(14)
	b.chat(2, 1, 0, 4, nil)
	b.post(3, 2, 0, 1, 503)
	b.post(4, 2, 1.5, 4, 200)
	r.clock.Advance(5 * time.Second)
	r.consume(b.td)
	r.clock.Advance(11 * time.Minute)
	r.store()
}
