package detector

import (
	"context"
	"time"

	"driftline/detector/store"
)

// maxMinutesPerRead bounds the cells read in one query. The engine reads whole granules of
// each service, so a few minutes cost nearly as much as all thirty.
const maxMinutesPerRead = 30

// cells keeps the minutes of the long window between rounds. A round reads the minutes
// that are new and those that rows came late for, not all thirty again.
type cells struct {
	ops  map[int64][]store.OperationCell
	reqs map[int64][]store.RequestCell
}

func newCells() cells {
	return cells{ops: map[int64][]store.OperationCell{}, reqs: map[int64][]store.RequestCell{}}
}

// forget drops minutes (Unix seconds) whose cells were computed anew.
func (c *cells) forget(minutes []int64) {
	for _, m := range minutes {
		delete(c.ops, m)
		delete(c.reqs, m)
	}
}

// read gives the cells of [from, to), whole minutes, in the order of minutes, and drops
// those before from.
func (c *cells) read(ctx context.Context, st Store, from, to time.Time) ([]store.OperationCell, []store.RequestCell, error) {
	for m := range c.ops {
		if m < from.Unix() {
			c.forget([]int64{m})
		}
	}
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		if _, ok := c.ops[at.Unix()]; ok {
			continue
		}
		end := at
		for n := 0; n < maxMinutesPerRead && end.Before(to); n++ {
			if _, ok := c.ops[end.Unix()]; ok {
				break
			}
			end = end.Add(time.Minute)
		}
		if err := c.load(ctx, st, at, end); err != nil {
			return nil, nil, err
		}
	}
	var ops []store.OperationCell
	var reqs []store.RequestCell
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		ops = append(ops, c.ops[at.Unix()]...)
		reqs = append(reqs, c.reqs[at.Unix()]...)
	}
	return ops, reqs, nil
}

func (c *cells) load(ctx context.Context, st Store, from, to time.Time) error {
	ops, err := st.OperationCells(ctx, from, to)
	if err != nil {
		return err
	}
	reqs, err := st.RequestCells(ctx, from, to)
	if err != nil {
		return err
	}
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		c.ops[at.Unix()], c.reqs[at.Unix()] = nil, nil
	}
	for _, o := range ops {
		at := o.Minute.Unix()
		c.ops[at] = append(c.ops[at], o)
	}
	for _, r := range reqs {
		at := r.Minute.Unix()
		c.reqs[at] = append(c.reqs[at], r)
	}
	return nil
}
