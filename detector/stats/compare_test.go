package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func TestMannWhitneyReferenceValues(t *testing.T) {
	var even, odd []float64
	for i := range 500 {
		even = append(even, float64(2*i))
	}
	for i := range 600 {
		odd = append(odd, float64(2*i-41))
	}
	for _, c := range []struct {
		name    string
		a, b    []float64
		opt     MannWhitneyOptions
		u, p    float64
		greater float64 // 0: not published
	}{
		{"separate, exact", []float64{2, 1, 3, 5}, []float64{12, 11, 13, 15}, MannWhitneyOptions{}, 0, .0285714286, 0},
		{"overlap, exact", []float64{2, 1, 3, 5}, []float64{0, 4, 6, 7}, MannWhitneyOptions{}, 5, .4857142857, 0},
		{"large", even, odd, MannWhitneyOptions{}, 135250, .0049335361, 0},
		{"three, exact", []float64{10, 11, 12}, []float64{1, 2, 3}, MannWhitneyOptions{}, 9, .1, .05},
		{"three, normal", []float64{10, 11, 12}, []float64{1, 2, 3}, MannWhitneyOptions{Normal: true}, 9, .0808555984, .0404277992},
		{"ties", span(0, 19), span(5, 24), MannWhitneyOptions{Normal: true}, 112.5, .0185219463, 0},
		{"ties, no correction", span(0, 19), span(5, 24), MannWhitneyOptions{Normal: true, NoContinuity: true}, 112.5, .0178579758, 0},
	} {
		r, err := MannWhitney(pts(c.a...), pts(c.b...), c.opt)
		if err != nil {
			t.Fatal(err)
		}
		near(t, c.name+": U", r.U, c.u, 0)
		near(t, c.name+": P", r.P, c.p, 1e-10)
		if c.greater > 0 {
			near(t, c.name+": P greater", r.PGreater, c.greater, 1e-10)
		}
	}
}

func TestKolmogorovSmirnovReferenceValues(t *testing.T) {
	r, _ := KolmogorovSmirnov(pts(10, 11, 12), pts(1, 2, 3))
	near(t, "D", r.D, 1, 0)
	near(t, "P exact", r.P, .1, 1e-12)
	near(t, "P asymptotic", kolmogorovSF(math.Sqrt(1.5)), .0995618483, 1e-9)
	r, _ = KolmogorovSmirnov(pts(span(0, 19)...), pts(span(5, 24)...))
	near(t, "D", r.D, .25, 1e-15)
	near(t, "P", r.P, .5713360049, 1e-9)
}

// U, Wasserstein and KS against their definitions on all pairs.
func TestTwoSampleEqualsDefinition(t *testing.T) {
	const seed = 21
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		a, b := make([]float64, 1+rng.IntN(12)), make([]float64, 1+rng.IntN(12))
		for i := range a {
			a[i] = float64(rng.IntN(10))
		}
		for i := range b {
			b[i] = float64(rng.IntN(12))
		}
		var u, ks, w1 float64
		cdf := func(xs []float64, at float64) (f float64) {
			for _, x := range xs {
				if x <= at {
					f += 1 / float64(len(xs))
				}
			}
			return f
		}
		for _, x := range a {
			for _, y := range b {
				switch {
				case x > y:
					u++
				case x == y:
					u += .5
				}
			}
		}
		for at := 0.0; at < 12; at++ {
			d := math.Abs(cdf(a, at) - cdf(b, at))
			ks, w1 = math.Max(ks, d), w1+d
		}
		mw, _ := MannWhitney(pts(a...), pts(b...), MannWhitneyOptions{})
		k, _ := KolmogorovSmirnov(pts(a...), pts(b...))
		w, _ := Wasserstein1(pts(a...), pts(b...))
		near(t, "U", mw.U, u, 1e-9)
		near(t, "KS", k.D, ks, 1e-9)
		near(t, "W1", w, w1, 1e-9)
		if t.Failed() {
			t.Fatal(a, b)
		}
	}
}

func lognormals(rng *rand.Rand, n int, mu, sigma float64) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = math.Exp(mu + sigma*rng.NormFloat64())
	}
	return xs
}

func histPoints(xs []float64) Points {
	h, _ := HistOf(xs)
	return h.Points()
}

// Intervals must cover the truth about as often as they say, on raw values and
// on histograms.
func TestIntervalCoverage(t *testing.T) {
	const seed, runs = 22, 1500
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	const shift, sigma = 0.4, 0.85
	trueAUC := normCDF(shift / (sigma * math.Sqrt2))
	hits := map[string]int{}
	count := func(name string, ok bool) {
		if ok {
			hits[name]++
		} else {
			hits[name] += 0
		}
	}
	for range runs {
		xa, xb := lognormals(rng, 120, 8+shift, sigma), lognormals(rng, 200, 8, sigma)
		for kind, f := range map[string]func([]float64) Points{"raw": func(x []float64) Points { return pts(x...) }, "hist": histPoints} {
			a, b := f(xa), f(xb)
			auc, err := AUC(a, b, .95)
			if err != nil {
				t.Fatal(err)
			}
			count(kind+" AUC", auc.Contains(trueAUC))
			count(kind+" DeLong", math.Abs(auc.Estimate-trueAUC) <= 1.96*auc.SE)
			m, err := MedianRatio(a, b, .95)
			if err != nil {
				t.Fatal(err)
			}
			count(kind+" median ratio", m.Contains(math.Exp(shift)))
			p, err := QuantileRatio(a, b, .95, .95)
			if err != nil {
				t.Fatal(err)
			}
			count(kind+" P95 ratio", p.Contains(math.Exp(shift)))
			s, err := QuantileShift(a, b, .5, Linear, .95)
			if err != nil {
				t.Fatal(err)
			}
			count(kind+" median difference", s.Contains(math.Exp(8+shift)-math.Exp(8)))
			q, err := QuantileCI(b, .95, .95)
			if err != nil {
				t.Fatal(err)
			}
			count(kind+" P95 order statistics", q.Contains(math.Exp(8+sigma*1.6448536)))
		}
	}
	for name, n := range hits {
		got := float64(n) / runs
		t.Logf("%-28s covers %.3f", name, got)
		if got < 0.92 || got > 0.99 {
			t.Errorf("%s covers %.3f, want about .95", name, got)
		}
	}
}

func TestAUCSeparateKeepsWidth(t *testing.T) {
	r, err := AUC(pts(11, 12, 13, 15), pts(1, 2, 3, 5), .95)
	if err != nil {
		t.Fatal(err)
	}
	if r.Estimate != 1 || r.Hi != 1 || r.Lo > .8 || r.Lo < .3 || r.Cliff != 1 {
		t.Errorf("complete separation of 4 and 4: %+v", r)
	}
	m, _ := AUC(pts(1, 2, 3, 5), pts(11, 12, 13, 15), .95)
	near(t, "mirror", m.Hi, 1-r.Lo, 1e-9)
}

func TestEquivalence(t *testing.T) {
	const seed, runs = 23, 800
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	share := func(n int, ratio float64, f func([]float64) Points) float64 {
		yes := 0
		for range runs {
			r, err := EquivalentMedians(f(lognormals(rng, n, 8+math.Log(ratio), .4)), f(lognormals(rng, n, 8, .4)), 1.2, .05)
			if err != nil {
				t.Fatal(err)
			}
			if r.Equivalent {
				yes++
			}
			if inside := r.Ratio.Lo >= 1/r.Margin && r.Ratio.Hi <= r.Margin; inside != r.Equivalent {
				t.Fatalf("interval and test disagree: %+v", r)
			}
		}
		return float64(yes) / runs
	}
	raw := func(x []float64) Points { return pts(x...) }
	for _, c := range []struct {
		name     string
		n        int
		ratio    float64
		lo, hi   float64
		fromHist bool
	}{
		{"equal, many", 400, 1, .95, 1, false},
		{"equal, many, histogram", 400, 1, .95, 1, true},
		{"equal, few: not shown", 15, 1, 0, .1, false},
		{"at the margin: alpha", 400, 1.2, .02, .09, false},
		{"at the margin: alpha, histogram", 400, 1.2, .02, .09, true},
		{"beyond", 400, 1.5, 0, .001, false},
	} {
		f := raw
		if c.fromHist {
			f = histPoints
		}
		got := share(c.n, c.ratio, f)
		t.Logf("%-32s shown equivalent %.3f", c.name, got)
		if got < c.lo || got > c.hi {
			t.Errorf("%s: shown equivalent in %.3f of runs, want %v..%v", c.name, got, c.lo, c.hi)
		}
	}
	for _, margin := range []float64{1, .9, math.NaN(), math.Inf(1)} {
		if _, err := EquivalentMedians(pts(span(1, 50)...), pts(span(1, 50)...), margin, .05); !errors.Is(err, ErrInvalid) {
			t.Errorf("margin %v: %v, want ErrInvalid", margin, err)
		}
	}
}

// The signature of hidden retries: user time separates by retries, agent time
// does not.
func TestDifferenceOfDifferences(t *testing.T) {
	const seed = 24
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	agentNo, agentRetry := lognormals(rng, 300, 8, .4), lognormals(rng, 200, 8, .4)
	var userRetry []float64
	for _, x := range agentRetry {
		userRetry = append(userRetry, x+8000)
	}
	user, err := QuantileShift(pts(userRetry...), pts(agentNo...), .5, Linear, .95)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := QuantileShift(pts(agentRetry...), pts(agentNo...), .5, Linear, .95)
	if err != nil {
		t.Fatal(err)
	}
	d, err := DifferenceOfDifferences(user, agent, 5000, .95)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Contains(8000) || d.P > 1e-6 {
		t.Errorf("difference of differences %+v, want 8000 ms", d)
	}
	if same, _ := DifferenceOfDifferences(agent, agent, 0, .95); same.P != .5 || same.Estimate != 0 {
		t.Errorf("equal shifts: %+v", same)
	}
	if _, err := DifferenceOfDifferences(Shift{SE: math.NaN()}, agent, 0, .95); !errors.Is(err, ErrInvalid) {
		t.Errorf("NaN: %v", err)
	}
}

func TestAshmanD(t *testing.T) {
	// Means 2 and 12, both with SD sqrt(2/3*3/2)=1: sqrt2*10/sqrt2.
	d, err := AshmanD(pts(1, 2, 3), pts(11, 12, 13), Linear)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "Ashman's D", d, 10, 1e-12)
	if _, err := AshmanD(pts(1, 1), pts(2, 2), Linear); !errors.Is(err, ErrInsufficient) {
		t.Errorf("no spread: %v", err)
	}
	if _, err := AshmanD(pts(-1, 1), pts(2, 2), Log); !errors.Is(err, ErrInvalid) {
		t.Errorf("log of negative: %v", err)
	}
}

// Share of false alarms of the whole test at 5 %, and power.
func TestMannWhitneyLevelAndPower(t *testing.T) {
	const seed, runs = 25, 2000
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, c := range []struct{ shift, lo, hi float64 }{{0, .03, .07}, {.4, .9, 1}} {
		fired := 0
		for range runs {
			r, err := MannWhitney(histPoints(lognormals(rng, 120, c.shift, .85)), histPoints(lognormals(rng, 200, 0, .85)), MannWhitneyOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if r.P <= .05 {
				fired++
			}
		}
		got := float64(fired) / runs
		t.Logf("shift %v: %.3f significant", c.shift, got)
		if got < c.lo || got > c.hi {
			t.Errorf("shift %v: %.3f significant, want %v..%v", c.shift, got, c.lo, c.hi)
		}
	}
}
