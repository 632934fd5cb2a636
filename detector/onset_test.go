package detector

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/store"
)

func TestAVerdictSaysWhenTheChangeBegan(t *testing.T) {
	rng := source(t)
	base := calm(rng, 2000, 300)
	shifted := func(from int) OperationWindow {
		w := inference(t0, around(rng, 300, 7000, 900))
		for m := range 30 {
			f := 1.0
			if m >= from {
				f = 3.5
			}
			w.Minutes = append(w.Minutes, minuteOf(t0.Add(time.Duration(m-30)*time.Minute), measure(around(rng, 60, 2000*f, 300*f)...).Hist))
		}
		return w
	}
	v := JudgeSurge(shifted(26), base, DefaultConfig().Surge, 3)
	require.Equal(t, Breach, v.Level, v.Text)
	require.Equal(t, t0.Add(-4*time.Minute), v.Since)
	require.Equal(t, v.Since, *v.Evidence.Since)
	require.True(t, JudgeSurge(shifted(30), base, DefaultConfig().Surge, 3).Since.IsZero(), "without a change there is no beginning")

	w := opWindow(map[string]*RetryGroup{
		"0": group(around(rng, 200, 2000, 300), nil, false, 0, 0), "1": group(around(rng, 100, 9000, 900), nil, false, 5000, 2000)})
	for m := range 30 {
		w.Minutes = append(w.Minutes, Minute{At: t0.Add(time.Duration(m-30) * time.Minute), Known: 60, Retried: []uint64{1, 20}[m/27]})
	}
	v = JudgeRetry(w, OperationBaseline{Known: 10000, Retried: 200}, DefaultConfig().Retry)
	require.Equal(t, Breach, v.Level, v.Text)
	require.Equal(t, t0.Add(-3*time.Minute), v.Since)

	b := newBook()
	c, _ := b.observe(DefaultConfig(), v, t0.Add(time.Minute))
	require.Equal(t, v.Since, c.StartsAt)
	require.Equal(t, v.From, b.Incidents[0].Span.From, "the baseline leaves the whole window out")
}

// A minute that was slow and is over does not page, though windows of five still show it.
func TestWhatHasPassedDoesNotPage(t *testing.T) {
	rng := source(t)
	base := calm(rng, 2000, 300)
	w := inference(t0, append(around(rng, 240, 2000, 300), around(rng, 60, 9000, 900)...))
	for m := range 5 {
		mean := 2000.0
		if m == 1 {
			mean = 9000
		}
		w.Minutes = append(w.Minutes, minuteOf(t0.Add(time.Duration(m-5)*time.Minute), measure(around(rng, 60, mean, 300)...).Hist))
	}
	for _, v := range []Verdict{JudgeSurge(w, base, DefaultConfig().Surge, 3), JudgeSpread(w, base, DefaultConfig().Spread, 3)} {
		require.Equal(t, Hold, v.Level, v.Text)
		require.Equal(t, "passed", v.Reason)
	}
	w.Minutes[4] = minuteOf(t0.Add(-time.Minute), measure(around(rng, 60, 9000, 300)...).Hist)
	require.Equal(t, Breach, JudgeSurge(w, base, DefaultConfig().Surge, 3).Level)
	w.Minutes[4] = minuteOf(t0.Add(-time.Minute), measure(around(rng, minPassed-1, 2000, 300)...).Hist)
	require.Equal(t, Breach, JudgeSurge(w, base, DefaultConfig().Surge, 3).Level, "too few to say that it is over")
}

func TestExtremeEffectFiresWithoutVotes(t *testing.T) {
	cfg := DefaultConfig()
	v := spreadVerdict(t0, 9, 4, 2)
	v.Strength = cfg.FastFactor
	require.Equal(t, []string{Firing}, step(newBook(), cfg, v))
	v.Strength = cfg.FastFactor * 0.99
	b := newBook()
	require.Equal(t, []string{Pending}, step(b, cfg, v))
	v.To, v.Strength = t0.Add(time.Minute), cfg.FastFactor
	require.Equal(t, []string{Firing}, step(b, cfg, v))

	rng := source(t)
	base := calm(rng, 2000, 300)
	surge := JudgeSurge(inference(t0, around(rng, 400, 16000, 2000)), base, cfg.Surge, 3)
	require.Equal(t, Breach, surge.Level)
	require.InDelta(t, surge.Effect.Lo/cfg.Surge.Ratio, surge.Strength, 1e-9)
	require.Greater(t, surge.Strength, 2.0)
}

// One call in 25 that stands still moves P95 little; it is seen all the same, and two or three
// slow ones are not enough.
func TestASlowMinorityIsSeen(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig()
	base := calm(rng, 2000, 300)
	window := func(slowEvery int) OperationWindow {
		c := newCells()
		s := Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "yes"}
		var all []store.OperationCell
		k := 0
		for m := range 30 {
			ms := around(rng, 50, 2000, 300)
			for i := range ms {
				if k++; slowEvery > 0 && m >= 15 && k%slowEvery == 0 {
					ms[i] = 20_000
				}
			}
			all = append(all, store.OperationCell{Slice: s, Minute: t0.Add(time.Duration(m-30) * time.Minute), Retries: "0", N: 50, User: measure(ms...), Inference: measure(ms...)})
		}
		c.ops.add(t0.Add(-30*time.Minute), t0, all)
		return *c.operationWindow(s, t0.Add(-5*time.Minute), t0, t0.Add(-30*time.Minute))
	}
	v := JudgeSurge(window(25), base, cfg.Surge, cfg.MinBlocks)
	require.Equal(t, Breach, v.Level, v.Text)
	require.Equal(t, "slow_minority", v.Reason)
	require.Less(t, v.P, cfg.MaxP)
	require.InDelta(t, 0.04, v.Evidence.Numbers.At("far_share"), 0.005)
	require.Equal(t, Quiet, JudgeSurge(window(125), base, cfg.Surge, cfg.MinBlocks).Level)

	// Where one in 25 always stands still, that is no news.
	base.Far = farCount{1600, 40_000}.usual()
	require.NotEqual(t, Breach, JudgeSurge(window(25), base, cfg.Surge, cfg.MinBlocks).Level)
	require.Equal(t, Breach, JudgeSurge(window(8), base, cfg.Surge, cfg.MinBlocks).Level)
	require.Equal(t, farUsual, farCount{4, 40_000}.usual(), "rare ones")
	require.InDelta(t, 0.0525, farCount{1600, 40_000}.usual(), 0.0001, "1.25 times the upper bound of Wilson, 0.0420")
	require.Greater(t, farCount{0, 150}.usual(), 0.03, "little is known of 150 calls")
	require.Equal(t, 1.0, farCount{}.usual())
	require.Equal(t, Quiet, JudgeSurge(window(0), base, cfg.Surge, cfg.MinBlocks).Level)
}
