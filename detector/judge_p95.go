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
	c, err := stats.QuantileCI(h.Points(), q, 0.95)
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

// JudgeSpread judges p95_spread: inference time scatters by Ratio times its
// baseline or more. It takes the largest of three ratios:
//   - the robust SD (interquartile range), which sees the bulk widen,
//   - the tail, (P95 - P50) / 1.645, which sees a slow minority of 5 % or more,
//   - the movement of the minutes' P95 less its sampling error, which sees transitions.
//
// One giant outlier moves none of them. It clears only when P95 is back as well.
func JudgeSpread(w OperationWindow, b OperationBaseline, cfg SpreadConfig, minBlocks int) Verdict {
	v := Verdict{Detection: P95Spread, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "ms", EffectUnit: "ratio", Severity: Warning, Samples: w.Inference.N}
	if w.Inference.N < cfg.MinOperations {
		return v.with(Insufficient, "few_operations")
	}
	if b.Blocks < minBlocks || b.P95MS <= 0 {
		return v.with(NoBaseline, "learning")
	}
	band := cfg.MinBand * b.P95MS
	p50, p95 := quantile(w.Inference.Hist, 0.5), quantile(w.Inference.Hist, 0.95)
	level := levelRatio(w.Inference.Hist, 0.95, b.P95MS)

	bulkBase, tailBase := math.Max(b.SpreadMS, band), math.Max(b.TailMS, band)
	sd, _ := w.Inference.Hist.RobustSD(stats.Linear)
	bulk := ratioTo{est: sd / bulkBase}
	if i, err := stats.RobustSDInterval(w.Inference.Hist, stats.Linear, 0.95); err == nil && i.Estimate > 0 {
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
	v.Cause = "inference time has become uneven: queueing or a degraded backend is the usual reason; it comes before timeouts do"
	v.Text = fmt.Sprintf("inference time scatters %.1f times as much as usual (%s: %.0f ms against %.0f ms; 95 %% interval %.1f to %.1f times); P95 is %.1f s against %.1f s",
		best.est, kind, v.Value, unitBase, best.lo, best.hi, p95/1e3, b.P95MS/1e3)
	floor := math.Max(float64(cfg.P95Floor.Milliseconds()), cfg.P95Ratio*b.P95MS)
	fires := func(r ratioTo) bool { return r.ok && r.est >= cfg.Ratio && r.lo >= (1+cfg.Ratio)/2 }
	v.began(latencyOnset(w.Minutes))
	switch {
	case p95 >= floor && (fires(bulk) || fires(tail) || fires(moving)):
		if passed(w.Minutes, w.To, cfg.ClearP95*b.P95MS) {
			return v.with(Hold, "passed")
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
		if w.Minutes[i].N > 0 {
			subs = append(subs, w.Minutes[i].Sub)
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

// JudgeSurge judges p95_surge: P95 of inference time is Ratio times its baseline,
// whatever the error rate, or a CUSUM over the minutes' log P95 finds a smaller
// shift that lasts, or P95 has risen while work is being cut at a cap, which
// hides how slow it is.
func JudgeSurge(w OperationWindow, b OperationBaseline, cfg SurgeConfig, minBlocks int) Verdict {
	v := Verdict{Detection: P95Surge, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "ms", EffectUnit: "ratio", Severity: Warning, Samples: w.Inference.N}
	if w.Inference.N < cfg.MinOperations {
		return v.with(Insufficient, "few_operations")
	}
	if b.Blocks < minBlocks || b.P95MS <= 0 {
		return v.with(NoBaseline, "learning")
	}
	r := levelRatio(w.Inference.Hist, 0.95, b.P95MS)
	p95 := r.est * b.P95MS
	alarm, sum, since := sequential(w, b, cfg)
	clipped, _ := stats.Wilson(min(w.AtCap+w.Censored, w.N), max(w.N, 1), 0.95)
	v.Value, v.Baseline, v.Threshold = p95, b.P95MS, cfg.Ratio*b.P95MS
	v.Effect = stats.Interval{Estimate: r.est, Lo: r.lo, Hi: r.hi, Confidence: 0.95}
	v.P = r.p()
	v.number("p95_ms", p95)
	v.number("p95_baseline_ms", b.P95MS)
	if b.Season > 0 && b.Season != 1 {
		v.number("time_of_day_factor", b.Season)
	}
	v.number("p95_ratio", r.est)
	v.number("cusum", sum)
	v.number("shift_minutes", float64(since))
	v.number("clipped_share", clipped.Estimate)
	v.number("status_504_share", share(w.Status504, w.N))
	v.Severity = severity(missed(w.Missed, w.Known, b.DeadlineMissed, b.DeadlineKnown, cfg.MissShare))
	v.Cause = "the model or tool answers more slowly; requests still succeed until a timeout is reached"
	v.Text = fmt.Sprintf("P95 of inference time is %.1f s, %.1f times the usual %.1f s (95 %% interval %.1f to %.1f times); %.1f %% ended with HTTP 504",
		p95/1e3, r.est, b.P95MS/1e3, r.lo, r.hi, 100*share(w.Status504, w.N))
	if clipped.Estimate > 0 {
		v.Text += fmt.Sprintf("; %.1f %% were cut, so the true P95 may be higher", 100*clipped.Estimate)
	}
	shifted := r.est >= cfg.ShiftRatio && r.lo >= (1+cfg.ShiftRatio)/2
	v.began(latencyOnset(w.Minutes))
	switch {
	case p95 < float64(cfg.P95Floor.Milliseconds()):
		return v.with(Quiet, "below_floor")
	case r.est >= cfg.Ratio && r.lo >= (1+cfg.Ratio)/2:
		if passed(w.Minutes, w.To, cfg.ClearRatio*b.P95MS) {
			return v.with(Hold, "passed")
		}
		v.Strength = r.lo / cfg.Ratio
		return v.with(Breach, "surge")
	case shifted && clipped.Lo > cfg.ClippedShare:
		return v.with(Breach, "clipped")
	case shifted && alarm:
		v.Threshold = cfg.ShiftRatio * b.P95MS
		v.Text += fmt.Sprintf("; the shift has lasted %d minutes", since)
		return v.with(Breach, "lasting_shift")
	case r.est < cfg.ClearRatio:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}

// sequential runs a CUSUM over the minutes of the long window. It starts anew each
// time, so that it needs no state and a replay gives the same.
func sequential(w OperationWindow, b OperationBaseline, cfg SurgeConfig) (alarm bool, sum float64, since int) {
	if b.Minutes < 30 {
		return false, 0, 0
	}
	c := stats.CUSUM{K: cfg.CUSUMK, H: cfg.CUSUMH}
	sd := math.Max(b.LogP95SD, cfg.MinLogSD)
	for _, m := range w.Minutes {
		if m.N < minPerMinute || m.P95MS <= 0 {
			continue
		}
		if over, err := c.Update((math.Log(m.P95MS) - b.LogP95) / sd); err == nil {
			alarm = over
		}
	}
	return alarm, c.S, c.Since
}
