package assemble

import (
	"container/heap"
	"container/list"
	"iter"
	"time"

	"driftline/internal/genai"
	"driftline/internal/rows"
)

// Buffer holds traces until they are due. P is what the caller wants back when a
// span is sent, usually the original span.
type Buffer[P any] struct {
	set    Settings
	traces map[string]*entry[P]
	queue  dueQueue[P]
	// open and remembered list traces from the oldest to the newest.
	open, remembered *list.List
	forgotten        *forgotten
	labels           *labels
	agents           *agents
	digest           digest
	nextSeq          uint64
	stats            Stats
}

// New makes an empty buffer.
func New[P any](set Settings) *Buffer[P] {
	return &Buffer[P]{
		set:    set,
		traces: map[string]*entry[P]{},
		open:   list.New(), remembered: list.New(),
		forgotten: newForgotten(set.MaxForgotten),
		labels:    newLabels(set.MaxLabelValues),
		agents:    newAgents(workPerLabel * set.MaxLabelValues),
		stats:     newStats(),
	}
}

// Add takes one span that arrived at now, with its payload of about size bytes, and
// returns what must be released at once because a bound was reached. A time slightly
// before that of an earlier call does no harm: what was due stays due.
func (b *Buffer[P]) Add(span genai.Span, payload P, size int, now time.Time) []Release[P] {
	e := b.traces[span.TraceID]
	if e == nil {
		e = b.begin(span.TraceID, now)
	}
	b.count(e, now)
	if len(e.held) == 0 {
		e.lateAt = now // matters only for released traces and fragments
		if !e.wantsCheckpoint(b.set.CheckpointSpans) {
			e.nextCheckpoint = now.Add(b.set.CheckpointInterval)
		}
	}
	e.last = now
	if e.released {
		b.remembered.MoveToBack(e.element)
	}
	load, bytes := e.load(), e.bytes
	b.hold(e, &span, payload, size)
	b.keep(e, span, now)
	b.stats.Spans += int64(e.load() - load)
	b.stats.Bytes += e.bytes - bytes
	b.schedule(e)
	return b.enforce(now)
}

func (b *Buffer[P]) begin(traceID string, now time.Time) *entry[P] {
	e := &entry[P]{
		id: traceID, seq: b.nextSeq, seen: map[uint64]struct{}{}, emitted: map[rows.Key]uint64{},
		bytes: bytesPerTrace, fragment: b.forgotten.has(traceID), last: now, lateAt: now,
	}
	b.nextSeq++
	b.traces[traceID] = e
	e.element = b.open.PushBack(e)
	heap.Push(&b.queue, e)
	b.stats.Open++
	b.stats.Traces++
	b.stats.Bytes += e.bytes
	return e
}

func (b *Buffer[P]) count(e *entry[P], now time.Time) {
	b.stats.Received++
	b.stats.Held++
	switch {
	case e.fragment:
		b.stats.LateFragments++
	case e.released:
		b.stats.Late++
		if b.set.OnLate != nil {
			b.set.OnLate(now.Sub(e.releasedAt))
		}
	}
}

// hold keeps the payload until the span is sent.
func (b *Buffer[P]) hold(e *entry[P], span *genai.Span, payload P, size int) {
	e.held = append(e.held, held[P]{spanID: span.SpanID, start: span.Start, size: int64(size), payload: payload})
	e.bytes += int64(size) + bytesPerHeld
}

// keep adds the span to what is analysed, once, and within the trace's limit.
func (b *Buffer[P]) keep(e *entry[P], span genai.Span, now time.Time) {
	h := b.digest.spanHash(&span)
	if _, known := e.seen[h]; known {
		e.unanalysed++
		b.stats.Duplicates++
		return
	}
	isRoot := span.ParentID == ""
	if isRoot && e.rootAt.IsZero() {
		e.rootAt = now
	}
	e.genai = e.genai || b.set.IsGenAI(&span)
	if len(e.spans) >= b.set.MaxSpansPerTrace && !(isRoot && e.roots < extraRoots) {
		e.unanalysed++
		e.truncated = true
		b.stats.Truncated++
		return
	}
	if isRoot {
		e.roots++
	}
	e.seen[h] = struct{}{}
	e.bytes += int64(span.Size()) + bytesPerSeen
	e.spans = append(e.spans, span)
}

func (b *Buffer[P]) schedule(e *entry[P]) {
	e.due = e.nextDue(&b.set)
	heap.Fix(&b.queue, e.queueIndex)
}

// Tick returns what is due at now.
func (b *Buffer[P]) Tick(now time.Time) []Release[P] {
	var out []Release[P]
	for len(b.queue) > 0 && !b.queue[0].due.After(now) {
		e := b.queue[0]
		if r, ok := b.attend(e, now); ok {
			out = append(out, r)
		}
	}
	return out
}

// attend does what is due for e, which changes e's due time or removes it.
func (b *Buffer[P]) attend(e *entry[P], now time.Time) (Release[P], bool) {
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
	case !e.rootAt.IsZero():
		return b.complete(e, rows.ReleaseRoot, now), true
	case !e.last.Add(b.set.TraceTimeout).After(now):
		return b.complete(e, rows.ReleaseTimeout, now), true
	}
	r := b.release(e, ReleaseCheckpoint, false, now)
	e.nextCheckpoint = now.Add(b.set.CheckpointInterval)
	b.schedule(e)
	return r, len(r.Spans) > 0 || len(r.Loose) > 0
}

// complete releases e for good: what comes later is late.
func (b *Buffer[P]) complete(e *entry[P], reason string, now time.Time) Release[P] {
	r := b.release(e, reason, true, now)
	if !e.released {
		e.released = true
		e.releasedAt = now
		b.stats.Open--
		b.open.Remove(e.element)
		e.element = b.remembered.PushBack(e)
	}
	b.schedule(e)
	return r
}

// enforce evicts the oldest traces until every bound holds. Remembered traces go
// first: their rows are stored already.
func (b *Buffer[P]) enforce(now time.Time) []Release[P] {
	var out []Release[P]
	for {
		bound, over := b.exceeded()
		if !over || len(b.traces) == 0 {
			return out
		}
		e := b.oldest()
		if e.released {
			b.stats.EvictedRemembered[bound]++
		} else {
			b.stats.EvictedOpen[bound]++
		}
		if !e.released || len(e.held) > 0 {
			out = append(out, b.complete(e, rows.ReleaseEvicted, now))
		}
		b.forget(e)
	}
}

func (b *Buffer[P]) exceeded() (Bound, bool) {
	switch {
	case len(b.traces) > b.set.MaxTraces:
		return BoundTraces, true
	case b.stats.Spans > int64(b.set.MaxSpans):
		return BoundSpans, true
	case b.stats.Bytes > b.set.MaxBytes:
		return BoundBytes, true
	}
	return "", false
}

func (b *Buffer[P]) oldest() *entry[P] {
	if first := b.remembered.Front(); first != nil {
		return first.Value.(*entry[P])
	}
	return b.open.Front().Value.(*entry[P])
}

// forget removes a released trace. Its id stays known as forgotten when rows of it
// were sent, so that later spans cannot pass for a new trace.
func (b *Buffer[P]) forget(e *entry[P]) {
	if e.revision > 0 || e.fragment {
		b.forgotten.add(e.id)
	}
	b.remembered.Remove(e.element)
	heap.Remove(&b.queue, e.queueIndex)
	delete(b.traces, e.id)
	b.stats.Traces--
	b.stats.Spans -= int64(e.load())
	b.stats.Bytes -= e.bytes
}

// Drain releases everything that is held, the oldest trace first, and empties the
// buffer. A caller that stops early finds what was left in Stats().Held.
func (b *Buffer[P]) Drain(now time.Time) iter.Seq[Release[P]] {
	return func(yield func(Release[P]) bool) {
		for b.open.Len()+b.remembered.Len() > 0 {
			e := b.oldest()
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

// Stats returns the counts so far. The maps are copies.
func (b *Buffer[P]) Stats() Stats {
	s := b.stats
	s.OverflowLabels = b.labels.overflow
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
