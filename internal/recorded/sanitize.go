package recorded

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// The allow-lists. Whatever is not on them never gets into a fixture: content can hide in any attribute, and
// instrumentations put it into new ones, so naming the bad ones would not do.
var (
	allowedResource = set(
		"service.name", "service.version", "telemetry.sdk.language", "telemetry.sdk.name", "telemetry.sdk.version",
	)
	allowedSpan = set(
		"gen_ai.operation.name", "gen_ai.system", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model",
		"gen_ai.response.id", "gen_ai.response.finish_reasons", "gen_ai.request.encoding_formats", "gen_ai.request.stream",
		"gen_ai.response.time_to_first_chunk", "gen_ai.embeddings.dimension.count", "gen_ai.is_streaming", "gen_ai.openai.api_base",
		"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.total_tokens", "gen_ai.usage.reasoning_tokens",
		"gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens", "gen_ai.usage.prompt_tokens",
		"gen_ai.usage.completion_tokens", "llm.usage.total_tokens", "llm.is_streaming", "llm.request.type",
		"gen_ai.agent.name", "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id",
		"gen_ai.client.operation.duration", "gen_ai.client.operation.time_to_first_chunk", "gen_ai.client.operation.time_per_output_chunk",
		"gen_ai.execute_tool.duration", "gen_ai.agent.call.id", "gen_ai.conversation.id", "gen_ai.tool.call.arguments.size",
		"gen_ai.aggregated_usage.input_tokens", "gen_ai.aggregated_usage.output_tokens", "logfire.span_type", "agent_name", "model_name",
		"gen_ai.workflow.name", "traceloop.span.kind", "traceloop.entity.name", "traceloop.entity.path", "traceloop.workflow.name",
		"ai.model.id", "ai.model.provider", "ai.operationId", "ai.response.finishReason", "ai.response.id", "ai.response.model",
		"ai.response.msToFinish", "ai.response.msToFirstChunk", "ai.stream.msToFirstChunk", "ai.response.avgOutputTokensPerSecond",
		"ai.settings.maxRetries", "ai.telemetry.functionId", "ai.toolCall.id", "ai.toolCall.name", "ai.usage.inputTokens", "ai.usage.outputTokens",
		"ai.usage.totalTokens", "ai.usage.tokens", "ai.usage.cachedInputTokens", "ai.usage.reasoningTokens", "operation.name", "resource.name",
		"tool.name", "tool.id", "llm.request.model_name", "llm.response.model_name", "llm.token_count.prompt_details.cache_read",
		"openinference.span.kind", "llm.model_name", "llm.system", "llm.provider", "llm.finish_reason", "embedding.model_name",
		"llm.token_count.prompt", "llm.token_count.completion", "llm.token_count.total",
		"error.type", "server.address", "server.port",
		"http.method", "http.url", "http.status_code", "http.request.method", "http.request.method_original",
		"http.request.resend_count", "http.response.status_code", "url.full", "url.path", "url.query", "url.scheme",
		"network.peer.address", "network.peer.port", "network.protocol.version", "user_agent.original",
		"http.request.header.x-stainless-retry-count", "http.request.header.x_stainless_retry_count",
		"http.response.header.retry-after", "http.response.header.retry_after",
	)
	allowedEvent = set("exception.type", "exception.escaped", "ai.response.msToFirstChunk", "ai.stream.msToFirstChunk")

	// safeText is what an allowed string may look like; a sentence, a document or a file path does not.
	safeText = regexp.MustCompile(`^[\w .:/@+-]{0,128}$`)
	filePath = regexp.MustCompile(`(^|\s)/(root|home|tmp|usr|var|opt|work|Users|private)\b|\.py\b|\.js\b|node_modules`)
)

func set(keys ...string) map[string]bool {
	m := make(map[string]bool, len(keys))
	for _, k := range keys {
		m[k] = true
	}
	return m
}

// Sanitize removes from traces everything that a fixture may not hold: attributes outside the allow-lists, values
// that do not look like identifiers, status messages (they quote answers), scope attributes. It returns the
// keys removed, sorted, each once. Ids, names, times, kinds, status codes, links' ids and events stay.
func Sanitize(traces ptrace.Traces) []string {
	removed := map[string]bool{}
	keep := func(allowed map[string]bool, attrs pcommon.Map) {
		attrs.RemoveIf(func(k string, v pcommon.Value) bool {
			bad := !allowed[k] || !safeValue(v)
			removed[k] = removed[k] || bad
			return bad
		})
	}
	visit(traces, keep, func(span ptrace.Span) {
		if span.Status().Message() != "" {
			span.Status().SetMessage("")
			removed["status.message"] = true
		}
		if !safeString(span.Name()) {
			span.SetName("redacted")
			removed["span.name"] = true
		}
		for i := range span.Events().Len() {
			if event := span.Events().At(i); !safeString(event.Name()) {
				event.SetName("redacted")
				removed["event.name"] = true
			}
		}
	})
	var keys []string
	for k, bad := range removed {
		if bad {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// Violations names everything in traces that Sanitize would have removed; none in a good fixture.
func Violations(traces ptrace.Traces) []string {
	var found []string
	check := func(allowed map[string]bool, attrs pcommon.Map) {
		for k, v := range attrs.All() {
			if !allowed[k] {
				found = append(found, fmt.Sprintf("attribute %s is not on the allow-list", k))
			} else if !safeValue(v) {
				found = append(found, fmt.Sprintf("attribute %s has a value that does not look like an identifier", k))
			}
		}
	}
	visit(traces, check, func(span ptrace.Span) {
		if span.Status().Message() != "" {
			found = append(found, fmt.Sprintf("span %q has a status message", span.Name()))
		}
		if !safeString(span.Name()) {
			found = append(found, "a span's name does not look like an identifier")
		}
		for i := range span.Events().Len() {
			if !safeString(span.Events().At(i).Name()) {
				found = append(found, "an event's name does not look like an identifier")
			}
		}
	})
	slices.Sort(found)
	return slices.Compact(found)
}

// visit calls attrs for each attribute map with its allow-list, and span for each span.
func visit(traces ptrace.Traces, attrs func(map[string]bool, pcommon.Map), span func(ptrace.Span)) {
	for i := range traces.ResourceSpans().Len() {
		rs := traces.ResourceSpans().At(i)
		attrs(allowedResource, rs.Resource().Attributes())
		for j := range rs.ScopeSpans().Len() {
			ss := rs.ScopeSpans().At(j)
			attrs(nil, ss.Scope().Attributes())
			for k := range ss.Spans().Len() {
				s := ss.Spans().At(k)
				attrs(allowedSpan, s.Attributes())
				for e := range s.Events().Len() {
					attrs(allowedEvent, s.Events().At(e).Attributes())
				}
				for l := range s.Links().Len() {
					attrs(nil, s.Links().At(l).Attributes())
				}
				span(s)
			}
		}
	}
}

func safeValue(v pcommon.Value) bool {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return safeString(v.Str())
	case pcommon.ValueTypeInt, pcommon.ValueTypeDouble, pcommon.ValueTypeBool:
		return true
	case pcommon.ValueTypeSlice:
		for i := range v.Slice().Len() {
			item := v.Slice().At(i)
			if item.Type() == pcommon.ValueTypeSlice || !safeValue(item) {
				return false
			}
		}
		return v.Slice().Len() <= 16
	default:
		return false
	}
}

func safeString(s string) bool {
	return safeText.MatchString(s) && !filePath.MatchString(s) && strings.Count(s, " ") <= 4
}
