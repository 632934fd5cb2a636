package detector

import (
	"fmt"
	"math"

	"driftline/detector/stats"
)

// ratioTo is a quantity now against its baseline, with an interval.
type ratioTo struct {
	est, lo, hi float64
	ok          bool
}

// levelRatio compares a quantile of a window with the baseline's, with the interval that
// the window's size allows. The baseline, a median of many blocks, is taken as known.
func levelRatio(h *stats.Hist, q, base float64) ratioTo {
	c, err := stats.HistQuantileCI(h, q, 0.95)
	if err != nil || base <= 0 {
		return ratioTo{}
	}
	return ratioTo{c.Estimate / base, c.Lo / base, c.Hi / base, true}
}

// p of a ratio being no more than 1, from its interval on the log scale.
func (r ratioTo) p() float64 {
	if !r.ok || r.lo <= 0 || r.est <= 0 {
		return 1
	}
	se := math.Max(math.Log(r.est/r.lo)/z95, 1e-6)
	return normSF(math.Log(r.est) / se)
}

// JudgeSpread judges p95_spread: the slice's own time scatters by Ratio times its
// baseline or more. It takes the largest of three ratios:
//   - the robust SD (interquartile range), which sees the bulk widen,
//   - the tail, (P95 - P50) / 1.645, which sees a slow minority of 5 % or more,
//   - the movement of the minutes' P95 less its sampling error, which sees transitions.
//
// One giant outlier moves none of them. It clears only when P95 is back as well.
func JudgeSpread(w OperationWindow, b OperationBaseline, cfg SpreadConfig, minBlocks int) Verdict {
	v := Verdict{Detection: P95Spread, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "ms", EffectUnit: "ratio", Severity: Warning, Samples: w.Own.N}
	if w.Own.N < cfg.MinOperations {
		return v.with(Insufficient, "few_operations")
	}
	if b.Blocks < minBlocks || b.P95MS <= 0 {
		return v.with(NoBaseline, "learning")
	}
	band := cfg.MinBand * b.P95MS
	p50, p95 := quantile(w.Own.Hist, 0.5), quantile(w.Own.Hist, 0.95)
	level := levelRatio(w.Own.Hist, 0.95, b.P95MS)

	bulkBase, tailBase := math.Max(b.SpreadMS, band), math.Max(b.TailMS, band)
	sd, _ := w.Own.Hist.RobustSD(stats.Linear)
	bulk := ratioTo{est: sd / bulkBase}
	if i, err := stats.RobustSDInterval(w.Own.Hist, stats.Linear, 0.95); err == nil && i.Estimate > 0 {
		bulk = ratioTo{bulk.est, bulk.est * i.Lo / i.Estimate, bulk.est * i.Hi / i.Estimate, true}
	}
	tail := ratioTo{est: tailMS(p50, p95) / tailBase}
	if level.ok {
		tail.lo, tail.hi, tail.ok = tailMS(p50, level.lo*b.P95MS)/tailBase, tailMS(p50, level.hi*b.P95MS)/tailBase, true
	}
	moving := scatter(w, b, cfg, band)

	best, kind, reason, unitBase := bulk, "bulk", "spread_bulk", bulkBase
	if tail.est > best.est {
		best, kind, reason, unitBase = tail, "tail", "spread_tail", tailBase
	}
	if moving.est > best.est {
		best, kind, reason, unitBase = moving, "movement of P95", "spread_movement", math.Max(b.Scatter.CorrectedSD, math.Max(b.Scatter.SamplingSD, band))
	}
	v.Value, v.Baseline, v.Threshold = best.est*unitBase, unitBase, cfg.Ratio*unitBase
	v.Effect = stats.Interval{Estimate: best.est, Lo: best.lo, Hi: best.hi, Confidence: 0.95}
	v.P = best.p()
	v.number("spread_ratio", best.est)
	v.number("robust_sd_ms", sd)
	v.number("robust_sd_ratio", bulk.est)
	v.number("tail_ratio", tail.est)
	v.number("p95_movement_ratio", moving.est)
	v.number("p95_ms", p95)
	v.number("p95_baseline_ms", b.P95MS)
	if b.Season > 0 && b.Season != 1 {
		v.number("time_of_day_factor", b.Season)
	}
	v.number("p95_ratio", level.est)
	v.number("status_504_share", share(w.Status504, w.N))
	v.Severity = severity(missed(w.Missed, w.Known, b.DeadlineMissed, b.DeadlineKnown, cfg.MissShare))
	v.Cause = timeName(w.Kind) + " has become uneven: queueing or a degraded backend is the usual reason; it comes before timeouts do"
	v.Text = fmt.Sprintf("%s scatters %.1f times as much as usual (%s: %.0f ms against %.0f ms; 95 %% interval %.1f to %.1f times); P95 is %.1f s against %.1f s",
		timeName(w.Kind), best.est, kind, v.Value, unitBase, best.lo, best.hi, p95/1e3, b.P95MS/1e3)
	floor := math.Max(float64(cfg.P95Floor.Milliseconds()), cfg.P95Ratio*b.P95MS)
	fires := func(r ratioTo) bool { return r.ok && r.est >= cfg.Ratio && r.lo >= (1+cfg.Ratio)/2 }
	v.began(latencyOnset(w.Minutes, ownOf))
	switch {
	case p95 >= floor && (fires(bulk) || fires(tail) || fires(moving)):
		if passed(w.Minutes, ownOf, w.To, cfg.ClearP95*b.P95MS) {
			return v.with(Hold, "passed")
		}
		if best != bulk && b.Far.usualIn(w.Own.Hist, b.P95MS) {
			return v.with(Hold, "usual_minority")
		}
		v.Strength = best.lo / cfg.Ratio
		return v.with(Breach, reason)
	case best.est < cfg.ClearRatio && level.est < cfg.ClearP95:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}

// scatter compares how P95 moves over the last sub-windows with the baseline.
func scatter(w OperationWindow, b OperationBaseline, cfg SpreadConfig, band float64) ratioTo {
	if b.Scatter.Windows < cfg.SubWindows {
		return ratioTo{}
	}
	subs := make([]stats.SubP95, 0, cfg.SubWindows)
	for i := len(w.Minutes) - 1; i >= 0 && len(subs) < cfg.SubWindows; i-- {
		if w.Minutes[i].Own.N > 0 {
			subs = append(subs, w.Minutes[i].Own.Sub)
		}
	}
	now, err := stats.P95SpreadOf(subs, stats.SpreadConfig{MinPerWindow: cfg.MinOperations, MinWindows: cfg.SubWindows})
	if err != nil {
		return ratioTo{}
	}
	r, err := stats.SpreadRatio(now, b.Scatter, band, 0.95)
	if err != nil {
		return ratioTo{}
	}
	return ratioTo{r.Corrected.Estimate, r.Corrected.Lo, r.Corrected.Hi, true}
}

// timeName is what a slice's own time is called.
func timeName(kind string) string {
	if modelKind(kind) {
		return "inference time"
	}
	return "the time of calls"
}

// lateness is one measure of latency beside its baseline.
type lateness struct {
	hist    *stats.Hist
	of      func(*Minute) *MinuteP95
	baseMS  float64
	logP95  float64
	logSD   float64
	minutes int

	call bool

	ratio  ratioTo
	alarm  bool
	sum    float64
	since  int
	exceed float64
	// far is the share of calls far above the baseline's P95, farSum what the test over the
	// long window makes of it.
	far            stats.Interval
	farSum         float64
	farAlarm       bool
	farSinceMinute int
	usual          FarBaseline
	// moves is how much the baseline's P95 moves by itself.
	moves float64
	// middle is the median of the slice's own times beside its baseline.
	middle ratioTo
	// farAbove is the time above which calls count as far slower, in milliseconds.
	farAbove float64
}

func (l *lateness) judge(w *OperationWindow, cfg SurgeConfig) {
	l.ratio = levelRatio(l.hist, 0.95, l.baseMS)
	if l.ratio.est >= cfg.ClearRatio && w.Above != nil {
		l.exceeding(w, cfg)
	}
	l.minority(w, cfg)
	if l.minutes < 30 {
		return
	}
	// The sum starts anew each time, so that it needs no state and a replay gives the same.
	c := stats.CUSUM{K: cfg.CUSUMK, H: cfg.CUSUMH}
	sd := math.Max(l.logSD, cfg.MinLogSD)
	alarm := false
	for i := range w.Minutes {
		m := l.of(&w.Minutes[i])
		if m.N < minPerMinute || m.P95MS <= 0 {
			continue
		}
		if over, err := c.Update((math.Log(m.P95MS) - l.logP95) / sd); err == nil {
			alarm = over
		}
	}
	l.alarm = l.alarm || alarm
	l.sum = c.S
	l.since = max(l.since, c.Since)
}

// exceeding runs the second test, which also works where minutes have too few calls for a
// P95 of their own: of calls, one in twenty is above the baseline's P95; a lasting share of
// more is an alarm, and sees a slow minority too.
func (l *lateness) exceeding(w *OperationWindow, cfg SurgeConfig) {
	above, all := w.Above(l.call, l.baseMS)
	c := stats.BernoulliCUSUM{P0: cfg.ExceedFrom, P1: cfg.ExceedTo, H: cfg.ExceedH}
	since := 0
	for i := range above {
		over, err := c.Update(above[i], all[i])
		if err != nil {
			continue
		}
		if since++; c.S == 0 {
			since = 0
		}
		l.alarm = over
	}
	l.exceed = c.S
	if l.alarm {
		l.since = since
	}
}

// JudgeSurge judges p95_surge: P95 of the slice's own time is Ratio times its baseline,
// whatever the error rate, or a CUSUM over the minutes' log P95, or one over the share of
// calls above the baseline's P95, finds a smaller shift that lasts, or a minority of calls
// has become far slower than any used to be, or the median is Ratio times its baseline where P95
// lies between two modes, or P95 has risen while work is being cut at a cap, which
// hides how slow it is. For calls of models it looks at their time with connecting and
// queueing too, which says something when inference time alone does not.
func JudgeSurge(w OperationWindow, b OperationBaseline, cfg SurgeConfig, minBlocks int) Verdict {
	middle := levelRatio(w.Own.Hist, 0.5, b.P50MS)
	v := surge(w, b, cfg, minBlocks, lateness{hist: w.Own.Hist, of: ownOf, baseMS: b.P95MS, logP95: b.LogP95, logSD: b.LogP95SD, minutes: b.Minutes, usual: b.Far, moves: b.Moves, middle: middle}, b.Blocks, timeName(w.Kind))
	if v.Level == Breach || v.Level == Insufficient || w.Call.N < cfg.MinOperations {
		return v
	}
	call := surge(w, b, cfg, minBlocks, lateness{hist: w.Call.Hist, of: callOf, baseMS: b.Call.P95MS, logP95: b.Call.LogP95, logSD: b.Call.LogP95SD, minutes: b.Call.Minutes, usual: b.Call.Far, moves: b.Call.Moves, middle: middle, call: true}, b.Call.Blocks, "the time of calls")
	if call.Level == Breach || call.Level == Hold && v.Level == Quiet {
		call.Cause = "calls take longer to reach the model or to be let in: connecting, DNS, TLS, a proxy, a pool or a queue; inference itself is as usual"
		call.number("inference_p95_ratio", v.Effect.Estimate)
		return call
	}
	return v
}

func surge(w OperationWindow, b OperationBaseline, cfg SurgeConfig, minBlocks int, l lateness, blocks int, name string) Verdict {
	v := Verdict{Detection: P95Surge, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "ms", EffectUnit: "ratio", Severity: Warning, Samples: l.hist.N()}
	if v.Samples < cfg.MinOperations {
		return v.with(Insufficient, "few_operations")
	}
	if blocks < minBlocks || l.baseMS <= 0 {
		return v.with(NoBaseline, "learning")
	}
	l.judge(&w, cfg)
	r := l.ratio
	p95 := r.est * l.baseMS
	clipped, _ := stats.Wilson(min(w.AtCap+w.Censored, w.N), max(w.N, 1), 0.95)
	v.Value, v.Baseline, v.Threshold = p95, l.baseMS, cfg.Ratio*l.baseMS
	v.Effect = stats.Interval{Estimate: r.est, Lo: r.lo, Hi: r.hi, Confidence: 0.95}
	v.P = r.p()
	v.number("p95_ms", p95)
	v.number("p95_baseline_ms", l.baseMS)
	if b.Season > 0 && b.Season != 1 {
		v.number("time_of_day_factor", b.Season)
	}
	v.number("p95_ratio", r.est)
	v.number("cusum", l.sum)
	v.number("exceedance_cusum", l.exceed)
	v.number("far_share", l.far.Estimate)
	v.number("far_usual", l.usual.Most)
	v.number("far_cusum", l.farSum)
	v.number("shift_minutes", float64(l.since))
	v.number("clipped_share", clipped.Estimate)
	v.number("status_504_share", share(w.Status504, w.N))
	v.Severity = severity(missed(w.Missed, w.Known, b.DeadlineMissed, b.DeadlineKnown, cfg.MissShare))
	v.Cause = "the model or tool answers more slowly; requests still succeed until a timeout is reached"
	v.Text = fmt.Sprintf("P95 of %s is %.1f s, %.1f times the usual %.1f s (95 %% interval %.1f to %.1f times); %.1f %% ended with HTTP 504",
		name, p95/1e3, r.est, l.baseMS/1e3, r.lo, r.hi, 100*share(w.Status504, w.N))
	if clipped.Estimate > 0 {
		v.Text += fmt.Sprintf("; %.1f %% were cut, so the true P95 may be higher", 100*clipped.Estimate)
	}
	// More tokens explain their part of a smaller shift: longer answers are another kind of work.
	explained := explainedBy(&w, &b)
	v.number("explained_by_tokens", explained)
	least := leastShift(cfg.ShiftRatio, l.moves)
	v.number("least_shift", least)
	shifted := func(least float64) bool { return r.est >= least*explained && r.lo >= (1+least)/2*explained }
	surges := func(r ratioTo) bool { return r.est >= cfg.Ratio && r.lo >= (1+cfg.Ratio)/2 }
	v.number("median_ratio", l.middle.est)
	v.began(latencyOnset(w.Minutes, l.of))
	switch {
	case p95 < float64(cfg.P95Floor.Milliseconds()):
		return v.with(Quiet, "below_floor")
	case l.usual.Between && surges(l.middle):
		v.P = math.Min(v.P, l.middle.p())
		v.Text += fmt.Sprintf("; half of all calls take %.1f times as long as usual or longer, and P95 says little, since about one call in twenty is always far slower", l.middle.est)
		v.Strength = l.middle.lo / cfg.Ratio
		return v.with(Breach, "median_surge")
	case surges(r):
		if passed(w.Minutes, l.of, w.To, cfg.ClearRatio*l.baseMS) {
			return v.with(Hold, "passed")
		}
		if l.usual.usualIn(l.hist, l.baseMS) {
			return v.with(Hold, "usual_minority")
		}
		v.Strength = r.lo / cfg.Ratio
		return v.with(Breach, "surge")
	case shifted(cfg.ShiftRatio) && clipped.Lo > cfg.ClippedShare:
		// Not held to the waves of the slice: a cap above P95 lets it rise no further.
		return v.with(Breach, "clipped")
	case shifted(least) && l.alarm:
		// What the minutes before say counts too: the sum is at most so high by chance.
		v.P = math.Min(v.P, math.Exp(-l.exceed))
		v.Threshold = least * l.baseMS
		v.Text += fmt.Sprintf("; the shift has lasted %d minutes", l.since)
		return v.with(Breach, "lasting_shift")
	case l.minorityPages():
		v.P = math.Min(v.P, math.Exp(-l.farSum))
		v.Text += fmt.Sprintf("; %.1f %% of calls took over %.1f s, %.1f times the usual P95, where at most %.1f %% do, for %d minutes", 100*l.far.Estimate, l.farAbove/1e3, l.farAbove/l.baseMS, 100*l.usual.Most, l.farSinceMinute)
		v.Cause = "a minority of calls is far slower than any used to be: one replica, region or connection, or calls that stand still; the rest is as usual"
		return v.with(Breach, "slow_minority")
	case r.est < cfg.ClearRatio && l.far.Estimate < l.usual.Most+farClear:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}

// explainedBy is by which factor longer answers make calls longer than in the baseline, from
// 1 to mostExplained. Longer prompts explain nothing here: they make calls wait for their
// first token, and nothing bounds how long they grow.
func explainedBy(w *OperationWindow, b *OperationBaseline) float64 {
	output := grown(w.Tokens.perOperation(w.Tokens.Output), b.Tokens.perOperation(b.Tokens.Output))
	return min(max(1, output), mostExplained)
}

// mostExplained is as much as tokens may explain: answers that grow beyond it are what
// somebody should know of, whatever the reason.
const mostExplained = 1.5
