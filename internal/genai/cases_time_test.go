package genai

import (
	"fmt"
	"testing"
	"time"

	"driftline/internal/rows"
)

func failedWith(typ string) []any { return []any{StatusError, kv("error.type", typ)} }

func timedOut(id, parent, model string, from, to float64, o ...any) Span {
	return chat(id, parent, model, from, to, append(failedWith("timeout"), o...)...)
}

func TestC16_BudgetOverrunBySameRoute(t *testing.T) {
	res := analyze(t, chat("01", "", "m1", 0, 61.5, append(failedWith("timeout"), kv("budget", 20))...),
		post("02", "01", 0, 20, 0, failedWith("timeout")...), post("03", "01", 20.5, 40.5, 0, failedWith("timeout")...), post("04", "01", 41.5, 61.5, 0, failedWith("timeout")...))
	o := one(t, res)
	attemptsAre(t, o, 3, rows.SourceHTTPChild)
	if o.FallbackOf != "" {
		t.Fatalf("fell back from %s: all tries went one way", o.FallbackOf)
	}
	near(t, "drift", o.DriftNS, 41.5)
	near(t, "request drift", theRequest(t, res).DriftNS, 41.5)
	near(t, "budget", o.BudgetNS, 20)
	if !*o.DeadlineMissed || o.MissCause != rows.MissOwn || o.Target != "m1" {
		t.Fatalf("missed %v, cause %s, target %s", *o.DeadlineMissed, o.MissCause, o.Target)
	}
	near(t, "remaining at the second attempt", res.Attempts[1].RemainingNS, -0.5)
}

func TestC18_TimeoutNotEnforced(t *testing.T) {
	o := one(t, analyze(t, chat("01", "", "m1", 0, 31, kv("timeout", 5))))
	near(t, "timeout", o.TimeoutNS, 5)
	if o.AtCap || o.Outcome != rows.OutcomeOK || o.BudgetNS != nil || o.DeadlineAt != nil {
		t.Fatalf("at cap %v, outcome %s, budget %v: a call's own timeout is no request budget", o.AtCap, o.Outcome, o.BudgetNS)
	}
}

func TestC19_AttemptAndRequestDeadlines(t *testing.T) {
	node := kv("timeout", 60)
	res := analyze(t, agent("01", "", "graph", 0, 140, kv("budget", 90)),
		timedOut("02", "01", "m1", 0, 60, node), timedOut("03", "01", "m1", 61, 121, node), chat("04", "01", "m1", 123, 140, node))
	near(t, "drift", theRequest(t, res).DriftNS, 50)
	o := one(t, res)
	attemptsAre(t, o, 3, rows.SourceSibling)
	if !res.Attempts[0].AtCap || !res.Attempts[1].AtCap || res.Attempts[2].AtCap || o.AtCap || o.DriftNS != nil {
		t.Fatalf("at cap: %v %v %v, operation drift %v", res.Attempts[0].AtCap, res.Attempts[1].AtCap, res.Attempts[2].AtCap, o.DriftNS)
	}
	near(t, "attempt timeout", res.Attempts[0].TimeoutNS, 60)
}

func TestC21_ToolCutBelowItsDeclaredTimeout(t *testing.T) {
	o := one(t, analyze(t, tool("01", "", "t", 0, 30, append(failedWith("cancelled"), kv("timeout", 120))...)))
	near(t, "timeout", o.TimeoutNS, 120)
	near(t, "tool time", &o.ToolNS, 30)
	if o.AtCap || !o.Censored || o.ErrorClass != rows.ClassCancelled {
		t.Fatalf("at cap %v, censored %v, class %s", o.AtCap, o.Censored, o.ErrorClass)
	}
}

func TestC37_ParallelToolsAreAUnion(t *testing.T) {
	res := analyze(t, agent("01", "", "planner", 0, 6), tool("02", "01", "A", 1, 4), tool("03", "01", "B", 2, 5))
	r := theRequest(t, res)
	near(t, "tool wait", &r.ToolNS, 4)
	near(t, "agent", &r.AgentNS, 2)
	near(t, "A", &operation(t, res, "02").UserTimeNS, 3)
	near(t, "B", &operation(t, res, "03").UserTimeNS, 3)
	near(t, "A on the path", &operation(t, res, "02").PathNS, 1)
	if r.Kind != rows.KindAgent || r.Agent != "planner" || r.ToolCalls != 2 || r.Operations != 2 {
		t.Fatalf("request: kind %s, agent %s, %d tool calls, %d operations", r.Kind, r.Agent, r.ToolCalls, r.Operations)
	}
}

func TestC39_ClockSkew(t *testing.T) {
	server := chat("02", "01", "m1", -0.8, 3.9, hostB)
	server.Kind = KindServer
	res := analyze(t, chat("01", "", "m1", 0, 5), server)
	o := one(t, res)
	if res.SkewedSpans != 1 || o.SkewedSpans != 1 || theRequest(t, res).SkewedSpans != 1 {
		t.Fatalf("skew is %d, %d and %d, want 1", res.SkewedSpans, o.SkewedSpans, theRequest(t, res).SkewedSpans)
	}
	if o.QueueNS != 0 || o.ConnectNS != 0 || o.UserTimeNS != 5*sec {
		t.Fatalf("queue %d, connect %d, wall %d", o.QueueNS, o.ConnectNS, o.UserTimeNS)
	}
}

func TestC44_HugeTraceInBoundedTime(t *testing.T) {
	huge := map[string]func(i int) Span{
		"in sequence": func(i int) Span {
			return tool(fmt.Sprintf("%08x", i+1), "root", "t", float64(i)/100, float64(i+1)/100)
		},
		"in parallel": func(i int) Span {
			return tool(fmt.Sprintf("%08x", i+1), "root", "t", float64(i)/1e5, 60+float64(i)/1e5, StatusError)
		},
		"failing": func(i int) Span {
			return tool(fmt.Sprintf("%08x", i+1), "root", "t", float64(i)/100, float64(i+1)/100, StatusError)
		},
		"nested": func(i int) Span {
			return agent(fmt.Sprintf("%08x", i+1), parentOf(i), "t", 0, 100-float64(i)/1e3)
		},
		"nested, each outliving its parent": func(i int) Span {
			return agent(fmt.Sprintf("%08x", i+1), parentOf(i), "t", float64(i)/1e4, 100+float64(i)/1e3)
		},
		"nested models": func(i int) Span {
			return chat(fmt.Sprintf("%08x", i+1), parentOf(i), "m", 0, 100)
		},
		"nested plain over one call": func(i int) Span {
			if i == 11_998 {
				return chat("leaf", parentOf(i), "m", 0, 100)
			}
			return sp(fmt.Sprintf("%08x", i+1), parentOf(i), "p", 0, 100)
		},
		"nested HTTP layers": func(i int) Span {
			if i == 0 {
				return chat("00000001", "root", "m", 0, 100)
			}
			return sp(fmt.Sprintf("%08x", i+1), parentOf(i), "p", 0, 100, KindServer)
		},
		"retry events": func(i int) Span {
			return chat(fmt.Sprintf("%08x", i+1), "root", "m", float64(i)/100, float64(i+1)/100, ev("gen_ai.retry", float64(i)/100+0.005))
		},
	}
	for name, make := range huge {
		spans := []Span{agent("root", "", "planner", 0, 130)}
		for i := range 11_999 {
			spans = append(spans, make(i))
		}
		began := time.Now()
		res := Analyze(Trace{Spans: spans, Complete: true, Truncated: true, Now: at(1000)}, Options{})
		took := time.Since(began)
		t.Logf("%s: %v", name, took)
		if took > 3*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
		checkLaws(t, res)
		if !theRequest(t, res).Truncated {
			t.Errorf("%s: not marked truncated", name)
		}
	}
}

func parentOf(i int) string {
	if i == 0 {
		return "root"
	}
	return fmt.Sprintf("%08x", i)
}

func TestC76_EachRetryRestartedTheBudget(t *testing.T) {
	res := analyze(t, agent("01", "", "planner", 0, 46, kv("budget", 30), kv("agent.duration", 27.5)),
		chat("02", "01", "m1", 0, 18, append(failedWith("500"), kv("timeout", 30))...), chat("03", "01", "m1", 18.5, 46, kv("timeout", 30)))
	r := theRequest(t, res)
	near(t, "user time", &r.UserTimeNS, 46)
	near(t, "drift", r.DriftNS, 16)
	near(t, "hidden", r.HiddenPathNS, 18.5)
	near(t, "agent time", r.AgentTimeNS, 27.5)
	if r.AgentTimeSource != rows.AgentTimeReported || !*r.DeadlineMissed {
		t.Fatalf("source %s, missed %v", r.AgentTimeSource, *r.DeadlineMissed)
	}
	near(t, "remaining at the second attempt", res.Attempts[1].RemainingNS, 11.5)
}

func TestC78_OneCallAteTheBudget(t *testing.T) {
	res := analyze(t, agent("01", "", "planner", 0, 900, StatusError, kv("budget", 900)), timedOut("02", "01", "m1", 20, 879))
	r, o := theRequest(t, res), one(t, res)
	if share := float64(o.PathNS) / float64(*r.BudgetNS); share < 0.95 || share > 0.96 {
		t.Fatalf("share of the budget is %v", share)
	}
	if !*r.DeadlineMissed || r.MissCause != rows.MissOwn || o.Attempts != nil || *o.DeadlineMissed || o.DeadlineSource != "inherited" {
		t.Fatalf("missed %v by %s; operation missed %v, source %s", *r.DeadlineMissed, r.MissCause, *o.DeadlineMissed, o.DeadlineSource)
	}
}

func TestS2_StaleBudget(t *testing.T) {
	for name, planner := range map[string]Span{
		"attribute": sp("02", "01", "plan", 15, 16, kv("remaining", 30)),
		"event":     sp("02", "01", "plan", 10, 16, ev("decision", 15, kv("agent.time_remaining_ms", 30_000))),
	} {
		r := theRequest(t, analyze(t, agent("01", "", "planner", 0, 25, kv("driftline.request.budget_ms", 30_000)), planner, chat("03", "01", "m1", 16, 24)))
		near(t, name+" drift", r.DriftNS, 15)
		near(t, name+" perceived", r.PerceivedRemainingNS, 30)
		near(t, name+" true", r.TrueRemainingNS, 15)
		if r.DecisionPoints != 1 || *r.DeadlineMissed {
			t.Fatalf("%s: %d decision points, missed %v", name, r.DecisionPoints, *r.DeadlineMissed)
		}
	}
	r := theRequest(t, analyze(t, agent("01", "", "planner", 0, 25), sp("02", "01", "plan", 15, 16, kv("remaining", 30)), chat("03", "01", "m1", 16, 24)))
	if r.DriftNS != nil || r.DeadlineMissed != nil || r.DecisionPoints != 1 {
		t.Fatalf("without a budget drift is %v, missed %v, points %d", r.DriftNS, r.DeadlineMissed, r.DecisionPoints)
	}
}

func TestS3_InheritedBudget(t *testing.T) {
	res := analyze(t, sp("01", "", "POST /ask", 0, 15.2, KindServer, kv("budget", 15), StatusError),
		agent("02", "01", "first", 0, 14, kv("budget", 15)),
		agent("03", "01", "second", 14, 15, append(failedWith("timeout"), kv("budget", 12))...))
	second, first := operation(t, res, "03"), operation(t, res, "02")
	if !*second.DeadlineMissed || second.MissCause != rows.MissInherited || second.DeadlineSource != "inherited" {
		t.Fatalf("second: missed %v, cause %q, source %s", *second.DeadlineMissed, second.MissCause, second.DeadlineSource)
	}
	near(t, "its own budget", second.BudgetNS, 12)
	near(t, "what was left", second.TrueRemainingNS, 1)
	near(t, "budget reset", second.DriftNS, 11)
	if *first.DeadlineMissed {
		t.Fatal("the first agent ended inside its budget")
	}
	if r := theRequest(t, res); !*r.DeadlineMissed {
		t.Fatal("the request missed its deadline")
	}
}

func TestS6_CapsOfAttempts(t *testing.T) {
	res := analyze(t, agent("01", "", "planner", 0, 60, kv("budget", 52), StatusError),
		timedOut("02", "01", "m1", 0, 30, kv("timeout", 30)),
		chat("03", "01", "m1", 30.5, 31.4, append(failedWith("429"), kv("timeout", 30))...),
		timedOut("04", "01", "m1", 32.1, 52, kv("timeout", 19.9)))
	at := res.Attempts
	if len(at) != 3 || !at[0].AtCap || at[1].AtCap || !at[2].AtCap {
		t.Fatalf("at cap: %+v", at)
	}
	if at[0].ErrorClass != rows.ClassTimeout || at[1].ErrorClass != rows.ClassOverload || at[2].ErrorClass != rows.ClassTimeout {
		t.Fatalf("classes: %s %s %s", at[0].ErrorClass, at[1].ErrorClass, at[2].ErrorClass)
	}
	near(t, "the last one's cap", at[2].TimeoutNS, 19.9)
	near(t, "what was left for it", at[2].RemainingNS, 19.9)
}

func TestReceiptBeforeTheRoot(t *testing.T) {
	r := theRequest(t, analyze(t, agent("01", "", "planner", 2, 6, kv("request.received_at_unix_ms", at(0)/ms), kv("budget", 5)), chat("02", "01", "m1", 3, 5)))
	near(t, "user time", &r.UserTimeNS, 6)
	near(t, "queue", &r.QueueNS, 2)
	near(t, "drift", r.DriftNS, 1)
}

func TestIncompleteOnlyWhenComplete(t *testing.T) {
	spans := []Span{chat("02", "01", "m1", 0, 2), tool("03", "01", "t", 2, 3)}
	if res := Analyze(Trace{Spans: spans, Now: at(4)}, Options{}); len(res.Requests) != 0 || len(res.Open) != 1 {
		t.Fatalf("%d requests, %d open", len(res.Requests), len(res.Open))
	}
	res := analyze(t, spans...)
	r := theRequest(t, res)
	if !r.Incomplete || r.Outcome != rows.OutcomeOpen || !r.Censored || r.RequestID != "02" || !res.Operations[0].Incomplete {
		t.Fatalf("request: %+v", r)
	}
	near(t, "known so far", &r.UserTimeNS, 3)
}

func TestShutdownWithTheRootIsComplete(t *testing.T) {
	root, call := agent("01", "", "planner", 0, 3), chat("02", "01", "m1", 0, 2)
	for _, reason := range []string{rows.ReleaseShutdown, rows.ReleaseEvicted} {
		for _, spans := range [][]Span{{root, call}, {call}} {
			res := Analyze(Trace{Spans: spans, Complete: true, Reason: reason, Now: at(4)}, Options{})
			want := len(spans) == 1
			if r := theRequest(t, res); r.Incomplete != want || res.Operations[0].Incomplete != want || r.ReleaseReason != reason {
				t.Fatalf("%s with %d spans: incomplete %v", reason, len(spans), r.Incomplete)
			}
		}
	}
}

func TestMetricsAloneAreNoRows(t *testing.T) {
	res := analyze(t, sp("01", "", "GET /health", 0, 1, KindServer, kv("http.request.method", "GET")), post("02", "01", 0, 1, 200))
	if res.GenAI || len(res.Requests)+len(res.Operations)+len(res.Segments) != 0 {
		t.Fatalf("rows of a trace without GenAI: %+v", res)
	}
}

func TestCopiedRequestBudgetStartsNoNewClock(t *testing.T) {
	b := kv("request.budget_ms", 30_000)
	res := analyze(t, agent("01", "", "planner", 0, 28, b), agent("02", "01", "helper", 10, 27, b), chat("03", "02", "m1", 11, 26, b))
	if r := theRequest(t, res); r.DriftNS != nil || *r.DeadlineMissed {
		t.Fatalf("drift %v, missed %v", r.DriftNS, *r.DeadlineMissed)
	}
	for _, o := range res.Operations {
		if o.BudgetNS != nil || o.DeadlineSource != "inherited" || *o.DeadlineAt != at(30) {
			t.Fatalf("operation %s: budget %v, source %s", o.OperationID, o.BudgetNS, o.DeadlineSource)
		}
	}
}

func TestStreamBrokenAfterItsHeaders(t *testing.T) {
	res := analyze(t, chat("01", "", "m1", 0, 9, append(failedWith("APIConnectionError"), streamed, firstChunk(2))...), post("02", "01", 0, 1.5, 200))
	o, last := one(t, res), res.Attempts[0]
	if last.Outcome != rows.OutcomeError || last.ErrorClass != rows.ClassNetwork || last.HTTPStatus != 200 || o.ErrorClass != rows.ClassNetwork {
		t.Fatalf("attempt %s %s %d, operation %s", last.Outcome, last.ErrorClass, last.HTTPStatus, o.ErrorClass)
	}
	near(t, "attempt", &last.DurationNS, 9)
	near(t, "ttft", o.TTFTNS, 2)
	if o.InferenceTimeNS != nil {
		t.Fatal("a call that failed by itself has no inference time")
	}
}
