package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// CUSUM is Page's one-sided upper cumulative sum (1954) of standardised values.
// S grows by z-K and never falls under 0; it alarms above H. The zero value of S
// is the start. It is not safe for concurrent use.
type CUSUM struct {
	// K is the allowance in standard deviations, half of the shift to be seen
	// soonest; 0.5 is usual.
	K float64 `json:"k"`
	// H is the decision limit in standard deviations. With K 0.5 on normal data
	// of known spread, 4, 5 and 8 give one false alarm per 335, 930 and 18924
	// values. A spread estimated from 120 values roughly doubles the alarms:
	// calibrate on quiet traffic.
	H float64 `json:"h"`
	// S is the present sum.
	S float64 `json:"s"`
	// Since counts the values since S was last 0: when the change began, by
	// maximum likelihood.
	Since int `json:"since"`
}

// Update takes the next standardised value and reports whether the sum is above
// H. It goes on summing after an alarm; call Reset when it has been dealt with.
// NaN and infinite values change nothing and are ErrInvalid.
func (c *CUSUM) Update(z float64) (alarm bool, err error) {
	if !finite(z) {
		return c.S > c.H, invalid("CUSUM value %v", z)
	}
	c.S += z - c.K
	if c.Since++; c.S <= 0 {
		c.S, c.Since = 0, 0
	}
	return c.S > c.H, nil
}

// Reset starts again.
func (c *CUSUM) Reset() { c.S, c.Since = 0, 0 }

// BernoulliCUSUM is the cumulative sum of the log-likelihood ratio of a share: it sees a rise
// of a proportion from P0 towards P1 (Reynolds and Stoumbos, A CUSUM chart for monitoring a
// proportion when inspecting continuously, 1999). It needs no least number of values at a
// time, so that it works where a minute has five. The zero value of S is the start.
type BernoulliCUSUM struct {
	// P0 < P1 are shares within (0, 1). A share between them that lasts moves the sum up when
	// it is above about half way.
	P0, P1 float64
	// H is the limit. With independent values of share P0, ln(1/a) gives a false alarm in no
	// less than 1/a values on average (Lorden 1971).
	H float64
	// S is the present sum.
	S float64
}

// Update takes k of n further values; neither need be whole. It reports whether the sum is
// above H. Shares out of order, or k outside [0, n], are ErrInvalid and change nothing.
func (c *BernoulliCUSUM) Update(k, n float64) (alarm bool, err error) {
	if !(c.P0 > 0 && c.P0 < c.P1 && c.P1 < 1) {
		return false, invalid("CUSUM of a share from %v to %v", c.P0, c.P1)
	}
	if !(k >= 0 && k <= n) || math.IsInf(n, 1) {
		return c.S > c.H, invalid("CUSUM of a share: %v of %v", k, n)
	}
	c.S = math.Max(0, c.S+k*math.Log(c.P1/c.P0)+(n-k)*math.Log((1-c.P1)/(1-c.P0)))
	return c.S > c.H, nil
}

// EWMA is a one-sided upper exponentially weighted moving average of
// standardised values (Roberts 1959), which alarms L of its own standard
// deviations above 0. The limit is exact from the first value on, not only in
// the long run. It is not safe for concurrent use.
type EWMA struct {
	// Lambda is the weight of the newest value, in (0, 1].
	Lambda float64 `json:"lambda"`
	L      float64 `json:"l"`
	// Value is the average, in standard deviations of one value.
	Value float64 `json:"value"`
	// N counts the values.
	N uint64 `json:"n"`
}

// Update takes the next standardised value and reports whether the average is
// above its limit. NaN and infinite values change nothing and are ErrInvalid, as
// is a Lambda outside (0, 1].
func (e *EWMA) Update(z float64) (alarm bool, err error) {
	if !(e.Lambda > 0 && e.Lambda <= 1) {
		return false, invalid("EWMA lambda %v is not in (0, 1]", e.Lambda)
	}
	if !finite(z) {
		return e.N > 0 && e.Value > e.Limit(), invalid("EWMA value %v", z)
	}
	e.Value += e.Lambda * (z - e.Value)
	e.N++
	return e.Value > e.Limit(), nil
}

// Limit returns the present alarm limit in standard deviations of one value.
func (e *EWMA) Limit() float64 {
	v := e.Lambda / (2 - e.Lambda) * (1 - math.Pow(1-e.Lambda, 2*float64(e.N)))
	return e.L * math.Sqrt(v)
}

// Reset starts again.
func (e *EWMA) Reset() { e.Value, e.N = 0, 0 }

// CUSUMARL returns the average run length of a [CUSUM]: how many values until an
// alarm when they are normal with mean shift and standard deviation 1. Brook and
// Evans's Markov chain (1972) with the given number of states, 120 being ample.
func CUSUMARL(k, h, shift float64, states int) (float64, error) {
	if !finite(k) || !(h > 0) || math.IsInf(h, 1) || !finite(shift) || states < 2 || states > 2000 {
		return 0, invalid("CUSUM run length for k=%v h=%v shift=%v states=%d", k, h, shift, states)
	}
	w := 2 * h / float64(2*states-1)
	return chainARL(states, 0, func(i, j int) float64 {
		// From the middle of state i to state j; state 0 takes all below.
		up := float64(j-i)*w + w/2 + k - shift
		if j == 0 {
			return normCDF(up)
		}
		return normCDF(up) - normCDF(up-w)
	})
}

// EWMAARL returns the average run length of an EWMA with constant limits, for
// normal values with mean shift and standard deviation 1; oneSided counts only
// alarms above. Markov chain over the interval (Lucas and Saccucci 1990).
func EWMAARL(lambda, l, shift float64, oneSided bool, states int) (float64, error) {
	if !(lambda > 0 && lambda <= 1) || !(l > 0) || math.IsInf(l, 1) || !finite(shift) || states < 3 || states > 2000 {
		return 0, invalid("EWMA run length for lambda=%v L=%v shift=%v states=%d", lambda, l, shift, states)
	}
	sd := math.Sqrt(lambda / (2 - lambda))
	lo, hi := -l*sd, l*sd
	if oneSided {
		// Nothing below is an alarm. The lowest state takes all that falls
		// beneath it; at -6 deviations of the average that hardly happens.
		lo = -math.Max(6, l) * sd
	}
	w := (hi - lo) / float64(states)
	start := min(states-1, int(-lo/w))
	return chainARL(states, start, func(i, j int) float64 {
		mid := lo + (float64(i)+0.5)*w
		edge := lo + float64(j)*w
		at := func(y float64) float64 { return normCDF((y-(1-lambda)*mid)/lambda - shift) }
		if oneSided && j == 0 {
			return at(edge + w)
		}
		return at(edge+w) - at(edge)
	})
}

// chainARL solves (I-R) m = 1 for the mean time to absorption.
func chainARL(n, start int, r func(i, j int) float64) (float64, error) {
	a := mat.NewDense(n, n, nil)
	one := mat.NewVecDense(n, nil)
	for i := range n {
		for j := range n {
			a.Set(i, j, -r(i, j))
		}
		a.Set(i, i, 1+a.At(i, i))
		one.SetVec(i, 1)
	}
	var m mat.VecDense
	if err := m.SolveVec(a, one); err != nil {
		return 0, fmt.Errorf("run length is beyond what floating point can solve: %w", err)
	}
	return m.AtVec(start), nil
}

// CUSUMLimit returns the limit H whose in-control average run length is arl, for
// normal values of known spread. arl is in values: with one-minute buckets,
// 10080 is one false alarm per series and week.
func CUSUMLimit(k, arl float64) (float64, error) {
	if !(arl > 1 && arl <= 1e7) || !(k >= 0.05 && k <= 3) {
		return 0, invalid("CUSUM limit for k=%v and run length %v: k must be 0.05..3, run length 1..1e7", k, arl)
	}
	lo, hi := 1e-3, 1.0
	for {
		got, err := CUSUMARL(k, hi, 0, 120)
		if err != nil {
			return 0, err
		}
		if got >= arl {
			break
		}
		lo, hi = hi, hi*2
		if hi > 200 {
			return 0, invalid("no CUSUM limit up to 200 reaches run length %v with k=%v", arl, k)
		}
	}
	for range 40 {
		mid := (lo + hi) / 2
		got, err := CUSUMARL(k, mid, 0, 120)
		if err != nil {
			return 0, err
		}
		if got >= arl {
			hi = mid
		} else {
			lo = mid
		}
	}
	return (lo + hi) / 2, nil
}
