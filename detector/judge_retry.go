package detector

import (
	"fmt"
	"math"

	"driftline/detector/stats"
)

// rise compares a share with its baseline.
type rise struct {
	now       stats.Interval
	reference float64
	// known says that reference is a baseline, not the prior.
	known bool
	p     float64
}

// riseOf judges k of n against baseK of baseN, or against a prior where the
// baseline has fewer than minBase. least is the least reference.
func riseOf(k, n, baseK, baseN, minBase uint64, prior, least float64) (rise, error) {
	w, err := stats.Wilson(k, n, 0.95)
	if err != nil {
		return rise{}, err
	}
	r := rise{now: w, reference: math.Max(prior, least)}
	if baseN >= minBase && baseN > 0 {
		r.known, r.reference = true, math.Max(share(baseK, baseN), least)
		t, err := stats.TwoProportions(k, n, min(baseK, baseN), baseN, 0.95)
		if err != nil {
			return rise{}, err
		}
		r.p = t.PGreater
		return r, nil
	}
	r.p, err = stats.BinomialTail(k, n, math.Min(r.reference, 1))
	return r, err
}

func (r rise) text() string {
	if r.known {
		return fmt.Sprintf("baseline %.1f %%", 100*r.reference)
	}
	return fmt.Sprintf("no baseline yet, %.0f %% assumed", 100*r.reference)
}

// minBaseOperations is how many operations a baseline retry share needs.
const minBaseOperations = 200

// sides splits retry groups into work with fewer and with more retries: none
// against some, or, where hardly anything is without, at most one against more.
func sides(by map[string]*RetryGroup, minSide uint64) (lo, hi *RetryGroup, name string) {
	zero := by["0"]
	if zero != nil && zero.N >= minSide {
		return pool(zero), pool(by["1"], by["2+"]), "1 or more retries against none"
	}
	return pool(zero, by["1"]), pool(by["2+"]), "2 or more retries against at most 1"
}

// userTimes are those of all groups; absent ones are empty.
func userTimes(groups ...*RetryGroup) *stats.Hist {
	var only *stats.Hist
	some := 0
	for _, g := range groups {
		if g != nil && len(g.User.Hist.Index) > 0 {
			only = g.User.Hist
			some++
		}
	}
	if some == 1 {
		return only
	}
	var sum stats.Sum
	for _, g := range groups {
		if g != nil {
			sum.Add(g.User.Hist)
		}
	}
	all := &stats.Hist{}
	sum.Take(all)
	return all
}

// agentReported says whether agent time of both sides is what the agent said and
// not user time less hidden time.
func agentReported(lo, hi *RetryGroup) bool {
	enough := func(g *RetryGroup) bool {
		return g.Agent.N >= 5 && 10*g.AgentReported >= 9*g.Agent.N && 10*g.Agent.N >= 8*g.User.N
	}
	return enough(lo) && enough(hi)
}

// JudgeRetry judges retry_bimodality of one kind of call. It fires when
//   - user time separates by retries with a large effect, and
//   - the share of calls with retries has risen well over its baseline, or retried
//     calls miss deadlines much more often, and
//   - agent time is shown close where the agent reported it. A derived agent time is
//     user time less hidden time, close by construction: then the measured rise must
//     prove it, and the alert says so.
func JudgeRetry(w OperationWindow, b OperationBaseline, cfg RetryConfig) Verdict {
	v := Verdict{Detection: RetryBimodality, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "1", Severity: Warning}
	zero, one, more := w.ByRetries["0"], w.ByRetries["1"], w.ByRetries["2+"]
	known, retried := tally(zero, one, more).N, tally(one, more).N
	v.Samples = known
	if known < cfg.MinOperations {
		return v.with(Insufficient, "few_known_attempts")
	}
	r, err := riseOf(retried, known, b.Retried, b.Known, minBaseOperations, cfg.PriorShare, cfg.MinShare)
	if err != nil {
		return v.with(Insufficient, "few_known_attempts")
	}
	v.Evidence.Groups = groupsOf(w.ByRetries)
	v.Value, v.Baseline, v.Threshold, v.P = r.now.Estimate, r.reference, cfg.FireRise*r.reference, r.p
	v.number("retry_share", r.now.Estimate)
	v.number("retry_share_lo", r.now.Lo)
	v.number("retry_share_hi", r.now.Hi)
	v.number("retry_share_baseline", r.reference)
	dip, dipErr := stats.HistDip(userTimes(zero, one, more), stats.Log)
	if dipErr == nil {
		v.number("dip", dip.D)
		v.number("dip_p", dip.P)
	}
	if retried < cfg.MinSide {
		if dipErr == nil && dip.P < 0.01 {
			v.note("user time has more than one mode without retries: a pile-up, not hidden retries")
			return v.with(Quiet, "bimodal_without_retries")
		}
		return v.with(Quiet, "few_retries")
	}
	lo, hi, contrast := sides(w.ByRetries, cfg.MinSide)
	auc, err := stats.AUC(hi.User.Hist.Points(), lo.User.Hist.Points(), 0.95)
	shift, err2 := stats.QuantileShift(hi.User.Hist.Points(), lo.User.Hist.Points(), 0.5, stats.Linear, 0.95)
	if err != nil || err2 != nil || lo.N < cfg.MinSide || hi.N < cfg.MinSide {
		return v.with(Hold, "one_sided")
	}
	v.Effect, v.EffectUnit = shift.Interval, "ms"
	v.number("auc_user", auc.Estimate)
	v.number("auc_user_lo", auc.Lo)
	base := quantile(lo.User.Hist, 0.5)
	need := math.Max(float64(cfg.MinSeparation.Milliseconds()), cfg.MinSeparationRatio*base)
	effect := auc.Estimate >= cfg.FireAUC && auc.Lo >= (0.5+cfg.FireAUC)/2 && shift.Estimate >= need && shift.Lo > 0
	impact := deadlineImpact(lo, hi, cfg.Impact)
	risen := r.now.Lo > v.Threshold
	v.began(retriesOnset(w.Minutes))
	v.Severity = severity(impact)
	v.Cause = hiddenCause(hi)
	v.Text = fmt.Sprintf("%.1f %% of calls were retried (%s) and took %.1f s at the median against %.1f s with fewer (%s; difference %.1f s, 95 %% interval %.1f to %.1f s)",
		100*r.now.Estimate, r.text(), quantile(hi.User.Hist, 0.5)/1e3, base/1e3, contrast, shift.Estimate/1e3, shift.Lo/1e3, shift.Hi/1e3)

	if agentReported(lo, hi) {
		close, reason := agentClose(&v, lo, hi, shift, cfg.Margin)
		if !close {
			return v.with(Quiet, reason)
		}
	} else {
		if lo.Agent.N+hi.Agent.N > 0 {
			v.note("agent time is derived (user time less hidden time), so it proves nothing here; the measured rise of retries does")
		} else {
			v.note("agent time is unknown; the measured rise of retries is the proof")
		}
		impact = false // without a rise there is no independent proof
	}
	switch {
	case effect && (risen || impact):
		v.Strength = r.now.Lo / v.Threshold
		if !risen {
			v.P = impactP(lo, hi)
		}
		return v.with(Breach, "retries_hidden")
	case r.now.Estimate < cfg.ClearRise*r.reference && !impact, auc.Estimate < 0.65:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}

// agentClose tells whether agent time is shown close between the sides while user
// time differs by more: the difference of differences.
func agentClose(v *Verdict, lo, hi *RetryGroup, user stats.Shift, margin float64) (bool, string) {
	eq, err := stats.EquivalentMedians(hi.Agent.Hist.Points(), lo.Agent.Hist.Points(), margin, 0.05)
	agent, err2 := stats.QuantileShift(hi.Agent.Hist.Points(), lo.Agent.Hist.Points(), 0.5, stats.Linear, 0.95)
	if err != nil || err2 != nil {
		return false, "agent_time_insufficient"
	}
	v.number("agent_ratio", eq.Ratio.Estimate)
	v.number("agent_ratio_lo", eq.Ratio.Lo)
	v.number("agent_ratio_hi", eq.Ratio.Hi)
	dod, err := stats.DifferenceOfDifferences(user, agent, 0, 0.95)
	if err != nil {
		return false, "agent_time_insufficient"
	}
	v.number("difference_of_differences_ms", dod.Estimate)
	v.number("difference_of_differences_lo_ms", dod.Lo)
	if !eq.Equivalent || dod.Lo <= 0 {
		return false, "agent_time_moves_too"
	}
	return true, ""
}

// deadlineImpact says whether work with more retries misses its deadline more
// often by at least step, with the interval's lower bound.
func deadlineImpact(lo, hi *RetryGroup, step float64) bool {
	t, err := stats.TwoProportions(hi.Missed, hi.Known, lo.Missed, lo.Known, 0.999)
	return err == nil && hi.Missed >= 5 && t.Diff.Lo >= step
}

// impactP is how likely chance alone lets work with more retries miss its deadline so much
// more often.
func impactP(lo, hi *RetryGroup) float64 {
	t, err := stats.TwoProportions(hi.Missed, hi.Known, lo.Missed, lo.Known, 0.95)
	if err != nil {
		return 1
	}
	return t.PGreater
}

// hiddenCause names the main part of hidden time.
func hiddenCause(hi *RetryGroup) string {
	if hi.N == 0 || hi.FailedNS+hi.BackoffNS == 0 {
		return "retries below the agent, whose parts are not known"
	}
	failed, backoff := float64(hi.FailedNS)/float64(hi.N)/1e9, float64(hi.BackoffNS)/float64(hi.N)/1e9
	if backoff > failed {
		return fmt.Sprintf("retries below the agent; backoff is the main part of hidden time (%.1f s of %.1f s per retried call)", backoff, failed+backoff)
	}
	return fmt.Sprintf("retries below the agent; failed attempts are the main part of hidden time (%.1f s of %.1f s per retried call)", failed, failed+backoff)
}
