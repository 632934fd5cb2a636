package stats

// Change is where a series changed its mean most likely.
type Change struct {
	// At is the index of the first value after the change.
	At int
	// Shift is the mean after the change less the mean before it.
	Shift float64
	// Gain is twice the log likelihood ratio against no change, for normal values with
	// variance 1/weight. The maximum over all places is not chi-squared: over 30 values
	// without a change, 3 % are above 10.
	Gain float64
}

// ChangePoint returns the single change in mean of greatest likelihood (Hinkley 1970), for
// independent normal values whose precision, 1/variance, is their weight. Values of no
// weight are skipped. Each side has at least minSide values with weight; a series too short
// for that is ErrInsufficient.
func ChangePoint(values, weights []float64, minSide int) (Change, error) {
	if len(values) != len(weights) {
		return Change{}, invalid("change point of %d values with %d weights", len(values), len(weights))
	}
	var all, allW float64
	n := 0
	for i, w := range weights {
		if !finite(values[i]) || !finite(w) || w < 0 {
			return Change{}, invalid("change point: value %v with weight %v at %d", values[i], w, i)
		}
		if w > 0 {
			n++
			all, allW = all+w*values[i], allW+w
		}
	}
	minSide = max(minSide, 1)
	if n < 2*minSide {
		return Change{}, insufficient("change point of %d values, need %d", n, 2*minSide)
	}
	best := Change{At: -1}
	var sum, sumW float64
	before := 0
	for i, w := range weights {
		if w > 0 && before >= minSide && n-before >= minSide {
			shift := (all-sum)/(allW-sumW) - sum/sumW
			if gain := shift * shift * sumW * (allW - sumW) / allW; best.At < 0 || gain > best.Gain {
				best = Change{i, shift, gain}
			}
		}
		if w > 0 {
			before++
			sum, sumW = sum+w*values[i], sumW+w
		}
	}
	return best, nil
}
