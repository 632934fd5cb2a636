package stats

import (
	"math"
	"slices"
)

// MedianInPlace is [Median], and leaves xs in another order: it allocates nothing and does not
// sort (Hoare's FIND, 1961).
func MedianInPlace(xs []float64) (float64, error) {
	if len(xs) == 0 {
		return 0, insufficient("no values")
	}
	for i, x := range xs {
		if !finite(x) {
			return 0, invalid("value %v at position %d is not finite", x, i)
		}
	}
	n := len(xs)
	upper := selectAt(xs, n/2)
	if n%2 == 1 {
		return upper, nil
	}
	return slices.Max(xs[:n/2])/2 + upper/2, nil
}

// selectAt gives the k-th smallest of xs, from 0, with no larger one before it and no smaller
// one behind it.
func selectAt(xs []float64, k int) float64 {
	lo, hi := 0, len(xs)-1
	for hi-lo > 12 {
		// The middle one of three, so that sorted values are no bad case.
		mid := lo + (hi-lo)/2
		pivot := max(min(xs[lo], xs[mid]), min(max(xs[lo], xs[mid]), xs[hi]))
		i, j := lo, hi
		for i <= j {
			for xs[i] < pivot {
				i++
			}
			for xs[j] > pivot {
				j--
			}
			if i <= j {
				xs[i], xs[j] = xs[j], xs[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return xs[k]
		}
	}
	slices.Sort(xs[lo : hi+1])
	return xs[k]
}

// CountedMAD is [MAD] of values that occur so often each: values ascend, and counts has one of
// each. It takes as long as there are values, whatever the counts.
func CountedMAD(values []float64, counts []uint32) (median, mad float64, err error) {
	var n uint64
	for i, c := range counts {
		if c > 0 && !finite(values[i]) {
			return 0, 0, invalid("value %v at position %d is not finite", values[i], i)
		}
		n += uint64(c)
	}
	if n == 0 {
		return 0, 0, insufficient("no values")
	}
	at, cum := 0, uint64(counts[0])
	next := func(rank uint64) float64 { // ranks from 0, ascending
		for cum <= rank {
			at++
			cum += uint64(counts[at])
		}
		return values[at]
	}
	median = middle(n, next)

	// Deviations ascend outwards from the median on both sides.
	right := at
	for right < len(values) && values[right] < median {
		right++
	}
	left, deviation := right-1, 0.0
	cum = 0
	return median, middle(n, func(rank uint64) float64 {
		for cum <= rank {
			below, above := math.Inf(1), math.Inf(1)
			for left >= 0 && counts[left] == 0 {
				left--
			}
			for right < len(values) && counts[right] == 0 {
				right++
			}
			if left >= 0 {
				below = median - values[left]
			}
			if right < len(values) {
				above = values[right] - median
			}
			if below < above {
				deviation, cum, left = below, cum+uint64(counts[left]), left-1
			} else {
				deviation, cum, right = above, cum+uint64(counts[right]), right+1
			}
		}
		return deviation
	}), nil
}

// middle is the median of n values by rank, which it asks for in ascending order.
func middle(n uint64, at func(rank uint64) float64) float64 {
	if n%2 == 1 {
		return at(n / 2)
	}
	lower := at(n/2 - 1)
	return lower/2 + at(n/2)/2
}
