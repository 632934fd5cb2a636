package genai

import (
	"fmt"
	"sort"
	"testing"

	"driftline/internal/rows"
)

// Cases of many traces: what each one says, and the counts and shares over all. The
// verdicts over windows are the detector's, with tests of the same names there.

// each analyzes one trace of one call per i and gives the operations.
func each(t *testing.T, n int, make func(i int) []Span) []*rows.Operation {
	t.Helper()
	out := []*rows.Operation{}
	for i := range n {
		out = append(out, one(t, analyze(t, make(i)...)))
	}
	return out
}

func TestC12_ObservedAboveConfigured(t *testing.T) {
	spans := []Span{chat("01", "", "m1", 0, 3, kv("max_retries", 1), StatusError)}
	for i := range 6 {
		spans = append(spans, post(fmt.Sprint("p", i), "01", float64(i)*0.5, float64(i)*0.5+0.1, 0, kv("error.type", "ReadTimeout"), StatusError))
	}
	o := one(t, analyze(t, spans...))
	if configured := *o.MaxRetries + 1; *o.Attempts != 6 || configured != 2 || *o.Attempts <= configured {
		t.Fatalf("observed %d, configured %d", *o.Attempts, configured)
	}
	for _, a := range []Attr{kv("gen_ai.request.max_retries", 1), kv("ai.settings.maxRetries", 1), kv("max_attempts", 2)} {
		if o := one(t, analyze(t, chat("01", "", "m1", 0, 3, a))); o.MaxRetries == nil || *o.MaxRetries != 1 || o.Attempts != nil {
			t.Errorf("%s: configured retries %v, attempts %v: a limit is no count", a.Key, o.MaxRetries, o.Attempts)
		}
	}
}

func TestC14_TotalAgainstTheCap(t *testing.T) {
	spans := []Span{chat("01", "", "m1", 0, 91.6, StatusError, kv("timeout", 30))}
	for i, from := range []float64{0, 30.5, 61.6} {
		spans = append(spans, post(fmt.Sprint("p", i), "01", from, from+30, 0, failedWith("timeout")...))
	}
	res := analyze(t, spans...)
	o := one(t, res)
	for _, a := range res.Attempts {
		if !a.AtCap || a.TimeoutNS == nil || a.ErrorClass != rows.ClassTimeout {
			t.Errorf("attempt %d: at the declared cap %v", a.Ordinal, a.AtCap)
		}
	}
	if ratio := float64(o.UserTimeNS) / float64(*o.TimeoutNS); ratio < 3.05 || ratio > 3.06 || *o.Attempts != 3 {
		t.Fatalf("total over cap is %v with %d attempts", ratio, *o.Attempts)
	}
}

func TestC18_RunsPastTheirTimeout(t *testing.T) {
	for i, o := range each(t, 20, func(i int) []Span {
		return []Span{chat("01", "", "m1", 0, 20+float64(i), kv("timeout", 5))}
	}) {
		if o.AtCap || o.Censored || o.Outcome != rows.OutcomeOK || o.UserTimeNS < 4**o.TimeoutNS {
			t.Errorf("%d: at cap %v, censored %v, %s", i, o.AtCap, o.Censored, o.Outcome)
		}
	}
}

func TestC21_EachToolCallCutAtTheGatewaysDefault(t *testing.T) {
	for i, o := range each(t, 10, func(int) []Span {
		return []Span{tool("01", "", "t", 0, 30, append(failedWith("cancelled"), kv("timeout", 120))...)}
	}) {
		near(t, "declared", o.TimeoutNS, 120)
		near(t, "tool wait", &o.ToolNS, 30)
		if o.AtCap || !o.Censored {
			t.Errorf("%d: at the declared cap %v, censored %v", i, o.AtCap, o.Censored)
		}
	}
}

func TestC24_OneHungCallAmongMany(t *testing.T) {
	ops := each(t, 200, func(i int) []Span {
		d := 1.9 + float64(i%3)/10
		if i == 77 {
			d = 23_400
		}
		return []Span{chat("01", "", "m1", 0, d)}
	})
	giants := 0
	for _, o := range ops {
		if *o.InferenceTimeNS > 100*sec {
			giants++
			if o.Censored || o.Outcome != rows.OutcomeOK || *o.InferenceTimeNS != 23_400*sec {
				t.Errorf("the giant lasts %v s, censored %v", secs(*o.InferenceTimeNS), o.Censored)
			}
		}
	}
	if giants != 1 {
		t.Fatalf("%d giants, want 1", giants)
	}
	// While it hangs, it is an open request whose age is known.
	res := Analyze(Trace{Spans: []Span{tool("02", "01", "t", 0, 1), chat("03", "01", "m1", 1, 3)}, Now: at(23_400)}, Options{})
	if len(res.Open) != 1 || res.Open[0].AgeNS != 23_400*sec || res.Open[0].LastSpanAt != at(3) {
		t.Fatalf("open: %+v", res.Open)
	}
}

func TestC25_SuspectTimesLeaveNoPercentile(t *testing.T) {
	suspect := 0
	var known []int64
	for _, o := range each(t, 50, func(i int) []Span {
		d := 4 + float64(i)/10
		return []Span{chat("01", "", "m1", 0, d, streamed, firstChunk(d), output(300+i))}
	}) {
		if o.TTFTState == rows.TTFTSuspect {
			suspect++
		}
		if o.TTFTNS != nil {
			known = append(known, *o.TTFTNS)
		}
		if o.TimePerOutputTokenNS != nil || o.FirstChunkNS != nil || o.GenerationNS != 0 {
			t.Errorf("a suspect first token was used: per token %v, first chunk %v, generation %d", o.TimePerOutputTokenNS, o.FirstChunkNS, o.GenerationNS)
		}
	}
	if suspect != 50 || len(known) != 0 {
		t.Fatalf("suspect %d, known %d", suspect, len(known))
	}
}

func TestC30_HalfOfThemMissing(t *testing.T) {
	var known []int64
	missing := 0
	for _, o := range each(t, 20, func(i int) []Span {
		if i%2 == 0 {
			return []Span{chat("01", "", "m1", 0, 6, streamed, kv("gen_ai.response.finish_reasons", []string{"length"}))}
		}
		return []Span{chat("01", "", "m1", 0, 6, streamed, firstChunk(1+float64(i)/20))}
	}) {
		switch o.TTFTState {
		case rows.TTFTMissing:
			missing++
		case rows.TTFTKnown:
			known = append(known, *o.TTFTNS)
		}
	}
	sort.Slice(known, func(i, j int) bool { return known[i] < known[j] })
	if len(known) != 10 || missing != 10 || known[0] != 1050*ms || known[4] != 1450*ms || known[9] != 1950*ms {
		t.Fatalf("%d known, %d missing: %v", len(known), missing, known)
	}
}

func TestC70_StreamedCallsOutliveTheGateway(t *testing.T) {
	slices := map[string]map[string]int{}
	count := func(o *rows.Operation) {
		if slices[o.Stream] == nil {
			slices[o.Stream] = map[string]int{}
		}
		slices[o.Stream][o.Outcome+" "+o.ErrorClass]++
	}
	for _, o := range each(t, 40, func(i int) []Span {
		if i < 20 {
			return []Span{chat("01", "", "m1", 0, 60, kv("gen_ai.request.stream", false), kv("http.response.status_code", 504), StatusError)}
		}
		return []Span{chat("01", "", "m1", 0, 70+float64(i-20)/2, streamed)}
	}) {
		count(o)
		if o.Outcome == rows.OutcomeError && (o.UserTimeNS != 60*sec || !o.Censored) {
			t.Errorf("a 504 at %v s, censored %v", secs(o.UserTimeNS), o.Censored)
		}
	}
	if slices["no"]["error timeout"] != 20 || slices["yes"]["ok "] != 20 || len(slices) != 2 {
		t.Fatalf("slices: %v", slices)
	}
}

func TestC72_ControlWithShortPrompts(t *testing.T) {
	for _, o := range each(t, 20, func(i int) []Span {
		server := chat("02", "01", "m1", 0.1, 3, hostB, firstChunk(0.9+float64(i)/100), kv("gen_ai.usage.input_tokens", 1000))
		server.Kind = KindServer
		return []Span{chat("01", "", "m1", 0, 3.1, streamed), server}
	}) {
		if *o.InputTokens != 1000 || o.TTFTState != rows.TTFTKnown || *o.TTFTNS < 900*ms || *o.TTFTNS > 1300*ms {
			t.Errorf("input %d, first token %v (%s)", *o.InputTokens, o.TTFTNS, o.TTFTState)
		}
	}
}

func TestC74_SlowWithoutRetries(t *testing.T) {
	classes := map[string]int{}
	for _, o := range each(t, 60, func(i int) []Span {
		if i%10 == 9 {
			return []Span{chat("01", "", "m1", 0, 60, StatusError, output(80)), post("02", "01", 0, 60, 504)}
		}
		return []Span{chat("01", "", "m1", 0, 0.9, output(80)), post("02", "01", 0, 0.9, 200)}
	}) {
		classes[o.ErrorClass]++
		if *o.Attempts != 1 || *o.HiddenTotalNS != 0 || *o.OutputTokens != 80 {
			t.Errorf("attempts %d, hidden %d: nothing was tried again", *o.Attempts, *o.HiddenTotalNS)
		}
	}
	if classes[""] != 54 || classes[rows.ClassTimeout] != 6 {
		t.Fatalf("classes: %v", classes)
	}
}

func TestC79_BackoffIsTheMainPart(t *testing.T) {
	byRetries := map[uint32]int{}
	for _, o := range each(t, 100, func(i int) []Span {
		if i < 52 {
			return []Span{chat("01", "", "m1", 0, 0.9), post("02", "01", 0, 0.9, 200)}
		}
		return []Span{chat("01", "", "m1", 0, 7.5), post("02", "01", 0, 0.3, 429), post("03", "01", 2.3, 2.6, 429), post("04", "01", 6.6, 7.5, 200)}
	}) {
		retries := *o.Attempts - 1
		byRetries[retries]++
		if retries == 2 {
			near(t, "backoff", &o.BackoffNS, 6)
			near(t, "failed", &o.FailedAttemptNS, 0.6)
			near(t, "user time", &o.UserTimeNS, 7.5)
			near(t, "agent time", o.AgentTimeNS, 0.9)
		}
	}
	if byRetries[0] != 52 || byRetries[2] != 48 {
		t.Fatalf("by retries: %v", byRetries)
	}
}

// TestC89_AgeOfTheLastSpan: without heartbeats the age of the last span in an open trace
// says the same.
func TestC89_AgeOfTheLastSpan(t *testing.T) {
	var spans []Span
	for i := range 31 {
		spans = append(spans, tool(fmt.Sprintf("%02d", i+2), "01", "beat", float64(i)*10-1, float64(i)*10))
	}
	for _, now := range []float64{301, 330, 360, 3600} {
		res := Analyze(Trace{Spans: spans, Now: at(now)}, Options{})
		if len(res.Open) != 1 || len(res.Requests) != 0 {
			t.Fatalf("at %v: %d open, %d finished: silence is no end", now, len(res.Open), len(res.Requests))
		}
		if silent := res.Open[0].ObservedAt - res.Open[0].LastSpanAt; silent != at(now)-at(300) {
			t.Errorf("at %v: silent for %v s", now, secs(silent))
		}
	}
	// The trace that then times out is no success.
	r := theRequest(t, analyze(t, spans...))
	if r.Outcome != rows.OutcomeOpen || !r.Censored || !r.Incomplete {
		t.Fatalf("outcome %s, censored %v", r.Outcome, r.Censored)
	}
}

func TestS6_WhatEndedEachAttempt(t *testing.T) {
	res := analyze(t, agent("01", "", "planner", 0, 52, kv("budget", 52), StatusError),
		timedOut("02", "01", "m1", 0, 30, kv("timeout", 30)),
		chat("03", "01", "m1", 30.5, 31.4, append(failedWith("429"), kv("timeout", 30))...),
		timedOut("04", "01", "m1", 32.1, 52, kv("timeout", 19.9)))
	var verdicts []string
	for _, a := range res.Attempts {
		switch {
		case a.AtCap && *a.TimeoutNS >= *a.RemainingNS-capTolerance(*a.TimeoutNS):
			verdicts = append(verdicts, "cut by the budget")
		case a.AtCap:
			verdicts = append(verdicts, "capped")
		default:
			verdicts = append(verdicts, a.ErrorClass)
		}
	}
	if got := fmt.Sprint(verdicts); got != "[capped overload cut by the budget]" {
		t.Fatalf("verdicts: %s", got)
	}
}

// TestC78_CapLargerThanWhatIsLeft: a step's own limit cannot help once less is left.
func TestC78_CapLargerThanWhatIsLeft(t *testing.T) {
	res := analyze(t, agent("01", "", "planner", 0, 900, StatusError, kv("budget", 900)),
		timedOut("02", "01", "m1", 20, 879, kv("timeout", 1200)), post("03", "02", 20, 879, 0, failedWith("timeout")...))
	o, a := one(t, res), res.Attempts[0]
	near(t, "left", a.RemainingNS, 880)
	if *a.TimeoutNS <= *a.RemainingNS || *o.Attempts != 1 || o.AtCap {
		t.Fatalf("cap %v s, left %v s, attempts %d, at cap %v", secs(*a.TimeoutNS), secs(*a.RemainingNS), *o.Attempts, o.AtCap)
	}
	if *o.TimeoutNS <= *o.DeadlineAt-o.StartedAt {
		t.Fatal("the row does not show that the step's cap exceeds what was left")
	}
}

// TestC89_Heartbeats: a span that has not ended is an open request by its heartbeats.
func TestC89_Heartbeats(t *testing.T) {
	running := agent("01", "", "planner", 0, 0, kv("driftline.request.budget_ms", 900_000))
	running.End = 0
	run := func(now float64, spans ...Span) Result {
		return Analyze(Trace{Spans: spans, Running: &running, Heartbeats: 31, LastHeartbeat: at(300), Now: at(now)}, Options{})
	}
	res := run(360)
	if !res.GenAI || len(res.Open) != 1 || len(res.Operations)+len(res.Requests)+len(res.Segments) != 0 {
		t.Fatalf("GenAI %v, %d open, %d operations", res.GenAI, len(res.Open), len(res.Operations))
	}
	o := res.Open[0]
	if o.AgeNS != 360*sec || o.LastSpanAt != at(300) || o.StartedAt != at(0) || o.Spans != 31 || o.Agent != "planner" || o.ServiceName != "a" || *o.DeadlineAt != at(900) {
		t.Fatalf("open: %+v", o)
	}
	// Spans of the same request, before and after the last heartbeat.
	res = run(400, chat("02", "01", "m1", 100, 120))
	if o = res.Open[0]; o.LastSpanAt != at(300) || o.StartedAt != at(0) || o.Spans != 32 || o.Operations != 1 {
		t.Fatalf("beside a span: %+v", o)
	}
	if o = run(400, chat("02", "01", "m1", 310, 390)).Open[0]; o.LastSpanAt != at(390) || o.StartedAt != at(0) {
		t.Fatalf("before a span: %+v", o)
	}
	// Once its root has come a request is not open, whatever still beats.
	if res = run(400, agent("00", "", "main", 0, 390)); len(res.Open) != 0 {
		t.Fatalf("%d open beside a root", len(res.Open))
	}
	// Another span that runs, of a request whose first spans came.
	running = chat("03", "01", "m1", 200, 200)
	if o = run(400, chat("02", "01", "m1", 100, 120)).Open[0]; o.StartedAt != at(100) || o.AgeNS != 300*sec {
		t.Fatalf("beside an inner span: %+v", o)
	}
}
