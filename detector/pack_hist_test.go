package detector

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/stats"
)

// Histograms of all kinds come back as they were, one behind the other, and can be skipped.
func TestPackedHistogramsAreTheHistograms(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	all := []*stats.Hist{nil, {}}
	for range 2000 {
		h := &stats.Hist{}
		every := 1 + rng.IntN(1+rng.IntN(places))
		largest := rng.IntN(64)
		for at := rng.IntN(places); at < places; at += 1 + rng.IntN(every) {
			n := rng.Uint64() >> (63 - largest)
			if rng.IntN(50) == 0 {
				n = math.MaxUint64 // full
			}
			h.Index, h.Count = append(h.Index, bucketAt(at)), append(h.Count, max(n, 1))
		}
		all = append(all, h)
	}
	var packed []byte
	for _, h := range all {
		packed = appendHist(packed, h)
	}
	var got stats.Hist
	rest := packed
	for i, h := range all {
		if h == nil {
			h = &stats.Hist{}
		}
		_, skipped := cutHist(rest)
		rest = unpackHist(rest, &got)
		require.Equal(t, len(rest), len(skipped))
		require.True(t, slices.Equal(h.Index, got.Index) && slices.Equal(h.Count, got.Count), "%d: %v, got %v", i, h, got)
	}
	require.Empty(t, rest)
}

// A bucket costs well under a byte, however much traffic there is.
func TestPackedHistogramsAreSmall(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	for n, most := range map[int]int{1: 5, 5: 13, 50: 45, 500: 75, 5000: 125, 500_000: 280} {
		h := &stats.Hist{}
		for range n {
			h.Add(2000 * math.Exp(0.8*rng.NormFloat64()))
		}
		size := len(appendHist(nil, h))
		t.Logf("%d values in %d buckets: %d bytes", n, len(h.Index), size)
		require.LessOrEqual(t, size, most)
	}
}

// Quantiles are values of buckets, and come back as the same.
func TestEveryBucketIsFoundByItsValue(t *testing.T) {
	for at := range places {
		ms := bucket32(at)
		require.Equal(t, at, placeFor(float64(ms)))
		require.Equal(t, at, placeFor(float64(quantileAt[at])))
		if at > 0 {
			require.Equal(t, at, placeFor(math.Exp(logAt[at])))
		}
	}
}
