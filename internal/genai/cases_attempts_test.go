package genai

import (
	"testing"

	"driftline/internal/rows"
)

func case1(options ...any) []Span {
	return []Span{
		chat("01", "", "m1", 0, 21, options...),
		post("02", "01", 0, 8, 503),
		post("03", "01", 8.6, 16, 504, kv("http.request.resend_count", 1)),
		post("04", "01", 17.2, 21, 200, kv("http.request.resend_count", 2)),
	}
}

func near(t *testing.T, what string, got *int64, want float64) {
	t.Helper()
	if got == nil {
		t.Fatalf("%s is unknown, want %v s", what, want)
	}
	if d := secs(*got) - want; d > 1e-6 || d < -1e-6 {
		t.Fatalf("%s is %v s, want %v s", what, secs(*got), want)
	}
}

func attemptsAre(t *testing.T, o *rows.Operation, want uint32, source string) {
	t.Helper()
	if o.Attempts == nil {
		t.Fatalf("attempts of %s are unknown, want %d", o.OperationID, want)
	}
	if *o.Attempts != want || o.AttemptSource != source {
		t.Fatalf("attempts of %s are %d from %s, want %d from %s", o.OperationID, *o.Attempts, o.AttemptSource, want, source)
	}
}

func TestC1_AttemptsFromHTTPChildren(t *testing.T) {
	res := analyze(t, case1()...)
	o := one(t, res)
	attemptsAre(t, o, 3, rows.SourceHTTPChild)
	near(t, "failed", &o.FailedAttemptNS, 15.4)
	near(t, "backoff", &o.BackoffNS, 1.8)
	near(t, "final", &o.InferenceSegmentNS, 3.8)
	near(t, "inference time", o.InferenceTimeNS, 3.8)
	near(t, "hidden", o.HiddenTotalNS, 17.2)
	r := theRequest(t, res)
	near(t, "request hidden", r.HiddenPathNS, 17.2)
	if r.Kind != rows.KindChat || *r.Retries != 2 || r.Operations != 1 || r.Steps != 1 {
		t.Fatalf("request is %s with %d retries, %d operations, %d steps", r.Kind, *r.Retries, r.Operations, r.Steps)
	}
	if len(res.Attempts) != 3 || res.Attempts[0].Layer != rows.LayerTransport || !res.Attempts[2].Last {
		t.Fatalf("attempts: %+v", res.Attempts)
	}

	alone := one(t, analyze(t, case1()[0]))
	if alone.Attempts != nil || alone.AttemptSource != rows.SourceUnknown {
		t.Fatalf("without children attempts are %v from %s, want unknown", alone.Attempts, alone.AttemptSource)
	}
	if alone.TTFTState != rows.TTFTMissing {
		t.Fatalf("TTFT is %s", alone.TTFTState)
	}
}

func TestC2_SiblingsWithATotalOnTheLast(t *testing.T) {
	req := func(id string, from, to float64, o ...any) Span {
		return sp(id, "01", "llm_request", from, to, append([]any{KindClient, kv("gen_ai.request.model", "m1")}, o...)...)
	}
	res := analyze(t,
		sp("01", "", "interaction", 0, 6),
		req("02", 0, 1, kv("status_code", 500), StatusError),
		req("03", 1.5, 1.6, kv("status_code", 429), StatusError),
		req("04", 3.1, 6, kv("attempt", 3), kv("request_setup_ms", 3100)))
	o := one(t, res)
	attemptsAre(t, o, 3, rows.SourceAttribute)
	near(t, "pre-success", o.HiddenTotalNS, 3.1)
	near(t, "failed", &o.FailedAttemptNS, 1.1)
	if res.Attempts[2].Ordinal != 3 || res.Attempts[0].Layer != rows.LayerFramework || res.Attempts[1].ErrorClass != rows.ClassOverload {
		t.Fatalf("attempts: %+v", res.Attempts)
	}
}

func TestC2_StatedNumberAboveWhatWasSeen(t *testing.T) {
	res := analyze(t,
		sp("01", "", "interaction", 0, 6),
		chat("04", "01", "m1", 3.1, 6, kv("attempt", 3)))
	o := one(t, res)
	attemptsAre(t, o, 3, rows.SourceAttribute)
	if o.HiddenTotalNS != nil || len(res.Attempts) != 0 {
		t.Fatalf("hidden is %v with %d attempt rows: how long unseen attempts took is unknown", o.HiddenTotalNS, len(res.Attempts))
	}
}

func TestC3_SiblingsWithoutAnyMark(t *testing.T) {
	res := analyze(t,
		sp("01", "", "run", 0, 9),
		chat("02", "01", "m1", 0, 2, StatusError),
		chat("03", "01", "m1", 2.4, 4, StatusError),
		chat("04", "01", "m1", 4.9, 9))
	o := one(t, res)
	attemptsAre(t, o, 3, rows.SourceSibling)
	near(t, "failed", &o.FailedAttemptNS, 3.6)
	near(t, "backoff", &o.BackoffNS, 1.3)
	near(t, "wall", &o.UserTimeNS, 9)
	if o.OperationID != "02" || o.Outcome != rows.OutcomeOK {
		t.Fatalf("operation %s %s, want that of the first attempt, ok", o.OperationID, o.Outcome)
	}
}

func TestC3_WhatIsNoRetry(t *testing.T) {
	for name, spans := range map[string][]Span{
		"asked again after success": {chat("02", "01", "m1", 0, 2), chat("03", "01", "m1", 2.4, 4)},
		"another model":             {chat("02", "01", "m1", 0, 2, StatusError), chat("03", "01", "m2", 2.4, 4)},
		"in parallel":               {chat("02", "01", "m1", 0, 2, StatusError), chat("03", "01", "m1", 1, 4)},
		"a rejected request":        {chat("02", "01", "m1", 0, 2, kv("error.type", "400"), StatusError), chat("03", "01", "m1", 2.4, 4)},
		"the model planned between": {tool("02", "01", "t", 0, 2, StatusError), chat("03", "01", "m1", 2.1, 3), tool("04", "01", "t", 3.1, 4)},
		"another tool call":         {tool("02", "01", "t", 0, 2, StatusError, kv("gen_ai.tool.call.id", "x")), tool("03", "01", "t", 2.1, 3, kv("gen_ai.tool.call.id", "y"))},
	} {
		res := analyze(t, append(spans, agent("01", "", "planner", 0, 9))...)
		if len(res.Operations) != len(spans) {
			t.Errorf("%s: %d operations, want %d", name, len(res.Operations), len(spans))
		}
		for _, o := range res.Operations {
			if o.Attempts != nil {
				t.Errorf("%s: attempts of %s are %d, want unknown", name, o.OperationID, *o.Attempts)
			}
		}
	}
}

func TestC5_AttemptsFromEvents(t *testing.T) {
	res := analyze(t, chat("01", "", "m1", 0, 9,
		ev("gen_ai.retry", 6.5, kv("attempt", 2), kv("backoff_seconds", 1.0)),
		ev("gen_ai.retry", 3, kv("attempt", 1), kv("backoff_seconds", 0.5))))
	o := one(t, res)
	attemptsAre(t, o, 3, rows.SourceEvent)
	last := res.Attempts[2]
	near(t, "last attempt", &last.DurationNS, 1.5)
	near(t, "backoff", &o.BackoffNS, 1.5)
	near(t, "failed", &o.FailedAttemptNS, 6)
	if last.AttemptID != "01.3" || last.StartedAt != at(7.5) || !last.Last {
		t.Fatalf("last attempt: %+v", last)
	}
}

func TestC6_BothGrains(t *testing.T) {
	res := analyze(t,
		sp("01", "", "POST /ask", 0, 3, KindServer, kv("http.request.method", "POST")),
		chat("02", "01", "m1", 0, 0.2, kv("http.response.status_code", 429), StatusError, kv("gen_ai.usage.output_tokens", 0)),
		chat("03", "01", "m1", 1.2, 3, kv("gen_ai.usage.output_tokens", 1200)))
	o := one(t, res)
	attemptsAre(t, o, 2, rows.SourceSibling)
	if o.Outcome != rows.OutcomeOK || res.Attempts[0].Outcome != rows.OutcomeError || res.Attempts[1].Outcome != rows.OutcomeOK {
		t.Fatalf("operation %s, attempts %s, %s", o.Outcome, res.Attempts[0].Outcome, res.Attempts[1].Outcome)
	}
	r := theRequest(t, res)
	if *o.OutputTokens != 1200 || *r.OutputTokens != 1200 || r.InputTokens != nil || r.Kind != rows.KindHTTP {
		t.Fatalf("tokens %d and %d, input %v, kind %s", *o.OutputTokens, *r.OutputTokens, r.InputTokens, r.Kind)
	}
}

func TestC8_ServerSpansOfOneCaller(t *testing.T) {
	server := func(id string, from, to float64, status int) Span {
		return sp(id, "01", "POST /v1/chat", from, to, KindServer, hostB, kv("http.request.method", "POST"), kv("http.response.status_code", status))
	}
	o := one(t, analyze(t, chat("01", "", "m1", 0, 10),
		server("02", 0.1, 3, 503), server("03", 3.6, 6, 503), server("04", 7, 9.9, 200)))
	attemptsAre(t, o, 3, rows.SourceServerChild)
	near(t, "backoff", &o.BackoffNS, 1.6)

	genai := func(id string, from, to float64, status int) Span {
		s := server(id, from, to, status)
		s.Attrs = append(s.Attrs, kv("gen_ai.operation.name", "chat"), kv("gen_ai.request.model", "m1"))
		return s
	}
	res := analyze(t, chat("01", "", "m1", 0, 10), genai("02", 0.1, 3, 503), genai("03", 3.6, 6, 503), genai("04", 7, 9.9, 200))
	o = one(t, res)
	attemptsAre(t, o, 3, rows.SourceServerChild)
	if res.Attempts[0].Layer != rows.LayerClient || res.Attempts[0].ServiceName != "b" {
		t.Fatalf("first attempt: %+v", res.Attempts[0])
	}
}

func TestC10_ThreeLayers(t *testing.T) {
	var spans []Span
	id := 100
	next := func() string { id++; return string(rune('a'+id/26%26)) + string(rune('a'+id%26)) }
	spans = append(spans, chat("01", "", "m1", 0, 90))
	for i := range 3 {
		s := next()
		spans = append(spans, sp(s, "01", "stream_try", float64(i)*30, float64(i)*30+29))
		for j := range 3 {
			k := next()
			from := float64(i)*30 + float64(j)*9
			spans = append(spans, sp(k, s, "sdk_try", from, from+8))
			for l := range 5 {
				spans = append(spans, post(next(), k, from+float64(l)*1.6, from+float64(l)*1.6+1, 429))
			}
		}
	}
	res := analyze(t, spans...)
	o := one(t, res)
	attemptsAre(t, o, 3, rows.SourceHTTPChild)
	if *o.LeafAttempts != 45 {
		t.Fatalf("leaf attempts are %d, want 45", *o.LeafAttempts)
	}
	layers := map[string]int{}
	for _, a := range res.Attempts {
		layers[a.Layer]++
	}
	if layers[rows.LayerFramework] != 3 || layers[rows.LayerSDK] != 9 || layers[rows.LayerTransport] != 45 {
		t.Fatalf("layers are %v, want 3, 9 and 45", layers)
	}
}

func TestC12_ObservedAgainstConfigured(t *testing.T) {
	spans := []Span{chat("01", "", "m1", 0, 3, kv("max_retries", 1), StatusError)}
	for i := range 6 {
		spans = append(spans, post(string(rune('a'+i)), "01", float64(i)*0.5, float64(i)*0.5+0.1, 0, kv("error.type", "ReadTimeout"), StatusError))
	}
	o := one(t, analyze(t, spans...))
	attemptsAre(t, o, 6, rows.SourceHTTPChild)
	if *o.MaxRetries != 1 || o.ErrorClass != rows.ClassTimeout || !o.Censored {
		t.Fatalf("max_retries %d, class %s, censored %v", *o.MaxRetries, o.ErrorClass, o.Censored)
	}
}

func TestC13_ThroughAProxy(t *testing.T) {
	spans := []Span{
		chat("01", "", "m1", 0, 12, kv("max_retries", 1), StatusError),
		sp("02", "01", "POST /chat", 0, 12, KindServer, hostB, kv("http.request.method", "POST"), kv("http.response.status_code", 429)),
	}
	for i := range 6 {
		spans = append(spans, post(string(rune('a'+i)), "02", float64(i)*2, float64(i)*2+1, 429, hostB))
	}
	o := one(t, analyze(t, spans...))
	attemptsAre(t, o, 6, rows.SourceHTTPChild)
	if *o.MaxRetries != 1 {
		t.Fatalf("max_retries is %d", *o.MaxRetries)
	}
	// The same with the caller's own HTTP span in between.
	spans[1].ParentID = "03"
	o = one(t, analyze(t, append(spans, post("03", "01", 0, 12, 429))...))
	if *o.LeafAttempts != 6 {
		t.Fatalf("leaf attempts are %d, want 6", *o.LeafAttempts)
	}
}

func TestC14_CappedAttempts(t *testing.T) {
	res := analyze(t, chat("01", "", "m1", 0, 91.6, StatusError),
		post("02", "01", 0, 30, 0, kv("error.type", "timeout"), StatusError),
		post("03", "01", 30.5, 60.5, 0, kv("error.type", "timeout"), StatusError),
		post("04", "01", 61.6, 91.6, 0, kv("error.type", "timeout"), StatusError))
	o := one(t, res)
	attemptsAre(t, o, 3, rows.SourceHTTPChild)
	for _, a := range res.Attempts {
		near(t, "attempt", &a.DurationNS, 30)
		if a.ErrorClass != rows.ClassTimeout || !a.Censored || a.AtCap {
			t.Fatalf("attempt %d: class %s, censored %v, at a declared cap %v", a.Ordinal, a.ErrorClass, a.Censored, a.AtCap)
		}
	}
	near(t, "total", &o.UserTimeNS, 91.6)
	near(t, "censored inference time", o.InferenceTimeNS, 30)
	if o.ErrorClass != rows.ClassTimeout {
		t.Fatalf("class is %s", o.ErrorClass)
	}
}

func TestC47_DuplicatesDoNotCount(t *testing.T) {
	o := one(t, analyze(t, append(case1(), case1()...)...))
	attemptsAre(t, o, 3, rows.SourceHTTPChild)
}

func TestC70_StreamedAndNot(t *testing.T) {
	slow := one(t, analyze(t, chat("01", "", "m1", 0, 60, kv("gen_ai.request.stream", false), kv("http.response.status_code", 504), StatusError)))
	if slow.Stream != rows.StreamNo || slow.ErrorClass != rows.ClassTimeout || slow.TTFTState != rows.TTFTNotApplicable {
		t.Fatalf("stream %s, class %s, TTFT %s", slow.Stream, slow.ErrorClass, slow.TTFTState)
	}
	fine := one(t, analyze(t, chat("01", "", "m1", 0, 75, kv("gen_ai.request.stream", true))))
	if fine.Stream != rows.StreamYes || fine.TTFTState != rows.TTFTMissing {
		t.Fatalf("stream %s, TTFT %s", fine.Stream, fine.TTFTState)
	}
}

func TestC75_ErrorClasses(t *testing.T) {
	for _, c := range []struct {
		status int
		typ    string
		err    bool
		want   string
	}{
		{408, "", true, rows.ClassTimeout}, {504, "", true, rows.ClassTimeout}, {524, "", true, rows.ClassTimeout},
		{0, "timeout", true, rows.ClassTimeout}, {429, "", true, rows.ClassOverload}, {503, "", true, rows.ClassOverload},
		{529, "", true, rows.ClassOverload}, {500, "", true, rows.ClassServer}, {0, "504", true, rows.ClassTimeout},
		{0, "openai.APITimeoutError", true, rows.ClassTimeout}, {0, "RateLimitError", true, rows.ClassOverload},
		{0, "httpx.ConnectError", true, rows.ClassNetwork}, {0, "httpx.ConnectTimeout", true, rows.ClassTimeout},
		{0, "asyncio.CancelledError", false, rows.ClassCancelled}, {400, "", false, rows.ClassClient},
		{0, "BadRequestError", true, rows.ClassClient}, {0, "_OTHER", true, rows.ClassOther}, {0, "", true, rows.ClassOther},
		{200, "", false, ""}, {0, "", false, ""}, {200, "tool_error", false, rows.ClassOther}, {499, "", false, rows.ClassCancelled},
		{0, "java.net.SocketTimeoutException", true, rows.ClassTimeout}, {0, "InternalServerError", true, rows.ClassServer},
	} {
		if got := ErrorClass(c.status, c.typ, c.err); got != c.want {
			t.Errorf("status %d, type %q, error %v: %q, want %q", c.status, c.typ, c.err, got, c.want)
		}
	}
}

func TestHeadersCountRetries(t *testing.T) {
	for name, key := range map[string]string{"dashes": "http.request.header.x-stainless-retry-count", "underscores": "http.request.header.x_stainless_retry_count"} {
		o := one(t, analyze(t, chat("01", "", "m1", 0, 9),
			post("02", "01", 0, 1, 500, kv(key, []string{"0"})),
			post("03", "01", 2, 9, 200, kv(key, []string{"1"}))))
		attemptsAre(t, o, 2, rows.SourceHTTPChild)
		// The first try was not exported: two are known, their times are not.
		o = one(t, analyze(t, chat("01", "", "m1", 0, 9), post("03", "01", 2, 9, 200, kv(key, []string{"1"}))))
		attemptsAre(t, o, 2, rows.SourceAttribute)
		if o.HiddenTotalNS != nil {
			t.Errorf("%s: hidden is %d, want unknown", name, *o.HiddenTotalNS)
		}
		near(t, "before the seen attempt", &o.UnattributedNS, 2)
	}
	o := one(t, analyze(t, chat("01", "", "m1", 0, 9), post("02", "01", 0, 8, 200, kv("http.request.header.x-stainless-retry-count", []string{"[REDACTED]"}))))
	attemptsAre(t, o, 1, rows.SourceHTTPChild)
	near(t, "hidden", o.HiddenTotalNS, 0)
}

func TestAuxiliaryRequestsAreNoAttempts(t *testing.T) {
	token := post("02", "01", 0, 0.3, 200)
	token.Attrs = []Attr{kv("http.request.method", "POST"), kv("url.full", "https://oauth.example.com/token")}
	o := one(t, analyze(t, chat("01", "", "m1", 0, 5), token, post("03", "01", 0.4, 5, 200)))
	attemptsAre(t, o, 1, rows.SourceHTTPChild)
	res := analyze(t, tool("01", "", "search", 0, 5), post("02", "01", 0, 2, 200), post("03", "01", 2, 5, 200))
	if o := one(t, res); o.Attempts != nil {
		t.Fatalf("two successful requests of a tool gave %d attempts", *o.Attempts)
	}
	res = analyze(t, tool("01", "", "search", 0, 5), post("02", "01", 0, 2, 503), post("03", "01", 2.5, 5, 200))
	attemptsAre(t, one(t, res), 2, rows.SourceHTTPChild)
}

func TestCheckpointHoldsAFailedLastAttempt(t *testing.T) {
	spans := []Span{chat("02", "01", "m1", 0, 2, StatusError, kv("error.type", "503")), chat("03", "01", "m2", 0, 2)}
	run := func(now float64) Result {
		return Analyze(Trace{Spans: spans, Now: at(now), AttemptWait: 10 * sec}, Options{})
	}
	res := run(5)
	if len(res.Operations) != 1 || res.Operations[0].OperationID != "03" || len(res.Requests) != 0 || len(res.Open) != 1 {
		t.Fatalf("at 5 s: %d operations, %d requests, %d open", len(res.Operations), len(res.Requests), len(res.Open))
	}
	if o := res.Open[0]; o.Operations != 2 || o.FailedOperations != 1 || o.AgeNS != 5*sec || o.LastSpanAt != at(2) {
		t.Fatalf("open: %+v", o)
	}
	if res.Operations[0].RequestID != "" {
		t.Fatalf("request id is %q before the root was seen", res.Operations[0].RequestID)
	}
	if res := run(12); len(res.Operations) != 2 {
		t.Fatalf("at 12 s: %d operations, want 2", len(res.Operations))
	}
}

func TestHiddenTimeInsideAFailedAgentCountsOnce(t *testing.T) {
	res := analyze(t, agent("01", "", "planner", 0, 20),
		agent("02", "01", "helper", 0, 8, StatusError),
		chat("03", "02", "m1", 0, 2, StatusError), chat("04", "02", "m1", 3, 8),
		agent("05", "01", "helper", 9, 19),
		chat("06", "05", "m1", 9, 12, StatusError), chat("07", "05", "m1", 13, 19))
	r := theRequest(t, res)
	near(t, "hidden in total", r.HiddenTotalNS, 13) // the helper's first try 8, backoff 1, then 3 and 1 inside the second
	near(t, "hidden on the path", r.HiddenPathNS, 13)
	if len(res.Operations) != 3 {
		t.Fatalf("%d operations, want the helper and one call in each of its tries", len(res.Operations))
	}
	if dead := operation(t, res, "03"); dead.OnPath || dead.PathNS != 0 {
		t.Fatalf("a call inside a failed try has %d on the path", dead.PathNS)
	}
}
