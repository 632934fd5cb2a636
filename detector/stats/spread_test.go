package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func windowsOf(rng *rand.Rand, k, n int, mu func(int) float64, sigma float64) []*Hist {
	ws := make([]*Hist, k)
	for i := range ws {
		ws[i], _ = HistOf(lognormals(rng, n, mu(i), sigma))
	}
	return ws
}

// On steady traffic the estimated sampling error must be the scatter seen, and
// what is left after the correction must be far less.
func TestP95SpreadCorrectsSamplingError(t *testing.T) {
	const seed, runs = 41, 400
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := SpreadConfig{MinPerWindow: 40, MinWindows: 10}
	for _, n := range []int{50, 200, 1000} {
		var raw, sampling, corrected float64
		for range runs {
			s, err := P95Spread(windowsOf(rng, 10, n, func(int) float64 { return 8 }, .85), cfg)
			if err != nil {
				t.Fatal(err)
			}
			raw, sampling = raw+s.RawSD*s.RawSD/runs, sampling+s.SamplingSD*s.SamplingSD/runs
			corrected += s.CorrectedSD * s.CorrectedSD / runs
		}
		ratio := math.Sqrt(sampling / raw)
		t.Logf("n=%d: sampling SD / raw SD %.3f, corrected / raw %.3f", n, ratio, math.Sqrt(corrected/raw))
		if ratio < .85 || ratio > 1.2 {
			t.Errorf("n=%d: estimated sampling SD is %.3f of the scatter seen, want about 1", n, ratio)
		}
		if corrected > .35*raw {
			t.Errorf("n=%d: %.2f of the variance is left on steady traffic", n, corrected/raw)
		}
	}
	// True movement: P95 swings by a known amount, which must be found.
	swing := func(i int) float64 { return 8 + .5*float64(i%2) }
	var got float64
	for range runs {
		s, err := P95Spread(windowsOf(rng, 10, 200, swing, .3), cfg)
		if err != nil {
			t.Fatal(err)
		}
		got += s.CorrectedSD / runs
	}
	base := math.Exp(8 + .3*1.6448536)
	want := base * (math.Exp(.5) - 1) * math.Sqrt(10.0/9) / 2
	if math.Abs(got/want-1) > .03 {
		t.Errorf("corrected SD of a swing is %.1f ms, want %.1f", got, want)
	}
}

func TestSpreadRatioLevelAndPower(t *testing.T) {
	const seed, runs = 42, 400
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := SpreadConfig{MinPerWindow: 40, MinWindows: 10}
	steady := func(int) float64 { return 8 }
	step := func(i int) float64 { return 8 + map[bool]float64{true: math.Log(4)}[i >= 5] }
	share := func(now func(int) float64) (fires, covers float64) {
		for range runs {
			b, err := P95Spread(windowsOf(rng, 60, 100, steady, .4), cfg)
			if err != nil {
				t.Fatal(err)
			}
			n, err := P95Spread(windowsOf(rng, 10, 100, now, .4), cfg)
			if err != nil {
				t.Fatal(err)
			}
			r, err := SpreadRatio(n, b, 0, .95)
			if err != nil {
				t.Fatal(err)
			}
			if r.Corrected.Estimate >= 4 {
				fires += 1.0 / runs
			}
			if r.Raw.Contains(1) {
				covers += 1.0 / runs
			}
		}
		return fires, covers
	}
	quiet, covers := share(steady)
	power, _ := share(step)
	t.Logf("x4 rule fires on steady traffic %.4f, on a step to x4 %.3f; raw interval covers 1 in %.3f", quiet, power, covers)
	if quiet > .005 || power < .99 || covers < .9 {
		t.Errorf("quiet %.4f, power %.3f, coverage %.3f", quiet, power, covers)
	}
}

func TestSpreadSuppressesThinTraffic(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 1))
	ws := windowsOf(rng, 10, 20, func(int) float64 { return 8 }, .85)
	s, err := P95Spread(ws, SpreadConfig{MinPerWindow: 50, MinWindows: 10})
	if !errors.Is(err, ErrInsufficient) || s.Skipped != 10 {
		t.Errorf("20 requests a bucket: %+v, %v", s, err)
	}
	if _, err := P95Spread(ws, SpreadConfig{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no minimum: %v", err)
	}
	same, _ := HistOf([]float64{5})
	same.AddN(5, 999)
	b := Spread{Windows: 10}
	if _, err := SpreadRatio(b, b, 0, .95); !errors.Is(err, ErrInsufficient) {
		t.Errorf("no movement at all: %v", err)
	}
}

func TestRobustSDIntervalCoverage(t *testing.T) {
	const seed, runs, sigma = 44, 1000, .5
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	quarter := sigma * normQuantile(.75)
	for scale, want := range map[Scale]float64{Log: sigma, Linear: (math.Exp(8+quarter) - math.Exp(8-quarter)) * iqrToSD} {
		covers := 0
		for range runs {
			h, _ := HistOf(lognormals(rng, 300, 8, sigma))
			r, err := RobustSDInterval(h, scale, .95)
			if err != nil {
				t.Fatal(err)
			}
			if r.Contains(want) {
				covers++
			}
		}
		got := float64(covers) / runs
		t.Logf("scale %d: %.3f", scale, got)
		if got < .92 || got > .985 {
			t.Errorf("scale %d: interval covers %.3f, want about .95", scale, got)
		}
	}
}

func TestQuantileCI(t *testing.T) {
	// n = 10, median, 95 %: the 2nd and 9th values, coverage 0.978515625.
	r, err := QuantileCI(pts(span(1, 10)...), .5, .95)
	if err != nil {
		t.Fatal(err)
	}
	if r.Lo != 2 || r.Hi != 9 || r.LowerOpen || r.UpperOpen {
		t.Errorf("median of 10: %+v", r)
	}
	near(t, "coverage", r.Coverage, .978515625, 1e-12)
	r, err = QuantileCI(pts(span(1, 20)...), .95, .95)
	if err != nil || !r.UpperOpen || r.Hi != 20 {
		t.Errorf("P95 of 20 has no upper bound: %+v %v", r, err)
	}
}
