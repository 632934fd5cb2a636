package genai

import (
	"fmt"
	"testing"

	"driftline/internal/rows"
)

// Two instrumentations of one process: LangChain's callbacks, whose spans are around nothing,
// and the SDK's.
func byCallback(id, parent string, from, to float64, options ...any) Span {
	s := sp(id, parent, "ChatOpenAI", from, to, append([]any{kv("openinference.span.kind", "LLM"), kv("llm.model_name", "gpt-4o-2024-08-06")}, options...)...)
	s.Scope = "openinference.instrumentation.langchain"
	return s
}

func bySDK(id, parent string, from, to float64, options ...any) Span {
	s := chat(id, parent, "gpt-4o", from, to, options...)
	s.Scope = "opentelemetry.instrumentation.openai_v2"
	return s
}

func callbackTokens(in, out int) []Attr {
	return []Attr{kv("llm.token_count.prompt", in), kv("llm.token_count.completion", out)}
}

func sdkTokens(in, out int) []Attr {
	return []Attr{kv("gen_ai.usage.input_tokens", in), kv("gen_ai.usage.output_tokens", out)}
}

func TestACallSeenByTwoInstrumentationsIsOne(t *testing.T) {
	root := sp("r", "", "POST /ask", 0, 10, KindServer, kv("http.request.method", "POST"))
	chain := sp("g", "r", "RunnableSequence", 0.9, 6, kv("openinference.span.kind", "CHAIN"))
	res := analyze(t, root, chain,
		byCallback("l", "g", 1, 5, callbackTokens(100, 9)),
		bySDK("s", "r", 1.06, 4.99, sdkTokens(100, 9)), post("p1", "s", 1.06, 2, 503, StatusError), post("p2", "s", 2.5, 4, 200))
	o := one(t, res)
	attemptsAre(t, o, 2, rows.SourceHTTPChild)
	near(t, "failed", &o.FailedAttemptNS, 0.94)
	if r := theRequest(t, res); o.OperationID != "l" || *r.OutputTokens != 9 || *r.InputTokens != 100 || r.Steps != 1 {
		t.Fatalf("operation %s, output %d, input %d, steps %d", o.OperationID, *r.OutputTokens, *r.InputTokens, r.Steps)
	}
	// Failed calls have no tokens: their times say it, and so do those of calls without usage.
	failed := []any{StatusError, kv("error.type", "timeout")}
	if o := one(t, analyze(t, root, chain, byCallback("l", "g", 1, 5, failed...), bySDK("s", "r", 1.01, 4.995, failed...))); o.ErrorClass != rows.ClassTimeout {
		t.Fatalf("class is %s", o.ErrorClass)
	}
	one(t, analyze(t, root, chain, byCallback("l", "g", 1, 5), bySDK("s", "r", 1.01, 4.995)))
	// Three at once are three.
	spans := []Span{root, chain}
	for i := range 3 {
		from := 1 + float64(i)/1000
		spans = append(spans, byCallback(fmt.Sprint("l", i), "g", from, 5+from, callbackTokens(100, 9)), bySDK(fmt.Sprint("s", i), "r", from+0.002, 4.999+from, sdkTokens(100, 9)))
	}
	if res := analyze(t, spans...); len(res.Operations) != 3 || *theRequest(t, res).OutputTokens != 27 {
		t.Fatalf("%d operations with %d tokens, want 3 with 27", len(res.Operations), *theRequest(t, res).OutputTokens)
	}
}

func TestCallsThatOnlyLookAlikeStayApart(t *testing.T) {
	other := bySDK("s", "r", 1, 5)
	other.Attrs[1] = kv("gen_ai.request.model", "gpt-4o-mini")
	same := bySDK("s", "r", 1, 5)
	same.Scope = "openinference.instrumentation.langchain"
	elsewhere := bySDK("s", "r", 1, 5)
	elsewhere.Resource = hostB
	for name, spans := range map[string][2]Span{
		"other tokens":           {byCallback("l", "r", 1, 5, callbackTokens(100, 9)), bySDK("s", "r", 1, 5, sdkTokens(100, 8))},
		"another model":          {byCallback("l", "r", 1, 5), other},
		"the same scope":         {byCallback("l", "r", 1, 5), same},
		"another process":        {byCallback("l", "r", 1, 5), elsewhere},
		"another outcome":        {byCallback("l", "r", 1, 5), bySDK("s", "r", 1, 5, StatusError)},
		"began later":            {byCallback("l", "r", 1, 5), bySDK("s", "r", 1.05, 5)},
		"ended earlier":          {byCallback("l", "r", 1, 5, callbackTokens(100, 9)), bySDK("s", "r", 1, 4.8, sdkTokens(100, 9))},
		"short and side by side": {byCallback("l", "r", 1, 1.05), bySDK("s", "r", 1.01, 1.05)},
		"overlapping":            {byCallback("l", "r", 1, 5), bySDK("s", "r", 1.01, 5.01)},
	} {
		if res := analyze(t, agent("r", "", "x", 0, 10), spans[0], spans[1]); len(res.Operations) != 2 {
			t.Errorf("%s: %d operations, want 2", name, len(res.Operations))
		}
	}
}
