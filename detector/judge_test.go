package detector

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/stats"
	"driftline/detector/store"
)

var t0 = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// source is a seeded generator; the seed is printed so that a failure repeats.
func source(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 7))
}

func measure(ms ...float64) store.Measure {
	h, _ := stats.HistOf(ms)
	m := store.Measure{N: uint64(len(ms)), Hist: h}
	for _, x := range ms {
		m.SumNS += int64(x * 1e6)
	}
	return m
}

func around(rng *rand.Rand, n int, mean, sd float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = max(0.1, mean+sd*rng.NormFloat64())
	}
	return out
}

func fixed(n int, ms float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = ms
	}
	return out
}

func group(user, agent []float64, reported bool, failedMS, backoffMS float64) *RetryGroup {
	g := &RetryGroup{N: uint64(len(user)), User: measure(user...), Agent: measure(agent...)}
	g.FailedNS, g.BackoffNS = int64(failedMS*1e6)*int64(len(user)), int64(backoffMS*1e6)*int64(len(user))
	if reported {
		g.AgentReported = g.Agent.N
	}
	return g
}

func opWindow(groups map[string]*RetryGroup) OperationWindow {
	return OperationWindow{Slice: Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "yes"}, From: t0.Add(-30 * time.Minute), To: t0, ByRetries: groups}
}

func TestRetryBimodalityS1(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig().Retry
	groups := func(agentMeans [3]float64) map[string]*RetryGroup {
		return map[string]*RetryGroup{
			"0":  group(around(rng, 240, 8000, 1000), around(rng, 240, agentMeans[0], 1000), true, 0, 0),
			"1":  group(around(rng, 45, 16000, 1000), around(rng, 45, agentMeans[1], 1000), true, 6000, 2000),
			"2+": group(around(rng, 15, 27000, 1000), around(rng, 15, agentMeans[2], 1000), true, 14000, 5000),
		}
	}
	v := JudgeRetry(opWindow(groups([3]float64{8000, 8000, 8000})), OperationBaseline{}, cfg)
	require.Equal(t, Breach, v.Level, v.Reason)
	require.Equal(t, uint64(300), v.Samples)
	require.InDelta(t, 0.2, v.Value, 1e-9)
	require.Contains(t, v.Text, "no baseline yet")
	require.Contains(t, v.Cause, "failed attempts")
	require.Greater(t, v.Evidence.Numbers.At("difference_of_differences_lo_ms"), 5000.0)
	// Quiet if both scatter alike.
	v = JudgeRetry(opWindow(groups([3]float64{8000, 16000, 27000})), OperationBaseline{}, cfg)
	require.Equal(t, Quiet, v.Level)
	require.Equal(t, "agent_time_moves_too", v.Reason)
	// A level of retries that always was there does not page.
	v = JudgeRetry(opWindow(groups([3]float64{8000, 8000, 8000})), OperationBaseline{Known: 10000, Retried: 2000}, cfg)
	require.Equal(t, Quiet, v.Level, v.Reason)
	// With the same level, retried calls missing their deadlines do.
	w := opWindow(groups([3]float64{8000, 8000, 8000}))
	for name, k := range map[string]uint64{"0": 2, "1": 20, "2+": 14} {
		w.ByRetries[name].Known, w.ByRetries[name].Missed = w.ByRetries[name].N, k
	}
	v = JudgeRetry(w, OperationBaseline{Known: 10000, Retried: 2000}, cfg)
	require.Equal(t, Breach, v.Level, v.Reason)
	require.Equal(t, Critical, v.Severity)
}

func TestRetryBimodalityC79NamesBackoff(t *testing.T) {
	v := JudgeRetry(opWindow(map[string]*RetryGroup{
		"0":  group(fixed(52, 900), fixed(52, 900), false, 0, 0),
		"2+": group(fixed(48, 7500), fixed(48, 900), false, 600, 6000),
	}), OperationBaseline{}, DefaultConfig().Retry)
	require.Equal(t, Breach, v.Level, v.Reason)
	require.Contains(t, v.Cause, "backoff is the main part of hidden time (6.0 s of 6.6 s")
	require.Contains(t, v.Evidence.Notes[0], "derived")
}

func TestRetryBimodalityC74PileUpWithoutRetries(t *testing.T) {
	rng := source(t)
	user := append(around(rng, 54, 900, 60), fixed(6, 60000)...)
	v := JudgeRetry(opWindow(map[string]*RetryGroup{"0": group(user, nil, false, 0, 0)}), OperationBaseline{}, DefaultConfig().Retry)
	require.Equal(t, Quiet, v.Level)
	require.Zero(t, v.Value)
	require.Contains(t, v.Evidence.Numbers.byName(), "dip_p")
}

func TestRetryBimodalityUnknownAttemptsSayNothing(t *testing.T) {
	v := JudgeRetry(opWindow(map[string]*RetryGroup{"unknown": group(fixed(500, 900), nil, false, 0, 0)}), OperationBaseline{}, DefaultConfig().Retry)
	require.Equal(t, Insufficient, v.Level)
}

// C87: 30 with 60 % retried is too few; 120 with 25 % fires. C66: 4 never page.
func TestVolumeFloors(t *testing.T) {
	cfg := DefaultConfig()
	judge := func(clean, retried int) Level {
		return JudgeRetry(opWindow(map[string]*RetryGroup{
			"0": group(fixed(clean, 1000), nil, false, 0, 0), "1": group(fixed(retried, 5000), nil, false, 3000, 1000)}), OperationBaseline{}, cfg.Retry).Level
	}
	require.Equal(t, Insufficient, judge(12, 18))
	require.Equal(t, Breach, judge(90, 30))
	w := inference(t0, []float64{900, 1000, 1100, 40000})
	base := calm(source(t), 1000, 200)
	require.Equal(t, Insufficient, JudgeSurge(w, base, cfg.Surge, 3).Level)
	require.Equal(t, Insufficient, JudgeSpread(w, base, cfg.Spread, 3).Level)
}

func inference(end time.Time, ms []float64) OperationWindow {
	w := opWindow(nil)
	w.From, w.To = end.Add(-5*time.Minute), end
	w.N, w.Inference, w.Own = uint64(len(ms)), measure(ms...), measure(ms...)
	return w
}

// calm is a baseline of a day of blocks of 600 calls.
func calm(rng *rand.Rand, mean, sd float64) OperationBaseline {
	b := NewBaselines(DefaultConfig())
	w := opWindow(nil)
	var minutes []store.OperationMinute
	from := t0.Add(-3 * time.Hour)
	for m := range 120 {
		minutes = append(minutes, store.OperationMinute{Slice: w.Slice, Minute: from.Add(time.Duration(m) * time.Minute), N: 60, Known: 60, Retried: 2, Inference: measure(around(rng, 60, mean, sd)...)})
	}
	b.Load(from, from.Add(2*time.Hour), minutes, nil)
	return b.Operation(w.Slice)
}

func TestC24OneGiantOutlierMovesNothing(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig()
	base := calm(rng, 2000, 200)
	w := inference(t0, append(around(rng, 199, 2000, 200), 23_400_000))
	require.Equal(t, Quiet, JudgeSpread(w, base, cfg.Spread, 3).Level)
	require.Equal(t, Quiet, JudgeSurge(w, base, cfg.Surge, 3).Level)
	// The next baseline with the outlier in it is the same.
	b := NewBaselines(cfg)
	from := t0.Add(-3 * time.Hour)
	var clean, dirty []store.OperationMinute
	for m := range 120 {
		ms := around(rng, 60, 2000, 200)
		clean = append(clean, store.OperationMinute{Slice: w.Slice, Minute: from.Add(time.Duration(m) * time.Minute), N: 60, Inference: measure(ms...)})
		if m == 60 {
			ms = append(ms, 23_400_000)
		}
		dirty = append(dirty, store.OperationMinute{Slice: w.Slice, Minute: from.Add(time.Duration(m) * time.Minute), N: 60, Inference: measure(ms...)})
	}
	b.Load(from, from.Add(2*time.Hour), clean, nil)
	a := b.Operation(w.Slice)
	b = NewBaselines(cfg)
	b.Load(from, from.Add(2*time.Hour), dirty, nil)
	c := b.Operation(w.Slice)
	require.InEpsilon(t, a.SpreadMS, c.SpreadMS, 0.02)
	require.InEpsilon(t, a.P95MS, c.P95MS, 0.02)
}

// Both sides of "+300 %" (x4) and "+200 %" (x3).
func TestSpreadAndSurgeBoundaries(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig()
	base := calm(rng, 5000, 300)
	spread := func(factor float64) Level {
		return JudgeSpread(inference(t0, around(rng, 3000, 5000+8*300*(factor-1)/3, 300*factor)), base, cfg.Spread, 3).Level
	}
	require.Equal(t, Breach, spread(4.6))
	require.NotEqual(t, Breach, spread(3.2))
	require.Equal(t, Quiet, spread(1.0))
	// Close to it, without chance: evenly spaced times with the interquartile range of so many times
	// the baseline's SD, and all calls at so many times its P95. Buckets are 4 % wide.
	wide := calm(rng, 2000, 600)
	even := func(factor float64) []float64 {
		half := factor * 1.349 * max(wide.SpreadMS, cfg.Spread.MinBand*wide.P95MS)
		out := make([]float64, 3000)
		for i := range out {
			out[i] = 5000 + half*(2*(float64(i)+0.5)/3000-1)
		}
		return out
	}
	for factor, want := range map[float64]Level{3.85: Hold, 4.15: Breach} {
		v := JudgeSpread(inference(t0, even(factor)), wide, cfg.Spread, 3)
		require.Equal(t, want, v.Level, "%v times: %s", factor, v.Text)
		require.InEpsilon(t, factor, v.Evidence.Numbers.At("robust_sd_ratio"), 0.02)
		require.InEpsilon(t, 4, v.Threshold/v.Baseline, 1e-9)
	}
	for factor, want := range map[float64]Level{2.9: Hold, 3.1: Breach} {
		v := JudgeSurge(inference(t0, fixed(1000, factor*base.P95MS)), base, cfg.Surge, 3)
		require.Equal(t, want, v.Level, "%v times: %s", factor, v.Text)
		require.InEpsilon(t, 3, v.Threshold/v.Baseline, 1e-9)
	}
	surge := func(factor float64) Level {
		return JudgeSurge(inference(t0, around(rng, 1000, 5000*factor, 300*factor)), base, cfg.Surge, 3).Level
	}
	require.Equal(t, Breach, surge(3.2))
	require.Equal(t, Hold, surge(2.8), "no minutes, so no sequential test")
	require.Equal(t, Quiet, surge(1.0))
}

func TestSpreadClearsOnlyWhenP95IsBack(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig()
	base := calm(rng, 2000, 200)
	v := JudgeSpread(inference(t0, around(rng, 600, 6000, 200)), base, cfg.Spread, 3)
	require.Equal(t, Hold, JudgeSpread(inference(t0, around(rng, 600, 6000, 200)), base, cfg.Spread, 3).Level, v.Text)
}

func TestS4SpreadWithoutErrorsFires(t *testing.T) {
	rng := source(t)
	base := calm(rng, 2000, 300)
	v := JudgeSpread(inference(t0, around(rng, 300, 2000, 1500)), base, DefaultConfig().Spread, 3)
	require.Equal(t, Breach, v.Level, v.Text)
	require.Equal(t, Warning, v.Severity)
	require.Zero(t, v.Evidence.Numbers.At("status_504_share"))
}

// S5: 3 % of 504 is under the 5 % rule; the shift of latency fires all the same.
func TestS5LatencyShiftUnderTheErrorRule(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig()
	base := calm(rng, 2000, 300)
	w := inference(t0, around(rng, 1000, 7000, 900))
	w.Status504, w.AtCap = 30, 30
	require.Equal(t, Breach, JudgeSurge(w, base, cfg.Surge, 3).Level)
	g := []GatewayMinute{{At: t0.Add(-2 * time.Minute), Requests: 100, Requests504: 3}, {At: t0.Add(-time.Minute), Requests: 100, Requests504: 3}}
	require.Equal(t, Quiet, JudgeGateway(w.Slice, g, cfg.Gate).Level)
	for i := range g {
		g[i].ModelCalls, g[i].ModelCalls504 = 100, 6
	}
	require.Equal(t, Breach, JudgeGateway(w.Slice, g, cfg.Gate).Level)
	g[1].At = t0
	require.Equal(t, Insufficient, JudgeGateway(w.Slice, g, cfg.Gate).Level)
}

func TestClippedWorkHidesP95(t *testing.T) {
	rng := source(t)
	base := calm(rng, 10000, 1500)
	w := inference(t0, append(around(rng, 800, 12000, 2000), fixed(200, 30000)...))
	w.AtCap = 200
	v := JudgeSurge(w, base, DefaultConfig().Surge, 3)
	require.Equal(t, Breach, v.Level, v.Text)
	require.Equal(t, "clipped", v.Reason)

	// A cap at 1.5 times the usual P95 lets it rise no further, however much it moves by itself.
	base.Moves = 0.15
	w = inference(t0, append(around(rng, 800, 12000, 2000), fixed(200, 1.5*base.P95MS)...))
	w.AtCap = 200
	v = JudgeSurge(w, base, DefaultConfig().Surge, 3)
	require.Equal(t, Breach, v.Level, v.Text)
	require.Equal(t, "clipped", v.Reason)
}

func TestLastingShiftByCUSUM(t *testing.T) {
	rng := source(t)
	base := calm(rng, 2000, 300)
	shifted := func(factor float64) OperationWindow {
		var all []float64
		w := inference(t0, nil)
		for m := range 30 {
			f := factor
			if m < 20 {
				f = 1
			}
			ms := around(rng, 60, 2000*f, 300*f)
			w.Minutes = append(w.Minutes, minuteOf(t0.Add(time.Duration(m-30)*time.Minute), measure(ms...).Hist))
			if m >= 25 {
				all = append(all, ms...)
			}
		}
		w.N, w.Inference, w.Own = uint64(len(all)), measure(all...), measure(all...)
		return w
	}
	v := JudgeSurge(shifted(1.9), base, DefaultConfig().Surge, 3)
	require.Equal(t, "lasting_shift", v.Reason, v.Text)
	require.Equal(t, Quiet, JudgeSurge(shifted(1), base, DefaultConfig().Surge, 3).Level)
}

// A tool's own time is judged as a model's is; a model's way to it is judged beside its own.
func TestSurgeOfToolsAndOfTheWayToModels(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig()
	tool := Slice{Service: "shop", Agent: "planner", Kind: "tool", Target: "search", Stream: "no"}
	model := Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "yes"}
	from := t0.Add(-3 * time.Hour)
	var history []store.OperationMinute
	for _, s := range []Slice{model, tool} {
		for m := range 120 {
			o := store.OperationMinute{Slice: s, Minute: from.Add(time.Duration(m) * time.Minute), N: 60, Known: 60, Call: measure(around(rng, 60, 2200, 300)...)}
			if s == model {
				o.Inference = measure(around(rng, 60, 2000, 300)...)
			}
			history = append(history, o)
		}
	}
	b := NewBaselines(cfg)
	b.Load(from, from.Add(2*time.Hour), history, nil)
	window := func(s Slice, inference, call float64) OperationWindow {
		c := newCells()
		var all []store.OperationCell
		for m := range 30 {
			cell := store.OperationCell{Slice: s, Minute: t0.Add(time.Duration(m-30) * time.Minute), Retries: "0", N: 60, User: measure(around(rng, 60, call, 300)...)}
			if inference > 0 {
				cell.Inference = measure(around(rng, 60, inference, 300)...)
			}
			all = append(all, cell)
		}
		c.ops.add(t0.Add(-30*time.Minute), t0, all)
		return *c.operationWindow(s, t0.Add(-5*time.Minute), t0, t0.Add(-30*time.Minute))
	}
	judge := func(w OperationWindow) Verdict { return JudgeSurge(w, b.Operation(w.Slice), cfg.Surge, cfg.MinBlocks) }
	require.Equal(t, Quiet, judge(window(tool, 0, 2200)).Level)
	v := judge(window(tool, 0, 8000))
	require.Equal(t, Breach, v.Level, v.Text)
	require.Contains(t, v.Text, "the time of calls")
	require.Equal(t, Quiet, judge(window(model, 2000, 2200)).Level)
	v = judge(window(model, 2000, 9000))
	require.Equal(t, Breach, v.Level, v.Text)
	require.Contains(t, v.Cause, "connecting")
	require.InDelta(t, 1, v.Evidence.Numbers.At("inference_p95_ratio"), 0.1)
	require.Contains(t, judge(window(model, 9000, 9200)).Text, "inference time")
	sub := window(Slice{Service: "shop", Agent: "planner", Kind: "agent", Target: "reader", Stream: "no"}, 0, 9000)
	require.Zero(t, sub.Own.N, "an agent's time is that of the work below it")
}

// Longer answers explain a smaller shift, up to a half; a surge they do not.
func TestTokensExplainAShift(t *testing.T) {
	w := OperationWindow{Tokens: Tokens{Operations: 100, Input: 400_000, Output: 14_000}}
	b := OperationBaseline{Tokens: Tokens{Operations: 100, Input: 100_000, Output: 10_000}}
	require.InDelta(t, 1.4, explainedBy(&w, &b), 1e-9, "longer prompts explain nothing")
	w.Tokens.Output = 90_000
	require.Equal(t, mostExplained, explainedBy(&w, &b))
	w.Tokens.Output = 1_000
	require.Equal(t, 1.0, explainedBy(&w, &b))
	require.Equal(t, 1.0, explainedBy(&OperationWindow{}, &OperationBaseline{}))
}

func requestWindow(drifts map[string][]float64, budgetMS float64) RequestWindow {
	w := RequestWindow{Slice: Slice{Service: "shop", Agent: "planner", Kind: "agent"}, From: t0.Add(-5 * time.Minute), To: t0, Strata: map[string]*Stratum{}, BudgetMS: budgetMS}
	for name, ds := range drifts {
		w.Strata[name] = &Stratum{N: uint64(len(ds)), Drift: measure(ds...), Hidden: measure(ds...), ByRetries: map[string]*RetryGroup{}}
		w.N += uint64(len(ds))
	}
	return w
}

// S1's drift: 300 requests, 45 with 8 s and 15 with 19 s hidden.
func TestDeadlineDriftS1(t *testing.T) {
	cfg := DefaultConfig().Drift
	s1 := requestWindow(map[string][]float64{"4-7": append(append(fixed(240, 0), fixed(45, 8000)...), fixed(15, 19000)...)}, 30000)
	v := JudgeDrift(s1, RequestBaseline{}, cfg)
	require.Equal(t, Breach, v.Level, v.Text)
	require.InDelta(t, 0.2, v.Value, 1e-9)
	require.Equal(t, Warning, v.Severity)
	s1.Known, s1.Missed = 300, 60
	require.Equal(t, Critical, JudgeDrift(s1, RequestBaseline{}, cfg).Severity)

	// As many drifting requests as always is quiet; longer tasks alone are quiet too.
	base := RequestBaseline{Blocks: 10, Strata: map[string]*StratumBaseline{
		"4-7": {N: 1000, Drift: measure(append(fixed(950, 0), fixed(50, 5000)...)...).Hist},
		"15+": {N: 1000, Drift: measure(append(fixed(700, 0), fixed(300, 5000)...)...).Hist}}}
	require.Equal(t, Quiet, JudgeDrift(requestWindow(map[string][]float64{"4-7": append(fixed(95, 0), fixed(5, 5000)...)}, 30000), base, cfg).Level)
	longer := requestWindow(map[string][]float64{"4-7": append(fixed(19, 0), 5000), "15+": append(fixed(140, 0), fixed(60, 5000)...)}, 30000)
	require.Equal(t, Quiet, JudgeDrift(longer, base, cfg).Level)
	// A length never seen before has no usual level and is left out.
	odd := requestWindow(map[string][]float64{"8-14": fixed(100, 9000)}, 30000)
	require.Equal(t, Insufficient, JudgeDrift(odd, base, cfg).Level)
}

// S2: at 15 s of a budget of 30 s planners are told that 30 are left: 15 s too many.
func TestS2StaleBudget(t *testing.T) {
	cfg := DefaultConfig().Drift
	s2 := requestWindow(map[string][]float64{"1-3": fixed(40, 15000)}, 30000)
	s2.DecisionPoints = 40
	v := JudgeDrift(s2, RequestBaseline{}, cfg)
	require.Equal(t, Breach, v.Level)
	require.InEpsilon(t, 15000, v.Evidence.Numbers.At("drift_p50_ms"), 0.03)
	require.Contains(t, v.Text, "of a budget of 30 s")
	require.Contains(t, v.Cause, "not taken off the remaining time")
	// 3 s of 30 are what counts as drift.
	require.Equal(t, Breach, JudgeDrift(requestWindow(map[string][]float64{"1-3": fixed(40, 3200)}, 30000), RequestBaseline{}, cfg).Level)
	require.NotEqual(t, Breach, JudgeDrift(requestWindow(map[string][]float64{"1-3": fixed(40, 2800)}, 30000), RequestBaseline{}, cfg).Level)
	require.Equal(t, Insufficient, JudgeDrift(requestWindow(map[string][]float64{"1-3": fixed(4, 15000)}, 30000), RequestBaseline{}, cfg).Level)
}

func TestRetryRequestsWithinStrata(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig().Retry
	build := func(hidden float64, reported bool) RequestWindow {
		w := requestWindow(nil, 60000)
		for _, s := range []struct {
			name string
			mean float64
			ops  uint64
		}{{"1-3", 8000, 6}, {"4-7", 15000, 12}} {
			lo := group(around(rng, 60, s.mean, 2000), around(rng, 60, s.mean, 2000), reported, 0, 0)
			agent := around(rng, 40, s.mean, 2000)
			user := make([]float64, len(agent))
			for i := range agent {
				user[i] = agent[i] + hidden
			}
			hi := group(user, agent, reported, hidden*0.7, hidden*0.3)
			w.Strata[s.name] = &Stratum{N: 100, ByRetries: map[string]*RetryGroup{"0": lo, "1": hi}}
			w.N += 100
			w.Operations += 100 * s.ops
			w.Attempts += 100*s.ops + 400
		}
		return w
	}
	usual := RequestBaseline{Blocks: 10, Operations: 20000, Attempts: 20500}
	v := JudgeRetryRequests(build(6000, true), usual, cfg)
	require.Equal(t, Breach, v.Level, v.Text)
	require.Equal(t, "agent_time_not_reported", JudgeRetryRequests(build(6000, false), usual, cfg).Reason)
	always := RequestBaseline{Blocks: 10, Operations: 20000, Attempts: 29000}
	require.Equal(t, Quiet, JudgeRetryRequests(build(6000, true), always, cfg).Level)
}

func minuteOf(at time.Time, h *stats.Hist) Minute {
	m := Minute{At: at}
	m.Own.unpack(subP95Of(h).pack(nil))
	return m
}
