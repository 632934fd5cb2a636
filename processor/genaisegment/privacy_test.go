package genaisegment

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"driftline/internal/clock"
	"driftline/internal/genai/dialects"
	"driftline/internal/rows"
	"driftline/processor/genaisegment/internal/metadata"
)

// canary begins every text that must not survive.
const canary = "CANARY"

// contentKeys are all keys that carry content: those of every dialect's document, and
// those that must be among them whatever the documents say.
func contentKeys(t *testing.T) (keys, events []string) {
	docs, err := dialects.BuiltIn()
	require.NoError(t, err)
	seen := map[string]bool{}
	add := func(key string) {
		key = strings.ReplaceAll(key, "*", "0.message.content")
		if name, ok := strings.CutPrefix(key, "event:"); ok {
			if !seen[key] {
				events = append(events, name)
			}
		} else if !seen[key] {
			keys = append(keys, key)
		}
		seen[key] = true
	}
	for _, d := range docs {
		for _, key := range d.Content {
			add(key)
		}
	}
	for _, key := range []string{
		"gen_ai.prompt", "gen_ai.prompt.0.content", "gen_ai.completion.0.content", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
		"gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.tool.definitions", "input.value", "output.value",
		"llm.input_messages.0.message.content", "llm.output_messages.0.message.content", "llm.prompts", "llm.prompts.0.content", "llm.invocation_parameters",
		"traceloop.entity.input", "traceloop.entity.output", "ai.prompt", "ai.prompt.messages", "ai.response.text", "ai.response.object", "ai.response.toolCalls",
		"ai.toolCall.args", "ai.toolCall.result", "langfuse.observation.input", "langfuse.observation.output", "langfuse.trace.input", "langfuse.observation.status_message",
		"gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response", "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response", "all_messages_events",
		"exception.message", "exception.stacktrace", "db.query.text", "db.statement", "url.query", "http.request.body", "http.response.body", "user_prompt",
		"http.request.header.authorization", "http.request.header.cookie", "request_data", "response_data", "error.message", "tool_input",
		"event:gen_ai.user.message", "event:gen_ai.assistant.message", "event:gen_ai.system.message", "event:gen_ai.tool.message", "event:gen_ai.choice",
		"event:gen_ai.content.prompt", "event:gen_ai.content.completion", "event:gen_ai.client.inference.operation.details",
	} {
		add(key)
	}
	return keys, events
}

// idKeys are all keys that name a user or a tenant, and a configured one of each.
func idKeys(t *testing.T) []string {
	docs, err := dialects.BuiltIn()
	require.NoError(t, err)
	out := []string{"app.user", "app.org"}
	for _, d := range docs {
		for _, a := range d.Attributes {
			if a.Means == "user" || a.Means == "tenant" {
				out = append(out, a.Key)
			}
		}
	}
	require.Greater(t, len(out), 10)
	return out
}

// hides puts a text that must not survive into everything of a span that can carry one.
type hides struct {
	keys, events []string
	// ids are the keys that name a user or a tenant.
	ids   []string
	count int
}

func (h *hides) text() string {
	h.count++
	return fmt.Sprintf("%s-%d the user said", canary, h.count)
}

func (h *hides) into(span ptrace.Span) {
	fill := func(attrs pcommon.Map, from, every int) {
		for i := from; i < len(h.keys); i += every {
			key := h.keys[i]
			switch i % 4 {
			case 0, 1:
				attrs.PutStr(key, h.text())
			case 2:
				attrs.PutEmptySlice(key).AppendEmpty().SetStr(h.text())
			case 3:
				attrs.PutEmptyMap(key).PutStr("text", h.text())
			}
		}
	}
	fill(span.Attributes(), 0, 1)
	span.Status().SetMessage(h.text())
	for i, name := range append([]string{"exception", "gen_ai.retry", "gen_ai.content.completion.chunk", "First Token Stream Event"}, h.events...) {
		e := span.Events().AppendEmpty()
		e.SetName(name)
		e.SetTimestamp(span.StartTimestamp() + 1000)
		fill(e.Attributes(), i%5, 5)
		e.Attributes().PutStr("content", h.text())
		e.Attributes().PutStr("exception.type", "Error: "+h.text())
	}
	for _, key := range h.ids {
		span.Attributes().PutStr(key, h.text())
	}
	link := span.Links().AppendEmpty()
	link.SetTraceID(pcommon.TraceID{9, 15: 9})
	link.Attributes().PutStr("gen_ai.input.messages", h.text())
	fullURL := "https://" + canary + ":" + canary + "@api.example/v1/chat?q=" + canary + "&key=" + canary
	span.Attributes().PutStr("url.full", fullURL)
	span.Attributes().PutStr("http.target", "/v1/chat?q="+canary)
}

// trace is one trace with a span of each class in one dialect's shape.
func (h *hides) trace(id byte, kind map[string]string, scope string) ptrace.Traces {
	b := newBuilder(id)
	b.td.ResourceSpans().At(0).ScopeSpans().At(0).Scope().SetName(scope)
	b.td.ResourceSpans().At(0).Resource().Attributes().PutStr("process.command_line", h.text())
	root := b.span(1, 0, "GET /ask?question="+canary+"&more=1", 0, 9*time.Second)
	root.SetKind(ptrace.SpanKindServer)
	for i, class := range []string{"agent", "chat", "tool", "retrieval", "failed"} {
		s := b.span(byte(i+2), 1, class, time.Duration(i)*time.Second, time.Duration(i+1)*time.Second)
		for key, values := range kind {
			for _, pair := range strings.Split(values, " ") {
				if c, value, _ := strings.Cut(pair, "="); c == class || class == "failed" && c == "chat" {
					s.Attributes().PutStr(key, value)
				}
			}
		}
		s.Attributes().PutStr("gen_ai.request.model", "m")
		h.into(s)
		if class == "failed" {
			s.Status().SetCode(ptrace.StatusCodeError)
			s.Attributes().PutStr("error.type", "Error: "+h.text())
			h.into(b.http(9, 6, 4*time.Second, 5*time.Second, 503))
		}
	}
	h.into(root)
	return b.td
}

// TestPrivacy_NoContentSurvives puts a canary into every content-carrying attribute and
// event of every dialect and shows that none is in a row, a mark, an event of driftline's
// or a log line, even where a user lists such keys.
func TestPrivacy_NoContentSurvives(t *testing.T) {
	h := &hides{}
	h.keys, h.events = contentKeys(t)
	h.ids = idKeys(t)
	logs, seen := observer.New(zapcore.DebugLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(logs)
	sink := &failing{TracesSink: new(consumertest.TracesSink), err: errors.New("not now")}
	c := clock.NewManual(began)
	words := []map[string]string{
		{"gen_ai.operation.name": "agent=invoke_agent chat=chat tool=execute_tool retrieval=retrieval"},
		{"openinference.span.kind": "agent=AGENT chat=LLM tool=TOOL retrieval=RETRIEVER"},
		{"traceloop.span.kind": "agent=agent tool=tool", "llm.request.type": "chat=chat retrieval=rerank"},
		{"langfuse.observation.type": "agent=agent chat=generation tool=tool retrieval=retriever"},
		{"ai.operationId": "agent=ai.generateText chat=ai.generateText.doGenerate tool=ai.toolCall retrieval=ai.embed.doEmbed"},
	}
	docs, err := dialects.BuiltIn()
	require.NoError(t, err)
	scopes := []string{"lib"}
	for _, d := range docs {
		for _, s := range d.Recognise.Scopes {
			scopes = append(scopes, strings.ReplaceAll(s, "*", ".x"))
		}
	}
	for from := 0; from < len(h.keys)+maxAttributes*len(words); from += maxAttributes {
		cfg := createDefaultConfig().(*Config)
		if cfg.Attributes = h.keys[min(from, len(h.keys)):min(from+maxAttributes, len(h.keys))]; len(cfg.Attributes) == 0 {
			cfg.Attributes = []string{"url.full", "http.target", "error.type", "exception.type"}
		}
		cfg.UserKeys, cfg.TenantKeys, cfg.IdentityKey = []string{"app.user"}, []string{"app.org"}, canary+"-key-0123456789"
		cfg.PriorityKeys = []string{"gen_ai.input.messages", "user_prompt"}
		cfg.RequestKeys = []string{"gen_ai.operation.name+gen_ai.system_instructions", "all_messages_events", "url.full", "http.target"}
		require.ErrorContains(t, cfg.Validate(), `'request_keys[0]' names "gen_ai.system_instructions"`)
		require.Error(t, cfg.Validate(), "keys that carry content are refused, and so held back below even if they were not")
		p, err := NewFactoryWithClock(c).CreateTraces(t.Context(), set, cfg, sink)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
		scope := scopes[from/maxAttributes%len(scopes)]
		require.NoError(t, p.ConsumeTraces(t.Context(), h.trace(1, words[from/maxAttributes%len(words)], scope)))
		sink.err = errors.New("not now")
		c.Advance(15 * time.Second) // released to a component that fails, which is logged
		sink.err = nil
		c.Advance(time.Minute)
		late := newBuilder(1)
		s := late.chat(77, 1, 5*time.Second, 6*time.Second)
		h.into(s)
		require.NoError(t, p.ConsumeTraces(t.Context(), late.td))
		c.Advance(time.Minute)
		require.NoError(t, p.Shutdown(t.Context()))
	}
	found, kept, written, hashes := 0, 0, 0, 0
	check := func(where, text string) {
		written++
		if at := strings.Index(text, canary); at >= 0 {
			if found++; found < 20 {
				t.Errorf("%s holds %q", where, text[max(at-60, 0):min(at+40, len(text))])
			}
		}
	}
	for _, td := range sink.AllTraces() {
		for _, span := range spansIn(td) {
			for key, v := range span.Attributes().All() {
				if strings.HasPrefix(key, rows.AttributePrefix) {
					check("mark "+key+" of "+span.Name(), v.AsString())
				} else if strings.Contains(v.AsString(), canary) {
					kept++
				}
			}
			for _, e := range span.Events().All() {
				if _, hashed := e.Attributes().Get(rows.AttributePrefix + "user_hash"); hashed {
					hashes++
				}
				if strings.HasPrefix(e.Name(), rows.AttributePrefix) {
					text, err := json.Marshal(e.Attributes().AsRaw())
					require.NoError(t, err)
					check("row "+e.Name(), string(text))
				}
			}
			if strings.HasPrefix(span.Name(), rows.AttributePrefix) {
				check("span", span.Name())
			}
		}
	}
	require.NotEmpty(t, seen.All(), "the failing component was not logged")
	for _, entry := range seen.All() {
		text, err := json.Marshal(entry.ContextMap())
		require.NoError(t, err)
		check("log", entry.Message+string(text))
	}
	require.Greater(t, kept, 1000, "the spans keep what they had")
	require.Greater(t, written, 300)
	require.Greater(t, hashes, 20, "requests carry hashes of the users that the spans name")
	t.Logf("%d texts in %d keys and %d events; %d marks, rows and log lines hold %d of them", h.count, len(h.keys), len(h.events), written, found)
}
