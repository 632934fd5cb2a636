package detector

import (
	"math/rand/v2"
	"reflect"
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

func packs[C any](t *testing.T, rng *rand.Rand, fields func(*C, coder)) {
	t.Helper()
	var cells []C
	p := packer{}
	for range 200 {
		var c C
		fill(t, rng, &c)
		fields(&c, &p)
		cells = append(cells, c)
	}
	var got C // one cell for all, as a round has it
	u := unpacker{p.b}
	for _, want := range cells {
		fields(&got, &u)
		require.Equal(t, want, got)
	}
	require.Empty(t, u.b)
}

func TestPackedCellsAreTheCells(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	packs(t, rng, operationFields)
	packs(t, rng, requestFields)
}
