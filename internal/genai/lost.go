package genai

import (
	"slices"

	"driftline/internal/rows"
)

// Some instrumentations never end the span of a call that throws. Its requests arrive as
// HTTP spans whose parent never does. What follows makes one call of them.

// PartialKey is the attribute of rows about a call that was put together from parts, and
// CallSpanMissing its value where the call's own span never came.
const (
	PartialKey      = "driftline.partial"
	CallSpanMissing = "call_span_missing"
)

// lostCall is a call whose own span never came.
type lostCall struct {
	span Span
	kind string
	// last is the id of its last request's span; unanswered says that this got no answer, and
	// nobody noted why.
	last       string
	unanswered bool
}

// mayMissCalls says whether a span that is not there will not come any more. A trace that
// was evicted or shut down may well have calls that still run, and one that was cut or
// forgotten misses spans by itself.
func (t *Trace) mayMissCalls() bool {
	if (t.Reason == rows.ReleaseEvicted || t.Reason == rows.ReleaseShutdown) && !t.HadPartial {
		return false
	}
	return t.Complete && !t.Truncated && !t.LateFragment
}

// lostCalls finds, for each parent that never came, whether its children are the failed
// requests of one model call. A call that was answered is left alone: its span is more
// likely on its way than lost.
func (a *analysis) lostCalls() []lostCall {
	var parents []string
	var children map[string][]int32
	for i := range a.nodes {
		n := &a.nodes[i]
		if n.parent >= 0 || n.ParentID == "" || n.ParentID == n.SpanID {
			continue
		}
		if _, there := a.byID[n.ParentID]; there {
			continue
		}
		if children == nil {
			children = map[string][]int32{}
		}
		if children[n.ParentID] == nil {
			parents = append(parents, n.ParentID)
		}
		children[n.ParentID] = append(children[n.ParentID], int32(i))
	}
	var out []lostCall
	for _, p := range parents {
		if c, ok := a.lostCall(p, children[p]); ok {
			out = append(out, c)
		}
	}
	return out
}

// lostCall makes a call of the requests below a missing parent, by start, if they can be
// nothing else: one service's, to endpoints of models of one kind, one after another, none
// answered well. Its times are theirs.
func (a *analysis) lostCall(parent string, children []int32) (lostCall, bool) {
	var c lostCall
	var asked []int32
	first := &a.nodes[children[0]]
	for _, i := range children {
		n := &a.nodes[i]
		if n.class != classHTTPClient || *n.resource() != *first.resource() {
			return c, false
		}
		kind := n.place().modelKind()
		if kind == "" {
			continue // a token fetched, a file sent
		}
		if c.kind != "" && kind != c.kind || n.status != 0 && !n.failed() || n.Status == StatusOK {
			return c, false
		}
		if len(asked) > 0 && n.start < a.nodes[asked[len(asked)-1]].end-overlap {
			return c, false // side by side: several calls
		}
		c.kind = kind
		asked = append(asked, i)
	}
	if len(asked) == 0 {
		return c, false
	}
	last := &a.nodes[asked[len(asked)-1]]
	if a.wentOn(last, c.kind) {
		return c, false
	}
	c.span = Span{
		TraceID: first.TraceID, SpanID: parent, ParentID: parent + ".", // the parent's own is not known
		TraceState: first.TraceState, Name: c.kind, Kind: KindClient, Status: StatusError, Start: first.start, Resource: first.Resource,
	}
	gaveUp := 0
	for _, i := range asked {
		n := &a.nodes[i]
		c.span.End = max(c.span.End, n.end)
		if c.unanswered = n.status == 0 && !n.failed(); c.unanswered {
			gaveUp++
		}
		c.last = n.SpanID
		for _, x := range n.Attrs {
			if k := a.set.keys[x.Key]; k != nil && (k.slot == slotModel || k.slot == slotProvider) {
				c.span.Attrs = append(c.span.Attrs, x)
			}
		}
	}
	if c.unanswered && gaveUp > 1 {
		// A client that goes on after it gave up gives up by its timeout; one that gives up once
		// may have been told to.
		c.span.Attrs = append(c.span.Attrs, Attr{"error.type", StringValue(rows.ClassTimeout)})
	}
	return c, true
}

// wentOn says whether a model call of the same kind and service began after the request n,
// to its server: then n may be a try of that call, whose own span began anew.
func (a *analysis) wentOn(n *node, kind string) bool {
	host := n.host()
	for i := range a.nodes {
		m := &a.nodes[i]
		if m.class != classModel || m.start < n.end-chainSlack || m.start-n.end > maxBackoff ||
			(m.kind == rows.KindEmbeddings) != (kind == rows.KindEmbeddings) || m.resource().ServiceName != n.resource().ServiceName {
			continue
		}
		if s := a.serverOf(int32(i)); s == "" || host == "" || s == host {
			return true
		}
	}
	return false
}

// withLostCalls gives the analysis of the trace with the spans of lost calls put back, or
// the one that it was given where none was lost.
func (a *analysis) withLostCalls() *analysis {
	if !a.t.mayMissCalls() {
		return a
	}
	lost := a.lostCalls()
	if len(lost) == 0 {
		return a
	}
	t, opt := a.t, a.opt
	t.Spans = slices.Clip(t.Spans)
	for i := range lost {
		t.Spans = append(t.Spans, lost[i].span)
	}
	a.room.release()
	a = newAnalysis(t, opt)
	for _, c := range lost {
		n := &a.nodes[a.byID[c.span.SpanID]]
		n.class, n.kind, n.rule, n.lost, n.cutShort = classModel, c.kind, nil, true, c.unanswered
		if c.unanswered {
			a.nodes[a.byID[c.last]].cutShort = true
		}
	}
	return a
}
