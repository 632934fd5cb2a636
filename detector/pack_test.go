package detector

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/stats"
	"driftline/detector/store"
)

// fill sets every field of a cell, but for those that a series has once for all of its
// cells, so that a field which is not packed is noticed.
func fill(t *testing.T, rng *rand.Rand, cell any) {
	v := reflect.ValueOf(cell).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i).Addr().Interface().(type) {
		case *store.Slice, *time.Time:
		case *string:
			*f = []string{"0", "2+", "8-14", "a label of its own"}[rng.IntN(4)]
		case *uint64:
			*f = 1 + rng.Uint64()>>rng.IntN(60)
		case *int64:
			*f = rng.Int64() >> rng.IntN(60) * int64(1-2*rng.IntN(2))
		case *store.Measure:
			*f = store.Measure{N: 1 + rng.Uint64()>>40, SumNS: 1 + rng.Int64()>>20, Hist: &stats.Hist{}}
			for range 1 + rng.IntN(40) {
				f.Hist.AddN([]float64{0, 1e-3, 1e9, 50 * rng.ExpFloat64()}[rng.IntN(4)], 1+rng.Uint64()>>rng.IntN(63))
			}
		default:
			t.Fatalf("%s has a type that is not packed: %T", v.Type().Field(i).Name, f)
		}
	}
}

func packs[C any](t *testing.T, rng *rand.Rand, fields func(*C, *coder)) {
	t.Helper()
	var cells []C
	p := packer()
	for range 200 {
		var c C
		fill(t, rng, &c)
		fields(&c, &p)
		cells = append(cells, c)
	}
	var got C // one cell for all, as a round has it
	u := unpacker(p.out)
	for _, want := range cells {
		fields(&got, &u)
		require.Equal(t, want, got)
	}
	require.Empty(t, u.in)
}

func TestPackedCellsAreTheCells(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	packs(t, rng, operationFields)
	packs(t, rng, requestFields)
	packs(t, rng, attemptFields)
}

func near32(t *testing.T, want, got float32) {
	t.Helper()
	require.InDelta(t, want, got, float64(want)*0x1p-16)
}

func TestPackedBlocksAreTheBlocks(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	minutes := make([]store.OperationMinute, 10)
	requests := make([]store.RequestMinute, 50)
	for _, n := range []int{3, 40, 400} {
		for i := range minutes {
			fill(t, rng, &minutes[i])
			minutes[i].Kind = "chat"
			minutes[i].Call.Hist, _ = stats.HistOf(around(rng, n, 2500, 500))
			minutes[i].Inference.Hist, _ = stats.HistOf(around(rng, n, 2000, 500))
		}
		for i := range requests {
			fill(t, rng, &requests[i])
			requests[i].Steps = stepNames[rng.IntN(5)]
		}
		want, got := opBlockOf(minutes), opBlock{}
		p := packer()
		opBlockFields(want, &p)
		u := unpacker(p.out)
		opBlockFields(&got, &u)
		require.Empty(t, u.in)
		require.Equal(t, n*10 >= minPerBlock, want.ok)
		require.Equal(t, n >= minPerMinute, want.windows > 0 && len(want.minutes) == 10)
		w, g := []float32{want.p50, want.p95, want.tail, want.sd, want.raw, want.sampling, want.corrected, want.callP95}, []float32{got.p50, got.p95, got.tail, got.sd, got.raw, got.sampling, got.corrected, got.callP95}
		for i := range w {
			near32(t, w[i], g[i])
		}
		require.True(t, slices.Equal(want.minutes, got.minutes), "%v, got %v", want.minutes, got.minutes)
		require.True(t, slices.Equal(want.callMinutes, got.callMinutes), "%v, got %v", want.callMinutes, got.callMinutes)
		require.Equal(t, n >= minPerMinute, len(got.callMinutes) == 10)
		require.Equal(t, want.thin.N(), got.thin.N())
		require.Equal(t, want.thin.Index, append([]int16(nil), got.thin.Index...))
		require.Equal(t, []any{want.n, want.known, want.retried, want.deadline, want.missed, want.tokens, want.ok, want.sdOK, want.ttft.ok, want.perToken.ok, want.windows, want.far, want.callFar},
			[]any{got.n, got.known, got.retried, got.deadline, got.missed, got.tokens, got.ok, got.sdOK, got.ttft.ok, got.perToken.ok, got.windows, got.far, got.callFar})

		var gotReq reqBlock
		p = packer()
		reqBlockFields(reqBlockOf(requests), &p)
		u = unpacker(p.out)
		reqBlockFields(&gotReq, &u)
		require.Equal(t, *reqBlockOf(requests), gotReq)
	}
}

// Blocks come in any order, again, and go.
func TestBlocksKeepTheirOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 8))
	b := newBlocks(func(n *uint64, f *coder) { f.u(n) })
	want := map[int64]uint64{}
	s := Slice{Service: "shop"}
	check := func() {
		t.Helper()
		var last int64 = -1
		got := map[int64]uint64{}
		b.each(s, allParts, func(at int64, n *uint64) {
			require.Greater(t, at, last)
			last, got[at] = at, *n
		})
		require.Equal(t, want, got)
	}
	for range 500 {
		if rng.IntN(4) == 0 {
			drop := map[int64]bool{}
			for at := range want {
				if rng.IntN(3) == 0 {
					drop[at] = true
					delete(want, at)
				}
			}
			b.drop(drop)
		} else {
			at, n := rng.Int64N(60)*600, rng.Uint64()>>rng.IntN(64)
			want[at] = n
			b.put(s, at, &n)
		}
		check()
	}
}
