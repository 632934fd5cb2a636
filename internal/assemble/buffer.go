package assemble

import (
	"container/heap"
	"iter"
	"math"
	"slices"
	"time"

	"driftline/internal/genai"
	"driftline/internal/rows"
)

// Viewer makes the domain's spans of payloads, when their trace is released. What View
// returns may share memory with its payload, and is not used after the next Reset.
type Viewer[P any] interface {
	// Reset begins a release.
	Reset()
	View(payload P) genai.Span
}

// Arrival is one span that came, with what must be known of it before its trace is
// released.
type Arrival[P any] struct {
	TraceID [16]byte
	// Start is the span's own, in Unix nanoseconds.
	Start int64
	// Root says that the span has no parent, GenAI that it makes its trace worth
	// analysing (genai.IsGenAI).
	Root, GenAI bool
	// Call says that the span is an HTTP or RPC call, which may turn out to be a try of a
	// model call whose own span comes later.
	Call bool
	// ModelCall says that the call goes to an endpoint of a model (genai.CallsModel): if no span
	// of it ever comes, what is left of the trace is worth analysing in the end.
	ModelCall bool
	// Size is about the memory that Payload takes, in bytes.
	Size    int
	Payload P
}

// Buffer holds traces until they are due. P is what the caller wants back when a
// span is sent, usually the original span.
type Buffer[P any] struct {
	set    Settings
	view   Viewer[P]
	traces map[[16]byte]*entry[P]
	queue  dueQueue[P]
	// open, remembered and plain list traces from the oldest to the newest; plain are
	// released traces without GenAI spans.
	open, remembered, plain chain[P]
	heavy                   []*entry[P] // candidates for an eviction, the heaviest last
	forgotten               *forgotten
	labels                  *labels
	agents                  *agents
	digest                  digest
	keys                    keyNames
	work                    scratch[P]
	nextSeq                 uint64
	stats                   Stats
}

// New makes an empty buffer.
func New[P any](set Settings, view Viewer[P]) *Buffer[P] {
	return &Buffer[P]{
		set: set, view: view,
		traces:    map[[16]byte]*entry[P]{},
		forgotten: newForgotten(set.MaxForgotten),
		labels:    newLabels(set.MaxLabelValues),
		agents:    newAgents(workPerLabel * set.MaxLabelValues),
		keys:      newKeyNames(),
		stats:     newStats(),
	}
}

// Add takes one span that arrived at now and returns what must be released at once
// because a bound was reached. A time slightly before that of an earlier call does no
// harm: what was due stays due.
func (b *Buffer[P]) Add(a Arrival[P], now time.Time) []Release[P] {
	at := now.UnixNano()
	e := b.traces[a.TraceID]
	if e == nil {
		e = b.begin(a.TraceID, at)
	}
	b.count(e, at)
	if len(e.held) == 0 {
		e.lateAt = at // matters only for released traces and fragments
		if !e.wantsCheckpoint(b.set.CheckpointSpans) {
			e.nextCheckpoint = after(at, b.set.CheckpointInterval)
		}
	}
	e.last = at
	if e.released && e.in.last != e {
		c := e.in
		e.remove()
		c.push(e)
	}
	if a.Root && e.rootAt == 0 {
		e.rootAt = at
	}
	e.genai = e.genai || a.GenAI
	e.asked = e.asked || a.ModelCall
	if a.Start >= genai.OldestInstant {
		e.began = min(e.began, a.Start)
	}
	if e.held == nil {
		e.held = make([]held[P], 0, firstHeld)
	}
	e.held = append(e.held, held[P]{payload: a.Payload, size: int64(a.Size), at: at, call: a.Call})
	b.weigh(e, int64(a.Size)+bytesPerHeld)
	b.stats.Spans++
	b.schedule(e)
	return b.enforce(now)
}

// firstHeld is the room for held spans that a trace begins with.
const firstHeld = 4

func (b *Buffer[P]) begin(traceID [16]byte, at int64) *entry[P] {
	e := &entry[P]{id: traceID, seq: b.nextSeq, fragment: b.forgotten.has(traceID), last: at, lateAt: at, due: never, began: never}
	b.nextSeq++
	b.traces[traceID] = e
	b.open.push(e)
	heap.Push(&b.queue, e)
	b.weigh(e, bytesPerTrace)
	return e
}

// weigh adds n bytes to what e takes.
func (b *Buffer[P]) weigh(e *entry[P], n int64) {
	e.bytes += n
	b.stats.Bytes += n
}

func (b *Buffer[P]) count(e *entry[P], at int64) {
	b.stats.Received++
	b.stats.Held++
	switch {
	case e.fragment:
		b.stats.LateFragments++
	case e.released:
		b.stats.Late++
		if b.set.OnLate != nil {
			b.set.OnLate(time.Duration(at - e.releasedAt))
		}
	}
}

func (b *Buffer[P]) schedule(e *entry[P]) {
	if due := e.nextDue(&b.set); due != e.due {
		e.due = due
		heap.Fix(&b.queue, e.queueIndex)
	}
}

// Tick returns what is due at now.
func (b *Buffer[P]) Tick(now time.Time) []Release[P] {
	out, _ := b.TickSome(now, math.MaxInt)
	return out
}

// TickSome returns what is due at now, of at most so many traces, and whether more may
// be due.
func (b *Buffer[P]) TickSome(now time.Time, traces int) (out []Release[P], more bool) {
	at := now.UnixNano()
	for len(b.queue) > 0 && b.queue[0].due <= at {
		if traces--; traces < 0 {
			return out, true
		}
		if r, ok := b.attend(b.queue[0], now); ok {
			out = append(out, r)
		}
	}
	// What was released is remembered, and that has its own bound.
	return append(out, b.enforce(now)...), false
}

// attend does what is due for e, which changes e's due time or removes it.
func (b *Buffer[P]) attend(e *entry[P], now time.Time) (Release[P], bool) {
	at := now.UnixNano()
	if e.released {
		if len(e.held) == 0 {
			b.forget(e)
			return Release[P]{}, false
		}
		return b.complete(e, rows.ReleaseLate, now), true
	}
	switch {
	case e.fragment:
		return b.complete(e, rows.ReleaseLate, now), true
	case e.rootAt != 0:
		return b.complete(e, rows.ReleaseRoot, now), true
	case after(e.last, b.set.TraceTimeout) <= at:
		return b.complete(e, rows.ReleaseTimeout, now), true
	}
	back := b.holdBack(e, at)
	r := b.release(e, ReleaseCheckpoint, false, now)
	e.held = back
	e.nextCheckpoint = after(at, b.set.CheckpointInterval)
	b.schedule(e)
	return r, len(r.Spans) > 0 || len(r.Loose) > 0
}

// holdBack takes calls that came less than AttemptWait ago out of what a checkpoint sends
// of a trace without GenAI spans. Once sent they could not be marked any more, and a
// call's tries end before the call.
func (b *Buffer[P]) holdBack(e *entry[P], at int64) []held[P] {
	if e.genai {
		return nil
	}
	isBack := func(h *held[P]) bool { return h.call && after(h.at, b.set.AttemptWait) > at }
	var back []held[P]
	for i := range e.held {
		if isBack(&e.held[i]) {
			back = append(back, e.held[i])
		}
	}
	if back != nil {
		e.held = slices.DeleteFunc(e.held, func(h held[P]) bool { return isBack(&h) })
	}
	return back
}

// complete releases e for good: what comes later is late.
func (b *Buffer[P]) complete(e *entry[P], reason string, now time.Time) Release[P] {
	b.dropBeats(e)
	r := b.release(e, reason, true, now)
	if !e.released {
		e.released = true
		e.releasedAt = now.UnixNano()
	}
	e.remove()
	if e.genai || e.fragment {
		b.remembered.push(e)
	} else {
		b.plain.push(e)
	}
	b.schedule(e)
	return r
}

// forget removes a released trace. Its id stays known as forgotten when rows of it
// were sent, so that later spans cannot pass for a new trace.
func (b *Buffer[P]) forget(e *entry[P]) {
	if e.revision > 0 || e.fragment {
		b.forgotten.add(e.id)
	}
	e.remove()
	heap.Remove(&b.queue, e.queueIndex)
	delete(b.traces, e.id)
	b.stats.Spans -= int64(e.load())
	b.stats.Bytes -= e.bytes
}

// Drain releases everything that is held, the oldest trace first, and empties the
// buffer. A caller that stops early finds what was left in Stats().Held.
func (b *Buffer[P]) Drain(now time.Time) iter.Seq[Release[P]] {
	return func(yield func(Release[P]) bool) {
		for _, c := range []*chain[P]{&b.remembered, &b.plain, &b.open} {
			for c.first != nil {
				e := c.first
				due := !e.released || len(e.held) > 0
				var r Release[P]
				if due {
					r = b.complete(e, rows.ReleaseShutdown, now)
				}
				b.forget(e)
				if due && !yield(r) {
					return
				}
			}
		}
	}
}

// Stats returns the counts so far. The maps are copies.
func (b *Buffer[P]) Stats() Stats {
	s := b.stats
	s.Open, s.Remembered, s.Traces = int64(b.open.len), int64(b.remembered.len+b.plain.len), int64(len(b.traces))
	s.OverflowLabels, s.LabelValues = b.labels.overflow, int64(b.labels.most())
	s.Overhead = b.forgotten.bytes() + b.labels.bytes() + b.agents.bytes()
	s.EvictedOpen = copyOf(s.EvictedOpen)
	s.EvictedRemembered = copyOf(s.EvictedRemembered)
	s.Releases = copyOf(s.Releases)
	s.Rows = copyOf(s.Rows)
	return s
}

func copyOf[K comparable](m map[K]int64) map[K]int64 {
	out := make(map[K]int64, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// Open is what a look at every open trace tells.
type Open struct {
	// Began is the earliest start of a request whose root has not come, in Unix
	// nanoseconds by its spans' clocks; Any is false when there is none.
	Began int64
	Any   bool
	// LargestTrace is the number of spans of the largest trace.
	LargestTrace int
}

// Open looks at every open trace.
func (b *Buffer[P]) Open() Open {
	o := Open{Began: never}
	for e := b.open.first; e != nil; e = e.next {
		o.LargestTrace = max(o.LargestTrace, e.load())
		if e.genai && e.rootAt == 0 && !e.fragment && e.began != never {
			o.Began, o.Any = min(o.Began, e.began), true
		}
	}
	return o
}
