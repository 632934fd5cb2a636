package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func pts(xs ...float64) Points {
	p, rejected := NewPoints(xs)
	if rejected > 0 {
		panic(fmt.Sprintf("%d rejected", rejected))
	}
	return p
}

func span(from, to float64) []float64 {
	var xs []float64
	for x := from; x <= to; x++ {
		xs = append(xs, x)
	}
	return xs
}

var (
	dipEx1 = []float64{.0198, .0198, .1961, .2898, .3184, .3687, .4336, .4987, .5661, .6530, .7476, .8555}
	dipEx2 = []float64{.0198, .1961, .2898, .3184, .3687, .4336, .4987, .5661, .6530, .7476, .8555, .9912}
)

// Dips and p-values published with the reference implementations. The p-values
// come from another simulated table, hence their tolerance.
func TestDipReferenceValues(t *testing.T) {
	for _, c := range []struct {
		name      string
		xs        []float64
		d, dTol   float64
		p, pTol   float64
		checkMode bool
		lo, hi    float64
	}{
		{name: "two pairs", xs: []float64{1, 1, 2, 2}, d: 0.25, p: 0, pTol: 0.005},
		{name: "floor", xs: []float64{0, 1, 3, 6}, d: 0.125, p: 1},
		{name: "five", xs: []float64{0, 2, 3, 5, 6}, d: 4.0 / 3 / 10, p: 0.4077, pTol: 0.006},
		{name: "five mirrored", xs: []float64{0, 1, 3, 4, 6}, d: 4.0 / 3 / 10, p: 0.4077, pTol: 0.006},
		{name: "one and nine", xs: []float64{1, 2, 2, 2, 2, 2, 2, 2, 2, 2}, d: 0.05, p: 1},
		{name: "statfaculty", xs: statfaculty, d: 7.5 / 126, p: 0.086723, pTol: 0.006, checkMode: true, lo: 39, hi: 54},
		{name: "faithful", xs: faithfulEruptions, d: 0.0924, dTol: 5e-5, p: 0},
		{name: "precip", xs: precip, d: 0.0357, dTol: 5e-5, p: 0.773, pTol: 0.006},
		{name: "ex1", xs: dipEx1, d: 0.08333333333, dTol: 1e-10,
			// The published value interpolates rows 10 and 15; this table has
			// a row for 12.
			p: 0.6877, pTol: 0.04},
		{name: "ex2", xs: dipEx2, d: 0.04166666667, dTol: 1e-10, p: 1},
		{name: "two runs", xs: append(span(0, 9), span(30, 39)...), d: 0.175, p: 0, pTol: 1e-4},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Dip(pts(c.xs...))
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(r.D-c.d) > math.Max(c.dTol, 1e-12) {
				t.Errorf("D = %.12f, want %.12f", r.D, c.d)
			}
			if math.Abs(r.P-c.p) > c.pTol {
				t.Errorf("P = %v, want %v", r.P, c.p)
			}
			if c.checkMode && (r.ModalLo != c.lo || r.ModalHi != c.hi) {
				t.Errorf("modal interval [%v, %v], want [%v, %v]", r.ModalLo, r.ModalHi, c.lo, c.hi)
			}
		})
	}
}

// slowDip is the definition by brute force: the least d for which some data
// point m admits a function convex left of m, concave right of it, within d of
// the distribution function, whose least left limit at m does not exceed its
// greatest right limit.
func slowDip(x, lo, hi []float64, n float64) float64 {
	feasible := func(d float64) bool {
		const eps = 1e-11
		for m := range x {
			least, ok := leastLimit(x[:m], hi[:m], lo[:m], d, x[m])
			if !ok || least > lo[m]+d+eps {
				continue
			}
			// The right half is the left one turned by 180 degrees.
			k := len(x) - 1 - m
			rx, rhi, rlo := make([]float64, k), make([]float64, k), make([]float64, k)
			for i := range k {
				j := len(x) - 1 - i
				rx[i], rhi[i], rlo[i] = -x[j], n-lo[j], n-hi[j]
			}
			rest, ok := leastLimit(rx, rhi, rlo, d, -x[m])
			if !ok || n-rest < hi[m]-d-eps {
				continue
			}
			if least <= n-rest+eps {
				return true
			}
		}
		return false
	}
	a, b := 0.5, n
	if feasible(a) {
		return a / n
	}
	for range 60 {
		if mid := (a + b) / 2; feasible(mid) {
			b = mid
		} else {
			a = mid
		}
	}
	return b / n
}

// leastLimit is the least value at m of a convex increasing function that is at
// least hi-d and at most lo+d at each x.
func leastLimit(x, hi, lo []float64, d, m float64) (float64, bool) {
	const eps = 1e-11
	least := 0.0
	for j := range x {
		low := hi[j] - d
		if low > lo[j]+d+eps {
			return 0, false
		}
		least = math.Max(least, low)
		for i := range j {
			slope := (low - (lo[i] + d)) / (x[j] - x[i])
			least = math.Max(least, low+slope*(m-x[j]))
			for k := j + 1; k < len(x); k++ {
				if low+slope*(x[k]-x[j]) > lo[k]+d+eps {
					return 0, false
				}
			}
		}
	}
	return least, true
}

func slowDipOf(p Points) float64 {
	lo, hi := make([]float64, len(p.v)), make([]float64, len(p.v))
	for i := range p.v {
		hi[i], lo[i] = float64(p.cum[i]), float64(p.cum[i]-p.w[i])
	}
	return slowDip(p.v, lo, hi, float64(p.N()))
}

func TestDipEqualsDefinition(t *testing.T) {
	for name, xs := range map[string][]float64{"statfaculty": statfaculty, "ex1": dipEx1, "pairs": {1, 1, 2, 2}} {
		r, _ := Dip(pts(xs...))
		if slow := slowDipOf(pts(xs...)); math.Abs(slow-r.D) > 1e-9 {
			t.Errorf("%s: fast %.12f, definition %.12f", name, r.D, slow)
		}
	}
	const seed = 7
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for trial := range 3000 {
		xs := make([]float64, 1+rng.IntN(16))
		kind := rng.IntN(4)
		for i := range xs {
			switch kind {
			case 0:
				xs[i] = rng.Float64()
			case 1: // many ties
				xs[i] = float64(rng.IntN(6))
			case 2: // two modes
				xs[i] = rng.NormFloat64() + 6*float64(rng.IntN(2))
			default: // a few heavy ties among distinct values
				xs[i] = math.Round(rng.ExpFloat64()*8) / 4
			}
		}
		p := pts(xs...)
		r, err := Dip(p)
		if err != nil {
			t.Fatal(err)
		}
		if slow := slowDipOf(p); math.Abs(slow-r.D) > 1e-9 {
			slices.Sort(xs)
			t.Fatalf("trial %d: fast %.12f (2nD %.6f), definition %.12f (2nD %.6f) on %v",
				trial, r.D, r.D*2*float64(r.N), slow, slow*2*float64(r.N), xs)
		}
	}
}

// Published critical values of D, from the reference table.
func TestDipTableAgainstPublished(t *testing.T) {
	probs := []float64{.5, .9, .95, .99, .999}
	for n, row := range map[uint64][]float64{
		10: {.097782, .130462, .139611, .159684, .180611}, 20: {.073344, .097235, .105130, .120624, .138570},
		50: {.048851, .064914, .070274, .081200, .094093}, 100: {.035462, .047153, .051128, .059024, .068448},
		200: {.025584, .033997, .036842, .042686, .049720}, 500: {.016452, .021878, .023729, .027452, .032017},
		1000: {.011744, .015615, .016934, .019608, .022869}, 2000: {.008356, .011102, .012038, .013966, .016269},
		5000: {.005312, .007056, .007651, .008864, .010350}, 10000: {.003767, .005002, .005424, .006280, .007318},
		72000: {.001410, .001873, .002032, .002358, .002752},
	} {
		for i, d := range row {
			want := 1 - probs[i]
			// Both tables are simulated; a share p of 20000 has a standard error
			// of sqrt(p(1-p)/20000), and the last row stands for all larger n.
			tol := 4*math.Sqrt(want*(1-want)/20000) + .004*want + 2e-4
			near(t, fmt.Sprintf("P for n=%d D=%v", n, d), DipPValue(d, n), want, tol)
		}
	}
	near(t, "n=1000, D=0.0159638598499375", DipPValue(0.0159638598499375, 1000), 0.0867741514531395, .008)
	for n := range uint64(4) {
		if p := DipPValue(.25, n); p != 1 {
			t.Errorf("n=%d: p = %v, want 1", n, p)
		}
	}
}

func TestDipTableIsMonotone(t *testing.T) {
	for r, row := range dipTable {
		for c := 1; c < len(row); c++ {
			if row[c] < row[c-1] {
				t.Errorf("row n=%v falls at column %d", dipSizes[r], c)
			}
		}
	}
	if len(dipTable) != len(dipSizes) || len(dipTable[0]) != len(dipProbs) {
		t.Error("table has the wrong shape")
	}
}

// Share of significant dips on one mode and on retry mixtures.
func TestDipLevelAndPower(t *testing.T) {
	const seed, runs, n = 51, 300, 500
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, c := range []struct {
		name         string
		share, shift float64
		lo, hi       float64
	}{
		{"one lognormal mode", 0, 0, 0, .05},
		{"5 % retries, +15 s", .05, 15000, 0, .2}, // the limit of the test: few retries stay unseen
		{"20 % retries, +15 s", .2, 15000, .95, 1},
		{"50 % retries, +8 s", .5, 8000, .95, 1},
	} {
		var raw, hist, lin float64
		for range runs {
			xs := lognormals(rng, n, math.Log(4000), .3)
			for i := range xs {
				if rng.Float64() < c.share {
					xs[i] += c.shift
				}
			}
			logs := make([]float64, n)
			for i, x := range xs {
				logs[i] = math.Log(x)
			}
			h, _ := HistOf(xs)
			for dst, f := range map[*float64]func() (DipResult, error){
				&raw:  func() (DipResult, error) { return Dip(pts(logs...)) },
				&hist: func() (DipResult, error) { return HistDip(h, Log) },
				&lin:  func() (DipResult, error) { return HistDip(h, Linear) },
			} {
				r, err := f()
				if err != nil {
					t.Fatal(err)
				}
				if r.P <= .05 {
					*dst += 1.0 / runs
				}
			}
		}
		t.Logf("%-22s n=%d significant: raw log %.3f, histogram log %.3f, histogram linear %.3f", c.name, n, raw, hist, lin)
		for _, got := range []float64{raw, hist, lin} {
			if got < c.lo-1e-9 || got > c.hi+1e-9 {
				t.Errorf("%s: %.3f significant, want %v..%v", c.name, got, c.lo, c.hi)
			}
		}
	}
}

// The histogram's dip must be that of the sample, up to a bucket's resolution.
func TestHistDipFollowsTheSample(t *testing.T) {
	const seed = 52
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 50 {
		xs := append(lognormals(rng, 700, 8, .2), lognormals(rng, 300, 9.5, .2)...)
		h, _ := HistOf(xs)
		for i := range xs {
			xs[i] = math.Log(xs[i])
		}
		a, _ := Dip(pts(xs...))
		b, err := HistDip(h, Log)
		if err != nil || math.Abs(a.D-b.D) > .01 {
			t.Fatalf("sample %.4f, histogram %.4f, %v", a.D, b.D, err)
		}
	}
}

func BenchmarkDip1000(b *testing.B) {
	b.ReportAllocs()
	rng := rand.New(rand.NewPCG(1, 1))
	p := pts(lognormals(rng, 1000, 8, .5)...)
	for b.Loop() {
		if _, err := Dip(p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHistDip(b *testing.B) {
	b.ReportAllocs()
	h, _ := HistOf(lognormals(rand.New(rand.NewPCG(1, 1)), 1000, 8, .5))
	for b.Loop() {
		if _, err := HistDip(h, Log); err != nil {
			b.Fatal(err)
		}
	}
}
