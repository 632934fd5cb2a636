package genai

import (
	"testing"

	"driftline/internal/genai/dialects"
	"driftline/internal/rows"
)

// acme is a dialect that nobody writes, in the shape of a file or of configuration.
const acme = `
dialect: acme
title: Acme's agents
recognise:
  scopes: ["acme.*"]
  keys: [acme.]
first_token_from: attempt
attributes:
  - {key: acme.what, means: kind}
  - {key: acme.llm, means: model, precedence: 30}
  - {key: acme.vendor, means: provider, precedence: 30}
  - {key: acme.skill, means: tool, precedence: 30}
  - {key: acme.first_us, means: ttft, unit: us, precedence: 30}
  - {key: acme.in, means: input_tokens, precedence: 30}
  - {key: acme.out, means: output_tokens, precedence: 30}
  - {key: gen_ai.response.time_to_first_chunk, means: ttft, unit: ms, note: in milliseconds on our spans}
rules:
  - {of: kind, values: [ask-live], as: chat, step: 1, seen: [acme], streamed: "yes"}
  - {of: kind, values: ["ask*"], as: chat, step: 1, seen: [acme], streamed: "no"}
  - {of: kind, values: [skill], as: tool, step: 1, seen: [acme]}
  - {of: name, values: ["acme mission *"], as: agent, step: 1}
events:
  - {name: acme.again, means: retry}
subjects:
  agent: ["acme mission *"]
`

func withDialects(t *testing.T, texts ...string) *Dialects {
	t.Helper()
	var docs []dialects.Document
	for _, text := range texts {
		d, err := dialects.Parse("test", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	set, err := NewDialects(docs)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestAnAddedDialectIsUnderstood(t *testing.T) {
	opt := Options{Dialects: withDialects(t, acme)}
	scoped := func(s Span) Span { s.Scope = "acme.sdk"; return s }
	spans := []Span{
		sp("01", "", "acme mission plan", 0, 20),
		sp("02", "01", "x", 0, 9, kv("acme.what", "ask-live"), kv("acme.llm", "m1"), kv("acme.vendor", "v"), kv("acme.first_us", 1_500_000), kv("acme.in", 7), kv("acme.out", 300),
			ev("acme.again", 3, kv("backoff_ms", 1000))),
		sp("03", "01", "y", 9, 12, kv("acme.what", "skill"), kv("acme.skill", "grep")),
		scoped(chat("04", "01", "m2", 12, 15, kv("gen_ai.response.time_to_first_chunk", 250))),
		chat("05", "01", "m2", 15, 20, kv("gen_ai.response.time_to_first_chunk", 2.5)),
		sp("06", "01", "z", 19, 20, kv("acme.what", "ask-dull"), kv("acme.llm", "m1"), kv("acme.vendor", "v")),
	}
	for _, s := range spans {
		if !opt.Dialects.IsGenAI(&s) {
			t.Errorf("IsGenAI says no to %s", s.SpanID)
		}
	}
	for _, key := range []string{"acme.what", "acme.first_us", "gen_ai.request.model"} {
		if !Wanted(key, &opt) {
			t.Errorf("%s is not kept", key)
		}
	}
	if Wanted("acme.what", &Options{}) || IsGenAI(&spans[0]) {
		t.Error("the built-in dialects were changed")
	}
	res := Analyze(Trace{Complete: true, Spans: spans, Now: at(100)}, opt)
	checkLaws(t, res)
	if r := theRequest(t, res); r.Agent != "plan" || r.Kind != rows.KindAgent || r.Steps != 4 || r.ToolCalls != 1 {
		t.Errorf("request of kind %s, agent %q, %d steps, %d tool calls", r.Kind, r.Agent, r.Steps, r.ToolCalls)
	}
	want{kind: rows.KindChat, target: "m1", dialect: "acme", stream: rows.StreamYes, ttft: 1.5, input: 7, output: 300, attempts: 2}.check(t, operation(t, res, "02"))
	want{kind: rows.KindTool, target: "grep", dialect: "acme"}.check(t, operation(t, res, "03"))
	want{kind: rows.KindChat, target: "m2", dialect: "acme", stream: rows.StreamYes, ttft: 0.25}.check(t, operation(t, res, "04"))
	want{kind: rows.KindChat, target: "m2", dialect: "otel", stream: rows.StreamYes, ttft: 2.5}.check(t, operation(t, res, "05"))
	want{kind: rows.KindChat, target: "m1", dialect: "acme", stream: rows.StreamNo}.check(t, operation(t, res, "06"))
}

func TestAChangedDialect(t *testing.T) {
	opt := Options{Dialects: withDialects(t, `{dialect: claude_code, attributes: [{key: ttft_ms, unit: s}]}`,
		`{dialect: openinference, rules: [{of: openinference_kind, values: [GUARDRAIL], as: tool, step: 70, ignore_case: true}, {of: openinference_kind, values: [RETRIEVER], disabled: true}]}`,
		`{dialect: otel, attributes: [{key: gen_ai.system, disabled: true}, {key: gen_ai.usage.prompt_tokens, precedence: 0}, {key: gen_ai.usage.input_tokens, precedence: 1}]}`)}
	res := Analyze(Trace{Complete: true, Now: at(100), Spans: []Span{
		sp("01", "", "root", 0, 9),
		sp("02", "01", "claude_code.llm_request", 0, 3, kv("model", "m1"), kv("ttft_ms", 1.5)),
		sp("03", "01", "guard", 3, 4, kv("openinference.span.kind", "Guardrail")),
		sp("04", "01", "retrieve", 4, 5, kv("openinference.span.kind", "RETRIEVER")),
		sp("05", "01", "chat m1", 5, 9, KindClient, kv("gen_ai.operation.name", "chat"), kv("gen_ai.request.model", "m1"), kv("gen_ai.system", "openai"), kv("gen_ai.usage.prompt_tokens", 3), kv("gen_ai.usage.input_tokens", 4)),
	}}, opt)
	checkLaws(t, res)
	want{kind: rows.KindChat, target: "m1", dialect: "claude_code", stream: rows.StreamYes, ttft: 1.5}.check(t, operation(t, res, "02"))
	want{kind: rows.KindTool, target: "guard", dialect: "openinference"}.check(t, operation(t, res, "03"))
	if len(res.Operations) != 3 {
		t.Errorf("%d operations, want 3: a retriever is none here", len(res.Operations))
	}
	if o := operation(t, res, "05"); o.Provider != "" || *o.InputTokens != 3 || Wanted("gen_ai.system", &opt) {
		t.Errorf("provider %q, %d input tokens", o.Provider, *o.InputTokens)
	}
}
