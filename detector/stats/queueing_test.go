package stats

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErlangC(t *testing.T) {
	// One server waits with probability rho; two have 2 rho^2 / (1 + rho).
	for _, rho := range []float64{0, 0.1, 0.5, 0.85, 0.99} {
		p, err := ErlangC(1, rho)
		require.NoError(t, err)
		require.InDelta(t, rho, p, 1e-12)
		p, err = ErlangC(2, 2*rho)
		require.NoError(t, err)
		require.InDelta(t, 2*rho*rho/(1+rho), p, 1e-12)
	}
	// By the definition's sums for c = 24.
	a, sum, term := 20.4, 0.0, 1.0
	for k := 0; k < 24; k++ {
		sum += term
		term *= a / float64(k+1)
	}
	last := term / (1 - a/24)
	p, err := ErlangC(24, a)
	require.NoError(t, err)
	require.InDelta(t, last/(sum+last), p, 1e-12)
	p, err = ErlangC(100_000, 99_000)
	require.NoError(t, err)
	require.True(t, p > 0 && p < 0.01, "no overflow: %v", p)
	p, err = ErlangC(3, 3)
	require.NoError(t, err)
	require.Equal(t, 1.0, p)
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
		_, err = ErlangC(3, bad)
		require.ErrorIs(t, err, ErrInvalid)
	}
	_, err = ErlangC(0, 0)
	require.ErrorIs(t, err, ErrInvalid)
}

func TestQueueWait(t *testing.T) {
	// M/G/1 is the formula of Pollaczek and Khinchine: rho (1 + scv) / (2 (1 - rho)).
	for _, rho := range []float64{0.3, 0.85} {
		for _, scv := range []float64{0, 1, 2.5} {
			w, err := QueueWait(1, rho, 1, scv)
			require.NoError(t, err)
			require.InDelta(t, rho*(1+scv)/(2*(1-rho)), w, 1e-12)
		}
	}
	w, err := QueueWait(4, 4, 1, 1)
	require.NoError(t, err)
	require.True(t, math.IsInf(w, 1))
	_, err = QueueWait(4, 3, -1, 1)
	require.ErrorIs(t, err, ErrInvalid)
}

func TestMantelHaenszel(t *testing.T) {
	// One stratum is the plain odds ratio with Woolf's interval.
	got, err := MantelHaenszel([]Table2{{30, 100, 10, 100}}, 0.95)
	require.NoError(t, err)
	plain, err := OddsRatio(30, 100, 10, 100, 0.95)
	require.NoError(t, err)
	require.InDelta(t, plain.Estimate, got.Estimate, 1e-12)
	require.InDelta(t, plain.Lo, got.Lo, 0.02)
	require.InDelta(t, plain.Hi, got.Hi, 0.02*plain.Hi)
	// Simpson: long tasks miss more and have more tool errors; within a length errors do nothing.
	strata := []Table2{{1, 10, 9, 90}, {45, 90, 5, 10}}
	got, err = MantelHaenszel(strata, 0.95)
	require.NoError(t, err)
	require.InDelta(t, 1, got.Estimate, 1e-12)
	crude, err := OddsRatio(46, 100, 14, 100, 0.95)
	require.NoError(t, err)
	require.Greater(t, crude.Lo, 2.0, "without strata it looks like an effect")
	_, err = MantelHaenszel([]Table2{{0, 10, 0, 10}, {1, 2, 0, 0}}, 0.95)
	require.ErrorIs(t, err, ErrInsufficient)
	_, err = MantelHaenszel([]Table2{{3, 2, 0, 5}}, 0.95)
	require.ErrorIs(t, err, ErrInvalid)
}
