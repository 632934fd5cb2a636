package genai

import (
	"testing"

	"driftline/internal/rows"
)

// Traces on which random search once broke a law, kept as they were found.

// A call without length that states a first token before its own start, and a retry:
// the time to the first token came out negative.
func TestFound_FirstTokenBeforeACallWithoutLength(t *testing.T) {
	res := Analyze(Trace{
		Spans: []Span{chat("01", "", "m1", 1, 1, kv("budget", 10.0), kv("timeout", 5.0), kv("remaining", 7.0), firstChunk(-0.5), firstChunk(0.2),
			kv("gen_ai.request.stream", true), output(200), kv("attempt", 2), kv("http.request.resend_count", 1), kv("driftline.queue_ms", 300), kv("agent.duration", 3.0),
			kv("gen_ai.request.stream", false), kv("http.request.header.x-stainless-retry-count", []string{"1"}), kv("gen_ai.usage.input_tokens", 70),
			kv("max_retries", 2), kv("request.received_at_unix_ms", at(-1)/ms), ev("gen_ai.retry", 1, kv("backoff_seconds", 0.3)))},
		Reason: rows.ReleaseRoot, Now: at(1), AttemptWait: 10 * sec,
	}, Options{})
	checkLaws(t, res)

	// The least of it that matters, in a finished trace.
	o := one(t, analyze(t, chat("01", "", "m1", 1, 1, streamed, firstChunk(-0.5), ev("gen_ai.retry", 1, kv("backoff_seconds", 0.3)))))
	if o.TTFTState != rows.TTFTSuspect || o.TTFTNS != nil {
		t.Fatalf("TTFT is %s, %v", o.TTFTState, o.TTFTNS)
	}
}

// Two tools that end together, beside calls without length: the instants before the
// second began were charged to the agent.
func TestFound_OfCallsThatEndTogetherTheFirstToBeginOwnsTheTime(t *testing.T) {
	r := theRequest(t, analyze(t, agent("root", "", "planner", 0, 20),
		chat("0000", "root", "0", 0, 0), chat("0001", "root", "1", 0, 0),
		tool("0002", "root", "2", 0, 18), tool("0003", "root", "3", 6, 18)))
	if r.ToolNS != 18*sec || r.AgentNS != 2*sec || r.InferenceSegmentNS != 0 {
		t.Fatalf("tools %d, agent %d, inference %d s; want 18, 2, 0", r.ToolNS/sec, r.AgentNS/sec, r.InferenceSegmentNS/sec)
	}
}
