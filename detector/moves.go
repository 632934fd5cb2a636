package detector

import (
	"math"
	"slices"
)

// Latency of a backend that others use too goes up and down for a quarter of an hour and comes
// back, and calls of one minute are then slow together. The sequential tests take calls as
// independent and would find a shift in each such wave. So a shift must be larger than the
// waves the slice is used to: movesLimit standard deviations of what its P95 does from one
// hour to the next. A rhythm over the day hardly shows in that.
const (
	movesApart  = 3600 // seconds
	movesLimit  = 5
	tailSEScale = 2.114
	// movesUnknown is taken of a slice of which nothing is known yet, since a backend that others
	// use too may well move by so much. It counts as movesPrior pairs of blocks.
	movesUnknown = 0.15
	movesPrior   = 5
)

// moveRoom has the P95 of blocks, in order.
type moveRoom struct {
	at    []int64
	logs  []float64
	n     []float64
	steps []float64
}

func (r *moveRoom) empty() { r.at, r.logs, r.n, r.steps = r.at[:0], r.logs[:0], r.n[:0], r.steps[:0] }

func (r *moveRoom) add(at int64, p95MS float64, n uint64) {
	if p95MS > 0 && n > 0 {
		r.at, r.logs, r.n = append(r.at, at), append(r.logs, math.Log(p95MS)), append(r.n, float64(n))
	}
}

// take is the standard deviation of log P95 that stays when the sampling error is taken away,
// for times whose logarithm has the standard deviation sigma: half the variance of the steps
// from each block to the one movesApart later, by the median of their sizes, less the variance
// of a sample's P95. What is taken of an unknown slice counts as some more steps, as the scale of a
// scaled inverse chi-squared prior does (Gelman and others, Bayesian Data Analysis, section 2.6), so
// that the first hours, with few steps or none, are not taken as calm. Of a slice whose blocks are all too thin for a P95 it is 0: so few calls
// show no shift that waves could make. That is p (1 - p) / n / f(x)^2 (Stuart and Ord, Kendall's Advanced Theory of
// Statistics 1, section 10.10); of a lognormal with p = 0.95 it makes the standard error of the
// logarithm 2.114 sigma / sqrt(n).
func (r *moveRoom) take(sigma float64) float64 {
	j := 0
	for i := range r.at {
		for j < i && r.at[i]-r.at[j] > movesApart {
			j++
		}
		if r.at[i]-r.at[j] == movesApart {
			r.steps = append(r.steps, math.Abs(r.logs[i]-r.logs[j]))
		}
	}
	if len(r.at) == 0 {
		return 0
	}
	slices.Sort(r.n)
	se := tailSEScale * sigma / math.Sqrt(r.n[len(r.n)/2])
	sd := 1.4826 * median(r.steps)
	seen := float64(len(r.steps))
	return math.Sqrt((movesPrior*movesUnknown*movesUnknown + seen*max(0, sd*sd/2-se*se)) / (movesPrior + seen))
}

// tailSigma is the standard deviation of a lognormal time with the baseline's P50 and P95.
func (b *OperationBaseline) tailSigma() float64 {
	if b.P50MS <= 0 || b.P95MS <= b.P50MS {
		return 0
	}
	return math.Log(b.P95MS/b.P50MS) / 1.6448536269514722
}

// leastShift is the least shift of P95, as a ratio, that is no wave of the usual kind.
func leastShift(configured, moves float64) float64 {
	return max(configured, math.Exp(movesLimit*moves))
}
