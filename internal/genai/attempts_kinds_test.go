package genai

import (
	"fmt"
	"strings"
	"testing"

	"driftline/internal/rows"
)

// The kinds around the attempt cases: what else such traces look like, and what must not
// be taken for attempts.

func resend(n int) Attr { return kv("http.request.resend_count", n) }

func sentCount(n string) Attr {
	return kv("http.request.header.x-stainless-retry-count", []string{n})
}

// to sends an HTTP span elsewhere.
func to(s Span, host, url string) Span {
	for i := range s.Attrs {
		switch s.Attrs[i].Key {
		case "server.address":
			s.Attrs[i] = kv("server.address", host)
		case "url.full":
			s.Attrs[i] = kv("url.full", url)
		}
	}
	return s
}

func TestHTTPChildren_WhatIsAnAttempt(t *testing.T) {
	token := func(s Span) Span { return to(s, "login.example.com", "https://login.example.com/oauth2/token") }
	for _, c := range []struct {
		name     string
		children []Span
		attempts uint32 // 0 for unknown
		source   string
		failed   float64
		backoff  float64
	}{
		{name: "one answer", children: []Span{post("02", "01", 0, 9, 200)}, attempts: 1},
		{name: "a redirect", children: []Span{post("02", "01", 0, 1, 307), post("03", "01", 1, 9, 200, resend(1))}, attempts: 1},
		{name: "a redirect to another host", children: []Span{to(post("02", "01", 0, 1, 308), "old.example.com", "https://old.example.com/v1/chat"), post("03", "01", 1, 9, 200, resend(1))}, attempts: 1},
		{name: "an auth challenge", children: []Span{post("02", "01", 0, 1, 401, StatusError), post("03", "01", 1, 9, 200, resend(1))}, attempts: 1},
		{name: "a proxy's challenge", children: []Span{post("02", "01", 0, 1, 407, StatusError), post("03", "01", 1, 9, 200, resend(1))}, attempts: 1},
		{name: "a challenge without a number", children: []Span{post("02", "01", 0, 1, 401, StatusError), post("03", "01", 1, 9, 200)}, attempts: 1},
		{name: "a redirect, then a retry", children: []Span{post("02", "01", 0, 1, 307), post("03", "01", 1, 3, 503, resend(1)), post("04", "01", 5, 9, 200, resend(2))}, attempts: 2, failed: 2, backoff: 2},
		{name: "a retry, then a challenge", children: []Span{post("02", "01", 0, 1, 503), post("03", "01", 2, 3, 401, resend(1), StatusError), post("04", "01", 3, 9, 200, resend(2))}, attempts: 2, failed: 1, backoff: 2},
		{name: "tries above a client that does not count", children: []Span{post("02", "01", 0, 1, 503), post("03", "01", 2, 3, 503), post("04", "01", 5, 9, 200)}, attempts: 3, failed: 2, backoff: 3},
		{name: "two layers, flat", children: []Span{post("02", "01", 0, 1, 503), post("03", "01", 1, 2, 503, resend(1)), post("04", "01", 4, 5, 503), post("05", "01", 5, 9, 200, resend(1))}, attempts: 4, failed: 3, backoff: 2},
		{name: "a token fetched before", children: []Span{token(post("02", "01", 0, 1, 200)), post("03", "01", 1, 9, 200)}, attempts: 1},
		{name: "a token fetched again", children: []Span{token(post("02", "01", 0, 1, 503, StatusError)), token(post("03", "01", 1, 2, 200)), post("04", "01", 2, 9, 200)}, attempts: 1},
		{name: "a helper tried again", children: []Span{to(post("02", "01", 0, 1, 503), "h", "https://h/count"), to(post("03", "01", 1, 2, 200), "h", "https://h/count"), post("04", "01", 2, 9, 200)}, attempts: 1},
		{name: "another route after a failure", children: []Span{to(post("02", "01", 0, 1, 503), "eu.example.com", "https://eu.example.com/v1/chat"), post("03", "01", 2, 9, 200)}, attempts: 2, failed: 1, backoff: 1},
		{name: "hedged: the double won", children: []Span{post("02", "01", 0, 8.5, 0, StatusError, kv("error.type", "cancelled")), post("03", "01", 4, 8, 200)}, attempts: 1},
		{name: "hedged: the double timed out", children: []Span{post("02", "01", 0, 8, 200), post("03", "01", 4, 8.5, 0, StatusError, kv("error.type", "timeout"))}, attempts: 1},
		{name: "hedged: the first timed out later", children: []Span{post("02", "01", 0, 8, 504), post("03", "01", 4, 7, 200)}, attempts: 1},
		{name: "two calls, one tried again", children: []Span{post("02", "01", 0, 1, 503), post("03", "01", 2, 4, 200), post("04", "01", 5, 9, 200)}, attempts: 0},
		{name: "two calls, the second tried again", children: []Span{post("02", "01", 0, 1, 200), post("03", "01", 2, 4, 503), post("04", "01", 5, 9, 200)}, attempts: 0},
		{name: "a header counts", children: []Span{post("02", "01", 0, 1, 503, sentCount("0")), post("03", "01", 2, 9, 200, sentCount("1"))}, attempts: 2, failed: 1, backoff: 1},
		{name: "a header counts a stream that broke", children: []Span{post("02", "01", 0, 1, 200, sentCount("0")), post("03", "01", 2, 9, 200, sentCount("1"))}, attempts: 2, failed: 1, backoff: 1},
		{name: "a header starts anew", children: []Span{post("02", "01", 0, 1, 200, sentCount("0")), post("03", "01", 2, 9, 200, sentCount("0"))}, attempts: 1},
		{name: "a header starts anew after tries", children: []Span{post("02", "01", 0, 1, 503, sentCount("0")), post("03", "01", 2, 4, 200, sentCount("1")), post("04", "01", 5, 9, 200, sentCount("0"))}, attempts: 0},
		{name: "a header and resends", children: []Span{post("02", "01", 0, 1, 503, sentCount("0")), post("03", "01", 1, 2, 503, sentCount("0"), resend(1)), post("04", "01", 3, 9, 200, sentCount("1"))}, attempts: 3, failed: 2, backoff: 1},
		{name: "lost spans", children: []Span{post("04", "01", 5, 9, 200, sentCount("2"))}, attempts: 3, source: rows.SourceAttribute},
		{name: "a redacted header", children: []Span{post("04", "01", 0, 9, 200, sentCount("[REDACTED]"))}, attempts: 1},
		{name: "a redacted header beside failures", children: []Span{post("02", "01", 0, 1, 503, sentCount("[REDACTED]")), post("03", "01", 2, 9, 200, sentCount("[REDACTED]"))}, attempts: 2, failed: 1, backoff: 1},
		{name: "a header that was not given", children: []Span{post("04", "01", 0, 9, 200, sentCount("NOT_GIVEN"))}, attempts: 1},
	} {
		for _, doubled := range []bool{false, true} {
			spans := append([]Span{chat("01", "", "m1", 0, 9)}, c.children...)
			if doubled {
				spans = append(spans, spans...)
			}
			res := analyze(t, spans...)
			o := one(t, res)
			if c.attempts == 0 {
				if o.Attempts != nil || o.HiddenTotalNS != nil || len(res.Attempts) != 0 {
					t.Errorf("%s: %d attempts with %d rows, want unknown", c.name, *o.Attempts, len(res.Attempts))
				}
				continue
			}
			source := c.source
			if source == "" {
				source = rows.SourceHTTPChild
			}
			if o.Attempts == nil || *o.Attempts != c.attempts || o.AttemptSource != source {
				t.Errorf("%s: attempts %v from %s, want %d from %s", c.name, o.Attempts, o.AttemptSource, c.attempts, source)
				continue
			}
			if lost := int(c.attempts) > len(res.Attempts); lost != (o.HiddenTotalNS == nil) {
				t.Errorf("%s: %d rows and hidden %v: the time of unseen attempts is unknown, not zero", c.name, len(res.Attempts), o.HiddenTotalNS)
			}
			near(t, c.name+": failed", &o.FailedAttemptNS, c.failed)
			near(t, c.name+": backoff", &o.BackoffNS, c.backoff)
			for k, a := range res.Attempts {
				if a.Last != (k == len(res.Attempts)-1) || a.Last != (a.Outcome == rows.OutcomeOK) {
					t.Errorf("%s: attempt %d is last %v, %s", c.name, a.Ordinal, a.Last, a.Outcome)
				}
			}
		}
	}
}

// TestSiblings_WhatStaysApart holds calls that look like tries of one call and are not.
func TestSiblings_WhatStaysApart(t *testing.T) {
	failed := append(failedWith("503"), KindClient)
	for name, spans := range map[string][]Span{
		"a planned repeat, one after another": {chat("02", "01", "m1", 0, 2), chat("03", "01", "m1", 2, 4), chat("04", "01", "m1", 4, 6)},
		"a planned repeat, side by side":      {chat("02", "01", "m1", 0, 3), chat("03", "01", "m1", 0, 2, failed...), chat("04", "01", "m1", 0, 4)},
		"a hedged call":                       {chat("02", "01", "m1", 0, 4, failed...), chat("03", "01", "m1", 2, 5)},
		"asked again with more history":       {chat("02", "01", "m1", 0, 2, kv("gen_ai.usage.input_tokens", 10)), chat("03", "01", "m1", 2, 4, kv("gen_ai.usage.input_tokens", 60))},
		"a cancelled call, then another":      {chat("02", "01", "m1", 0, 2, failedWith("cancelled")...), chat("03", "01", "m1", 3, 4)},
		"long after":                          {chat("02", "01", "m1", 0, 2, failed...), chat("03", "01", "m1", 900, 902)},
		"numbered anew":                       {chat("02", "01", "m1", 0, 2, append(failed, kv("attempt", 1))...), chat("03", "01", "m1", 3, 4, kv("attempt", 1))},
		"numbered in parallel":                {chat("02", "01", "m1", 0, 2, append(failed, kv("attempt", 2))...), chat("03", "01", "m1", 3, 4, kv("attempt", 2))},
		"embeddings after a failed chat":      {chat("02", "01", "m1", 0, 2, failed...), sp("03", "01", "embeddings m1", 3, 4, KindClient, kv("gen_ai.operation.name", "embeddings"), kv("gen_ai.request.model", "m1"))},
		"another service's call":              {chat("02", "01", "m1", 0, 2, failed...), chat("03", "01", "m1", 3, 4, hostB)},
		"pages of a tool":                     {tool("02", "01", "list", 0, 1), tool("03", "01", "list", 1, 2), tool("04", "01", "list", 2, 3)},
	} {
		spans = append(spans, sp("01", "", "run", 0, 1000))
		for _, order := range [][]Span{spans, reversed(spans)} {
			res := analyze(t, order...)
			if len(res.Operations) != len(spans)-1 {
				t.Errorf("%s: %d operations, want %d", name, len(res.Operations), len(spans)-1)
			}
			for _, o := range res.Operations {
				if o.Attempts != nil && *o.Attempts > 1 && o.AttemptSource == rows.SourceSibling {
					t.Errorf("%s: %s has %d attempts", name, o.OperationID, *o.Attempts)
				}
			}
		}
	}
}

func reversed(in []Span) []Span {
	out := make([]Span, 0, len(in))
	for i := len(in) - 1; i >= 0; i-- {
		out = append(out, in[i])
	}
	return out
}

// TestSiblings_TwoParallelCallsBothTriedAgain keeps two chains apart.
func TestSiblings_TwoParallelCallsBothTriedAgain(t *testing.T) {
	res := analyze(t, agent("01", "", "planner", 0, 10),
		chat("02", "01", "m1", 0, 1, failedWith("503")...), chat("03", "01", "m1", 0, 2, failedWith("503")...),
		chat("04", "01", "m1", 1.5, 4), chat("05", "01", "m1", 3, 5))
	if len(res.Operations) != 2 {
		t.Fatalf("%d operations, want 2", len(res.Operations))
	}
	for id, backoff := range map[string]float64{"02": 0.5, "03": 1} {
		o := operation(t, res, id)
		attemptsAre(t, o, 2, rows.SourceSibling)
		near(t, id+" backoff", &o.BackoffNS, backoff)
	}
}

func TestToolCalls_PollingIsNoRetry(t *testing.T) {
	get := func(id string, from, to float64, status int) Span {
		s := post(id, "01", from, to, status)
		s.Name, s.Attrs[0] = "GET", kv("http.request.method", "GET")
		return s
	}
	for name, c := range map[string]struct {
		children []Span
		attempts uint32
	}{
		"polled":                     {[]Span{get("02", 0, 1, 202), get("03", 2, 3, 202), get("04", 4, 5, 200)}, 0},
		"polled, once in vain":       {[]Span{get("02", 0, 1, 202), get("03", 2, 3, 503), get("04", 4, 5, 200)}, 0},
		"tried again":                {[]Span{get("02", 0, 1, 503), get("04", 4, 5, 200)}, 2},
		"two places":                 {[]Span{to(get("02", 0, 1, 503), "h", "https://h/a"), get("04", 4, 5, 200)}, 0},
		"sent elsewhere, then there": {[]Span{get("02", 0, 1, 302), get("04", 4, 5, 200)}, 0},
	} {
		o := one(t, analyze(t, append(c.children, tool("01", "", "search", 0, 5))...))
		if got := o.Attempts; (got == nil) != (c.attempts == 0) || got != nil && *got != c.attempts {
			t.Errorf("%s: attempts %v, want %d", name, got, c.attempts)
		}
	}
}

func TestServerSpans_KindsAroundC8(t *testing.T) {
	server := func(id string, from, to float64, status int, o ...any) Span {
		return sp(id, "01", "POST /v1/chat", from, to, append([]any{KindServer, hostB, kv("http.request.method", "POST"), kv("http.response.status_code", status)}, o...)...)
	}
	for name, c := range map[string]struct {
		servers  []Span
		attempts uint32
		backoff  float64
	}{
		"one answer proves nothing about hidden tries": {[]Span{server("02", 0.1, 9.9, 200)}, 0, 0},
		"a challenge":  {[]Span{server("02", 0.1, 1, 401), server("03", 1, 3, 503), server("04", 4, 9.9, 200)}, 2, 1},
		"side by side": {[]Span{server("02", 0.1, 5, 503), server("03", 3, 9.9, 200)}, 0, 0},
		"two answers":  {[]Span{server("02", 0.1, 5, 200), server("03", 6, 9.9, 200)}, 0, 0},
		"all failed":   {[]Span{server("02", 0.1, 5, 503), server("03", 6, 9.9, 503)}, 2, 1},
	} {
		o := one(t, analyze(t, append(c.servers, chat("01", "", "m1", 0, 10))...))
		if got := o.Attempts; (got == nil) != (c.attempts == 0) || got != nil && *got != c.attempts {
			t.Errorf("%s: attempts %v, want %d", name, got, c.attempts)
		}
		near(t, name+": backoff", &o.BackoffNS, c.backoff)
	}
}

// TestAttemptSpans reads spans that mark tries where others write events.
func TestAttemptSpans(t *testing.T) {
	mark := func(id string, from, to float64, o ...any) Span {
		return sp(id, "01", "gen_ai.request.attempt", from, to, o...)
	}
	res := analyze(t, chat("01", "", "m1", 0, 9), mark("02", 0, 2, failedWith("529")...), mark("03", 3, 9))
	o := one(t, res)
	if o.Attempts == nil || *o.Attempts != 2 || res.Attempts[0].ErrorClass != rows.ClassOverload || res.Attempts[0].Layer != rows.LayerSDK {
		t.Fatalf("attempts %v: %+v", o.Attempts, res.Attempts)
	}
	near(t, "backoff", &o.BackoffNS, 1)
	if o := one(t, analyze(t, chat("01", "", "m1", 0, 9), mark("02", 0, 2), mark("03", 3, 9))); o.Attempts != nil {
		t.Fatalf("two good ones are %d attempts, want unknown", *o.Attempts)
	}
}

// TestC10_LayersInOtherShapes counts leaves and layers where one layer did not retry.
func TestC10_LayersInOtherShapes(t *testing.T) {
	build := func(layers ...int) []Span {
		spans := []Span{chat("00", "", "m1", 0, 100)}
		var grow func(parent string, from, to float64, depth int)
		grow = func(parent string, from, to float64, depth int) {
			n := layers[depth]
			width := (to - from) / float64(n)
			for i := range n {
				id := fmt.Sprintf("%s.%d", parent, i)
				lo, hi := from+float64(i)*width, from+float64(i+1)*width-width/10
				if depth == len(layers)-1 {
					spans = append(spans, post(id, parent, lo, hi, 429))
					continue
				}
				spans = append(spans, sp(id, parent, fmt.Sprintf("layer_%d", depth), lo, hi))
				grow(id, lo, hi, depth+1)
			}
		}
		grow("00", 0, 100, 0)
		return spans
	}
	for _, layers := range [][]int{{3, 3, 5}, {3, 1, 5}, {1, 3, 5}, {2, 2}, {1, 4}, {4, 1}, {2, 2, 2, 2}} {
		product := 1
		for _, n := range layers {
			product *= n
		}
		res := analyze(t, build(layers...)...)
		o := one(t, res)
		if o.LeafAttempts == nil || int(*o.LeafAttempts) != product {
			t.Errorf("layers %v: %v leaves, want %d", layers, o.LeafAttempts, product)
		}
		leaves := 0
		for _, a := range res.Attempts {
			if a.Leaf {
				leaves++
			}
			if a.ParentAttemptID != "" && !strings.HasPrefix(a.AttemptID, a.ParentAttemptID) {
				t.Errorf("layers %v: %s lies below %s", layers, a.AttemptID, a.ParentAttemptID)
			}
		}
		if leaves != product {
			t.Errorf("layers %v: %d leaf rows, want %d", layers, leaves, product)
		}
	}
}
