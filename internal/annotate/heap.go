package annotate

import (
	"math/bits"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Sizes of pdata's structs on the heap of a 64-bit machine.
const (
	spanBytes      = 208 + 8 // with its place in the list
	eventBytes     = 64 + 8
	linkBytes      = 80 + 8
	keyValueBytes  = 40
	textBytes      = 16 // what holds a text value, a list or a map
	numberBytes    = 8
	arrayBytes     = 24
	valueBytes     = 16
	resourceBytes  = 48
	scopeBytes     = 96
	containerBytes = 96 // a group of spans and its place
)

// HeapSize is about how many bytes of heap the span takes, as it was decoded from OTLP.
func HeapSize(span ptrace.Span) int {
	n := spanBytes + text(len(span.TraceState().AsRaw())) + text(len(span.Name())) + text(len(span.Status().Message())) + attrsHeap(span.Attributes())
	if events := span.Events(); events.Len() > 0 {
		for _, e := range events.All() {
			n += eventBytes + text(len(e.Name())) + attrsHeap(e.Attributes())
		}
	}
	if links := span.Links(); links.Len() > 0 {
		for _, l := range links.All() {
			n += linkBytes + text(len(l.TraceState().AsRaw())) + attrsHeap(l.Attributes())
		}
	}
	return n
}

// ResourceHeapSize and ScopeHeapSize are about how many bytes of heap a group of spans
// takes besides them.
func ResourceHeapSize(r ptrace.ResourceSpans) int {
	return resourceBytes + containerBytes + text(len(r.SchemaUrl())) + attrsHeap(r.Resource().Attributes())
}

// ScopeHeapSize: see ResourceHeapSize.
func ScopeHeapSize(s ptrace.ScopeSpans) int {
	scope := s.Scope()
	return scopeBytes + containerBytes + text(len(s.SchemaUrl())) + text(len(scope.Name())) + text(len(scope.Version())) + attrsHeap(scope.Attributes())
}

func attrsHeap(m pcommon.Map) int {
	if m.Len() == 0 {
		return 0
	}
	n := keyValueBytes * grown(m.Len())
	for key, v := range m.All() {
		n += text(len(key)) + valueHeap(v)
	}
	return n
}

func valueHeap(v pcommon.Value) int {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return textBytes + text(len(v.Str()))
	case pcommon.ValueTypeInt, pcommon.ValueTypeDouble:
		return numberBytes
	case pcommon.ValueTypeBool:
		return 1
	case pcommon.ValueTypeBytes:
		return textBytes + 8 + text(v.Bytes().Len())
	case pcommon.ValueTypeMap:
		return textBytes + arrayBytes + attrsHeap(v.Map())
	case pcommon.ValueTypeSlice:
		s := v.Slice()
		n := textBytes + arrayBytes + valueBytes*grown(s.Len())
		for _, item := range s.All() {
			n += valueHeap(item)
		}
		return n
	}
	return 0
}

// grown is the room of a list of n that was appended to one by one.
func grown(n int) int {
	if n <= 1 {
		return n
	}
	if n > 256 {
		return n + n/4
	}
	return 1 << bits.Len(uint(n-1))
}

// text is what the allocator takes for n bytes.
func text(n int) int {
	switch {
	case n < 16:
		return n // small ones share a block
	case n <= 32:
		return (n + 7) &^ 7
	case n <= 256:
		return (n + 15) &^ 15
	case n <= 512:
		return (n + 31) &^ 31
	case n <= 32<<10:
		step := 1 << (bits.Len(uint(n-1)) - 4)
		return (n + step - 1) &^ (step - 1)
	}
	return (n + 8191) &^ 8191
}
