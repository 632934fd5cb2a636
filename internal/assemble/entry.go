package assemble

import (
	"container/list"
	"time"

	"driftline/internal/genai"
	"driftline/internal/rows"
)

// entry is one trace in the buffer, open or remembered.
type entry[P any] struct {
	id  string
	seq uint64

	spans []genai.Span
	seen  map[uint64]struct{}
	roots int
	held  []held[P]
	// unanalysed counts held spans that are not among spans: duplicates and those
	// over the limit.
	unanalysed int
	bytes      int64

	last           time.Time // arrival of the last span
	rootAt         time.Time // arrival of the first root
	lateAt         time.Time // arrival of the first late span that is still held
	releasedAt     time.Time
	nextCheckpoint time.Time

	genai     bool
	truncated bool
	released  bool
	// fragment says that the trace had been forgotten when its first span arrived.
	fragment bool

	revision uint64
	emitted  map[rows.Key]uint64
	skewed   int

	due        time.Time
	queueIndex int
	element    *list.Element // in open or remembered, by age
}

// held is a span that has not been sent yet.
type held[P any] struct {
	spanID  string
	start   int64
	size    int64
	payload P
}

// load is what the trace counts against the bound on spans.
func (e *entry[P]) load() int { return len(e.spans) + e.unanalysed }

// wantsCheckpoint says whether a checkpoint would have anything to send.
func (e *entry[P]) wantsCheckpoint(snapshots bool) bool {
	return len(e.held) > 0 || (e.genai && snapshots)
}

// nextDue is when the trace needs attention.
func (e *entry[P]) nextDue(s *Settings) time.Time {
	if e.released {
		if len(e.held) > 0 {
			return e.lateAt.Add(s.Linger)
		}
		return e.last.Add(s.Remember)
	}
	switch {
	case e.fragment:
		return e.lateAt.Add(s.Linger)
	case !e.rootAt.IsZero():
		return e.rootAt.Add(s.Linger)
	}
	due := e.last.Add(s.TraceTimeout)
	if e.wantsCheckpoint(s.CheckpointSpans) && e.nextCheckpoint.Before(due) {
		due = e.nextCheckpoint
	}
	return due
}
