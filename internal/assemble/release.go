package assemble

import "driftline/internal/rows"

// ReleaseCheckpoint is the reason of releases of traces that stay open. The other
// reasons are the rows.Release constants.
const ReleaseCheckpoint = "checkpoint"

// Reasons lists every release reason.
var Reasons = []string{
	ReleaseCheckpoint, rows.ReleaseRoot, rows.ReleaseTimeout, rows.ReleaseEvicted,
	rows.ReleaseShutdown, rows.ReleaseLate,
}

// Release is what is to be sent of one trace now.
type Release[P any] struct {
	TraceID string
	// Reason is one of Reasons.
	Reason string
	// GenAI says that the trace holds GenAI spans: its spans are to be marked.
	GenAI bool
	// Spans are sent in the order they arrived.
	Spans []Sent[P]
	// Loose are rows that no span of this release can carry.
	Loose []rows.Row
}

// Sent is one span to be sent with the rows that ride on it.
type Sent[P any] struct {
	Payload P
	Marks   Marks
	Rows    []rows.Row
}

// Marks is what a span itself is told; the zero value of each field means no mark.
type Marks struct {
	OperationID    string
	AttemptOrdinal uint32
	Attempts       *uint32
	// HiddenNS and DriftNS are in nanoseconds.
	HiddenNS, DriftNS *int64
}

// RowCount is the number of rows in the release.
func (r *Release[P]) RowCount() int {
	n := len(r.Loose)
	for i := range r.Spans {
		n += len(r.Spans[i].Rows)
	}
	return n
}
