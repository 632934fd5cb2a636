package backtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
)

// Some hours of healthy traffic: nothing is sent, no 504 alert comes, and the report states the
// bound that this allows.
func TestHealthyTrafficIsQuiet(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := fleet(seed, 120, 10)
	c.warm = 150
	require.Equal(t, 1, c.slow, "some agents have few requests")
	r, err := soak(context.Background(), detector.DefaultConfig(), c, func(int, []Page) {})
	require.NoError(t, err)
	require.Empty(t, r.pages)
	require.Zero(t, r.alerts504)
	require.NotEmpty(t, r.peaks["static_p95"])
	r.minutes = 1440
	rep := score(Options{}, nil, []*healthyResult{r})
	require.InDelta(t, 3.0*30, *rep.Total.FalsePagesPer30d, 0.2, "the rule of three, for one day")
}

func TestUpperBound(t *testing.T) {
	// Exact Poisson bounds: 0, 1 and 5 events (Garwood, 1936).
	for k, want := range map[int]float64{0: 2.996, 1: 4.744, 5: 10.513} {
		require.InDelta(t, want, upper95(k), 0.001)
	}
}

func TestVotesAndPages(t *testing.T) {
	v := votes([]float64{0, 5, 0, 6, 0, 0, 0, 0, 0, 7, 7, 0})
	require.Equal(t, []float64{0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 7, 7}, v)
	require.Equal(t, []int{3, 10}, pagesOf(v, 4))
	require.Equal(t, []int{10}, pagesOf(v, 5))
	require.Equal(t, 5.0, calibrate([]float64{3, 5, 4}, 0))
	require.Equal(t, 4.0, calibrate([]float64{3, 5, 4}, 1))
}

// A detection of a change that is there and none of one that is not.
func TestCUSUM(t *testing.T) {
	slots := map[int][]feature{}
	for s := 360; s < 1000; s++ {
		slots[s] = []feature{{0, bit(s >= 720)}}
	}
	llr := map[feature]float64{{0, 0}: -1, {0, 1}: 2}
	at, ok := cusum(slots, llr, 9, 7200, 10000)
	require.True(t, ok)
	require.Equal(t, 7250.0, at, "five slots of 2 pass a limit of 9")
	_, ok = cusum(slots, llr, 9, 3600, 7200)
	require.False(t, ok)
}
