package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Both give to the bit what sorting all values gives.
func TestMediansWithoutSortingAreTheMedians(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 12))
	for range 3000 {
		n := 1 + rng.IntN(300)
		distinct := 1 + rng.IntN(1+rng.IntN(400))
		values := make([]float64, distinct)
		for i := range values {
			values[i] = 4 * rng.NormFloat64()
		}
		slices.Sort(values)
		counts := make([]uint32, distinct)
		var xs []float64
		for range n {
			at := rng.IntN(distinct)
			counts[at]++
			xs = append(xs, values[at])
		}
		switch rng.IntN(4) {
		case 0:
			slices.Sort(xs)
		case 1:
			slices.SortFunc(xs, func(a, b float64) int { return cmp.Compare(b, a) })
		}
		median, mad, err := MAD(xs)
		require.NoError(t, err)
		gotMedian, gotMAD, err := CountedMAD(values, counts)
		require.NoError(t, err)
		require.Equal(t, [2]float64{median, mad}, [2]float64{gotMedian, gotMAD})
		want := slices.Sorted(slices.Values(xs))
		inPlace, err := MedianInPlace(xs)
		require.NoError(t, err)
		require.Equal(t, median, inPlace)
		slices.Sort(xs)
		require.Equal(t, want, xs, "no value was lost")
	}
}

func TestMediansWithoutSortingRefuseWhatMedianRefuses(t *testing.T) {
	_, err := MedianInPlace(nil)
	require.ErrorIs(t, err, ErrInsufficient)
	_, err = MedianInPlace([]float64{1, math.NaN(), 2})
	require.ErrorIs(t, err, ErrInvalid)
	_, _, err = CountedMAD([]float64{1, 2}, []uint32{0, 0})
	require.ErrorIs(t, err, ErrInsufficient)
	_, _, err = CountedMAD(nil, nil)
	require.ErrorIs(t, err, ErrInsufficient)
	_, _, err = CountedMAD([]float64{1, math.Inf(1)}, []uint32{1, 1})
	require.ErrorIs(t, err, ErrInvalid)
	median, mad, err := CountedMAD([]float64{1, math.Inf(1)}, []uint32{1, 0})
	require.NoError(t, err, "what does not occur does not matter")
	require.Equal(t, [2]float64{1, 0}, [2]float64{median, mad})
}
