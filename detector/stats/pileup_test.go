package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPileUpIsTheBinomialTail(t *testing.T) {
	// 5 of 5 in the pile and nothing below: 0.2^5, for one non-empty bucket.
	h := &Hist{}
	h.AddN(60000, 5)
	got := PileUps(h, 5, 0.01)
	require.Len(t, got, 1)
	require.InEpsilon(t, math.Pow(0.2, 5), got[0].P, 1e-9)
	require.InEpsilon(t, 60000, got[0].ValueMS, RelativeError)
	require.True(t, got[0].LoMS < 60000 && 60000 <= got[0].HiMS)
	require.EqualValues(t, 5, got[0].N)
	require.Zero(t, got[0].Expected)
	require.Empty(t, PileUps(h, 6, 0.01), "fewer than least")
	require.Empty(t, PileUps(h, 5, 0.0003), "over alpha")
	require.Empty(t, PileUps(nil, 1, 0.5))
	require.Empty(t, PileUps(&Hist{}, 1, 0.5))
	// A value on an edge is one pile, not two.
	_, edge := BucketBounds(BucketIndex(60000))
	h = &Hist{}
	h.AddN(edge*0.999, 4)
	h.AddN(edge*1.001, 4)
	got = PileUps(h, 5, 0.01)
	require.Len(t, got, 1)
	require.EqualValues(t, 8, got[0].N)
	// Two limits are two piles, the longer first.
	h.AddN(200000, 7)
	got = PileUps(h, 5, 0.01)
	require.Len(t, got, 2)
	require.InEpsilon(t, 200000, got[0].ValueMS, RelativeError)
	require.Zero(t, got[0].Above)
	require.EqualValues(t, 7, got[1].Above)
	zero := &Hist{}
	zero.AddN(0, 100)
	require.Empty(t, PileUps(zero, 1, 0.5), "no time is no length")
}

// What falls beyond its mode, as latency does, piles up nowhere: at most alpha of samples
// say so, in their tails. The bulk of a narrow one may, and is not looked at here.
func TestPileUpLevelAndPower(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	const runs = 400
	for _, n := range []int{60, 500, 5000} {
		false1, found := 0, 0
		for range runs {
			xs := lognormals(rng, n, math.Log(20000), 0.615)
			h, _ := HistOf(xs)
			for _, p := range PileUps(h, 5, 0.01) {
				if p.LoMS > 20000 {
					false1++
					break
				}
			}
			for i := range xs {
				xs[i] = math.Min(xs[i], 45000)
			}
			h, _ = HistOf(xs)
			if got := PileUps(h, 5, 0.01); len(got) > 0 && got[0].LoMS < 45000 && got[0].HiMS >= 45000*(1-1e-12) {
				found++
			}
		}
		t.Logf("%d values: %d of %d false, %d found", n, false1, runs, found)
		require.LessOrEqual(t, false1, 12, "%d values: nominal 1 %% of %d", n, runs) // P(over 12) is 1e-4
		if n >= 500 {
			require.GreaterOrEqual(t, found, runs*98/100, "%d values", n)
		}
	}
}

func TestMeanExtra(t *testing.T) {
	// 90 operations of 1 attempt, 10 of 2: a mean of 0.1 with the variance between only.
	got, err := MeanExtra([]CountGroup{{90, 90, 1}, {10, 20, 2}}, 0.95)
	require.NoError(t, err)
	require.InDelta(t, 0.1, got.Estimate, 1e-12)
	se := math.Sqrt(0.1*0.9/100) / 0.1
	require.InEpsilon(t, 0.1*math.Exp(-1.959964*se), got.Lo, 1e-5)
	require.InEpsilon(t, 0.1*math.Exp(1.959964*se), got.Hi, 1e-5)
	// The open group's own spread widens it.
	wide, err := MeanExtra([]CountGroup{{90, 90, 1}, {10, 60, 3}}, 0.95)
	require.NoError(t, err)
	require.InDelta(t, 0.5, wide.Estimate, 1e-12)
	between := 90*0.25 + 10*4.5*4.5
	require.InEpsilon(t, 0.5*math.Exp(-1.959964*math.Sqrt(between+10*3*4)/100/0.5), wide.Lo, 1e-5)
	none, err := MeanExtra([]CountGroup{{200, 200, 1}}, 0.95)
	require.NoError(t, err)
	require.Zero(t, none.Estimate)
	require.InEpsilon(t, -math.Log(0.025)/200, none.Hi, 1e-9)
	_, err = MeanExtra(nil, 0.95)
	require.ErrorIs(t, err, ErrInsufficient)
	_, err = MeanExtra([]CountGroup{{10, 9, 1}}, 0.95)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = MeanExtra([]CountGroup{{10, 10, 1}}, 1)
	require.ErrorIs(t, err, ErrInvalid)
}

// The interval covers the mean of retries up to a limit at least as often as it says.
func TestMeanExtraCoverage(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	const runs, p, limit = 2000, 0.3, 4
	var truth float64
	for k := 1; k <= limit; k++ {
		truth += math.Pow(p, float64(k))
	}
	covered := 0
	for range runs {
		g := []CountGroup{{0, 0, 1}, {0, 0, 2}, {0, 0, 3}}
		for range 200 {
			extra := 0
			for extra < limit && rng.Float64() < p {
				extra++
			}
			k := min(extra, 2)
			g[k].N, g[k].Sum = g[k].N+1, g[k].Sum+uint64(extra)+1
		}
		if i, err := MeanExtra(g, 0.95); err == nil && i.Contains(truth) {
			covered++
		}
	}
	require.GreaterOrEqual(t, covered, runs*93/100)
}
