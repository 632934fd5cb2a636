package genai

import (
	"driftline/internal/rows"
)

// findTries links the attempts of o and says from where they are known. Without any
// evidence attempts stay unknown: one model span may hide a whole retry loop.
func (a *analysis) findTries(o *op) {
	last := &a.nodes[o.lastMember()]
	if len(o.members) > 1 {
		o.source = rows.SourceSibling
		for _, m := range o.members {
			n := &a.nodes[m]
			t := a.addTry(o, m, -1, rows.LayerFramework, rows.SourceSibling)
			if inner := a.gather(m); len(inner) > 1 {
				a.addLevel(o, inner, t)
			} else if len(inner) == 1 {
				n.borrowStatus(&a.nodes[inner[0]])
				o.tries[t].errClass = n.errClass
			}
		}
	} else if inner := a.gather(o.first()); len(inner) > 0 {
		a.addLevel(o, inner, -1)
		o.source = o.tries[o.top[0]].source
		last.borrowStatus(&a.nodes[inner[len(inner)-1]])
	}
	if len(o.top) < 2 {
		if tries, marked := eventTries(last); marked > 1 {
			o.marked = marked
			o.tries, o.top, o.source = tries, nil, rows.SourceEvent
			for i := range tries {
				o.top = append(o.top, int32(i))
			}
			tries[len(tries)-1].errClass = last.errClass
		}
	}
	a.countAttempts(o, last)
	a.boundTries(o)
}

// countAttempts sets how many attempts there were. A stated number wins over what was
// seen when it is higher: spans of attempts may be missing.
func (a *analysis) countAttempts(o *op, last *node) {
	seen := uint32(len(o.top))
	stated, byAttribute := uint32(0), false
	if v, ok := last.f.num(slotAttempt); ok && v >= 1 && v < maxAttempts {
		stated, byAttribute = uint32(v), true
	}
	if v, ok := last.retryCount(); ok && uint32(v)+1 > stated {
		stated, byAttribute = uint32(v)+1, true
	}
	stated = max(stated, min(o.marked, maxAttempts))
	a.numberTries(o, o.top, stated)
	highest := seen
	if seen > 0 {
		highest = max(seen, o.tries[o.top[seen-1]].ordinal)
	}
	total := max(highest, stated)
	if byAttribute && stated >= highest || total > seen && seen > 0 && o.marked == 0 {
		o.source = rows.SourceAttribute
	}
	if total == 0 {
		o.source = rows.SourceUnknown
		return
	}
	if seen == 0 && total == 1 {
		a.addTry(o, o.lastMember(), -1, rows.LayerSDK, rows.SourceAttribute)
		seen = 1
		o.tries[0].ordinal, o.tries[0].last = 1, true
	}
	o.attempts = a.cnt(total)
	leaves := total - seen
	for i := range o.tries {
		if len(o.tries[i].kids) == 0 {
			leaves++
		} else {
			a.numberTries(o, o.tries[i].kids, 0)
		}
	}
	o.leaves = a.cnt(leaves)
}

// maxAttempts is where a stated number of attempts stops being believed.
const maxAttempts = 10_000

// numberTries gives tries of one level their ordinals from 1: what the span states,
// else the order; always rising. stated is the ordinal of the last, 0 for unknown.
func (a *analysis) numberTries(o *op, level []int32, stated uint32) {
	prev := uint32(0)
	for k, i := range level {
		t := &o.tries[i]
		t.ordinal = uint32(k) + 1
		if t.node >= 0 {
			if n, ok := a.nodes[t.node].ordinal(); ok {
				t.ordinal = n
			}
		}
		if k == len(level)-1 {
			t.ordinal = max(t.ordinal, stated)
			t.last = true
		}
		t.ordinal = max(t.ordinal, prev+1)
		prev = t.ordinal
	}
}

// ordinal is the attempt's number from 1 as the span itself states it. A resend count
// restarts with each call of an HTTP client, so it is believed only without a header;
// it counts redirects and challenges, which are no attempts.
func (n *node) ordinal() (uint32, bool) {
	if v, ok := n.retryCount(); ok {
		return uint32(v) + 1, true
	}
	if v, ok := n.f.num(slotResend); ok && v < maxAttempts && uint32(v) > n.asides {
		return uint32(v) - n.asides + 1, true
	}
	return 0, false
}

func (a *analysis) addTry(o *op, node, parent int32, layer, source string) int32 {
	n := &a.nodes[node]
	id := int32(len(o.tries))
	o.tries = append(o.tries, try{
		node: node, start: n.start, end: n.end, errClass: n.errClass,
		parent: parent, layer: layer, source: source,
	})
	if w, ok := a.spread[node]; ok {
		o.tries[id].start, o.tries[id].end = w[0], w[1]
	}
	if parent >= 0 {
		o.tries[parent].kids = append(o.tries[parent].kids, id)
	} else {
		o.top = append(o.top, id)
	}
	return id
}

// boundTries clips tries to the operation, ends the last one with its operation (an
// HTTP span ends with the headers, the call with the last byte) and takes the gaps as
// backoff.
func (a *analysis) boundTries(o *op) {
	a.boundLevel(o, o.top, o.start, o.end, true)
	// A call may fail after its last answer's headers came: so did its last try.
	if last := &a.nodes[o.lastMember()]; last.failed() {
		for level := o.top; len(level) > 0; {
			t := &o.tries[level[len(level)-1]]
			if t.errClass == "" || t.errClass == rows.ClassCancelled && last.errClass == rows.ClassTimeout {
				t.errClass = last.errClass // a timeout cancels, and the call knows why
			}
			level = t.kids
		}
	}
}

func (a *analysis) boundLevel(o *op, level []int32, lo, hi int64, extend bool) {
	cursor := lo
	for k, i := range level {
		t := &o.tries[i]
		t.start = min(max(t.start, lo), hi)
		t.end = min(max(t.end, t.start), hi)
		if extend && k == len(level)-1 && t.errClass == "" {
			t.end = hi
		}
		if k > 0 {
			t.backoff = a.num(max(t.start-cursor, 0))
		}
		cursor = max(cursor, t.end)
		if len(t.kids) > 0 {
			a.boundLevel(o, t.kids, t.start, t.end, extend && k == len(level)-1 && t.errClass == "")
		}
	}
}

// borrowStatus takes an inner span's HTTP status where the call's own span has none,
// and with it what failed, unless the call succeeded in its own eyes.
func (n *node) borrowStatus(inner *node) {
	if n.status == 0 {
		n.status = inner.status
	}
	if n.errType == "" && n.failed() {
		n.errType = inner.errType
	}
	named := classOfStatus(n.status)
	switch {
	case n.Status == StatusOK:
	case n.failed() && named != "":
		n.errClass = named // SDKs name every answer of 500 and more alike; the status says which
	case n.errClass == rows.ClassOther && inner.errClass != "":
		n.errClass = inner.errClass
	case n.errClass == "" && n.class == classModel && (inner.status >= 400 || n.brokeOff(inner)):
		n.errClass = inner.errClass
		n.errType = inner.errType
	}
}

// brokeOff says whether a call that is not judged ended with the answer of its request broken: there was a good status,
// then an error, and nothing that comes with an answer's end.
func (n *node) brokeOff(inner *node) bool {
	return inner.status >= 200 && inner.status < 300 && inner.failed() && n.finishReason() == "" && !n.f.holds(slotOutputTokens)
}
