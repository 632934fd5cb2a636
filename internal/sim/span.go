package sim

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// The instrumentation scopes of a process, in the order an export groups them, so
// that children stand before parents within one batch too.
const (
	scopeHTTP = iota
	scopeModel
	scopeAgent
	scopeServer
	scopeCount
)

var scopeNames = [scopeCount]string{
	scopeHTTP:   "opentelemetry.instrumentation.httpx",
	scopeModel:  "opentelemetry.instrumentation.openai_v2",
	scopeAgent:  "agentloop",
	scopeServer: "opentelemetry.instrumentation.fastapi",
}

type attrKind uint8

const (
	attrString attrKind = iota
	attrInt
	attrDouble
	attrBool
	attrStrings // one string, sent as an array of one
)

type attr struct {
	key  string
	str  string
	num  int64 // also the bool
	dbl  float64
	kind attrKind
}

func (a *attr) put(v pcommon.Value) {
	switch a.kind {
	case attrString:
		v.SetStr(a.str)
	case attrInt:
		v.SetInt(a.num)
	case attrDouble:
		v.SetDouble(a.dbl)
	case attrBool:
		v.SetBool(a.num != 0)
	case attrStrings:
		v.SetEmptySlice().AppendEmpty().SetStr(a.str)
	}
}

// span is a span that has not been exported yet.
type span struct {
	trace      pcommon.TraceID
	id, parent pcommon.SpanID
	name       string
	attrs      []attr
	// event is the one event a span can carry, at its start.
	event      string
	eventAttrs []attr
	start, end int64
	seq        uint64 // order of creation: children before parents
	kind       ptrace.SpanKind
	scope      uint8
	failed     bool
}

func putAttrs(to pcommon.Map, attrs []attr) {
	to.EnsureCapacity(len(attrs))
	for i := range attrs {
		attrs[i].put(to.PutEmpty(attrs[i].key))
	}
}

// writeTo fills an empty pdata span.
func (s *span) writeTo(to ptrace.Span) {
	to.SetTraceID(s.trace)
	to.SetSpanID(s.id)
	to.SetParentSpanID(s.parent)
	to.SetName(s.name)
	to.SetKind(s.kind)
	to.SetStartTimestamp(pcommon.Timestamp(s.start))
	to.SetEndTimestamp(pcommon.Timestamp(s.end))
	if s.failed {
		to.Status().SetCode(ptrace.StatusCodeError)
	}
	putAttrs(to.Attributes(), s.attrs)
	if s.event != "" {
		e := to.Events().AppendEmpty()
		e.SetName(s.event)
		e.SetTimestamp(pcommon.Timestamp(s.start))
		putAttrs(e.Attributes(), s.eventAttrs)
	}
}

// spanHeap orders spans by end, then by creation.
type spanHeap []*span

func (h spanHeap) Len() int { return len(h) }
func (h spanHeap) Less(i, j int) bool {
	if h[i].end != h[j].end {
		return h[i].end < h[j].end
	}
	return h[i].seq < h[j].seq
}
func (h spanHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *spanHeap) Push(x any)   { *h = append(*h, x.(*span)) }
func (h *spanHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
