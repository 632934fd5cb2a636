package detector

import (
	"fmt"
	"math"

	"driftline/internal/rows"
)

// JudgeTimeout judges timeout_not_enforced: calls that ran for more than 1.5 times their
// declared timeout, and a second more, and succeeded. It is one finding for all calls of a
// slice, and where that was so all the time it is not told again. Streams are not judged: what
// they declare is often how long the wait for the next byte may be.
func JudgeTimeout(w WorkWindow, b WorkBaseline, cfg TimeoutConfig) Verdict {
	v := Verdict{Detection: TimeoutNotEnforced, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "1", EffectUnit: "1", Severity: Warning, Samples: w.Sum.Declared}
	if w.Stream == rows.StreamYes {
		return v.with(Insufficient, "streamed")
	}
	if w.Sum.Declared < cfg.MinCalls {
		return v.with(Insufficient, "few_declared")
	}
	r, err := riseOf(min(w.Sum.Overran, w.Sum.Declared), w.Sum.Declared, min(b.Overran, b.Declared), b.Declared, minBaseOperations, 0, cfg.Share/cfg.FireRise)
	if err != nil {
		return v.with(Insufficient, "few_declared")
	}
	v.Value, v.Baseline, v.Threshold, v.Effect, v.P = r.now.Estimate, share(b.Overran, b.Declared), math.Min(cfg.FireRise*r.reference, 0.99), r.now, r.p
	v.number("overran", float64(w.Sum.Overran))
	v.number("declared_timeout_ms", float64(w.Sum.DeclaredNS)/1e6)
	mean := 0.0
	if w.Sum.Overran > 0 {
		mean = float64(w.Sum.OverranNS) / float64(w.Sum.Overran) / 1e9
		v.number("overran_mean_ms", mean*1e3)
	}
	v.Text = fmt.Sprintf("%s of calls ran well past their declared timeout (median %.1f s) without an error, %.1f s on average", percentOf(r.now), float64(w.Sum.DeclaredNS)/1e9, mean)
	v.Cause = "the declared timeout is not what ends these calls: another setting overrides it, it bounds something else (one read, one try), or nothing enforces it"
	switch {
	case w.Sum.Overran >= cfg.MinOverran && r.now.Lo > v.Threshold:
		return v.with(Breach, "not_enforced")
	case r.now.Estimate < cfg.ClearShare:
		return v.with(Quiet, "enforced")
	case r.known && r.now.Estimate < 1.3*r.reference:
		return v.with(Hold, "always_so")
	}
	return v.with(Hold, "between")
}
