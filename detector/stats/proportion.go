package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

func checkCounts(k, n uint64) error {
	if n == 0 {
		return insufficient("proportion of no trials")
	}
	if k > n {
		return invalid("%d successes in %d trials", k, n)
	}
	return nil
}

// Wilson returns k/n with the score interval of Wilson (1927). n of 0 is
// ErrInsufficient, k over n ErrInvalid.
func Wilson(k, n uint64, confidence float64) (Interval, error) {
	if err := checkConfidence(confidence); err != nil {
		return Interval{}, err
	}
	if err := checkCounts(k, n); err != nil {
		return Interval{}, err
	}
	z, fn := zFor(confidence), float64(n)
	p := float64(k) / fn
	centre := (p + z*z/(2*fn)) / (1 + z*z/fn)
	half := z / (1 + z*z/fn) * math.Sqrt(p*(1-p)/fn+z*z/(4*fn*fn))
	lo, hi := math.Max(0, centre-half), math.Min(1, centre+half)
	if k == 0 {
		lo = 0
	}
	if k == n {
		hi = 1
	}
	return Interval{p, lo, hi, confidence}, nil
}

// ProportionTest compares two proportions.
type ProportionTest struct {
	// Diff is p1-p2 with Newcombe's hybrid score interval (1998, method 10).
	Diff Interval
	// P is two-sided, PGreater against "p1 is larger".
	P, PGreater float64
	// Exact tells that P is Fisher's, used when an expected count is under 5.
	Exact bool
}

// TwoProportions tests k1/n1 against k2/n2: the pooled z test, or Fisher's exact
// test when an expected count is under 5 and there are at most a million trials.
// Errors are those of [Wilson].
func TwoProportions(k1, n1, k2, n2 uint64, confidence float64) (ProportionTest, error) {
	w1, err := Wilson(k1, n1, confidence)
	if err != nil {
		return ProportionTest{}, err
	}
	w2, err := Wilson(k2, n2, confidence)
	if err != nil {
		return ProportionTest{}, err
	}
	d := w1.Estimate - w2.Estimate
	r := ProportionTest{Diff: Interval{d,
		math.Max(-1, d-math.Hypot(w1.Estimate-w1.Lo, w2.Hi-w2.Estimate)),
		math.Min(1, d+math.Hypot(w1.Hi-w1.Estimate, w2.Estimate-w2.Lo)), confidence}}
	f1, f2 := float64(n1), float64(n2)
	pool := (float64(k1) + float64(k2)) / (f1 + f2)
	if math.Min(f1, f2)*math.Min(pool, 1-pool) < 5 && f1+f2 <= 1e6 {
		r.P, r.PGreater = fisher(k1, n1, k2, n2)
		r.Exact = true
		return r, nil
	}
	se := math.Sqrt(pool * (1 - pool) * (1/f1 + 1/f2))
	if se == 0 {
		r.P, r.PGreater = 1, 1
		return r, nil
	}
	r.P, r.PGreater = 2*normSF(math.Abs(d)/se), normSF(d/se)
	return r, nil
}

// fisher sums the hypergeometric probabilities of tables as likely as the one
// seen or less (two-sided) and of those with k1 or more (greater).
func fisher(k1, n1, k2, n2 uint64) (p, greater float64) {
	k := k1 + k2
	logFactorial := func(n uint64) float64 {
		l, _ := math.Lgamma(float64(n) + 1)
		return l
	}
	all1, all2 := logFactorial(n1), logFactorial(n2)
	all := logFactorial(n1+n2) - logFactorial(k) - logFactorial(n1+n2-k)
	prob := func(x uint64) float64 {
		choose1 := all1 - logFactorial(x) - logFactorial(n1-x)
		choose2 := all2 - logFactorial(k-x) - logFactorial(n2-(k-x))
		return math.Exp(choose1 + choose2 - all)
	}
	lo := uint64(0)
	if k > n2 {
		lo = k - n2
	}
	seen := prob(k1) * (1 + 1e-7)
	for x := lo; x <= min(k, n1); x++ {
		q := prob(x)
		if q <= seen {
			p += q
		}
		if x >= k1 {
			greater += q
		}
	}
	return math.Min(1, p), math.Min(1, greater)
}

// OddsRatio returns the odds of k1/n1 over those of k2/n2 with Woolf's logit
// interval (1955), one half added to every cell if any is 0 (Haldane 1956,
// Anscombe 1956). Errors are those of [Wilson].
func OddsRatio(k1, n1, k2, n2 uint64, confidence float64) (Interval, error) {
	if err := checkConfidence(confidence); err != nil {
		return Interval{}, err
	}
	if err := checkCounts(k1, n1); err != nil {
		return Interval{}, err
	}
	if err := checkCounts(k2, n2); err != nil {
		return Interval{}, err
	}
	a, b, c, d := float64(k1), float64(n1-k1), float64(k2), float64(n2-k2)
	if a == 0 || b == 0 || c == 0 || d == 0 {
		a, b, c, d = a+0.5, b+0.5, c+0.5, d+0.5
	}
	l := math.Log(a) - math.Log(b) - math.Log(c) + math.Log(d)
	h := zFor(confidence) * math.Sqrt(1/a+1/b+1/c+1/d)
	return Interval{math.Exp(l), math.Exp(l - h), math.Exp(l + h), confidence}, nil
}

// BinomialTail is P(B >= k) for B binomial(n, p): how likely so many or more are by chance.
// k above n, or p outside [0, 1], are ErrInvalid.
func BinomialTail(k, n uint64, p float64) (float64, error) {
	if err := checkCounts(k, n); err != nil {
		return 0, err
	}
	if !(p >= 0 && p <= 1) {
		return 0, invalid("probability %v is not in [0, 1]", p)
	}
	switch {
	case k == 0:
		return 1, nil
	case p == 0:
		return 0, nil
	case p == 1:
		return 1, nil
	}
	// The complement would lose tails under 1e-16.
	return mathext.RegIncBeta(float64(k), float64(n-k+1), p), nil
}
