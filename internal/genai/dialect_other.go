package genai

import (
	"strings"

	"driftline/internal/rows"
)

// otherKeys are the keys of Claude Code, Langfuse, LiteLLM, Pydantic AI, ADK, Spring AI,
// LangChain4j and a few programs that read the same facts in their own words.
var otherKeys = map[string]field{
	"ttft_ms":                         {slotTTFT, 9, ms},
	"model":                           {slotModel, 20, 0},
	"tool_name":                       {slotTool, 20, 0},
	"tool_use_id":                     {slotToolCall, 20, 0},
	"success":                         {slotSuccess, 0, 0},
	"input_tokens":                    {slotInputTokens, 20, 0},
	"output_tokens":                   {slotOutputTokens, 20, 0},
	"cache_read_tokens":               {slotCachedTokens, 20, 0},
	"agent_name":                      {slotAgent, 20, 0},
	"workflow.name":                   {slotWorkflow, 20, 0},
	"langfuse.observation.type":       {slotLFType, 0, 0},
	"langfuse.observation.model.name": {slotModel, 21, 0},
	"langfuse.observation.completion_start_time": {slotTTFTInstant, 0, 0},
	"langfuse.observation.level":                 {slotLevel, 0, 0},
	"langfuse.observation.usage_details":         {slotUsageJSON, 0, 0},
	"litellm.request.streaming":                  {slotStream, 4, 0},
	"spring.ai.tool.call.id":                     {slotToolCall, 21, 0},
	"spring.ai.tool.definition.name":             {slotTool, 21, 0},
}

// classifyOther knows spans by name where attributes mislead or are missing.
func classifyOther(s *Span, f *facts) (verdict, bool) {
	if s.Kind == KindClient && (f.has(slotResend) || f.has(slotRetryCount) || f.has(slotHTTPMethod)) && !f.has(slotOperation) && !f.has(slotOIKind) && !f.has(slotLLMType) {
		return verdict{classHTTPClient, rows.KindHTTP}, true
	}
	name := s.Name
	switch {
	case strings.HasPrefix(name, "claude_code."):
		f.seen |= seenClaudeCode
		switch name {
		case "claude_code.llm_request":
			return verdict{classModel, rows.KindChat}, true
		case "claude_code.interaction":
			return verdict{classAgent, rows.KindAgent}, true
		case "claude_code.tool":
			return verdict{classTool, rows.KindTool}, true
		case "claude_code.tool.execution":
			return verdict{classTool, rows.KindTool}, true
		}
		return verdict{}, true
	case name == "raw_gen_ai_request", name == "litellm_request":
		f.seen |= seenLiteLLM
		return verdict{classModel, rows.KindChat}, true
	case name == "execute_tool (merged)", name == "orchestrate_tools":
		return verdict{}, true // repeats or groups tools that have spans of their own
	case name == "call_llm" && f.seen&(seenADK|seenOTel) != 0:
		f.seen |= seenADK
		return verdict{classModel, rows.KindGenerate}, true
	case f.str(slotProvider) == "strands-agents":
		f.seen |= seenStrands
	}
	if f.has(slotOperation) || f.has(slotOIKind) {
		return verdict{}, false
	}
	switch f.str(slotLFType) {
	case "generation":
		return verdict{classModel, rows.KindChat}, true
	case "embedding":
		return verdict{classModel, rows.KindEmbeddings}, true
	case "tool":
		return verdict{classTool, rows.KindTool}, true
	case "retriever":
		return verdict{classRetrieval, rows.KindRetrieval}, true
	case "agent":
		return verdict{classAgent, rows.KindAgent}, true
	}
	if f.seen&seenPydantic != 0 {
		switch {
		case name == "agent run":
			return verdict{classAgent, rows.KindAgent}, true
		case strings.HasPrefix(name, "running tool"), name == "running output function":
			if f.has(slotTool) {
				return verdict{classTool, rows.KindTool}, true
			}
		}
	}
	if name == "llm_request" {
		return verdict{classModel, rows.KindChat}, true
	}
	return verdict{}, false
}
