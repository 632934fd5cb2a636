package detector

import (
	"fmt"

	"driftline/detector/stats"
)

// grown is how many times as many tokens an operation has as in the baseline; 1 where
// either is unknown.
func grown(now, base float64) float64 {
	if now <= 0 || base <= 0 {
		return 1
	}
	return now / base
}

// JudgeGeneration judges generation_slowdown: the median time per output token is Ratio
// times its baseline. A median because slow decoding, by a throttled or shared
// accelerator, slows every call; and per token, so that longer answers do not count. Where
// answers have become much longer too it holds: the work itself has changed.
func JudgeGeneration(w OperationWindow, b OperationBaseline, cfg GenerationConfig, minBlocks int) Verdict {
	v := Verdict{Detection: GenerationSlowdown, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "ms", EffectUnit: "ratio", Severity: Warning, Samples: w.PerToken.N}
	if w.PerToken.N < cfg.MinOperations {
		return v.with(Insufficient, "few_streams")
	}
	if b.PerToken.Blocks < minBlocks || b.PerToken.P50MS <= 0 {
		return v.with(NoBaseline, "learning")
	}
	r := levelRatio(w.PerToken.Hist, 0.5, b.PerToken.P50MS)
	now := r.est * b.PerToken.P50MS
	output := grown(w.Tokens.perOperation(w.Tokens.Output), b.Tokens.perOperation(b.Tokens.Output))
	first := levelRatio(w.TTFT.Hist, 0.5, b.TTFT.P50MS)
	v.Value, v.Baseline, v.Threshold = now, b.PerToken.P50MS, cfg.Ratio*b.PerToken.P50MS
	v.Effect = stats.Interval{Estimate: r.est, Lo: r.lo, Hi: r.hi, Confidence: 0.95}
	v.P = r.p()
	v.number("time_per_output_token_p50_ms", now)
	v.number("time_per_output_token_p50_baseline_ms", b.PerToken.P50MS)
	v.number("time_per_output_token_ratio", r.est)
	v.number("output_tokens_ratio", output)
	if first.ok {
		v.number("ttft_p50_ratio", first.est)
	}
	v.Severity = severity(missed(w.Missed, w.Known, b.DeadlineMissed, b.DeadlineKnown, cfg.MissShare))
	v.Cause = "the model generates more slowly: a throttled, shared or degraded accelerator, or too many requests in one batch"
	if first.ok && first.hi < cfg.ClearRatio {
		v.Cause += "; the time to the first token is as usual, so neither the queue nor the prompts are the reason"
	}
	v.Text = fmt.Sprintf("the median time per output token is %.1f ms, %.1f times the usual %.1f ms (95 %% interval %.1f to %.1f times), with %.1f times as many output tokens",
		now, r.est, b.PerToken.P50MS, r.lo, r.hi, output)
	switch {
	case now < float64(cfg.Floor.Nanoseconds())/1e6:
		return v.with(Quiet, "below_floor")
	case r.est >= cfg.Ratio && r.lo >= (1+cfg.Ratio)/2 && output >= cfg.MoreTokens:
		return v.with(Hold, "more_tokens")
	case r.est >= cfg.Ratio && r.lo >= (1+cfg.Ratio)/2:
		v.Strength = r.lo / cfg.Ratio
		return v.with(Breach, "slow_decode")
	case r.est < cfg.ClearRatio:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}
