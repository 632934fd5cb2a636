package stats

import "math"

// Table2 is one stratum: of N1 exposed K1 had the outcome, of N2 not exposed K2.
type Table2 struct{ K1, N1, K2, N2 uint64 }

// MantelHaenszel returns the odds ratio of the outcome by exposure that is common to the
// strata (Mantel and Haenszel 1959), with the interval of Robins, Breslow and Greenland
// (1986), which holds for few large strata and for many small ones. Strata without both
// kinds of exposure tell nothing and are skipped. Where the products on one side are all 0,
// or no stratum is left, it is ErrInsufficient; K over N is ErrInvalid.
func MantelHaenszel(strata []Table2, confidence float64) (Interval, error) {
	if err := checkConfidence(confidence); err != nil {
		return Interval{}, err
	}
	var r, s, pr, pssqr, qs float64
	for _, t := range strata {
		if t.K1 > t.N1 || t.K2 > t.N2 {
			return Interval{}, invalid("%d of %d and %d of %d", t.K1, t.N1, t.K2, t.N2)
		}
		if t.N1 == 0 || t.N2 == 0 {
			continue
		}
		a, b, c, d := float64(t.K1), float64(t.N1-t.K1), float64(t.K2), float64(t.N2-t.K2)
		n := a + b + c + d
		ri, si, pi, qi := a*d/n, b*c/n, (a+d)/n, (b+c)/n
		r, s = r+ri, s+si
		pr, pssqr, qs = pr+pi*ri, pssqr+pi*si+qi*ri, qs+qi*si
	}
	if r == 0 || s == 0 {
		return Interval{}, insufficient("an odds ratio without both outcomes on both sides")
	}
	l := math.Log(r / s)
	h := zFor(confidence) * math.Sqrt(pr/(2*r*r)+pssqr/(2*r*s)+qs/(2*s*s))
	return Interval{r / s, math.Exp(l - h), math.Exp(l + h), confidence}, nil
}
