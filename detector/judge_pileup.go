package detector

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"driftline/detector/stats"
	"driftline/detector/store"
)

// Reasons of cap_pileup.
const (
	reasonCapBelowP95 = "cap_below_p95"
	reasonApart       = "hangs_until_cut"
	reasonAllCut      = "all_cut"
	reasonTriesCut    = "tries_cut"
)

// capped is work that something ended at one value.
type capped struct {
	pile stats.PileUp
	// k of n ended there; declared of these at their declared timeout.
	k, n, declared uint64
}

// cappedAt looks in h, the lengths of n operations or tries of which cut were ended before
// they were done, for a value at which these pile up. A pile that is for the most part work that
// was done is a usual length, not a cap, and beyond a cap there is hardly anything.
func cappedAt(h *stats.Hist, n, cut, declared uint64, cfg PileUpConfig) (best capped, found bool) {
	for _, p := range stats.PileUps(h, cfg.MinPile, cfg.PileP) {
		k := min(p.N, cut)
		if k < cfg.MinPile || p.N > 2*cut || p.Above > p.N || k <= best.k {
			continue
		}
		best, found = capped{p, k, n, min(declared, k)}, true
	}
	return best, found
}

// JudgePileUp judges cap_pileup: work is cut at one value. Operations with one attempt, or
// an unknown number, are looked at by their length; where one kind of streaming makes up the slice,
// so are single tries that were cut. It fires when the share cut there has a lower bound of
// FireRise times the share that usually is cut, wherever, or until that is known at Limit.
//
// The pile is inferred; see stats.PileUps. A cap that ends work as a success is not seen.
func JudgePileUp(w OperationWindow, b OperationBaseline, cfg PileUpConfig, minBlocks int) Verdict {
	v := Verdict{Detection: CapPileup, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "1", EffectUnit: "1", Severity: Warning}
	single, more := tally(w.ByRetries["0"], w.ByRetries["unknown"]), tally(w.ByRetries["1"], w.ByRetries["2+"])
	v.Samples = single.N + more.N
	if v.Samples < cfg.MinOperations {
		return v.with(Insufficient, "few_operations")
	}
	c, found := capped{}, false
	if single.N >= cfg.MinOperations && single.Failed.cut() >= cfg.MinPile {
		single = *pool(w.ByRetries["0"], w.ByRetries["unknown"])
		c, found = cappedAt(single.User.Hist, single.N, single.Failed.cut(), single.Failed.AtCap, cfg)
	}
	baseK, baseN, tries, what := b.Cut, b.N, false, "calls"
	if a := w.Attempts; a != nil && w.Alone && a.Leaf >= cfg.MinOperations {
		if t, ok := cappedAt(a.Cut.Hist, a.Leaf, a.Cut.N, a.CutAtCap, cfg); ok && share(t.k, t.n) > share(c.k, max(c.n, 1)) {
			c, found, tries, what = t, true, true, "tries"
			baseK, baseN = b.Attempts.Cut, b.Attempts.Leaf
			v.Samples = a.Leaf
		}
	}
	v.number("retry_share", share(more.N, v.Samples))
	history := b.WorkBlocks >= minBlocks && baseN >= minBaseOperations
	if !found {
		return v.with(Quiet, "no_pile_up")
	}
	if !history {
		baseK, baseN = 0, 0
	}
	r, err := riseOf(c.k, c.n, baseK, baseN, minBaseOperations, cfg.Limit/2, cfg.MinShare)
	if err != nil {
		return v.with(Insufficient, "few_operations")
	}
	v.Value, v.Effect, v.P = r.now.Estimate, r.now, math.Max(r.p, c.pile.P)
	v.number("cap_ms", c.pile.ValueMS)
	v.number("cap_lo_ms", c.pile.LoMS)
	v.number("cap_hi_ms", c.pile.HiMS)
	v.number("capped_share", r.now.Estimate)
	v.number("pile_p", c.pile.P)
	v.number("pile_expected", c.pile.Expected)
	v.number("declared_share", share(c.declared, c.k))
	v.Severity = severity(missed(w.Missed, w.Known, b.DeadlineMissed, b.DeadlineKnown, cfg.MissShare))
	v.Text = fmt.Sprintf("%.1f %% of %s (%d of %d) were cut at about %.3g s, where a smooth tail has at most %.1f", 100*r.now.Estimate, what, c.k, c.n, about(c.pile.ValueMS)/1e3, c.pile.Expected)
	reason := reasonTriesCut
	if tries {
		v.Cause = fmt.Sprintf("single tries are cut at about %.3g s and then made again", about(c.pile.ValueMS)/1e3)
	} else {
		reason = capCause(&v, c, single.User.Hist)
	}
	switch {
	case 2*c.declared >= c.k:
		v.Cause += "; it is the declared timeout"
	default:
		v.Cause += "; no declared timeout is known to end there: look for a gateway's, proxy's or server's limit"
	}
	if !history {
		v.Threshold = cfg.Limit
		v.Text += "; what is usual is not known yet"
		if r.now.Estimate >= cfg.Limit && r.now.Lo > cfg.Limit/2 {
			return v.with(Breach, reason)
		}
		return v.with(unlearned(r.now.Estimate < cfg.ClearRise*cfg.MinShare))
	}
	v.Baseline, v.Threshold = share(baseK, baseN), cfg.FireRise*r.reference
	v.Text += fmt.Sprintf("; usually %.1f %% are cut", 100*v.Baseline)
	switch {
	case r.now.Lo > v.Threshold:
		return v.with(Breach, reason)
	case r.now.Estimate < cfg.ClearRise*r.reference:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}

// capCause tells three shapes apart: the tail of the usual work is longer than the cap; a few
// calls hang while all others are done long before; or nearly all are cut. The tail is that of
// the lognormal through two quantiles of what lies below the cap.
func capCause(v *Verdict, c capped, h *stats.Hist) string {
	at := about(c.pile.ValueMS) / 1e3
	done := 1 - share(c.k, c.n)
	if done < 0.25 {
		v.Cause = fmt.Sprintf("nearly every call is cut at about %.3g s: what it waits for does not answer, or needs longer than that", at)
		return reasonAllCut
	}
	qa, qb := done*0.5, done*0.85
	a, b := quantile(h, qa), quantile(h, qb)
	za, zb := distuv.UnitNormal.Quantile(qa), distuv.UnitNormal.Quantile(qb)
	v.number("p50_ms", quantile(h, 0.5))
	if a > 0 && b > a {
		sigma := math.Log(b/a) / (zb - za)
		mu := math.Log(a) - sigma*za
		beyond := normSF((math.Log(c.pile.LoMS) - mu) / sigma)
		v.number("tail_beyond_cap", beyond)
		if beyond >= share(c.k, c.n)/3 {
			p95 := math.Exp(mu + sigma*distuv.UnitNormal.Quantile(0.95))
			if p95 <= c.pile.ValueMS {
				v.Cause = fmt.Sprintf("the cap of about %.3g s cuts calls that were making progress", at)
				return reasonCapBelowP95
			}
			v.number("uncut_p95_ms", p95)
			v.Cause = fmt.Sprintf("cap below P95: the limit of about %.3g s cuts calls that were making progress; by those below it, P95 would be near %.3g s", at, p95/1e3)
			return reasonCapBelowP95
		}
	}
	v.Cause = fmt.Sprintf("some calls hang until something cuts them at about %.3g s, while the others take %.3g s at the median: two groups and not one slow tail; the calls cut were not retried ones", at, quantile(h, 0.5)/1e3)
	return reasonApart
}

// about is the roundest number within 3 % of a value, as near as a histogram knows one. Limits
// are round numbers for the most part.
func about(ms float64) float64 {
	for step := math.Pow(10, math.Ceil(math.Log10(ms))); step > ms/1e3; step /= 10 {
		for _, part := range []float64{1, 0.5, 0.2, 0.25} {
			if r := math.Round(ms/step/part) * step * part; math.Abs(r-ms) <= 0.03*ms {
				return r
			}
		}
	}
	return ms
}

// namePileUps adds what only other slices of a round show: that the same calls last longer than the
// cap and succeed when they are streamed otherwise.
func namePileUps(vs []Verdict, window func(s Slice, from, to time.Time) *OperationWindow) {
	for i := range vs {
		v := &vs[i]
		cap := v.Evidence.Numbers.At("cap_ms")
		if v.Detection != CapPileup || v.Level != Breach || cap == 0 {
			continue
		}
		for _, stream := range []string{"yes", "no"} {
			other := v.Slice
			other.Stream = stream
			if stream == v.Slice.Stream {
				continue
			}
			o := window(other, v.From, v.To)
			all := pool(o.ByRetries["0"], o.ByRetries["1"], o.ByRetries["2+"], o.ByRetries["unknown"])
			longer, err := all.User.Hist.Above(1.05 * cap)
			if n := longer * float64(all.N); err != nil || n < 5 || float64(all.Failed.All) > n/2 {
				continue
			}
			v.number("longer_with_other_streaming_share", longer)
			if stream == "yes" {
				v.Cause += fmt.Sprintf("; the same calls streamed last up to %.3g s and succeed, so the limit is on answers that are not streamed", quantile(all.User.Hist, 0.95)/1e3)
			} else {
				v.Cause += fmt.Sprintf("; the same calls unstreamed last up to %.3g s and succeed, so the limit is on streams", quantile(all.User.Hist, 0.95)/1e3)
			}
		}
	}
}

// declareCap compares an inferred cap with the timeouts that calls declare.
func declareCap(v *Verdict, d store.Timeouts) {
	cap := v.Evidence.Numbers.At("cap_ms")
	if v.Detection != CapPileup || cap == 0 || 2*d.Known < d.N || d.N == 0 {
		return
	}
	declared := float64(d.MedianNS) / 1e6
	v.number("declared_timeout_ms", declared)
	switch {
	case declared > 1.1*cap:
		v.Cause += fmt.Sprintf("; calls declare a timeout of %.3g s and are cut at %.3g s, so something on the way has a shorter limit than its caller", declared/1e3, about(cap)/1e3)
	case declared < 0.9*cap:
		v.Cause += fmt.Sprintf("; calls declare a timeout of %.3g s, which does not end them", declared/1e3)
	}
}
