package assemble

// Bound names the limit for which a trace was evicted.
type Bound string

// The bounds.
const (
	BoundTraces Bound = "traces"
	BoundSpans  Bound = "spans"
	BoundBytes  Bound = "bytes"
	// BoundRemembered bounds released traces alone.
	BoundRemembered Bound = "remembered"
)

// Bounds lists them.
var Bounds = []Bound{BoundTraces, BoundSpans, BoundBytes, BoundRemembered}

// Stats counts since the buffer was made. Received = Sent + Held at all times.
type Stats struct {
	// Received and Sent count spans, duplicates included; Held is those not yet sent.
	Received, Sent, Held int64
	// Traces, Spans and Bytes are what the bounds limit: open and remembered traces.
	Traces, Spans, Bytes int64
	// Open counts the traces that have not been released, Remembered the others.
	Open, Remembered int64
	// Duplicates counts spans that were known already; they are sent, not analysed.
	Duplicates int64
	// Truncated counts spans over the limit of their trace.
	Truncated int64
	// Late counts spans of remembered traces, LateFragments those of forgotten ones.
	Late, LateFragments int64
	// Heartbeats counts those that told of a trace, IgnoredHeartbeats the others.
	Heartbeats, IgnoredHeartbeats int64
	// Skewed counts spans that lay outside their parents.
	Skewed int64
	// Overhead is the memory, in bytes, that is bounded by numbers alone: ids of forgotten
	// traces and label values.
	Overhead int64
	// LabelValues is the number of values of the label that has the most.
	LabelValues int64
	// OverflowLabels counts values replaced by "other".
	OverflowLabels int64
	// EvictedOpen counts traces released early, EvictedRemembered those that could no
	// longer be remembered, by bound.
	EvictedOpen, EvictedRemembered map[Bound]int64
	// Releases counts by reason, Rows by table, tombstones included.
	Releases, Rows map[string]int64
}

func newStats() Stats {
	return Stats{
		EvictedOpen: map[Bound]int64{}, EvictedRemembered: map[Bound]int64{},
		Releases: map[string]int64{}, Rows: map[string]int64{},
	}
}
