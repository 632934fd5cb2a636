package detector

import (
	"fmt"
	"math"

	"driftline/detector/stats"
)

// minBaseDrift is how many decision points a stratum's baseline needs.
const minBaseDrift = 50

// JudgeDrift judges deadline_drift: the share of requests whose planner was told
// that much more time was left than was true. The share is compared with what the
// baseline's strata would give for this mix of task lengths, so longer tasks alone
// do not fire.
func JudgeDrift(w RequestWindow, b RequestBaseline, cfg DriftConfig) Verdict {
	v := Verdict{Detection: DeadlineDrift, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "1", EffectUnit: "1", Severity: Warning}
	limit := driftLimit(w, cfg)
	var n, k uint64
	var expected float64
	var skipped uint64
	drifting := &stats.Hist{}
	judged := map[string]bool{}
	history := b.Blocks > 0
	for _, name := range []string{"0", "1-3", "4-7", "8-14", "15+"} {
		s := w.Strata[name]
		if s == nil || s.Drift.N == 0 {
			continue
		}
		usual := cfg.PriorShare
		if history {
			base := b.Strata[name]
			if base == nil || base.N < minBaseDrift || longer(s, base) {
				skipped += s.Drift.N
				continue
			}
			usual, _ = base.Drift.Above(limit)
		}
		above, err := s.Drift.Hist.Above(limit)
		if err != nil {
			continue
		}
		judged[name] = true
		n += s.Drift.N
		k += uint64(math.Round(above * float64(s.Drift.N)))
		expected += usual * float64(s.Drift.N)
		drifting.Merge(s.Drift.Hist)
	}
	v.Samples = n
	if skipped > 0 {
		v.note(fmt.Sprintf("%d requests of a length that the baseline does not have were left out", skipped))
	}
	if n < cfg.MinRequests {
		return v.with(Insufficient, "few_decision_points")
	}
	now, err := stats.Wilson(min(k, n), n, 0.95)
	if err != nil {
		return v.with(Insufficient, "few_decision_points")
	}
	reference := math.Max(expected/float64(n), cfg.MinShare)
	v.Value, v.Baseline, v.Effect = now.Estimate, reference, now
	v.Threshold = math.Min(cfg.FireRise*reference, reference+cfg.FireStep)
	if v.P, err = stats.BinomialTail(min(k, n), n, math.Min(reference, 1)); err != nil {
		v.P = 1
	}
	p95 := quantile(drifting, 0.95)
	v.number("drift_limit_ms", limit)
	v.number("drift_p50_ms", quantile(drifting, 0.5))
	v.number("drift_p95_ms", p95)
	v.number("budget_ms", w.BudgetMS)
	v.number("deadline_missed_share", share(w.Missed, w.Known))
	v.number("deadline_missed_share_baseline", share(b.DeadlineMissed, b.DeadlineKnown))
	v.number("tool_error_share", share(w.ToolErrors, w.ToolCalls))
	hiddenByRetries(&v, w)
	critical := missed(w.Missed, w.Known, b.DeadlineMissed, b.DeadlineKnown, cfg.MissShare)
	v.Severity = severity(critical)
	v.Cause = "time spent below the planner (failed attempts, backoff) is not taken off the remaining time it is told"
	if w.DecisionPoints == 0 {
		v.Cause = "no planner was told a time, but limits of steps end after the deadline of their request: a budget is started anew below it, or work goes on past the deadline"
	}
	v.Text = fmt.Sprintf("%.1f %% of requests (95 %% interval %.1f to %.1f %%; usual for such tasks %.1f %%) decided with more than %.1f s too much time in mind; P95 of the drift is %.1f s",
		100*now.Estimate, 100*now.Lo, 100*now.Hi, 100*reference, limit/1e3, p95/1e3)
	if w.BudgetMS > 0 {
		v.Text += fmt.Sprintf(" of a budget of %.0f s", w.BudgetMS/1e3)
	}
	if w.Known > 0 {
		v.Text += fmt.Sprintf("; %.1f %% missed their deadline", 100*share(w.Missed, w.Known))
	}
	creep := creeping{}
	if history && now.Estimate >= creepLeast && w.Drifting != nil {
		creep = creepOf(w.Drifting(judged, limit), expected, float64(n), usualDecisions(b, judged))
		v.number("drift_cusum", creep.sum)
		// A large group weighs on the sum for long after it has passed, which the window shows.
		if creep.alarm = creep.alarm && now.Estimate > creep.nothing; creep.alarm {
			v.P = math.Min(v.P, math.Exp(-creep.sum))
		}
	}
	switch {
	case now.Lo > v.Threshold:
		v.Strength = now.Lo / v.Threshold
		return v.with(Breach, "stale_budget")
	case creep.alarm:
		v.Text += fmt.Sprintf("; the share has been raised for %d minutes", creep.minutes)
		return v.with(Breach, "stale_budget_lasts")
	case now.Estimate < cfg.ClearRise*reference:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}

// A minority that drifts moves the window's share late, where a window holds few requests. The
// sequential test over the minutes of the long window looks for creepSought, or creepRise times
// what is usual, and takes creepMargin times the upper bound of what is usual, at least
// creepUsual, as nothing. It counts while the window itself has at least creepLeast.
const (
	creepUsual  = 0.005
	creepSought = 0.05
	creepLeast  = 0.02
	creepMargin = 1.5
	creepRise   = 4
	// creepH lets a false alarm come once in e to that many requests or more (Lorden 1971).
	creepH = 14
)

// creeping is what the sequential test says: its sum, for how many minutes it has been above
// nothing, and which share it takes as nothing.
type creeping struct {
	sum     float64
	nothing float64
	minutes int
	alarm   bool
}

// creepOf runs the test over minutes. The window's n decision points have an expected number
// of drifts, from a history of that many decision points.
func creepOf(minutes []Share, expected, n float64, history uint64) (c creeping) {
	usual, err := stats.Wilson(min(uint64(math.Ceil(expected/n*float64(history))), history), history, 0.95)
	if err != nil {
		return c
	}
	test := stats.BernoulliCUSUM{P0: math.Max(creepUsual, creepMargin*usual.Hi), H: creepH}
	if test.P1 = math.Max(creepSought, creepRise*test.P0); test.P1 >= 1 {
		return c // a level at which nearly all drift anyway
	}
	for _, m := range minutes {
		if over, err := test.Update(m.K, m.N); err == nil {
			c.alarm = over
		}
		if c.minutes++; test.S == 0 {
			c.minutes = 0
		}
	}
	c.sum, c.nothing = test.S, test.P0
	return c
}

// usualDecisions is how many decision points the baseline's strata of these names hold.
func usualDecisions(b RequestBaseline, names map[string]bool) (n uint64) {
	for name := range names {
		if s := b.Strata[name]; s != nil {
			n += s.N
		}
	}
	return n
}

// maxLonger is how much longer than in the baseline the tasks of a stratum may be on
// average. Strata are wide, the last is open: longer tasks have more retries and
// more drift within one, without any fault.
const maxLonger = 1.15

func longer(s *Stratum, base *StratumBaseline) bool {
	if s.N == 0 || base.Requests == 0 || base.Operations == 0 {
		return false
	}
	return float64(s.Operations)/float64(s.N) > maxLonger*float64(base.Operations)/float64(base.Requests)
}

// driftLimit is the drift in milliseconds from which it counts: a share of the
// budget, or of user time where no budget is known.
func driftLimit(w RequestWindow, cfg DriftConfig) float64 {
	limit := float64(cfg.MinDrift.Milliseconds())
	if w.BudgetMS > 0 {
		return math.Max(limit, cfg.BudgetShare*w.BudgetMS)
	}
	return math.Max(limit, cfg.UserShare*quantile(w.User.Hist, 0.5))
}

// hiddenByRetries shows whether hidden time grows with retries.
func hiddenByRetries(v *Verdict, w RequestWindow) {
	total := map[string]*RetryGroup{}
	for _, s := range w.Strata {
		for name, g := range s.ByRetries {
			total[name] = pool(total[name], g)
		}
	}
	v.Evidence.Groups = groupsOf(total)
	for _, part := range [...]struct{ retries, number string }{{"0", "hidden_mean_ms_retries_0"}, {"1", "hidden_mean_ms_retries_1"}, {"2+", "hidden_mean_ms_retries_2"}} {
		if g := total[part.retries]; g != nil && g.N > 0 {
			v.number(part.number, float64(g.FailedNS+g.BackoffNS)/float64(g.N)/1e6)
		}
	}
}
