package genai

import (
	"testing"

	"driftline/internal/rows"
)

// ask is an HTTP request to a model's endpoint; its parent is 0a, which never comes.
func ask(id string, from, to_ float64, status int, options ...any) Span {
	return to(post(id, "0a", from, to_, status, options...), "api.example.com", "https://api.example.com/v1/chat/completions?api-version=2")
}

func TestLostCall_EveryAttemptFailed(t *testing.T) {
	spans := []Span{ask("02", 0, 1, 504, StatusError), ask("03", 1.5, 2.5, 504, StatusError), ask("04", 4.5, 5.5, 504, StatusError)}
	for name, root := range map[string][]Span{"alone": nil, "in a request": {sp("01", "", "GET /ask", 0, 6, KindServer)}} {
		for _, order := range [][]Span{spans, reversed(spans)} {
			res := analyze(t, append(append([]Span{}, root...), order...)...)
			o := one(t, res)
			if o.OperationID != "0a" || o.Kind != rows.KindChat || o.Target != "" || o.Outcome != rows.OutcomeError || o.ErrorClass != rows.ClassTimeout || o.HTTPStatus != 504 {
				t.Fatalf("%s: %s %s of %q: %s, class %q, status %d", name, o.Kind, o.OperationID, o.Target, o.Outcome, o.ErrorClass, o.HTTPStatus)
			}
			attemptsAre(t, o, 3, rows.SourceHTTPChild)
			near(t, "failed", &o.FailedAttemptNS, 2)
			near(t, "backoff", &o.BackoffNS, 2.5)
			if o.UserTimeNS != 5500*ms || o.Endpoint != "api.example.com" || o.Stream != rows.StreamUnknown {
				t.Fatalf("%s: %v at %s, stream %s", name, secs(o.UserTimeNS), o.Endpoint, o.Stream)
			}
			q := theRequest(t, res)
			if !o.Incomplete || !q.Incomplete || o.Attributes[PartialKey] != CallSpanMissing || len(res.Partial) != 1 || res.Partial[0] != "0a" {
				t.Fatalf("%s: not flagged as partial with its reason: %v, %v", name, o.Attributes, res.Partial)
			}
			for _, a := range res.Attempts {
				if a.OperationID != "0a" || a.Outcome != rows.OutcomeError || a.ErrorClass != rows.ClassTimeout || !a.Censored || a.Attributes[PartialKey] != CallSpanMissing {
					t.Fatalf("%s: attempt %+v", name, a)
				}
			}
		}
	}
}

func TestLostCall_WhatTheRequestsSay(t *testing.T) {
	none := func(id string, from, to_ float64) Span { return ask(id, from, to_, 0) }
	for _, c := range []struct {
		name     string
		spans    []Span
		class    string
		attempts uint32
		censored bool
	}{
		{"cancelled or timed out", []Span{none("02", 0, 0.3)}, rows.ClassOther, 1, true},
		{"timed out each time", []Span{none("02", 0, 1), none("03", 2, 3), none("04", 5, 6)}, rows.ClassTimeout, 3, true},
		{"timed out, then refused", []Span{none("02", 0, 1), ask("03", 2, 3, 503, StatusError)}, rows.ClassOverload, 2, false},
		{"refused, then given up", []Span{ask("02", 0, 1, 503, StatusError), none("03", 2, 3)}, rows.ClassOther, 2, true},
		{"never reached", []Span{ask("02", 0, 1, 0, StatusError, kv("error.type", "ECONNREFUSED"))}, rows.ClassNetwork, 1, false},
		{"refused after a token was fetched", []Span{to(post("02", "0a", 0, 1, 200), "login.example.com", "https://login.example.com/oauth2/token"), ask("03", 1, 2, 429, StatusError)}, rows.ClassOverload, 1, false},
		{"a wrong request", []Span{ask("02", 0, 1, 400, StatusError)}, rows.ClassClient, 1, false},
	} {
		o := one(t, analyze(t, c.spans...))
		if o.Outcome != rows.OutcomeError || o.ErrorClass != c.class || o.Attempts == nil || *o.Attempts != c.attempts || o.Censored != c.censored {
			t.Errorf("%s: %s, class %q, attempts %v, censored %v", c.name, o.Outcome, o.ErrorClass, o.Attempts, o.Censored)
		}
	}
	o := one(t, analyze(t, ask("02", 0, 1, 504, StatusError, kv("gen_ai.request.model", "m9"))))
	if o.Target != "m9" {
		t.Errorf("target %q, an attribute says m9", o.Target)
	}
}

// TestLostCall_WhatIsNone holds requests whose missing parent is no lost call, or may be
// something else.
func TestLostCall_WhatIsNone(t *testing.T) {
	failed := func(id string, from, to_ float64) Span { return ask(id, from, to_, 504, StatusError) }
	for name, c := range map[string]struct {
		spans []Span
		want  int // operations
	}{
		"answered in the end":                 {[]Span{failed("02", 0, 1), ask("03", 2, 3, 200)}, 0},
		"answered, then broken off":           {[]Span{ask("02", 0, 1, 200)}, 0},
		"another endpoint":                    {[]Span{to(failed("02", 0, 1), "api.example.com", "https://api.example.com/v1/orders")}, 0},
		"messages of another kind":            {[]Span{to(failed("02", 0, 1), "chat.example.com", "https://chat.example.com/v1/messages")}, 0},
		"side by side":                        {[]Span{failed("02", 0, 2), failed("03", 1, 3)}, 0},
		"kinds differ":                        {[]Span{failed("02", 0, 1), to(failed("03", 2, 3), "api.example.com", "https://api.example.com/v1/embeddings")}, 0},
		"beside other work":                   {[]Span{failed("02", 0, 1), sp("03", "0a", "parse", 1, 2)}, 0},
		"two services":                        {[]Span{failed("02", 0, 1), sp("03", "0a", "POST", 2, 3, KindClient, hostB, kv("http.request.method", "POST"), kv("url.full", "https://h/v1/chat/completions"))}, 0},
		"the parent came":                     {[]Span{failed("02", 0, 1), sp("0a", "", "run", 0, 1)}, 0},
		"a root":                              {[]Span{sp("02", "", "POST", 0, 1, KindClient, StatusError, kv("http.request.method", "POST"), kv("url.full", "https://h/v1/chat/completions"))}, 0},
		"tried again in a span of its own":    {[]Span{failed("02", 0, 1), chat("03", "01", "m1", 2, 4), sp("01", "", "run", 0, 5)}, 1},
		"long before another call":            {[]Span{failed("02", 0, 1), chat("03", "01", "m1", 900, 904), sp("01", "", "run", 0, 1000)}, 2},
		"two of them, each below its own":     {[]Span{failed("02", 0, 1), to(post("03", "0b", 5, 6, 504, StatusError), "h", "https://h/openai/deployments/x/chat/completions")}, 2},
		"a call that came, with its requests": {[]Span{chat("0a", "", "m1", 0, 5, StatusError), failed("02", 0, 1), failed("03", 2, 5)}, 1},
	} {
		if res := analyze(t, c.spans...); len(res.Operations) != c.want {
			t.Errorf("%s: %d operations, want %d", name, len(res.Operations), c.want)
		}
	}
	for name, trace := range map[string]Trace{
		"open":      {},
		"evicted":   {Complete: true, Reason: rows.ReleaseEvicted},
		"shut down": {Complete: true, Reason: rows.ReleaseShutdown},
		"truncated": {Complete: true, Reason: rows.ReleaseRoot, Truncated: true},
		"forgotten": {Complete: true, Reason: rows.ReleaseLate, LateFragment: true},
	} {
		trace.Spans, trace.Now = []Span{failed("02", 0, 1)}, at(1000)
		if res := Analyze(trace, Options{}); len(res.Operations) != 0 || res.GenAI {
			t.Errorf("%s: a call was made of requests whose call may still be elsewhere", name)
		}
	}
}

func TestModelEndpoints(t *testing.T) {
	for url, want := range map[string]string{
		"https://api.openai.com/v1/chat/completions": rows.KindChat,
		"/v1/chat/completions":                       rows.KindChat,
		"https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1":                          rows.KindChat,
		"https://x.openai.azure.com/openai/deployments/d/embeddings?api-version=1":                                rows.KindEmbeddings,
		"https://api.openai.com/v1/completions":                                                                   rows.KindCompletion,
		"https://api.openai.com/v1/responses":                                                                     rows.KindChat,
		"https://survey.example.com/v1/responses":                                                                 "",
		"https://api.anthropic.com/v1/messages":                                                                   rows.KindChat,
		"https://api.twilio.com/v1/messages":                                                                      "",
		"https://generativelanguage.googleapis.com/v1beta/models/g:generateContent":                               rows.KindGenerate,
		"https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse":                 rows.KindGenerate,
		"https://eu-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/anthropic/models/c:rawPredict": rows.KindChat,
		"https://bedrock-runtime.eu-central-1.amazonaws.com/model/m/converse":                                     rows.KindChat,
		"https://api.cohere.com/v2/chat":                                                                          rows.KindChat,
		"https://example.com/v2/chat":                                                                             "",
		"https://api.openai.com/v1/files":                                                                         "",
	} {
		s := sp("02", "", "POST", 0, 1, KindClient, kv("url.full", url))
		n := node{Span: &s, set: defaultDialects()}
		n.f.read(n.set, s.Attrs, nil)
		if got := n.place().modelKind(); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
		if got := (&Options{}).CallsModel(&s); got != (want != "") {
			t.Errorf("%s: CallsModel is %v", url, got)
		}
	}
}
