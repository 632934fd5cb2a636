package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// freshSeed returns a random seed and prints it, so that a failure can be repeated.
func freshSeed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return seed
}

type segmentFigures struct{ p50, p95, p99 float64 }

func (f segmentFigures) ratio() float64 { return f.p95 / f.p50 }

func figures(samples []time.Duration) segmentFigures {
	slices.Sort(samples)
	return segmentFigures{Quantile(samples, 0.50).Seconds(), Quantile(samples, 0.95).Seconds(), Quantile(samples, 0.99).Seconds()}
}

// ranges checks figures against ranges widened on both sides by slack times their span.
type ranges struct {
	*testing.T
	slack float64
}

func (r ranges) check(what string, got, lo, hi float64) {
	r.Helper()
	span := r.slack * (hi - lo)
	if got < lo-span || got > hi+span {
		r.Errorf("%s = %.4f, want %.4f..%.4f", what, got, lo-span, hi+span)
	}
}

// TestStandardModel is the segment table and the step timeout of the standard model.
// The ranges are the least and greatest values of 20 seeds of the reference script.
// Another generator's seeds scatter a little more: a fixed one must stay within a
// quarter of the span, and any seed within one and a half spans (over four standard
// errors for the narrowest of them).
func TestStandardModel(t *testing.T) {
	t.Run("fixed seed", func(t *testing.T) { checkStandardModel(ranges{t, 0.25}, 1) })
	t.Run("any seed", func(t *testing.T) { checkStandardModel(ranges{t, 1.5}, freshSeed(t)) })
}

func checkStandardModel(t ranges, seed uint64) {
	trajs := Trajectories(20000, seed)
	var ttft, gen, tools, total []time.Duration
	var sumTTFT, sumGen, sumTool, calls float64
	stuck := 0
	for i := range trajs {
		tr := &trajs[i]
		if tr.Stuck >= 0 {
			stuck++
			if d := tr.Steps[tr.Stuck].Tool; d < 60*time.Second || d > 600*time.Second {
				t.Fatalf("trajectory %d: stuck call takes %v", i, d)
			}
			continue // figures are over the normal ones
		}
		ttft, total = append(ttft, tr.TTFT), append(total, tr.Total())
		sumTTFT += tr.TTFT.Seconds()
		calls += float64(len(tr.Steps))
		if n := len(tr.Steps); n < 3 || n > 28 {
			t.Fatalf("trajectory %d has %d steps", i, n)
		}
		for _, s := range tr.Steps {
			gen, tools = append(gen, s.Generation), append(tools, s.Tool)
			sumGen += s.Generation.Seconds()
			sumTool += s.Tool.Seconds()
		}
	}
	if share := float64(stuck) / 20000; math.Abs(share-0.03) > 0.006 {
		t.Errorf("stuck share %.4f, want 0.03", share)
	}
	f := figures(ttft)
	t.check("ttft p50", f.p50, 1.408, 1.433)
	t.check("ttft p95", f.p95, 3.418, 3.548)
	t.check("ttft p95/p50", f.ratio(), 2.405, 2.511)
	f = figures(gen)
	t.check("generation p50", f.p50, 1.157, 1.167)
	t.check("generation p99", f.p99, 3.277, 3.334)
	t.check("generation p95/p50", f.ratio(), 2.0919, 2.1047)
	f = figures(tools)
	t.check("tool p50", f.p50, 1.343, 1.358)
	t.check("tool p95", f.p95, 5.400, 5.499)
	t.check("tool p95/p50", f.ratio(), 4.007, 4.094)
	f = figures(total)
	t.check("total p50", f.p50, 20.545, 21.005)
	t.check("total p95", f.p95, 69.68, 71.47)
	t.check("total p95/p50", f.ratio(), 3.333, 3.448)
	sum := sumTTFT + sumGen + sumTool
	t.check("ttft share %", 100*sumTTFT/sum, 5.9, 6.1)
	t.check("generation share %", 100*sumGen/sum, 37.399, 37.646)
	t.check("tool share %", 100*sumTool/sum, 56.350, 56.588)

	meanCalls := calls / float64(len(total))
	t.check("mean tool calls", meanCalls, 7.931, 8.063)
	// The step timeout that kills 0.5 % of tasks, and the tempting wrong one.
	pStep := 1 - math.Pow(1-0.005, 1/meanCalls)
	t.check("step timeout", Quantile(tools, 1-pStep).Seconds(), 19.887, 22.190)
	t.check("naive step timeout", Quantile(tools, 1-0.005).Seconds(), 11.846, 12.232)
}

func TestTrajectoriesRepeat(t *testing.T) {
	seed := freshSeed(t)
	a, b := Trajectories(200, seed), Trajectories(200, seed)
	same := func(x, y Trajectory) bool {
		return x.TTFT == y.TTFT && x.Stuck == y.Stuck && slices.Equal(x.Steps, y.Steps)
	}
	if !slices.EqualFunc(a, b, same) {
		t.Error("the same seed gave other trajectories")
	}
	if slices.EqualFunc(a, Trajectories(200, seed+1), same) {
		t.Error("another seed gave the same trajectories")
	}
}

func TestQuantileRule(t *testing.T) {
	s := []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for p, want := range map[float64]time.Duration{0: 1, 0.5: 6, 0.95: 10, 1: 10} {
		if got := Quantile(s, p); got != want {
			t.Errorf("Quantile(%v) = %v, want %v", p, got, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("the quantile of nothing did not panic")
		}
	}()
	Quantile(nil, 0.5)
}
