package detector

import (
	"context"
	"time"

	"driftline/detector/stats"
	"driftline/detector/store"
	"driftline/internal/rows"
)

// MaxMinutesPerRead bounds the cells read in one query, so that the long window of a thousand
// slices, read at a start, is not one query of over 200 ms; see docs/benchmarks.md.
const MaxMinutesPerRead = 10

// cells keeps the minutes of the long window between rounds. A round reads the minutes
// that are new and those that rows came late for, not all thirty again.
type cells struct {
	ops  recent[store.OperationCell]
	reqs recent[store.RequestCell]
	// atts have no stream.
	atts recent[store.AttemptCell]
	// rows counts the cells read since it was last set to 0.
	rows uint64
	// sums are used again and again.
	sums *windowSums
}

func newCells() cells {
	return cells{
		sums: &windowSums{},
		ops: recent[store.OperationCell]{
			slice:  func(c *store.OperationCell) Slice { return c.Slice },
			minute: func(c *store.OperationCell) time.Time { return c.Minute },
			fields: operationFields,
			count:  countOperations,
			latency: func(c *store.OperationCell) (own, call *stats.Hist) {
				return ownTime(c.Kind, c.Inference, c.Call()).Hist, callTime(c.Kind, c.Call()).Hist
			},
			loaded: map[int64]bool{}, bySlice: map[Slice]*series{},
		},
		reqs: recent[store.RequestCell]{
			slice:  func(c *store.RequestCell) Slice { return c.Slice },
			minute: func(c *store.RequestCell) time.Time { return c.Minute },
			fields: requestFields,
			count:  countRequests,
			loaded: map[int64]bool{}, bySlice: map[Slice]*series{},
		},
		atts: recent[store.AttemptCell]{
			slice:  func(c *store.AttemptCell) Slice { return c.Slice },
			minute: func(c *store.AttemptCell) time.Time { return c.Minute },
			fields: attemptFields,
			count:  func(c *store.AttemptCell) counted { return countedOf(c.N, 0, 0, 0) },
			loaded: map[int64]bool{}, bySlice: map[Slice]*series{},
		},
	}
}

// ownTime is what a slice's latency is judged by: of models inference time, of tools and
// other leaves the time of the call. Agents' and workflows' time is that of the work below.
func ownTime(kind string, inference, call store.Measure) store.Measure {
	switch {
	case modelKind(kind):
		return inference
	case kind == rows.KindAgent || kind == rows.KindWorkflow:
		return store.Measure{}
	}
	return call
}

// callTime is the time of model calls with their ways: connecting and queueing, which
// inference time leaves out. Other slices have it as their own.
func callTime(kind string, call store.Measure) store.Measure {
	if modelKind(kind) {
		return call
	}
	return store.Measure{}
}

func countOperations(c *store.OperationCell) counted {
	n := c.N - c.Late
	switch c.Retries {
	case "0":
		return countedOf(n, c.Status504, n, 0)
	case "1", "2+":
		return countedOf(n, c.Status504, n, n)
	}
	return countedOf(n, c.Status504, 0, 0)
}

func countRequests(c *store.RequestCell) counted {
	extra, known := extraAttempts(c.Attempts, c.Operations, c.AttemptsUnknown)
	return countedOf(c.N-c.Late, c.Status504, known, min(extra, known))
}

// forget drops minutes (Unix seconds) whose cells were computed anew.
func (c *cells) forget(minutes []int64) {
	c.ops.forget(minutes)
	c.reqs.forget(minutes)
	c.atts.forget(minutes)
}

// read loads what is missing of [from, to), whole minutes, and drops what is before from.
func (c *cells) read(ctx context.Context, st Store, from, to time.Time) error {
	c.ops.dropBefore(from.Unix())
	c.reqs.dropBefore(from.Unix())
	c.atts.dropBefore(from.Unix())
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		if c.ops.loaded[at.Unix()] {
			continue
		}
		end := at
		for n := 0; n < MaxMinutesPerRead && end.Before(to) && !c.ops.loaded[end.Unix()]; n++ {
			end = end.Add(time.Minute)
		}
		if err := c.load(ctx, st, at, end); err != nil {
			return err
		}
	}
	return nil
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
	atts, err := st.AttemptCells(ctx, from, to)
	if err != nil {
		return err
	}
	c.rows += uint64(len(ops) + len(reqs) + len(atts))
	c.ops.add(from, to, ops)
	c.atts.add(from, to, atts)
	c.reqs.add(from, to, reqs)
	return nil
}

// services lists the services with work in [from, to).
func (c *cells) services(from, to time.Time) map[string]bool {
	out := map[string]bool{}
	for s, of := range c.ops.bySlice {
		if of.within(from.Unix(), to.Unix()) {
			out[s.Service] = true
		}
	}
	for s, of := range c.reqs.bySlice {
		if of.within(from.Unix(), to.Unix()) {
			out[s.Service] = true
		}
	}
	return out
}
