package genai

import (
	"strings"

	"driftline/internal/rows"
)

// otelKeys are OpenTelemetry's GenAI and MCP conventions, old names and new.
var otelKeys = map[string]field{
	"gen_ai.operation.name":                       {slotOperation, 0, 0},
	"gen_ai.request.model":                        {slotModel, 0, 0},
	"gen_ai.response.model":                       {slotResponseModel, 0, 0},
	"gen_ai.provider.name":                        {slotProvider, 0, 0},
	"gen_ai.system":                               {slotProvider, 1, 0},
	"gen_ai.tool.name":                            {slotTool, 0, 0},
	"gen_ai.tool.call.id":                         {slotToolCall, 0, 0},
	"gen_ai.tool.status":                          {slotToolStatus, 0, 0},
	"gen_ai.agent.name":                           {slotAgent, 0, 0},
	"gen_ai.workflow.name":                        {slotWorkflow, 0, 0},
	"gen_ai.usage.input_tokens":                   {slotInputTokens, 0, 0},
	"gen_ai.usage.prompt_tokens":                  {slotInputTokens, 1, 0},
	"gen_ai.usage.output_tokens":                  {slotOutputTokens, 0, 0},
	"gen_ai.usage.completion_tokens":              {slotOutputTokens, 1, 0},
	"gen_ai.usage.cache_read.input_tokens":        {slotCachedTokens, 0, 0},
	"gen_ai.usage.cache_read_input_tokens":        {slotCachedTokens, 1, 0},
	"gen_ai.usage.reasoning.output_tokens":        {slotReasoningTokens, 0, 0},
	"gen_ai.usage.reasoning_tokens":               {slotReasoningTokens, 1, 0},
	"gen_ai.request.stream":                       {slotStream, 0, 0},
	"gen_ai.response.time_to_first_chunk":         {slotTTFT, 0, sec},
	"gen_ai.client.operation.time_to_first_chunk": {slotTTFT, 1, sec},
	"gen_ai.client.inference.time_to_first_chunk": {slotTTFT, 2, sec},
	"gen_ai.response.time_to_first_token":         {slotTTFT, 3, unitByType},
	"gen_ai.server.time_to_first_token":           {slotTTFT, 4, unitStrands},
	"gen_ai.latency.time_to_first_token":          {slotTTFT, 5, sec},
	"gen_ai.latency.time_in_queue":                {slotQueue, 1, sec},
	"gen_ai.response.finish_reasons":              {slotFinish, 0, 0},
	"mcp.method.name":                             {slotMCPMethod, 0, 0},
}

// classifyOTel reads gen_ai.operation.name with the values that other dialects add to
// it, and MCP's method name.
func classifyOTel(_ *Span, f *facts) (verdict, bool) {
	op := f.str(slotOperation)
	switch op {
	case "chat", "completion", "generate", "llm_request", "realtime", "response", "responses":
		return verdict{classModel, rows.KindChat}, true
	case "text_completion":
		return verdict{classModel, rows.KindCompletion}, true
	case "generate_content":
		return verdict{classModel, rows.KindGenerate}, true
	case "embeddings", "embedding":
		return verdict{classModel, rows.KindEmbeddings}, true
	case "execute_tool":
		return verdict{classTool, rows.KindTool}, true
	case "retrieval", "rerank", "vector_db_retrieve", "search_memory":
		return verdict{classRetrieval, rows.KindRetrieval}, true
	case "invoke_agent", "create_agent":
		return verdict{classAgent, rows.KindAgent}, true
	case "invoke_workflow", "invoke_swarm", "invoke_graph":
		return verdict{classAgent, rows.KindWorkflow}, true
	}
	if f.str(slotMCPMethod) == "tools/call" {
		return verdict{classTool, rows.KindTool}, true
	}
	// Any other operation (a step, a plan, a hand-off) is structure, not a call.
	return verdict{}, op != "" && !strings.HasPrefix(op, "litellm.") && !f.has(slotOIKind)
}
