package detector

import (
	"fmt"
	"math"
	"strings"

	"driftline/detector/stats"
	"driftline/detector/store"
)

// amplification is the extra attempts per operation, over all layers: leaf attempts over
// operations, less 1. Its interval is that of stats.MeanExtra over the retry groups.
func amplification(by map[string]*RetryGroup) (extra stats.Interval, known uint64, err error) {
	var groups []stats.CountGroup
	for i, name := range retryOrder[:3] {
		if g := by[name]; g != nil && g.N > 0 {
			least := uint64(i + 1)
			// Attempts whose spans are lost leave fewer leaves than attempts.
			groups = append(groups, stats.CountGroup{N: g.N, Sum: max(g.LeafAttempts, g.N*least), Least: least})
			known += g.N
		}
	}
	extra, err = stats.MeanExtra(groups, 0.95)
	return extra, known, err
}

// JudgeAmplification judges retry_amplification: how many attempts one operation costs,
// over all layers that retry. It fires when
//   - the extra attempts per operation are FireRise times their baseline, with their
//     interval's lower bound, and more than the retry budget allows; or
//   - there are more than Limit attempts per operation, beyond doubt, where the baseline has
//     fewer or is not known yet.
//
// Which layer multiplies comes from the attempts of all streamed and unstreamed calls
// together; see AttemptWindow.
func JudgeAmplification(w OperationWindow, b OperationBaseline, cfg AmplificationConfig, minBlocks int) Verdict {
	v := Verdict{Detection: RetryAmplification, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "attempts", EffectUnit: "ratio", Severity: Warning}
	extra, known, err := amplification(w.ByRetries)
	v.Samples = known
	if err != nil || known < cfg.MinOperations {
		return v.with(Insufficient, "few_known_attempts")
	}
	history := b.WorkBlocks >= minBlocks && b.Known >= minBaseOperations
	usual := math.Max(extraBaseline(b), cfg.MinExtra)
	r := ratioTo{extra.Estimate / usual, extra.Lo / usual, extra.Hi / usual, extra.Estimate > 0}
	v.Value, v.Threshold = 1+extra.Estimate, cfg.Limit
	v.Effect = stats.Interval{Estimate: r.est, Lo: r.lo, Hi: r.hi, Confidence: extra.Confidence}
	v.number("attempts_per_operation", 1+extra.Estimate)
	v.number("attempts_per_operation_lo", 1+extra.Lo)
	v.number("attempts_per_operation_hi", 1+extra.Hi)
	unknown := tally(w.ByRetries["unknown"]).N
	v.number("attempts_unknown_share", share(unknown, unknown+known))
	v.Severity = severity(missed(w.Missed, w.Known, b.DeadlineMissed, b.DeadlineKnown, cfg.MissShare))
	v.Cause = layerCause(&v, w.Attempts, b.Attempts)
	v.Text = fmt.Sprintf("each call costs %.2f attempts (95 %% interval %.2f to %.2f)", 1+extra.Estimate, 1+extra.Lo, 1+extra.Hi)
	over := 1+extra.Lo > cfg.Limit
	if !history {
		v.Text += fmt.Sprintf(", over the limit of %.3g; what is usual is not known yet", cfg.Limit)
		limit := ratioTo{extra.Estimate / (cfg.Limit - 1), extra.Lo / (cfg.Limit - 1), 0, true}
		switch {
		case !over:
			return v.with(unlearned(extra.Estimate < cfg.ClearRise*cfg.MinExtra))
		case 2*known < known+unknown:
			return v.with(NoBaseline, "attempts_mostly_unknown") // those with retries may be all that are known
		}
		v.P = limit.p()
		v.Evidence.Groups = groupsOf(w.ByRetries)
		return v.with(Breach, "over_limit")
	}
	v.Baseline, v.P = 1+extraBaseline(b), r.p()
	v.Threshold = 1 + math.Max(cfg.FireRise*usual, cfg.Budget)
	v.Text += fmt.Sprintf(" against %.2f as usual: %.1f times as many extra ones", v.Baseline, r.est)
	switch {
	case r.lo > cfg.FireRise && extra.Estimate >= cfg.Budget:
		v.Evidence.Groups = groupsOf(w.ByRetries)
		return v.with(Breach, "amplified")
	case over && v.Baseline <= cfg.Limit && r.lo > cfg.ClearRise:
		v.Threshold = cfg.Limit
		v.Evidence.Groups = groupsOf(w.ByRetries)
		return v.with(Breach, "over_limit")
	case r.est < cfg.ClearRise:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}

// extraBaseline is the baseline's extra attempts per operation.
func extraBaseline(b OperationBaseline) float64 {
	if b.Known == 0 {
		return 0
	}
	return math.Max(0, float64(b.LeafAttempts)/float64(b.Known)-1)
}

// layerCause says which layer multiplies, and puts each layer's factor into the evidence.
func layerCause(v *Verdict, now *AttemptWindow, base AttemptBaseline) string {
	if now == nil || now.Leaf == 0 {
		return "more tries for each call; which layer makes them is not known"
	}
	factors, usual := layerFactors(now.Leaf, now.Extra), layerFactors(base.Leaf, base.Extra)
	worst, most, retrying := -1, 0.0, 0
	var parts []string
	for i, layer := range layerOrder {
		v.number("amplification_"+layer, factors[i])
		if base.Leaf > 0 {
			v.number("amplification_"+layer+"_baseline", usual[i])
		}
		if now.Extra[i] > 0 {
			retrying++
			parts = append(parts, fmt.Sprintf("%s %.2f", layer, factors[i]))
		}
		if rise := math.Log(factors[i] / usual[i]); rise > most {
			worst, most = i, rise
		}
	}
	if worst < 0 {
		return "more tries for each call; no layer alone makes more than usual"
	}
	text := fmt.Sprintf("the %s layer makes %.2f tries of each one that it is given", layerNames[worst], factors[worst])
	if base.Leaf > 0 {
		text += fmt.Sprintf(", usually %.2f", usual[worst])
	}
	if retrying > 1 {
		text += fmt.Sprintf("; layers multiply: %s", strings.Join(parts, " x "))
	}
	if f := now.Failed; f > 0 {
		v.number("failed_attempts_overload_share", share(now.Overloads, f))
		v.number("failed_attempts_timeout_share", share(now.Timeouts, f))
		switch {
		case 2*now.Overloads > f:
			text += "; most failed tries were turned away (429, 503, 529), so each retry adds load to a backend that sheds it"
		case 2*now.Timeouts > f:
			text += "; most failed tries ran into a timeout"
		}
	}
	return text
}

// beyondConfigured names it when calls make more tries than their callers say they allow: some
// layer retries that the setting does not reach.
func beyondConfigured(v *Verdict, r store.ConfiguredRetries) {
	if r.Over == 0 {
		return
	}
	v.number("configured_retries", float64(r.Allowed))
	v.number("over_configured_share", share(r.Over, r.Known))
	v.number("most_attempts", float64(r.Most))
	v.Cause += fmt.Sprintf("; %d of %d calls that state how many retries they allow (typically %d) made more tries than that, up to %d, so another layer retries too or the setting has no effect", r.Over, r.Known, r.Allowed, r.Most)
}
