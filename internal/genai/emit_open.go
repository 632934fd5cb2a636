package genai

import "driftline/internal/rows"

// readRunning reads what the span says that its heartbeats show.
func (a *analysis) readRunning() {
	s := a.t.Running
	if s == nil {
		return
	}
	n := &node{Span: s, set: a.set, start: min(max(s.Start, 0), maxTime)}
	n.f.read(a.set, s.Attrs, a.extra)
	v, rule := a.set.classify(s, &n.f)
	n.class, n.kind, n.rule = v.class, v.kind, rule
	a.running = n
}

// clockTolerance is how far ahead a sender's clock may be for its instants to be taken as
// they are.
const clockTolerance = 60 * sec

// openRow is the snapshot of a trace whose root has not ended, nil where nothing is known
// to be open.
func (a *analysis) openRow() *rows.OpenRequest {
	first := a.firstOpen()
	if first == nil {
		return nil
	}
	row := &rows.OpenRequest{
		Common: a.common(first), ObservedAt: a.t.Now, StartedAt: first.start, LastSpanAt: max(a.t.LastHeartbeat, 0),
		Spans: uint32(len(a.nodes) + a.t.Heartbeats), Operations: uint32(len(a.ops)),
	}
	anchor := first.start
	came := a.t.Now // no span ended after it came: what a clock far ahead claims would hide silence
	if a.t.LastArrival > 0 {
		came = min(came, a.t.LastArrival)
	}
	look := func(n *node) {
		if row.Agent == "" {
			if row.Agent = n.statedAgent(); n.class == classAgent {
				row.Agent = n.agentName()
			}
		}
		if at, ok := n.f.positive(slotReceived); ok && first.start-at < maxReceiptAge && at < anchor {
			anchor = at
		}
	}
	if a.running != nil {
		look(a.running)
	}
	for _, i := range a.order {
		n := &a.nodes[i]
		end := n.end
		if end > came+clockTolerance {
			end = max(came, n.start)
		}
		row.LastSpanAt = max(row.LastSpanAt, end)
		look(n)
	}
	row.Agent = clip(row.Agent, maxName)
	row.AgeNS = max(a.t.Now-anchor, 0)
	a.openDeadline(row, first, anchor)
	for i := range a.ops {
		if a.nodes[a.ops[i].lastMember()].failed() {
			row.FailedOperations++
		}
	}
	return row
}

// firstOpen is the span that began first, by a clock that was set.
func (a *analysis) firstOpen() *node {
	var first *node
	for i := range a.nodes { // by start
		if first == nil {
			first = &a.nodes[i]
		}
		if a.nodes[i].start >= OldestInstant {
			first = &a.nodes[i]
			break
		}
	}
	if r := a.running; r != nil && (first == nil || r.start >= OldestInstant && r.start < first.start) {
		first = r
	}
	return first
}

// openDeadline sets what is known of the request's deadline before its root has come.
func (a *analysis) openDeadline(row *rows.OpenRequest, first *node, anchor int64) {
	stated := func(n *node) bool {
		if n.class != classPlain && n.class != classAgent {
			return false
		}
		d := stateDeadline(&n.f, anchor, false)
		if d.known {
			at := d.at
			row.BudgetNS, row.DeadlineAt = d.budget, &at
		}
		return d.known
	}
	if a.running != nil && stated(a.running) {
		return
	}
	for i := range a.nodes {
		if stated(&a.nodes[i]) {
			return
		}
	}
	if b := a.opt.timeouts(first).Request; b > 0 {
		row.BudgetNS, row.DeadlineAt = ptr(int64(b)), ptr(min(anchor+int64(b), maxTime))
	}
}
