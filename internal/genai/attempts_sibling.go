package genai

import (
	"slices"
	"strings"
)

// chain links tries of one call among spans that are sorted by start: the same class,
// kind of work and target, the earlier one failed in a way that is tried again, the
// later one starts after it ended, and nothing else ran in between that a planner
// would have started. A call that succeeded is never the predecessor: asking again is
// a new operation. It returns the number of calls, that is of chain heads. Within a
// wrapper (in >= 0) all of these belong together, so an unnamed target matches any.
// Among several failed tries the one that a span has most in common with is its
// predecessor, see likeness.
func (a *analysis) chain(list []int32, in int32) int {
	heads := 0
	open := map[chainKey][]int32{} // failed tries without a successor, by end
	for at, i := range list {
		n := &a.nodes[i]
		key := n.chainKey(in >= 0)
		best, alike := -1, 0
		tails := open[key]
		for k, t := range tails {
			p := &a.nodes[t]
			if !a.follows(t, i, list, at, key, in) {
				continue
			}
			l := 0
			if len(tails) > 1 {
				l = a.likeness(t, i)
			}
			if best < 0 || l > alike || l == alike && p.end >= a.nodes[tails[best]].end {
				best, alike = k, l
			}
		}
		if best >= 0 {
			t := tails[best]
			a.nodes[t].next, n.prev = i, t
			tails = slices.Delete(tails, best, best+1)
		} else {
			heads++
		}
		if n.failed() && retryable(n.errClass) {
			if len(tails) >= maxTails {
				tails = slices.Delete(tails, 0, 1)
			}
			tails = append(tails, i)
		}
		open[key] = tails
	}
	if len(list)-heads > 1 {
		a.uncross(list, in)
	}
	return heads
}

const (
	// chainSlack lets a try start a little before the one before it ended.
	chainSlack = ms
	// maxTails bounds how many parallel failed tries of one kind wait for a successor.
	maxTails = 32
	// maxBackoff is the longest gap that is taken for a wait between tries; loops are known
	// to wait up to 4 minutes. What comes later, under a parent that lives long, is asked anew.
	maxBackoff = 300 * sec
	// maxBetween bounds how far back siblings are searched for work in between.
	maxBetween = 32
	// handover is the gap within which a pool starts the next call that waits in its queue
	// when one ends, or fails: spans' times are in milliseconds in some languages.
	handover = 2 * ms
)

type chainKey struct {
	class   class
	embed   bool
	target  string
	service string
}

func (n *node) chainKey(inWrapper bool) chainKey {
	k := chainKey{class: n.class, embed: n.kind == "embeddings"}
	if !inWrapper {
		k.target = n.target()
		k.service = n.resource().ServiceName
	}
	return k
}

// follows says whether span i, list[at], may be the next try after span t.
func (a *analysis) follows(t, i int32, list []int32, at int, key chainKey, in int32) bool {
	p, n, before := &a.nodes[t], &a.nodes[i], list[:at]
	if p.end > n.start+chainSlack || p.start >= n.start {
		return false
	}
	if pc, nc := p.f.str(slotToolCall), n.f.str(slotToolCall); n.class == classTool && pc != "" && nc != "" && pc != nc && !strings.HasPrefix(nc, "<") {
		return false // the model asked for the tool again
	}
	if pc, nc := p.f.str(slotCallID), n.f.str(slotCallID); pc != "" && nc != "" && pc != nc {
		return false
	}
	if in < 0 && (n.startsAnew(p) || n.start-p.end > maxBackoff) {
		return false
	}
	if in < 0 && n.start-p.end <= handover && !a.provesRetry(t, i) && a.ranBeside(t, i, list, at, key) {
		return false
	}
	steps := 0
	for k := len(before) - 1; k >= 0; k-- {
		b := &a.nodes[before[k]]
		if b.start < p.end {
			break
		}
		if steps++; steps > maxBetween {
			return false
		}
		if b != p && b.end <= n.start && b.chainKey(in >= 0) != key {
			return false
		}
	}
	return true
}

// startsAnew says whether n's own number makes it the first try of another call: numbers
// of one call rise, whether they count tries or say which try this is, from 0 or from 1.
func (n *node) startsAnew(p *node) bool {
	v, ok := n.f.num(slotAttempt)
	if !ok {
		return false
	}
	before, known := p.f.num(slotAttempt)
	if known {
		return before >= v
	}
	return v == 1
}

// linkSiblings chains operations under one parent span, seen or not.
func (a *analysis) linkSiblings() {
	a.eachSiblings(func(list []int32) {
		if len(list) > 1 {
			a.chain(list, -1)
		}
	})
}

// eachSiblings calls f with the operation-class spans of each parent, sorted by start.
func (a *analysis) eachSiblings(f func(list []int32)) {
	var list []int32
	free := func(i int32) bool {
		n := &a.nodes[i]
		return n.class.operation() && n.absorbed < 0
	}
	for i := range a.nodes {
		list = list[:0]
		for _, k := range a.kids(int32(i)) {
			if free(k) {
				list = append(list, k)
			}
		}
		f(list)
	}
	orphans := map[string][]int32{}
	var parents []string
	for i := range a.nodes {
		n := &a.nodes[i]
		if n.parent < 0 && n.ParentID != "" && free(int32(i)) {
			if orphans[n.ParentID] == nil {
				parents = append(parents, n.ParentID)
			}
			orphans[n.ParentID] = append(orphans[n.ParentID], int32(i))
		}
	}
	for _, p := range parents {
		f(orphans[p])
	}
}

func sortByStart(list []int32) { slices.Sort(list) } // nodes are sorted by start
