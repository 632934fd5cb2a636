package detector

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/store"
	"driftline/internal/rows"
)

// tried is a retry group: n operations with so many leaf attempts, of which failed.
func tried(n int, leaves uint64, f Failures) *RetryGroup {
	g := group(fixed(n, 1000), nil, false, 0, 0)
	g.LeafAttempts, g.Failed = leaves, f
	return g
}

func timeouts(k uint64) Failures { return Failures{All: k, Timeout: k} }

// usual is a day of an operation slice; leaves is per thousand operations.
func usual(n, leaves, first, exhausted, cut uint64) OperationBaseline {
	return OperationBaseline{WorkBlocks: 100, N: n, Known: n, LeafAttempts: leaves, FirstTimeouts: first, Exhausted: exhausted, Cut: cut}
}

func amplified(n0, n1, n2 int, leaves2 uint64) OperationWindow {
	return opWindow(map[string]*RetryGroup{"0": tried(n0, uint64(n0), Failures{}), "1": tried(n1, 2*uint64(n1), Failures{}), "2+": tried(n2, leaves2, Failures{})})
}

func TestAmplificationAgainstItsBaseline(t *testing.T) {
	cfg := DefaultConfig().Amplification
	judge := func(w OperationWindow, b OperationBaseline) Verdict { return JudgeAmplification(w, b, cfg, 3) }
	base := usual(10000, 10300, 0, 0, 0) // 3 % extra, taken as the least baseline of 5 %
	v := judge(amplified(350, 100, 50, 200), base)
	require.Equal(t, Breach, v.Level, v.Text)
	require.Equal(t, "amplified", v.Reason)
	require.InDelta(t, 1.5, v.Value, 1e-9)
	require.InDelta(t, 1.03, v.Baseline, 1e-9)
	require.Less(t, v.P, 1e-6)
	require.Equal(t, Warning, v.Severity)
	require.Contains(t, v.Text, "1.50 attempts")
	// Both sides of the retry budget of 20 %, far over twice the baseline.
	require.Equal(t, Breach, judge(amplified(8000, 2000, 0, 0), base).Level)
	require.Equal(t, Hold, judge(amplified(8001, 1999, 0, 0), base).Level)
	// Both sides of the rise: the lower bound of 2 x 15 %, of 10,000 operations.
	steady := usual(10000, 11500, 0, 0, 0)
	require.Equal(t, Hold, judge(amplified(7000, 3000, 0, 0), steady).Level, "3,000 is twice, but may be less")
	require.Equal(t, Breach, judge(amplified(6850, 3150, 0, 0), steady).Level)
	// Both sides of the clear level, 1.3 times.
	require.Equal(t, Quiet, judge(amplified(8051, 1949, 0, 0), steady).Level)
	require.Equal(t, Hold, judge(amplified(8049, 1951, 0, 0), steady).Level)
	// A level that always was there does not page, not even over the limit.
	require.Equal(t, Quiet, judge(amplified(350, 100, 50, 200), usual(10000, 15000, 0, 0, 0)).Level)
	require.Equal(t, Quiet, judge(amplified(0, 0, 500, 1700), usual(10000, 34000, 0, 0, 0)).Level)
}

func TestAmplificationAgainstTheLimit(t *testing.T) {
	cfg := DefaultConfig().Amplification
	judge := func(w OperationWindow, b OperationBaseline) Verdict { return JudgeAmplification(w, b, cfg, 3) }
	// Without a baseline only the limit counts: 2.98 attempts a call say nothing, 3.5 fire.
	require.Equal(t, NoBaseline, judge(amplified(0, 10, 490, 1470), OperationBaseline{}).Level)
	v := judge(amplified(0, 0, 500, 1750), OperationBaseline{})
	require.Equal(t, Breach, v.Level, v.Text)
	require.Equal(t, "over_limit", v.Reason)
	require.Contains(t, v.Text, "not known yet")
	// The limit's interval: 3.02 may be 3.
	require.Equal(t, NoBaseline, judge(amplified(0, 0, 100, 302), OperationBaseline{}).Level)
	// Where retries are all that is known of attempts, their mean is no mean of all.
	w := amplified(0, 0, 500, 1750)
	w.ByRetries["unknown"] = tried(501, 0, Failures{})
	v = judge(w, OperationBaseline{})
	require.Equal(t, NoBaseline, v.Level)
	require.Equal(t, "attempts_mostly_unknown", v.Reason)
	// With a baseline below the limit, crossing it fires though it is not twice as many.
	high := usual(10000, 26000, 0, 0, 0)
	require.Equal(t, Hold, judge(amplified(0, 0, 1000, 3100), high).Level)
	v = judge(amplified(0, 0, 1000, 3600), high)
	require.Equal(t, "over_limit", v.Reason, v.Text)
	// Minimum of samples, and work that knows no attempts.
	require.Equal(t, Insufficient, judge(amplified(0, 0, 49, 490), OperationBaseline{}).Level)
	require.Equal(t, Breach, judge(amplified(0, 0, 50, 500), OperationBaseline{}).Level)
	require.Equal(t, Insufficient, judge(opWindow(map[string]*RetryGroup{"unknown": tried(500, 0, Failures{})}), usual(10000, 10300, 0, 0, 0)).Level)
	// Missed deadlines make it critical.
	w = amplified(0, 0, 500, 1750)
	w.Known, w.Missed = 500, 100
	require.Equal(t, Critical, judge(w, usual(10000, 10300, 0, 0, 0)).Severity)
}

// 100 calls, of which the framework makes 2 tries of 50 and the SDK 3 of each try: 450 leaves.
func TestAmplificationNamesTheLayer(t *testing.T) {
	now := &AttemptWindow{N: 600, Leaf: 450, Extra: layerCounts{50, 300, 0, 0}, Failed: 350, Overloads: 300}
	f := layerFactors(now.Leaf, now.Extra)
	require.InDeltaSlice(t, []float64{1.5, 3, 1, 1}, f[:], 1e-12)
	w := opWindow(map[string]*RetryGroup{"0": tried(50, 150, Failures{}), "1": tried(50, 300, Failures{})})
	w.Attempts = now
	b := usual(10000, 15200, 0, 0, 0)
	b.Attempts = AttemptBaseline{N: 15200, Leaf: 15200, Extra: layerCounts{4900, 300, 0, 0}}
	v := JudgeAmplification(w, b, DefaultConfig().Amplification, 3)
	require.Equal(t, Breach, v.Level, v.Text)
	require.InDelta(t, 4.5, v.Value, 1e-9)
	require.Contains(t, v.Cause, "the SDK layer makes 3.00 tries of each one that it is given, usually 1.02")
	require.Contains(t, v.Cause, "framework 1.50 x sdk 3.00")
	require.Contains(t, v.Cause, "adds load to a backend that sheds it")
	require.InDelta(t, 1.49, v.Evidence.Numbers.At("amplification_framework_baseline"), 1e-9)
	require.InDelta(t, 450.0/100, f[0]*f[1]*f[2]*f[3], 1e-12, "the product is leaf attempts over operations")
}

// A breach over a fixed limit keeps its own time out of the baseline. It ends all the same:
// what would be quiet under any baseline is quiet without one.
func TestWithoutABaselineAlertsResolve(t *testing.T) {
	c := DefaultConfig()
	at := func(v Verdict, minute int) Verdict {
		v.Slice, v.To = oneTool, t0.Add(time.Duration(minute)*time.Minute)
		v.From = v.To.Add(-c.ShortWindow)
		return v
	}
	dead := func(n, dead int) Verdict {
		return JudgeFirstTimeout(opWindow(map[string]*RetryGroup{"0": tried(n, uint64(n), timeouts(uint64(dead)))}), OperationBaseline{}, c.FirstTimeout, 3)
	}
	tries := func(w OperationWindow) Verdict {
		return JudgeAmplification(w, OperationBaseline{}, c.Amplification, 3)
	}
	for name, v := range map[string][2]Verdict{FirstTimeout: {dead(200, 80), dead(200, 2)}, RetryAmplification: {tries(amplified(0, 0, 500, 1750)), tries(amplified(480, 20, 0, 0))}} {
		b := newBook()
		for m := range 3 {
			b.observe(c, at(v[0], m), t0.Add(time.Duration(m)*time.Minute))
		}
		a := &b.Tracks[Fingerprint(name, oneTool)].Alert
		require.Equal(t, Firing, a.State, name)
		for m := range c.ClearRounds {
			b.observe(c, at(v[1], 3+m), t0.Add(time.Duration(3+m)*time.Minute))
		}
		require.Equal(t, Resolved, a.State, name)
	}
}

// C87: 30 attempts with 60 % failures are too few for a ratio, 120 with 25 % are not. The
// split of the failures decides which of two detections it is.
func TestC87VolumeFloor(t *testing.T) {
	c := DefaultConfig()
	first := func(n, dead int, b OperationBaseline) Verdict {
		return JudgeFirstTimeout(opWindow(map[string]*RetryGroup{"0": tried(n, uint64(n), timeouts(uint64(dead)))}), b, c.FirstTimeout, 3)
	}
	later := func(n, dead int, b OperationBaseline) Verdict {
		return JudgeExhaustion(opWindow(map[string]*RetryGroup{"0": tried(n-dead, uint64(n-dead), Failures{}), "2+": tried(dead, 3*uint64(dead), timeouts(uint64(dead)))}), b, c.Exhaustion, 3)
	}
	for name, judge := range map[string]func(int, int, OperationBaseline) Verdict{FirstTimeout: first, RetryExhaustion: later} {
		require.Equal(t, Insufficient, judge(30, 18, OperationBaseline{}).Level, name)
		require.Equal(t, Insufficient, judge(99, 60, OperationBaseline{}).Level, name)
		v := judge(120, 30, OperationBaseline{})
		require.Equal(t, Breach, v.Level, name)
		require.Equal(t, name, v.Detection)
		require.Equal(t, "over_limit", v.Reason)
		require.InDelta(t, 0.25, v.Value, 1e-9)
		require.Equal(t, Breach, falseDiscoveries([]Verdict{v}, c.FDR, c.MaxP)[0].Level, name)
		// Both sides of 20 %.
		v = judge(120, 24, OperationBaseline{})
		require.Equal(t, Breach, falseDiscoveries([]Verdict{v}, c.FDR, c.MaxP)[0].Level, name)
		require.Equal(t, NoBaseline, judge(120, 23, OperationBaseline{}).Level, name)
		// A share that always was there does not page, whatever the limit.
		always := usual(10000, 10000, 2500, 2500, 2500)
		require.Equal(t, Quiet, judge(120, 30, always).Level, name)
		// Against a baseline of 1 %: the lower bound over 3 %, on both sides; clear under 1.5 %.
		calm := usual(10000, 10000, 100, 100, 100)
		require.Equal(t, Breach, judge(1000, 41, calm).Level, name)
		require.Equal(t, Hold, judge(1000, 40, calm).Level, name)
		require.Equal(t, Hold, judge(1000, 15, calm).Level, name)
		require.Equal(t, Quiet, judge(1000, 14, calm).Level, name)
		require.Equal(t, "risen", judge(1000, 41, calm).Reason)
	}
	// The other of the two is quiet.
	require.Equal(t, Quiet, JudgeExhaustion(opWindow(map[string]*RetryGroup{"0": tried(120, 120, timeouts(30))}), usual(10000, 10000, 100, 100, 100), c.Exhaustion, 3).Level)
}

func TestDeathsAreSplit(t *testing.T) {
	c := DefaultConfig()
	calm := usual(10000, 10000, 100, 100, 100)
	w := opWindow(map[string]*RetryGroup{
		"0":       tried(800, 800, Failures{All: 110, Timeout: 60, AtCap: 70, Client: 40}),
		"1":       tried(100, 200, Failures{All: 50, Overload: 40, Client: 5}),
		"2+":      tried(100, 400, Failures{All: 45, Overload: 30, Timeout: 10}),
		"unknown": tried(50, 0, timeouts(50)),
	})
	w.ByRetries["2+"].FailedNS, w.ByRetries["2+"].BackoffNS = 300e9, 700e9
	w.Attempts = &AttemptWindow{Endpoints: map[string]EndpointTries{"eu": {N: 120, Failed: 72}, "us": {N: 1000, Failed: 10}, "few": {N: 30, Failed: 30}}}
	first := JudgeFirstTimeout(w, calm, c.FirstTimeout, 3)
	require.Equal(t, Breach, first.Level, first.Text)
	require.InDelta(t, 0.07, first.Value, 1e-9, "timeouts by class or by length, whichever are more; unknown ones are no evidence")
	require.Contains(t, first.Cause, "declared timeout")
	require.Contains(t, first.Cause, "eu fails 60 % of 120 tries; other endpoints fail 4 %", "30 tries are too few")
	require.InDelta(t, 0.04, first.Evidence.Numbers.At("first_other_failure_share"), 1e-9)
	later := JudgeExhaustion(w, calm, c.Exhaustion, 3)
	require.Equal(t, Breach, later.Level)
	require.InDelta(t, 0.09, later.Value, 1e-9, "a caller's own mistake is not exhaustion")
	require.InDelta(t, 0.07, later.Evidence.Numbers.At("later_overload_share"), 1e-9)
	require.Contains(t, later.Cause, "retries add to its load")
	require.Contains(t, later.Cause, "1.5 s on failed attempts and 3.5 s on backoff")
	w.ByRetries["unknown"] = tried(5000, 0, timeouts(50))
	require.Len(t, JudgeFirstTimeout(w, calm, c.FirstTimeout, 3).Evidence.Notes, 1)
}

// piled is a slice of single calls: lengths in ms, and how many of them failed so.
func piled(ms []float64, stream string, f Failures) OperationWindow {
	g := group(ms, nil, false, 0, 0)
	g.LeafAttempts, g.Failed = g.N, f
	w := opWindow(map[string]*RetryGroup{"0": g})
	w.Stream, w.N = stream, g.N
	return w
}

// healthy is a baseline in which 0.2 % of calls are cut.
var healthy = usual(10000, 10000, 20, 0, 20)

func TestC70PileUpOfUnstreamedCallsAt60(t *testing.T) {
	rng := source(t)
	var long []float64
	for range 20 {
		long = append(long, 70000+10000*rng.Float64())
	}
	cut, streamed := piled(fixed(20, 60000), "no", timeouts(20)), piled(long, "yes", Failures{})
	cfg := DefaultConfig().PileUp
	for _, b := range []OperationBaseline{{}, healthy} {
		vs := []Verdict{JudgePileUp(cut, b, cfg, 3), JudgePileUp(streamed, b, cfg, 3)}
		namePileUps(vs, func(s Slice, from, to time.Time) *OperationWindow {
			require.Equal(t, streamed.Slice, s)
			require.Equal(t, []time.Time{cut.From, cut.To}, []time.Time{from, to})
			return &streamed
		})
		require.Equal(t, Breach, vs[0].Level, vs[0].Text)
		require.Equal(t, "no", vs[0].Slice.Stream)
		require.InEpsilon(t, 60000, vs[0].Evidence.Numbers.At("cap_ms"), 0.03)
		require.InDelta(t, 1, vs[0].Value, 1e-9)
		require.Equal(t, reasonAllCut, vs[0].Reason)
		require.Contains(t, vs[0].Cause, "the limit is on answers that are not streamed")
		require.Equal(t, Quiet, vs[1].Level)
		require.Equal(t, "no_pile_up", vs[1].Reason)
	}
}

func TestC74PileUpApartFromTheRest(t *testing.T) {
	rng := source(t)
	ms := append(around(rng, 54, 900, 60), fixed(6, 60000)...)
	for _, b := range []OperationBaseline{{}, healthy} {
		v := JudgePileUp(piled(ms, "no", timeouts(6)), b, DefaultConfig().PileUp, 3)
		require.Equal(t, Breach, v.Level, v.Text)
		require.Equal(t, reasonApart, v.Reason)
		require.InEpsilon(t, 60000, v.Evidence.Numbers.At("cap_ms"), 0.03)
		require.InDelta(t, 0.1, v.Value, 1e-9)
		require.Zero(t, v.Evidence.Numbers.At("retry_share"))
		require.Contains(t, v.Cause, "two groups and not one slow tail")
		require.Less(t, v.P, 0.01)
	}
	// The same where attempts are not known, which is no evidence of retries either.
	w := piled(ms, "no", timeouts(6))
	w.ByRetries["unknown"], w.ByRetries["0"] = w.ByRetries["0"], nil
	require.Equal(t, Breach, JudgePileUp(w, healthy, DefaultConfig().PileUp, 3).Level)
}

func TestC85CapBelowP95(t *testing.T) {
	rng := source(t)
	sigma := math.Log(55.0/20) / 1.6448536
	var ms []float64
	cut := uint64(0)
	for i := range 500 {
		// Quantiles in place of draws, so that the share is the distribution's own.
		z := math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/500-1)
		x := 20000 * math.Exp(sigma*z)
		if x > 45000 {
			x, cut = 45000+50*rng.Float64(), cut+1
		}
		ms = append(ms, x)
	}
	for _, b := range []OperationBaseline{{}, healthy} {
		v := JudgePileUp(piled(ms, "no", timeouts(cut)), b, DefaultConfig().PileUp, 3)
		require.Equal(t, Breach, v.Level, v.Text)
		require.Equal(t, reasonCapBelowP95, v.Reason)
		require.InDelta(t, 0.0937, v.Value, 0.002)
		require.InEpsilon(t, 45000, v.Evidence.Numbers.At("cap_ms"), 0.04)
		require.InEpsilon(t, 55000, v.Evidence.Numbers.At("uncut_p95_ms"), 0.05)
		require.Contains(t, v.Cause, "cap below P95")
	}
	// The same tail without a cap has no pile.
	for i := range ms {
		ms[i] = 20000 * math.Exp(sigma*rng.NormFloat64())
	}
	require.Equal(t, "no_pile_up", JudgePileUp(piled(ms, "no", timeouts(cut)), healthy, DefaultConfig().PileUp, 3).Reason)
}

// C14: calls of 91.6 s whose three tries each die at 30 s, which no span declares. The cap is
// that of a try.
func TestC14CapOfEachTry(t *testing.T) {
	g := group(fixed(10, 91600), fixed(10, 30000), false, 60000, 1600)
	g.LeafAttempts, g.Failed = 30, timeouts(10)
	w := opWindow(map[string]*RetryGroup{"2+": g})
	w.N, w.Attempts, w.Alone = 10, &AttemptWindow{N: 30, Leaf: 30, Cut: measure(fixed(30, 30000)...)}, true
	v := JudgePileUp(w, OperationBaseline{}, DefaultConfig().PileUp, 3)
	require.Equal(t, Breach, v.Level, v.Text)
	require.InEpsilon(t, 30000, v.Evidence.Numbers.At("cap_ms"), 0.03)
	require.InEpsilon(t, 3.05, 91600/v.Evidence.Numbers.At("cap_ms"), 0.03, "total over cap")
	require.Zero(t, v.Evidence.Numbers.At("declared_share"))
}

// C21: a tool's calls end at a gateway's 30 s though 120 s are declared.
func TestC21CapBelowTheDeclaredTimeout(t *testing.T) {
	w := piled(fixed(10, 30000), "no", Failures{All: 10, Cancelled: 10})
	w.Kind, w.Target = rows.KindTool, "t"
	v := JudgePileUp(w, OperationBaseline{}, DefaultConfig().PileUp, 3)
	require.Equal(t, Breach, v.Level, v.Text)
	require.Contains(t, v.Cause, "no declared timeout is known to end there")
	declareCap(&v, store.Timeouts{N: 10, Known: 10, MedianNS: 120e9})
	require.InDelta(t, 120000, v.Evidence.Numbers.At("declared_timeout_ms"), 1e-9)
	require.Contains(t, v.Cause, "declare a timeout of 120 s and are cut at 30 s")
	// Nine are too few.
	require.Equal(t, Insufficient, JudgePileUp(piled(fixed(9, 30000), "no", timeouts(9)), OperationBaseline{}, DefaultConfig().PileUp, 3).Level)
	v = JudgePileUp(piled(fixed(10, 30000), "no", Failures{All: 10, Timeout: 10, AtCap: 10}), OperationBaseline{}, DefaultConfig().PileUp, 3)
	require.Contains(t, v.Cause, "it is the declared timeout")
	// A timeout that few calls declare is not theirs.
	before := v.Cause
	declareCap(&v, store.Timeouts{N: 10, Known: 4, MedianNS: 120e9})
	require.Equal(t, before, v.Cause)
}

func TestPileUpBoundaries(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig().PileUp
	judge := func(n, cut int, b OperationBaseline) Verdict {
		return JudgePileUp(piled(append(around(rng, n-cut, 900, 60), fixed(cut, 60000)...), "no", timeouts(uint64(cut))), b, cfg, 3)
	}
	// Without a baseline 5 % fire; with one of 1 % or less, a lower bound over 3 %.
	require.Equal(t, Breach, judge(200, 10, OperationBaseline{}).Level)
	require.Equal(t, NoBaseline, judge(200, 9, OperationBaseline{}).Level)
	require.Equal(t, Breach, judge(1000, 41, healthy).Level)
	require.Equal(t, Hold, judge(1000, 40, healthy).Level)
	require.Equal(t, Hold, judge(1000, 15, healthy).Level)
	require.Equal(t, Quiet, judge(1000, 14, healthy).Level)
	// Five make a pile, four do not.
	require.Equal(t, Breach, judge(40, 5, healthy).Level)
	require.Equal(t, "no_pile_up", judge(40, 4, healthy).Reason)
	// Always cut so: quiet.
	require.Equal(t, Quiet, judge(200, 20, usual(10000, 10000, 1000, 0, 1000)).Level)
	// A usual length of work that is done is no cap, also when other calls fail.
	constant := append(fixed(180, 2000), fixed(20, 15)...)
	require.Equal(t, "no_pile_up", JudgePileUp(piled(constant, "no", timeouts(20)), OperationBaseline{}, cfg, 3).Reason)
	// Four requests never page (C66).
	require.Equal(t, Insufficient, judge(4, 1, healthy).Level)
}

// Tries that are cut and then made again pile up too, though the calls succeed.
func TestPileUpOfTriesThatAreRetried(t *testing.T) {
	rng := source(t)
	ok := around(rng, 160, 2000, 500)
	w := opWindow(map[string]*RetryGroup{"0": tried(160, 160, Failures{}), "1": tried(40, 80, Failures{})})
	w.ByRetries["0"].User = measure(ok...)
	w.ByRetries["1"].User = measure(around(rng, 40, 34000, 900)...)
	w.Attempts, w.Alone = &AttemptWindow{N: 240, Leaf: 240, Cut: measure(fixed(40, 30000)...), CutAtCap: 40}, true
	b := usual(10000, 10100, 0, 0, 0)
	b.Attempts = AttemptBaseline{N: 10100, Leaf: 10100, Cut: 50}
	v := JudgePileUp(w, b, DefaultConfig().PileUp, 3)
	require.Equal(t, Breach, v.Level, v.Text)
	require.Equal(t, reasonTriesCut, v.Reason)
	require.InDelta(t, 40.0/240, v.Value, 1e-9)
	require.InEpsilon(t, 30000, v.Evidence.Numbers.At("cap_ms"), 0.03)
	require.Contains(t, v.Cause, "it is the declared timeout")
	w.Alone = false
	require.Equal(t, "no_pile_up", JudgePileUp(w, b, DefaultConfig().PileUp, 3).Reason, "whose tries they are is not known")
}

// C79: half of the calls are tried three times because of 429; amplification names it too.
func TestC79Amplification(t *testing.T) {
	w := opWindow(map[string]*RetryGroup{"0": tried(52, 52, Failures{}), "2+": tried(48, 144, Failures{})})
	w.Attempts = &AttemptWindow{N: 196, Leaf: 196, Extra: layerCounts{0, 96, 0, 0}, Failed: 96, Overloads: 96}
	v := JudgeAmplification(w, usual(10000, 10100, 0, 0, 0), DefaultConfig().Amplification, 3)
	require.Equal(t, Breach, v.Level, v.Text)
	require.InDelta(t, 1.96, v.Value, 1e-9)
	require.Contains(t, v.Cause, "the SDK layer makes 1.96 tries")
	require.Contains(t, v.Cause, "429")
	require.Equal(t, Quiet, JudgeExhaustion(w, usual(10000, 10100, 0, 0, 0), DeadConfig{MinOperations: 100, Limit: 0.2, MinShare: 0.01, FireRise: 3, ClearRise: 1.5}, 3).Level, "all succeed in the end")
}

// Healthy windows of any size, with retries and timeouts at their usual level, stay
// quiet or hold: no breach in thousands, before the control of false discoveries.
func TestAttemptDetectionsAreQuietAtTheirUsualLevel(t *testing.T) {
	rng := source(t)
	c := DefaultConfig()
	breaches := map[string]int{}
	for range 1500 {
		n := 20 + rng.IntN(3000)
		retry, dead := 0.005+0.2*rng.Float64(), 0.05*rng.Float64()
		w, b := randomWindow(rng, n, retry, dead)
		for _, v := range []Verdict{JudgeAmplification(w, b, c.Amplification, 3), JudgeFirstTimeout(w, b, c.FirstTimeout, 3), JudgeExhaustion(w, b, c.Exhaustion, 3), JudgePileUp(w, b, c.PileUp, 3)} {
			if v.Level == Breach {
				breaches[v.Detection+" "+v.Text]++
			}
		}
	}
	require.Empty(t, breaches)
}

// randomWindow draws n calls with a chance of a retry and of death by timeout per
// attempt, lognormal lengths cut at a cap, and the baseline of the same.
func randomWindow(rng *rand.Rand, n int, retry, dead float64) (OperationWindow, OperationBaseline) {
	groups := map[string]*RetryGroup{}
	for range n {
		extra := 0
		for extra < 3 && rng.Float64() < retry {
			extra++
		}
		name := retryOrder[min(extra, 2)]
		if groups[name] == nil {
			groups[name] = pool()
		}
		g := groups[name]
		g.N, g.LeafAttempts = g.N+1, g.LeafAttempts+uint64(extra)+1
		ms := 2000 * math.Exp(0.6*rng.NormFloat64())
		if rng.Float64() < dead {
			ms, g.Failed.All, g.Failed.Timeout = 30000, g.Failed.All+1, g.Failed.Timeout+1
		}
		g.User.N++
		g.User.Hist.Add(ms)
	}
	const many = 100000
	extra := retry + retry*retry + retry*retry*retry
	b := usual(many, uint64(many*(1+extra)), uint64(many*(1-retry)*dead), uint64(many*retry*dead), uint64(many*dead))
	return opWindow(groups), b
}

func TestAboutIsARoundNumber(t *testing.T) {
	for _, ms := range []float64{200, 500, 1000, 2500, 10000, 15000, 30000, 45000, 60000, 75000, 120000, 600000} {
		for _, off := range []float64{0.98, 1, 1.02} {
			require.InEpsilon(t, ms, about(ms*off), 0.001, "%v x %v", ms, off)
		}
	}
	require.InEpsilon(t, 37321, about(37321), 0.03)
}

// C12: one retry is configured and six tries are made, since an SDK and a decorator both retry.
func TestC12TheAlertNamesMoreTriesThanConfigured(t *testing.T) {
	v := Verdict{Detection: RetryAmplification, Cause: "the framework retries"}
	beyondConfigured(&v, store.ConfiguredRetries{N: 100, Known: 80, Allowed: 1})
	require.Equal(t, "the framework retries", v.Cause)
	beyondConfigured(&v, store.ConfiguredRetries{N: 100, Known: 80, Over: 20, Allowed: 1, Most: 6})
	require.Contains(t, v.Cause, "20 of 80 calls that state how many retries they allow (typically 1) made more tries than that, up to 6")
	require.InDelta(t, 0.25, v.Evidence.Numbers.At("over_configured_share"), 1e-9)
	require.InDelta(t, 6, v.Evidence.Numbers.At("most_attempts"), 1e-9)
}
