package stats

import "math"

// minTail is how many values must be expected on the thinner side of a quantile
// before its standard error means anything.
const minTail = 2

// quantileSE estimates a quantile and its standard error on a scale, without a
// density estimate: it takes two order statistics about 2 standard errors of
// rank apart, computes what they really cover under the binomial, and divides.
// For p = 0.5 this is the estimator of Price and Bonett (2001, 2002).
func (p Points) quantileSE(q float64, s Scale) (est, se float64, err error) {
	if !(q > 0 && q < 1) {
		return 0, 0, invalid("quantile probability %v is not between 0 and 1", q)
	}
	if err := p.checkScale(s); err != nil {
		return 0, 0, err
	}
	n := float64(p.N())
	if n < 5 || n*math.Min(q, 1-q) < minTail {
		return 0, 0, insufficient("standard error of the %g-quantile of %d values", q, p.N())
	}
	if q == 0.5 {
		est = s.apply(p.median())
	} else {
		est = s.apply(p.quantile(q))
	}
	h := 2 * math.Sqrt(n*q*(1-q))
	lo := math.Max(1, math.Round(n*q+0.5-h))
	hi := math.Min(n, math.Round(n*q+0.5+h))
	cover := binomCDF(int64(hi)-1, int64(n), q) - binomCDF(int64(lo)-1, int64(n), q)
	z := normQuantile(0.5 + clamp(cover, 0.1, 1-1e-12)/2)
	se = (s.apply(p.orderStat(uint64(hi))) - s.apply(p.orderStat(uint64(lo)))) / (2 * z)
	// A bucket hides where in it the value lies: the variance of a uniform.
	w := p.logWidth
	if s == Linear {
		w *= math.Abs(est)
	}
	return est, math.Sqrt(se*se + w*w/12), nil
}

// QuantileInterval is an order-statistic interval for a quantile.
type QuantileInterval struct {
	Interval
	// Coverage is the exact binomial coverage for a continuous distribution.
	Coverage float64
	// LowerOpen and UpperOpen mean that the sample has no order statistic far
	// enough out: the true bound is beyond Lo (the smallest value) or Hi (the
	// largest), and is not known.
	LowerOpen, UpperOpen bool
}

// QuantileCI returns the q-quantile of a sample, in its unit, with the
// distribution-free interval between two order statistics (binomial; Conover,
// Practical Nonparametric Statistics). Each side has at most half of the error.
// An empty sample is ErrInsufficient; a sample too small for a bound sets
// LowerOpen or UpperOpen instead of inventing one.
func QuantileCI(p Points, q, confidence float64) (QuantileInterval, error) {
	if err := checkConfidence(confidence); err != nil {
		return QuantileInterval{}, err
	}
	if !(q > 0 && q < 1) {
		return QuantileInterval{}, invalid("quantile probability %v is not between 0 and 1", q)
	}
	n := int64(p.N())
	if n == 0 {
		return QuantileInterval{}, insufficient("quantile interval of an empty sample")
	}
	half := (1 - confidence) / 2
	// X(l) <= quantile unless fewer than l values lie below it: P(B <= l-1).
	// The largest l with P(B <= l-1) <= half, and the smallest u with
	// P(B >= u) <= half.
	mean, sd := float64(n)*q, math.Sqrt(float64(n)*q*(1-q))
	z := zFor(confidence)
	below := searchNear(int64(mean-z*sd), n+1, func(k int64) bool { return binomCDF(k, n, q) > half })
	lo := below // l-1 = below-1
	hi := searchNear(int64(mean+z*sd), n+1, func(k int64) bool { return 1-binomCDF(k-1, n, q) <= half })
	r := QuantileInterval{Interval: Interval{Estimate: p.quantile(q), Confidence: confidence}}
	r.LowerOpen, r.UpperOpen = lo < 1, hi > n
	r.Coverage = binomCDF(hi-1, n, q) - binomCDF(lo-1, n, q)
	r.Lo, r.Hi = p.orderStat(uint64(max(lo, 1))), p.orderStat(uint64(min(hi, n)))
	return r, nil
}

// searchNear returns the smallest k in [0, end) for which f is true, or end; f must be
// monotone. It looks around guess first, in steps that double, since each f is costly.
func searchNear(guess, end int64, f func(int64) bool) int64 {
	lo, hi := min(max(guess-1, 0), end), min(max(guess+1, 0), end)
	for step := int64(2); lo > 0 && f(lo); step *= 2 {
		hi, lo = lo, max(lo-step, 0)
	}
	for step := int64(2); hi < end && !f(hi); step *= 2 {
		lo, hi = hi+1, min(hi+step, end)
	}
	for lo < hi {
		mid := lo + (hi-lo)/2
		if f(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}
