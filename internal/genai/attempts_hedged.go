package genai

import "math"

// overlap is how long an HTTP span may outlive the start of the next try: clients that
// give up close the old connection beside opening the new one.
const overlap = 20 * ms

// dropHedges leaves out requests that ran beside the one that was answered, to the same
// place: a hedged request and the one it doubles are not tries one after another.
func (a *analysis) dropHedges(found []int32) []int32 {
	if len(found) < 2 {
		return found
	}
	i := found[len(found)-1]
	last := &a.nodes[i]
	if last.succeeded() {
		return found
	}
	for k := len(found) - 2; k >= 0; k-- {
		n := &a.nodes[found[k]]
		if n.succeeded() && n.end > last.start+overlap && n.sameRequest(last) && n.place() == last.place() {
			return found[:k+1] // the last one was the hedge that lost
		}
	}
	return found
}

// group is a request that counts as a try, together with those that ran beside it to the
// same place. They are one attempt: it begins with the first of them, and if all failed it
// ends with the last.
type group struct {
	a    *analysis
	rep  int32
	from int64
	to   int64
	next int64 // when the group after it began
}

// lastGroup is the group of the call's last try, to which requests that began before it may belong.
func (a *analysis) lastGroup(rep int32) group {
	n := &a.nodes[rep]
	return group{a: a, rep: rep, from: n.start, to: n.end, next: math.MaxInt64 - overlap}
}

// before is the group of an earlier try.
func (g group) before(rep int32) group {
	n := &g.a.nodes[rep]
	return group{a: g.a, rep: rep, from: n.start, to: n.end, next: g.from}
}

// join says whether n, which began before the group, is a request of it that lost: it ran beside
// the group, went to the same place, was not answered well and was over when the next try began.
func (g *group) join(n *node) bool {
	rep := &g.a.nodes[g.rep]
	if n.end <= g.from+overlap || n.end > g.next+overlap || n.succeeded() || !n.sameRequest(rep) || n.place() != rep.place() {
		return false
	}
	g.from = min(g.from, n.start)
	if !rep.succeeded() {
		g.to = max(g.to, n.end)
	}
	if g.a.spread == nil {
		g.a.spread = map[int32][2]int64{}
	}
	g.a.spread[g.rep] = [2]int64{g.from, g.to}
	return true
}
