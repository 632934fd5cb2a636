package genai

import (
	"testing"

	"driftline/internal/rows"
)

// TestOTel_EachOperationName holds every operation name of the conventions to the rows
// it must become, once below a planner and once alone. The spans carry what the
// conventions ask of them: agents too name a model, and must not be taken for a call of it.
func TestOTel_EachOperationName(t *testing.T) {
	model := func(o ...any) []any { return append(o, KindClient, kv("gen_ai.request.model", "m1")) }
	named := func(o ...any) []any { return append(o, kv("gen_ai.agent.name", "helper")) }
	for _, c := range []struct {
		name    string // of the operation
		subject string // second word of the span's name
		attrs   []any
		kind    string
		target  string
		// below is the agent of the operation when a planner calls it.
		below string
		// alone is the agent of the request when nothing is around the span.
		alone string
		// steps, tools and operations are what the request that the span is alone in counts.
		steps, tools, operations uint32
	}{
		{name: "chat", subject: "m1", attrs: model(), kind: rows.KindChat, target: "m1", below: "planner", alone: "chat m1", steps: 1, operations: 1},
		{name: "generate_content", subject: "m1", attrs: model(), kind: rows.KindGenerate, target: "m1", below: "planner", alone: "generate_content m1", steps: 1, operations: 1},
		{name: "text_completion", subject: "m1", attrs: model(), kind: rows.KindCompletion, target: "m1", below: "planner", alone: "text_completion m1", steps: 1, operations: 1},
		{name: "embeddings", subject: "m1", attrs: model(), kind: rows.KindEmbeddings, target: "m1", below: "planner", alone: "embeddings m1", steps: 1, operations: 1},
		{name: "execute_tool", subject: "grep", attrs: []any{kv("gen_ai.tool.name", "grep"), kv("gen_ai.tool.call.id", "c1")}, kind: rows.KindTool, target: "grep", below: "planner", alone: "execute_tool grep", tools: 1, operations: 1},
		{name: "create_agent", subject: "helper", attrs: named(model()...), kind: rows.KindAgent, target: "helper", below: "planner", alone: "helper"},
		{name: "invoke_agent", subject: "helper", attrs: named(model()...), kind: rows.KindAgent, target: "helper", below: "planner", alone: "helper"},
		{name: "invoke_workflow", subject: "triage", attrs: []any{kv("gen_ai.workflow.name", "triage")}, kind: rows.KindWorkflow, target: "triage", below: "planner", alone: "triage"},
	} {
		t.Run(c.name, func(t *testing.T) {
			span := func(parent string) Span {
				return sp("02", parent, c.name+" "+c.subject, 1, 5, append(c.attrs, kv("gen_ai.operation.name", c.name), kv("gen_ai.provider.name", "openai"))...)
			}
			o := one(t, analyze(t, agent("01", "", "planner", 0, 9), span("01")))
			if o.OperationID != "02" || o.Kind != c.kind || o.Target != c.target || o.Agent != c.below || o.Dialect != "otel" || o.Provider != "openai" {
				t.Errorf("below a planner: operation %s of kind %s, target %q, agent %q, dialect %q, provider %q; want 02, %s, %q, %q, otel, openai",
					o.OperationID, o.Kind, o.Target, o.Agent, o.Dialect, o.Provider, c.kind, c.target, c.below)
			}

			res := analyze(t, span(""))
			r := theRequest(t, res)
			if r.Kind != c.kind || r.Agent != c.alone {
				t.Errorf("alone: request of kind %s, agent %q; want %s, %q", r.Kind, r.Agent, c.kind, c.alone)
			}
			if r.Steps != c.steps || r.ToolCalls != c.tools || r.Operations != c.operations || len(res.Operations) != int(c.operations) {
				t.Errorf("alone: %d steps, %d tool calls, %d operations, %d operation rows; want %d, %d, %d",
					r.Steps, r.ToolCalls, r.Operations, len(res.Operations), c.steps, c.tools, c.operations)
			}
			for _, o := range res.Operations {
				if o.Kind != c.kind || o.Target != c.target || o.Agent != c.alone {
					t.Errorf("alone: operation of kind %s, target %q, agent %q; want %s, %q, %q", o.Kind, o.Target, o.Agent, c.kind, c.target, c.alone)
				}
			}
		})
	}
}
