package stats

import "math"

// CountGroup is a number of units whose counts, each Least or more, add up to Sum.
type CountGroup struct{ N, Sum, Least uint64 }

// MeanExtra is the mean over all units of what their counts have beyond 1, such as
// the extra attempts per operation, with an interval by the delta method on the log
// scale: exp(ln x ± z SE/x). The variance of the mean is that between the groups,
// which is known, and within a group that of a geometric distribution with the
// group's mean, e(1+e) for a mean of e over Least: more than a Poisson's e, and
// more than retries with a limit have. Units are taken as independent; those of one
// incident are not, which an effect size must allow for. Without any extra the
// upper bound is the exact one of no event, -ln((1-confidence)/2)/n.
//
// No units are ErrInsufficient; a sum that is under Least for each unit is ErrInvalid.
func MeanExtra(groups []CountGroup, confidence float64) (Interval, error) {
	if err := checkConfidence(confidence); err != nil {
		return Interval{}, err
	}
	var n, sum float64
	for _, g := range groups {
		if g.Sum < g.N*g.Least || g.Least < 1 {
			return Interval{}, invalid("%d units of %d or more with a sum of %d", g.N, g.Least, g.Sum)
		}
		n, sum = n+float64(g.N), sum+float64(g.Sum-g.N)
	}
	if n == 0 {
		return Interval{}, insufficient("mean count of no units")
	}
	x := sum / n
	if x == 0 {
		return Interval{0, 0, -math.Log((1-confidence)/2) / n, confidence}, nil
	}
	var ss float64
	for _, g := range groups {
		if g.N == 0 {
			continue
		}
		own := float64(g.Sum)/float64(g.N) - 1
		within := own + 1 - float64(g.Least)
		ss += float64(g.N) * (within*(1+within) + (own-x)*(own-x))
	}
	h := zFor(confidence) * math.Sqrt(ss) / n / x
	return Interval{x, x * math.Exp(-h), x * math.Exp(h), confidence}, nil
}
