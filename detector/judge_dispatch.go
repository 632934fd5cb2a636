package detector

import (
	"fmt"
	"math"
)

// dispatchStep is the least by which the share of calls that began too late must be over the
// usual one: it moves with the length of tasks.
const dispatchStep = 0.1

// minDoomed is how many calls must have begun too late.
const minDoomed = 5

// JudgeDispatch judges deadline_drift for one kind of call: the share of calls that began
// although their deadline left less than the usual P95 of such calls. Whoever dispatches them
// does not look at what is left.
func JudgeDispatch(w WorkWindow, b WorkBaseline, cfg DriftConfig, minBlocks int) Verdict {
	v := Verdict{Detection: DeadlineDrift, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "1", EffectUnit: "1", Severity: Warning, Samples: w.Sum.Left.N}
	if w.Sum.Left.N < cfg.MinRequests {
		return v.with(Insufficient, "few_deadlines")
	}
	if b.Blocks < minBlocks || b.Left < minBaseOperations || b.P95MS <= 0 {
		return v.with(NoBaseline, "learning")
	}
	k := doomed(&w.Sum, b.P95MS)
	r, err := w.riseOf(k, w.Sum.Left.N, b.Doomed, b.Left, cfg.MinShare)
	if err != nil {
		return v.with(Insufficient, "few_deadlines")
	}
	v.Value, v.Baseline, v.Effect, v.P = r.now.Estimate, r.reference, r.now, r.p
	v.Threshold = math.Min(math.Max(cfg.FireRise*r.reference, r.reference+dispatchStep), 0.99)
	left := quantile(w.Sum.Left.Hist, 0.5)
	v.number("began_too_late", float64(k))
	v.number("usual_p95_ms", b.P95MS)
	v.number("left_p50_ms", left)
	v.number("timeout_over_left_share", share(w.Sum.Uncovered, w.Sum.Capped))
	v.Severity = severity(missed(w.Sum.Missed, w.Sum.Known, b.Missed, b.Known, cfg.MissShare))
	v.Text = fmt.Sprintf("%s of calls began with less time left than such calls usually take (P95 %.1f s; median left %.1f s), usual %.1f %%", percentOf(r.now), b.P95MS/1e3, left/1e3, 100*r.reference)
	v.Cause = "work is dispatched without a look at what its deadline leaves"
	if w.Sum.Capped > 0 && 2*w.Sum.Uncovered >= k {
		v.Cause += fmt.Sprintf("; %.0f %% of calls have a timeout of their own (median %.1f s) that is more than what is left, so it cannot cut them in time",
			100*share(w.Sum.Uncovered, w.Sum.Capped), float64(w.Sum.DeclaredNS)/1e9)
	}
	switch {
	case r.now.Lo > v.Threshold && k >= minDoomed:
		return v.with(Breach, "begun_too_late")
	case r.now.Estimate < cfg.ClearRise*r.reference:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}
