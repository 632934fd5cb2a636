package genai

import (
	"cmp"
	"slices"
)

// block is what the critical path can enter: an operation, or a plain span with
// operations below it. Plain spans without any are part of the time around them.
type block struct {
	start, end int64
	rank       uint8
	op         int32 // -1 for a plain span
	node       int32
}

// slice is a stretch of the critical path.
type slice struct {
	piece
	op int32 // -1 for time of no operation
}

// markBelow says for each span whether an operation starts in its subtree, and ranks it
// by the highest segment kind there.
func (a *analysis) markBelow() {
	for i := range a.nodes {
		a.nodes[i].rank = segUnattributed
	}
	for k := len(a.order) - 1; k >= 0; k-- {
		i := a.order[k]
		n := &a.nodes[i]
		if n.op >= 0 && a.ops[n.op].first() == i {
			n.below = true
			for _, p := range a.ops[n.op].pieces {
				n.rank = min(n.rank, p.kind)
			}
		}
		if n.below && n.parent >= 0 {
			p := &a.nodes[n.parent]
			p.below = true
			p.rank = min(p.rank, n.rank)
		}
	}
}

// blocks appends the blocks directly below span i to out.
func (a *analysis) blocks(out []block, i int32) []block {
	for _, k := range a.kids(i) {
		out = a.block(out, k)
	}
	return out
}

func (a *analysis) block(out []block, k int32) []block {
	n := &a.nodes[k]
	if n.class.operation() && n.absorbed < 0 && n.op >= 0 {
		switch o := &a.ops[n.op]; {
		case n.prev >= 0:
			return out // a later try of an operation that has its block
		case o.first() == k:
			return append(out, block{o.start, o.end, n.rank, n.op, k})
		}
	}
	if !n.below {
		return out
	}
	return append(out, block{n.start, n.end, n.rank, -1, k})
}

// walker goes back along the critical path. Time that no block covers belongs to the
// operation around it (around), or to own where there is none.
type walker struct {
	a    *analysis
	own  uint8
	emit func(start, end int64, kind uint8, op int32, ordinal uint32) // nil for sums only
	sums *segmentSums
	memo bool
}

// maxClipped bounds how deep clipped operations are walked for an operation's own sums.
const maxClipped = 48

// run walks the blocks within [lo, hi] from the end: at each instant it enters a block
// that still ran there, by rank and then the one that began first, and otherwise the
// one that ended last before. around is the operation whose own time lies between.
func (w *walker) run(blocks []block, lo, hi int64, around int32, depth int) {
	slices.SortFunc(blocks, func(x, y block) int {
		return cmp.Or(cmp.Compare(y.end, x.end), cmp.Compare(x.rank, y.rank), cmp.Compare(x.start, y.start), cmp.Compare(x.node, y.node))
	})
	var best [numSegments]int
	for r := range best {
		best[r] = -1
	}
	cursor, next := hi, 0
	for cursor > lo {
		for next < len(blocks) && blocks[next].end >= cursor {
			b := &blocks[next]
			if have := best[b.rank]; b.start < cursor && (have < 0 || b.start < blocks[have].start) {
				best[b.rank] = next
			}
			next++
		}
		pick := -1
		for r, k := range best {
			if k < 0 {
				continue
			}
			best[r] = k
			if blocks[k].start >= cursor {
				best[r] = -1
				continue
			}
			pick = k
			best[r] = -1
			break
		}
		if pick < 0 {
			end := lo
			if next < len(blocks) {
				end = max(blocks[next].end, lo)
			}
			w.self(end, cursor, around)
			cursor = end
			continue
		}
		start := max(blocks[pick].start, lo)
		w.enter(blocks[pick], start, cursor, around, depth+1)
		cursor = start
	}
}

func (w *walker) enter(b block, lo, hi int64, around int32, depth int) {
	if b.op < 0 {
		w.under(b.node, lo, hi, around, depth)
		return
	}
	o := &w.a.ops[b.op]
	if w.memo && lo <= o.start && hi >= o.end {
		w.sums.add(&o.ownPath)
		return
	}
	if w.memo && depth > maxClipped {
		w.self(lo, hi, b.op)
		return
	}
	w.under(o.lastMember(), lo, hi, b.op, depth)
}

// under walks the blocks directly below span i.
func (w *walker) under(i int32, lo, hi int64, around int32, depth int) {
	a := w.a
	from := len(a.walked)
	a.walked = a.blocks(a.walked, i)
	w.run(a.walked[from:], lo, hi, around, depth)
	a.walked = a.walked[:from]
}

// self charges [lo, hi] to the operation around it, latest piece first.
func (w *walker) self(lo, hi int64, around int32) {
	if hi <= lo {
		return
	}
	if around < 0 {
		w.charge(lo, hi, w.own, -1, 0)
		return
	}
	pieces := w.a.ops[around].pieces
	at := hi
	for k := w.a.pieceAt(pieces, hi); k >= 0 && at > lo; k-- {
		p := &pieces[k]
		start, end := max(p.start, lo), min(p.end, at)
		if end <= start {
			continue
		}
		w.charge(start, end, p.kind, around, p.ordinal)
		at = start
	}
	if at > lo {
		// Only a clock that ran backwards gets here: time before the operation began.
		w.charge(lo, at, w.own, -1, 0)
	}
}

// pieceAt is the index of the last piece that starts before at, -1 for none.
func (a *analysis) pieceAt(pieces []piece, at int64) int {
	k, _ := slices.BinarySearchFunc(pieces, at, func(p piece, t int64) int { return cmp.Compare(p.start, t) })
	return k - 1
}

func (w *walker) charge(start, end int64, kind uint8, op int32, ordinal uint32) {
	if w.sums != nil {
		w.sums[kind] += end - start
	}
	if w.emit != nil {
		w.emit(start, end, kind, op, ordinal)
	}
}

// sumOperations fills each operation's own partition, inner operations first.
func (a *analysis) sumOperations() {
	for k := len(a.order) - 1; k >= 0; k-- {
		i := a.order[k]
		n := &a.nodes[i]
		if n.op < 0 || a.ops[n.op].first() != i {
			continue
		}
		o := &a.ops[n.op]
		w := walker{a: a, own: segUnattributed, sums: &o.ownPath, memo: true}
		w.under(o.lastMember(), o.start, o.end, n.op, 0)
	}
}
