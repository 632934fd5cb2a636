package genai

import (
	"math"
	"slices"
	"testing"

	"driftline/internal/rows"
)

// SDKs keep 128 events of a span and drop the oldest: of a stream with more chunks, the
// first chunk that is left is not the first one. Its time is no time to first token.
func TestFirstChunkIsNotReadWhereEventsWereDropped(t *testing.T) {
	chunks := func(from float64, more ...any) Span {
		for i := range 128 {
			more = append(more, ev("gen_ai.content.completion.chunk", from+float64(i)*0.03))
		}
		s := chat("c", "", "m", 0, 10, append(more, kv("gen_ai.is_streaming", true), kv("gen_ai.usage.output_tokens", 200))...)
		s.EventsDropped = true
		return s
	}
	o := one(t, analyze(t, chunks(6)))
	if o.TTFTState != rows.TTFTSuspect || o.TTFTNS != nil || o.TimePerOutputTokenNS != nil || o.Stream != rows.StreamYes || o.GenerationNS != 0 {
		t.Errorf("only late chunks are left: ttft %s %v, per token %v, stream %s", o.TTFTState, o.TTFTNS, o.TimePerOutputTokenNS, o.Stream)
	}
	o = one(t, analyze(t, chunks(6, kv("gen_ai.response.time_to_first_chunk", 0.8))))
	if o.TTFTState != rows.TTFTKnown || secs(*o.TTFTNS) != 0.8 || o.TTFTConflict {
		t.Errorf("an attribute states it: ttft %s %v, conflict %v", o.TTFTState, o.TTFTNS, o.TTFTConflict)
	}
	o = one(t, analyze(t, chunks(1, ev("retry noted", 0.5))))
	if o.TTFTState != rows.TTFTKnown || secs(*o.TTFTNS) != 1 {
		t.Errorf("an older event is left, so the newest were dropped: ttft %s %v", o.TTFTState, o.TTFTNS)
	}
	o = one(t, analyze(t, chunks(3, ev("First Token Stream Event", 3))))
	if o.TTFTState != rows.TTFTKnown || secs(*o.TTFTNS) != 3 {
		t.Errorf("an event says that it is the first: ttft %s %v", o.TTFTState, o.TTFTNS)
	}
	whole := chunks(1)
	whole.EventsDropped = false
	if o = one(t, analyze(t, whole)); o.TTFTState != rows.TTFTKnown || secs(*o.TTFTNS) != 1 {
		t.Errorf("nothing was dropped: ttft %s %v", o.TTFTState, o.TTFTNS)
	}
}

// What one key cannot say must not hide what another key says: a yes where a number
// belongs, no number at all, a count of -1 for "not known".
func TestUnusableNumbersHideNothing(t *testing.T) {
	for _, bad := range []any{true, math.NaN(), math.Inf(1), -1, "-1", -1.0, "none", ""} {
		o := one(t, analyze(t, chat("c", "", "m", 0, 5,
			kv("gen_ai.usage.input_tokens", bad), kv("gen_ai.usage.prompt_tokens", 10),
			kv("gen_ai.usage.output_tokens", bad), kv("llm.token_count.completion", "50"))))
		if o.InputTokens == nil || *o.InputTokens != 10 || o.OutputTokens == nil || *o.OutputTokens != 50 {
			t.Errorf("beside %v: tokens %v, %v, want 10 and 50", bad, o.InputTokens, o.OutputTokens)
		}
		if o = one(t, analyze(t, chat("c", "", "m", 0, 5, kv("gen_ai.usage.input_tokens", bad)))); o.InputTokens != nil {
			t.Errorf("%v alone gives %d tokens, want unknown", bad, *o.InputTokens)
		}
	}
	o := one(t, analyze(t, chat("c", "", "m", 0, 5, kv("gen_ai.response.time_to_first_chunk", math.NaN()), kv("ai.response.msToFirstChunk", 800.0))))
	if o.TTFTNS == nil || secs(*o.TTFTNS) != 0.8 {
		t.Errorf("ttft %v, want 0.8 s", o.TTFTNS)
	}
}

// Some count tries from 0. The numbers of one call rise all the same, and a number that
// does not is another call's.
func TestAttemptNumbersFromZero(t *testing.T) {
	try := func(id string, from float64, number int, options ...any) Span {
		return chat(id, "r", "m", from, from+1, append(options, kv("gen_ai.request.attempt", number))...)
	}
	root := agent("r", "", "x", 0, 30)
	o := one(t, analyze(t, root, try("c1", 1, 0, StatusError), try("c2", 3, 1, StatusError), try("c3", 6, 2)))
	if o.Attempts == nil || *o.Attempts != 3 || secs(o.FailedAttemptNS) != 2 || secs(o.BackoffNS) != 3 {
		t.Errorf("0, 1, 2: attempts %v, failed %v s, backoff %v s; want 3, 2, 3", o.Attempts, secs(o.FailedAttemptNS), secs(o.BackoffNS))
	}
	res := analyze(t, root, try("c1", 1, 0, StatusError), try("c2", 3, 0, StatusError), try("c3", 6, 1))
	if len(res.Operations) != 2 {
		t.Fatalf("0, 0, 1: %d operations, want 2", len(res.Operations))
	}
	if o := operation(t, res, "c2"); o.Attempts == nil || *o.Attempts != 2 {
		t.Errorf("0, 0, 1: the second call has attempts %v, want 2", o.Attempts)
	}
}

// Two versions of one span that differ in a yes or no, or in a link, give the same rows
// whichever comes first.
func TestVersionsOfASpanAreOrderedByAllTheySay(t *testing.T) {
	good, bad := chat("c", "", "m", 0, 5, kv("success", true), kv("span.type", "llm_request")), chat("c", "", "m", 0, 5, kv("success", false), kv("span.type", "llm_request"))
	x, y := analyze(t, good, bad), analyze(t, bad, good)
	if one(t, x).Outcome != one(t, y).Outcome {
		t.Errorf("outcome %s or %s, by order", one(t, x).Outcome, one(t, y).Outcome)
	}
	linked, other := good, good
	linked.LinkedTraces, other.LinkedTraces = []string{"01"}, []string{"02"}
	versions := []Span{linked, other}
	first := theRequest(t, analyze(t, versions...)).LinkedTraceID
	slices.Reverse(versions)
	if second := theRequest(t, analyze(t, versions...)).LinkedTraceID; first != second {
		t.Errorf("linked trace %s or %s, by order", first, second)
	}
}

// A model call through a gateway whose own calls are traced too is one call, however both
// sides tried again; its tokens count once.
func TestRetriesOnBothSidesOfAGateway(t *testing.T) {
	hop := func(id string, from, to float64, status int) Span {
		return sp(id, "c", "POST /v1/chat", from, to, KindServer, hostB, kv("http.request.method", "POST"), kv("http.response.status_code", status))
	}
	o := one(t, analyze(t, chat("c", "", "m", 0, 10),
		hop("s1", 0, 5, 503), chat("b1", "s1", "m", 0.1, 2, StatusError, hostB), chat("b2", "s1", "m", 2.5, 4.9, StatusError, hostB),
		hop("s2", 6, 10, 200), chat("b3", "s2", "m", 6.1, 9.9, hostB, kv("gen_ai.usage.output_tokens", 7))))
	if *o.Attempts != 2 || *o.LeafAttempts != 3 || secs(o.FailedAttemptNS) != 5 || secs(o.BackoffNS) != 1 || *o.OutputTokens != 7 {
		t.Errorf("attempts %d, leaves %d, failed %v, backoff %v, tokens %d; want 2, 3, 5, 1, 7",
			*o.Attempts, *o.LeafAttempts, secs(o.FailedAttemptNS), secs(o.BackoffNS), *o.OutputTokens)
	}
}

// From one model to another and back again are three calls: the first model's second try
// is no attempt of its first, since another call came between them.
func TestFallbackThereAndBack(t *testing.T) {
	res := analyze(t, agent("r", "", "x", 0, 10), chat("a1", "r", "A", 0, 2, StatusError), chat("b", "r", "B", 2.1, 4, StatusError), chat("a2", "r", "A", 4.2, 10))
	if len(res.Operations) != 3 {
		t.Fatalf("%d operations, want 3", len(res.Operations))
	}
	if x, y := operation(t, res, "b").FallbackOf, operation(t, res, "a2").FallbackOf; x != "a1" || y != "b" {
		t.Errorf("fallback of %q and %q, want a1 and b", x, y)
	}
}

// A span that claims to have ended in the future, by a wrong clock or unit, must not hide
// that a request has been silent since it came.
func TestAnEndInTheFutureHidesNoSilence(t *testing.T) {
	wrong := chat("c", "r", "m", 0, 5)
	wrong.End = math.MaxInt64
	for _, now := range []float64{10, 400} {
		res := Analyze(Trace{Spans: []Span{wrong}, LastArrival: at(6), Now: at(now)}, Options{})
		if o := res.Open[0]; o.LastSpanAt != at(6) || o.AgeNS != int64(now)*sec {
			t.Fatalf("at %v s: last span at %v s, age %v s", now, secs(o.LastSpanAt-base), secs(o.AgeNS))
		}
	}
}

// Where a span's events were dropped, those that are left count its tries only if they are
// numbered.
func TestTriesAreNotCountedWhereEventsWereDropped(t *testing.T) {
	call := func(dropped bool, events ...any) *rows.Operation {
		s := chat("c", "", "m", 0, 9, events...)
		s.EventsDropped = dropped
		return one(t, analyze(t, s))
	}
	for name, events := range map[string][]any{
		"retries":  {ev("gen_ai.retry", 3), ev("gen_ai.retry", 6)},
		"attempts": {ev("gen_ai.request.attempt", 0), ev("gen_ai.request.attempt", 3), ev("gen_ai.request.attempt", 6)},
	} {
		attemptsAre(t, call(false, events...), 3, rows.SourceEvent)
		if o := call(true, events...); o.Attempts != nil || o.HiddenTotalNS != nil {
			t.Errorf("%s without numbers, some dropped: attempts are %d, want unknown", name, *o.Attempts)
		}
	}
	// The first of three was dropped, but the second says that it is the second.
	if o := call(true, ev("gen_ai.retry", 6, kv("attempt", 2))); o.Attempts == nil || *o.Attempts != 3 {
		t.Errorf("numbered: attempts are %v, want 3", o.Attempts)
	}
}
