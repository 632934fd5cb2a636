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
	return quantileSE(p, q, s)
}

func quantileSE[R ranked](p R, q float64, s Scale) (est, se float64, err error) {
	if !(q > 0 && q < 1) {
		return 0, 0, invalid("quantile probability %v is not between 0 and 1", q)
	}
	if v, ok := p.least(); s == Log && ok && v < 0 {
		return 0, 0, invalid("log scale needs values of 0 or more, got %v", v)
	}
	n := float64(p.N())
	if n < 5 || n*math.Min(q, 1-q) < minTail {
		return 0, 0, insufficient("standard error of the %g-quantile of %d values", q, p.N())
	}
	if q == 0.5 {
		est = s.apply(medianOf(p))
	} else {
		est = s.apply(quantileOf(p, q))
	}
	h := 2 * math.Sqrt(n*q*(1-q))
	lo := math.Max(1, math.Round(n*q+0.5-h))
	hi := math.Min(n, math.Round(n*q+0.5+h))
	z := coverZ(q, p.N(), lo, hi)
	se = (s.apply(p.orderStat(uint64(hi))) - s.apply(p.orderStat(uint64(lo)))) / (2 * z)
	// A bucket hides where in it the value lies: the variance of a uniform.
	w := p.width()
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
	return quantileCI(p, q, confidence)
}

// HistQuantileCI is [QuantileCI] of a histogram, in milliseconds.
func HistQuantileCI(h *Hist, q, confidence float64) (QuantileInterval, error) {
	return quantileCI(h.ranks(), q, confidence)
}

func quantileCI[R ranked](p R, q, confidence float64) (QuantileInterval, error) {
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
	of := rankIntervalOf(n, q, confidence)
	r := QuantileInterval{Interval: Interval{Estimate: quantileOf(p, q), Confidence: confidence}, Coverage: of.coverage}
	r.LowerOpen, r.UpperOpen = of.lo < 1, of.hi > n
	r.Lo, r.Hi = p.orderStat(uint64(max(of.lo, 1))), p.orderStat(uint64(min(of.hi, n)))
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
