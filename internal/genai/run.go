package genai

// Analyze understands a trace and gives every row that follows from it. It is pure: the
// same set of spans gives the same rows, in whatever order and however often each span
// is given. It never panics on strange input; spans without an id are left out.
func Analyze(t Trace, opt Options) Result {
	a := newAnalysis(&t, &opt).withLostCalls()
	defer func() { a.room.release() }()
	res := Result{SkewedSpans: a.skewed}
	for i := range a.nodes {
		res.GenAI = res.GenAI || a.nodes[i].class.operation()
		if a.nodes[i].lost {
			res.Partial = append(res.Partial, a.nodes[i].SpanID)
		}
	}
	a.readRunning()
	res.GenAI = res.GenAI || a.running != nil
	if !res.GenAI {
		return res
	}
	a.fold()
	a.findRequests()
	a.linkSiblings()
	a.listInner()
	if !t.Complete { // the whole of a complete trace is known by its rows
		for i := range a.nodes {
			if n := &a.nodes[i]; n.absorbed >= 0 && n.class.operation() {
				res.Absorbed = append(res.Absorbed, n.SpanID)
			}
		}
	}
	a.buildOperations()
	a.findFallbacks()
	a.findWasted()
	a.boundRequests()
	a.findStatedBudgets()
	a.readDeadlines()
	for i := range a.ops {
		o := &a.ops[i]
		a.readTokenTimes(o)
		a.divide(o)
		a.ops[i].finished = a.isFinished(o)
	}
	a.walked = empty(&a.room.walked, 32)
	a.markBelow()
	a.sumOperations()
	a.nameAgents()
	if t.Complete {
		a.walkRequests()
	}
	a.emit(&res)
	return res
}

// listInner notes which spans each operation's span absorbed, outer ones first.
func (a *analysis) listInner() {
	for _, i := range a.order {
		m := a.nodes[i].absorbed
		if m < 0 {
			continue
		}
		if outer := a.nodes[m].absorbed; outer >= 0 {
			m = outer // resolved already, since parents come first
			a.nodes[i].absorbed = m
		}
		if a.inner == nil {
			a.inner = map[int32][]int32{}
		}
		a.inner[m] = append(a.inner[m], i)
	}
}

// isFinished says whether an operation's rows can be sent: a failed last attempt is
// given some time for a next one.
func (a *analysis) isFinished(o *op) bool {
	if a.t.Complete {
		return true
	}
	last := &a.nodes[o.lastMember()]
	return !last.failed() || !retryable(last.errClass) || a.t.Now-o.end >= a.t.AttemptWait
}
