package detector

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/store"
)

// asked is a store that holds one cell a minute and notes what it is asked for.
type asked struct {
	Store
	reads [][2]time.Time
	n     map[int64]uint64
	fail  bool
}

func (a *asked) OperationCells(_ context.Context, from, to time.Time) (out []store.OperationCell, err error) {
	if a.fail {
		return nil, errors.New("no")
	}
	a.reads = append(a.reads, [2]time.Time{from, to})
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		if n := a.n[at.Unix()]; n > 0 {
			out = append(out, store.OperationCell{Minute: at, N: n})
		}
	}
	return out, nil
}

func (a *asked) RequestCells(_ context.Context, from, to time.Time) (out []store.RequestCell, err error) {
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		out = append(out, store.RequestCell{Minute: at, N: a.n[at.Unix()]})
	}
	return out, nil
}

func (a *asked) AttemptCells(_ context.Context, from, to time.Time) (out []store.AttemptCell, err error) {
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		out = append(out, store.AttemptCell{Minute: at, N: a.n[at.Unix()]})
	}
	return out, nil
}

func TestCellsAreReadOnce(t *testing.T) {
	ctx := context.Background()
	a := &asked{n: map[int64]uint64{}}
	for m := range 40 {
		a.n[t0.Add(time.Duration(m)*time.Minute).Unix()] = uint64(m) // the first has no work
	}
	c := newCells()
	at := func(m int) time.Time { return t0.Add(time.Duration(m) * time.Minute) }
	check := func(from, to int, reads ...[2]int) {
		t.Helper()
		a.reads = nil
		require.NoError(t, c.read(ctx, a, at(from), at(to)))
		var want, got, requests []uint64
		for m := from; m < to; m++ {
			if n := a.n[at(m).Unix()]; n > 0 {
				want = append(want, n)
			}
		}
		c.ops.each(Slice{}, at(from), at(to), allParts, func(o *store.OperationCell) { got = append(got, o.N) })
		c.reqs.each(Slice{}, at(from), at(to), allParts, func(r *store.RequestCell) { requests = append(requests, r.N) })
		require.Equal(t, want, got)
		require.Len(t, requests, to-from)
		var asked [][2]int
		for _, r := range a.reads {
			require.LessOrEqual(t, r[1].Sub(r[0]), MaxMinutesPerRead*time.Minute)
			asked = append(asked, [2]int{int(r[0].Sub(t0).Minutes()), int(r[1].Sub(t0).Minutes())})
		}
		require.Equal(t, reads, asked)
	}
	check(0, 12, [2]int{0, 10}, [2]int{10, 12})
	check(0, 12)
	check(1, 13, [2]int{12, 13})
	require.Len(t, c.ops.loaded, 12, "what is before the window is dropped")
	require.Equal(t, at(1).Unix(), c.ops.bySlice[Slice{}].minutes[0].at)

	// Rows came late for two minutes, one of them was never read.
	a.n[at(3).Unix()] = 300
	c.forget([]int64{at(3).Unix(), at(20).Unix()})
	check(2, 14, [2]int{3, 4}, [2]int{13, 14})

	// The watermark steps back when data begins to come later.
	check(2, 12)
	check(4, 16, [2]int{14, 16})

	a.fail = true
	require.Error(t, c.read(ctx, a, at(5), at(17)))
	a.fail = false
	check(5, 17, [2]int{16, 17})

	c = newCells()
	check(0, 25, [2]int{0, 10}, [2]int{10, 20}, [2]int{20, 25})
}
