package stats

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tails of published tables and, for small n, of sums by hand.
func TestBinomialTail(t *testing.T) {
	for _, c := range []struct {
		k, n uint64
		p    float64
		want float64
	}{
		{1, 3, 0.5, 7.0 / 8}, {2, 3, 0.5, 0.5}, {3, 3, 0.5, 1.0 / 8}, {0, 10, 0.1, 1}, {4, 4, 0.01, 1e-8}, {20, 20, 0.1, 1e-20},
		{3, 3, 0, 0}, {3, 3, 1, 1}, {8, 20, 0.25, 0.101812},
	} {
		got, err := BinomialTail(c.k, c.n, c.p)
		require.NoError(t, err)
		require.InDelta(t, c.want, got, 1e-4*math.Max(c.want, 1e-16), "%v", c)
	}
	for _, f := range []func() (float64, error){
		func() (float64, error) { return BinomialTail(4, 3, 0.5) },
		func() (float64, error) { return BinomialTail(1, 3, math.NaN()) },
		func() (float64, error) { return BinomialTail(1, 3, 1.1) },
	} {
		_, err := f()
		require.ErrorIs(t, err, ErrInvalid)
	}
}
