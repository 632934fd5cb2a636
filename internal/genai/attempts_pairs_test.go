package genai

import (
	"fmt"
	"slices"
	"testing"

	"driftline/internal/rows"
)

// paired lists the tries of each operation by their spans.
func paired(res Result) [][]string {
	byOp := map[string][]string{}
	for _, a := range res.Attempts {
		byOp[a.OperationID] = append(byOp[a.OperationID], a.AttemptID)
	}
	var out [][]string
	for _, o := range res.Operations {
		if o.Kind == rows.KindChat {
			if tries := byOp[o.OperationID]; len(tries) > 0 {
				out = append(out, tries)
			} else {
				out = append(out, []string{o.OperationID})
			}
		}
	}
	return out
}

// TestSiblings_WhoseTriesAreWhose pairs the tries of calls that run side by side.
func TestSiblings_WhoseTriesAreWhose(t *testing.T) {
	failed := func(more ...any) []any { return append(append([]any{}, failedWith("503")...), more...) }
	tokens := func(n int) Attr { return kv("gen_ai.usage.input_tokens", n) }
	server := func(s string) Attr { return kv("server.address", s) }
	for _, c := range []struct {
		name  string
		spans []Span
		want  [][]string
	}{
		{"one backoff for both", []Span{
			chat("02", "01", "m1", 0, 1, failed()...), chat("03", "01", "m1", 0, 1.1, failed()...), chat("04", "01", "m1", 2, 4), chat("05", "01", "m1", 2.1, 4),
		}, [][]string{{"02", "04"}, {"03", "05"}}},
		{"three of them", []Span{
			chat("02", "01", "m1", 0, 1, failed()...), chat("03", "01", "m1", 0, 1.1, failed()...), chat("04", "01", "m1", 0, 1.2, failed()...),
			chat("05", "01", "m1", 3, 4), chat("06", "01", "m1", 3.1, 4), chat("07", "01", "m1", 3.2, 4),
		}, [][]string{{"02", "05"}, {"03", "06"}, {"04", "07"}}},
		{"twice", []Span{
			chat("02", "01", "m1", 0, 1, failed()...), chat("03", "01", "m1", 0, 1.1, failed()...), chat("04", "01", "m1", 2, 3, failed()...), chat("05", "01", "m1", 2.1, 3.1, failed()...),
			chat("06", "01", "m1", 5, 6), chat("07", "01", "m1", 5.1, 6),
		}, [][]string{{"02", "04", "06"}, {"03", "05", "07"}}},
		{"one gave up long before", []Span{
			chat("02", "01", "m1", 0, 1, failed()...), chat("03", "01", "m1", 0, 50, failed()...), chat("04", "01", "m1", 51, 55),
		}, [][]string{{"02"}, {"03", "04"}}},
		{"a later try waits longer", []Span{
			chat("02", "01", "m1", 0, 1, failed()...), chat("03", "01", "m1", 2, 3, failed()...), chat("04", "01", "m1", 0, 4, failed()...),
			chat("05", "01", "m1", 5, 6), chat("06", "01", "m1", 7, 8),
		}, [][]string{{"02", "03", "06"}, {"04", "05"}}},
		{"sizes of the requests", []Span{
			chat("02", "01", "m1", 0, 1, failed(tokens(10))...), chat("03", "01", "m1", 0, 1.1, failed(tokens(90))...), chat("04", "01", "m1", 2, 4, tokens(90)), chat("05", "01", "m1", 2.1, 4, tokens(10)),
		}, [][]string{{"02", "05"}, {"03", "04"}}},
		{"sizes of their HTTP bodies", []Span{
			chat("02", "01", "m1", 0, 1, failed()...), post("a2", "02", 0, 1, 503, kv("http.request.body.size", 900)),
			chat("03", "01", "m1", 0, 1.1, failed()...), post("a3", "03", 0, 1.1, 503, kv("http.request.body.size", 77_000)),
			chat("04", "01", "m1", 2, 4), post("a4", "04", 2, 4, 200, kv("http.request.body.size", 77_000)),
			chat("05", "01", "m1", 2.1, 4), post("a5", "05", 2.1, 4, 200, kv("http.request.body.size", 900)),
		}, [][]string{{"02", "05"}, {"03", "04"}}},
		{"sizes in captured headers", []Span{
			chat("02", "01", "m1", 0, 1, failed()...), post("a2", "02", 0, 1, 503, kv("http.request.header.content-length", []string{"900"})),
			chat("03", "01", "m1", 0, 1.1, failed()...), post("a3", "03", 0, 1.1, 503, kv("http.request.header.content_length", []string{"77000"})),
			chat("04", "01", "m1", 2, 4), post("a4", "04", 2, 4, 200, kv("http.request.header.content_length", []string{"77000"})),
			chat("05", "01", "m1", 2.1, 4), post("a5", "05", 2.1, 4, 200, kv("http.request.header.content-length", []string{"900"})),
		}, [][]string{{"02", "05"}, {"03", "04"}}},
		{"servers", []Span{
			chat("02", "01", "m1", 0, 1, failed(server("eu"))...), chat("03", "01", "m1", 0, 1.1, failed(server("us"))...), chat("04", "01", "m1", 2, 4, server("us")), chat("05", "01", "m1", 2.1, 4, server("eu")),
		}, [][]string{{"02", "05"}, {"03", "04"}}},
		{"servers of the HTTP spans", []Span{
			chat("02", "01", "m1", 0, 1, failed()...), to(post("a2", "02", 0, 1, 503), "eu", "https://eu/v1/chat"),
			chat("03", "01", "m1", 0, 1.1, failed()...), to(post("a3", "03", 0, 1.1, 503), "us", "https://us/v1/chat"),
			chat("04", "01", "m1", 2, 4), to(post("a4", "04", 2, 4, 200), "us", "https://us/v1/chat"),
			chat("05", "01", "m1", 2.1, 4), to(post("a5", "05", 2.1, 4, 200), "eu", "https://eu/v1/chat"),
		}, [][]string{{"02", "05"}, {"03", "04"}}},
		{"numbers", []Span{
			chat("02", "01", "m1", 0, 1, failed(kv("attempt", 1))...), chat("03", "01", "m1", 0, 1.1, failed(kv("attempt", 2))...),
			chat("04", "01", "m1", 2, 4, kv("attempt", 3)), chat("05", "01", "m1", 2.1, 4, kv("attempt", 2)),
		}, [][]string{{"02", "05"}, {"03", "04"}}},
	} {
		for _, order := range [][]Span{c.spans, reversed(c.spans)} {
			res := analyze(t, append([]Span{sp("01", "", "run", 0, 100)}, order...)...)
			if got := paired(res); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s: tries %v, want %v", c.name, got, c.want)
			}
		}
	}
}

// TestSiblings_QueuedCallIsNoRetry holds that a call which waited for its turn in a pool
// is not the next try of the one whose failure made room for it.
func TestSiblings_QueuedCallIsNoRetry(t *testing.T) {
	failed := func(more ...any) []any { return append(append([]any{}, failedWith("503")...), more...) }
	for _, c := range []struct {
		name  string
		spans []Span
		want  [][]string
	}{
		{"a pool of two", []Span{chat("02", "01", "m1", 0, 3), chat("03", "01", "m1", 0, 1, failed()...), chat("04", "01", "m1", 1.0004, 4)}, [][]string{{"02"}, {"03"}, {"04"}}},
		{"clocks of a millisecond", []Span{chat("02", "01", "m1", 0, 3), chat("03", "01", "m1", 0, 1.0004, failed()...), chat("04", "01", "m1", 1, 4)}, [][]string{{"02"}, {"03"}, {"04"}}},
		{"beside one that ended before", []Span{chat("02", "01", "m1", 0, 0.5), chat("03", "01", "m1", 0, 1, failed()...), chat("05", "01", "m1", 0.5004, 2), chat("04", "01", "m1", 1.0004, 4)}, [][]string{{"02"}, {"03"}, {"05"}, {"04"}}},
		{"tried again at once, by its number", []Span{chat("02", "01", "m1", 0, 3), chat("03", "01", "m1", 0, 1, failed(kv("attempt", 1))...), chat("04", "01", "m1", 1.0004, 4, kv("attempt", 2))}, [][]string{{"02"}, {"03", "04"}}},
		{"tried again at once, by its id", []Span{chat("02", "01", "m1", 0, 3), chat("03", "01", "m1", 0, 1, failed(kv("litellm.call_id", "x"))...), chat("04", "01", "m1", 1.0004, 4, kv("litellm.call_id", "x"))}, [][]string{{"02"}, {"03", "04"}}},
		{"tried again at once, by its tokens", []Span{chat("02", "01", "m1", 0, 3), chat("03", "01", "m1", 0, 1, failed(kv("gen_ai.usage.input_tokens", 812))...), chat("04", "01", "m1", 1.0004, 4, kv("gen_ai.usage.input_tokens", 812))}, [][]string{{"02"}, {"03", "04"}}},
		{"tried again at once, by its size", []Span{
			chat("02", "01", "m1", 0, 3), chat("03", "01", "m1", 0, 1, failed()...), post("a3", "03", 0, 1, 503, kv("http.request.body.size", 4711)),
			chat("04", "01", "m1", 1.0004, 4), post("a4", "04", 1.0004, 4, 200, kv("http.request.body.size", 4711))}, [][]string{{"02"}, {"03", "04"}}},
		{"another request by its tokens", []Span{chat("02", "01", "m1", 0, 3), chat("03", "01", "m1", 0, 1, failed(kv("gen_ai.usage.input_tokens", 812))...), chat("04", "01", "m1", 1.0004, 4, kv("gen_ai.usage.input_tokens", 30))}, [][]string{{"02"}, {"03"}, {"04"}}},
		{"tried again at once, alone", []Span{chat("02", "01", "m1", 0, 1, failed()...), chat("03", "01", "m1", 1.0004, 4)}, [][]string{{"02", "03"}}},
		{"after a wait", []Span{chat("02", "01", "m1", 0, 3), chat("03", "01", "m1", 0, 1, failed()...), chat("04", "01", "m1", 1.5, 4)}, [][]string{{"02"}, {"03", "04"}}},
		{"beside another model's call", []Span{chat("02", "01", "m2", 0, 3), chat("03", "01", "m1", 0, 1, failed()...), chat("04", "01", "m1", 1.0004, 4)}, [][]string{{"02"}, {"03", "04"}}},
	} {
		for _, order := range [][]Span{c.spans, reversed(c.spans)} {
			got := paired(analyze(t, append([]Span{sp("01", "", "run", 0, 100)}, order...)...))
			slices.SortFunc(got, slices.Compare)
			slices.SortFunc(c.want, slices.Compare)
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s: tries %v, want %v", c.name, got, c.want)
			}
		}
	}
}
