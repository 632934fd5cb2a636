package stats

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s = %.10g, want %.10g +- %g", what, got, want, tol)
	}
}

func TestLnGammaIsTheLogOfGamma(t *testing.T) {
	// ln((1+a)/(1-a)) = 2(a + a^3/3 + a^5/5 + ...), summed beyond float64.
	sum := new(big.Float).SetPrec(200)
	a := new(big.Float).SetPrec(200).Quo(big.NewFloat(2), big.NewFloat(100).SetPrec(200))
	pow := new(big.Float).SetPrec(200).Set(a)
	sq := new(big.Float).SetPrec(200).Mul(a, a)
	for k := 1; k < 40; k += 2 {
		sum.Add(sum, new(big.Float).SetPrec(200).Quo(pow, big.NewFloat(float64(k)).SetPrec(200)))
		pow.Mul(pow, sq)
	}
	want, _ := sum.Mul(sum, big.NewFloat(2)).Float64()
	if LnGamma != want {
		t.Fatalf("LnGamma = %.20g, nearest float64 is %.20g", LnGamma, want)
	}
}

func TestBucketBoundsOfDomain(t *testing.T) {
	for _, c := range []struct {
		ms   float64
		want int16
	}{
		{0, ZeroIndex}, {math.Nextafter(MinMS, 0), ZeroIndex}, {-1, ZeroIndex}, {math.NaN(), ZeroIndex},
		{math.Inf(-1), ZeroIndex}, {MinMS, MinIndex}, {1, 0}, {MaxMS, MaxIndex}, {1e300, MaxIndex}, {math.Inf(1), MaxIndex},
	} {
		if got := BucketIndex(c.ms); got != c.want {
			t.Errorf("BucketIndex(%v) = %d, want %d", c.ms, got, c.want)
		}
	}
	if v := BucketValue(ZeroIndex); v != 0 {
		t.Errorf("value of ZeroIndex = %v, want exactly 0", v)
	}
}

func TestRelativeErrorHolds(t *testing.T) {
	const seed = 11
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 200_000 {
		x := MinMS * math.Exp(rng.Float64()*math.Log(MaxMS/MinMS))
		i := BucketIndex(x)
		if e := math.Abs(BucketValue(i)-x) / x; e > RelativeError*(1+1e-9) {
			t.Fatalf("x=%v bucket %d value %v: relative error %v", x, i, BucketValue(i), e)
		}
		if lo, hi := BucketBounds(i); x <= lo*(1-1e-12) || x > hi*(1+1e-12) {
			t.Fatalf("x=%v outside the bounds %v..%v of bucket %d", x, lo, hi, i)
		}
	}
}

// Two implementations of log agree on the bucket of every whole number of units
// up to the limit, as long as they are within the margin, because none of those
// numbers is nearer to an edge.
func TestNoTickNearAnEdge(t *testing.T) {
	for _, c := range []struct {
		name          string
		perMS, limit  float64 // ticks in a millisecond; longest duration, ms
		atLeastInUlps float64
	}{
		{"nanoseconds up to 1 s", 1e6, 1e3, 5000},
		{"nanoseconds up to 1 min", 1e6, 60e3, 100},
		{"microseconds up to 1 h", 1e3, 3600e3, 5000},
	} {
		least, at := math.Inf(1), 0.0
		for i := int(MinIndex); i <= int(MaxIndex); i++ {
			edge := math.Exp(float64(i)*LnGamma) * c.perMS
			if edge > c.limit*c.perMS {
				break
			}
			for tick := math.Floor(edge) - 1; tick <= math.Ceil(edge)+1; tick++ {
				if tick <= 0 || tick == c.perMS {
					continue // exactly 1 ms: ln 1 is 0 everywhere
				}
				q := math.Log(tick/c.perMS) / LnGamma
				ulps := math.Abs(q-float64(i)) / math.Max(1, math.Abs(q)) / 0x1p-52
				if ulps < least {
					least, at = ulps, tick
				}
			}
		}
		t.Logf("%s: nearest is tick %.0f, %.0f ulps from an edge", c.name, at, least)
		if least < c.atLeastInUlps {
			t.Errorf("%s: tick %.0f is only %.1f ulps from a bucket's edge", c.name, at, least)
		}
	}
}

func TestSQLBucketExpr(t *testing.T) {
	got := SQLBucketExpr("duration_ms")
	want := "toInt16(if(toFloat64(duration_ms) >= 0.001, ceil(log(least(toFloat64(duration_ms), 1000000000.)) / 0.040005334613699164), -32768.))"
	if got != want {
		t.Errorf("SQLBucketExpr =\n%s, want\n%s", got, want)
	}
	if !strings.Contains(SQLValueExpr("i"), "exp(i * 0.04") || !strings.Contains(SQLValidExpr("x"), "isFinite") {
		t.Error("value or validity expression lost its content")
	}
}

func randomHist(rng *rand.Rand, n int) (*Hist, []float64) {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = math.Exp(rng.NormFloat64()*2 + 3)
		if rng.IntN(50) == 0 {
			xs[i] = 0
		}
	}
	h, _ := HistOf(xs)
	return h, xs
}

func TestMergeIsConcatAndSubUndoesIt(t *testing.T) {
	const seed = 12
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		a, xa := randomHist(rng, rng.IntN(200))
		b, xb := randomHist(rng, rng.IntN(200))
		both, _ := HistOf(append(slices.Clone(xa), xb...))
		m := a.Clone()
		m.Merge(b)
		if m.N() != both.N() || !slices.Equal(m.Index, both.Index) || !slices.Equal(m.Count, both.Count) {
			t.Fatal("merge differs from counting both samples")
		}
		if err := m.Sub(b); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(m.Index, a.Index) || !slices.Equal(m.Count, a.Count) {
			t.Fatal("Sub does not undo Merge")
		}
		perm := rng.Perm(len(both.Index))
		ix, ct := make([]int16, len(perm)), make([]uint64, len(perm))
		for i, p := range perm {
			ix[i], ct[i] = both.Index[p], both.Count[p]
		}
		back, err := HistFromColumns(ix, ct)
		if err != nil || !slices.Equal(back.Index, both.Index) || !slices.Equal(back.Count, both.Count) {
			t.Fatalf("columns do not come back: %v", err)
		}
		js, _ := json.Marshal(both)
		var again Hist
		if err := json.Unmarshal(js, &again); err != nil || again.N() != both.N() {
			t.Fatalf("JSON does not come back: %v", err)
		}
	}
}

func TestSubRefusesAndKeeps(t *testing.T) {
	a, _ := HistOf([]float64{1, 2, 3})
	b, _ := HistOf([]float64{1, 2, 2})
	before := a.Clone()
	if err := a.Sub(b); !errors.Is(err, ErrInvalid) {
		t.Fatalf("err = %v, want ErrInvalid", err)
	}
	if !reflect.DeepEqual(a, before) {
		t.Error("a refused Sub changed the histogram")
	}
	if _, err := HistFromColumns([]int16{1}, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("unequal columns: %v", err)
	}
	if _, err := HistFromColumns([]int16{9999}, []uint64{1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("impossible index: %v", err)
	}
}

func TestHistQuantileIsTheOrderStatistic(t *testing.T) {
	const seed = 13
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		h, xs := randomHist(rng, 1+rng.IntN(300))
		slices.Sort(xs)
		for _, p := range []float64{0, .01, .25, .5, .95, .99, 1} {
			want := xs[min(int(float64(len(xs))*p), len(xs)-1)]
			got, err := h.Quantile(p)
			if err != nil || math.Abs(got-want) > RelativeError*want*(1+1e-9) {
				t.Fatalf("n=%d p=%v: %v, want %v within 2 %%: %v", len(xs), p, got, want, err)
			}
		}
	}
}

// The seed's rule gives 951 for the numbers 1 to 1000, as quantileExact does.
func TestQuantileRule(t *testing.T) {
	near(t, "P95 of 1..1000", pts(span(1, 1000)...).quantile(.95), 951, 0)
}

func TestHistMomentsAndSpreads(t *testing.T) {
	const seed, n = 14, 200_000
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, sigma := range []float64{0.05, 0.3, 0.85} {
		h := &Hist{}
		for range n {
			h.Add(math.Exp(8 + sigma*rng.NormFloat64()))
		}
		get := func(f func() (float64, error)) float64 {
			v, err := f()
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		near(t, "log mean", get(h.LogMean), 8, 0.01)
		near(t, "log SD", get(h.LogStdDev)/sigma, 1, 0.05)
		mean := math.Exp(8 + sigma*sigma/2)
		near(t, "mean", get(h.Mean)/mean, 1, 0.02)
		near(t, "SD", get(h.StdDev)/(mean*math.Sqrt(math.Exp(sigma*sigma)-1)), 1, 0.06)
		r, err := h.RobustSD(Log)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "robust log SD", r/sigma, 1, 0.03)
		m, err := h.MADSD(Log)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "MAD log SD", m, sigma, 0.03) // buckets of 0.04
		lin, _ := h.RobustSD(Linear)
		q := 0.6744897501960817 * sigma
		near(t, "robust SD", lin/(math.Exp(8)*(math.Exp(q)-math.Exp(-q))*iqrToSD), 1, 0.03)
		above, _ := h.Above(math.Exp(8))
		near(t, "share above the median", above, 0.5, 0.006)
		all, _ := h.CDFAt(math.Inf(1))
		none, _ := h.CDFAt(-1)
		near(t, "CDF ends", all-none, 1, 0)
	}
}

func TestEmptyIsInsufficientNeverNaN(t *testing.T) {
	for name, f := range map[string]func() (float64, error){
		"Quantile": func() (float64, error) { return (*Hist)(nil).Quantile(.5) },
		"Mean":     (&Hist{}).Mean, "LogMean": (&Hist{}).LogMean, "StdDev": (&Hist{}).StdDev, "LogStdDev": (&Hist{}).LogStdDev,
		"RobustSD": func() (float64, error) { return (&Hist{}).RobustSD(Log) },
		"MADSD":    func() (float64, error) { return (&Hist{}).MADSD(Log) },
		"CDFAt":    func() (float64, error) { return (&Hist{}).CDFAt(1) },
		"Above":    func() (float64, error) { return (&Hist{}).Above(1) },
		"Dip":      func() (float64, error) { r, err := Dip(Points{}); return r.D, err },
		"HistDip":  func() (float64, error) { r, err := HistDip(nil, Log); return r.D, err },
		"MW": func() (float64, error) {
			r, err := MannWhitney(Points{}, pts(1), MannWhitneyOptions{})
			return r.P, err
		},
		"AUC":     func() (float64, error) { r, err := AUC(pts(1), pts(1), .95); return r.Estimate, err },
		"W1":      func() (float64, error) { return Wasserstein1(pts(1), Points{}) },
		"KS":      func() (float64, error) { r, err := KolmogorovSmirnov(Points{}, Points{}); return r.P, err },
		"Ashman":  func() (float64, error) { return AshmanD(pts(1), pts(2), Log) },
		"Ratio":   func() (float64, error) { r, err := MedianRatio(pts(1), pts(2), .95); return r.Estimate, err },
		"TOST":    func() (float64, error) { r, err := EquivalentMedians(pts(1), pts(1), 1.1, .05); return r.P, err },
		"CI":      func() (float64, error) { r, err := QuantileCI(Points{}, .5, .95); return r.Lo, err },
		"Median":  func() (float64, error) { return Median(nil) },
		"Huber":   func() (float64, error) { return HuberLocation(nil) },
		"RobustZ": func() (float64, error) { return RobustZ(1, 1, 0) },
		"Wilson":  func() (float64, error) { r, err := Wilson(0, 0, .95); return r.Estimate, err },
		"Odds":    func() (float64, error) { r, err := OddsRatio(0, 0, 1, 2, .95); return r.Estimate, err },
		"Spread": func() (float64, error) {
			r, err := P95Spread(nil, SpreadConfig{MinWindows: 3})
			return r.RawSD, err
		},
		"SDInterval": func() (float64, error) { r, err := RobustSDInterval(nil, Log, .95); return r.Estimate, err },
		"HistCI":     func() (float64, error) { r, err := HistQuantileCI(nil, .5, .95); return r.Lo, err },
		"Spreads": func() (float64, error) {
			r, err := SpreadRatio(Spread{}, Spread{}, 1, .95)
			return r.Raw.Estimate, err
		},
	} {
		v, err := f()
		if !errors.Is(err, ErrInsufficient) || math.IsNaN(v) {
			t.Errorf("%s on nothing: %v, %v; want ErrInsufficient", name, v, err)
		}
	}
}

func FuzzHistAdd(f *testing.F) {
	for _, x := range []float64{0, -1, 1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324, MinMS, MaxMS} {
		f.Add(x, x)
	}
	f.Fuzz(func(t *testing.T, x, p float64) {
		h := &Hist{}
		ok := h.Add(x)
		if ok != ValidMS(x) || h.N() == 1 != ok {
			t.Fatalf("Add(%v) = %v, N = %d", x, ok, h.N())
		}
		q, err := h.Quantile(p)
		if math.IsNaN(q) || (err == nil) != (ok && p >= 0 && p <= 1) {
			t.Fatalf("Quantile(%v) after %v = %v, %v", p, x, q, err)
		}
		if c, err := h.CDFAt(p); err == nil && !(c >= 0 && c <= 1) {
			t.Fatalf("CDFAt(%v) = %v", p, c)
		}
	})
}

func BenchmarkHistAdd(b *testing.B) {
	b.ReportAllocs()
	h, xs := randomHist(rand.New(rand.NewPCG(1, 1)), 4096)
	for i := 0; b.Loop(); i++ {
		h.Add(xs[i&4095])
	}
}

func BenchmarkHistQuantile(b *testing.B) {
	b.ReportAllocs()
	h, _ := randomHist(rand.New(rand.NewPCG(1, 1)), 10000)
	for b.Loop() {
		if _, err := h.Quantile(.95); err != nil {
			b.Fatal(err)
		}
	}
}
