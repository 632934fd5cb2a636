package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"driftline/detector/store"
	"driftline/internal/rows"
)

// attemptKey is a cell of rollup_attempts, which divides by more than a store.AttemptCell.
type attemptKey struct {
	slice                      store.Slice
	endpoint, layer, ord, errs string
	atCap                      bool
}

type attemptCell struct {
	leaf     uint64
	duration store.Measure
}

// n counts tries that are no late fragments.
func (c *attemptCell) n() uint64 { return c.duration.N }

func (s *Store) attempt(a *rows.Attempt) {
	if a.Deleted || a.LateFragment {
		return
	}
	m, _ := s.at(a.ServiceName, a.EndedAt)
	k := attemptKey{store.Slice{Service: a.ServiceName, Agent: a.Agent, Kind: a.Kind, Target: a.Target}, a.Endpoint, a.Layer, retriesBucket(&a.Ordinal, 1), a.ErrorClass, a.AtCap}
	c := m.atts[k]
	if c == nil {
		c = &attemptCell{}
		m.atts[k] = c
	}
	count(&c.leaf, a.Leaf)
	known(&c.duration, &a.DurationNS)
}

// cut says whether the tries were ended before they were done, as the store's query does.
func (k attemptKey) cut(c *attemptCell) bool {
	return c.leaf > 0 && (k.errs == rows.ClassTimeout || k.errs == rows.ClassCancelled || k.atCap)
}

// AttemptCells reads the tries of all slices with minutes in [from, to).
func (s *Store) AttemptCells(_ context.Context, from, to time.Time) ([]store.AttemptCell, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []store.AttemptCell
	for at := from.Unix(); at < to.Unix(); at += 60 {
		m := s.minutes[at]
		if m == nil {
			continue
		}
		type key struct {
			slice           store.Slice
			endpoint, layer string
		}
		cells := map[key]*store.AttemptCell{}
		for k, c := range m.atts {
			t := cells[key{k.slice, k.endpoint, k.layer}]
			if t == nil {
				t = &store.AttemptCell{Slice: k.slice, Minute: time.Unix(at, 0).UTC(), Endpoint: k.endpoint, Layer: k.layer}
				own(&t.Cut)
				cells[key{k.slice, k.endpoint, k.layer}] = t
			}
			t.N += c.n()
			t.Leaf += c.leaf
			for _, of := range []struct {
				n    *uint64
				when bool
			}{{&t.Extra, k.ord != "0"}, {&t.Failed, k.errs != ""}, {&t.Timeouts, k.errs == rows.ClassTimeout || k.atCap},
				{&t.Overloads, k.errs == rows.ClassOverload}, {&t.CutAtCap, c.leaf > 0 && k.atCap}} {
				if of.when {
					*of.n += c.n()
				}
			}
			if k.cut(c) {
				t.Cut.Add(c.duration)
			}
		}
		for _, t := range cells {
			out = append(out, *t)
		}
	}
	slices.SortFunc(out, func(a, b store.AttemptCell) int {
		return cmp.Or(compareSlices(a.Slice, b.Slice), a.Minute.Compare(b.Minute), cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Layer, b.Layer))
	})
	return out, nil
}

// AttemptHistory reads the blocks of so many minutes in [from, to) for baselines.
func (s *Store) AttemptHistory(_ context.Context, from, to time.Time, block time.Duration) ([]store.AttemptBlock, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type key struct {
		slice store.Slice
		at    int64
		layer string
	}
	blocks := map[key]*store.AttemptBlock{}
	for at := from.Unix(); at < to.Unix(); at += 60 {
		m := s.minutes[at]
		if m == nil {
			continue
		}
		start := at - mod(at, int64(block/time.Second))
		for k, c := range m.atts {
			b := blocks[key{k.slice, start, k.layer}]
			if b == nil {
				b = &store.AttemptBlock{Slice: k.slice, At: time.Unix(start, 0).UTC(), Layer: k.layer}
				blocks[key{k.slice, start, k.layer}] = b
			}
			b.N += c.n()
			b.Leaf += c.leaf
			if k.ord != "0" {
				b.Extra += c.n()
			}
			if k.errs != "" {
				b.Failed += c.n()
			}
			if k.cut(c) {
				b.Cut += c.n()
			}
		}
	}
	out := make([]store.AttemptBlock, 0, len(blocks))
	for _, b := range blocks {
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b store.AttemptBlock) int {
		return cmp.Or(compareSlices(a.Slice, b.Slice), a.At.Compare(b.At), cmp.Compare(a.Layer, b.Layer))
	})
	return out, nil
}

// Timeouts reads the timeouts of a slice's operations that ended in [from, to), both whole minutes.
func (s *Store) Timeouts(_ context.Context, slice store.Slice, from, to time.Time) (store.Timeouts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out store.Timeouts
	var values []int64
	for _, m := range s.between(from, to) {
		if d := m.timeouts[slice]; d != nil {
			out.N += d.n
			values = append(values, d.values...)
		}
	}
	if out.Known = uint64(len(values)); out.Known > 0 {
		slices.Sort(values)
		out.MedianNS = values[len(values)/2]
	}
	return out, nil
}
