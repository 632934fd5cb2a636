package genai

import (
	"fmt"
	"syscall"
	"testing"
	"time"

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

// usualTrace is the trace of ten spans that an agent usually leaves: two model calls, one
// of them tried twice, and a tool.
func usualTrace() []Span {
	return []Span{
		sp("r0", "", "POST /ask", 0, 10, KindServer, kv("http.request.method", "POST"), kv("http.route", "/ask")),
		agent("r1", "r0", "planner", 0.01, 9.9),
		chat("c1", "r1", "m1", 0.1, 4, streamed, firstChunk(0.8), output(200), kv("gen_ai.usage.input_tokens", 4000)),
		post("p1", "c1", 0.1, 1, 503), post("p2", "c1", 1.5, 2.4, 200),
		tool("t1", "r1", "search", 4.1, 5.9), sp("d1", "t1", "SELECT", 4.2, 5.8, KindClient, kv("rpc.system", "sql")),
		chat("c2", "r1", "m1", 6, 9.8, streamed, firstChunk(1.5), output(300), kv("gen_ai.usage.input_tokens", 5000)),
		post("p3", "c2", 6, 7.4, 200),
		sp("z1", "r0", "auth", 0, 0.005),
	}
}

// BenchmarkAnalyze also gives the processor's time, which other work on the machine does not
// stretch as it does the clock's.
func BenchmarkAnalyze(b *testing.B) {
	for _, c := range []struct {
		spans      []Span
		operations int
	}{{usualTrace(), 4}, {agentTrace(), 13}} {
		t := Trace{Spans: c.spans, Complete: true, Reason: rows.ReleaseRoot, Now: at(50)}
		b.Run(fmt.Sprint("spans=", len(c.spans)), func(b *testing.B) {
			if res := Analyze(t, Options{}); len(res.Operations) != c.operations {
				b.Fatalf("%d operations, want %d", len(res.Operations), c.operations)
			}
			b.ReportAllocs()
			began := processorTime(b)
			for b.Loop() {
				Analyze(t, Options{})
			}
			b.ReportMetric(float64((processorTime(b)-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// processorTime is what this process has taken of the processors, collecting garbage included.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
