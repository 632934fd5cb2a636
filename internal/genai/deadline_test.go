package genai

import (
	"testing"
	"time"

	"driftline/internal/rows"
)

func header(name, value string) Attr {
	return kv("http.request.header."+name, []string{value})
}

func TestGRPCTimeout(t *testing.T) {
	for text, want := range map[string]int64{
		"1H": 3600 * sec, "2M": 120 * sec, "5S": 5 * sec, "100m": 100 * ms, "250u": 250_000, "7n": 7, " 5S ": 5 * sec, "99999999S": 99_999_999 * sec,
	} {
		if got, ok := grpcTimeout(text); !ok || got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for _, text := range []string{"", "S", "5", "5s", "5h", "-1S", "1.5S", "100000000S", "NOT_GIVEN", "[REDACTED]", "5 S", "+5S"} {
		if got, ok := grpcTimeout(text); ok {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

// TestHeaders_EverySpelling reads one header however it was captured.
func TestHeaders_EverySpelling(t *testing.T) {
	for _, key := range []string{
		"http.request.header.x-stainless-retry-count", "http.request.header.x_stainless_retry_count", "x-stainless-retry-count", "x_stainless_retry_count",
		"ai.request.headers.x-stainless-retry-count", "request.header.x-stainless-retry-count",
		"rpc.grpc.request.metadata.x-stainless-retry-count", "rpc.request.metadata.x-stainless-retry-count",
	} {
		if !Wanted(key, nil) {
			t.Errorf("%s is not kept", key)
		}
		for _, value := range []any{[]string{"2"}, "2", " 2 ", 2, 2.0} {
			o := one(t, analyze(t, chat("01", "", "m1", 0, 9), post("02", "01", 5, 9, 200, kv(key, value))))
			if o.Attempts == nil || *o.Attempts != 3 || o.HiddenTotalNS != nil {
				t.Errorf("%s = %v: attempts %v, hidden %v", key, value, o.Attempts, o.HiddenTotalNS)
			}
		}
		for _, value := range []any{[]string{"[REDACTED]"}, "NOT_GIVEN", "None", "", []string{}, "-1", -1} {
			o := one(t, analyze(t, chat("01", "", "m1", 0, 9), post("02", "01", 5, 9, 200, kv(key, value))))
			if o.Attempts == nil || *o.Attempts != 1 || o.AttemptSource != rows.SourceHTTPChild {
				t.Errorf("%s = %v: attempts %v from %s, want 1 from its span", key, value, o.Attempts, o.AttemptSource)
			}
		}
	}
}

func TestTimeouts_OfAnAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		call, try []any
		want      float64 // 0 for unknown
	}{
		"none":                            {},
		"attribute":                       {call: []any{kv("timeout", 7)}, want: 7},
		"driftline's own goes first":      {call: []any{kv("timeout", 7), kv("driftline.timeout_ms", 9000)}, want: 9},
		"read timeout on the try":         {try: []any{header("x-stainless-read-timeout", "600")}, want: 600},
		"read timeout, underscores":       {try: []any{header("x_stainless_read_timeout", "600.0")}, want: 600},
		"whole timeout":                   {try: []any{header("x-stainless-timeout", "45")}, want: 45},
		"the shorter of both":             {try: []any{header("x-stainless-timeout", "45"), header("x-stainless-read-timeout", "600")}, want: 45},
		"the other where one is no text":  {try: []any{header("x-stainless-timeout", "NOT_GIVEN"), header("x-stainless-read-timeout", "600")}, want: 600},
		"None":                            {try: []any{header("x-stainless-timeout", "None")}},
		"redacted, and a plain attribute": {try: []any{header("x-stainless-read-timeout", "[REDACTED]"), kv("timeout", 12)}, want: 12},
		"redacted, and another spelling":  {try: []any{header("x-stainless-read-timeout", "[REDACTED]"), kv("x_stainless_read_timeout", "30")}, want: 30},
		"gRPC":                            {try: []any{header("grpc-timeout", "1500m")}, want: 1.5},
		"gRPC by metadata":                {try: []any{kv("rpc.grpc.request.metadata.grpc-timeout", []string{"5S"})}, want: 5},
		"gRPC, not a timeout":             {try: []any{header("grpc-timeout", "1500")}},
		"Envoy, expected":                 {try: []any{header("x-envoy-expected-rq-timeout-ms", "15000")}, want: 15},
		"Envoy, upstream":                 {try: []any{header("x-envoy-upstream-rq-timeout-ms", "15000")}, want: 15},
		"Connect":                         {try: []any{header("connect-timeout-ms", "2500")}, want: 2.5},
		"Google":                          {try: []any{header("x-server-timeout", "300.0")}, want: 300},
		"LiteLLM":                         {try: []any{header("x-litellm-timeout", "20")}, want: 20},
		"the try's before the call's":     {call: []any{kv("timeout", 7)}, try: []any{header("x-stainless-read-timeout", "3")}, want: 3},
		"zero is none":                    {call: []any{kv("timeout", 0)}},
	} {
		res := analyze(t, chat("01", "", "m1", 0, 2, c.call...), post("02", "01", 0, 2, 200, c.try...))
		for what, got := range map[string]*int64{"operation": one(t, res).TimeoutNS, "attempt": res.Attempts[0].TimeoutNS} {
			switch {
			case (got == nil) != (c.want == 0):
				t.Errorf("%s: %s's timeout is %v, want %v", name, what, got, c.want)
			case got != nil:
				near(t, name+": "+what, got, c.want)
			}
		}
	}
}

func server(id, parent string, from, to float64, options ...any) Span {
	return sp(id, parent, "POST /ask", from, to, append([]any{KindServer, kv("http.request.method", "POST")}, options...)...)
}

func TestBudget_FromTheCallersHeader(t *testing.T) {
	for name, c := range map[string]struct {
		root   []any
		want   float64 // 0 for unknown
		source string
	}{
		"gRPC":                               {[]any{header("grpc-timeout", "5S")}, 5, rows.DeadlineHeader},
		"Envoy":                              {[]any{header("x-envoy-expected-rq-timeout-ms", "5000")}, 5, rows.DeadlineHeader},
		"an attribute goes first":            {[]any{header("grpc-timeout", "5S"), kv("budget", 8)}, 8, rows.DeadlineAttribute},
		"silence borne is no budget":         {[]any{header("x-stainless-read-timeout", "5")}, 0, ""},
		"not given":                          {[]any{header("x-stainless-timeout", "NOT_GIVEN")}, 0, ""},
		"the whole timeout of an SDK caller": {[]any{header("x-stainless-timeout", "5")}, 5, rows.DeadlineHeader},
	} {
		r := theRequest(t, analyze(t, server("01", "", 0, 7, c.root...), chat("02", "01", "m1", 0, 6)))
		if (r.BudgetNS == nil) != (c.want == 0) || r.DeadlineSource != c.source {
			t.Errorf("%s: budget %v from %q, want %v from %q", name, r.BudgetNS, r.DeadlineSource, c.want, c.source)
			continue
		}
		if c.want > 0 {
			near(t, name, r.BudgetNS, c.want)
			if *r.DeadlineMissed != (c.want < 7) {
				t.Errorf("%s: missed %v", name, *r.DeadlineMissed)
			}
		}
	}
	// What a client sends along from a request's root bounds that call, not its request.
	r := theRequest(t, analyze(t, agent("01", "", "planner", 0, 7), chat("02", "01", "m1", 0, 6), post("03", "02", 0, 6, 200, header("x-stainless-timeout", "5"))))
	if r.DeadlineAt != nil {
		t.Errorf("the request has a deadline of %v from one call's header", r.DeadlineAt)
	}
}

func TestBudget_OfAServerInTheMiddle(t *testing.T) {
	spans := func(timeout string) []Span {
		return []Span{
			agent("01", "", "planner", 0, 30, kv("budget", 20)),
			post("02", "01", 10, 18, 200), server("03", "02", 10, 18, hostB, header("grpc-timeout", timeout)),
			chat("04", "03", "m1", 11, 17, hostB),
		}
	}
	// Five seconds from 10 on are sooner than the request's deadline at 20.
	res := analyze(t, spans("5S")...)
	o := operation(t, res, "04")
	if *o.DeadlineAt != at(15) || !*o.DeadlineMissed || o.DeadlineSource != rows.DeadlineInherited {
		t.Fatalf("deadline at %v s from %s, missed %v", secs(*o.DeadlineAt-base), o.DeadlineSource, *o.DeadlineMissed)
	}
	// Fifteen are 5 s more than is left: the caller started the clock anew.
	res = analyze(t, spans("15S")...)
	if o := operation(t, res, "04"); *o.DeadlineAt != at(20) {
		t.Fatalf("deadline at %v s: a child must not extend it", secs(*o.DeadlineAt-base))
	}
	r := theRequest(t, res)
	if r.PerceivedRemainingNS != nil {
		near(t, "perceived", r.PerceivedRemainingNS, 15)
	}
	near(t, "drift", r.DriftNS, 10) // the overrun of 10 s is more than the reset of 5
	in := spans("15S")
	in[0].End = at(19)
	r = theRequest(t, analyze(t, in...))
	near(t, "reset", r.DriftNS, 5)
	near(t, "told", r.PerceivedRemainingNS, 15)
	near(t, "left", r.TrueRemainingNS, 10)
	in = spans("8S") // within what is left: no reset
	in[0].End = at(19)
	if r := theRequest(t, analyze(t, in...)); r.DriftNS != nil {
		t.Fatalf("drift %v s without a reset", secs(*r.DriftNS))
	}
}

func TestTimeouts_FromTheConfiguration(t *testing.T) {
	opt := Options{Timeouts: map[string]Timeouts{
		"a":        {Attempt: 30 * time.Second, Tool: 10 * time.Second, Request: 90 * time.Second},
		AnyService: {Attempt: 60 * time.Second},
	}}
	run := func(spans ...Span) Result {
		res := Analyze(Trace{Spans: spans, Complete: true, Now: at(1000)}, opt)
		checkLaws(t, res)
		return res
	}
	res := run(agent("01", "", "planner", 0, 100),
		chat("02", "01", "m1", 0, 30, failedWith("timeout")...), chat("03", "01", "m1", 31, 40),
		tool("04", "01", "t", 41, 50), chat("05", "01", "m2", 51, 60, kv("timeout", 5)),
		chat("06", "01", "m3", 61, 70, hostB))
	near(t, "request", theRequest(t, res).BudgetNS, 90)
	near(t, "overrun", theRequest(t, res).DriftNS, 10)
	if r := theRequest(t, res); r.DeadlineSource != rows.DeadlineConfig || !*r.DeadlineMissed {
		t.Fatalf("source %s, missed %v", r.DeadlineSource, *r.DeadlineMissed)
	}
	for id, want := range map[string]float64{"02": 30, "04": 10, "05": 5, "06": 60} {
		near(t, id, operation(t, res, id).TimeoutNS, want)
	}
	if o := operation(t, res, "02"); o.DeadlineSource != rows.DeadlineInherited || o.BudgetNS != nil {
		t.Fatalf("source %s, budget %v", o.DeadlineSource, o.BudgetNS)
	}
	if a := res.Attempts[0]; !a.AtCap || *a.RemainingNS != 90*sec {
		t.Fatalf("first attempt at cap %v, left %v", a.AtCap, a.RemainingNS)
	}
	// What spans state wins, and another service's request has none.
	if r := theRequest(t, run(agent("01", "", "planner", 0, 10, kv("budget", 5)), chat("02", "01", "m1", 0, 9))); r.DeadlineSource != rows.DeadlineAttribute || *r.BudgetNS != 5*sec {
		t.Fatalf("source %s", r.DeadlineSource)
	}
	if r := theRequest(t, run(agent("01", "", "planner", 0, 10, hostB), chat("02", "01", "m1", 0, 9))); r.DeadlineAt != nil {
		t.Fatalf("deadline %v", r.DeadlineAt)
	}
	// Open requests know it too; without a root a finished one does not, since its start is unknown.
	open := Analyze(Trace{Spans: []Span{chat("02", "01", "m1", 1, 9)}, Now: at(40)}, opt).Open[0]
	if open.DeadlineAt == nil || *open.DeadlineAt != at(91) || *open.BudgetNS != 90*sec {
		t.Fatalf("open: %+v", open)
	}
	if r := theRequest(t, run(chat("02", "01", "m1", 1, 9), chat("03", "01", "m2", 9, 12))); r.DeadlineAt != nil {
		t.Fatalf("a request without its root has a deadline at %v", *r.DeadlineAt)
	}
}

func TestRouterTriesOfOneCallID(t *testing.T) {
	id := func(s string) Attr { return kv("litellm.call_id", s) }
	for name, c := range map[string]struct {
		first, second string
		operations    int
	}{"one id": {"x", "x", 1}, "two ids": {"x", "y", 2}} {
		res := analyze(t, server("01", "", 0, 9), chat("02", "01", "m1", 0, 2, append(failedWith("503"), id(c.first))...), chat("03", "01", "m1", 3, 9, id(c.second)))
		if len(res.Operations) != c.operations {
			t.Errorf("%s: %d operations, want %d", name, len(res.Operations), c.operations)
		}
	}
}
