package genai

import (
	"testing"

	"driftline/internal/rows"
)

func TestFallbackIsToldFromARetryOnTheSameRoute(t *testing.T) {
	failed := failedWith("503")
	model := func(id, m string, from, to float64, o ...any) Span { return chat(id, "01", m, from, to, o...) }
	for name, c := range map[string]struct {
		spans []Span
		want  map[string]string // operation to the one it took over from
	}{
		"another model after two tries": {
			[]Span{model("02", "m1", 0, 2, failed...), model("03", "m1", 3, 5, failed...), model("04", "m2", 5.1, 8)},
			map[string]string{"02": "", "04": "02"},
		},
		"a chain of three": {
			[]Span{model("02", "m1", 0, 2, failed...), model("03", "m2", 2, 4, failed...), model("04", "m3", 4, 8)},
			map[string]string{"02": "", "03": "02", "04": "03"},
		},
		"another provider of the same model": {
			[]Span{model("02", "m1", 0, 2, failed...), sp("04", "01", "chat m1", 2, 8, KindClient, kv("gen_ai.operation.name", "chat"), kv("gen_ai.request.model", "m1"), kv("gen_ai.provider.name", "azure"), hostB)},
			map[string]string{"02": "", "04": "02"},
		},
		"the same route again":               {[]Span{model("02", "m1", 0, 2, failed...), model("03", "m1", 3, 5)}, map[string]string{"02": ""}},
		"another model after success":        {[]Span{model("02", "m1", 0, 2), model("03", "m2", 3, 5)}, map[string]string{"02": "", "03": ""}},
		"another model after a bad request":  {[]Span{model("02", "m1", 0, 2, failedWith("400")...), model("03", "m2", 3, 5)}, map[string]string{"03": ""}},
		"side by side":                       {[]Span{model("02", "m1", 0, 2, failed...), model("03", "m2", 1, 5)}, map[string]string{"03": ""}},
		"a tool ran in between":              {[]Span{model("02", "m1", 0, 2, failed...), tool("05", "01", "t", 2, 3), model("03", "m2", 3, 5)}, map[string]string{"03": ""}},
		"long after":                         {[]Span{model("02", "m1", 0, 2, failed...), model("03", "m2", 900, 905)}, map[string]string{"03": ""}},
		"an embedding after a failed answer": {[]Span{model("02", "m1", 0, 2, failed...), sp("03", "01", "embeddings e", 3, 4, kv("gen_ai.operation.name", "embeddings"), kv("gen_ai.request.model", "e"))}, map[string]string{"03": ""}},
		"two who failed: the nearer one":     {[]Span{model("02", "m1", 0, 2, failed...), model("05", "m3", 0, 3, failed...), model("03", "m2", 3, 5)}, map[string]string{"03": "05"}},
	} {
		spans := append(c.spans, agent("01", "", "planner", 0, 1000))
		for _, in := range [][]Span{spans, reversed(spans)} {
			res := analyze(t, in...)
			for id, want := range c.want {
				if got := operation(t, res, id).FallbackOf; got != want {
					t.Errorf("%s: %s took over from %q, want %q", name, id, got, want)
				}
			}
		}
	}
}

func TestC16_TheFallbackNeverCame(t *testing.T) {
	tries := []Span{timedOut("02", "01", "m1", 0, 20), timedOut("03", "01", "m1", 20.5, 40.5), timedOut("04", "01", "m1", 41.5, 61.5)}
	root := agent("01", "", "planner", 0, 62, kv("budget", 20))
	res := analyze(t, append(tries, root)...)
	if o := one(t, res); *o.Attempts != 3 || o.FallbackOf != "" || o.Target != "m1" {
		t.Fatalf("attempts %d, took over from %q", *o.Attempts, o.FallbackOf)
	}
	late := analyze(t, append(tries, root, chat("05", "01", "m2", 61.6, 62))...)
	o := operation(t, late, "05")
	if o.FallbackOf != "02" || o.StartedAt-at(0) != 61_600*ms {
		t.Fatalf("took over from %q at %v s", o.FallbackOf, secs(o.StartedAt-at(0)))
	}
}

// Several models tried inside one span: the attempts say which.
func TestFallbackWithinOneSpanShowsInItsAttempts(t *testing.T) {
	res := analyze(t, chat("01", "", "group", 0, 9), chat("02", "01", "m1", 0, 2, failedWith("503")...), chat("03", "01", "m2", 3, 9))
	o := one(t, res)
	if *o.Attempts != 2 || o.Target != "group" || res.Attempts[0].Target != "m1" || res.Attempts[1].Target != "m2" {
		t.Fatalf("attempts %d of %s: %s, %s", *o.Attempts, o.Target, res.Attempts[0].Target, res.Attempts[1].Target)
	}
}

func TestC72_WorkAfterTheCallerGaveUp(t *testing.T) {
	for name, c := range map[string]struct {
		spans []Span
		want  float64 // -1 for unknown
	}{
		"the server went on":    {[]Span{timedOut("01", "", "m1", 0, 60), server("02", "01", 0.1, 85, hostB)}, 25},
		"it stopped in time":    {[]Span{timedOut("01", "", "m1", 0, 60), server("02", "01", 0.1, 59, hostB)}, 0},
		"below an HTTP span":    {[]Span{timedOut("01", "", "m1", 0, 60), post("03", "01", 0, 60, 0, failedWith("timeout")...), server("02", "03", 0.1, 85, hostB)}, 25},
		"no server is seen":     {[]Span{timedOut("01", "", "m1", 0, 60), post("03", "01", 0, 60, 0, failedWith("timeout")...)}, -1},
		"the call succeeded":    {[]Span{chat("01", "", "m1", 0, 60), server("02", "01", 0.1, 59, hostB)}, -1},
		"another clock, skewed": {[]Span{timedOut("01", "", "m1", 0, 60), server("02", "01", -5, 85, hostB)}, -1},
	} {
		o := one(t, analyze(t, c.spans...))
		switch {
		case (o.WastedNS == nil) != (c.want < 0):
			t.Errorf("%s: wasted %v, want %v", name, o.WastedNS, c.want)
		case o.WastedNS != nil:
			near(t, name, o.WastedNS, c.want)
		}
	}
}

func TestRequestKeys(t *testing.T) {
	opt := Options{RequestKeys: []string{"client_request_id", "gen_ai.conversation.id+turn"}}
	for _, key := range []string{"client_request_id", "gen_ai.conversation.id", "turn"} {
		if !Wanted(key, &opt) {
			t.Errorf("%s is not kept", key)
		}
	}
	if Wanted("gen_ai.prompt", &Options{RequestKeys: []string{"id+gen_ai.prompt"}}) {
		t.Error("content is kept")
	}
	for name, c := range map[string]struct {
		root, call []any
		want       string
	}{
		"none":                           {},
		"on the root":                    {root: []any{kv("client_request_id", "r1")}, call: []any{kv("client_request_id", "r2")}, want: "r1"},
		"below":                          {call: []any{kv("client_request_id", "r2")}, want: "r2"},
		"a header's list":                {root: []any{kv("client_request_id", []string{"r3"})}, want: "r3"},
		"two together":                   {root: []any{kv("gen_ai.conversation.id", "c"), kv("turn", 3)}, want: "c+3"},
		"the first configured wins":      {root: []any{kv("gen_ai.conversation.id", "c"), kv("turn", 3), kv("client_request_id", "r")}, want: "r"},
		"half of two is none":            {root: []any{kv("gen_ai.conversation.id", "c")}, call: []any{kv("turn", 3)}},
		"empty text is none":             {root: []any{kv("client_request_id", " ")}},
		"a later key on the root's call": {call: []any{kv("gen_ai.conversation.id", "c"), kv("turn", 3)}, want: "c+3"},
	} {
		res := Analyze(Trace{Spans: []Span{agent("01", "", "planner", 0, 9, c.root...), chat("02", "01", "m1", 1, 8, c.call...)}, Complete: true}, opt)
		checkLaws(t, res)
		if got := res.Requests[0].RequestKey; got != c.want {
			t.Errorf("%s: key %q, want %q", name, got, c.want)
		}
		if got := Analyze(Trace{Spans: []Span{agent("01", "", "planner", 0, 9, c.root...), chat("02", "01", "m1", 1, 8)}, Complete: true}, Options{}).Requests[0].RequestKey; got != "" {
			t.Errorf("%s: key %q, though none is configured", name, got)
		}
	}
}

func TestDetachedRootNamesTheTraceItLinksTo(t *testing.T) {
	root := agent("01", "", "planner", 0, 9)
	root.LinkedTraces = []string{root.TraceID, "000000000000000000000000000000bb", "000000000000000000000000000000cc"}
	call := chat("02", "01", "m1", 1, 8)
	call.LinkedTraces = []string{"000000000000000000000000000000dd"}
	if got := theRequest(t, analyze(t, root, call)).LinkedTraceID; got != "000000000000000000000000000000bb" {
		t.Fatalf("linked to %q", got)
	}
	root.LinkedTraces = nil
	r := theRequest(t, analyze(t, root, call))
	if r.LinkedTraceID != "" || r.Outcome != rows.OutcomeOK {
		t.Fatalf("linked to %q", r.LinkedTraceID)
	}
}
