package genai

import (
	"driftline/internal/rows"
)

// Segment kinds as indices of rows.SegmentKinds, so that the lower one wins a tie.
const (
	segFailed uint8 = iota
	segBackoff
	segQueue
	segConnect
	segTTFT
	segGeneration
	segInference
	segTool
	segAgent
	segUnattributed
	numSegments
)

// segmentSums holds time by segment kind, in nanoseconds.
type segmentSums [numSegments]int64

func (s *segmentSums) add(t *segmentSums) {
	for i := range s {
		s[i] += t[i]
	}
}

func (s *segmentSums) hidden() int64 { return s[segFailed] + s[segBackoff] }

func (s *segmentSums) fill(r *rows.Segments) {
	r.FailedAttemptNS, r.BackoffNS, r.QueueNS, r.ConnectNS = s[segFailed], s[segBackoff], s[segQueue], s[segConnect]
	r.TTFTSegmentNS, r.GenerationNS, r.InferenceSegmentNS = s[segTTFT], s[segGeneration], s[segInference]
	r.ToolNS, r.AgentNS, r.UnattributedNS = s[segTool], s[segAgent], s[segUnattributed]
}

// piece is a slice of an operation's own wall clock.
type piece struct {
	start, end int64
	kind       uint8
	ordinal    uint32
}

// divide cuts o's wall clock into pieces that partition it. A try that was followed by
// another one is a failed attempt whatever is inside; the last one is divided further,
// even when it failed too: that failure is the planner's to see, and not hidden.
func (a *analysis) divide(o *op) {
	d := divider{a: a, o: o, at: o.start, out: a.pieces[len(a.pieces):]}
	d.level(o.top, o.end, 0)
	o.pieces = d.out
	if used := len(a.pieces) + len(d.out); used <= cap(a.pieces) {
		a.pieces = a.pieces[:used]
	}
	if o.attempts == nil {
		return
	}
	if int(*o.attempts) > len(o.top) {
		return // attempts without spans: how long they took is unknown
	}
	var hidden int64
	for _, p := range o.pieces {
		if p.kind <= segBackoff {
			hidden += p.end - p.start
		}
	}
	o.hidden = a.num(hidden)
}

type divider struct {
	a   *analysis
	o   *op
	at  int64
	out []piece
}

// cut charges the time up to end to kind.
func (d *divider) cut(end int64, kind uint8, ordinal uint32) {
	if end <= d.at {
		return
	}
	if n := len(d.out); n > 0 && d.out[n-1].kind == kind && d.out[n-1].ordinal == ordinal {
		d.out[n-1].end = end
	} else {
		d.out = append(d.out, piece{d.at, end, kind, ordinal})
	}
	d.at = end
}

// level divides up to hi. outer is the ordinal of the outermost try, 0 on its level.
func (d *divider) level(level []int32, hi int64, outer uint32) {
	for k, i := range level {
		t := &d.o.tries[i]
		ordinal := outer
		if ordinal == 0 {
			ordinal = t.ordinal
		}
		switch {
		case k > 0:
			d.cut(min(t.start, hi), segBackoff, ordinal)
		case len(level) > 1, t.ordinal > 1 && len(t.kids) == 0:
			// What a client does before its first try is no failure of that try, and
			// earlier tries that were not seen are not known to have failed.
			d.cut(min(t.start, hi), segUnattributed, 0)
		}
		if k < len(level)-1 {
			d.cut(min(t.end, hi), segFailed, ordinal)
			continue
		}
		if len(t.kids) > 0 {
			d.level(t.kids, hi, ordinal)
			return
		}
		d.final(hi, ordinal)
		return
	}
	d.final(hi, outer)
}

// final divides the last try.
func (d *divider) final(hi int64, ordinal uint32) {
	n := &d.a.nodes[d.o.lastMember()]
	switch n.class {
	case classTool, classRetrieval:
		d.cut(hi, segTool, ordinal)
		return
	case classAgent:
		d.cut(hi, segAgent, ordinal)
		return
	}
	queue, connect := d.a.netTimes(d.o)
	first := d.o.tok.firstAt
	limit := hi
	if first >= 0 {
		limit = min(first, hi)
	}
	d.cut(min(d.at+queue, limit), segQueue, ordinal)
	d.cut(min(d.at+connect, limit), segConnect, ordinal)
	if first >= 0 {
		d.cut(limit, segTTFT, ordinal)
		d.cut(hi, segGeneration, ordinal)
		return
	}
	d.cut(hi, segInference, ordinal)
}

// netTimes is the known queue and connect time of the last try. They are known only
// where spans or attributes of the caller state them, never from the gap between two
// hosts' clocks.
func (a *analysis) netTimes(o *op) (queue, connect int64) {
	bound := o.end - o.start
	for _, n := range o.sources {
		if q, ok := n.f.positive(slotQueue); ok && queue == 0 {
			queue = min(q, bound)
		}
		if c, ok := n.f.positive(slotConnect); ok && connect == 0 {
			connect = min(c, bound)
		}
	}
	if t := o.lastTry(); t != nil && t.node >= 0 && a.nodes[t.node].class == classHTTPClient {
		wait, conn := a.netSpans(t.node)
		if queue == 0 {
			queue = min(wait, bound)
		}
		if connect == 0 {
			connect = min(conn, bound)
		}
	}
	return queue, connect
}

// netSpans sums what the spans below an HTTP client span say of getting a connection.
// Waiting for the pool encloses connecting, so that part is not counted twice.
func (a *analysis) netSpans(i int32) (wait, connect int64) {
	var until int64
	for _, k := range a.order2(i) {
		n := &a.nodes[k]
		switch netSpan(n.Name) {
		case netConnect:
			from := max(n.start, until)
			if n.end > from {
				connect += n.end - from
				until = n.end
			}
		case netQueue:
			wait += n.end - n.start
		}
	}
	return max(wait-connect, 0), connect
}

// order2 lists a span's children and grandchildren by start.
func (a *analysis) order2(i int32) []int32 {
	var out []int32
	for _, k := range a.kids(i) {
		if a.nodes[k].class == classNet {
			out = append(out, k)
			for _, g := range a.kids(k) {
				if a.nodes[g].class == classNet {
					out = append(out, g)
				}
			}
		}
	}
	sortByStart(out)
	return out
}
