package stats

import (
	"math"
	"slices"
)

// exactLimit is the total size up to which Mann-Whitney counts permutations.
const exactLimit = 40

// MannWhitneyResult is the outcome of [MannWhitney].
type MannWhitneyResult struct {
	// U counts the pairs in which the first sample's value is larger, ties as
	// one half.
	U float64
	// P is two-sided. PGreater is against "the first sample is larger", PLess
	// against "smaller".
	P, PGreater, PLess float64
	// Exact tells whether P was counted over all permutations.
	Exact bool
}

// MannWhitneyOptions selects variants of the test; the zero value is the usual
// one.
type MannWhitneyOptions struct {
	// Normal uses the normal approximation even for small samples.
	Normal bool
	// NoContinuity leaves out the continuity correction of one half.
	NoContinuity bool
}

// pairCounts walks two samples once and returns U, the DeLong variance
// components and the tie sum of t^3-t.
func pairCounts(a, b Points) (u, varA, varB, ties float64) {
	na, nb := float64(a.N()), float64(b.N())
	var i, j int
	var belowA, belowB float64
	type place struct{ score, w float64 }
	pa, pb := make([]place, 0, len(a.v)), make([]place, 0, len(b.v))
	for i < len(a.v) || j < len(b.v) {
		var wa, wb float64
		switch {
		case j == len(b.v) || i < len(a.v) && a.v[i] < b.v[j]:
			wa, i = float64(a.w[i]), i+1
		case i == len(a.v) || b.v[j] < a.v[i]:
			wb, j = float64(b.w[j]), j+1
		default:
			wa, wb = float64(a.w[i]), float64(b.w[j])
			i, j = i+1, j+1
		}
		if wa > 0 {
			u += wa * (belowB + wb/2)
			pa = append(pa, place{(belowB + wb/2) / nb, wa})
		}
		if wb > 0 {
			pb = append(pb, place{1 - (belowA+wa/2)/na, wb})
		}
		t := wa + wb
		ties += t*t*t - t
		belowA, belowB = belowA+wa, belowB+wb
	}
	auc := u / (na * nb)
	for _, p := range pa {
		varA += p.w * (p.score - auc) * (p.score - auc)
	}
	for _, p := range pb {
		varB += p.w * (p.score - auc) * (p.score - auc)
	}
	return u, varA / math.Max(1, na-1), varB / math.Max(1, nb-1), ties
}

func checkTwo(a, b Points, need uint64) error {
	if a.N() < need || b.N() < need {
		return insufficient("comparison of %d and %d values, need %d each", a.N(), b.N(), need)
	}
	return nil
}

// MannWhitney tests whether one sample tends to be larger (Mann and Whitney,
// 1947). Up to 40 values in all it counts permutations, ties included; beyond
// that it uses the normal approximation with tie and continuity corrections. An
// empty sample is ErrInsufficient.
func MannWhitney(a, b Points, opt MannWhitneyOptions) (MannWhitneyResult, error) {
	if err := checkTwo(a, b, 1); err != nil {
		return MannWhitneyResult{}, err
	}
	u, _, _, ties := pairCounts(a, b)
	na, nb := float64(a.N()), float64(b.N())
	if !opt.Normal && na+nb <= exactLimit {
		less, greater := exactU(a, b)
		return MannWhitneyResult{U: u, P: math.Min(1, 2*math.Min(less, greater)),
			PGreater: greater, PLess: less, Exact: true}, nil
	}
	n := na + nb
	sigma := math.Sqrt(na * nb / 12 * (n + 1 - ties/(n*math.Max(1, n-1))))
	r := MannWhitneyResult{U: u, P: 1, PGreater: 1, PLess: 1}
	if !(sigma > 0) {
		return r, nil // all values equal
	}
	c, d := 0.5, u-na*nb/2
	if opt.NoContinuity {
		c = 0
	}
	r.PGreater = normSF((d - c) / sigma)
	r.PLess = normCDF((d + c) / sigma)
	r.P = math.Min(1, 2*normSF(math.Max(0, math.Abs(d)-c)/sigma))
	return r, nil
}

// exactU returns P(U <= u) and P(U >= u) over all ways to deal the pooled values
// to the two samples. Doubled midranks are whole numbers, so the ways are
// counted by rank sum.
func exactU(a, b Points) (less, greater float64) {
	var pool []float64
	expand := func(p Points) (xs []float64) {
		for i, v := range p.v {
			for range p.w[i] {
				xs = append(xs, v)
			}
		}
		return xs
	}
	xa := expand(a)
	pool = append(expand(b), xa...)
	slices.Sort(pool)
	rank2 := make(map[float64]int, len(pool))
	for i := 0; i < len(pool); {
		j := i
		for j < len(pool) && pool[j] == pool[i] {
			j++
		}
		rank2[pool[i]] = i + j + 1 // twice the mean of ranks i+1..j
		i = j
	}
	n, k := len(pool), len(xa)
	maxSum := n * (n + 1)
	ways := make([][]float64, k+1)
	for i := range ways {
		ways[i] = make([]float64, maxSum+1)
	}
	ways[0][0] = 1
	for _, v := range pool {
		r := rank2[v]
		for m := k; m > 0; m-- {
			for s := maxSum; s >= r; s-- {
				ways[m][s] += ways[m-1][s-r]
			}
		}
	}
	seen := 0
	for _, v := range xa {
		seen += rank2[v]
	}
	var total float64
	for s, w := range ways[k] {
		total += w
		if s <= seen {
			less += w
		}
		if s >= seen {
			greater += w
		}
	}
	return less / total, greater / total
}

// AUCResult is the probability that a value of the first sample is larger than
// one of the second, ties as one half: U/(n1 n2).
type AUCResult struct {
	Interval
	// SE is DeLong's standard error (DeLong, DeLong and Clarke-Pearson 1988). It
	// is 0 when the samples do not overlap, where the interval is not.
	SE float64
	// Cliff is Cliff's delta, 2 AUC - 1, with its interval in CliffLo, CliffHi.
	Cliff, CliffLo, CliffHi float64
}

// AUC returns U/(n1 n2) with a score interval: the values of theta with
// |AUC-theta| <= z*sqrt(V(theta)), where V is Hanley and McNeil's variance
// (1982) in Newcombe's symmetric form (Statistics in Medicine 25, 2006, method
// 5). It stays inside [0, 1] and keeps its width when the samples do not
// overlap. Fewer than two values on a side are ErrInsufficient.
func AUC(a, b Points, confidence float64) (AUCResult, error) {
	if err := checkConfidence(confidence); err != nil {
		return AUCResult{}, err
	}
	if err := checkTwo(a, b, 2); err != nil {
		return AUCResult{}, err
	}
	u, va, vb, _ := pairCounts(a, b)
	na, nb := float64(a.N()), float64(b.N())
	auc := clamp(u/(na*nb), 0, 1)
	z := zFor(confidence)
	star := (na+nb)/2 - 1
	outside := func(theta float64) bool {
		v := theta * (1 - theta) * (1 + star*((1-theta)/(2-theta)+theta/(1+theta))) / (na * nb)
		return math.Abs(auc-theta) > z*math.Sqrt(v)
	}
	edge := func(far float64) float64 {
		in, out := auc, far
		if !outside(out) {
			return out
		}
		for range 60 {
			if mid := (in + out) / 2; outside(mid) {
				out = mid
			} else {
				in = mid
			}
		}
		return in
	}
	lo, hi := edge(0), edge(1)
	r := AUCResult{Interval: Interval{auc, lo, hi, confidence}, SE: math.Sqrt(va/na + vb/nb)}
	r.Cliff, r.CliffLo, r.CliffHi = 2*auc-1, 2*lo-1, 2*hi-1
	return r, nil
}

// eachGap calls f with consecutive pooled values and the two distribution
// functions between them.
func eachGap(a, b Points, f func(from, to, fa, fb float64)) {
	na, nb := float64(a.N()), float64(b.N())
	var i, j int
	prev := math.NaN()
	var fa, fb float64
	for i < len(a.v) || j < len(b.v) {
		var at float64
		if j == len(b.v) || i < len(a.v) && a.v[i] <= b.v[j] {
			at = a.v[i]
		} else {
			at = b.v[j]
		}
		if !math.IsNaN(prev) {
			f(prev, at, fa, fb)
		}
		if i < len(a.v) && a.v[i] == at {
			fa, i = float64(a.cum[i])/na, i+1
		}
		if j < len(b.v) && b.v[j] == at {
			fb, j = float64(b.cum[j])/nb, j+1
		}
		prev = at
	}
}

// Wasserstein1 returns the area between the two distribution functions, in the
// unit of the values: how far, on average, mass has to move. An empty sample is
// ErrInsufficient.
func Wasserstein1(a, b Points) (float64, error) {
	if err := checkTwo(a, b, 1); err != nil {
		return 0, err
	}
	var w float64
	eachGap(a, b, func(from, to, fa, fb float64) { w += (to - from) * math.Abs(fa-fb) })
	return w, nil
}

// KSResult is the two-sample Kolmogorov-Smirnov distance with its p-value.
type KSResult struct {
	D, P  float64
	Exact bool
}

// KolmogorovSmirnov returns the largest distance of the two distribution
// functions. P counts lattice paths up to n1*n2 = 10000 and is asymptotic
// beyond. Both are conservative with ties, so for histograms P is an upper
// bound. An empty sample is ErrInsufficient.
func KolmogorovSmirnov(a, b Points) (KSResult, error) {
	if err := checkTwo(a, b, 1); err != nil {
		return KSResult{}, err
	}
	var r KSResult
	eachGap(a, b, func(_, _, fa, fb float64) { r.D = math.Max(r.D, math.Abs(fa-fb)) })
	na, nb := a.N(), b.N()
	if na <= 10000 && nb <= 10000 && na*nb <= 10000 {
		r.P, r.Exact = ksExact(int(na), int(nb), r.D), true
		return r, nil
	}
	x, y := float64(na), float64(nb)
	r.P = kolmogorovSF(r.D * math.Sqrt(x/(x+y)*y))
	return r, nil
}

// ksExact is P(D >= d) without ties: one less the share of lattice paths that
// stay strictly inside the band. Shares instead of counts cannot overflow.
func ksExact(n, m int, d float64) float64 {
	row := make([]float64, m+1)
	for i := 0; i <= n; i++ {
		for j := 0; j <= m; j++ {
			var s float64
			switch {
			case math.Abs(float64(i)/float64(n)-float64(j)/float64(m)) >= d-1e-12:
				s = 0
			case i == 0 && j == 0:
				s = 1
			default:
				if i > 0 {
					s = row[j] * float64(i) / float64(i+j)
				}
				if j > 0 {
					s += row[j-1] * float64(j) / float64(i+j)
				}
			}
			row[j] = s
		}
	}
	return clamp(1-row[m], 0, 1)
}

// kolmogorovSF is the limit distribution's upper tail.
func kolmogorovSF(x float64) float64 {
	if x < 0.2 {
		return 1
	}
	var s float64
	sign := 1.0
	for k := 1; k <= 100; k++ {
		term := math.Exp(-2 * float64(k*k) * x * x)
		s += sign * term
		if term < 1e-16 {
			break
		}
		sign = -sign
	}
	return clamp(2*s, 0, 1)
}
