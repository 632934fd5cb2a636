package stats

import (
	"math"
	"sync/atomic"
)

// ranked is a sample by rank: [Points], or a histogram as it stands.
type ranked interface {
	N() uint64
	orderStat(k uint64) float64
	least() (ms float64, ok bool)
	width() float64
}

func (p Points) least() (float64, bool) {
	if len(p.v) == 0 {
		return 0, false
	}
	return p.v[0], true
}

func (p Points) width() float64 { return p.logWidth }

// ranksOf reads a histogram by rank without the copy that [Hist.Points] makes.
type ranksOf struct {
	h *Hist
	n uint64
}

func (h *Hist) ranks() ranksOf { return ranksOf{h, h.N()} }

// N implements ranked.
func (r ranksOf) N() uint64 { return r.n }

func (r ranksOf) least() (float64, bool) {
	if r.n == 0 {
		return 0, false
	}
	return BucketValue(r.h.Index[0]), true
}

func (ranksOf) width() float64 { return LnGamma }

func (r ranksOf) orderStat(k uint64) float64 {
	k = min(max(k, 1), r.n)
	i, cum := r.h.rank(k, r.n)
	return within(BucketValue(r.h.Index[i]), k, cum, r.h.Count[i], LnGamma)
}

// rank finds the bucket of the k-th smallest of all n values, 1 or more, and how many values are
// no larger than the bucket's.
func (h *Hist) rank(k, n uint64) (i int, cum uint64) {
	if k > n/2 && n < math.MaxUint64 { // nearer to the end; a sum that did not fit counts from below only
		i, cum = len(h.Count)-1, n
		for cum-h.Count[i] >= k {
			cum -= h.Count[i]
			i--
		}
		return i, cum
	}
	for cum = h.Count[0]; cum < k; cum = satAdd(cum, h.Count[i]) {
		i++
	}
	return i, cum
}

// within is the k-th smallest value, one of w that are spread evenly on the log scale over a
// bucket of that width around v; cum values are no larger than the bucket's.
func within(v float64, k, cum, w uint64, width float64) float64 {
	if v == 0 {
		return v
	}
	before := cum - w
	frac := (float64(k-before) - 0.5) / float64(w)
	return v * math.Exp((frac-0.5)*width)
}

func quantileOf[R ranked](p R, q float64) float64 {
	n := p.N()
	return p.orderStat(min(uint64(float64(n)*q), n-1) + 1)
}

// medianOf is the mean of the two middle values when N is even.
func medianOf[R ranked](p R) float64 {
	n := p.N()
	if n%2 == 1 {
		return p.orderStat(n/2 + 1)
	}
	return (p.orderStat(n/2) + p.orderStat(n/2+1)) / 2
}

// What a sample's size and the quantile alone decide is worked out once for samples of fewer
// than rememberedSizes: it takes far longer than the rest, and rounds ask for the same again
// and again.
const rememberedSizes = 1 << 13

// remembered are the quantiles that are asked for.
var remembered = [...]float64{0.25, 0.5, 0.75, 0.95}

var (
	coverZs   [len(remembered)][rememberedSizes]atomic.Uint64
	intervals [len(remembered)][rememberedSizes]atomic.Pointer[rankInterval]
)

// rememberedAt is where a quantile of a sample of n is remembered; not ok where it is not.
func rememberedAt(q float64, n uint64) (i int, ok bool) {
	for i, r := range remembered {
		if r == q {
			return i, n < rememberedSizes
		}
	}
	return 0, false
}

// coverZ is the normal point of what the order statistics lo and hi of n cover around the
// q-quantile under the binomial.
func coverZ(q float64, n uint64, lo, hi float64) float64 {
	at, keep := rememberedAt(q, n)
	if keep {
		if z := coverZs[at][n].Load(); z != 0 {
			return math.Float64frombits(z)
		}
	}
	cover := binomCDF(int64(hi)-1, int64(n), q) - binomCDF(int64(lo)-1, int64(n), q)
	z := normQuantile(0.5 + clamp(cover, 0.1, 1-1e-12)/2)
	if keep {
		coverZs[at][n].Store(math.Float64bits(z))
	}
	return z
}

// rankInterval are the order statistics that bound a quantile, which may be outside of 1 to n.
type rankInterval struct {
	lo, hi   int64
	coverage float64
}

func rankIntervalOf(n int64, q, confidence float64) *rankInterval {
	at, keep := rememberedAt(q, uint64(n))
	if keep = keep && confidence == 0.95; keep {
		if r := intervals[at][n].Load(); r != nil {
			return r
		}
	}
	half := (1 - confidence) / 2
	// X(l) <= quantile unless fewer than l values lie below it: P(B <= l-1).
	// The largest l with P(B <= l-1) <= half, and the smallest u with
	// P(B >= u) <= half.
	mean, sd := float64(n)*q, math.Sqrt(float64(n)*q*(1-q))
	z := zFor(confidence)
	lo := searchNear(int64(mean-z*sd), n+1, func(k int64) bool { return binomCDF(k, n, q) > half }) // l-1 = lo-1
	hi := searchNear(int64(mean+z*sd), n+1, func(k int64) bool { return 1-binomCDF(k-1, n, q) <= half })
	r := &rankInterval{lo, hi, binomCDF(hi-1, n, q) - binomCDF(lo-1, n, q)}
	if keep {
		intervals[at][n].Store(r)
	}
	return r
}
