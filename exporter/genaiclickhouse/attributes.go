package genaiclickhouse

import (
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"driftline/internal/annotate"
	"driftline/internal/genai/dialects"
)

// maxAttributeBytes bounds a stored attribute value.
const maxAttributeBytes = 256

// DefaultSpanAttributes lists the attribute keys that thin spans keep by default: what
// names the work, its size and its fate. The operation's id is not among them: it is the
// span's own or its parent's, the tables of operations and attempts hold it, and a third copy
// of a random number costs more bytes than all the others together.
func DefaultSpanAttributes() []string {
	return []string{
		"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.system",
		"gen_ai.request.model", "gen_ai.response.model", "gen_ai.response.finish_reasons",
		"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
		"gen_ai.agent.name", "gen_ai.tool.name",
		"error.type", "http.request.method", "http.response.status_code", "http.request.resend_count",
		"http.route", "server.address", "server.port",
		annotate.MarkAttemptOrdinal, annotate.MarkAttempts,
		annotate.MarkHiddenMS, annotate.MarkDriftMS,
	}
}

// Keys, and beginnings of keys, under which instrumentations write content.
var (
	contentKeys = map[string]bool{
		"gen_ai.prompt": true, "gen_ai.completion": true, "gen_ai.system_instructions": true,
		"gen_ai.tool.definitions": true, "gen_ai.tool.description": true, "gen_ai.retrieval.documents": true,
		"input.value": true, "output.value": true, "input": true, "output": true, "prompt": true, "completion": true,
		"traceloop.entity.input": true, "traceloop.entity.output": true,
		"llm.prompts": true, "llm.completions": true, "llm.request.messages": true, "exception.message": true,
		"exception.stacktrace": true, "url.query": true, "url.full": true, "db.query.text": true, "db.statement": true,
		"http.request.body": true, "http.response.body": true,
	}
	contentPrefixes = []string{
		"gen_ai.prompt.", "gen_ai.completion.", "gen_ai.input.", "gen_ai.output.messages", "gen_ai.tool.call.",
		"gen_ai.content", "llm.input_messages", "llm.output_messages", "llm.prompts.", "llm.completions.", "llm.prompt_template",
		"ai.prompt", "ai.response.text", "ai.response.object", "ai.response.toolCalls", "ai.toolCall.args", "ai.toolCall.result",
		"ai.result.text", "retrieval.documents", "embedding.embeddings", "http.request.header.", "http.response.header.",
	}
)

// holdsContent says whether an attribute key is one that instrumentations put prompts,
// completions, tool arguments, queries or credentials under.
func holdsContent(key string) bool {
	if contentKeys[key] || dialects.ListedAsContent(key) {
		return true
	}
	for _, prefix := range contentPrefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// allowList is the attribute keys of thin spans, sorted.
type allowList struct {
	keys  []string
	index map[string]int
}

func newAllowList(keys []string) allowList {
	out := allowList{keys: slices.Compact(slices.Sorted(slices.Values(keys))), index: make(map[string]int, len(keys))}
	for i, key := range out.keys {
		out.index[key] = i
	}
	return out
}

// sortedKeys lists a map's keys in their order.
func sortedKeys(m pcommon.Map) []string {
	keys := make([]string, 0, m.Len())
	for key := range m.All() {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// cut shortens s to maxAttributeBytes without splitting a character.
func cut(s string) string {
	if len(s) <= maxAttributeBytes {
		return s
	}
	end := maxAttributeBytes
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
