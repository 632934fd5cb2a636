package genai

import (
	"testing"

	"driftline/internal/rows"
)

var streamed = kv("gen_ai.request.stream", true)

func firstChunk(s float64) Attr { return kv("gen_ai.response.time_to_first_chunk", s) }

func output(n int) Attr { return kv("gen_ai.usage.output_tokens", n) }

func TestC22_NotStreamed(t *testing.T) {
	o := one(t, analyze(t, chat("01", "", "m1", 0, 25, kv("gen_ai.request.stream", false), kv("budget", 30.0))))
	if o.TTFTState != rows.TTFTNotApplicable || o.TTFTNS != nil || o.DeadlineMissed == nil || *o.DeadlineMissed {
		t.Fatalf("TTFT %s, missed %v", o.TTFTState, o.DeadlineMissed)
	}
}

func TestC25_TTFTEqualToTheTotal(t *testing.T) {
	for i := range 50 {
		d := 4 + float64(i)/10
		o := one(t, analyze(t, chat("01", "", "m1", 0, d, streamed, firstChunk(d), output(300+i))))
		if o.TTFTState != rows.TTFTSuspect || o.TTFTNS != nil || o.TTFTSegmentNS != 0 {
			t.Fatalf("duration %v: TTFT %s %v", d, o.TTFTState, o.TTFTNS)
		}
	}
	// One token at the very end is possible.
	if o := one(t, analyze(t, chat("01", "", "m1", 0, 4, streamed, firstChunk(4), output(1)))); o.TTFTState != rows.TTFTKnown {
		t.Fatalf("a single token at the end is %s", o.TTFTState)
	}
}

func TestTTFTOutOfReason(t *testing.T) {
	for name, o := range map[string]*rows.Operation{
		"microseconds":      one(t, analyze(t, chat("01", "", "m1", 0, 4, streamed, firstChunk(0.00002), output(300)))),
		"900 tokens in 2ms": one(t, analyze(t, chat("01", "", "m1", 0, 4, streamed, firstChunk(3.998), output(900)))),
		"longer than call":  one(t, analyze(t, chat("01", "", "m1", 0, 4, streamed, firstChunk(9), output(300)))),
		"negative":          one(t, analyze(t, chat("01", "", "m1", 0, 4, streamed, firstChunk(-1), output(300)))),
	} {
		if o.TTFTState != rows.TTFTSuspect || o.TTFTNS != nil {
			t.Errorf("%s: TTFT is %s", name, o.TTFTState)
		}
	}
}

func TestC26_EventAgainstAttribute(t *testing.T) {
	o := one(t, analyze(t, chat("01", "", "m1", 0, 13, streamed, firstChunk(12.4), ev("First Token Stream Event", 2.8))))
	near(t, "ttft", o.TTFTNS, 2.8)
	if !o.TTFTConflict {
		t.Fatal("the conflict is not counted")
	}
}

func TestC28_ReasoningStream(t *testing.T) {
	for name, events := range map[string][]any{
		"by name": {ev("stream.role", 0.01), ev("stream.reasoning", 1.2), ev("stream.content", 183.6)},
		"by type": {ev("gen_ai.stream.chunk", 0.01, kv("chunk.type", "role")), ev("gen_ai.stream.chunk", 1.2, kv("chunk.type", "reasoning")), ev("gen_ai.stream.chunk", 183.6, kv("chunk.type", "content"))},
	} {
		for _, attr := range [][]any{nil, {firstChunk(0.01)}, {firstChunk(183.6)}} {
			o := one(t, analyze(t, chat("01", "", "m1", 0, 193, append(append([]any{streamed}, events...), attr...)...)))
			near(t, name+" first token", o.TTFTNS, 1.2)
			near(t, name+" first visible", o.FirstVisibleNS, 183.6)
			if o.TTFTConflict != (attr != nil) {
				t.Errorf("%s %v: conflict %v", name, attr, o.TTFTConflict)
			}
		}
	}
}

func TestC30_MissingIsNotZero(t *testing.T) {
	o := one(t, analyze(t, chat("01", "", "m1", 0, 6, streamed, kv("gen_ai.response.finish_reasons", []string{"length"}))))
	if o.TTFTState != rows.TTFTMissing || o.TTFTNS != nil || o.FinishReason != "length" || o.Outcome != rows.OutcomeOK {
		t.Fatalf("TTFT %s %v, finish %q", o.TTFTState, o.TTFTNS, o.FinishReason)
	}
	near(t, "inference", &o.InferenceSegmentNS, 6)
}

func TestC32_ToolCallsOnly(t *testing.T) {
	o := one(t, analyze(t, chat("01", "", "m1", 0, 2, streamed, kv("gen_ai.response.finish_reasons", []string{"tool_calls"}), ev("tool-call delta", 0.7))))
	near(t, "first token", o.TTFTNS, 0.7)
	if o.FirstVisibleNS != nil {
		t.Fatalf("first visible is %v, want missing", secs(*o.FirstVisibleNS))
	}
}

func TestC33_SpansDecideDuration(t *testing.T) {
	res := analyze(t, chat("01", "", "m1", 0, 20, streamed, kv("gen_ai.client.operation.duration", 0.8)), post("02", "01", 0, 0.8, 200))
	o := one(t, res)
	near(t, "duration", &o.UserTimeNS, 20)
	near(t, "attempt", &res.Attempts[0].DurationNS, 20)
}

func TestC35_UnitByName(t *testing.T) {
	for _, a := range []Attr{firstChunk(0.82), kv("gen_ai.response.time_to_first_token", 820_000_000), kv("gen_ai.client.operation.time_to_first_chunk", 0.82), kv("ttft_ms", 820), kv("ai.response.msToFirstChunk", 820.0), kv("time_to_first_token_ms", 820)} {
		near(t, a.Key, one(t, analyze(t, chat("01", "", "m1", 0, 5, streamed, a))).TTFTNS, 0.82)
	}
}

func TestC36_OpenInferenceEvent(t *testing.T) {
	o := one(t, analyze(t, sp("01", "", "ChatCompletion", 0, 6, kv("openinference.span.kind", "LLM"), kv("llm.model_name", "m1"), ev("First Token Stream Event", 1.1), kv("llm.token_count.completion", 50))))
	near(t, "ttft", o.TTFTNS, 1.1)
	near(t, "per token", o.TimePerOutputTokenNS, 0.1)
	if o.Stream != rows.StreamYes || o.TTFTConflict || o.Dialect != "openinference" || o.Target != "m1" {
		t.Fatalf("stream %s, conflict %v, dialect %s, target %s", o.Stream, o.TTFTConflict, o.Dialect, o.Target)
	}
}

func TestC72_CallerGaveUpWhileTheServerWentOn(t *testing.T) {
	server := chat("02", "01", "m1", 0.1, 85, hostB, KindServer, firstChunk(70), kv("gen_ai.usage.input_tokens", 70_000))
	server.Kind = KindServer
	res := analyze(t, chat("01", "", "m1", 0, 60, StatusError, kv("error.type", "timeout"), streamed), server)
	o := one(t, res)
	near(t, "ttft", o.TTFTNS, 70.1)
	near(t, "prefill of the call", &o.TTFTSegmentNS, 60)
	if *o.InputTokens != 70_000 || o.ErrorClass != rows.ClassTimeout || !o.Censored || o.SkewedSpans != 0 {
		t.Fatalf("input %d, class %s, censored %v, skew %d", *o.InputTokens, o.ErrorClass, o.Censored, o.SkewedSpans)
	}
}

func TestS9_TTFTOfWhichAttempt(t *testing.T) {
	for _, ttft := range []float64{18.4, 1.2} {
		o := one(t, analyze(t, case1(streamed, firstChunk(ttft))...))
		near(t, "ttft", o.TTFTNS, 1.2)
		near(t, "first chunk", o.FirstChunkNS, 18.4)
		near(t, "ttft segment", &o.TTFTSegmentNS, 1.2)
		near(t, "generation", &o.GenerationNS, 2.6)
		if o.TTFTConflict {
			t.Errorf("ttft %v is no conflict", ttft)
		}
	}
}

func TestS10_StreamFlagAndFinishReason(t *testing.T) {
	a := one(t, analyze(t, chat("01", "", "m1", 0, 5, firstChunk(0.9))))
	if a.Stream != rows.StreamYes || !a.TTFTConflict || a.TTFTState != rows.TTFTKnown {
		t.Fatalf("(a): stream %s, conflict %v, state %s", a.Stream, a.TTFTConflict, a.TTFTState)
	}
	b := one(t, analyze(t, chat("01", "", "m1", 0, 5, streamed, firstChunk(0.9), kv("gen_ai.response.finish_reasons", []string{"error"}))))
	if b.Outcome != rows.OutcomeError || b.TTFTState != rows.TTFTKnown || b.ErrorClass == "" {
		t.Fatalf("(b): outcome %s, state %s", b.Outcome, b.TTFTState)
	}
	near(t, "(b) ttft", b.TTFTNS, 0.9)
}
