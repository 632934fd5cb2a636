package stats

import "math"

// Shift is a difference with its standard error, both on the scale on which it
// was taken, so that differences can themselves be compared.
type Shift struct {
	Interval
	SE float64
	N1 uint64
	N2 uint64
}

func newShift(est, se, confidence float64, a, b Points) Shift {
	z := zFor(confidence)
	return Shift{Interval{est, est - z*se, est + z*se, confidence}, se, a.N(), b.N()}
}

// QuantileShift returns quantile q of a less that of b, on a scale: in the
// values' unit for Linear, as a log ratio for Log. Standard errors come from
// order statistics; for q = 0.5 and Linear it is the interval for a difference
// of medians of Price and Bonett (2002). There is no bootstrap. The samples are
// taken as independent. Too few values for a standard error (5, and 2 beyond
// the quantile) are ErrInsufficient.
func QuantileShift(a, b Points, q float64, s Scale, confidence float64) (Shift, error) {
	if err := checkConfidence(confidence); err != nil {
		return Shift{}, err
	}
	ea, sa, err := a.quantileSE(q, s)
	if err != nil {
		return Shift{}, err
	}
	eb, sb, err := b.quantileSE(q, s)
	if err != nil {
		return Shift{}, err
	}
	return newShift(ea-eb, math.Hypot(sa, sb), confidence, a, b), nil
}

// QuantileRatio returns quantile q of a divided by that of b with an interval,
// from [QuantileShift] on the log scale. Estimate 4 means "four times", which is
// an increase by 300 %.
func QuantileRatio(a, b Points, q, confidence float64) (Interval, error) {
	s, err := QuantileShift(a, b, q, Log, confidence)
	if err != nil {
		return Interval{}, err
	}
	return s.Ratio(), nil
}

// Ratio turns a log-scale shift into a ratio.
func (s Shift) Ratio() Interval {
	return Interval{math.Exp(s.Estimate), math.Exp(s.Lo), math.Exp(s.Hi), s.Confidence}
}

// MedianRatio is [QuantileRatio] at q = 0.5.
func MedianRatio(a, b Points, confidence float64) (Interval, error) {
	return QuantileRatio(a, b, 0.5, confidence)
}

// EquivalenceResult tells whether a ratio is shown to be close to 1.
type EquivalenceResult struct {
	// Equivalent means that P <= alpha: both one-sided tests reject. It is
	// false both when the ratio is far from 1 and when data are too few to
	// tell; Ratio shows which.
	Equivalent bool
	// P is the larger of the two one-sided p-values.
	P float64
	// Ratio has confidence 1-2*alpha and lies inside [1/Margin, Margin] exactly
	// when Equivalent.
	Ratio  Interval
	Margin float64
}

// EquivalentMedians is Schuirmann's two one-sided tests (1987) on the log ratio
// of medians: it shows that a and b are within a factor margin of each other,
// for instance 1.10. Absence of a significant difference shows nothing of the
// kind. margin must be over 1 and alpha in (0, 0.5), else ErrInvalid; errors as
// in [QuantileShift].
func EquivalentMedians(a, b Points, margin, alpha float64) (EquivalenceResult, error) {
	if !(margin > 1) || math.IsInf(margin, 1) {
		return EquivalenceResult{}, invalid("equivalence margin %v must be a ratio over 1", margin)
	}
	if !(alpha > 0 && alpha < 0.5) {
		return EquivalenceResult{}, invalid("alpha %v is not between 0 and 0.5", alpha)
	}
	s, err := QuantileShift(a, b, 0.5, Log, 1-2*alpha)
	if err != nil {
		return EquivalenceResult{}, err
	}
	r := EquivalenceResult{Ratio: s.Ratio(), Margin: margin}
	m := math.Log(margin)
	if s.SE == 0 {
		if r.P = 1; math.Abs(s.Estimate) < m {
			r.P = 0
		}
	} else {
		r.P = math.Max(normSF((m-s.Estimate)/s.SE), normSF((s.Estimate+m)/s.SE))
	}
	r.Equivalent = r.P <= alpha
	return r, nil
}

// DiffOfDiffs is the outcome of [DifferenceOfDifferences].
type DiffOfDiffs struct {
	Interval
	SE float64
	// P is one-sided, against "the first shift is not larger than the second
	// plus the threshold".
	P float64
}

// DifferenceOfDifferences returns how much more the first shift is than the
// second, for instance user time by retries less agent time by retries; both
// must be on the same scale, which the caller knows. The shifts are taken as
// independent; two that share their requests are positively correlated, so the
// interval is then too wide, never too narrow. threshold is the difference that
// must be exceeded, on the same scale.
func DifferenceOfDifferences(first, second Shift, threshold, confidence float64) (DiffOfDiffs, error) {
	if err := checkConfidence(confidence); err != nil {
		return DiffOfDiffs{}, err
	}
	d, se := first.Estimate-second.Estimate, math.Hypot(first.SE, second.SE)
	if !finite(d) || !finite(se) || math.IsNaN(threshold) {
		return DiffOfDiffs{}, invalid("difference of differences of %v and %v over %v", first.Estimate, second.Estimate, threshold)
	}
	z := zFor(confidence)
	r := DiffOfDiffs{Interval: Interval{d, d - z*se, d + z*se, confidence}, SE: se, P: 1}
	switch {
	case se > 0:
		r.P = normSF((d - threshold) / se)
	case d > threshold:
		r.P = 0
	}
	return r, nil
}

// AshmanD returns sqrt(2)*|m1-m2|/sqrt(s1^2+s2^2) on a scale (Ashman, Bird and
// Zepf 1994). Above 2 two components are cleanly separated. Fewer than two
// values on a side are ErrInsufficient; if neither side has any spread it is
// ErrInsufficient too, unless the means are equal, which gives 0.
func AshmanD(a, b Points, s Scale) (float64, error) {
	if err := checkTwo(a, b, 2); err != nil {
		return 0, err
	}
	for _, p := range []Points{a, b} {
		if err := p.checkScale(s); err != nil {
			return 0, err
		}
	}
	m1, s1 := a.meanSD(s)
	m2, s2 := b.meanSD(s)
	spread := math.Hypot(s1, s2)
	if spread == 0 {
		if m1 == m2 {
			return 0, nil
		}
		return 0, insufficient("Ashman's D of two samples without spread")
	}
	return math.Sqrt2 * math.Abs(m1-m2) / spread, nil
}
