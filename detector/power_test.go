package detector

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/store"
)

// binomial draws how many of n come up.
func binomial(rng *rand.Rand, n int, p float64) (k int) {
	for range n {
		if rng.Float64() < p {
			k++
		}
	}
	return k
}

// lasting is a window of a slice of lognormal calls, n in its last five minutes and as many in each
// five before, which all take so many times as long as usual from five minutes before its end on.
func lasting(rng *rand.Rand, n int, factor float64) OperationWindow {
	w := inference(t0, spreadOut(rng, n, 2000*factor, 0.4))
	for m := range 30 {
		f := 1.0
		if m >= 25 {
			f = factor
		}
		w.Minutes = append(w.Minutes, minuteOf(t0.Add(time.Duration(m-30)*time.Minute), measure(spreadOut(rng, n/5, 2000*f, 0.4)...).Hist))
	}
	return w
}

// The least samples that each detection takes find the effect of docs/detections.md in four of
// five windows by themselves, with max_p, and none where there is none.
func TestLeastSamplesHaveTheWantedPower(t *testing.T) {
	const runs, wanted = 300, 0.8
	rng := source(t)
	c := DefaultConfig()
	b := NewBaselines(c)
	from := t0.Add(-3 * time.Hour)
	var minutes []store.OperationMinute
	for m := range 120 {
		minutes = append(minutes, store.OperationMinute{Slice: opWindow(nil).Slice, Minute: from.Add(time.Duration(m) * time.Minute), N: 60, Known: 60, Retried: 1, Inference: measure(spreadOut(rng, 60, 2000, 0.4)...)})
	}
	b.Load(from, from.Add(2*time.Hour), minutes, nil)
	latency := b.Operation(opWindow(nil).Slice)
	streamed := usualStreams(streams(spreadOut(rng, 2000, 900, 0.4), spreadOut(rng, 2000, 30, 0.3), Tokens{}), 10)
	attempts := usual(10_000, 10_200, 20, 20, 20)
	work := WorkBaseline{Blocks: 10, N: 10_000, Limited: 10_000, Past: 100, Left: 10_000, Doomed: 100, Known: 10_000, Inherited: 50, Declared: 10_000, OKMS: 2000, P95MS: 4000}
	drifts := RequestBaseline{Blocks: 10, Strata: map[string]*StratumBaseline{"4-7": {N: 5000, Requests: 5000, Operations: 25_000, Drift: measure(append(fixed(4950, 0), fixed(50, 9000)...)...).Hist}}}
	mixed := func(n int, p float64, less, more float64) []float64 {
		k := binomial(rng, n, p)
		return append(fixed(k, more), fixed(n-k, less)...)
	}
	for _, d := range []struct {
		name string
		// least is the number of samples; none is no effect, found one that is found.
		least       uint64
		none, found float64
		judge       func(n int, effect float64) Verdict
	}{
		{RetryBimodality, c.Retry.MinOperations, 0.02, 0.3, func(n int, p float64) Verdict { // share retried, which takes 8 s longer
			k := binomial(rng, n, p)
			return JudgeRetry(opWindow(map[string]*RetryGroup{"0": group(spreadOut(rng, n-k, 2000, 0.4), nil, false, 0, 0), "1": group(spreadOut(rng, k, 10_000, 0.3), nil, false, 6000, 2000)}), OperationBaseline{Blocks: 10, Known: 10_000, Retried: 200}, c.Retry)
		}},
		{DeadlineDrift, c.Drift.MinRequests, 0.01, 0.4, func(n int, p float64) Verdict { // share that drifts
			return JudgeDrift(requestWindow(map[string][]float64{"4-7": mixed(n, p, 0, 9000)}, 30_000), drifts, c.Drift)
		}},
		{P95Spread, c.Spread.MinOperations, 1, 7, func(n int, f float64) Verdict { // times the spread
			return JudgeSpread(lasting(rng, n, f), latency, c.Spread, c.MinBlocks)
		}},
		{P95Surge, c.Surge.MinOperations, 1, 3.7, func(n int, f float64) Verdict { // times as long
			return JudgeSurge(lasting(rng, n, f), latency, c.Surge, c.MinBlocks)
		}},
		{GenerationSlowdown, c.Generation.MinOperations, 1, 1.9, func(n int, f float64) Verdict {
			return JudgeGeneration(streams(spreadOut(rng, n, 900, 0.4), spreadOut(rng, n, 30*f, 0.3), Tokens{}), streamed, c.Generation, c.MinBlocks)
		}},
		{TTFTShift, c.TTFT.MinOperations, 1, 3.2, func(n int, f float64) Verdict {
			return JudgeTTFT(streams(spreadOut(rng, n, 900*f, 0.4), spreadOut(rng, n, 30, 0.3), Tokens{}), streamed, c.TTFT, c.MinBlocks)
		}},
		{RetryAmplification, c.Amplification.MinOperations, 0.01, 0.3, func(n int, p float64) Verdict { // share tried twice
			k := binomial(rng, n, p)
			return JudgeAmplification(amplified(n-k, k, 0, 0), attempts, c.Amplification, c.MinBlocks)
		}},
		{FirstTimeout, c.FirstTimeout.MinOperations, 0.002, 0.12, func(n int, p float64) Verdict { // share that dies so
			return JudgeFirstTimeout(opWindow(map[string]*RetryGroup{"0": tried(n, uint64(n), timeouts(uint64(binomial(rng, n, p))))}), attempts, c.FirstTimeout, c.MinBlocks)
		}},
		{RetryExhaustion, c.Exhaustion.MinOperations, 0.002, 0.12, func(n int, p float64) Verdict {
			k := binomial(rng, n, p)
			return JudgeExhaustion(opWindow(map[string]*RetryGroup{"0": tried(n-k, uint64(n-k), Failures{}), "2+": tried(k, 3*uint64(k), timeouts(uint64(k)))}), attempts, c.Exhaustion, c.MinBlocks)
		}},
		{CapPileup, c.PileUp.MinOperations, 0, 1, func(n int, p float64) Verdict { // share cut
			k := binomial(rng, n, p)
			return JudgePileUp(piled(append(spreadOut(rng, n-k, 2000, 0.4), fixed(k, 60_000)...), "no", timeouts(uint64(k))), attempts, c.PileUp, c.MinBlocks)
		}},
		{StuckRatio, c.Stuck.MinWork, 0.01, 0.5, func(n int, p float64) Verdict { // share past half of the limit
			return JudgeStuck(worked(oneTool, store.Work{N: uint64(n), Limited: uint64(n), Past: uint64(binomial(rng, n, p)), LimitNS: 30e9}), work, c.Stuck, c.MinBlocks)
		}},
		{Cascade, c.Cascade.MinCalls, 0.005, 0.4, func(n int, p float64) Verdict { // share that fails by an inherited budget
			k := uint64(binomial(rng, n, p))
			return JudgeCascade(worked(oneTool, store.Work{N: uint64(n), OK: uint64(n) - k, OKNS: int64(uint64(n)-k) * 2e9, Known: uint64(n), Missed: k, Inherited: k}), work, c.Cascade, c.MinBlocks)
		}},
		{TimeoutNotEnforced, c.Timeout.MinCalls, 0, 0.7, func(n int, p float64) Verdict { // share that runs on
			k := uint64(binomial(rng, n, p))
			return JudgeTimeout(worked(oneTool, store.Work{N: uint64(n), OK: uint64(n), Declared: uint64(n), Overran: k, OverranNS: int64(k) * 30e9, DeclaredNS: 5e9}), work, c.Timeout)
		}},
	} {
		power := func(effect float64) float64 {
			fires := 0
			for range runs {
				v := falseDiscoveries([]Verdict{d.judge(int(d.least), effect)}, c.FDR, c.MaxP)[0]
				require.NotEqual(t, Insufficient, v.Level, d.name)
				if v.Level == Breach {
					fires++
				}
			}
			return float64(fires) / runs
		}
		require.Equal(t, Insufficient, d.judge(int(d.least)-1, d.found).Level, d.name)
		require.Zero(t, power(d.none), d.name)
		got := power(d.found)
		t.Logf("%s: %d samples find %v with a chance of %.2f", d.name, d.least, d.found, got)
		require.GreaterOrEqual(t, got, wanted, d.name)
	}
}
