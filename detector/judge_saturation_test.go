package detector

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/store"
)

// served is one piece of work of a queue: when it came, began and ended, in seconds.
type served struct{ came, began, ended float64 }

type ends []float64

func (f ends) Len() int           { return len(f) }
func (f ends) Less(i, j int) bool { return f[i] < f[j] }
func (f ends) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *ends) Push(x any)        { *f = append(*f, x.(float64)) }
func (f *ends) Pop() any          { o := *f; x := o[len(o)-1]; *f = o[:len(o)-1]; return x }

// simulate runs an M/G/c queue for so many seconds: Poisson arrivals at rate(t) per second,
// thinned from the rate most, first come first served.
func simulate(rng *rand.Rand, c int, seconds, most float64, rate func(t float64) float64, service func() float64) []served {
	busy := make(ends, c) // when each place is free again
	var out []served
	for t := rng.ExpFloat64() / most; t < seconds; t += rng.ExpFloat64() / most {
		if rng.Float64()*most >= rate(t) {
			continue
		}
		began := math.Max(t, busy[0])
		busy[0] = began + service()
		out = append(out, served{t, began, busy[0]})
		heap.Fix(&busy, 0)
	}
	return out
}

// serviceTimes are those of S8: lognormal, 27.3 s on average.
func serviceTimes(rng *rand.Rand) func() float64 {
	const sigma = 0.65
	return func() float64 { return 27.3 * math.Exp(sigma*rng.NormFloat64()-sigma*sigma/2) }
}

// between sums what ended in [from, to) seconds, as the store does.
func between(all []served, s Slice, from, to float64) (store.Work, []float64) {
	w := store.Work{Slice: s, At: t0.Add(time.Duration(from) * time.Second)}
	var user []float64
	for _, x := range all {
		if x.ended < from || x.ended >= to {
			continue
		}
		w.N, w.OK = w.N+1, w.OK+1
		w.BusyNS += int64((x.ended - x.began) * 1e9)
		w.QueueNS += int64((x.began - x.came) * 1e9)
		w.BusySquared += math.Pow(x.ended-x.began, 2)
		user = append(user, (x.ended-x.came)*1e3)
	}
	return w, user
}

// most is how many ran at once of what ended in [from, to) seconds.
func most(all []served, from, to float64) uint64 {
	var at []struct {
		t float64
		d int
	}
	for _, x := range all {
		if x.ended >= from && x.ended < to {
			at = append(at, struct {
				t float64
				d int
			}{x.began, 1}, struct {
				t float64
				d int
			}{x.ended, -1})
		}
	}
	slices.SortFunc(at, func(a, b struct {
		t float64
		d int
	}) int {
		if a.t != b.t {
			return int(math.Copysign(1, a.t-b.t))
		}
		return a.d - b.d
	})
	n, top := 0, 0
	for _, x := range at {
		n += x.d
		top = max(top, n)
	}
	return uint64(top)
}

// S8: M/G/24 with a load that rises from 0.5 to 0.99: the warning comes near 0.85, before P95
// has moved much.
func TestS8SaturationWarnsBeforeP95Moves(t *testing.T) {
	const c, mean, hours = 24, 27.3, 6
	cfg := DefaultConfig()
	rules := cfg.Saturation
	rules.Concurrency = c
	requests := Slice{Service: "shop", Agent: "planner", Kind: "agent"}
	rng := source(t)
	full := float64(c) / mean
	// Two hours at 0.5, then up to 0.99 in three hours.
	utilisation := func(s float64) float64 { return min(0.99, 0.5+max(0, s-7200)*0.49/10_800) }
	all := simulate(rng, c, hours*3600, full, func(s float64) float64 { return full * utilisation(s) }, serviceTimes(rng))

	k := newWorks(10 * time.Minute)
	var usualP95 float64
	{
		w, user := between(all, requests, 1200, 7200)
		usualP95 = quantile(measure(user...).Hist, 0.95)
		require.InDelta(t, mean, float64(w.BusyNS)/float64(w.N)/1e9, 2)
	}
	fired, votes := 0.0, 0
	for at := 4200.0; at < hours*3600 && fired == 0; at += 60 {
		for end := 600.0 * math.Floor((at-1800)/600); !k.loaded[int64(end)] && end > 600; end -= 600 { // blocks before the long window
			w, _ := between(all, requests, end-600, end)
			b := blockOf(&w, k.length)
			b.most = most(all, end-600, end)
			k.loaded[int64(end)] = true
			k.blocks.put(requests, int64(end), &b)
		}
		short, _ := between(all, requests, at-300, at)
		load, _ := between(all, requests, at-600, at)
		v := JudgeSaturation(WorkWindow{Slice: requests, To: t0.Add(time.Duration(at) * time.Second), Sum: short, Load: load, LoadSpan: rules.Window}, k.baseline(requests, func(Slice, int64) bool { return true }), rules, cfg.MinBlocks)
		if falseDiscoveries([]Verdict{v}, cfg.FDR, cfg.MaxP)[0].Level != Breach {
			votes = max(0, votes-1)
			continue
		}
		if votes++; votes == cfg.FireVotes {
			fired = at
			t.Log(v.Text)
			t.Log(v.Evidence.Numbers)
		}
	}
	require.NotZero(t, fired, "no warning")
	now := utilisation(fired)
	_, user := between(all, requests, fired-600, fired)
	p95 := quantile(measure(user...).Hist, 0.95)
	t.Logf("fired at a true utilisation of %.2f; P95 %.1f s, usual %.1f s", now, p95/1e3, usualP95/1e3)
	require.True(t, now > 0.72 && now < 0.95, "near 0.85: %v", now)
	require.Less(t, p95/usualP95, 1.5, "P95 has not moved much")
}

// What is foretold agrees with the queue.
func TestWaitIsForetold(t *testing.T) {
	const c, mean = 24, 27.3
	rng := source(t)
	requests := Slice{Service: "shop", Agent: "planner", Kind: "agent"}
	for _, rho := range []float64{0.7, 0.85, 0.92} {
		rate := rho * c / mean
		all := simulate(rng, c, 120_000/rate, rate, func(float64) float64 { return rate }, serviceTimes(rng))
		w, _ := between(all, requests, 6_000/rate, 120_000/rate)
		rules := DefaultRules().Saturation
		rules.Concurrency = c
		v := JudgeSaturation(WorkWindow{Slice: requests, To: t0, Sum: w, Load: w, LoadSpan: time.Duration(114_000 / rate * 1e9)}, WorkBaseline{Blocks: 3, Load: 12}, rules, 3)
		require.InDelta(t, rho, v.Value, 0.01)
		seen := v.Evidence.Numbers.At("queue_mean_ms") / 1e3
		foretold := v.Evidence.Numbers.At("wait_mean_ms") / 1e3
		t.Logf("rho %.2f: waits %.2f s, foretold %.2f s, chance %.3f", rho, seen, foretold, v.Evidence.Numbers.At("wait_chance"))
		require.InDelta(t, seen, foretold, 0.05+0.35*seen) // an approximation, on a long but finite run
		require.Equal(t, rho >= 0.85 && v.Value >= 0.85, v.Level == Breach, v.Reason)
	}
}

func TestSaturationAtItsLevels(t *testing.T) {
	rules := DefaultRules().Saturation
	rules.Concurrency = 20
	usual := WorkBaseline{Blocks: 3, Load: 10}
	// n calls of 2 s in 600 s on 20 places: rho = n / 6000.
	judge := func(n uint64, r SaturationConfig, b WorkBaseline) Verdict {
		w := store.Work{N: n, BusyNS: int64(n) * 2e9, BusySquared: float64(n) * 4}
		return JudgeSaturation(worked(oneTool, w), b, r, 3)
	}
	v := judge(5100, rules, usual)
	require.Equal(t, Breach, v.Level, v.Reason)
	require.InDelta(t, 0.85, v.Value, 1e-9)
	require.Less(t, v.P, 1e-6)
	require.Equal(t, Warning, v.Severity)
	require.Equal(t, Hold, judge(5099, rules, usual).Level)
	require.Equal(t, Hold, judge(4500, rules, usual).Level)
	require.Equal(t, Quiet, judge(4499, rules, usual).Level)
	// Usual load: at 0.81 it is within a step of the usual one.
	require.Equal(t, "always_so", judge(5100, rules, WorkBaseline{Blocks: 3, Load: 16.2}).Reason)
	require.Equal(t, Breach, judge(5100, rules, WorkBaseline{Blocks: 3, Load: 15.9}).Level)
	// A large pool has its knee later: at 0.85 of 2000 places nothing waits.
	large := rules
	large.Concurrency, large.Window = 2000, time.Minute
	require.Equal(t, "large_pool", judge(510_000, large, WorkBaseline{Blocks: 3, Load: 1000}).Reason)
	require.Equal(t, Breach, judge(594_000, large, WorkBaseline{Blocks: 3, Load: 1000}).Level)
	// Nothing is said without a number of places, history, or work.
	none := rules
	none.Concurrency = 0
	require.Equal(t, "concurrency_unknown", judge(5100, none, usual).Reason)
	require.Equal(t, NoBaseline, judge(5100, rules, WorkBaseline{Blocks: 2, Load: 10}).Level)
	few := rules
	few.MinWork = 5101
	require.Equal(t, Insufficient, judge(5100, few, usual).Level)
	// An inferred number of places needs a queue beside it: a batch job has none.
	inferred := WorkBaseline{Blocks: 3, Load: 10, Plateau: 20}
	require.Equal(t, "no_queue", judge(5100, none, inferred).Reason)
	w := store.Work{N: 5100, BusyNS: 5100 * 2e9, BusySquared: 5100 * 4, QueueNS: 5100 * 50e6}
	v = JudgeSaturation(worked(oneTool, w), inferred, none, 3)
	require.Equal(t, Breach, v.Level, v.Reason)
	require.Contains(t, v.Cause, "queue time has grown from 0.00 to 0.05 s")
	require.Contains(t, v.Text, "20 places (inferred)")
	// Over full, the formulas end.
	require.Equal(t, Breach, judge(9000, rules, usual).Level)
}

// A pool of a few places with slow work is warned of too, though it can never show more calls
// than it has places for.
func TestSaturationOfAFewSlowPlaces(t *testing.T) {
	cfg := DefaultConfig()
	rules := cfg.Saturation
	rules.Concurrency = 10
	judge := func(usual float64) Verdict {
		w := store.Work{N: 190, BusyNS: 190 * 30e9, BusySquared: 190 * 900 * 2} // 0.95, as uneven as an exponential
		v := JudgeSaturation(worked(oneTool, w), WorkBaseline{Blocks: 3, Load: usual}, rules, cfg.MinBlocks)
		return falseDiscoveries([]Verdict{v}, cfg.FDR, cfg.MaxP)[0]
	}
	v := judge(5)
	require.Equal(t, Breach, v.Level, v.Reason)
	require.Equal(t, "fdr", judge(8.9).Reason, "nearly as usual")
	require.Equal(t, "chance", judge(7).Reason)
}

// A limit of concurrency shows where it is touched again and again; without one the peak
// scatters.
func TestPlateau(t *testing.T) {
	rng := source(t)
	requests := Slice{Service: "shop", Agent: "planner", Kind: "agent"}
	inferred := func(c int, rate float64) uint64 {
		service := func() float64 { return 5 * math.Exp(0.5*rng.NormFloat64()-0.125) }
		all := simulate(rng, c, 7200, rate, func(float64) float64 { return rate }, service)
		var blocks []workBlock
		for at := 600.0; at < 7200; at += 600 {
			w, _ := between(all, requests, at, at+600)
			b := blockOf(&w, 10*time.Minute)
			b.most = most(all, at, at+600)
			blocks = append(blocks, b)
		}
		return plateau(blocks)
	}
	require.InDelta(t, 24, float64(inferred(24, 0.95*24/5)), 0)
	require.Zero(t, inferred(24, 0.5*24/5), "never full")
	require.Zero(t, inferred(10_000, 0.95*24/5), "no limit at that load")
	require.Zero(t, inferred(10_000, 40), "nor at a large one")
	require.Zero(t, inferred(3, 0.5), "too few places to tell")
}
