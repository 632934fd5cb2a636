package genai

import (
	"strings"
	"testing"

	"driftline/internal/rows"
)

// want is what one operation of a dialect must become.
type want struct {
	kind, target, dialect, stream string
	ttft                          float64 // 0 for none
	input, output                 int64   // 0 for none
	attempts                      uint32  // 0 for unknown
}

func (w want) check(t *testing.T, o *rows.Operation) {
	t.Helper()
	if o.Kind != w.kind || o.Target != w.target || o.Dialect != w.dialect {
		t.Errorf("kind %s, target %q, dialect %s; want %s, %q, %s", o.Kind, o.Target, o.Dialect, w.kind, w.target, w.dialect)
	}
	if w.stream != "" && o.Stream != w.stream {
		t.Errorf("stream is %s, want %s", o.Stream, w.stream)
	}
	if w.ttft > 0 {
		near(t, "ttft", o.TTFTNS, w.ttft)
	} else if o.TTFTNS != nil {
		t.Errorf("ttft is %v s, want none", secs(*o.TTFTNS))
	}
	for what, c := range map[string]struct {
		got  *int64
		want int64
	}{"input": {o.InputTokens, w.input}, "output": {o.OutputTokens, w.output}} {
		if (c.got == nil) != (c.want == 0) || c.got != nil && *c.got != c.want {
			t.Errorf("%s tokens are %v, want %d", what, c.got, c.want)
		}
	}
	if (o.Attempts == nil) != (w.attempts == 0) || o.Attempts != nil && *o.Attempts != w.attempts {
		t.Errorf("attempts are %v, want %d", o.Attempts, w.attempts)
	}
}

func TestDialects_OneCall(t *testing.T) {
	scoped := func(scope string, s Span) Span { s.Scope = scope; return s }
	for name, c := range map[string]struct {
		span Span
		want want
	}{
		"otel, old names": {sp("01", "", "text_completion m1", 0, 5, KindClient, kv("gen_ai.operation.name", "text_completion"), kv("gen_ai.system", "openai"), kv("gen_ai.request.model", "m1"),
			kv("gen_ai.usage.prompt_tokens", 7), kv("gen_ai.usage.completion_tokens", 9)),
			want{kind: rows.KindCompletion, target: "m1", dialect: "otel", stream: rows.StreamUnknown, input: 7, output: 9}},
		"openllmetry, chunk events": {sp("01", "", "openai.chat", 0, 5, KindClient, kv("llm.request.type", "chat"), kv("gen_ai.request.model", "m1"), kv("gen_ai.is_streaming", true),
			ev("gen_ai.content.completion.chunk", 1.5), ev("gen_ai.content.completion.chunk", 1.7), kv("gen_ai.usage.cache_read_input_tokens", 3)),
			want{kind: rows.KindChat, target: "m1", dialect: "openllmetry", stream: rows.StreamYes, ttft: 1.5}},
		"vercel, doStream": {sp("01", "", "ai.streamText.doStream", 0, 5, kv("ai.operationId", "ai.streamText.doStream"), kv("ai.model.id", "m1"), kv("ai.response.msToFirstChunk", 900.0), kv("ai.usage.promptTokens", 4), kv("ai.settings.maxRetries", 2)),
			want{kind: rows.KindChat, target: "m1", dialect: "vercel", stream: rows.StreamYes, ttft: 0.9, input: 4}},
		"vercel, doGenerate": {sp("01", "", "ai.generateText.doGenerate fn", 0, 5, kv("ai.model.id", "m1")),
			want{kind: rows.KindChat, target: "m1", dialect: "vercel", stream: rows.StreamNo}},
		"claude code": {sp("01", "", "claude_code.llm_request", 0, 9, kv("model", "m1"), kv("gen_ai.request.model", "m1"), kv("ttft_ms", 1500), kv("attempt", 1), kv("input_tokens", 8), kv("output_tokens", 300)),
			want{kind: rows.KindChat, target: "m1", dialect: "claude_code", stream: rows.StreamYes, ttft: 1.5, input: 8, output: 300, attempts: 1}},
		"strands, milliseconds": {sp("01", "", "chat", 0, 5, kv("gen_ai.operation.name", "chat"), kv("gen_ai.system", "strands-agents"), kv("gen_ai.request.model", "m1"), kv("gen_ai.server.time_to_first_token", 800)),
			want{kind: rows.KindChat, target: "m1", dialect: "strands", stream: rows.StreamYes, ttft: 0.8}},
		"another server's seconds": {sp("01", "", "chat m1", 0, 5, kv("gen_ai.operation.name", "chat"), kv("gen_ai.request.model", "m1"), kv("gen_ai.server.time_to_first_token", 0.8)),
			want{kind: rows.KindChat, target: "m1", dialect: "otel", stream: rows.StreamYes, ttft: 0.8}},
		"pydantic ai": {scoped("pydantic-ai", chat("01", "", "m1", 0, 5, kv("gen_ai.client.operation.time_to_first_chunk", 0.7))),
			want{kind: rows.KindChat, target: "m1", dialect: "pydantic_ai", stream: rows.StreamYes, ttft: 0.7}},
		"langfuse, quoted instant": {sp("01", "", "generation", 0, 5, kv("langfuse.observation.type", "generation"), kv("langfuse.observation.model.name", "m1"),
			kv("langfuse.observation.completion_start_time", `"2026-05-28T20:26:41.250Z"`), kv("langfuse.observation.usage_details", `{"input":11,"output":12}`)),
			want{kind: rows.KindChat, target: "m1", dialect: "langfuse", stream: rows.StreamYes, ttft: 1.25, input: 11, output: 12}},
		"litellm, text flag": {sp("01", "", "litellm_request", 0, 5, kv("gen_ai.request.model", "m1"), kv("llm.is_streaming", "False")),
			want{kind: rows.KindChat, target: "m1", dialect: "litellm", stream: rows.StreamNo}},
		"openinference, embedding": {sp("01", "", "CreateEmbeddings", 0, 1, kv("openinference.span.kind", "EMBEDDING"), kv("embedding.model_name", "e1")),
			want{kind: rows.KindEmbeddings, target: "e1", dialect: "openinference", stream: rows.StreamNo}},
		"mcp": {sp("01", "", "tools/call grep", 0, 1, KindClient, kv("mcp.method.name", "tools/call"), kv("gen_ai.tool.name", "grep")),
			want{kind: rows.KindTool, target: "grep", dialect: "mcp"}},
		"traceloop tool": {sp("01", "", "grep.tool", 0, 1, kv("traceloop.span.kind", "tool"), kv("traceloop.entity.name", "grep")),
			want{kind: rows.KindTool, target: "grep", dialect: "openllmetry"}},
		"retrieval": {sp("01", "", "retrieve", 0, 1, kv("openinference.span.kind", "RETRIEVER")),
			want{kind: rows.KindRetrieval, target: "retrieve", dialect: "openinference"}},
	} {
		t.Run(name, func(t *testing.T) {
			if !IsGenAI(&c.span) {
				t.Error("IsGenAI says no")
			}
			c.want.check(t, one(t, analyze(t, c.span)))
		})
	}
}

func TestDialects_NestedSpansOfOneCallCountOnce(t *testing.T) {
	res := analyze(t,
		sp("01", "", "Received Proxy Server Request", 0, 6, KindServer),
		sp("02", "01", "litellm_request", 0.5, 5.5, kv("gen_ai.request.model", "m1"), kv("gen_ai.usage.output_tokens", 40)),
		sp("03", "02", "raw_gen_ai_request", 0.5, 5.5, kv("gen_ai.usage.output_tokens", 40)))
	o := one(t, res)
	if o.OperationID != "02" || *o.OutputTokens != 40 || *theRequest(t, res).OutputTokens != 40 || theRequest(t, res).Steps != 1 {
		t.Fatalf("operation %s with %d tokens", o.OperationID, *o.OutputTokens)
	}

	// A framework's span around the SDK's, with the SDK's HTTP attempts below.
	o = one(t, analyze(t, chat("01", "", "m1", 0, 9), chat("02", "01", "m1", 0.1, 8.9, streamed, firstChunk(5), output(100)),
		post("03", "02", 0.1, 2, 503), post("04", "02", 3, 4.5, 200)))
	attemptsAre(t, o, 2, rows.SourceHTTPChild)
	if o.OperationID != "01" || o.Stream != rows.StreamYes || *o.OutputTokens != 100 {
		t.Fatalf("operation %s, stream %s", o.OperationID, o.Stream)
	}
	near(t, "ttft of the last attempt", o.TTFTNS, 2.1)

	// Inner spans that are tries of the outer one.
	o = one(t, analyze(t, chat("01", "", "m1", 0, 9), chat("02", "01", "m1", 0, 2, StatusError), chat("03", "01", "m1", 3, 9)))
	attemptsAre(t, o, 2, rows.SourceSibling)
	near(t, "backoff", &o.BackoffNS, 1)

	// A task's root that repeats its steps' usage is an agent.
	res = analyze(t, sp("01", "", "ai.generateText", 0, 9, kv("ai.model.id", "m1"), kv("ai.usage.outputTokens", 30)),
		sp("02", "01", "ai.generateText.doGenerate", 0, 3, kv("ai.model.id", "m1"), kv("ai.usage.outputTokens", 10)),
		sp("03", "01", "ai.toolCall", 3, 5, kv("ai.toolCall.name", "grep")),
		sp("04", "01", "ai.generateText.doGenerate", 5, 9, kv("ai.model.id", "m1"), kv("ai.usage.outputTokens", 20)))
	if r := theRequest(t, res); r.Kind != rows.KindAgent || r.Steps != 2 || r.ToolCalls != 1 || *r.OutputTokens != 30 {
		t.Fatalf("request %s with %d steps, %d tool calls, %d tokens", r.Kind, r.Steps, r.ToolCalls, *r.OutputTokens)
	}

	// One call and a tool below a model span: the span is the loop around them.
	res = analyze(t, chat("01", "", "m1", 0, 9), chat("02", "01", "m1", 0, 3), tool("03", "01", "grep", 3, 9))
	if r := theRequest(t, res); r.Kind != rows.KindAgent || r.Steps != 1 || r.ToolCalls != 1 {
		t.Fatalf("request %s with %d steps, %d tool calls", r.Kind, r.Steps, r.ToolCalls)
	}

	// The same shape in the standard's words, where a model span wraps a whole loop.
	res = analyze(t, chat("01", "", "m1", 0, 9), chat("02", "01", "m1", 0, 3), tool("03", "01", "grep", 3, 5), chat("04", "01", "m1", 5, 9))
	if r := theRequest(t, res); r.Kind != rows.KindAgent || r.Steps != 2 || len(res.Operations) != 3 {
		t.Fatalf("request %s with %d steps, %d operations", r.Kind, r.Steps, len(res.Operations))
	}
}

func TestDialects_NestedToolSpansCountOnce(t *testing.T) {
	mcp := func(id, parent string, from, to float64, kind SpanKind) Span {
		return sp(id, parent, "tools/call grep", from, to, kind, kv("mcp.method.name", "tools/call"), kv("gen_ai.tool.name", "grep"))
	}
	res := analyze(t, agent("01", "", "planner", 0, 9), tool("02", "01", "grep", 1, 5), mcp("03", "02", 1.1, 4.9, KindClient), mcp("04", "03", 1.2, 4.8, KindServer))
	if o := one(t, res); o.OperationID != "02" || theRequest(t, res).ToolCalls != 1 {
		t.Fatalf("operation %s, %d tool calls", o.OperationID, theRequest(t, res).ToolCalls)
	}

	res = analyze(t, sp("01", "", "claude_code.interaction", 0, 20),
		sp("02", "01", "claude_code.tool", 1, 15, kv("tool_name", "Bash")),
		sp("03", "02", "claude_code.tool.blocked_on_user", 1, 11),
		sp("04", "02", "claude_code.tool.execution", 11, 15))
	o := one(t, res)
	near(t, "tool time without waiting for the user", &o.UserTimeNS, 4)
	if o.Target != "Bash" || o.OperationID != "04" {
		t.Fatalf("target %q, operation %s", o.Target, o.OperationID)
	}
}

func TestDialects_StrandsSiblings(t *testing.T) {
	chat := func(id string, from, to float64, o ...any) Span {
		return sp(id, "02", "chat", from, to, append(o, kv("gen_ai.operation.name", "chat"), kv("gen_ai.system", "strands-agents"), kv("gen_ai.request.model", "m1"))...)
	}
	res := analyze(t, sp("01", "", "invoke_agent x", 0, 20, kv("gen_ai.operation.name", "invoke_agent")),
		sp("02", "01", "execute_event_loop_cycle", 0, 20, kv("gen_ai.operation.name", "execute_event_loop_cycle")),
		chat("03", 0, 1, StatusError, ev("exception", 1, kv("exception.type", "ModelThrottledException"))), chat("04", 5, 19))
	o := one(t, res)
	attemptsAre(t, o, 2, rows.SourceSibling)
	near(t, "backoff", &o.BackoffNS, 4)
	if res.Attempts[0].ErrorClass != rows.ClassOverload || o.Agent != "x" {
		t.Fatalf("class %s, agent %q", res.Attempts[0].ErrorClass, o.Agent)
	}
}

func TestDialects_ClaudeCodeAttemptEvents(t *testing.T) {
	o := one(t, analyze(t, sp("01", "", "claude_code.llm_request", 0, 20, kv("model", "m1"), kv("attempt", 3),
		ev("gen_ai.request.attempt", 0, kv("attempt", 1), kv("status_code", 529)),
		ev("gen_ai.request.attempt", 6, kv("attempt", 2), kv("status_code", 529)),
		ev("gen_ai.request.attempt", 14, kv("attempt", 3)))))
	attemptsAre(t, o, 3, rows.SourceAttribute)
	near(t, "hidden", o.HiddenTotalNS, 14)
	near(t, "final", &o.InferenceSegmentNS, 6)
	// The total alone says how many, not how long.
	o = one(t, analyze(t, sp("01", "", "claude_code.llm_request", 0, 20, kv("model", "m1"), kv("attempt", 3))))
	attemptsAre(t, o, 3, rows.SourceAttribute)
	if o.HiddenTotalNS != nil {
		t.Fatal("hidden time is not unknown")
	}
}

func TestNetworkSpansBecomeSegments(t *testing.T) {
	o := one(t, analyze(t, chat("01", "", "m1", 0, 9, streamed, firstChunk(3)), post("02", "01", 0, 2.5, 200),
		sp("03", "02", "http.getconn", 0, 1), sp("04", "03", "http.dns", 0.5, 0.7), sp("05", "03", "http.connect", 0.7, 1)))
	near(t, "queue", &o.QueueNS, 0.5)
	near(t, "connect", &o.ConnectNS, 0.5)
	near(t, "ttft", &o.TTFTSegmentNS, 2)
	near(t, "inference", o.InferenceTimeNS, 8)
	o = one(t, analyze(t, chat("01", "", "m1", 0, 9, kv("gen_ai.latency.time_in_queue", 1.25))))
	near(t, "stated queue", &o.QueueNS, 1.25)
}

func TestEndpointAndRegion(t *testing.T) {
	for _, c := range []struct {
		attrs        []Attr
		want, region string
	}{
		{[]Attr{kv("server.address", "api.example.com"), kv("server.port", 443)}, "api.example.com", ""},
		{[]Attr{kv("server.address", "localhost"), kv("server.port", 8080)}, "localhost:8080", ""},
		{[]Attr{kv("server.address", "https://API.example.com/v1/?key=secret")}, "api.example.com", ""},
		{[]Attr{kv("gen_ai.openai.api_base", "http://10.0.0.1:9/v1")}, "10.0.0.1:9", ""},
		{[]Attr{kv("server.address", "bedrock-runtime.eu-west-1.amazonaws.com")}, "bedrock-runtime.eu-west-1.amazonaws.com", "eu-west-1"},
		{[]Attr{kv("cloud.region", "x")}, "", "x"},
	} {
		o := one(t, analyze(t, chat("01", "", "m1", 0, 9, c.attrs)))
		if o.Endpoint != c.want || o.Region != c.region {
			t.Errorf("%v: endpoint %q, region %q", c.attrs, o.Endpoint, o.Region)
		}
	}
}

func TestWantedNeverKeepsContent(t *testing.T) {
	opt := &Options{Attributes: []string{"tenant.tier", "gen_ai.input.messages", "llm.prompts.0"}, BudgetKeys: []string{"my.budget_ms"}}
	for _, k := range []string{"gen_ai.request.model", "http.request.header.x-stainless-retry-count", "tenant.tier", "my.budget_ms", "backoff_seconds", "exception.type"} {
		if !Wanted(k, opt) {
			t.Errorf("%s is not kept", k)
		}
	}
	for _, k := range []string{
		"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.prompt.0.content", "gen_ai.completion.0.content", "llm.prompts.0", "ai.prompt", "ai.response.text",
		"ai.toolCall.args", "input.value", "output.value", "traceloop.entity.input", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "llm.input_messages.0.message.content",
		"langfuse.observation.input", "exception.message", "exception.stacktrace", "http.request.header.authorization", "user.id", "gen_ai.system_instructions",
	} {
		if Wanted(k, opt) {
			t.Errorf("%s is kept", k)
		}
	}
	if Wanted("tenant.tier", nil) || !Wanted("gen_ai.request.model", nil) {
		t.Error("without options only the built-in keys are kept")
	}
	for k, is := range defaultDialects().keys {
		// Of a number only the number is read, and of an id nothing but its keyed hash leaves.
		if defaultDialects().content.Carries(k) && !is.number && !is.id && !strings.HasPrefix(k, "ai.request.headers.") && !strings.HasPrefix(k, "gen_ai.usage.") && !strings.Contains(k, "oken") && k != "langfuse.observation.completion_start_time" {
			t.Errorf("the built-in key %s looks like content", k)
		}
	}
}

func TestConfiguredKeys(t *testing.T) {
	opt := Options{Attributes: []string{"tenant.tier"}, MaxAttributeLength: 4, BudgetKeys: []string{"my.budget_ms"}, PriorityKeys: []string{"lane"}, PerceivedRemainingKeys: []string{"left"}}
	res := Analyze(Trace{Complete: true, Spans: []Span{agent("01", "", "p", 0, 9, kv("my.budget_ms", 8000), kv("lane", "batch"), kv("tenant.tier", "goldén")), chat("02", "01", "m1", 1, 8), sp("03", "01", "plan", 5, 6, kv("left", 4))}}, opt)
	checkLaws(t, res)
	r := theRequest(t, res)
	near(t, "budget", r.BudgetNS, 8)
	if r.Priority != "batch" || r.Attributes["tenant.tier"] != "gold" || !*r.DeadlineMissed {
		t.Fatalf("priority %q, attributes %v", r.Priority, r.Attributes)
	}
	near(t, "drift", r.DriftNS, 1)
	if r.DecisionPoints != 1 {
		t.Fatalf("%d decision points", r.DecisionPoints)
	}
}
