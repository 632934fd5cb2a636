package genai

import "strings"

// SpanKind is the OpenTelemetry span kind.
type SpanKind uint8

// The OpenTelemetry span kinds, numbered as in OTLP.
const (
	KindUnspecified SpanKind = iota
	KindInternal
	KindServer
	KindClient
	KindProducer
	KindConsumer
)

// Status is the OpenTelemetry span status code, numbered as in OTLP.
type Status uint8

// The OpenTelemetry status codes.
const (
	StatusUnset Status = iota
	StatusOK
	StatusError
)

// Resource is what driftline keeps of the resource that emitted a span. Spans of one
// batch share one Resource.
type Resource struct {
	ServiceName    string
	ServiceVersion string
	// Environment is `deployment.environment.name` (or the older `deployment.environment`).
	Environment string
	// HostID tells clocks apart: host.id, host.name, k8s.pod.uid or service.instance.id.
	HostID string
}

// Attr is one attribute that driftline understands. See Wanted for which are kept.
type Attr struct {
	Key   string
	Value Value
}

// Event is one span event, with the attributes that driftline understands.
type Event struct {
	Name  string
	Time  int64 // Unix nanoseconds
	Attrs []Attr
}

// Span is a span as the domain sees it: ids, times and the attributes driftline
// understands. It never holds prompts or completions.
type Span struct {
	TraceID  string // 32 lower-case hex digits
	SpanID   string // 16 lower-case hex digits
	ParentID string // empty for a root
	// LinkedTraces are the ids of traces this span links to.
	LinkedTraces []string
	TraceState   string
	Name         string
	Scope        string
	Kind         SpanKind
	Status       Status
	Start        int64 // Unix nanoseconds
	End          int64 // Unix nanoseconds
	Resource     *Resource
	Attrs        []Attr
	Events       []Event
	// EventsDropped says that the span had more events than its SDK keeps (128 unless told
	// otherwise). Most SDKs drop the oldest.
	EventsDropped bool
}

// OldestInstant is the start of 2000 in Unix nanoseconds. An earlier start is a unit
// mistaken or a clock never set; an open request is not as old as that.
const OldestInstant int64 = 946_684_800_000_000_000

// SpanName is what may be kept of a span's name: some HTTP instrumentations leave the
// query of a URL in it, which can hold what people wrote.
func SpanName(name string) string {
	if path, query, found := strings.Cut(name, "?"); found && (strings.Contains(query, "=") || strings.Contains(path, "/")) {
		return path
	}
	return name
}

// Size is about the memory the span holds, in bytes; the buffer's byte bound is
// enforced on it.
func (s *Span) Size() int {
	const fixed = 320 // struct, ids, slice headers and map entry
	n := fixed + len(s.Name) + len(s.TraceState) + 48*len(s.LinkedTraces)
	n += attrsSize(s.Attrs)
	for i := range s.Events {
		n += 64 + len(s.Events[i].Name) + attrsSize(s.Events[i].Attrs)
	}
	return n
}

func attrsSize(attrs []Attr) int {
	n := 0
	for i := range attrs {
		n += 72 + len(attrs[i].Value.Str)
		for _, s := range attrs[i].Value.List {
			n += 16 + len(s)
		}
	}
	return n
}
