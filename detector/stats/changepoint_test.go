package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChangePoint(t *testing.T) {
	ones := []float64{1, 1, 1, 1, 1, 1}
	c, err := ChangePoint([]float64{1, 1, 1, 3, 3, 3}, ones, 1)
	require.NoError(t, err)
	require.Equal(t, Change{At: 3, Shift: 2, Gain: 4 * 3 * 3 / 6}, c)
	c, err = ChangePoint([]float64{1, 1, 99, 1, 3, 3}, []float64{1, 1, 0, 1, 1, 1}, 1)
	require.NoError(t, err)
	require.Equal(t, 4, c.At, "a value without weight counts for nothing")
	c, err = ChangePoint([]float64{1, 1, 1, 1, 1, 9}, ones, 2)
	require.NoError(t, err)
	require.Equal(t, 4, c.At, "each side has its least number")
	_, err = ChangePoint([]float64{1, 2, 3}, []float64{1, 1, 1}, 2)
	require.ErrorIs(t, err, ErrInsufficient)
	_, err = ChangePoint([]float64{1, math.NaN()}, []float64{1, 1}, 1)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = ChangePoint([]float64{1}, nil, 1)
	require.ErrorIs(t, err, ErrInvalid)
}

// TestChangePointIsNear simulates a step of two deviations in the 20th of 30 values, and
// series without one, whose gain the docstring states.
func TestChangePointIsNear(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	const runs = 4000
	near, over := 0, 0
	for range runs {
		v, quiet, w := make([]float64, 30), make([]float64, 30), make([]float64, 30)
		for i := range v {
			v[i], quiet[i], w[i] = rng.NormFloat64(), rng.NormFloat64(), 1
			if i >= 20 {
				v[i] += 2
			}
		}
		c, err := ChangePoint(v, w, 1)
		require.NoError(t, err)
		if c.At >= 18 && c.At <= 22 {
			near++
		}
		if c, err = ChangePoint(quiet, w, 1); err == nil && c.Gain > 10 {
			over++
		}
	}
	t.Logf("within two places: %.1f %%; gain over 10 without a change: %.1f %%", 100*float64(near)/runs, 100*float64(over)/runs)
	require.Greater(t, near, runs*85/100)
	require.InDelta(t, 0.027, float64(over)/runs, 0.012)
}
