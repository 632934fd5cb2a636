package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBernoulliCUSUM(t *testing.T) {
	c := BernoulliCUSUM{P0: 0.1, P1: 0.2, H: 2}
	alarm, err := c.Update(1, 1)
	require.NoError(t, err)
	require.False(t, alarm)
	require.InDelta(t, math.Log(2), c.S, 1e-12)
	_, _ = c.Update(0, 1)
	require.InDelta(t, math.Log(2)+math.Log(0.8/0.9), c.S, 1e-12)
	_, _ = c.Update(0, 100)
	require.Zero(t, c.S)
	alarm, _ = c.Update(3, 3)
	require.True(t, alarm)
	for _, bad := range []BernoulliCUSUM{{}, {P0: 0.2, P1: 0.1}, {P0: 0.1, P1: 1}} {
		_, err = bad.Update(0, 1)
		require.ErrorIs(t, err, ErrInvalid)
	}
	for _, kn := range [][2]float64{{2, 1}, {-1, 1}, {math.NaN(), 1}, {0, math.Inf(1)}} {
		_, err = c.Update(kn[0], kn[1])
		require.ErrorIs(t, err, ErrInvalid)
	}
}

// TestBernoulliCUSUMRunLength simulates false alarms against the promise of the limit, and
// how soon a risen share is seen.
func TestBernoulliCUSUMRunLength(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	length := func(p float64) float64 {
		total, runs := 0, 300
		for range runs {
			c := BernoulliCUSUM{P0: 0.08, P1: 0.2, H: math.Log(1000)}
			for n := 1; n <= 200_000; n++ {
				k := 0.0
				if rng.Float64() < p {
					k = 1
				}
				if alarm, _ := c.Update(k, 1); alarm {
					total += n
					break
				}
			}
		}
		return float64(total) / float64(runs)
	}
	quiet, risen := length(0.08), length(0.2)
	t.Logf("run length %.0f at P0, %.0f at P1", quiet, risen)
	require.Greater(t, quiet, 1000.0)
	require.Less(t, risen, 130.0)
}
