package detector

import (
	"testing"

	"github.com/stretchr/testify/require"

	"driftline/detector/stats"
	"driftline/detector/store"
)

// Packing keeps what windows are asked for, and one minute leaves nothing in the next.
func TestWorkIsPackedAndUnpacked(t *testing.T) {
	full := store.Work{N: 20, OK: 15, Limited: 18, Past: 4, LimitNS: 30e9, Lost: 1, Declared: 9, Overran: 2, OverranNS: 40e9, DeclaredNS: 5e9, Left: store.Measure{N: 3, Hist: &stats.Hist{}},
		Capped: 2, Uncovered: 1, Known: 17, Missed: 5, Inherited: 3, Own: 2, OKNS: 64e9, BusyNS: 70e9, QueueNS: 2e9, BusySquared: 350}
	for _, ms := range []float64{10, 700, 9000} {
		full.Left.Hist.Add(ms)
	}
	minutes := newBlocks(workFields)
	var none store.Work
	for at, w := range []store.Work{full, {N: 3}, full, none} {
		minutes.put(Slice{}, int64(at), &w)
	}
	var got []store.Work
	minutes.each(Slice{}, allParts, func(_ int64, w *store.Work) {
		kept := *w
		kept.Left.Hist = w.Left.Hist.Clone()
		got = append(got, kept)
	})
	require.Len(t, got, 4)
	for _, at := range []int{0, 2} {
		g := got[at]
		require.Equal(t, full.Left.Hist.Count, g.Left.Hist.Count)
		require.Equal(t, full.Left.Hist.Index, g.Left.Hist.Index)
		for _, p := range [][2]*int64{{&full.LimitNS, &g.LimitNS}, {&full.OverranNS, &g.OverranNS}, {&full.DeclaredNS, &g.DeclaredNS}, {&full.OKNS, &g.OKNS}, {&full.BusyNS, &g.BusyNS}, {&full.QueueNS, &g.QueueNS}} {
			require.InEpsilon(t, *p[0], *p[1], 1.0/(1<<16))
			*p[1] = *p[0]
		}
		require.InEpsilon(t, full.BusySquared, g.BusySquared, 1.0/(1<<16))
		g.BusySquared, g.Left.Hist = full.BusySquared, full.Left.Hist
		require.Equal(t, full, g)
	}
	for at, n := range map[int]uint64{1: 3, 3: 0} {
		require.Empty(t, got[at].Left.Hist.Count)
		got[at].Left.Hist = nil
		require.Equal(t, store.Work{N: n}, got[at])
	}

	blocks := newBlocks(workBlockFields)
	block := workBlock{n: 300, limited: 290, past: 4, lost: 1, declared: 200, overran: 3, left: 280, doomed: 7, missed: 9, known: 299, inherited: 2, own: 5, ok: 2, p95: 4, queue: 0.5, load: 8, most: 14}
	for at, b := range []workBlock{block, {n: 1}, block} {
		blocks.put(Slice{}, int64(at), &b)
	}
	var all []workBlock
	blocks.each(Slice{}, allParts, func(_ int64, b *workBlock) { all = append(all, *b) })
	require.Equal(t, []workBlock{block, {n: 1}, block}, all)
}
