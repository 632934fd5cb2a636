package genai

import (
	"strings"

	"driftline/internal/rows"
)

// openInferenceKeys are OpenInference's own keys.
var openInferenceKeys = map[string]field{
	"openinference.span.kind":                      {slotOIKind, 0, 0},
	"llm.model_name":                               {slotModel, 3, 0},
	"llm.request.model_name":                       {slotModel, 2, 0},
	"embedding.model_name":                         {slotModel, 4, 0},
	"reranker.model_name":                          {slotModel, 5, 0},
	"llm.response.model_name":                      {slotResponseModel, 2, 0},
	"llm.provider":                                 {slotProvider, 3, 0},
	"llm.system":                                   {slotProvider, 4, 0},
	"llm.token_count.prompt":                       {slotInputTokens, 3, 0},
	"llm.token_count.completion":                   {slotOutputTokens, 3, 0},
	"llm.token_count.prompt_details.cache_read":    {slotCachedTokens, 3, 0},
	"llm.token_count.completion_details.reasoning": {slotReasoningTokens, 3, 0},
	"time_to_first_token_ms":                       {slotTTFT, 8, ms},
	"tool.name":                                    {slotTool, 2, 0},
	"tool.id":                                      {slotToolCall, 3, 0},
	"tool_call.id":                                 {slotToolCall, 4, 0},
	"tool.run_attempts":                            {slotAttempt, 6, 0},
	"agent.name":                                   {slotAgent, 2, 0},
	"llm.finish_reason":                            {slotFinish, 3, 0},
}

func classifyOpenInference(_ *Span, f *facts) (verdict, bool) {
	switch strings.ToUpper(f.str(slotOIKind)) {
	case "LLM":
		return verdict{classModel, rows.KindChat}, true
	case "EMBEDDING":
		return verdict{classModel, rows.KindEmbeddings}, true
	case "TOOL":
		return verdict{classTool, rows.KindTool}, true
	case "RETRIEVER", "RERANKER":
		return verdict{classRetrieval, rows.KindRetrieval}, true
	case "AGENT":
		return verdict{classAgent, rows.KindAgent}, true
	case "":
		return verdict{}, false
	}
	// Chains, guardrails, evaluators and prompts are structure.
	return verdict{}, true
}
