package genai

import (
	"fmt"
	"testing"

	"driftline/internal/rows"
)

// agentTrace is a task of 12 operations below an agent, of 40 spans: six streamed model calls, two of
// them tried twice, and six tools.
func agentTrace() []Span {
	spans := []Span{
		sp("r0", "", "POST /ask", 0, 40, KindServer, kv("http.request.method", "POST"), kv("budget", 60)),
		agent("r1", "r0", "planner", 0.01, 39.9),
	}
	for i := range 6 {
		from := float64(i) * 6
		id := func(s string) string { return fmt.Sprintf("%s%d", s, i) }
		spans = append(spans, sp(id("s"), "r1", "step", from, from+6))
		spans = append(spans, chat(id("c"), id("s"), "m1", from, from+4, streamed, firstChunk(2.5), output(200), kv("gen_ai.usage.input_tokens", 4000)))
		if i%3 == 0 {
			spans = append(spans, post(id("p"), id("c"), from, from+1, 503), post(id("q"), id("c"), from+1.5, from+2.4, 200))
		} else {
			spans = append(spans, post(id("p"), id("c"), from, from+2.4, 200), sp(id("v"), id("s"), "validate", from+4, from+4.1))
		}
		spans = append(spans, tool(id("t"), id("s"), "search", from+4.1, from+5.9), sp(id("d"), id("t"), "SELECT", from+4.2, from+5.8, KindClient, kv("rpc.system", "sql")))
	}
	return append(spans, sp("z1", "r0", "auth", 0, 0.005), sp("z2", "r0", "render", 39.9, 40))
}

func BenchmarkAnalyze(b *testing.B) {
	spans := agentTrace()
	t := Trace{Spans: spans, Complete: true, Reason: rows.ReleaseRoot, Now: at(50)}
	if res := Analyze(t, Options{}); len(res.Operations) != 13 || len(spans) != 40 {
		b.Fatalf("%d operations, %d spans", len(res.Operations), len(spans))
	}
	b.ReportAllocs()
	for b.Loop() {
		Analyze(t, Options{})
	}
}

// BenchmarkIsGenAI is what every span costs before it is known to matter.
func BenchmarkIsGenAI(b *testing.B) {
	for _, s := range []Span{
		chat("chat", "", "m1", 0, 1, kv("gen_ai.usage.input_tokens", 4)),
		post("http", "", 0, 1, 200),
		sp("internal", "", "CartService.price", 0, 1),
	} {
		s.Scope = "io.opentelemetry.jdbc"
		b.Run(s.SpanID, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				IsGenAI(&s)
			}
		})
	}
}

// BenchmarkCallsModel is what an HTTP span costs besides, in traces without GenAI spans.
func BenchmarkCallsModel(b *testing.B) {
	b.ReportAllocs()
	s := to(post("02", "01", 0, 1, 200, kv("user_agent.original", "Go-http-client/1.1"), kv("server.port", 443)), "shop", "https://shop/v1/orders/7?full=1")
	var opt Options
	for b.Loop() {
		opt.CallsModel(&s)
	}
}
