package detector

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/store"
)

var oneTool = Slice{Service: "shop", Agent: "planner", Kind: "tool", Target: "search", Stream: "no"}

// worked is a window of calls, usual a baseline of blocks.
func worked(s Slice, sum store.Work) WorkWindow {
	return WorkWindow{Slice: s, From: t0.Add(-5 * time.Minute), To: t0, Sum: sum, Load: sum, LoadSpan: 10 * time.Minute}
}

// Many calls of one request that runs long are one piece of news, not many.
func TestCallsOfOneRequestShareTheirLimit(t *testing.T) {
	cfg := DefaultRules()
	usual := WorkBaseline{Blocks: 3, N: 10_000, Limited: 10_000, Past: 20, Left: 10_000, Doomed: 20, P95MS: 4000}
	left := measure(append(fixed(49, 30_000), fixed(7, 1000)...)...)
	w := worked(oneTool, store.Work{N: 56, Limited: 56, Past: 7, LimitNS: 56e9, Left: left})
	require.Equal(t, Breach, JudgeStuck(w, usual, cfg.Stuck, 3).Level)
	alone := JudgeDispatch(w, usual, cfg.Drift, 3)
	require.Less(t, alone.P, 1e-6)

	w.PerRequest = 6
	v := JudgeStuck(w, usual, cfg.Stuck, 3)
	require.Equal(t, Hold, v.Level)
	require.InDelta(t, 0.125, v.Value, 1e-9, "the share is of calls")
	require.Greater(t, v.P, 1e-6)
	require.Greater(t, JudgeDispatch(w, usual, cfg.Drift, 3).P, 1e-6)

	// What many requests show fires all the same.
	w.Sum.N, w.Sum.Limited, w.Sum.Past = 560, 560, 140
	v = JudgeStuck(w, usual, cfg.Stuck, 3)
	require.Equal(t, Breach, v.Level)
	require.Less(t, v.P, 1e-6)
}

func TestStuckShareAtItsLevels(t *testing.T) {
	cfg := DefaultRules().Stuck
	usual := WorkBaseline{Blocks: 3, N: 10_000, Limited: 10_000, Past: 100, P95MS: 4000}
	judge := func(n, past uint64, b WorkBaseline) Verdict {
		return JudgeStuck(worked(oneTool, store.Work{N: n, Limited: n, Past: past, LimitNS: 30e9}), b, cfg, 3)
	}
	// The reference is 2 %, the least; 6 % must be excluded: 88 of 1000 have a lower bound of
	// 7.2 %, and 60 do not exclude it.
	v := judge(1000, 88, usual)
	require.Equal(t, Breach, v.Level, v.Reason)
	require.Less(t, v.P, 1e-6)
	require.Greater(t, v.Effect.Lo, 0.06)
	require.Contains(t, v.Text, "median 30s")
	require.Equal(t, Warning, v.Severity)
	require.Equal(t, Hold, judge(1000, 60, usual).Level)
	require.Equal(t, Hold, judge(1000, 30, usual).Level, "at the clear level")
	require.Equal(t, Quiet, judge(1000, 29, usual).Level)
	// A level that was always there is no finding, at any height.
	always := usual
	always.Past = 900
	require.Equal(t, Quiet, judge(1000, 90, always).Level)
	always.Past = 6000
	require.Equal(t, Quiet, judge(1000, 600, always).Level)
	require.Equal(t, Breach, judge(1000, 900, always).Level, "from 60 to 90 % is told, though it is not three times")
	// Few, and learning.
	require.Equal(t, Insufficient, judge(19, 19, usual).Level)
	require.Equal(t, Breach, judge(20, 20, usual).Level)
	require.Equal(t, Hold, judge(20, 4, usual).Level, "four never fire")
	require.Equal(t, NoBaseline, judge(1000, 90, WorkBaseline{Blocks: 2, N: 10_000, Limited: 10_000}).Level)
	require.Equal(t, NoBaseline, judge(1000, 90, WorkBaseline{Blocks: 3, N: 10_000, Limited: 199}).Level)
	// Only missed deadlines are critical.
	w := worked(oneTool, store.Work{N: 1000, Limited: 1000, Past: 200, LimitNS: 30e9, Known: 1000, Missed: 60})
	require.Equal(t, Critical, JudgeStuck(w, usual, cfg, 3).Severity)
}

// A deploy that makes agents take more steps makes more of their requests long; that alone is
// no news, and a share that longer tasks do not explain is.
func TestStuckShareOfLongerTasks(t *testing.T) {
	cfg := DefaultRules().Stuck
	requests := Slice{Service: "shop", Agent: "planner", Kind: "agent"}
	usual := WorkBaseline{Blocks: 3, N: 10_000, Limited: 10_000, Past: 400}
	judge := func(n, past uint64, more float64) Verdict {
		w := worked(requests, store.Work{N: n, Limited: n, Past: past, LimitNS: 69e9})
		w.Steps = func() float64 { return more }
		return JudgeStuck(w, usual, cfg, 3)
	}
	v := judge(90, 18, 1)
	require.Equal(t, Breach, v.Level)
	require.Less(t, v.P, 1e-6)
	v = judge(90, 18, 1.4)
	require.Equal(t, Hold, v.Level, "0.04 to the power of 1/1.4 is 10 %, and three times that is not exceeded")
	require.InDelta(t, 0.1003, v.Baseline, 0.0001)
	require.InDelta(t, 1.4, v.Evidence.Numbers.At("steps_ratio"), 1e-9)
	require.Contains(t, v.Evidence.Notes[0], "1.4 times as many calls")
	require.Equal(t, Breach, judge(90, 60, 1.4).Level)
	require.Less(t, judge(90, 60, 1.4).P, 1e-6)
	require.Equal(t, Breach, judge(90, 90, 2).Level)
	require.Equal(t, 0.25, longerTasks(0.0625, 2))

	// Five of 33 are above three times the least reference, and no less likely by chance than
	// one window in two thousand is.
	usual.Past = 30
	v = judge(33, 5, 1)
	require.Equal(t, Breach, v.Level)
	require.InDelta(t, 4.5e-4, v.P, 1e-4)
}

// Requests that are open past half of their deadline count, and those that are not yet do not.
func TestOpenWorkIsCensored(t *testing.T) {
	cfg := DefaultRules().Stuck
	requests := Slice{Service: "shop", Agent: "planner", Kind: "agent"}
	usual := WorkBaseline{Blocks: 3, N: 10_000, Limited: 10_000, Past: 100, P95MS: 20_000}
	w := worked(requests, store.Work{N: 40, Limited: 40, Past: 1, LimitNS: 60e9})
	require.Equal(t, Quiet, func() Level { w := w; w.Sum.Past = 0; return JudgeStuck(w, usual, cfg, 3).Level }())
	for i := range 20 {
		age := time.Duration(50-2*i) * time.Second // 50 to 12 s of 60
		w.Open.Oldest = append(w.Open.Oldest, store.OpenRequest{TraceID: fmt.Sprint(i), Age: age, Budget: time.Minute, Spans: 2})
	}
	w.Open.All = 20
	v := JudgeStuck(w, usual, cfg, 3)
	require.Equal(t, Breach, v.Level, v.Reason)
	require.Equal(t, []float64{11, 50}, []float64{v.Evidence.Numbers.At("past_half"), float64(v.Samples)}, "10 are past 30 s; the other 10 have not decided")
	require.Equal(t, 50.0, v.Evidence.Numbers.At("oldest_open_s"))
	require.Zero(t, v.Evidence.Numbers.At("stuck"))
}

// C24: 200 chat calls near 2 s and one of 23,400 s that succeeded: one is stuck, P95 does not
// move, and the next window's baseline is as before.
func TestC24OneHungCall(t *testing.T) {
	cfg := DefaultConfig()
	rng := source(t)
	ms := append(around(rng, 200, 2000, 150), 23_400_000)
	chat := Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "no"}
	w := worked(chat, store.Work{N: 201, OK: 201})
	w.User = func() store.Measure { return measure(ms...) }
	usual := WorkBaseline{Blocks: 3, N: 4000, P95MS: 2250}
	v := JudgeStuck(w, usual, cfg.Stuck, cfg.MinBlocks)
	require.Equal(t, 1.0, v.Evidence.Numbers.At("past_half"))
	require.Equal(t, 300.0, v.Evidence.Numbers.At("limit_s"), "inferred")
	require.Equal(t, Quiet, v.Level, "one call is told, and not alerted")
	require.Contains(t, v.Evidence.Notes[0], "no limit is declared")

	calls := inference(t0, ms)
	b := calm(source(t), 2000, 150)
	require.NotEqual(t, Breach, JudgeSpread(calls, b, cfg.Spread, cfg.MinBlocks).Level)
	require.NotEqual(t, Breach, JudgeSurge(calls, b, cfg.Surge, cfg.MinBlocks).Level)

	// The window becomes a block of the baseline: its medians and shares do not move.
	blocks := func(hung bool) WorkBaseline {
		k := newWorks(10 * time.Minute)
		for i := range 6 {
			sum := store.Work{Slice: chat, At: t0.Add(time.Duration(i) * 10 * time.Minute), N: 200, OK: 200, OKNS: 400e9, P95NS: 2250e6, BusyNS: 400e9}
			if hung && i == 5 {
				sum.N, sum.OK, sum.OKNS, sum.BusyNS = 201, 201, 23_800e9, 23_800e9
			}
			b := blockOf(&sum, k.length)
			k.blocks.put(chat, sum.At.Unix(), &b)
		}
		return k.baseline(chat, func(Slice, int64) bool { return true })
	}
	before, after := blocks(false), blocks(true)
	require.Equal(t, []float64{before.P95MS, before.OKMS, before.Load}, []float64{after.P95MS, after.OKMS, after.Load})
}

// C89: a request that had a span every 10 s falls silent after 300 s. By 360 s it is stuck or
// lost, and when it is seen no more that is no recovery.
func TestC89SilentRequestIsStuck(t *testing.T) {
	cfg := DefaultConfig()
	requests := Slice{Service: "shop", Agent: "planner", Kind: "agent"}
	usual := WorkBaseline{Blocks: 3, N: 2000, P95MS: 12_000}
	at := func(age time.Duration) Verdict {
		w := worked(requests, store.Work{})
		lived := min(age, 300*time.Second)
		w.Open = OpenWork{All: 1, Oldest: []store.OpenRequest{{TraceID: "x", Age: age, Silence: age - lived, Lived: lived, Spans: uint32(lived/(10*time.Second)) + 1}}}
		w.To = t0.Add(age)
		return JudgeStuck(w, usual, cfg.Stuck, cfg.MinBlocks)
	}
	require.Equal(t, Insufficient, at(300*time.Second).Level, "old, and alive")
	require.Equal(t, Insufficient, at(359*time.Second).Level)
	v := at(360*time.Second + time.Nanosecond)
	require.Equal(t, Breach, v.Level, v.Reason)
	require.Equal(t, 1.0, v.Evidence.Numbers.At("stuck"))
	require.Equal(t, []string{"x"}, v.Evidence.TraceIDs)
	require.Contains(t, v.Text, "1 of 1 open requests are stuck or lost: the oldest is open for 6m")
	require.Less(t, v.P, 0.001)
	alone := falseDiscoveries([]Verdict{v}, cfg.FDR, cfg.MaxP)[0]
	require.Equal(t, Breach, alone.Level, alone.Reason)

	// Firing is not resolved by silence: neither when the trace is given up nor later.
	b := newBook()
	for i := range 4 {
		b.observe(cfg, at(361*time.Second+time.Duration(i)*time.Minute), t0.Add(time.Duration(i)*time.Minute))
	}
	fp := Fingerprint(StuckRatio, requests)
	require.Equal(t, Firing, b.Tracks[fp].Alert.State)
	for i := range 60 {
		gone := worked(requests, store.Work{})
		gone.To = t0.Add(time.Duration(10+i) * time.Minute)
		b.observe(cfg, JudgeStuck(gone, usual, cfg.Stuck, cfg.MinBlocks), gone.To)
	}
	require.Equal(t, Firing, b.Tracks[fp].Alert.State)

	// Among many that are well, one is told as a number only; where roots never come, open
	// requests tell nothing; without history nothing is judged.
	w := worked(requests, store.Work{N: 40, OK: 40})
	w.User = func() store.Measure { return measure(fixed(40, 9000)...) }
	w.Open = OpenWork{All: 20, Oldest: []store.OpenRequest{{TraceID: "x", Age: 10 * time.Minute, Silence: 9 * time.Minute, Lived: time.Minute, Spans: 9}}}
	v = JudgeStuck(w, usual, cfg.Stuck, cfg.MinBlocks)
	require.Equal(t, Hold, v.Level, "it is not quiet either")
	require.Equal(t, 1.0, v.Evidence.Numbers.At("stuck"))
	broken := usual
	broken.Lost = 400
	w.Open.All = 1
	require.NotEqual(t, Breach, JudgeStuck(w, broken, cfg.Stuck, cfg.MinBlocks).Level)
	require.Equal(t, Breach, JudgeStuck(w, usual, cfg.Stuck, cfg.MinBlocks).Level)
	require.NotEqual(t, Breach, JudgeStuck(w, WorkBaseline{}, cfg.Stuck, cfg.MinBlocks).Level)

	// With a known deadline no silence is needed: it is over, and the request is still there.
	w.Open.Oldest[0].Budget, w.Open.Oldest[0].Silence = 5*time.Minute, time.Second
	v = JudgeStuck(w, usual, cfg.Stuck, cfg.MinBlocks)
	require.Equal(t, Breach, v.Level)
	require.Contains(t, v.Cause, "nothing cuts them")
}

// S3: agents in a chain with caps of 15, 12 and 10 s within 15 s. The first takes 14 s, so the
// second fails after 1 s by what is left, and not by itself.
func TestS3Cascade(t *testing.T) {
	cfg := DefaultConfig()
	second := Slice{Service: "shop", Agent: "chain", Kind: "agent", Target: "second", Stream: "no"}
	first := Slice{Service: "shop", Agent: "chain", Kind: "agent", Target: "first", Stream: "no"}
	usual := WorkBaseline{Blocks: 3, N: 3000, Known: 3000, OKMS: 3000, P95MS: 4500}
	incident := store.Work{N: 60, OK: 30, OKNS: 30 * 3.1e9, Known: 60, Missed: 30, Inherited: 30}
	v := JudgeCascade(worked(second, incident), usual, cfg.Cascade, cfg.MinBlocks)
	require.Equal(t, Breach, v.Level, v.Reason)
	require.Equal(t, Critical, v.Severity, "deadlines are missed")
	require.Less(t, v.P, 1e-6)
	explainCascade(&v, []store.Spender{
		{Slice: first, Requests: 30, Of: 30, Calls: 30, TookNS: 30 * 14e9, Before: 30, BeforeNS: 30 * 14e9, BudgetNS: 15e9},
		{Slice: second, Requests: 30, Of: 30, Calls: 30, TookNS: 30 * 1e9, BudgetNS: 15e9},
	}, func(s Slice) float64 { return map[Slice]float64{first: 5000, second: 3000}[s] })
	require.Contains(t, v.Cause, "upstream agent first of chain spent 14.0 of 15.0 s (2.8 times as long as usual per call)")
	require.Contains(t, v.Cause, "own time is unchanged (1.03 times the usual)")

	level := func(change func(*store.Work), b WorkBaseline) Level {
		sum := incident
		change(&sum)
		return JudgeCascade(worked(second, sum), b, cfg.Cascade, cfg.MinBlocks).Level
	}
	same := func(*store.Work) {}
	require.Equal(t, Hold, level(func(w *store.Work) { w.OKNS = 30 * 3.8e9 }, usual), "the step itself is slower")
	require.Equal(t, Breach, level(func(w *store.Work) { w.OKNS = 30 * 3.7e9 }, usual))
	require.Equal(t, Hold, level(func(w *store.Work) { w.Own = 31 }, usual), "it misses by itself")
	require.Equal(t, Breach, level(func(w *store.Work) { w.Own = 30 }, usual))
	require.Equal(t, Hold, level(func(w *store.Work) { w.N, w.Inherited = 20, 4 }, usual), "four never page")
	require.Equal(t, Breach, level(func(w *store.Work) { w.N, w.Inherited = 20, 5 }, usual))
	require.Equal(t, Insufficient, level(func(w *store.Work) { w.N = 19 }, usual))
	require.Equal(t, Quiet, level(func(w *store.Work) { w.Inherited = 0 }, usual))
	always := usual
	always.Inherited = 1500
	require.Equal(t, Quiet, level(same, always), "half failed by it all the time")
	require.Equal(t, NoBaseline, level(same, WorkBaseline{Blocks: 3, N: 199}))
	require.Equal(t, NoBaseline, level(same, WorkBaseline{Blocks: 2, N: 3000}))

	// Where nothing of the same requests ran before it, that is said.
	v = JudgeCascade(worked(second, incident), usual, cfg.Cascade, cfg.MinBlocks)
	explainCascade(&v, nil, func(Slice) float64 { return 0 })
	require.Contains(t, v.Evidence.Notes[0], "not seen")
}

// C18: 20 chat calls with a timeout of 5 s take 20 to 40 s and are OK: one finding.
func TestC18TimeoutNotEnforced(t *testing.T) {
	cfg := DefaultRules().Timeout
	chat := Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "unknown"}
	judge := func(s Slice, declared, overran uint64, b WorkBaseline) Verdict {
		return JudgeTimeout(worked(s, store.Work{N: declared, OK: declared, Declared: declared, Overran: overran, OverranNS: int64(overran) * 30e9, DeclaredNS: 5e9}), b, cfg)
	}
	v := judge(chat, 20, 20, WorkBaseline{})
	require.Equal(t, Breach, v.Level, v.Reason)
	require.Equal(t, Warning, v.Severity)
	require.Equal(t, uint64(20), v.Samples)
	require.Less(t, v.P, 1e-6)
	require.Contains(t, v.Text, "declared timeout (median 5.0 s) without an error, 30.0 s on average")
	require.Equal(t, Insufficient, judge(chat, 9, 9, WorkBaseline{}).Level)
	require.Equal(t, Breach, judge(chat, 10, 10, WorkBaseline{}).Level)
	require.Equal(t, Hold, judge(chat, 10, 4, WorkBaseline{}).Level)
	require.Equal(t, Breach, judge(chat, 10, 5, WorkBaseline{}).Level)
	require.Equal(t, Hold, judge(chat, 1000, 60, WorkBaseline{}).Level, "5 % is not excluded")
	require.Equal(t, Breach, judge(chat, 1000, 70, WorkBaseline{}).Level)
	require.Equal(t, Hold, judge(chat, 1000, 10, WorkBaseline{}).Level)
	require.Equal(t, Quiet, judge(chat, 1000, 9, WorkBaseline{}).Level)
	// Once it is the history, it is not told again; it is not cleared either.
	v = judge(chat, 200, 200, WorkBaseline{Blocks: 6, Declared: 4000, Overran: 4000})
	require.Equal(t, Hold, v.Level)
	require.Equal(t, "always_so", v.Reason)
	streamed := chat
	streamed.Stream = "yes"
	require.Equal(t, Insufficient, judge(streamed, 20, 20, WorkBaseline{}).Level)
}

// C78, C76: work begins although what is left is less than it usually takes, and its own cap
// cannot help since it is larger.
func TestC78BegunTooLate(t *testing.T) {
	cfg := DefaultConfig()
	usual := WorkBaseline{Blocks: 3, N: 6000, Left: 6000, Doomed: 120, P95MS: 9000}
	judge := func(ms []float64, uncovered uint64) Verdict {
		w := worked(oneTool, store.Work{N: uint64(len(ms)), Left: measure(ms...), Capped: uint64(len(ms)), Uncovered: uncovered, DeclaredNS: 30e9})
		return JudgeDispatch(w, usual, cfg.Drift, cfg.MinBlocks)
	}
	mix := func(late, n int) []float64 { return append(fixed(late, 4000), fixed(n-late, 60_000)...) }
	v := judge(mix(50, 200), 50)
	require.Equal(t, Breach, v.Level, v.Reason)
	require.Equal(t, DeadlineDrift, v.Detection)
	require.Equal(t, 50.0, v.Evidence.Numbers.At("began_too_late"))
	require.Contains(t, v.Cause, "25 % of calls have a timeout of their own (median 30.0 s) that is more than what is left")
	require.NotContains(t, judge(mix(50, 200), 24).Cause, "timeout of their own")
	// 2 % is usual: 12 % must be excluded.
	require.Equal(t, Breach, judge(mix(36, 200), 0).Level)
	require.Equal(t, Hold, judge(mix(32, 200), 0).Level)
	require.Equal(t, Hold, judge(mix(6, 200), 0).Level)
	require.Equal(t, Quiet, judge(mix(5, 200), 0).Level)
	require.Equal(t, Insufficient, judge(mix(29, 29), 0).Level)
	require.Equal(t, NoBaseline, JudgeDispatch(worked(oneTool, store.Work{N: 200, Left: measure(mix(50, 200)...)}), WorkBaseline{Blocks: 3, Left: 199, P95MS: 9000}, cfg.Drift, 3).Level)
}

// spent is what is said of requests' drift if a kind of call took the time of them, of, if none
// is given, one.
func spent(s store.Spender) string {
	s.Slice = Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "no"}
	s.Of = max(s.Of, 1)
	s.Requests = s.Of
	agent := Slice{Service: "shop", Agent: "planner", Kind: "agent", Target: "planner", Stream: "no"}
	return spentBy(&Verdict{}, []store.Spender{{Slice: agent, Calls: 1, TookNS: s.TookNS + 1, LongestShare: 1, Of: s.Of}, s})
}

// C78: 859 of 900 s in one call without retries.
func TestC78OneCallTookTheBudget(t *testing.T) {
	call := store.Spender{Calls: 1, TookNS: 859e9, LongestShare: 859. / 900, LongestAttempts: 1, Attempts: 1, Known: 1, Alone: 1}
	require.Equal(t, "a single call, chat m1 of planner, took 95 % of the budget, with 0 retries", spent(call))
	call.LongestAttempts, call.Attempts, call.Known = 0, 0, 0
	require.Equal(t, "a single call, chat m1 of planner, took 95 % of the budget", spent(call), "attempts are not known")
	require.Contains(t, spent(store.Spender{Calls: 4, TookNS: 9e9, LongestShare: 0.3, LongestAttempts: 1}), "most of the time went to chat")
	// One call that hung is not what fifty requests have in common: most of their calls were tried
	// again and again.
	many := store.Spender{Of: 50, Calls: 60, TookNS: 900e9, LongestShare: 3.92, LongestAttempts: 1, Attempts: 150, Known: 60, Alone: 24}
	require.Equal(t, "chat m1 of planner was tried 2.5 times per call on the same route and never fell back to another", spent(many))
	many.Alone = 25
	require.Equal(t, "in 25 of 50 requests that missed it a single call, chat m1 of planner, took nearly all of the budget or more, with 0 retries", spent(many))
}

// C16: a budget of 20 s, three tries on one route, each as long; no other model was tried.
func TestC16TriesOnOneRoute(t *testing.T) {
	tries := store.Spender{Calls: 1, TookNS: 61.5e9, LongestShare: 61.5 / 20, LongestAttempts: 3, Attempts: 3, Known: 1}
	require.Equal(t, "chat m1 of planner was tried 3.0 times per call on the same route and never fell back to another", spent(tries))
	tries.Fallbacks = 1
	require.NotContains(t, spent(tries), "never fell back")
	v := JudgeDrift(overDeadline(20_000, 61_500), RequestBaseline{}, DefaultRules().Drift)
	require.Equal(t, Breach, v.Level)
	require.InEpsilon(t, 41_500, v.Evidence.Numbers.At("drift_p50_ms"), 0.02)
}

// C76: each try began the budget of 30 s anew; the user waited for 46.
func TestC76EachTryBeganTheBudgetAnew(t *testing.T) {
	require.Contains(t, spent(store.Spender{Calls: 1, TookNS: 46e9, LongestShare: 46. / 30, LongestAttempts: 2, Attempts: 2, Known: 1, Uncovered: 1}),
		"each time with a timeout that is more than what was left")
	v := JudgeDrift(overDeadline(30_000, 46_000), RequestBaseline{}, DefaultRules().Drift)
	require.Equal(t, Breach, v.Level)
	require.InEpsilon(t, 16_000, v.Evidence.Numbers.At("drift_p50_ms"), 0.02)
}

// C19: nobody was told a time, and each try kept its own; the drift is against the request's
// deadline.
func TestC19DriftIsAgainstTheRequestsDeadline(t *testing.T) {
	w := overDeadline(90_000, 140_000)
	v := JudgeDrift(w, RequestBaseline{}, DefaultRules().Drift)
	require.Equal(t, Breach, v.Level)
	require.InEpsilon(t, 50_000, v.Evidence.Numbers.At("drift_p95_ms"), 0.02)
	require.Contains(t, v.Cause, "no planner was told a time")
	w.DecisionPoints = 40
	require.Contains(t, JudgeDrift(w, RequestBaseline{}, DefaultRules().Drift).Cause, "not taken off the remaining time")
}

// overDeadline are requests of a budget that took so long, in milliseconds.
func overDeadline(budget, took float64) RequestWindow {
	return RequestWindow{Slice: Slice{Service: "shop", Agent: "planner", Kind: "agent"}, From: t0.Add(-5 * time.Minute), To: t0, BudgetMS: budget,
		User: measure(fixed(40, took)...), Strata: map[string]*Stratum{"1-3": {N: 40, Drift: measure(fixed(40, took-budget)...)}}}
}

// The odds of a miss by tool errors are taken at equal length: longer tasks have more of both.
func TestOddsOfAMiss(t *testing.T) {
	odds := func(misses ...store.Misses) map[string]float64 {
		v := Verdict{}
		explainDrift(&v, nil, misses)
		return v.Evidence.Numbers.byName()
	}
	n := odds(store.Misses{Steps: "1-3", Tokens: "0-4k", Known: 90, Missed: 9}, store.Misses{Steps: "1-3", Tokens: "0-4k", ToolErrors: true, Known: 10, Missed: 1},
		store.Misses{Steps: "15+", Tokens: "0-4k", Known: 10, Missed: 5}, store.Misses{Steps: "15+", Tokens: "0-4k", ToolErrors: true, Known: 90, Missed: 45})
	require.InDelta(t, 1, n["miss_odds_tool_errors"], 1e-9)
	require.InDelta(t, 9, n["miss_odds_many_steps"], 1e-9)
	require.Greater(t, n["miss_odds_many_steps_lo"], 2.0)
	require.NotContains(t, n, "miss_odds_many_tokens")
	n = odds(store.Misses{Steps: "4-7", Tokens: "0-4k", Known: 100, Missed: 2}, store.Misses{Steps: "4-7", Tokens: "0-4k", ToolErrors: true, Known: 100, Missed: 30})
	require.Greater(t, n["miss_odds_tool_errors_lo"], 4.0)
	require.NotContains(t, n, "miss_odds_many_steps")
	require.Empty(t, odds())
}
