package stats

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// A histogram read by rank, and what is remembered of sizes, give bit for bit what its points
// and a fresh calculation give.
func TestHistogramsByRankAreTheirPoints(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 300 {
		h, _ := HistOf(lognormals(rng, 1+rng.IntN(1000), 6, .1+rng.Float64()))
		h.AddN(0, uint64(rng.IntN(3)))
		for _, q := range append(remembered[:], rng.Float64()*.98+.01) {
			for range 2 { // the second time it is remembered
				for _, s := range []Scale{Linear, Log} {
					e1, se1, err1 := h.Points().quantileSE(q, s)
					e2, se2, err2 := quantileSE(h.ranks(), q, s)
					if e1 != e2 || se1 != se2 || (err1 == nil) != (err2 == nil) {
						t.Fatalf("q %v of %d: %v %v %v, by rank %v %v %v", q, h.N(), e1, se1, err1, e2, se2, err2)
					}
				}
				// A confidence that is a little off is not remembered.
				a, err1 := QuantileCI(h.Points(), q, .95)
				b, err2 := HistQuantileCI(h, q, .95)
				c, err3 := HistQuantileCI(h, q, .95+1e-12)
				c.Confidence = .95
				if err1 != nil || err2 != nil || err3 != nil || a != b || a != c {
					t.Fatalf("q %v of %d: %+v, by rank %+v, fresh %+v", q, h.N(), a, b, c)
				}
			}
		}
	}
}

func TestSumIsMerge(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	var s Sum
	got := &Hist{}
	for range 200 { // the same sum each time: taking empties it
		want := &Hist{}
		for range rng.IntN(5) {
			h, _ := HistOf(lognormals(rng, rng.IntN(50), 30*rng.Float64()-12, .1+rng.Float64()))
			h.AddN(0, uint64(rng.IntN(3)))
			h.AddN(2*MaxMS, uint64(rng.IntN(2)))
			want.Merge(h)
			s.Add(h)
			s.Add(nil)
		}
		s.Take(got)
		if len(got.Index) != len(want.Index) || len(got.Index) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("sum %v, merged %v", got, want)
		}
	}
}
