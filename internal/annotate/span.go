package annotate

import (
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/genai"
)

// Bounds on what is kept of one span, so that one odd span cannot fill the buffer.
const (
	maxTextBytes   = 4096 // JSON in attributes must stay whole to be read
	maxNameBytes   = 256
	maxEvents      = 512 // the first chunk of a stream comes first
	maxListItems   = 64
	maxLinks       = 16
	maxTraceStates = 512
)

// ResourceOf keeps what the domain needs of a resource.
func ResourceOf(resource pcommon.Resource) *genai.Resource {
	attrs := resource.Attributes()
	return &genai.Resource{
		ServiceName:    firstText(attrs, "service.name"),
		ServiceVersion: firstText(attrs, "service.version"),
		Environment:    firstText(attrs, "deployment.environment.name", "deployment.environment"),
		HostID:         firstText(attrs, "host.id", "host.name", "k8s.pod.uid", "service.instance.id"),
	}
}

func firstText(attrs pcommon.Map, keys ...string) string {
	for _, key := range keys {
		if v, ok := attrs.Get(key); ok {
			if s := v.AsString(); s != "" {
				return cut(s, maxNameBytes)
			}
		}
	}
	return ""
}

// SpanOf makes the domain's span of an OTLP one. Only attributes for whose key
// wanted is true are kept, on the span and on its events, so prompts and
// completions never enter the buffer. The result shares no memory with span.
func SpanOf(span ptrace.Span, resource *genai.Resource, scope string, wanted func(key string) bool) genai.Span {
	traceID := span.TraceID().String()
	out := genai.Span{
		TraceID:      traceID,
		SpanID:       span.SpanID().String(),
		ParentID:     span.ParentSpanID().String(),
		LinkedTraces: linkedTraces(span.Links(), traceID),
		TraceState:   cut(span.TraceState().AsRaw(), maxTraceStates),
		Name:         cut(span.Name(), maxNameBytes),
		Scope:        scope,
		Kind:         kindOf(span.Kind()),
		Status:       statusOf(span.Status().Code()),
		Start:        int64(span.StartTimestamp()),
		End:          int64(span.EndTimestamp()),
		Resource:     resource,
		Attrs:        attrsOf(span.Attributes(), wanted),
	}
	if n := min(span.Events().Len(), maxEvents); n > 0 {
		out.Events = make([]genai.Event, n)
		for i := range n {
			e := span.Events().At(i)
			out.Events[i] = genai.Event{
				Name: cut(e.Name(), maxNameBytes), Time: int64(e.Timestamp()), Attrs: attrsOf(e.Attributes(), wanted),
			}
		}
	}
	return out
}

func kindOf(k ptrace.SpanKind) genai.SpanKind {
	if k < ptrace.SpanKindUnspecified || k > ptrace.SpanKindConsumer {
		return genai.KindUnspecified
	}
	return genai.SpanKind(k)
}

func statusOf(c ptrace.StatusCode) genai.Status {
	if c < ptrace.StatusCodeUnset || c > ptrace.StatusCodeError {
		return genai.StatusUnset
	}
	return genai.Status(c)
}

func linkedTraces(links ptrace.SpanLinkSlice, own string) []string {
	var out []string
	for i := range links.Len() {
		if len(out) == maxLinks {
			break
		}
		id := links.At(i).TraceID()
		if s := id.String(); !id.IsEmpty() && s != own && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func attrsOf(attrs pcommon.Map, wanted func(string) bool) []genai.Attr {
	var out []genai.Attr
	for key, v := range attrs.All() {
		if !wanted(key) {
			continue
		}
		if value, ok := valueOf(v); ok {
			out = append(out, genai.Attr{Key: strings.Clone(key), Value: value})
		}
	}
	return out
}

// valueOf keeps scalars and lists of scalars; maps and bytes state no fact that
// the domain reads.
func valueOf(v pcommon.Value) (genai.Value, bool) {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return genai.StringValue(cut(v.Str(), maxTextBytes)), true
	case pcommon.ValueTypeInt:
		return genai.IntValue(v.Int()), true
	case pcommon.ValueTypeDouble:
		return genai.DoubleValue(v.Double()), true
	case pcommon.ValueTypeBool:
		return genai.BoolValue(v.Bool()), true
	case pcommon.ValueTypeSlice:
		return listOf(v.Slice())
	}
	return genai.Value{}, false
}

func listOf(s pcommon.Slice) (genai.Value, bool) {
	list := make([]string, 0, min(s.Len(), maxListItems))
	for i := range min(s.Len(), maxListItems) {
		switch item := s.At(i); item.Type() {
		case pcommon.ValueTypeStr, pcommon.ValueTypeInt, pcommon.ValueTypeDouble, pcommon.ValueTypeBool:
			list = append(list, cut(item.AsString(), maxTextBytes))
		default:
			return genai.Value{}, false
		}
	}
	return genai.StringsValue(list...), true
}

// cut copies at most limit bytes of s and never ends inside a character. The copy
// matters: a substring would keep the whole received message alive.
func cut(s string, limit int) string {
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return strings.Clone(s)
}
