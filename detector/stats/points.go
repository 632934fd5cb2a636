package stats

import (
	"math"
	"slices"
)

// Points is a sample as sorted distinct values with counts: the one form in
// which raw samples and histograms enter the comparisons. Compare like with
// like: two histograms share a grid, a histogram and raw values do not.
type Points struct {
	v   []float64
	w   []uint64
	cum []uint64 // cum[i] counts values <= v[i]
	// logWidth is the width on the log scale of the bucket behind a value, 0
	// for raw samples.
	logWidth float64
}

// NewPoints sorts a raw sample, in any unit, and merges ties. NaN and infinite
// values are left out and counted in rejected.
func NewPoints(xs []float64) (p Points, rejected int) {
	sorted := make([]float64, 0, len(xs))
	for _, x := range xs {
		if finite(x) {
			sorted = append(sorted, x)
		}
	}
	rejected = len(xs) - len(sorted)
	slices.Sort(sorted)
	for i, x := range sorted {
		if k := len(p.v); k > 0 && p.v[k-1] == x {
			p.w[k-1]++
			p.cum[k-1]++
			continue
		}
		p.v, p.w, p.cum = append(p.v, x), append(p.w, 1), append(p.cum, uint64(i+1))
	}
	return p, rejected
}

// Points returns the bucket values in milliseconds with their counts, which it shares with h:
// they are those of h until h changes.
func (h *Hist) Points() Points {
	if h == nil {
		return Points{}
	}
	p := Points{v: make([]float64, len(h.Index)), w: h.Count, cum: make([]uint64, len(h.Index)), logWidth: LnGamma}
	var cum uint64
	for i, ix := range h.Index { // in order, so the values are too
		cum = satAdd(cum, h.Count[i])
		p.v[i], p.cum[i] = BucketValue(ix), cum
	}
	return p
}

// N returns the number of values.
func (p Points) N() uint64 {
	if len(p.cum) == 0 {
		return 0
	}
	return p.cum[len(p.cum)-1]
}

// orderStat returns the k-th smallest value, k from 1 to N. In a bucket the
// values are spread evenly on the log scale: without it the spread of two
// ranks in one bucket would be 0, and so would a standard error.
func (p Points) orderStat(k uint64) float64 {
	k = min(max(k, 1), p.N())
	i, _ := slices.BinarySearch(p.cum, k)
	if p.logWidth == 0 {
		return p.v[i]
	}
	return within(p.v[i], k, p.cum[i], p.w[i], p.logWidth)
}

func (p Points) quantile(q float64) float64 { return quantileOf(p, q) }

func (p Points) median() float64 { return medianOf(p) }

func (p Points) meanSD(s Scale) (mean, sd float64) {
	n := float64(p.N())
	for i, v := range p.v {
		mean += s.apply(v) * float64(p.w[i]) / n
	}
	var ss float64
	for i, v := range p.v {
		d := s.apply(v) - mean
		ss += d * d * float64(p.w[i])
	}
	return mean, math.Sqrt(ss / (n - 1))
}

func (p Points) checkScale(s Scale) error {
	if s == Log && len(p.v) > 0 && p.v[0] < 0 {
		return invalid("log scale needs values of 0 or more, got %v", p.v[0])
	}
	return nil
}
