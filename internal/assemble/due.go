package assemble

import "container/heap"

// dueQueue orders traces by the time they need attention, then by age, so that
// equal inputs give equal outputs.
type dueQueue[P any] []*entry[P]

func (q dueQueue[P]) Len() int { return len(q) }

func (q dueQueue[P]) Less(i, j int) bool {
	if q[i].due != q[j].due {
		return q[i].due < q[j].due
	}
	return q[i].seq < q[j].seq
}

func (q dueQueue[P]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].queueIndex, q[j].queueIndex = i, j
}

func (q *dueQueue[P]) Push(x any) {
	e := x.(*entry[P])
	e.queueIndex = len(*q)
	*q = append(*q, e)
}

func (q *dueQueue[P]) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}

var _ heap.Interface = (*dueQueue[int])(nil)
