package detector

import (
	"fmt"
	"strings"
)

// dead counts operations that failed, by how.
type dead struct {
	// known is how many operations know their attempts, unknown how many do not.
	known, unknown uint64
	// first ended with the timeout of their first and only attempt, firstOther with another
	// failure of it; later failed after more than one attempt.
	first, firstOther, later uint64
	// laterTimeouts and laterOverloads are among later.
	laterTimeouts, laterOverloads uint64
	// firstAtCap and laterAtCap ended at their declared timeout.
	firstAtCap, laterAtCap uint64
	// failedNS and backoffNS are the hidden time of operations with retries, retried their number.
	failedNS, backoffNS int64
	retried             uint64
}

func deadOf(w OperationWindow) dead {
	zero, more, unknown := tally(w.ByRetries["0"]), tally(w.ByRetries["1"], w.ByRetries["2+"]), tally(w.ByRetries["unknown"])
	d := dead{known: zero.N + more.N, unknown: unknown.N, retried: more.N, failedNS: more.FailedNS, backoffNS: more.BackoffNS}
	d.first = min(zero.Failed.timedOut(), zero.Failed.All)
	d.firstOther, d.firstAtCap = zero.Failed.All-d.first, zero.Failed.AtCap
	d.later = more.Failed.All - min(more.Failed.Client, more.Failed.All)
	d.laterTimeouts, d.laterOverloads, d.laterAtCap = more.Failed.timedOut(), more.Failed.Overload, more.Failed.AtCap
	return d
}

// numbers puts the split of failures into the evidence, as shares of operations.
func (d dead) numbers(v *Verdict) {
	for _, part := range [...]struct {
		name string
		k    uint64
	}{{"first_timeout_share", d.first}, {"first_at_cap_share", d.firstAtCap}, {"first_other_failure_share", d.firstOther}, {"later_failure_share", d.later},
		{"later_timeout_share", d.laterTimeouts}, {"later_overload_share", d.laterOverloads}, {"later_at_cap_share", d.laterAtCap}} {
		v.number(part.name, share(part.k, d.known))
	}
	v.number("attempts_unknown_share", share(d.unknown, d.unknown+d.known))
}

// JudgeFirstTimeout judges first_timeout: operations that end with the timeout of their
// first attempt, which nothing tried again, as a share of those that know their
// attempts. It fires when the share's lower bound is over FireRise times its baseline, or
// until there is one at Limit.
func JudgeFirstTimeout(w OperationWindow, b OperationBaseline, cfg DeadConfig, minBlocks int) Verdict {
	d := deadOf(w)
	v := Verdict{Detection: FirstTimeout}
	v.Text = "of calls ended with the timeout of their first attempt"
	v.Cause = "the first attempt runs into its timeout and nothing tries again: the backend hangs, or takes longer than the timeout allows"
	if 2*d.firstAtCap > d.first {
		v.Cause = "the first attempt lasts until its declared timeout and nothing tries again: the backend hangs, or takes longer than the timeout allows"
	}
	if d.later*4 > d.first {
		v.Cause += fmt.Sprintf("; %.1f %% more failed after retries", 100*share(d.later, d.known))
	}
	return judgeDead(v, w, b, d, d.first, b.FirstTimeouts, cfg, minBlocks)
}

// JudgeExhaustion judges retry_exhaustion: operations that failed after more than one
// attempt, as a share of those that know their attempts. It fires as first_timeout does.
func JudgeExhaustion(w OperationWindow, b OperationBaseline, cfg DeadConfig, minBlocks int) Verdict {
	d := deadOf(w)
	v := Verdict{Detection: RetryExhaustion}
	v.Text = "of calls failed although they were tried again"
	switch {
	case 2*d.laterOverloads > d.later:
		v.Cause = "the backend turns calls away (429, 503, 529) and goes on doing so while they are tried again: retries add to its load"
	case 2*d.laterAtCap > d.later:
		v.Cause = "each try lasts until its declared timeout: trying again does not help while the backend is this slow"
	case 2*d.laterTimeouts > d.later:
		v.Cause = "tries end in timeouts until none are left, or until the time is gone"
	default:
		v.Cause = "tries fail until none are left"
	}
	if d.retried > 0 {
		v.Cause += fmt.Sprintf("; a retried call spent %.1f s on failed attempts and %.1f s on backoff", float64(d.failedNS)/float64(d.retried)/1e9, float64(d.backoffNS)/float64(d.retried)/1e9)
	}
	return judgeDead(v, w, b, d, d.later, b.Exhausted, cfg, minBlocks)
}

// judgeDead compares k of the known operations with the baseline's baseK. Until there is a
// baseline only Limit counts: a share of the failures that makes a backend count as
// degraded, given enough of them.
func judgeDead(v Verdict, w OperationWindow, b OperationBaseline, d dead, k, baseK uint64, cfg DeadConfig, minBlocks int) Verdict {
	v.Slice, v.From, v.To, v.P, v.Unit, v.EffectUnit, v.Severity = w.Slice, w.From, w.To, 1, "1", "1", Warning
	v.Samples = d.known
	if d.known < cfg.MinOperations || d.known == 0 {
		return v.with(Insufficient, "few_known_attempts")
	}
	history := b.WorkBlocks >= minBlocks && b.Known >= minBaseOperations
	baseN := b.Known
	if !history {
		baseK, baseN = 0, 0
	}
	// Against a quarter of the limit: a share at the limit must be able to show in a hundred
	// calls that it is beyond chance over many rounds.
	r, err := riseOf(k, d.known, baseK, baseN, minBaseOperations, cfg.Limit/4, cfg.MinShare)
	if err != nil {
		return v.with(Insufficient, "few_known_attempts")
	}
	d.numbers(&v)
	v.Value, v.Effect, v.P = r.now.Estimate, r.now, r.p
	v.Severity = severity(missed(w.Missed, w.Known, b.DeadlineMissed, b.DeadlineKnown, cfg.MissShare))
	v.Text = fmt.Sprintf("%.1f %% %s (95 %% interval %.1f to %.1f %%)", 100*r.now.Estimate, v.Text, 100*r.now.Lo, 100*r.now.Hi)
	if names := w.Attempts.degraded(cfg.MinOperations, cfg.Limit); len(names) > 0 {
		v.Cause += "; " + endpointsText(w.Attempts, names)
	}
	if 2*d.known < d.known+d.unknown {
		v.note("most calls do not say how often they were tried; the shares are of those that do")
	}
	if !history {
		v.Threshold = cfg.Limit
		v.Text += "; what is usual is not known yet"
		// The lower bound is over half the limit too, or the volume would say nothing.
		if r.now.Estimate >= cfg.Limit && r.now.Lo > cfg.Limit/2 {
			v.Evidence.Groups = groupsOf(w.ByRetries)
			return v.with(Breach, "over_limit")
		}
		return v.with(unlearned(r.now.Estimate < cfg.ClearRise*cfg.MinShare))
	}
	v.Baseline, v.Threshold = share(baseK, baseN), cfg.FireRise*r.reference
	v.Text += fmt.Sprintf(" against %.1f %% as usual", 100*v.Baseline)
	switch {
	case r.now.Lo > v.Threshold:
		v.Evidence.Groups = groupsOf(w.ByRetries)
		return v.with(Breach, "risen")
	case r.now.Estimate < cfg.ClearRise*r.reference:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}

// unlearned is the level without a baseline of what would be quiet under any, and of the
// rest. An alert over a fixed limit keeps its own time out of the baseline, so that without
// the first it could not end before that is given up.
func unlearned(quiet bool) (Level, string) {
	if quiet {
		return Quiet, "under_any_baseline"
	}
	return NoBaseline, "learning"
}

// endpointsText says which endpoints fail, and what the others do.
func endpointsText(w *AttemptWindow, names []string) string {
	const most = 3
	var rest EndpointTries
	for name, e := range w.Endpoints {
		rest.N, rest.Failed = rest.N+e.N, rest.Failed+e.Failed
		for _, bad := range names {
			if name == bad {
				rest.N, rest.Failed = rest.N-e.N, rest.Failed-e.Failed
			}
		}
	}
	parts := make([]string, 0, most)
	for _, name := range names[:min(len(names), most)] {
		e := w.Endpoints[name]
		parts = append(parts, fmt.Sprintf("%s fails %.0f %% of %d tries", bounded(name), 100*share(e.Failed, e.N), e.N))
	}
	text := strings.Join(parts, ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more do", len(names)-most)
	}
	if rest.N > 0 {
		text += fmt.Sprintf("; other endpoints fail %.0f %%", 100*share(rest.Failed, rest.N))
	}
	return text
}
