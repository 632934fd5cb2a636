package genai

// op is one logical call.
type op struct {
	members    []int32 // the spans tried one after another; usually one
	start, end int64
	parent     int32 // enclosing operation, -1 for none
	request    int32 // -1 while unknown
	tries      []try
	top        []int32 // outermost tries in order, as indices of tries
	attempts   *uint32
	marked     uint32 // tries that events tell of, also those that are only counted
	leaves     *uint32
	source     string
	pieces     []piece // partition of start..end, before nested operations
	hidden     *int64
	dead       bool // lies inside a failed try of an enclosing operation
	tok        tokenTimes
	ownPath    segmentSums // partition of start..end, nested operations included
	path       segmentSums // share of the request's wall clock
	onPath     bool
	finished   bool
	points     []point
	sources    []*node // the last member and what it absorbed, inner ones only of its last try
	skewed     uint32
	fallbackOf string // the operation that this one took over from
	wasted     *int64
}

// try is one attempt of an operation, on one layer.
type try struct {
	node       int32 // -1 when it has no span of its own
	start, end int64
	errClass   string
	parent     int32 // index of the try around it, -1 for none
	kids       []int32
	ordinal    uint32
	last       bool
	layer      string
	source     string
	backoff    *int64
}

func (o *op) first() int32      { return o.members[0] }
func (o *op) lastMember() int32 { return o.members[len(o.members)-1] }

// buildOperations makes an operation of each chain of operation spans. Spans that are
// roots of requests and agents themselves are not operations.
func (a *analysis) buildOperations() {
	count := 0
	for i := range a.nodes {
		if a.nodes[i].class.operation() && a.nodes[i].absorbed < 0 && a.nodes[i].prev < 0 {
			count++
		}
	}
	r := a.room
	a.ops = empty(&r.ops, count)
	members, sources := empty(&r.members, len(a.nodes)), empty(&r.sources, count)
	a.pieces = empty(&r.pieces, 6*count)
	for i := range a.nodes {
		n := &a.nodes[i]
		if !n.class.operation() || n.absorbed >= 0 || n.prev >= 0 || a.isRequestAgent(int32(i)) {
			continue
		}
		id := int32(len(a.ops))
		o := op{parent: -1, request: -1, start: n.start}
		from := len(members)
		for m := int32(i); m >= 0; m = a.nodes[m].next {
			members = append(members, m)
			a.nodes[m].op = id
			o.end = max(o.end, a.nodes[m].end)
		}
		o.members = members[from:len(members):len(members)]
		sources = append(sources, &a.nodes[o.lastMember()])
		o.sources = sources[len(sources)-1 : len(sources) : len(sources)]
		for _, k := range a.inner[o.lastMember()] {
			if a.nodes[k].next < 0 { // the inner spans of its last try
				o.sources = append(o.sources, &a.nodes[k])
			}
		}
		a.ops = append(a.ops, o)
	}
	for _, i := range a.order { // parents first
		n := &a.nodes[i]
		if n.parent < 0 {
			continue
		}
		if n.op < 0 {
			n.op = a.nodes[n.parent].op
		}
	}
	for i := range a.ops {
		o := &a.ops[i]
		if p := a.nodes[o.first()].parent; p >= 0 {
			o.parent = a.nodes[p].op
		}
	}
	a.markTries()
	for i := range a.ops {
		a.findTriesInRoom(&a.ops[i])
	}
	a.markDead()
	for i := range a.nodes {
		if n := &a.nodes[i]; n.skewed && n.op >= 0 {
			a.ops[n.op].skewed++
		}
	}
}

// findTriesInRoom lets o's tries grow in room that all operations share.
func (a *analysis) findTriesInRoom(o *op) {
	if a.tryRoom == nil {
		a.tryRoom, a.topRoom = empty(&a.room.tries, len(a.nodes)), empty(&a.room.tops, len(a.nodes))
	}
	o.tries, o.top = a.tryRoom[len(a.tryRoom):], a.topRoom[len(a.topRoom):]
	a.findTries(o)
	o.tries, o.top = o.tries[:len(o.tries):len(o.tries)], o.top[:len(o.top):len(o.top)]
	if n := len(a.tryRoom) + len(o.tries); n <= cap(a.tryRoom) {
		a.tryRoom = a.tryRoom[:n]
	}
	if n := len(a.topRoom) + len(o.top); n <= cap(a.topRoom) {
		a.topRoom = a.topRoom[:n]
	}
}

// markTries says for each span whether attempts may lie in its subtree.
func (a *analysis) markTries() {
	for k := len(a.order) - 1; k >= 0; k-- {
		n := &a.nodes[a.order[k]]
		if n.class == classHTTPClient || n.class == classHTTPServer || n.absorbed >= 0 || n.isAttempt() {
			n.hasTry = true
		}
		if n.hasTry && n.parent >= 0 && !(n.class.operation() && n.absorbed < 0) {
			a.nodes[n.parent].hasTry = true
		}
	}
}

// isAttempt knows the spans by which some mark each try of a call, where others write
// an event of that name.
func (n *node) isAttempt() bool {
	return n.class == classPlain && n.Name == "gen_ai.request.attempt"
}

// markDead finds the operations inside a failed try of an agent or tool around them:
// the failed try as a whole is hidden time, so theirs must not count twice.
func (a *analysis) markDead() {
	for _, i := range a.order {
		n := &a.nodes[i]
		if n.op < 0 || a.ops[n.op].first() != i {
			continue
		}
		o := &a.ops[n.op]
		if o.parent < 0 {
			continue
		}
		p := &a.ops[o.parent]
		o.dead = p.dead
		if len(p.members) > 1 && n.opParent >= 0 {
			m := n.opParent
			if outer := a.nodes[m].absorbed; outer >= 0 {
				m = outer
			}
			o.dead = o.dead || m != p.lastMember()
		}
	}
}
