package genai

import (
	"driftline/internal/rows"
)

// request is one user-visible task of the trace.
type request struct {
	id         string
	root       int32   // -1 when the root span was not seen
	roots      []int32 // the root, and local roots that belong to it
	start, end int64   // from receipt to completion
	began      int64   // where the root span began
	incomplete bool
	agent      string
	skewed     uint32
	ops        []int32
	path       []slice // latest first
	sums       segmentSums
	deadline   deadline
	anchor     int64
	budgetNode int32 // the span that stated the budget, -1 for none
	// deadlineNode is the first span below the root that states a budget, -1 for none.
	deadlineNode int32
	// timeNode is the span that reports the agent's time, -1 for none.
	timeNode int32
	points   []point
}

// findRequests gives every span its request. A root without a parent is one; while
// spans may still come, nothing else is. Once complete, local roots whose parent was
// never seen join the root around them, and without any root they are requests of
// their own, several under one missing parent being one.
func (a *analysis) findRequests() {
	var orphans []int32
	for i := range a.nodes {
		n := &a.nodes[i]
		switch {
		case n.parent >= 0:
		case n.ParentID == "":
			a.addRequest(request{id: n.SpanID, root: int32(i), roots: []int32{int32(i)}})
		default:
			orphans = append(orphans, int32(i))
		}
	}
	if whole := len(a.reqs); whole > 0 {
		for _, i := range orphans {
			r := a.around(i)
			a.reqs[r].roots = append(a.reqs[r].roots, i)
			a.reqs[r].incomplete = true
		}
	} else if a.t.Complete {
		a.adoptOrphans(orphans)
	}
	for r := range a.reqs {
		for _, i := range a.reqs[r].roots {
			a.nodes[i].req = int32(r)
		}
	}
	for _, i := range a.order {
		n := &a.nodes[i]
		if n.parent >= 0 {
			n.req = a.nodes[n.parent].req
		}
		if n.req >= 0 && n.skewed {
			a.reqs[n.req].skewed++
		}
	}
}

func (a *analysis) addRequest(r request) {
	r.budgetNode, r.deadlineNode, r.timeNode = -1, -1, -1
	a.reqs = append(a.reqs, r)
}

// around is the request whose root most tightly encloses the start of span i, else the
// first one.
func (a *analysis) around(i int32) int {
	best, length := 0, int64(-1)
	at := a.nodes[i].start
	for r := range a.reqs {
		root := &a.nodes[a.reqs[r].root]
		if at >= root.start && at <= root.end && (length < 0 || root.end-root.start < length) {
			best, length = r, root.end-root.start
		}
	}
	return best
}

// adoptOrphans makes requests of what has no root. Spans below one missing parent are one
// request, which takes the id of the first: the parent's would be the key of a row that
// another collector may write, when the trace was split and the root went there.
func (a *analysis) adoptOrphans(orphans []int32) {
	at := map[string]int{}
	for _, i := range orphans {
		n := &a.nodes[i]
		if r, ok := at[n.ParentID]; ok {
			a.reqs[r].roots = append(a.reqs[r].roots, i)
			continue
		}
		at[n.ParentID] = len(a.reqs)
		a.addRequest(request{id: n.SpanID, root: -1, roots: []int32{i}, incomplete: true})
	}
	for r := range a.reqs {
		if q := &a.reqs[r]; len(q.roots) == 1 {
			q.root = q.roots[0]
		}
	}
}

// isRequestAgent says whether span i is an agent that is itself a request's root.
func (a *analysis) isRequestAgent(i int32) bool {
	n := &a.nodes[i]
	return n.class == classAgent && n.req >= 0 && a.reqs[n.req].root == i
}

// boundRequests sets when each request began and ended, and collects its operations.
func (a *analysis) boundRequests() {
	for i := range a.ops {
		o := &a.ops[i]
		o.request = a.nodes[o.first()].req
		if o.request >= 0 {
			r := &a.reqs[o.request]
			r.ops = append(r.ops, int32(i))
		}
	}
	for r := range a.reqs {
		q := &a.reqs[r]
		if q.root >= 0 {
			n := &a.nodes[q.root]
			q.start, q.end = n.start, n.end
		} else {
			q.start, q.end = a.nodes[q.roots[0]].start, 0
			for _, i := range q.roots {
				q.start, q.end = min(q.start, a.nodes[i].start), max(q.end, a.nodes[i].end)
			}
		}
		q.began, q.anchor = q.start, q.start
		if q.root >= 0 {
			if at, ok := a.nodes[q.root].f.positive(slotReceived); ok && q.start-at < maxReceiptAge && at-q.start < maxReceiptAge {
				q.anchor = at
				q.start = min(q.start, at)
			}
		}
	}
}

// maxReceiptAge is how far a stated receipt may lie from the root's start before it is
// taken for nonsense.
const maxReceiptAge = 24 * 3600 * sec

// walkRequests cuts each request's wall clock along its critical path.
func (a *analysis) walkRequests() {
	for r := range a.reqs {
		q := &a.reqs[r]
		own := segUnattributed
		if q.root >= 0 && a.nodes[q.root].class == classAgent {
			own = segAgent
		}
		w := walker{a: a, own: own, sums: &q.sums, emit: func(start, end int64, kind uint8, op int32, ordinal uint32) {
			if op >= 0 {
				a.ops[op].path[kind] += end - start
			}
			if n := len(q.path); n > 0 {
				last := &q.path[n-1]
				if last.op == op && last.kind == kind && last.ordinal == ordinal {
					last.start = start
					return
				}
			}
			q.path = append(q.path, slice{piece{start, end, kind, ordinal}, op})
		}}
		if len(a.reqs) == 1 {
			q.path = empty(&a.room.path, 2*len(q.ops)+8)
		}
		var blocks []block
		if q.root >= 0 && a.isRequestAgent(q.root) || q.root >= 0 && !a.nodes[q.root].class.operation() {
			blocks = a.blocks(nil, q.root)
			for _, i := range q.roots[1:] {
				blocks = a.block(blocks, i)
			}
		} else {
			for _, i := range q.roots {
				blocks = a.block(blocks, i)
			}
		}
		w.run(blocks, q.began, q.end, -1, 0)
		if q.start < q.began {
			w.charge(q.start, q.began, segQueue, -1, 0) // waiting before the root began
		}
	}
	for i := range a.ops {
		o := &a.ops[i]
		for _, t := range o.path {
			if t > 0 {
				for p := int32(i); p >= 0 && !a.ops[p].onPath; p = a.ops[p].parent {
					a.ops[p].onPath = true
				}
				break
			}
		}
	}
}

// kindOf is the request's kind.
func (a *analysis) kindOf(q *request) string {
	if q.root < 0 {
		return rows.KindOther
	}
	n := &a.nodes[q.root]
	switch {
	case n.class.operation():
		return n.kind
	case n.class == classHTTPServer:
		return rows.KindHTTP
	}
	return rows.KindOther
}

// nameAgents finds the name by which each request's agent goes: the root's, the first
// and outermost agent's below it, a name that other spans state, or the root's name.
func (a *analysis) nameAgents() {
	stated := make([]string, len(a.reqs))
	for _, i := range a.order {
		n := &a.nodes[i]
		if n.req < 0 {
			continue
		}
		q := &a.reqs[n.req]
		if n.class == classAgent && q.agent == "" {
			q.agent = n.agentName()
		}
		if stated[n.req] == "" && n.class != classTool {
			stated[n.req] = n.statedAgent()
		}
	}
	for r := range a.reqs {
		q := &a.reqs[r]
		if q.agent == "" {
			q.agent = stated[r]
		}
		if q.agent == "" && q.root >= 0 {
			q.agent = a.nodes[q.root].Name
		}
		q.agent = clip(q.agent, maxName)
	}
}

const maxName = 256

// statedAgent is the agent's or workflow's name that a span of any class carries.
func (n *node) statedAgent() string {
	if s := n.f.str(slotAgent); s != "" {
		return s
	}
	return n.f.str(slotWorkflow)
}

// agentOf is the name of the agent or workflow nearest around the operation.
func (a *analysis) agentOf(o *op) string {
	for i := a.nodes[o.first()].opParent; i >= 0; i = a.nodes[i].opParent {
		if n := &a.nodes[i]; n.class == classAgent {
			return clip(n.agentName(), maxName)
		}
	}
	if s := a.nodes[o.first()].statedAgent(); s != "" && a.nodes[o.first()].class != classAgent {
		return clip(s, maxName)
	}
	if o.request >= 0 {
		return a.reqs[o.request].agent
	}
	return ""
}
