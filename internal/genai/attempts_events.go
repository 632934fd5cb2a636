package genai

import (
	"slices"
	"strings"

	"driftline/internal/rows"
)

// maxEventTries bounds the tries that the events of one span become. Each is a row, and a
// span may carry events without end; what is over is the earliest, and is counted only.
const maxEventTries = 100

// eventTries reads tries from a span's events: some (`gen_ai.retry`) mark where one failed
// and how long the loop then waits, others (`gen_ai.request.attempt`) each try's start, or
// its end where the first mark is nearer to the span's end than the last to its start.
//
// The second result is how many tries there were, kept or not.
func eventTries(n *node) ([]try, uint32) {
	var retries, marks []*Event
	for i := range n.Events {
		e := &n.Events[i]
		if e.Time < n.start || e.Time > n.end {
			continue
		}
		switch says, _ := n.set.eventSays(e.Name); says {
		case chunkRetry:
			retries = append(retries, e)
		case chunkAttempt:
			marks = append(marks, e)
		}
	}
	if len(retries) > 0 {
		return retryTries(n, retries)
	}
	if len(marks) > 1 {
		return markTries(n, marks)
	}
	return nil, 0
}

// allowedByEvents is how many retries the span's retry events say are allowed.
func allowedByEvents(n *node) (uint32, bool) {
	for i := range n.Events {
		if says, _ := n.set.eventSays(n.Events[i].Name); says != chunkRetry && says != chunkAttempt {
			continue
		}
		var f facts
		f.read(n.set, n.Events[i].Attrs, nil)
		if v, ok := f.num(slotMaxRetries); ok && v < 1<<31 {
			return uint32(v), true
		}
		if v, ok := f.num(slotMaxAttempts); ok && v >= 1 && v < 1<<31 {
			return uint32(v - 1), true
		}
	}
	return 0, false
}

func byTime(list []*Event) []*Event {
	slices.SortStableFunc(list, func(x, y *Event) int {
		if x.Time != y.Time {
			if x.Time < y.Time {
				return -1
			}
			return 1
		}
		return compareAttrs(x.Attrs, y.Attrs)
	})
	return list
}

// manyEvents is how many events OpenTelemetry's SDKs keep of a span unless told otherwise:
// of a span with as many, some may be missing.
const manyEvents = 128

func retryTries(n *node, events []*Event) ([]try, uint32) {
	events = slices.CompactFunc(byTime(events), func(x, y *Event) bool {
		return x.Time == y.Time && x.Name == y.Name && compareAttrs(x.Attrs, y.Attrs) == 0
	})
	said := make([]facts, len(events))
	for i, e := range events {
		said[i].read(n.set, e.Attrs, nil)
	}
	total := uint32(len(events)) + 1
	first, count, from := numbering(n, said)
	if first == 0 && n.EventsDropped {
		return nil, 0 // how many were dropped among them is not known
	}
	total = max(total, count+1)
	ended := n.exhausted(events[len(events)-1], &said[len(said)-1], from)
	if ended {
		total--
	}
	var out []try
	at := n.start
	for i, e := range events {
		// The beginning of the first try that was seen is not known where others came before it.
		if len(events)-i < maxEventTries && (i > 0 || first <= 1) {
			out = append(out, try{node: -1, parent: -1, start: at, end: max(e.Time, at), errClass: eventClass(&said[i]), layer: rows.LayerSDK, source: rows.SourceEvent})
		}
		wait, _ := said[i].positive(slotBackoff)
		at = min(max(at, e.Time)+wait, n.end)
	}
	if ended {
		return out, total
	}
	return append(out, try{node: -1, parent: -1, start: at, end: n.end, layer: rows.LayerSDK, source: rows.SourceEvent}), total
}

// numbering is the number of the first failed try from 1, and how many failed, as the
// events' own numbers have it; 0 where these do not rise, and so say nothing. Some count from 0, and
// some give the number of the try that follows, from 2: from is the number of a first failed try.
func numbering(n *node, said []facts) (first, count uint32, from int64) {
	before := int64(-1)
	from = 1
	for i := range said {
		v, ok := said[i].num(slotAttempt)
		if !ok || v <= before || v >= maxAttempts {
			return 0, 0, 1
		}
		if i == 0 && (v == 0 || v == 2 && len(n.Events) < manyEvents && !n.EventsDropped) {
			from = v
		}
		if i == 0 {
			first = uint32(v - from + 1)
		}
		before = v
	}
	return first, uint32(before - from + 1), from
}

// exhausted says whether the try whose failure e tells of was the call's last: the span
// failed too, and ended there and then, or while it would still have waited, or e says that
// this was all it was allowed, where events number failed tries from that number.
func (n *node) exhausted(e *Event, said *facts, from int64) bool {
	if !n.failed() {
		return false
	}
	allowed, ok := said.num(slotMaxAttempts)
	if number, known := said.num(slotAttempt); ok && known && number >= from && number-from+1 >= allowed {
		return true
	}
	wait, _ := said.positive(slotBackoff)
	return min(e.Time+wait, maxTime) >= n.end-ms
}

func markTries(n *node, events []*Event) ([]try, uint32) {
	events = byTime(events)
	first, last := events[0].Time, events[len(events)-1].Time
	atEnds := n.end-last < first-n.start
	total, rising := uint32(len(events)), int64(0)
	var out []try
	from := n.start
	for i, e := range events {
		to := n.end
		if i < len(events)-1 {
			to = events[i+1].Time
			if atEnds {
				to = e.Time
			}
		}
		var f facts
		f.read(n.set, e.Attrs, nil)
		if v, ok := f.num(slotAttempt); ok && v > rising && v < maxAttempts {
			rising = v
		} else {
			rising = maxAttempts // not numbered by order
		}
		class := eventClass(&f)
		if i == len(events)-1 {
			class = ""
		}
		if len(events)-i <= maxEventTries {
			out = append(out, try{node: -1, parent: -1, start: from, end: max(to, from), errClass: class, layer: rows.LayerSDK, source: rows.SourceEvent})
		}
		from = max(to, from)
	}
	if rising == maxAttempts && n.EventsDropped {
		return nil, 0
	}
	if rising < maxAttempts {
		total = max(total, uint32(rising)) // marks of earlier tries were lost
	}
	return out, total
}

// eventClass is why the try that an event marks failed; it did fail, since another one
// followed.
func eventClass(f *facts) string {
	status, _ := f.num(slotHTTPStatus)
	if status > 999 {
		status = 0
	}
	if c := ErrorClass(int(status), strings.TrimSpace(f.str(slotErrorType)), true); c != "" {
		return c
	}
	return rows.ClassOther
}
