package detector

import (
	"fmt"
	"math"

	"driftline/detector/stats"
)

// designEffect allows for retries that come in bursts within one request: the
// intervals count operations as if there were so many times fewer.
const designEffect = 2

// JudgeRetryRequests judges retry_bimodality of an agent's requests. User time is
// compared within step-count strata, because a longer task is slower and has more
// retries without any fault. It needs reported agent time: a derived one is close
// by construction, and the calls' own verdicts cover that case.
func JudgeRetryRequests(w RequestWindow, b RequestBaseline, cfg RetryConfig) Verdict {
	v := Verdict{Detection: RetryBimodality, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "1", Severity: Warning}
	extra, known := w.retries()
	v.Samples = w.N
	total := map[string]*RetryGroup{}
	for _, s := range w.Strata {
		for name, g := range s.ByRetries {
			total[name] = pool(total[name], g)
		}
	}
	v.Evidence.Groups = groupsOf(total)
	if w.N < cfg.MinOperations || known < cfg.MinOperations {
		return v.with(Insufficient, "few_known_attempts")
	}
	baseExtra, baseKnown := extraAttempts(b.Attempts, b.Operations, b.Unknown)
	r, err := riseOf(min(extra, known)/designEffect, known/designEffect, min(baseExtra, baseKnown)/designEffect, baseKnown/designEffect,
		minBaseOperations, cfg.PriorShare, cfg.MinShare)
	if err != nil {
		return v.with(Insufficient, "few_known_attempts")
	}
	v.Value, v.Baseline, v.Threshold, v.P = r.now.Estimate, r.reference, cfg.FireRise*r.reference, r.p
	v.number("retries_per_operation", r.now.Estimate)
	v.number("retries_per_operation_lo", r.now.Lo)
	v.number("retries_per_operation_baseline", r.reference)

	p := poolStrata(w.Strata, cfg.MinSide)
	switch {
	case p.unreported && p.strata == 0:
		v.note("the agent does not report its own time")
		return v.with(Insufficient, "agent_time_not_reported")
	case p.strata == 0:
		if r.now.Estimate < cfg.ClearRise*r.reference {
			return v.with(Quiet, "as_usual")
		}
		return v.with(Insufficient, "few_on_one_side")
	}
	v.Effect, v.EffectUnit = p.user.interval(), "1"
	v.number("auc_user", p.user.mean())
	v.number("auc_agent", p.agent.mean())
	v.number("agent_ratio", math.Exp(p.ratio.mean()))
	v.number("separation_ms", p.separation.mean())
	v.number("strata", float64(p.strata))
	user, agent := p.user.interval(), p.agent.interval()
	margin := math.Log(cfg.Margin)
	ratio := p.ratio
	// Two one-sided tests on the pooled log ratio of medians.
	close := ratio.mean()+1.6449*ratio.se() < margin && ratio.mean()-1.6449*ratio.se() > -margin
	separated := user.Estimate >= cfg.RequestAUC && user.Lo > 0.5+(cfg.RequestAUC-0.5)/2 && user.Estimate-agent.Estimate >= 0.1 &&
		p.separation.mean() >= float64(cfg.MinSeparation.Milliseconds())
	risen := r.now.Lo > v.Threshold
	v.began(retriesOnset(w.Minutes))
	lo, hi, _ := sides(total, cfg.MinSide)
	v.Severity = severity(deadlineImpact(lo, hi, cfg.Impact))
	v.Cause = hiddenCause(hi)
	v.Text = fmt.Sprintf("there were %.1f retries per 100 calls (%s), and requests with more of them took %.1f s longer at the median among tasks of like length, "+
		"while the time the agent reports stayed within %.0f %%", 100*r.now.Estimate, r.text(), p.separation.mean()/1e3, 100*math.Abs(math.Exp(ratio.mean())-1))
	switch {
	case !close && risen && separated:
		return v.with(Hold, "agent_time_moves_too")
	case close && risen && separated:
		v.Strength = r.now.Lo / v.Threshold
		return v.with(Breach, "retries_hidden")
	case r.now.Estimate < cfg.ClearRise*r.reference, user.Estimate < 0.55:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}

// weighted is a mean of estimates over strata.
type weighted struct{ w, sum, variance float64 }

func (m *weighted) add(weight, x, se float64) {
	m.w += weight
	m.sum += weight * x
	m.variance += weight * weight * se * se
}
func (m weighted) mean() float64 { return m.sum / m.w }
func (m weighted) se() float64   { return math.Sqrt(m.variance) / m.w }
func (m weighted) interval() stats.Interval {
	return stats.Interval{Estimate: m.mean(), Lo: m.mean() - z95*m.se(), Hi: m.mean() + z95*m.se(), Confidence: 0.95}
}

type pooledStrata struct {
	strata     int
	unreported bool
	user       weighted
	agent      weighted
	// ratio is of the log ratio of median agent times.
	ratio      weighted
	separation weighted
}

// poolStrata compares the sides within each stratum and averages, with weights that
// are greatest where both sides are large.
func poolStrata(strata map[string]*Stratum, minSide uint64) pooledStrata {
	var p pooledStrata
	for _, name := range []string{"0", "1-3", "4-7", "8-14", "15+"} {
		s := strata[name]
		if s == nil {
			continue
		}
		lo, hi, _ := sides(s.ByRetries, minSide)
		if lo.N < minSide || hi.N < minSide {
			continue
		}
		if !agentReported(lo, hi) {
			p.unreported = true
			continue
		}
		user, err1 := stats.AUC(hi.User.Hist.Points(), lo.User.Hist.Points(), 0.95)
		agent, err2 := stats.AUC(hi.Agent.Hist.Points(), lo.Agent.Hist.Points(), 0.95)
		shift, err3 := stats.QuantileShift(hi.User.Hist.Points(), lo.User.Hist.Points(), 0.5, stats.Linear, 0.95)
		ratio, err4 := stats.QuantileShift(hi.Agent.Hist.Points(), lo.Agent.Hist.Points(), 0.5, stats.Log, 0.95)
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
			continue
		}
		weight := float64(lo.N) * float64(hi.N) / float64(lo.N+hi.N)
		halfUser := (user.Hi - user.Lo) / 2 / z95
		p.strata++
		p.user.add(weight, user.Estimate, halfUser)
		p.agent.add(weight, agent.Estimate, (agent.Hi-agent.Lo)/2/z95)
		p.separation.add(weight, shift.Estimate, shift.SE)
		p.ratio.add(weight, ratio.Estimate, ratio.SE)
	}
	return p
}
