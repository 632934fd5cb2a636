package genai

import (
	"strings"

	"driftline/internal/rows"
)

// openLLMetryKeys are OpenLLMetry's own keys.
var openLLMetryKeys = map[string]field{
	"traceloop.span.kind":               {slotTLKind, 0, 0},
	"traceloop.workflow.name":           {slotWorkflow, 1, 0},
	"traceloop.entity.name":             {slotTool, 4, 0},
	"llm.request.type":                  {slotLLMType, 0, 0},
	"gen_ai.is_streaming":               {slotStream, 2, 0},
	"llm.is_streaming":                  {slotStream, 3, 0},
	"gen_ai.openai.api_base":            {slotServer, 4, 0},
	"llm.usage.cache_read_input_tokens": {slotCachedTokens, 5, 0},
}

func classifyOpenLLMetry(s *Span, f *facts) (verdict, bool) {
	switch f.str(slotLLMType) {
	case "chat", "completion", "acompletion", "aresponses", "responses":
		return verdict{classModel, rows.KindChat}, true
	case "embedding", "aembedding":
		return verdict{classModel, rows.KindEmbeddings}, true
	case "rerank":
		return verdict{classRetrieval, rows.KindRetrieval}, true
	}
	switch f.str(slotTLKind) {
	case "workflow":
		return verdict{classAgent, rows.KindWorkflow}, true
	case "agent":
		return verdict{classAgent, rows.KindAgent}, true
	case "tool":
		return verdict{classTool, rows.KindTool}, true
	case "":
		return verdict{}, false
	}
	if isHTTPMethod(s.Name) || strings.HasPrefix(s.Name, "HTTP ") {
		return verdict{}, false // the workflow's name rides on every span below it
	}
	return verdict{}, true
}
