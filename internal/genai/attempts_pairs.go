package genai

// Calls that run side by side can fail and be tried again together. What follows tells
// whose tries are whose.

// likeness is what speaks for span i being the next try of failed span t, rather than of
// another one: more is better, and below zero something speaks against it. A try sends
// the same request to the same server, under the next number.
func (a *analysis) likeness(t, i int32) int {
	p, n := &a.nodes[t], &a.nodes[i]
	score := 0
	weigh := func(known, same bool, weight int) {
		switch {
		case known && same:
			score += weight
		case known:
			score -= weight
		}
	}
	pc, nc := p.f.str(slotCallID), n.f.str(slotCallID)
	weigh(pc != "" && nc != "", pc == nc, 8)
	pv, pk := p.f.num(slotAttempt)
	nv, nk := n.f.num(slotAttempt)
	weigh(pk && nk && nv > 1, nv == pv+1, 4)
	pv, pk = p.f.num(slotInputTokens)
	nv, nk = n.f.num(slotInputTokens)
	weigh(pk && nk && pv > 0 && nv > 0, pv == nv, 2)
	pv, nv = a.sizeOf(t), a.sizeOf(i)
	weigh(pv > 0 && nv > 0, pv == nv, 2)
	ps, ns := a.serverOf(t), a.serverOf(i)
	weigh(ps != "" && ns != "", ps == ns, 1)
	return score
}

// serverOf is the host that a call's span states, else that of its first HTTP request.
func (a *analysis) serverOf(i int32) string {
	if h := a.nodes[i].host(); h != "" {
		return h
	}
	for _, k := range a.kids(i) {
		if n := &a.nodes[k]; n.class == classHTTPClient {
			return n.host()
		}
	}
	return ""
}

// sizeOf is the length of the body that a call sent, as its span or that of its last HTTP
// request states it; 0 for unknown. A failed call has no tokens, but its request had a size.
func (a *analysis) sizeOf(i int32) int64 {
	if v, ok := a.nodes[i].f.num(slotRequestSize); ok {
		return v
	}
	kids := a.kids(i)
	for k := len(kids) - 1; k >= 0; k-- {
		if n := &a.nodes[kids[k]]; n.class == classHTTPClient {
			v, _ := n.f.num(slotRequestSize)
			return v
		}
	}
	return 0
}

// provesRetry says whether more than its time shows span i to be a further try of span
// t: its own number, or one id or number of input tokens of both. One server is no proof,
// since all of a pool's calls go there.
func (a *analysis) provesRetry(t, i int32) bool {
	if v, ok := a.nodes[i].f.num(slotAttempt); ok && v > 1 && v < maxAttempts {
		return true
	}
	return a.likeness(t, i) > 1
}

// ranBeside says whether calls like span t's ran beside it: then several were planned, and
// one that waited its turn begins when another ends. at is the place of span i in list.
func (a *analysis) ranBeside(t, i int32, list []int32, at int, key chainKey) bool {
	p := &a.nodes[t]
	beside := func(b int32) bool {
		n := &a.nodes[b]
		return b != t && b != i && n.chainKey(false) == key && n.start < p.end-handover && n.end > p.start+handover
	}
	for steps, k := 0, at-1; k >= 0 && steps < maxBetween; steps, k = steps+1, k-1 {
		if beside(list[k]) {
			return true
		}
	}
	return false
}

// uncross exchanges the next tries of two calls where these overtook each other for no
// reason. Calls that failed at the same try wait alike, so the one that failed first is
// tried again first, unless what they have in common says otherwise. Where nothing tells
// them apart this stays a guess, but their sums do not depend on it: however the tries are
// paired, failed time and backoff of all these calls together are the same.
func (a *analysis) uncross(list []int32, in int32) {
	place := map[int32]int{}
	for at, i := range list {
		place[i] = at
	}
	for at, i := range list {
		for _, later := range list[at+1 : min(at+1+maxTails, len(list))] {
			a.uncrossPair(i, later, list, place, in)
		}
	}
}

// uncrossPair looks at the later try n2 and an earlier one n1.
func (a *analysis) uncrossPair(n1, n2 int32, list []int32, place map[int32]int, in int32) {
	p1, p2 := a.nodes[n1].prev, a.nodes[n2].prev
	if p1 < 0 || p2 < 0 || p1 == n2 || p2 == n1 {
		return
	}
	key := a.nodes[n1].chainKey(in >= 0)
	if a.nodes[n2].chainKey(in >= 0) != key ||
		!a.follows(p2, n1, list, place[n1], key, in) || !a.follows(p1, n2, list, place[n2], key, in) {
		return
	}
	now, then := a.likeness(p1, n1)+a.likeness(p2, n2), a.likeness(p2, n1)+a.likeness(p1, n2)
	// A later try waits longer: it may be overtaken.
	crossed := a.nodes[p2].end < a.nodes[p1].end && a.depth(p2) <= a.depth(p1)
	if then < now || then == now && !crossed {
		return
	}
	a.nodes[p1].next, a.nodes[n2].prev = n2, p1
	a.nodes[p2].next, a.nodes[n1].prev = n1, p2
}

// depth is how many tries came before span i, up to a bound.
func (a *analysis) depth(i int32) int {
	d := 0
	for p := a.nodes[i].prev; p >= 0 && d < maxTails; p = a.nodes[p].prev {
		d++
	}
	return d
}
