package detector

import (
	"math"
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
	base.Far = farBaseline(farCount{1600, 40_000}, 0)
	require.NotEqual(t, Breach, JudgeSurge(window(25), base, cfg.Surge, cfg.MinBlocks).Level)
	require.Equal(t, Breach, JudgeSurge(window(8), base, cfg.Surge, cfg.MinBlocks).Level)
	require.Equal(t, farUsual, farCount{4, 40_000}.usual(), "rare ones")
	require.InDelta(t, 0.0525, farCount{1600, 40_000}.usual(), 0.0001, "1.25 times the upper bound of Wilson, 0.0420")
	require.Greater(t, farCount{0, 150}.usual(), 0.03, "little is known of 150 calls")
	require.Equal(t, 1.0, farCount{}.usual())
	require.Equal(t, Quiet, JudgeSurge(window(0), base, cfg.Surge, cfg.MinBlocks).Level)
}

// Latency that goes up and down by itself, as that of a backend that others use too, pages less than
// shifts that last: a shift must exceed what the slice does from one hour to the next.
func TestAShiftMustExceedTheUsualWaves(t *testing.T) {
	rng := source(t)
	room := func(level func(block int) float64, n uint64) float64 {
		var r moveRoom
		for i := range 144 {
			se := 0.0
			if n < 1e6 {
				se = tailSEScale * 0.5 / math.Sqrt(float64(n)) * rng.NormFloat64()
			}
			r.add(int64(i)*600, 1000*math.Exp(level(i)+se), n)
		}
		return r.take(0.5)
	}
	steady := func(int) float64 { return 0 }
	require.InDelta(t, 0.15*math.Sqrt(5.0/143), room(steady, 1e6), 1e-9)
	require.Less(t, room(steady, 100), 0.09, "what few calls make of P95 is no wave")
	require.InDelta(t, 0.15, room(func(int) float64 { return 0.15 * rng.NormFloat64() }, 1e6), 0.06)
	require.InDelta(t, 0.15, room(func(int) float64 { return 0.15 * rng.NormFloat64() }, 400), 0.08)
	daily := func(i int) float64 { return 0.3 * math.Sin(2*math.Pi*float64(i)/144) }
	require.Less(t, room(daily, 1e6), 0.07, "a day's rhythm is none within an hour")
	require.InDelta(t, math.Exp(0.3), leastShift(1.3, 0.06), 1e-9)

	var few moveRoom
	require.Zero(t, few.take(0.5), "no block has a P95 of its own")
	for i := range 26 {
		few.add(int64(i)*600, 1000, 1000)
		switch got := few.take(0.5); {
		case i < 6:
			require.Equal(t, movesUnknown, got, "there is no pair yet: unknown is not zero")
		case i == 6+5-1:
			require.InDelta(t, movesUnknown/math.Sqrt2, got, 1e-9, "five calm pairs are as much as is taken of the unknown")
		case i == 25:
			require.Less(t, leastShift(1.35, got), 1.42, "nearly as of a calm slice")
		}
		few.steps = few.steps[:0]
	}
	few.empty()
	for i := range 25 {
		few.add(int64(i)*600, 1000*math.Exp(0.5*rng.NormFloat64()), 1000)
	}
	require.Greater(t, few.take(0.5), 0.2)
	require.Equal(t, 1.35, leastShift(1.35, 0.05))
	require.InDelta(t, 2.117, leastShift(1.35, 0.15), 0.001)

	// A lasting shift to 1.6 times fires where P95 is steady, and not where it does so all the time.
	cfg := DefaultConfig()
	base := calm(rng, 2000, 300)
	c := newCells()
	s := Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "yes"}
	var all []store.OperationCell
	for m := range 30 {
		ms := around(rng, 60, 3200, 480)
		all = append(all, store.OperationCell{Slice: s, Minute: t0.Add(time.Duration(m-30) * time.Minute), Retries: "0", N: 60, User: measure(ms...), Inference: measure(ms...)})
	}
	c.ops.add(t0.Add(-30*time.Minute), t0, all)
	w := *c.operationWindow(s, t0.Add(-5*time.Minute), t0, t0.Add(-30*time.Minute))
	require.InDelta(t, movesUnknown*math.Sqrt(5.0/11), base.Moves, 0.02, "of six pairs")
	base.Moves = 0
	v := JudgeSurge(w, base, cfg.Surge, cfg.MinBlocks)
	require.Equal(t, Breach, v.Level, v.Text)
	require.Equal(t, "lasting_shift", v.Reason)
	base.Moves = 0.15
	v = JudgeSurge(w, base, cfg.Surge, cfg.MinBlocks)
	require.Equal(t, Hold, v.Level)
	require.InDelta(t, 2.117, v.Evidence.Numbers.At("least_shift"), 0.001)
}

// A wave that the slice is used to lifts all calls, so that those above 2.5 times the usual P95
// are no minority that is slower than the rest.
func TestAWaveIsNoMinority(t *testing.T) {
	l := lateness{baseMS: 2000, middle: ratioTo{est: 1.6}}
	require.InDelta(t, 5000, l.farMS(), 1e-9, "it has no waves")
	l.moves = 0.48
	require.InDelta(t, 8000, l.farMS(), 1e-9)
	l.middle.est = 0.7
	require.InDelta(t, 5000, l.farMS(), 1e-9)
	l.middle.est = 100
	require.InDelta(t, 5000*math.Exp(0.96), l.farMS(), 1e-9, "no usual wave is so high")
}

// Where about one call in twenty is always slow, chance moves P95 from the quick ones to the slow
// ones. That is news only where more of them are slow, or all are.
func TestP95BetweenTwoModesIsNoNews(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig()
	window := func(slow int, times float64) OperationWindow {
		return inference(t0, append(around(rng, 150-slow, 1200*times, 150*times), around(rng, slow, 9600*times, 900*times)...))
	}
	base := calm(rng, 1200, 150)
	base.Far = farBaseline(farCount{2100, 40_000}, 0)
	require.InDelta(t, 0.0525, base.Far.Seen, 1e-9)
	require.True(t, base.Far.Between)
	base.Yesterday = 2
	require.Equal(t, base.P95MS, base.at(1.5).P95MS, "nor is there a time of day in it")
	for _, judge := range []func(OperationWindow, OperationBaseline) Verdict{
		func(w OperationWindow, b OperationBaseline) Verdict {
			return JudgeSurge(w, b, cfg.Surge, cfg.MinBlocks)
		},
		func(w OperationWindow, b OperationBaseline) Verdict {
			return JudgeSpread(w, b, cfg.Spread, cfg.MinBlocks)
		},
	} {
		v := judge(window(15, 1), base)
		require.Equal(t, Hold, v.Level, v.Text)
		require.Equal(t, "usual_minority", v.Reason)
		v = judge(window(40, 1), base)
		require.Equal(t, Breach, v.Level, v.Text)
		v = judge(window(8, 5), base)
		require.Equal(t, Breach, v.Level, v.Text)
		rare := base
		rare.Far = farBaseline(farCount{400, 40_000}, 0)
		v = judge(window(15, 1), rare)
		require.Equal(t, Breach, v.Level, v.Text)
	}
	require.Equal(t, FarBaseline{Most: 1}, farBaseline(farCount{}, 0), "nothing is known")
	require.True(t, farBaseline(farCount{0, 900}, 100).Between)
	require.False(t, farBaseline(farCount{0, 901}, 99).Between)
}

// Where about one call in twenty is always slow, P95 of blocks is now that of the quick ones and now
// that of the slow ones, which hides from the latter what is usual.
func TestBlocksWithAHighP95DoNotHideTheUsualMinority(t *testing.T) {
	blocks := []farBlock{{1600, farCount{28, 600}}, {7600, farCount{0, 600}}, {1580, farCount{26, 600}}, {7500, farCount{0, 600}}, {1590, farCount{29, 600}}}
	for _, c := range []struct {
		p95   float64
		want  farCount
		below uint64
	}{
		{1600, farCount{28 + 30 + 26 + 30 + 29, 3000}, 0},
		{7500, farCount{0, 1200}, 1800}, // of what is far above that the others say nothing
		{0, farCount{28 + 26 + 29, 3000}, 0},
	} {
		got, below := farOver(blocks, c.p95)
		require.Equal(t, c.want, got)
		require.Equal(t, c.below, below)
	}
	got, below := farOver(nil, 1600)
	require.Zero(t, got)
	require.Zero(t, below)
}
