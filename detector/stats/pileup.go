package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// A pile-up is looked for in pileWidth neighbouring buckets (8 %, so that a value on a
// bucket's edge is not cut in two) and set against the flankWidth buckets below them.
const (
	pileWidth  = 2
	flankWidth = 8
)

// PileUp is mass at one value of a histogram that a smooth tail does not explain.
type PileUp struct {
	// ValueMS is the mean of the pile's values, LoMS and HiMS bound its buckets.
	ValueMS, LoMS, HiMS float64
	// N counts the values in the pile, Above those beyond it.
	N, Above uint64
	// Expected is the most that the flank below lets a falling density put there.
	Expected float64
	// P is the chance of so much by a falling density, for all the places looked at.
	P float64
}

// PileUps finds the values at which latencies pile up, the longest first, none of
// them overlapping. Where a density does not rise with the value, two neighbouring buckets
// hold no more than 2/10 of what they and the eight below them hold together, so
// the chance of k of n is at most that of a binomial with p 0.2, times the number
// of non-empty buckets (Bonferroni). That is true of the tail beyond the mode; a mode that is
// narrower than a third of its value is reported as well, so the caller must know
// what ended the work in the pile. Piles of fewer than least values, or with a P
// over alpha, are left out.
func PileUps(h *Hist, least uint64, alpha float64) []PileUp {
	if h == nil {
		return nil
	}
	var out []PileUp
	tests := float64(len(h.Index))
	var above uint64
	limit := MaxIndex + 1 // buckets from here on belong to a pile already found
	for at := len(h.Index) - 1; at >= 0; at-- {
		top := h.Index[at]
		if top == ZeroIndex {
			break
		}
		if top < limit {
			n, flank, p := h.pileAt(top)
			p = math.Min(1, tests*p)
			// The window one bucket down may hold the pile better.
			if lower, _, q := h.pileAt(top - 1); n >= max(least, 1) && p <= alpha && (lower <= n || tests*q >= p) {
				lo, _ := BucketBounds(top - pileWidth + 1)
				_, hi := BucketBounds(top)
				out = append(out, PileUp{ValueMS: h.meanBetween(top-pileWidth+1, top), LoMS: lo, HiMS: hi, N: n, Above: above,
					Expected: float64(flank) * pileWidth / flankWidth, P: p})
				limit = top - pileWidth + 1
			}
		}
		above = satAdd(above, h.Count[at])
	}
	return out
}

// pileAt counts the values in the window that ends with bucket top and in its flank, and
// gives the chance of so uneven a split by a falling density.
func (h *Hist) pileAt(top int16) (n, flank uint64, p float64) {
	n, flank = h.between(top-pileWidth+1, top), h.between(top-pileWidth-flankWidth+1, top-pileWidth)
	if n == 0 {
		return 0, flank, 1
	}
	return n, flank, mathext.RegIncBeta(float64(n), float64(flank)+1, float64(pileWidth)/(pileWidth+flankWidth))
}

// between counts the values in buckets lo to hi.
func (h *Hist) between(lo, hi int16) (n uint64) {
	at, _ := slices.BinarySearch(h.Index, lo)
	for ; at < len(h.Index) && h.Index[at] <= hi; at++ {
		n = satAdd(n, h.Count[at])
	}
	return n
}

func (h *Hist) meanBetween(lo, hi int16) float64 {
	var sum, n float64
	at, _ := slices.BinarySearch(h.Index, lo)
	for ; at < len(h.Index) && h.Index[at] <= hi; at++ {
		sum, n = sum+BucketValue(h.Index[at])*float64(h.Count[at]), n+float64(h.Count[at])
	}
	return sum / n
}
