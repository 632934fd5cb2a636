package detector

import (
	"fmt"
	"math"

	"driftline/detector/stats"
)

// Reasons of ttft_shift.
const (
	reasonCacheHits = "cache_hits"
	reasonPrefill   = "prefill"
	reasonQueue     = "queue"
)

// JudgeTTFT judges ttft_shift: P95 of the time to the first token is Ratio times its
// baseline. Prefill takes time with the number of tokens that no cache holds, so the
// ratio is taken after dividing by how much those have grown; what that explains is a
// change of the prompts and holds.
//
// Which part it is cannot be seen in one slice alone; see nameTTFTCauses.
func JudgeTTFT(w OperationWindow, b OperationBaseline, cfg TTFTConfig, minBlocks int) Verdict {
	v := Verdict{Detection: TTFTShift, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "ms", EffectUnit: "ratio", Severity: Warning, Samples: w.TTFT.N}
	if w.TTFT.N < cfg.MinOperations {
		return v.with(Insufficient, "few_streams")
	}
	if b.TTFT.Blocks < minBlocks || b.TTFT.P95MS <= 0 {
		return v.with(NoBaseline, "learning")
	}
	r := levelRatio(w.TTFT.Hist, 0.95, b.TTFT.P95MS)
	now := r.est * b.TTFT.P95MS
	input := grown(w.Tokens.perOperation(w.Tokens.Input), b.Tokens.perOperation(b.Tokens.Input))
	uncached := grown(w.Tokens.perOperation(w.Tokens.uncached()), b.Tokens.perOperation(b.Tokens.uncached()))
	cached, cachedBase := share(w.Tokens.Cached, w.Tokens.Input), share(b.Tokens.Cached, b.Tokens.Input)
	// Fewer tokens are no reason for a longer wait, and more of them explain their part.
	explained := max(uncached, 1)
	v.Value, v.Baseline, v.Threshold = now, b.TTFT.P95MS, cfg.Ratio*b.TTFT.P95MS
	v.Effect = stats.Interval{Estimate: r.est, Lo: r.lo, Hi: r.hi, Confidence: 0.95}
	v.P = r.p()
	v.number("ttft_p95_ms", now)
	v.number("ttft_p95_baseline_ms", b.TTFT.P95MS)
	v.number("ttft_p95_ratio", r.est)
	v.number("input_tokens_ratio", input)
	v.number("uncached_tokens_ratio", uncached)
	v.number("cached_share", cached)
	v.number("cached_share_baseline", cachedBase)
	v.Severity = severity(missed(w.Missed, w.Known, b.DeadlineMissed, b.DeadlineKnown, cfg.MissShare))
	v.Text = fmt.Sprintf("P95 of the time to the first token is %.1f s, %.1f times the usual %.1f s (95 %% interval %.1f to %.1f times); inputs have %.1f times as many tokens, %.0f %% of them from the cache against %.0f %%",
		now/1e3, r.est, b.TTFT.P95MS/1e3, r.lo, r.hi, input, 100*cached, 100*cachedBase)
	fires := r.est >= cfg.Ratio && r.lo >= (1+cfg.Ratio)/2
	switch {
	case now < float64(cfg.Floor.Nanoseconds())/1e6:
		return v.with(Quiet, "below_floor")
	case fires && uncached >= cfg.MoreTokens && cachedBase-cached >= cfg.CacheDrop:
		v.Cause = fmt.Sprintf("the prompt cache hits less: %.0f %% of input tokens came from it, now %.0f %%, so the model reads %.1f times as many tokens before it answers", 100*cachedBase, 100*cached, uncached)
		return v.with(Breach, reasonCacheHits)
	case fires && r.est/explained < cfg.Ratio:
		v.Cause = fmt.Sprintf("prompts have become longer: %.1f times as many tokens to read explain the longer wait", uncached)
		return v.with(Hold, reasonPrefill)
	case fires && passing(&w, b.TTFT.P95MS):
		return v.with(Hold, "passing")
	case fires:
		v.Cause = "the model begins to answer later than its prompts explain: a queue before it, or the way to it"
		v.Strength = r.lo / cfg.Ratio
		return v.with(Breach, reasonQueue)
	case r.est < cfg.ClearRatio:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}

// A busy backend has bursts of a minute or two in which all calls wait, and which hold more
// calls than other minutes do. The wait has come to stay when lateMinutes of the window's minutes
// have it, each of lateLeast calls or more: over lateShare of them, where lateUsual is usual,
// wait longer than lateTimes the usual P95, and so many would by chance in lateChance of minutes.
const (
	lateMinutes = 3
	lateLeast   = 3
	lateShare   = 0.1
	lateUsual   = 0.05
	lateChance  = 0.15
	lateTimes   = 1.5
)

// passing says whether the window's minutes show no more than a burst. Where too few minutes
// have calls enough to say, it is not.
func passing(w *OperationWindow, usualMS float64) bool {
	if w.LateTokens == nil {
		return false
	}
	able, late := 0, 0
	for _, m := range w.LateTokens(lateTimes * usualMS) {
		if m.N >= lateLeast {
			if able++; m.late() {
				late++
			}
		}
	}
	return able >= lateMinutes && late < lateMinutes
}

func (m Share) late() bool {
	if m.K <= lateShare*m.N {
		return false
	}
	p, err := stats.BinomialTail(uint64(math.Round(m.K)), uint64(math.Round(m.N)), lateUsual)
	return err == nil && p <= lateChance
}

// uncached is how many input tokens no cache held.
func (t Tokens) uncached() uint64 { return t.Input - min(t.Cached, t.Input) }

// nameTTFTCauses tells a queue from one bad way by looking at all slices of a round: a
// backend that queues makes all kinds of calls to it wait, a network path or a region only
// its own.
func nameTTFTCauses(vs []Verdict) {
	const together = 3
	type tally struct{ late, all int }
	targets, services := map[string]*tally{}, map[string]*tally{}
	count := func(m map[string]*tally, key string, late bool) {
		if m[key] == nil {
			m[key] = &tally{}
		}
		m[key].all++
		if late {
			m[key].late++
		}
	}
	late := func(v *Verdict) bool { return v.Level == Breach && v.Reason == reasonQueue }
	for i := range vs {
		v := &vs[i]
		if v.Detection != TTFTShift || v.Level == Insufficient || v.Level == NoBaseline {
			continue
		}
		count(targets, v.Slice.Target, late(v))
		count(services, v.Slice.Service, late(v))
	}
	for i := range vs {
		v := &vs[i]
		if v.Detection != TTFTShift || !late(v) {
			continue
		}
		target, service := targets[v.Slice.Target], services[v.Slice.Service]
		v.number("slices_of_target", float64(target.all))
		v.number("slices_of_target_late", float64(target.late))
		v.number("slices_of_service", float64(service.all))
		v.number("slices_of_service_late", float64(service.late))
		switch {
		case target.all >= together && target.late*10 >= target.all*8:
			v.Cause = fmt.Sprintf("%d of %d kinds of calls to %s wait longer for their first token, whatever their prompts: it queues, or is short of capacity", target.late, target.all, v.Slice.Target)
		case service.all >= together && service.late*10 >= service.all*8:
			v.Cause = fmt.Sprintf("%d of %d kinds of calls of %s wait longer for their first token, to whichever model: its way out (network, DNS, proxy, connection pool) or its own queue is slow", service.late, service.all, v.Slice.Service)
		case service.all >= together && service.late == 1:
			v.Cause = "only this kind of call waits longer for its first token: one endpoint, region or model is slow, or the way to it"
		}
	}
}
