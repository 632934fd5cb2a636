package assemble

import (
	"slices"
	"strings"
	"time"

	"driftline/internal/genai"
)

// Beat is a heartbeat: a sign that a span runs, or that it has ended.
type Beat struct {
	TraceID [16]byte
	// Span is the span as far as it is known, without an end.
	Span genai.Span
	// At is when it was sent, in Unix nanoseconds.
	At int64
	// GenAI says that the span makes its trace worth following.
	GenAI bool
	// Stop says that the span has ended: it comes as a span, or was not sampled.
	Stop bool
}

// beats is what a trace remembers of its heartbeats: however many spans run, one of them.
type beats struct {
	running *genai.Span // the span that began first; nil for none
	count   int
	last    int64
}

// bytesPerBeats is what the memory of heartbeats takes besides the span.
const bytesPerBeats = 32

// Beat takes a heartbeat that arrived at now. It is used while its trace is open: of a
// request that is over, or that nobody can tell from other work, it says nothing.
func (b *Buffer[P]) Beat(beat Beat, now time.Time) (used bool, out []Release[P]) {
	at := now.UnixNano()
	e := b.traces[beat.TraceID]
	if e == nil && beat.GenAI && !beat.Stop && !b.forgotten.has(beat.TraceID) {
		e = b.begin(beat.TraceID, at)
	}
	if e == nil || e.released || e.fragment || e.rootAt != 0 {
		b.stats.IgnoredHeartbeats++
		return false, nil
	}
	b.stats.Heartbeats++
	if e.beats == nil {
		e.beats = &beats{}
		b.weigh(e, bytesPerBeats)
	}
	if !e.wantsCheckpoint(b.set.CheckpointSpans) {
		e.nextCheckpoint = after(at, b.set.CheckpointInterval)
	}
	e.last = at
	e.beats.count++
	e.beats.last = max(e.beats.last, beat.At)
	if beat.Stop {
		b.stopped(e, beat.Span.SpanID)
	} else {
		e.genai = e.genai || beat.GenAI
		b.running(e, &beat.Span)
	}
	b.schedule(e)
	return true, b.enforce(now)
}

// Knows says whether spans or heartbeats of the trace are held or remembered.
func (b *Buffer[P]) Knows(traceID [16]byte) bool { return b.traces[traceID] != nil }

// running remembers s if it began before the span that is remembered.
func (b *Buffer[P]) running(e *entry[P], s *genai.Span) {
	if s.Start >= genai.OldestInstant {
		e.began = min(e.began, s.Start)
	}
	if r := e.beats.running; r != nil && (r.SpanID == s.SpanID || r.Start <= s.Start) {
		return
	}
	own := *s
	own.Events, own.LinkedTraces = nil, nil
	own.Attrs = slices.Clone(s.Attrs)
	own.TraceID, own.SpanID, own.ParentID = strings.Clone(s.TraceID), strings.Clone(s.SpanID), strings.Clone(s.ParentID)
	b.replaceRunning(e, &own)
}

func (b *Buffer[P]) replaceRunning(e *entry[P], s *genai.Span) {
	if r := e.beats.running; r != nil {
		b.weigh(e, -int64(r.Size()))
	}
	if s != nil {
		b.weigh(e, int64(s.Size()))
	}
	e.beats.running = s
}

// stopped forgets the span that runs when it has ended. A trace of which nothing else is
// known is then not open any more, until a span of it comes.
func (b *Buffer[P]) stopped(e *entry[P], id string) {
	if r := e.beats.running; r == nil || r.SpanID != id {
		return
	}
	b.replaceRunning(e, nil)
	if e.load() == 0 {
		e.genai, e.began = false, never
	}
}

// endRunning forgets the span that runs when it is among those that came.
func (b *Buffer[P]) endRunning(e *entry[P]) {
	if e.beats == nil || e.beats.running == nil {
		return
	}
	for i := range b.work.views {
		if b.work.views[i].SpanID == e.beats.running.SpanID {
			b.replaceRunning(e, nil)
			return
		}
	}
}

// dropBeats forgets the heartbeats of a trace that is over.
func (b *Buffer[P]) dropBeats(e *entry[P]) {
	if e.beats == nil {
		return
	}
	b.replaceRunning(e, nil)
	b.weigh(e, -bytesPerBeats)
	e.beats = nil
}
