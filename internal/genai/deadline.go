package genai

import (
	"slices"

	"driftline/internal/rows"
)

// deadline is an instant by which work should end.
type deadline struct {
	known     bool
	at        int64
	inherited bool
	budget    *int64 // as declared on the span itself
	own       int64  // the declared deadline itself, where budget or instant is stated
	stated    bool
	source    string // a rows.Deadline constant
}

// point is a moment at which someone was told what remains.
type point struct {
	perceived *int64 // nil at completion, where nobody was told
	truly     int64
	drift     int64
	stated    bool
}

// stateDeadline reads the deadline that a span declares, counted from anchor.
func stateDeadline(f *facts, anchor int64, timeoutToo bool) (d deadline) {
	if b, ok := f.positive(slotBudget); ok {
		d.take(b, anchor, rows.DeadlineAttribute)
	} else if b, ok := f.positive(slotTimeout); ok && timeoutToo {
		d.take(b, anchor, rows.DeadlineAttribute)
	}
	if at, ok := f.positive(slotDeadline); ok {
		d.own, d.stated, d.source = at, true, rows.DeadlineAttribute
		if d.budget == nil && at > anchor {
			d.budget = ptr(at - anchor)
		}
	}
	d.known, d.at = d.stated, d.own
	return d
}

// take sets a budget that is counted from anchor.
func (d *deadline) take(budget, anchor int64, source string) {
	d.budget, d.own, d.stated, d.source = ptr(budget), min(anchor+budget, maxTime), true, source
	d.known, d.at = true, d.own
}

// callersDeadline is the deadline of the work at and below a server's span: what the span
// states, else how long its caller says it will wait. How long a caller bears silence is
// no deadline, since a stream may go on for longer.
func (n *node) callersDeadline(anchor int64) deadline {
	d := stateDeadline(&n.f, anchor, true)
	if !d.known && n.class == classHTTPServer {
		if b, ok := n.f.positive(slotSentTimeout); ok {
			d.take(b, anchor, rows.DeadlineHeader)
		}
	}
	return d
}

// readDeadlines finds the deadline of each request and operation, and the points at
// which perceived and true remaining time can be compared.
func (a *analysis) readDeadlines() {
	for r := range a.reqs {
		a.requestDeadline(&a.reqs[r])
	}
	a.eff = take(&a.room.eff, len(a.ops))
	for _, i := range a.order { // outer operations first
		n := &a.nodes[i]
		if n.op < 0 || a.ops[n.op].first() != i {
			continue
		}
		o := &a.ops[n.op]
		outer := a.outerDeadline(o)
		d := stateDeadline(&n.f, o.start, n.class == classAgent)
		if d.budget != nil && n.f.has(slotBudget) && a.restated(&n.f) {
			d = deadline{} // the request's budget, copied to each span
		}
		if outer.known && (!d.known || outer.at <= d.at) {
			d.known, d.at, d.inherited = true, outer.at, true
		}
		a.eff[n.op] = d
		if d.budget != nil && outer.known && o.request >= 0 && a.reqs[o.request].budgetNode != i && d.own > outer.at {
			left := outer.at - o.start
			a.addPoint(n.op, point{perceived: d.budget, truly: left, drift: *d.budget - left})
		}
	}
	a.serverResets()
	for i := range a.nodes {
		a.perceived(int32(i))
	}
}

// restated says whether a span's budget is the request's by the name of its key, which
// some copy to every span. It starts no new clock.
func (a *analysis) restated(f *facts) bool {
	return f.rank(slotBudget) <= requestBudgetRank
}

// outerDeadline is the deadline around an operation: of the operation or request around
// it, or an earlier one that a caller sent to a server in between.
func (a *analysis) outerDeadline(o *op) (d deadline) {
	switch {
	case o.parent >= 0:
		d = a.eff[o.parent]
	case o.request >= 0:
		d = a.reqs[o.request].deadline
	}
	for i := a.nodes[o.first()].parent; i >= 0; i = a.nodes[i].parent {
		n := &a.nodes[i]
		if n.class.operation() || n.req >= 0 && a.reqs[n.req].root == i {
			break
		}
		if n.class != classHTTPServer {
			continue
		}
		if s := n.callersDeadline(n.start); s.known && (!d.known || s.at < d.at) {
			d = s
		}
	}
	return d
}

// serverResets adds a point for each server below a request's root that was given more
// time than its request had left: its caller started the clock anew.
func (a *analysis) serverResets() {
	for i := range a.nodes {
		n := &a.nodes[i]
		if n.class != classHTTPServer || n.req < 0 || a.reqs[n.req].root == int32(i) || n.absorbed >= 0 {
			continue
		}
		q := &a.reqs[n.req]
		if !q.deadline.known || q.budgetNode == int32(i) || n.f.has(slotBudget) && a.restated(&n.f) {
			continue
		}
		d := n.callersDeadline(n.start)
		if d.budget == nil || d.own <= q.deadline.at+skewTolerance {
			continue
		}
		left := q.deadline.at - n.start
		q.points = append(q.points, point{perceived: d.budget, truly: left, drift: *d.budget - left})
	}
}

// requestDeadline takes the root's deadline, else the first that an agent or a span
// outside operations states, else the budget configured for the root's service. It is
// anchored at receipt.
func (a *analysis) requestDeadline(q *request) {
	if a.statedDeadline(q); q.deadline.known || q.root < 0 {
		return // without its root, when a request began is not known
	}
	if b := a.opt.timeouts(&a.nodes[q.root]).Request; b > 0 {
		q.deadline.take(int64(b), q.anchor, rows.DeadlineConfig)
		q.budgetNode = q.root
	}
}

func (a *analysis) statedDeadline(q *request) {
	for _, i := range q.roots {
		n := &a.nodes[i]
		d := deadline{}
		if n.class.operation() && n.class != classAgent {
			d = stateDeadline(&n.f, q.anchor, false)
		} else {
			d = n.callersDeadline(q.anchor)
		}
		if d.known {
			q.deadline, q.budgetNode = d, i
			return
		}
		if i == q.root && n.class.operation() && n.class != classAgent {
			return // a call that stands alone: what is below speaks of its attempts
		}
	}
	if q.deadlineNode >= 0 {
		n := &a.nodes[q.deadlineNode]
		q.deadline, q.budgetNode = stateDeadline(&n.f, q.anchor, false), q.deadlineNode
	}
}

// findStatedBudgets notes for each request which span reports the agent's time, and the
// first span below the root, outside other operations than agents directly below it,
// that states a budget.
func (a *analysis) findStatedBudgets() {
	for i := range a.nodes {
		n := &a.nodes[i]
		if n.req < 0 || !n.f.has(slotBudget) && !n.f.has(slotDeadline) && !n.f.has(slotAgentTime) {
			continue
		}
		q := &a.reqs[n.req]
		if n.f.has(slotAgentTime) && (q.timeNode < 0 || q.root == int32(i)) && (q.root == int32(i) || n.op < 0 || n.class == classAgent) {
			q.timeNode = int32(i)
		}
		if !n.f.has(slotBudget) && !n.f.has(slotDeadline) {
			continue
		}
		outermost := n.op < 0 || n.class == classAgent && a.ops[n.op].first() == int32(i) && a.ops[n.op].parent < 0
		if q.deadlineNode < 0 && outermost && (n.class == classAgent || n.class == classPlain) {
			q.deadlineNode = int32(i)
		}
	}
}

// perceived adds the points that span i states, at its start or on its events.
func (a *analysis) perceived(i int32) {
	n := &a.nodes[i]
	if n.req < 0 && n.op < 0 {
		return
	}
	if p, ok := n.f.dur(slotPerceived); ok {
		a.statedPoint(n, p, n.start)
	}
	for k := range n.Events {
		e := &n.Events[k]
		for j := range e.Attrs {
			known, ok := a.set.keys[e.Attrs[j].Key]
			if !ok {
				known, ok = a.extra[e.Attrs[j].Key]
			}
			if !ok || known.slot != slotPerceived {
				continue
			}
			var f facts
			f.read(a.set, e.Attrs, a.extra)
			if p, ok := f.dur(slotPerceived); ok {
				a.statedPoint(n, p, min(max(e.Time, 0), maxTime))
			}
			break
		}
	}
}

func (a *analysis) statedPoint(n *node, perceived, at int64) {
	var d deadline
	switch {
	case n.op >= 0:
		d = a.eff[n.op]
	case n.req >= 0:
		d = a.reqs[n.req].deadline
	}
	p := point{perceived: ptr(perceived), stated: true}
	if d.known {
		p.truly = d.at - at
		p.drift = perceived - p.truly
	} else {
		p.perceived = nil
	}
	if n.op >= 0 {
		a.addPoint(n.op, p)
	} else {
		a.reqs[n.req].points = append(a.reqs[n.req].points, p)
	}
}

// addPoint notes a point of an operation, which is one of its request too.
func (a *analysis) addPoint(o int32, p point) {
	a.ops[o].points = append(a.ops[o].points, p)
	if r := a.ops[o].request; r >= 0 {
		a.reqs[r].points = append(a.reqs[r].points, p)
	}
}

// capTolerance is how near to a limit something must end to have been ended by it.
func capTolerance(limit int64) int64 { return max(limit/50, 50*ms) }

// verdictOf fills the deadline's part of t for work from start to end.
func (a *analysis) verdictOf(t *rows.Times, d deadline, points []point, start, end, anchor int64, failed bool) {
	t.BudgetNS = d.budget
	if d.known {
		at := d.at
		t.DeadlineAt = a.num(at)
		t.DeadlineSource = d.source
		if d.inherited {
			t.DeadlineSource = rows.DeadlineInherited
		}
		missed := end > at || failed && end >= at-min(capTolerance(at-anchor), max((at-anchor)/4, 0))
		t.DeadlineMissed = &no
		if missed {
			t.DeadlineMissed = &yes
		}
		if missed {
			t.MissCause = missCause(d, start, end, anchor)
		}
		if end > at && d.stated {
			points = append(slices.Clone(points), point{truly: at - end, drift: end - at})
		}
	}
	best := -1
	for i, p := range points {
		if p.stated && p.perceived == nil {
			continue // told, but no deadline is known to compare with
		}
		if best < 0 || p.drift > points[best].drift {
			best = i
		}
	}
	if best >= 0 {
		p := &points[best]
		t.PerceivedRemainingNS, t.TrueRemainingNS, t.DriftNS = p.perceived, a.num(p.truly), a.num(p.drift)
	}
}

// yes and no are what rows point to; nobody writes through a row's pointers.
var yes, no = true, false

// missCause says whether work missed its deadline by itself, or because what ran before
// it had spent an inherited budget.
func missCause(d deadline, start, end, anchor int64) string {
	took, before := end-start, start-anchor
	if d.inherited {
		if d.budget != nil && took < *d.budget-capTolerance(*d.budget) || d.budget == nil && before > took {
			return rows.MissInherited
		}
		return rows.MissOwn
	}
	if before > took {
		return rows.MissInherited
	}
	return rows.MissOwn
}
