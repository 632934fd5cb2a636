package detector

import (
	"fmt"

	"driftline/detector/store"
)

// JudgeCascade judges cascade: the share of calls that failed because what ran before them
// had spent a budget that they inherited. Calls that miss their deadline by themselves, and
// steps that have become slower themselves, are other detections'. Who spent it is named by
// explainCascade.
func JudgeCascade(w WorkWindow, b WorkBaseline, cfg CascadeConfig, minBlocks int) Verdict {
	v := Verdict{Detection: Cascade, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "1", EffectUnit: "1", Severity: Warning, Samples: w.Sum.N}
	if w.Sum.N < cfg.MinCalls {
		return v.with(Insufficient, "few_calls")
	}
	if b.Blocks < minBlocks || b.N < minBaseOperations {
		return v.with(NoBaseline, "learning")
	}
	r, err := riseOf(min(w.Sum.Inherited, w.Sum.N), w.Sum.N, min(b.Inherited, b.N), b.N, minBaseOperations, cfg.MinShare, cfg.MinShare)
	if err != nil {
		return v.with(Insufficient, "few_calls")
	}
	v.Value, v.Baseline, v.Threshold, v.Effect, v.P = r.now.Estimate, r.reference, risen(cfg.FireRise, r.reference), r.now, r.p
	v.number("failed_inherited", float64(w.Sum.Inherited))
	v.number("failed_own", float64(w.Sum.Own))
	v.Severity = severity(missed(w.Sum.Missed, w.Sum.Known, b.Missed, b.Known, cfg.MissShare))
	v.Text = fmt.Sprintf("%s of calls failed because their deadline was nearly over when they began, usual %.1f %%", percentOf(r.now), 100*r.reference)
	own := 0.0
	if w.Sum.OK >= 5 && b.OKMS > 0 {
		mean := float64(w.Sum.OKNS) / float64(w.Sum.OK) / 1e6
		own = mean / b.OKMS
		v.number("own_time_ratio", own)
		v.Text += fmt.Sprintf("; the calls that succeeded took %.1f s on average, usual %.1f s", mean/1e3, b.OKMS/1e3)
	} else {
		v.note("too few calls succeeded to compare the step's own time")
	}
	v.Cause = "what ran before had spent the budget; the step itself is not the reason"
	switch {
	case r.now.Estimate < cfg.ClearRise*r.reference:
		return v.with(Quiet, "as_usual")
	case r.now.Lo <= v.Threshold || w.Sum.Inherited < cfg.MinFailures:
		return v.with(Hold, "between")
	case w.Sum.Own > w.Sum.Inherited:
		v.Cause = "more calls miss their deadline by themselves than by what ran before"
		return v.with(Hold, "own_misses")
	case own > cfg.OwnRatio:
		v.Cause = "the step itself has become slower"
		return v.with(Hold, "own_slower")
	}
	return v.with(Breach, "budget_inherited")
}

// explainCascade names the step that had spent the budget of the requests whose calls failed,
// and says by how much it has grown. usual gives a slice's mean time in milliseconds, 0 when
// it is not known.
func explainCascade(v *Verdict, all []store.Spender, usual func(Slice) float64) {
	var top *store.Spender
	for i := range all {
		if s := &all[i]; s.Slice != v.Slice && s.Before > 0 && (top == nil || s.BeforeNS > top.BeforeNS) {
			top = s
		}
	}
	if top == nil || top.Requests == 0 {
		v.note("which step spent the budget is not seen: it may run before the trace begins")
		return
	}
	spent := float64(top.BeforeNS) / float64(top.Requests) / 1e6
	v.number("upstream_spent_ms", spent)
	v.number("budget_ms", float64(top.BudgetNS)/1e6)
	v.Cause = fmt.Sprintf("upstream %s spent %.1f s", top.Slice, spent/1e3)
	if top.BudgetNS > 0 {
		v.Cause = fmt.Sprintf("upstream %s spent %.1f of %.1f s", top.Slice, spent/1e3, float64(top.BudgetNS)/1e9)
	}
	if base := usual(top.Slice); base > 0 {
		took := float64(top.TookNS) / float64(top.Calls) / 1e6
		v.number("upstream_time_ratio", took/base)
		v.Cause += fmt.Sprintf(" (%.1f times as long as usual per call)", took/base)
	}
	if own, ok := v.Evidence.Numbers.Get("own_time_ratio"); ok {
		v.Cause += fmt.Sprintf("; this step's own time is unchanged (%.2f times the usual)", own)
	}
}
