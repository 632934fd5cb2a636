package stats

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

var (
	// ErrInsufficient is wrapped by every error that means there are too few
	// observations for a verdict. Callers report "insufficient traffic".
	ErrInsufficient = errors.New("insufficient data")
	// ErrInvalid is wrapped by every error that means an argument is outside
	// its domain, such as a probability of 1.5 or columns of unequal length.
	ErrInvalid = errors.New("invalid argument")
)

// Interval is an estimate with a two-sided confidence interval. The unit is
// that of the quantity estimated.
type Interval struct {
	Estimate float64
	Lo       float64
	Hi       float64
	// Confidence is the nominal coverage, for example 0.95.
	Confidence float64
}

// Contains reports whether x lies in the closed interval [Lo, Hi].
func (i Interval) Contains(x float64) bool { return i.Lo <= x && x <= i.Hi }

// fault is an error whose text is made when it is read: most are only compared, since too few
// values are what most slices have in most rounds.
type fault struct {
	kind   error
	format string
	args   []any
}

// Error implements error.
func (f *fault) Error() string { return f.kind.Error() + ": " + fmt.Sprintf(f.format, f.args...) }

// Unwrap gives [ErrInsufficient] or [ErrInvalid].
func (f *fault) Unwrap() error { return f.kind }

func insufficient(format string, args ...any) error { return &fault{ErrInsufficient, format, args} }

func invalid(format string, args ...any) error { return &fault{ErrInvalid, format, args} }

func checkConfidence(c float64) error {
	if !(c > 0 && c < 1) {
		return invalid("confidence %v is not between 0 and 1", c)
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// normCDF is the standard normal distribution function. Erfc keeps the upper
// tail accurate, which 1-Phi would not.
func normCDF(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }

func normSF(x float64) float64 { return 0.5 * math.Erfc(x/math.Sqrt2) }

func normQuantile(p float64) float64 { return distuv.UnitNormal.Quantile(p) }

// zFor is the two-sided normal critical value for a confidence level.
func zFor(confidence float64) float64 {
	if confidence == 0.95 {
		return z95
	}
	return normQuantile(0.5 + confidence/2)
}

// z95 is asked for far more often than any other.
var z95 = normQuantile(0.975)

// binomCDF is P(B <= k) for B binomial(n, p), through the regularised
// incomplete beta function, so that n may be in the millions.
func binomCDF(k, n int64, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	case p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}

func clamp(x, lo, hi float64) float64 { return math.Max(lo, math.Min(hi, x)) }
