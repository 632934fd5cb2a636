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
				return strings.Clone(cut(s, maxNameBytes))
			}
		}
	}
	return ""
}

// Arena makes domain spans of OTLP ones, in room that it uses again. The zero value is
// ready. It is not safe for concurrent use.
type Arena struct {
	attrs  []genai.Attr
	events []genai.Event
	// The texts of the last ids, since a trace's spans name each other.
	trace     pcommon.TraceID
	traceText string
	ids       [idTexts]pcommon.SpanID
	texts     [idTexts]string
	next      int
}

const (
	idTexts = 16
	// keptRoom is how many attributes' room an Arena keeps.
	keptRoom = 1 << 14
)

// Reset makes all room free: spans made before must not be used any more.
func (a *Arena) Reset() {
	if cap(a.attrs) > keptRoom {
		a.attrs = nil
	}
	if cap(a.events) > keptRoom {
		a.events = nil
	}
	clear(a.attrs) // so that nothing stays alive for them
	clear(a.events)
	a.attrs, a.events = a.attrs[:0], a.events[:0]
}

// Span makes the domain's span of an OTLP one. Only attributes for whose key wanted is
// true are seen, on the span and on its events, so prompts and completions never are.
// The result shares memory with span and with the arena.
func (a *Arena) Span(span ptrace.Span, resource *genai.Resource, scope string, wanted func(key string) bool) genai.Span {
	traceID := a.traceID(span.TraceID())
	out := genai.Span{
		TraceID:    traceID,
		SpanID:     a.spanID(span.SpanID()),
		ParentID:   a.spanID(span.ParentSpanID()),
		TraceState: cut(span.TraceState().AsRaw(), maxTraceStates),
		Name:       cut(genai.SpanName(span.Name()), maxNameBytes),
		Scope:      scope,
		Kind:       kindOf(span.Kind()),
		Status:     statusOf(span.Status().Code()),
		Start:      int64(span.StartTimestamp()),
		End:        int64(span.EndTimestamp()),
		Resource:   resource,
		Attrs:      a.attrsOf(span.Attributes(), wanted),

		EventsDropped: span.DroppedEventsCount() > 0,
	}
	if links := span.Links(); links.Len() > 0 {
		out.LinkedTraces = linkedTraces(links, traceID)
	}
	if n := min(span.Events().Len(), maxEvents); n > 0 {
		at := len(a.events)
		for i := range n {
			e := span.Events().At(i)
			a.events = append(a.events, genai.Event{
				Name: cut(e.Name(), maxNameBytes), Time: int64(e.Timestamp()), Attrs: a.attrsOf(e.Attributes(), wanted),
			})
		}
		out.Events = a.events[at:len(a.events):len(a.events)]
	}
	return out
}

func (a *Arena) traceID(id pcommon.TraceID) string {
	if a.traceText == "" || a.trace != id {
		a.trace, a.traceText = id, id.String()
	}
	return a.traceText
}

func (a *Arena) spanID(id pcommon.SpanID) string {
	if id.IsEmpty() {
		return ""
	}
	for i := range a.ids {
		if a.ids[i] == id {
			return a.texts[i]
		}
	}
	i := a.next
	a.next = (i + 1) % idTexts
	a.ids[i], a.texts[i] = id, id.String()
	return a.texts[i]
}

// IsCall says whether span is an HTTP or RPC call, as the client sees it.
func IsCall(span ptrace.Span) bool {
	if span.Kind() != ptrace.SpanKindClient {
		return false
	}
	for key := range span.Attributes().All() {
		switch key {
		case "http.request.method", "http.method", "http.response.status_code", "http.status_code", "rpc.system", "rpc.system.name":
			return true
		}
	}
	return false
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

func (a *Arena) attrsOf(attrs pcommon.Map, wanted func(string) bool) []genai.Attr {
	at := len(a.attrs)
	for key, v := range attrs.All() {
		if !wanted(key) {
			continue
		}
		if value, ok := valueOf(v); ok {
			a.attrs = append(a.attrs, genai.Attr{Key: key, Value: value})
		}
	}
	if at == len(a.attrs) {
		return nil
	}
	return a.attrs[at:len(a.attrs):len(a.attrs)]
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

// cut gives at most limit bytes of s and never ends inside a character.
func cut(s string, limit int) string {
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "")
	}
	return s
}
