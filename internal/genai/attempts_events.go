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
		return retryTries(n, retries), uint32(len(retries)) + 1
	}
	if len(marks) > 1 {
		return markTries(n, marks), uint32(len(marks))
	}
	return nil, 0
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

func retryTries(n *node, events []*Event) []try {
	var out []try
	at := n.start
	for i, e := range byTime(events) {
		var f facts
		f.read(n.set, e.Attrs, nil)
		if len(events)-i < maxEventTries {
			out = append(out, try{node: -1, parent: -1, start: at, end: max(e.Time, at), errClass: eventClass(&f), layer: rows.LayerSDK, source: rows.SourceEvent})
		}
		wait, _ := f.positive(slotBackoff)
		at = min(max(at, e.Time)+wait, n.end)
	}
	return append(out, try{node: -1, parent: -1, start: at, end: n.end, layer: rows.LayerSDK, source: rows.SourceEvent})
}

func markTries(n *node, events []*Event) []try {
	events = byTime(events)
	first, last := events[0].Time, events[len(events)-1].Time
	atEnds := n.end-last < first-n.start
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
		class := eventClass(&f)
		if i == len(events)-1 {
			class = ""
		}
		if len(events)-i <= maxEventTries {
			out = append(out, try{node: -1, parent: -1, start: from, end: max(to, from), errClass: class, layer: rows.LayerSDK, source: rows.SourceEvent})
		}
		from = max(to, from)
	}
	return out
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
