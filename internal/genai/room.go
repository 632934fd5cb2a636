package genai

import "sync"

// room is the memory of one analysis that no row points into. Analyses run one after
// another all day, and each needs as much of it as its rows take, so it is used again.
type room struct {
	spans   []*Span
	nodes   []node
	facts   []fact
	byID    map[string]int32
	kidOf   []int32
	kidAt   []int32
	fill    []int32
	order   []int32
	sub     [][]int32
	ops     []op
	members []int32
	sources []*node
	pieces  []piece
	tries   []try
	tops    []int32
	eff     []deadline
	path    []slice
	walked  []block
}

// maxRoom is the number of spans above which memory is given back: one huge trace must
// not hold it for ever.
const maxRoom = 2048

var rooms = sync.Pool{New: func() any { return &room{byID: map[string]int32{}} }}

// take gives n zero values from buf, which grows as needed.
func take[T any](buf *[]T, n int) []T {
	if cap(*buf) < n {
		*buf = make([]T, n, n+n/4)
	}
	*buf = (*buf)[:n]
	return *buf
}

// empty gives room for n values to append. More than that grows elsewhere.
func empty[T any](buf *[]T, n int) []T { return take(buf, n)[:0:n] }

// release forgets all that the room held and gives it back. Everything taken is zeroed
// here, so that what is taken next is zero and nothing is kept alive.
func (r *room) release() {
	if len(r.nodes) > maxRoom {
		return
	}
	clear(r.spans)
	clear(r.nodes)
	clear(r.facts)
	clear(r.byID)
	clear(r.kidOf)
	clear(r.kidAt)
	clear(r.fill)
	clear(r.order)
	clear(r.sub)
	clear(r.ops)
	clear(r.members)
	clear(r.sources)
	clear(r.pieces)
	clear(r.tries)
	clear(r.tops)
	clear(r.eff)
	clear(r.path)
	clear(r.walked)
	rooms.Put(r)
}
