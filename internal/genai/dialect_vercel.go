package genai

import (
	"strings"

	"driftline/internal/rows"
)

// vercelKeys are the Vercel AI SDK's ai.* keys. ai.settings.maxRetries is a limit, not
// a count, and its times are milliseconds.
var vercelKeys = map[string]field{
	"ai.operationId":             {slotVercelOp, 0, 0},
	"ai.model.id":                {slotModel, 8, 0},
	"ai.model.provider":          {slotProvider, 8, 0},
	"ai.response.model":          {slotResponseModel, 8, 0},
	"ai.toolCall.name":           {slotTool, 8, 0},
	"ai.toolCall.id":             {slotToolCall, 8, 0},
	"ai.telemetry.functionId":    {slotAgent, 8, 0},
	"ai.usage.inputTokens":       {slotInputTokens, 8, 0},
	"ai.usage.promptTokens":      {slotInputTokens, 9, 0},
	"ai.usage.tokens":            {slotInputTokens, 10, 0},
	"ai.usage.outputTokens":      {slotOutputTokens, 8, 0},
	"ai.usage.completionTokens":  {slotOutputTokens, 9, 0},
	"ai.usage.cachedInputTokens": {slotCachedTokens, 8, 0},
	"ai.usage.reasoningTokens":   {slotReasoningTokens, 8, 0},
	"ai.response.msToFirstChunk": {slotTTFT, 10, ms},
	"ai.stream.msToFirstChunk":   {slotTTFT, 11, ms},
	"ai.response.finishReason":   {slotFinish, 8, 0},
	"ai.settings.maxRetries":     {slotMaxRetries, 2, 0},
}

func classifyVercel(s *Span, f *facts) (verdict, bool) {
	id := f.str(slotVercelOp)
	if id == "" && strings.HasPrefix(s.Name, "ai.") {
		id, _, _ = strings.Cut(s.Name, " ")
	}
	if !strings.HasPrefix(id, "ai.") {
		return verdict{}, false
	}
	f.seen |= seenVercel
	switch {
	case strings.HasSuffix(id, ".doStream"), strings.HasSuffix(id, ".doGenerate"):
		return verdict{classModel, rows.KindChat}, true
	case strings.HasSuffix(id, ".doEmbed"):
		return verdict{classModel, rows.KindEmbeddings}, true
	case id == "ai.toolCall":
		return verdict{classTool, rows.KindTool}, true
	case id == "ai.embed", id == "ai.embedMany":
		return verdict{classPlain, ""}, true
	case strings.HasPrefix(id, "ai.generate"), strings.HasPrefix(id, "ai.stream"):
		// The root of one task repeats its steps' usage: an agent, not a call.
		return verdict{classAgent, rows.KindAgent}, true
	}
	return verdict{}, true
}
