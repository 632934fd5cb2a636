package assemble

import "time"

// never is later than any time that is asked for.
const never = int64(1<<63 - 1)

// entry is one trace in the buffer, open or remembered. Times are Unix nanoseconds.
type entry[P any] struct {
	id  [16]byte
	seq uint64

	// packed are the spans that were sent and are still understood, kept of them.
	packed []byte
	kept   int
	roots  int
	held   []held[P]
	// sent are the keys of rows that were sent, with a hash of their content.
	sent  []byte
	bytes int64

	last           int64 // arrival of the last span
	rootAt         int64 // arrival of the first root; 0 for none
	lateAt         int64 // arrival of the first late span that is still held
	releasedAt     int64
	nextCheckpoint int64
	began          int64 // the earliest start of its spans, by their own clock

	beats *beats // of spans that run; nil without any

	revision uint64
	skewed   int

	genai bool
	// asked says that a model was asked over HTTP.
	asked bool
	// partial says that rows of a call that is known by its requests only were made.
	partial   bool
	truncated bool
	released  bool
	// fragment says that the trace had been forgotten when its first span arrived.
	fragment bool

	due        int64
	queueIndex int

	in         *chain[P] // the list it is in, by age
	prev, next *entry[P]
}

// held is a span that has not been sent yet.
type held[P any] struct {
	payload P
	size    int64
	at      int64 // when it came
	call    bool
}

// load is what the trace counts against the bound on spans.
func (e *entry[P]) load() int { return e.kept + len(e.held) }

// wantsCheckpoint says whether a checkpoint would have anything to send.
func (e *entry[P]) wantsCheckpoint(snapshots bool) bool {
	return len(e.held) > 0 || (e.genai && snapshots)
}

// nextDue is when the trace needs attention.
func (e *entry[P]) nextDue(s *Settings) int64 {
	if e.released {
		if len(e.held) > 0 {
			return after(e.lateAt, s.Linger)
		}
		// A trace that timed out was silent for longer than it is remembered.
		return after(max(e.last, e.releasedAt), s.Remember)
	}
	switch {
	case e.fragment:
		return after(e.lateAt, s.Linger)
	case e.rootAt != 0:
		return after(e.rootAt, s.Linger)
	}
	due := after(e.last, s.TraceTimeout)
	if e.wantsCheckpoint(s.CheckpointSpans) {
		due = min(due, e.nextCheckpoint)
	}
	return due
}

func after(at int64, d time.Duration) int64 { return at + int64(d) }

// chain lists entries from the oldest to the newest.
type chain[P any] struct {
	first, last *entry[P]
	len         int
}

func (c *chain[P]) push(e *entry[P]) {
	e.in, e.prev, e.next = c, c.last, nil
	if c.last == nil {
		c.first = e
	} else {
		c.last.next = e
	}
	c.last = e
	c.len++
}

// remove takes e out of the chain it is in.
func (e *entry[P]) remove() {
	c := e.in
	if e.prev == nil {
		c.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		c.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.in, e.prev, e.next = nil, nil, nil
	c.len--
}
