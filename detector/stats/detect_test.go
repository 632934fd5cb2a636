package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMedianMADHuber(t *testing.T) {
	m, mad, err := MAD([]float64{1, 1, 2, 2, 4, 6, 9})
	if err != nil || m != 2 || mad != 1 {
		t.Errorf("MAD = %v, %v, %v; want 2, 1", m, mad, err)
	}
	z, err := RobustZ(5, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "robust z", z, .6745*3, 1e-4)
	if _, _, err := MAD([]float64{1, math.NaN()}); !errors.Is(err, ErrInvalid) {
		t.Errorf("NaN: %v", err)
	}
	if _, err := Median([]float64{math.Inf(1)}); !errors.Is(err, ErrInvalid) {
		t.Errorf("Inf: %v", err)
	}
	// One wild value moves Huber's estimate no further than a merely large one.
	a, _ := HuberLocation([]float64{1, 2, 3, 4, 5, 100})
	b, _ := HuberLocation([]float64{1, 2, 3, 4, 5, 1e9})
	near(t, "bounded influence", a, b, 1e-6)
	c, _ := HuberLocation([]float64{-2, -1, 0, 1, 2})
	near(t, "symmetric", c, 0, 1e-9)
}

func TestBaselineExcludesContamination(t *testing.T) {
	cfg := BaselineConfig{Window: 60, Gap: 5, MinCount: 20, MinLogSD: .05}
	b, err := NewBaseline(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 24 {
		b.Observe(1000, false)
		if _, err := b.Estimate(); !errors.Is(err, ErrInsufficient) {
			t.Fatalf("verdict after %d buckets: %v", i+1, err)
		}
	}
	b.Observe(1000, false)
	quiet, err := b.Estimate()
	if err != nil || !quiet.Floored || math.Abs(quiet.CentreMS-1000) > 1e-6 || quiet.N != 20 {
		t.Fatalf("quiet baseline %+v, %v", quiet, err)
	}
	// A step, noticed after 3 buckets, then an hour-long incident.
	for range 3 {
		b.Observe(4000, false)
	}
	b.ExcludePending()
	for range 500 {
		b.Observe(4000, true)
	}
	after, err := b.Estimate()
	if err != nil || math.Abs(after.CentreMS-1000) > 1e-6 {
		t.Errorf("the incident moved the baseline: %+v, %v", after, err)
	}
	z, err := after.Z(4000)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "z", z, math.Log(4)/.05, 1e-9)
	for _, x := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if b.Observe(x, false) {
			t.Errorf("accepted %v", x)
		}
		if _, err := after.Z(x); !errors.Is(err, ErrInvalid) {
			t.Errorf("Z(%v): %v", x, err)
		}
	}
	st := b.State()
	if st.Rejected != 4 || st.Excluded != 505 {
		t.Errorf("counts: %d rejected, %d excluded; want 4 and 505", st.Rejected, st.Excluded)
	}
	back, err := RestoreBaseline(cfg, st)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := back.Estimate(); got != after {
		t.Errorf("restored %+v, want %+v", got, after)
	}
	if _, err := NewBaseline(BaselineConfig{Window: 5, MinCount: 9}); !errors.Is(err, ErrInvalid) {
		t.Errorf("impossible config: %v", err)
	}
}

func TestCUSUMRunLengths(t *testing.T) {
	for _, c := range []struct{ h, arl0, arl1, arl2 float64 }{
		{4, 335.3, 8.38, 3.34}, {4.77, 736.9, 9.92, 3.86}, {5, 930.5, 10.38, 4.01}, {8, 18924, 16.37, 6.01},
	} {
		for shift, want := range []float64{c.arl0, c.arl1, c.arl2} {
			got, err := CUSUMARL(.5, c.h, float64(shift), 120)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(got/want-1) > .002 {
				t.Errorf("h=%v shift=%d: ARL %.3f, want %v", c.h, shift, got, want)
			}
		}
	}
	h, err := CUSUMLimit(.5, 930.5)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "limit for ARL 930.5", h, 5, .001)
}

// The detector as it runs must have the run lengths of the chain.
func TestCUSUMAndEWMASimulated(t *testing.T) {
	const seed = 31
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	run := func(runs int, shift float64, fresh func() func(float64) (bool, error)) float64 {
		total := 0
		for range runs {
			update := fresh()
			for {
				total++
				alarm, err := update(rng.NormFloat64() + shift)
				if err != nil {
					t.Fatal(err)
				}
				if alarm {
					break
				}
			}
		}
		return float64(total) / float64(runs)
	}
	cusum := func(h float64) func() func(float64) (bool, error) {
		return func() func(float64) (bool, error) { return (&CUSUM{K: .5, H: h}).Update }
	}
	for _, c := range []struct {
		h, shift, want float64
		runs           int
	}{{4, 0, 335.3, 6000}, {5, 0, 930.5, 6000}, {4, 1, 8.38, 20000}, {5, 1, 10.38, 20000}, {8, 1, 16.37, 20000}, {8, 2, 6.01, 20000}} {
		got := run(c.runs, c.shift, cusum(c.h))
		t.Logf("CUSUM h=%v shift=%v: %.2f", c.h, c.shift, got)
		if math.Abs(got/c.want-1) > .05 {
			t.Errorf("CUSUM h=%v shift=%v: ARL %.2f, want %v", c.h, c.shift, got, c.want)
		}
	}
	ewma := func() func(float64) (bool, error) { return (&EWMA{Lambda: .2, L: 2.962}).Update }
	want, err := EWMAARL(.2, 2.962, 0, true, 201)
	if err != nil {
		t.Fatal(err)
	}
	// The exact early limits cost a few false alarms, hence shorter than the
	// chain's, never longer.
	got := run(3000, 0, ewma)
	t.Logf("EWMA one-sided: %.1f, chain with constant limits %.1f", got, want)
	if got > want*1.06 || got < want*.88 {
		t.Errorf("EWMA one-sided ARL %.1f, chain %.1f", got, want)
	}
}

func TestEWMARunLengths(t *testing.T) {
	for _, c := range []struct{ lambda, l float64 }{{.2, 2.962}, {.1, 2.814}} {
		got, err := EWMAARL(c.lambda, c.l, 0, false, 201)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got/500-1) > .01 {
			t.Errorf("lambda %v, L %v: ARL %.1f, want 500", c.lambda, c.l, got)
		}
	}
	for _, bad := range []float64{0, -1, 1.5, math.NaN()} {
		if _, err := EWMAARL(bad, 3, 0, true, 101); !errors.Is(err, ErrInvalid) {
			t.Errorf("lambda %v: %v", bad, err)
		}
	}
}

func TestSequentialRejectsNaN(t *testing.T) {
	c, e := CUSUM{K: .5, H: 4, S: 1}, EWMA{Lambda: .2, L: 3, Value: 1, N: 5}
	for _, z := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, err := c.Update(z); !errors.Is(err, ErrInvalid) || c.S != 1 {
			t.Errorf("CUSUM took %v: %+v %v", z, c, err)
		}
		if _, err := e.Update(z); !errors.Is(err, ErrInvalid) || e.Value != 1 || e.N != 5 {
			t.Errorf("EWMA took %v: %+v %v", z, e, err)
		}
	}
}

// The example of Benjamini and Hochberg (1995): 15 p-values, 4 discoveries at 5 %.
func TestFDR(t *testing.T) {
	ps := []float64{.0001, .0004, .0019, .0095, .0201, .0278, .0298, .0344, .0459, .3240, .4262, .5719, .6528, .7590, 1}
	slices.Reverse(ps)
	count := func(r FDRResult, err error) (n int) {
		if err != nil {
			t.Fatal(err)
		}
		for i, yes := range r.Reject {
			if yes != (r.Adjusted[i] <= .05) {
				t.Errorf("Reject and Adjusted disagree at %d", i)
			}
			if yes {
				n++
			}
		}
		return n
	}
	if n := count(BenjaminiHochberg(ps, .05)); n != 4 {
		t.Errorf("BH: %d discoveries, want 4", n)
	}
	if n := count(BenjaminiYekutieli(ps, .05)); n != 3 {
		t.Errorf("BY: %d discoveries, want 3", n)
	}
	if n := count(BenjaminiHochberg(nil, .05)); n != 0 {
		t.Errorf("none: %d", n)
	}
	for _, bad := range []float64{-.1, 1.1, math.NaN()} {
		if _, err := BenjaminiHochberg([]float64{.5, bad}, .05); !errors.Is(err, ErrInvalid) {
			t.Errorf("p=%v: %v", bad, err)
		}
	}
}

func TestFDRSimulated(t *testing.T) {
	const seed, runs, m, alt = 32, 3000, 40, 10
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var fdp, power float64
	for range runs {
		ps := make([]float64, m)
		for i := range ps {
			z := rng.NormFloat64()
			if i < alt {
				z += 3.5
			}
			ps[i] = normSF(z)
		}
		r, err := BenjaminiHochberg(ps, .1)
		if err != nil {
			t.Fatal(err)
		}
		var hit, wrong float64
		for i, yes := range r.Reject {
			switch {
			case yes && i < alt:
				hit++
			case yes:
				wrong++
			}
		}
		fdp += wrong / math.Max(1, hit+wrong) / runs
		power += hit / alt / runs
	}
	t.Logf("false discovery rate %.4f (bound .1*30/40 = .075), power %.3f", fdp, power)
	if fdp > .085 || fdp < .065 || power < .8 {
		t.Errorf("false discovery rate %.4f, power %.3f", fdp, power)
	}
}

func TestWilson(t *testing.T) {
	// Newcombe 1998, table I: 81/263, 15/148, 0/20, 1/29.
	for _, c := range []struct {
		k, n   uint64
		lo, hi float64
	}{{81, 263, .2553, .3662}, {15, 148, .0624, .1605}, {0, 20, 0, .1611}, {1, 29, .0061, .1718}} {
		w, err := Wilson(c.k, c.n, .95)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "lower", w.Lo, c.lo, 6e-5)
		near(t, "upper", w.Hi, c.hi, 6e-5)
	}
	if _, err := Wilson(3, 2, .95); !errors.Is(err, ErrInvalid) {
		t.Errorf("3 of 2: %v", err)
	}
}

func TestTwoProportionsAndOdds(t *testing.T) {
	// Newcombe 1998 (differences), example a: 56/70 - 48/80, method 10.
	r, err := TwoProportions(56, 70, 48, 80, .95)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "difference", r.Diff.Estimate, .2, 1e-12)
	near(t, "lower", r.Diff.Lo, .0524, 6e-5)
	near(t, "upper", r.Diff.Hi, .3339, 6e-5)
	if r.Exact || r.P < .007 || r.P > .009 {
		t.Errorf("P = %v, want .0082 from z = 2.652", r.P)
	}
	// Fisher's tea: 3 of 4 against 1 of 4 is 17/35 one-sided and 34/70 two-sided.
	f, err := TwoProportions(3, 4, 1, 4, .95)
	if err != nil || !f.Exact {
		t.Fatalf("%+v %v", f, err)
	}
	near(t, "greater", f.PGreater, 17.0/70, 1e-12)
	near(t, "two-sided", f.P, 34.0/70, 1e-12)
	o, err := OddsRatio(20, 100, 10, 100, .95)
	if err != nil {
		t.Fatal(err)
	}
	se := math.Sqrt(1./20 + 1./80 + 1./10 + 1./90)
	near(t, "odds ratio", o.Estimate, 2.25, 1e-12)
	near(t, "lower", o.Lo, 2.25*math.Exp(-1.959964*se), 1e-6)
	if z, err := OddsRatio(0, 10, 5, 10, .95); err != nil || !finite(z.Lo) || !finite(z.Hi) || z.Lo <= 0 {
		t.Errorf("zero cell: %+v %v", z, err)
	}
}

func FuzzSmallInputs(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, .95)
	f.Add(math.NaN(), math.Inf(1), -1.0, 1.5)
	f.Add(0.0, 0.0, 0.0, 0.0)
	f.Add(1e308, -1e308, 5e-324, .5)
	f.Fuzz(func(t *testing.T, x, y, z, c float64) {
		a, _ := NewPoints([]float64{x, y, z, x, y, z, x})
		b, _ := NewPoints([]float64{z, y})
		h, _ := HistOf([]float64{x, y, z, x, y})
		check := func(name string, v float64, err error) {
			if err == nil && math.IsNaN(v) {
				t.Errorf("%s(%v, %v, %v; %v) is NaN without an error", name, x, y, z, c)
			}
		}
		d, err := Dip(a)
		check("Dip", d.D+d.P, err)
		d, err = HistDip(h, Linear)
		check("HistDip", d.D+d.P, err)
		m, err := MannWhitney(a, b, MannWhitneyOptions{})
		check("MannWhitney", m.P, err)
		u, err := AUC(a, b, c)
		check("AUC", u.Lo+u.Hi+u.SE, err)
		k, err := KolmogorovSmirnov(a, b)
		check("KS", k.P, err)
		r, err := MedianRatio(h.Points(), h.Points(), c)
		check("MedianRatio", r.Lo, err)
		q, err := QuantileCI(a, c, c)
		check("QuantileCI", q.Lo+q.Hi+q.Coverage, err)
		v, err := h.RobustSD(Linear)
		check("RobustSD", v, err)
		v, err = h.MADSD(Log)
		check("MADSD", v, err)
		DipPValue(x, 50)
	})
}
