package genai

import (
	"testing"

	"driftline/internal/rows"
)

// A fact that is set later must not grow into those of the next span: a tool's name became
// another span's model.
func TestFactsOfOneSpanStayItsOwn(t *testing.T) {
	for _, execution := range [][]any{
		{kv("tenant", "x")}, // a configured attribute
		{kv("http.status_code", 200), kv("http.response.status_code", 200)}, // two keys of one meaning, no configuration
	} {
		res := Analyze(Trace{Complete: true, Reason: rows.ReleaseRoot, Now: at(1000), Spans: []Span{
			agent("a0", "", "main", 0, 10),
			sp("b0", "a0", "claude_code.tool", 1, 3, kv("tool_name", "Bash")),
			sp("b1", "b0", "claude_code.tool.execution", 1.5, 3, execution...),
			sp("c1", "a0", "chat", 2, 9, KindClient, kv("gen_ai.request.model", "m1"), kv("gen_ai.operation.name", "chat")),
		}}, Options{Attributes: []string{"tenant"}})
		if o := operation(t, res, "c1"); o.Target != "m1" {
			t.Errorf("the chat's target is %q, want m1", o.Target)
		}
	}
}

// other is an HTTP request to another server than the model's.
func other(id, parent, host string, from, to float64, status int, o ...any) Span {
	return sp(id, parent, "POST", from, to, append([]any{KindClient, kv("http.request.method", "POST"), kv("server.address", host), kv("url.full", "https://"+host+"/check"), kv("http.response.status_code", status)}, o...)...)
}

var api = kv("server.address", "api.example.com")

// A call answered 200, then a post-call request elsewhere (moderation, telemetry) that
// fails: the call is no failure.
func TestALaterRequestElsewhereFailsNoCall(t *testing.T) {
	o := one(t, analyze(t, chat("c", "", "m", 0, 5, api), post("h1", "c", 0, 4, 200), other("h2", "c", "guard.example.com", 4.1, 4.2, 500, StatusError)))
	if o.Outcome != rows.OutcomeOK || o.HTTPStatus != 200 {
		t.Errorf("outcome %s %s, status %d; want ok, 200", o.Outcome, o.ErrorClass, o.HTTPStatus)
	}
}

// The attempt is the request to the call's own place, not the one that came last.
func TestTheAttemptWentWhereTheCallWent(t *testing.T) {
	res := analyze(t, chat("c", "", "m", 0, 5, api), post("h1", "c", 0, 4, 200), other("h2", "c", "guard.example.com", 4.1, 4.2, 200))
	if len(res.Attempts) != 1 || res.Attempts[0].AttemptID != "h1" {
		t.Errorf("the attempt is %s of %.1f s at %s, want h1", res.Attempts[0].AttemptID, secs(res.Attempts[0].DurationNS), res.Attempts[0].Endpoint)
	}
}

// Two attempts and 3 s hidden, whatever is asked elsewhere afterwards.
func TestRetriesBeforeALaterRequestElsewhere(t *testing.T) {
	o := one(t, analyze(t, chat("c", "", "m", 0, 5, api), post("h0", "c", 0, 2, 503, StatusError), post("h1", "c", 3, 4, 200), other("h2", "c", "guard.example.com", 4.1, 4.2, 200)))
	if o.Attempts == nil || *o.Attempts != 2 {
		t.Error("attempts unknown, want 2")
	}
}

// Server spans of different routes and methods below a tool are not tries of one request.
func TestServerSpansOfDifferentRoutes(t *testing.T) {
	srv := func(id, method, route string, f, e float64, st int, o ...any) Span {
		return sp(id, "c", method+" "+route, f, e, append([]any{KindServer, hostB, kv("http.request.method", method), kv("http.route", route), kv("url.path", route), kv("http.response.status_code", st)}, o...)...)
	}
	o := one(t, analyze(t, tool("c", "", "t", 0, 5), srv("s1", "POST", "/orders", 0.1, 1, 500, StatusError), srv("s2", "GET", "/users", 1.1, 4, 200)))
	if o.Attempts != nil {
		t.Errorf("POST /orders and GET /users are %d attempts of one call, hidden %.1f s; want unknown", *o.Attempts, secs(*o.HiddenTotalNS))
	}
}

// A sibling try without a timeout of its own is not capped by the last try's.
func TestATryHasNoOtherTrysTimeout(t *testing.T) {
	res := analyze(t, agent("p", "", "a", 0, 60), chat("c1", "p", "m", 0, 20, StatusError, kv("http.response.status_code", 500)), chat("c2", "p", "m", 21, 25, kv("driftline.timeout_ms", 20000)))
	for _, a := range res.Attempts {
		if a.AttemptID == "c1" && (a.TimeoutNS != nil || a.AtCap) {
			t.Errorf("c1 (a 500 after 20 s, no timeout stated): timeout %.0f s, at cap %v", secs(*a.TimeoutNS), a.AtCap)
		}
	}
}

// Credentials before a host are no part of an endpoint, nor is a query of a span's name.
func TestCredentialsAndQueries(t *testing.T) {
	o := one(t, analyze(t, chat("c", "", "m", 0, 5, kv("server.address", "user:hunter2@host.example:8443"))))
	if o.Endpoint != "host.example:8443" {
		t.Errorf("endpoint %q", o.Endpoint)
	}
	if n := SpanName("GET /search?my secret question"); n != "GET /search" {
		t.Errorf("name %q keeps the query", n)
	}
}

// A span may carry events without end: the number of tries is kept, not a row for each.
func TestManyRetryEvents(t *testing.T) {
	s := chat("c", "", "m", 0, 600)
	for i := range 500 {
		s.Events = append(s.Events, Event{Name: "gen_ai.retry", Time: at(float64(i) + 1)})
	}
	res := analyze(t, s)
	o := one(t, res)
	if o.Attempts == nil || *o.Attempts != 501 {
		t.Fatalf("attempts %v, want 501", o.Attempts)
	}
	if n := len(res.Attempts); n != maxEventTries {
		t.Errorf("%d rows, want %d", n, maxEventTries)
	}
	if last := res.Attempts[len(res.Attempts)-1]; !last.Last || last.Ordinal != 501 {
		t.Errorf("the last row is attempt %d, last %v", last.Ordinal, last.Last)
	}
}

// A span whose clock was never set does not make its open request fifty years old.
func TestAnOpenRequestIsNotOlderThanItsClock(t *testing.T) {
	unset := chat("c1", "p", "m", 0, 1)
	unset.Start = 0
	res := Analyze(Trace{Now: at(100), Spans: []Span{unset, chat("c2", "p", "m", 2, 3)}}, Options{})
	if len(res.Open) != 1 || res.Open[0].StartedAt != at(2) || secs(res.Open[0].AgeNS) != 98 {
		t.Errorf("open: %+v", res.Open)
	}
}
