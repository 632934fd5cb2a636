package traffic_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/backtest/traffic"
	"driftline/internal/genai"
	"driftline/internal/rows"
)

// trace is what the model emitted of one request, copied.
type trace struct {
	request  rows.Request
	ops      []rows.Operation
	attempts map[int][]rows.Attempt
}

// tracer puts the rows of each request together.
type tracer struct {
	now    trace
	got    []trace
	failed []rows.Attempt
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func copyTimes(t *rows.Times) {
	t.AgentTimeNS, t.HiddenPathNS, t.HiddenTotalNS, t.BudgetNS, t.DeadlineAt = copied(t.AgentTimeNS), copied(t.HiddenPathNS), copied(t.HiddenTotalNS), copied(t.BudgetNS), copied(t.DeadlineAt)
	t.DeadlineMissed, t.PerceivedRemainingNS, t.TrueRemainingNS, t.DriftNS = copied(t.DeadlineMissed), copied(t.PerceivedRemainingNS), copied(t.TrueRemainingNS), copied(t.DriftNS)
}

func (s *tracer) Attempt(a *rows.Attempt) { s.failed = append(s.failed, *a) }

func (s *tracer) Operation(o *rows.Operation) {
	c := *o
	copyTimes(&c.Times)
	c.Attempts, c.LeafAttempts, c.InferenceTimeNS, c.TTFTNS, c.TimePerOutputTokenNS = copied(o.Attempts), copied(o.LeafAttempts), copied(o.InferenceTimeNS), copied(o.TTFTNS), copied(o.TimePerOutputTokenNS)
	c.InputTokens, c.OutputTokens, c.CachedTokens = copied(o.InputTokens), copied(o.OutputTokens), copied(o.CachedTokens)
	if s.now.attempts == nil {
		s.now.attempts = map[int][]rows.Attempt{}
	}
	s.now.attempts[len(s.now.ops)] = s.failed
	s.now.ops, s.failed = append(s.now.ops, c), nil
}

func (s *tracer) Request(r *rows.Request) {
	c := *r
	copyTimes(&c.Times)
	c.Attempts, c.Retries = copied(r.Attempts), copied(r.Retries)
	s.now.request = c
	s.got, s.now = append(s.got, s.now), trace{}
}

func text(key, v string) genai.Attr { return genai.Attr{Key: key, Value: genai.StringValue(v)} }
func whole(key string, v int64) genai.Attr {
	return genai.Attr{Key: key, Value: genai.IntValue(v)}
}

// spans are those that an instrumented agent would have sent of the request.
func (tr *trace) spans() []genai.Span {
	resource := &genai.Resource{ServiceName: tr.request.ServiceName, ServiceVersion: tr.request.ServiceVersion}
	next := 0
	span := func(parent, name string, from, to int64, attrs ...genai.Attr) genai.Span {
		next++
		return genai.Span{TraceID: fmt.Sprintf("%032x", 7), SpanID: fmt.Sprintf("%016x", next), ParentID: parent, Name: name, Kind: genai.KindClient, Start: from, End: to, Resource: resource, Attrs: attrs}
	}
	root := span("", "invoke_agent planner", tr.request.StartedAt, tr.request.EndedAt, text("gen_ai.operation.name", "invoke_agent"), text("gen_ai.agent.name", tr.request.Agent),
		whole("driftline.request.budget_ms", *tr.request.BudgetNS/1e6))
	if tr.request.HTTPStatus != 0 {
		root.Status, root.Attrs = genai.StatusError, append(root.Attrs, whole("http.response.status_code", int64(tr.request.HTTPStatus)))
	}
	out := []genai.Span{root}
	agents := map[int]string{} // the spans of agents that others call, by their operation
	for i := range tr.ops {
		if tr.ops[i].Kind == rows.KindAgent {
			next++
			agents[i] = fmt.Sprintf("%016x", next)
		}
	}
	parent := func(o *rows.Operation) string {
		for i, id := range agents {
			if c := &tr.ops[i]; c != o && c.Target == o.Agent && c.StartedAt <= o.StartedAt && o.EndedAt <= c.EndedAt {
				return id
			}
		}
		return root.SpanID
	}
	for i := range tr.ops {
		o := &tr.ops[i]
		var s genai.Span
		tries := tr.attempts[i]
		switch o.Kind {
		case rows.KindAgent:
			s = span(parent(o), "invoke_agent", o.StartedAt, o.EndedAt, text("gen_ai.operation.name", "invoke_agent"), text("gen_ai.agent.name", o.Target))
			s.SpanID = agents[i]
		case rows.KindChat:
			s = span(parent(o), "chat", o.StartedAt, o.EndedAt, text("gen_ai.operation.name", "chat"), text("gen_ai.request.model", o.Target), text("gen_ai.provider.name", "p"),
				whole("driftline.perceived.remaining_ms", *o.PerceivedRemainingNS/1e6))
			if o.TTFTNS != nil {
				first := tries[len(tries)-1].StartedAt - o.StartedAt + *o.TTFTNS
				s.Attrs = append(s.Attrs, genai.Attr{Key: "gen_ai.request.stream", Value: genai.BoolValue(true)}, genai.Attr{Key: "gen_ai.response.time_to_first_chunk", Value: genai.DoubleValue(float64(first) / 1e9)},
					whole("gen_ai.usage.input_tokens", *o.InputTokens), whole("gen_ai.usage.output_tokens", *o.OutputTokens))
			}
		default:
			s = span(parent(o), "execute_tool", o.StartedAt, o.EndedAt, text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", o.Target))
		}
		if o.Outcome != rows.OutcomeOK {
			s.Status, s.Attrs = genai.StatusError, append(s.Attrs, text("error.type", "failed"))
		}
		out = append(out, s)
		for _, a := range tries {
			end := a.EndedAt
			if o.TTFTNS != nil && a.Outcome == rows.OutcomeOK {
				end = a.StartedAt + *o.TTFTNS*9/10 // clients of streams end their span with the headers
			}
			y := span(s.SpanID, "POST", a.StartedAt, end, text("http.request.method", "POST"), text("server.address", o.Target+".example"))
			switch {
			case a.Outcome == rows.OutcomeOK:
				y.Attrs = append(y.Attrs, whole("http.response.status_code", 200))
			case a.HTTPStatus != 0:
				y.Status, y.Attrs = genai.StatusError, append(y.Attrs, whole("http.response.status_code", int64(a.HTTPStatus)))
			default:
				y.Status, y.Attrs = genai.StatusError, append(y.Attrs, text("error.type", "timeout"))
			}
			out = append(out, y)
		}
	}
	return out
}

// near compares durations that went through attributes in milliseconds.
func near(t *testing.T, want, got *int64, what string) {
	t.Helper()
	require.Equal(t, want == nil, got == nil, what)
	if want != nil {
		require.InDelta(t, *want, *got, 2e6, what)
	}
}

// The rows that the model emits are those that the processor's analysis makes of the spans of
// the same requests.
func TestRowsEqualThoseOfSpans(t *testing.T) {
	chain := agent()
	chain.MeanSteps, chain.SubShare = 2, 0.6
	middle, last := *chain, *chain
	middle.Name, middle.Sub = "researcher", &last
	last.Name, last.SubShare = "reader", 0
	chain.Sub = &middle
	for name, a := range map[string]*traffic.Agent{"one agent": agent(), "a chain of three": chain} {
		t.Run(name, func(t *testing.T) { compareWithSpans(t, a) })
	}
}

func compareWithSpans(t *testing.T, a *traffic.Agent) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	a.Shape = func(_ float64, c *traffic.Conditions) {
		c.Tools[0].FailP, c.Model.FailP, c.Model.StallShare, c.Model.StallSec = 0.35, 0.15, 0.1, 30
	}
	s := &tracer{}
	g := traffic.New(seed, []*traffic.Agent{a}, s)
	for m := range 10 {
		g.Minute(m)
	}
	retried, missed := 0, 0
	for n := range s.got {
		tr := &s.got[n]
		r := genai.Analyze(genai.Trace{Spans: tr.spans(), Complete: true, Reason: rows.ReleaseRoot, Now: tr.request.EndedAt + 1e9}, genai.Options{})
		require.Len(t, r.Requests, 1)
		require.Len(t, r.Operations, len(tr.ops))
		cut := tr.request.HTTPStatus == 504
		want, got := &tr.request, r.Requests[0]
		require.Equal(t, want.Agent, got.Agent)
		require.Equal(t, want.Kind, got.Kind)
		require.Equal(t, want.UserTimeNS, got.UserTimeNS)
		require.Equal(t, want.HTTPStatus, got.HTTPStatus)
		require.Equal(t, want.DeadlineMissed, got.DeadlineMissed)
		require.Equal(t, want.Operations, got.Operations)
		require.Equal(t, want.Steps, got.Steps)
		require.Equal(t, want.ToolCalls, got.ToolCalls)
		near(t, want.BudgetNS, got.BudgetNS, "budget")
		near(t, want.DriftNS, got.DriftNS, "drift")
		if *want.DeadlineMissed {
			missed++
		}
		type key struct {
			start        int64
			kind, target string
		}
		by := map[key]*rows.Operation{}
		for _, o := range r.Operations {
			by[key{o.StartedAt, o.Kind, o.Target}] = o
		}
		for i := range tr.ops {
			w := &tr.ops[i]
			o := by[key{w.StartedAt, w.Kind, w.Target}]
			require.NotNil(t, o, "%s %s", w.Kind, w.Target)
			require.Equal(t, w.Agent, o.Agent)
			require.Equal(t, w.UserTimeNS, o.UserTimeNS)
			if cut && i == len(tr.ops)-1 {
				continue // where the gateway cut the last one, spans say less than the model knows
			}
			require.Equal(t, w.Outcome, o.Outcome)
			require.Equal(t, w.Attempts, o.Attempts)
			require.Equal(t, w.LeafAttempts, o.LeafAttempts)
			near(t, w.HiddenTotalNS, o.HiddenTotalNS, "hidden")
			near(t, w.AgentTimeNS, o.AgentTimeNS, "agent time")
			require.Equal(t, w.TTFTState, o.TTFTState, "%v of %v, %v tokens", w.TTFTNS, w.UserTimeNS, w.OutputTokens)
			near(t, w.TTFTNS, o.TTFTNS, "ttft")
			if w.Outcome == rows.OutcomeOK {
				near(t, w.InferenceTimeNS, o.InferenceTimeNS, "inference")
				require.Equal(t, w.Stream, o.Stream)
			}
			if w.Attempts != nil && *w.Attempts > 1 {
				retried++
			}
		}
		if !cut {
			require.Equal(t, *want.Retries, *got.Retries)
			near(t, want.HiddenTotalNS, got.HiddenTotalNS, "hidden of the request")
		}
	}
	require.Greater(t, len(s.got), 300)
	require.Greater(t, retried, 100)
	require.Positive(t, missed)
}
