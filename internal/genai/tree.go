package genai

import (
	"cmp"
	"slices"
	"strings"
)

// maxTime bounds instants and durations, so that sums and differences of two never
// overflow. It lies in the year 2116.
const maxTime int64 = 1 << 62

// skewTolerance is how far a span may stick out of its parent before it is counted:
// clocks of one process are read in microseconds.
const skewTolerance = ms

// node is a span in its tree.
type node struct {
	*Span
	set        *Dialects
	f          facts
	rule       *rule // that decided the class; nil for none
	class      class
	kind       string
	start, end int64
	parent     int32 // -1 for a local root
	opParent   int32 // nearest ancestor of an operation class; -1 for none
	op         int32 // the innermost operation around the span or of it; -1 for none
	req        int32 // the request the span belongs to; -1 while unknown
	absorbed   int32 // the operation span that this one repeats; -1 for none
	next       int32 // the try that follows this failed one; -1 for none
	prev       int32
	hasTry     bool // an attempt may lie in the subtree, outside other operations
	below      bool // an operation starts in the subtree
	skewed     bool
	rank       uint8 // highest-ranked segment kind of the subtree
	errClass   string
	errType    string
	status     int
	lost       bool   // put together from its requests: the call's own span never came
	cutShort   bool   // ended without an answer: whoever ended it, it would have taken longer
	asides     uint32 // redirects and challenges before this HTTP request, of the same call
}

func (n *node) failed() bool { return n.errClass != "" }

// analysis is the state of one run.
type analysis struct {
	room        *room
	t           *Trace
	opt         *Options
	nodes       []node  // sorted by start and span id
	order       []int32 // parents before children
	kidOf       []int32 // children of all nodes, grouped by parent
	kidAt       []int32 // where a node's children start in kidOf
	byID        map[string]int32
	ops         []op
	reqs        []request
	skewed      int
	sub         [][]int32  // children of an operation class, by nearest ancestor
	eff         []deadline // each operation's effective deadline
	extra       map[string]*known
	set         *Dialects
	requestKeys [][]string         // configured keys, each in parts
	numbers     []int64            // room for the rows' numbers that may be unknown
	counts      []uint32           // the same for counts
	tryRoom     []try              // room for all operations' tries
	topRoom     []int32            // room for their outermost ones
	pieces      []piece            // room for all operations' pieces
	walked      []block            // the walk's stack of blocks
	inner       map[int32][]int32  // spans that an operation's span absorbed, outer first
	running     *node              // a span that has not ended, by its heartbeats; nil for none
	spread      map[int32][2]int64 // start and end of tries that several requests made side by side
}

// num gives v an address in room that a trace's rows share: they are sent and forgotten
// together, so one allocation holds many.
func (a *analysis) num(v int64) *int64 {
	if len(a.numbers) == cap(a.numbers) {
		a.numbers = make([]int64, 0, 64)
	}
	a.numbers = append(a.numbers, v)
	return &a.numbers[len(a.numbers)-1]
}

// cnt is num for counts.
func (a *analysis) cnt(v uint32) *uint32 {
	if len(a.counts) == cap(a.counts) {
		a.counts = make([]uint32, 0, 32)
	}
	a.counts = append(a.counts, v)
	return &a.counts[len(a.counts)-1]
}

func (a *analysis) kids(i int32) []int32 { return a.kidOf[a.kidAt[i]:a.kidAt[i+1]] }

// newAnalysis removes duplicates, orders the spans, reads their facts and builds the
// tree. Its result does not depend on the order of t.Spans.
func newAnalysis(t *Trace, opt *Options) *analysis {
	r := rooms.Get().(*room)
	a := &analysis{room: r, t: t, requestKeys: opt.requestKeyParts(), opt: opt, extra: opt.extraKeys(), set: opt.set()}
	spans := distinct(empty(&r.spans, len(t.Spans)), t.Spans)
	a.nodes = take(&r.nodes, len(spans))
	total := 0
	for _, s := range spans {
		total += len(s.Attrs)
	}
	arena := empty(&r.facts, total)
	a.byID = r.byID
	for i, s := range spans {
		n := &a.nodes[i]
		n.Span, n.set = s, a.set
		n.start = min(max(s.Start, 0), maxTime)
		n.end = min(max(s.End, 0), maxTime)
		if n.end < n.start {
			n.end = n.start
			n.skewed = true
			a.skewed++
		}
		n.parent, n.opParent, n.op, n.req, n.absorbed, n.next, n.prev = -1, -1, -1, -1, -1, -1, -1
		from := len(arena)
		n.f.list = arena[from:from:min(from+len(s.Attrs), total)]
		n.f.read(a.set, s.Attrs, a.extra)
		// Facts that are set later must not grow into those of the next span.
		n.f.list = n.f.list[:len(n.f.list):len(n.f.list)]
		arena = arena[:from+len(n.f.list)]
		var v verdict
		v, n.rule = a.set.classify(s, &n.f)
		n.class, n.kind = v.class, v.kind
		n.readError()
		a.byID[s.SpanID] = int32(i)
	}
	a.link()
	return a
}

// distinct appends in to the empty spans and drops spans without an id and all but one of each id, and sorts by start,
// then span id.
func distinct(spans []*Span, in []Span) []*Span {
	for i := range in {
		if in[i].SpanID != "" {
			spans = append(spans, &in[i])
		}
	}
	slices.SortFunc(spans, func(x, y *Span) int {
		if c := strings.Compare(x.SpanID, y.SpanID); c != 0 {
			return c
		}
		return compareVersions(x, y)
	})
	spans = slices.CompactFunc(spans, func(x, y *Span) bool { return x.SpanID == y.SpanID })
	slices.SortFunc(spans, func(x, y *Span) int {
		if c := cmp.Compare(min(max(x.Start, 0), maxTime), min(max(y.Start, 0), maxTime)); c != 0 {
			return c
		}
		return strings.Compare(x.SpanID, y.SpanID)
	})
	return spans
}

// compareVersions orders two spans of one id, the one to keep first: the later end,
// then the one that says more, then by content.
func compareVersions(x, y *Span) int {
	return cmp.Or(
		cmp.Compare(y.End, x.End),
		cmp.Compare(len(y.Attrs)+len(y.Events), len(x.Attrs)+len(x.Events)),
		cmp.Compare(x.Start, y.Start),
		strings.Compare(x.TraceID, y.TraceID),
		strings.Compare(x.ParentID, y.ParentID),
		strings.Compare(x.Name, y.Name),
		cmp.Compare(y.Status, x.Status),
		cmp.Compare(x.Kind, y.Kind),
		strings.Compare(x.Scope, y.Scope),
		strings.Compare(x.TraceState, y.TraceState),
		slices.Compare(x.LinkedTraces, y.LinkedTraces),
		compareAttrs(x.Attrs, y.Attrs),
		compareFlags(x.EventsDropped, y.EventsDropped),
		slices.CompareFunc(x.Events, y.Events, func(e, g Event) int {
			return cmp.Or(cmp.Compare(e.Time, g.Time), strings.Compare(e.Name, g.Name), compareAttrs(e.Attrs, g.Attrs))
		}),
		strings.Compare(x.resource().ServiceName, y.resource().ServiceName),
		strings.Compare(x.resource().HostID, y.resource().HostID),
		strings.Compare(x.resource().ServiceVersion, y.resource().ServiceVersion),
		strings.Compare(x.resource().Environment, y.resource().Environment),
	)
}

func compareFlags(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

func compareAttrs(x, y []Attr) int {
	return slices.CompareFunc(x, y, func(a, b Attr) int {
		return cmp.Or(
			strings.Compare(a.Key, b.Key), cmp.Compare(a.Value.Type, b.Value.Type),
			strings.Compare(a.Value.Str, b.Value.Str), cmp.Compare(a.Value.Int, b.Value.Int),
			cmp.Compare(a.Value.Double, b.Value.Double), compareFlags(a.Value.Bool, b.Value.Bool), slices.Compare(a.Value.List, b.Value.List),
		)
	})
}

var noResource Resource

// resource is the span's resource, never nil.
func (s *Span) resource() *Resource {
	if s.Resource == nil {
		return &noResource
	}
	return s.Resource
}

// link finds parents, cuts cycles, groups children and counts skew.
func (a *analysis) link() {
	count := len(a.nodes)
	for i := range a.nodes {
		if p, ok := a.byID[a.nodes[i].ParentID]; ok && p != int32(i) {
			a.nodes[i].parent = p
		}
	}
	a.cutCycles()
	a.adoptTwins()
	a.kidAt = take(&a.room.kidAt, count+1)
	for i := range a.nodes {
		if p := a.nodes[i].parent; p >= 0 {
			a.kidAt[p+1]++
		}
	}
	for i := range count {
		a.kidAt[i+1] += a.kidAt[i]
	}
	a.kidOf = take(&a.room.kidOf, int(a.kidAt[count]))
	fill := take(&a.room.fill, count)
	copy(fill, a.kidAt)
	for i := range a.nodes {
		if p := a.nodes[i].parent; p >= 0 {
			a.kidOf[fill[p]] = int32(i)
			fill[p]++
		}
	}
	a.order = empty(&a.room.order, count)
	for i := range a.nodes {
		if a.nodes[i].parent < 0 {
			a.order = append(a.order, int32(i))
		}
	}
	for at := 0; at < len(a.order); at++ {
		a.order = append(a.order, a.kids(a.order[at])...)
	}
	for i := range a.nodes {
		a.countSkew(&a.nodes[i])
	}
}

// cutCycles makes the first span of each ring of parents a local root.
func (a *analysis) cutCycles() {
	state := make([]uint8, len(a.nodes)) // 0 new, 1 on the way, 2 done
	var way []int32
	for i := range a.nodes {
		way = way[:0]
		at := int32(i)
		for at >= 0 && state[at] == 0 {
			state[at] = 1
			way = append(way, at)
			at = a.nodes[at].parent
		}
		if at >= 0 && state[at] == 1 {
			first := at
			for p := a.nodes[at].parent; p != at; p = a.nodes[p].parent {
				first = min(first, p)
			}
			a.nodes[first].parent = -1
		}
		for _, w := range way {
			state[w] = 2
		}
	}
}

// countSkew marks a span that lies outside its parent. A child that only outlives a
// parent which gave up is no skew: the work went on.
func (a *analysis) countSkew(n *node) {
	if n.parent < 0 {
		return
	}
	p := &a.nodes[n.parent]
	early := n.start < p.start-skewTolerance || n.start > p.end+skewTolerance
	late := n.end > p.end+skewTolerance && !p.failed()
	if (early || late) && !n.skewed {
		n.skewed = true
		a.skewed++
	}
}
