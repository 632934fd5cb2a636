package stats

import (
	"cmp"
	"slices"
)

// FDRResult has one entry per p-value, in the order given.
type FDRResult struct {
	// Reject marks the p-values kept as discoveries at level q.
	Reject []bool
	// Adjusted are the adjusted p-values: Reject[i] is Adjusted[i] <= q.
	Adjusted []float64
}

// BenjaminiHochberg controls the false discovery rate at q over p-values that
// are independent or positively dependent (Benjamini and Hochberg 1995), such as
// the slices judged in one evaluation. No p-values give an empty result; one
// outside [0, 1], or q outside (0, 1), is ErrInvalid.
func BenjaminiHochberg(ps []float64, q float64) (FDRResult, error) {
	return stepUp(ps, q, 1)
}

// BenjaminiYekutieli controls the false discovery rate at q under any dependence
// (Benjamini and Yekutieli 2001), such as overlapping windows. It costs a factor
// of 1 + 1/2 + ... + 1/m. Errors are those of [BenjaminiHochberg].
func BenjaminiYekutieli(ps []float64, q float64) (FDRResult, error) {
	var c float64
	for i := range ps {
		c += 1 / float64(i+1)
	}
	return stepUp(ps, q, c)
}

func stepUp(ps []float64, q, c float64) (FDRResult, error) {
	if !(q > 0 && q < 1) {
		return FDRResult{}, invalid("false discovery rate %v is not between 0 and 1", q)
	}
	order := make([]int, len(ps))
	for i, p := range ps {
		if !(p >= 0 && p <= 1) {
			return FDRResult{}, invalid("p-value %v at position %d is not in [0, 1]", p, i)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	r := FDRResult{Reject: make([]bool, len(ps)), Adjusted: make([]float64, len(ps))}
	m, least := float64(len(ps)), 1.0
	for rank := len(order); rank > 0; rank-- {
		i := order[rank-1]
		least = min(least, ps[i]*c*m/float64(rank))
		r.Adjusted[i] = least
		r.Reject[i] = least <= q
	}
	return r, nil
}
