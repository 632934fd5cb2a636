package genai

import (
	"fmt"
	"testing"
)

// TestToolCalls_SeveralServicesAreNoRetries holds that a tool which asks one service
// after another, of which one fails, does not try one call twice.
func TestToolCalls_SeveralServicesAreNoRetries(t *testing.T) {
	a := func(id, parent string, from, to_ float64, status int) Span {
		return to(post(id, parent, from, to_, status), "a.example.com", "https://a.example.com/search")
	}
	b := func(id, parent string, from, to_ float64, status int) Span {
		return to(post(id, parent, from, to_, status), "b.example.com", "https://b.example.com/search")
	}
	wrap := func(id string, from, to float64, options ...any) Span {
		return sp(id, "01", "fetch", from, to, options...)
	}
	retrieval := sp("01", "", "retrieval docs", 0, 9, kv("gen_ai.operation.name", "retrieval"))
	for _, c := range []struct {
		name     string
		root     Span
		spans    []Span
		attempts uint32 // 0 for unknown
	}{
		{"at once below it", tool("01", "", "search", 0, 9), []Span{a("02", "01", 0, 1, 503), b("03", "01", 2, 9, 200)}, 0},
		{"in one plain span", tool("01", "", "search", 0, 9), []Span{wrap("0f", 0, 9), a("02", "0f", 0, 1, 503), b("03", "0f", 2, 9, 200)}, 0},
		{"in a plain span each", tool("01", "", "search", 0, 9), []Span{wrap("0e", 0, 1), a("02", "0e", 0, 1, 503), wrap("0f", 2, 9), b("03", "0f", 2, 9, 200)}, 0},
		{"of a retrieval", retrieval, []Span{a("02", "01", 0, 1, 503), b("03", "01", 2, 9, 200)}, 0},
		{"one place in one plain span", tool("01", "", "search", 0, 9), []Span{wrap("0f", 0, 9), a("02", "0f", 0, 1, 503), a("03", "0f", 2, 9, 200)}, 2},
		{"one place in a plain span each", tool("01", "", "search", 0, 9), []Span{wrap("0e", 0, 1), a("02", "0e", 0, 1, 503), wrap("0f", 2, 9), a("03", "0f", 2, 9, 200)}, 2},
		{"declared to be the next try", tool("01", "", "search", 0, 9), []Span{wrap("0e", 0, 1, kv("attempt", 1)), a("02", "0e", 0, 1, 503), wrap("0f", 2, 9, kv("attempt", 2)), b("03", "0f", 2, 9, 200)}, 2},
		{"a model call goes on to another route", chat("01", "", "m1", 0, 9), []Span{wrap("0e", 0, 1), a("02", "0e", 0, 1, 503), wrap("0f", 2, 9), b("03", "0f", 2, 9, 200)}, 2},
	} {
		o := one(t, analyze(t, append([]Span{c.root}, c.spans...)...))
		if got := o.Attempts; (got == nil) != (c.attempts == 0) || got != nil && *got != c.attempts {
			n := "unknown"
			if got != nil {
				n = fmt.Sprint(*got)
			}
			t.Errorf("%s: attempts %s, want %d", c.name, n, c.attempts)
		}
	}
}
