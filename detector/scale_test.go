package detector_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/rollup"
	"driftline/detector/stats"
	"driftline/detector/store"
	"driftline/internal/clock"
	"driftline/internal/rows"
)

// manySlices is a store of so many slices of operations, each with its own rate, whose
// cells are drawn when they are read: the same ones each time.
type manySlices struct {
	slices  int
	traffic float64
	// pool has histograms of so many values; cells get copies.
	pool [][]*stats.Hist
	// spent is the CPU time that drawing has taken, as a store's reading would: of all threads in
	// which nothing else ran, and so with the collection of its garbage.
	spent time.Duration
	// drawn is that of the drawing thread alone. At a start the engine works beside it.
	drawn time.Duration
}

// cpuTime is what the process has used of the CPU, its collection of garbage included.
func cpuTime() time.Duration { return usage(syscall.RUSAGE_SELF) }

func usage(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reading notes the CPU time until the function it gives is called.
func (m *manySlices) reading() func() {
	const thread = 1 // RUSAGE_THREAD
	runtime.LockOSThread()
	all, mine := cpuTime(), usage(thread)
	return func() {
		m.spent, m.drawn = m.spent+cpuTime()-all, m.drawn+usage(thread)-mine
		runtime.UnlockOSThread()
	}
}

func newManySlices(n int, traffic float64) *manySlices {
	m := &manySlices{slices: n, traffic: traffic}
	rng := rand.New(rand.NewPCG(5, 9))
	for size := range 64 {
		var hs []*stats.Hist
		for range 16 {
			h := &stats.Hist{}
			for range poolSizes(size) {
				h.Add(2000 * math.Exp(0.8*rng.NormFloat64()))
			}
			hs = append(hs, h)
		}
		m.pool = append(m.pool, hs)
	}
	return m
}

// poolSizes is how many values the histograms of a size hold: 0 to 30, then in steps of a
// sixth up to about 10,000.
func poolSizes(size int) int {
	if size <= 30 {
		return size
	}
	return int(30 * math.Pow(7.0/6, float64(size-30)))
}

func sizeFor(n float64) int {
	if n <= 30 {
		return int(n)
	}
	return min(63, 30+int(math.Log(n/30)/math.Log(7.0/6)))
}

func (m *manySlices) slice(i int) store.Slice {
	return store.Slice{Service: fmt.Sprintf("svc-%d", i/50), Agent: fmt.Sprintf("agent-%d", i/5), Kind: "chat", Target: fmt.Sprintf("model-%d", i%5), Stream: "yes"}
}

// rate is how many operations a minute a slice has: 0.5 to 50, most of them few.
func (m *manySlices) rate(i int) float64 { return 0.5 * math.Pow(100, float64(i%97)/96) * m.traffic }

func (m *manySlices) measure(i int, at int64, n int) store.Measure {
	h := m.pool[sizeFor(float64(n))][uint64(int64(i)*31+at*7)%16].Clone()
	return store.Measure{N: h.N(), SumNS: int64(h.N()) * 2e9, Hist: h}
}

func (m *manySlices) each(from, to time.Time, f func(s store.Slice, i int, at time.Time, n int)) {
	for i := range m.slices {
		for at := from; at.Before(to); at = at.Add(time.Minute) {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(at.Unix())))
			r := m.rate(i)
			if n := int(math.Max(0, math.Round(r+math.Sqrt(r)*rng.NormFloat64()))); n > 0 {
				f(m.slice(i), i, at, n)
			}
		}
	}
}

func (m *manySlices) OperationCells(_ context.Context, from, to time.Time) (out []store.OperationCell, _ error) {
	defer m.reading()()
	m.each(from, to, func(s store.Slice, i int, at time.Time, n int) {
		retried := n / 40
		for k, part := range []int{n - retried, retried} {
			if part == 0 {
				continue
			}
			user := m.measure(i, at.Unix()/60+int64(k), part)
			out = append(out, store.OperationCell{Slice: s, Minute: at, Retries: []string{"0", "1"}[k], N: user.N, OK: user.N, Attempts: user.N * uint64(k+1), LeafAttempts: user.N * uint64(k+1),
				DeadlineKnown: user.N, User: user, Agent: m.measure(i, at.Unix()/60+int64(2*k), part), Inference: m.measure(i, at.Unix()/60+7, part),
				TTFT: m.measure(i, at.Unix()/60+3, part), PerToken: m.measure(i, at.Unix()/60+4, part)})
		}
	})
	return out, nil
}

func (m *manySlices) OperationHistory(_ context.Context, from, to time.Time) (out []store.OperationMinute, _ error) {
	defer m.reading()()
	m.each(from, to, func(s store.Slice, i int, at time.Time, n int) {
		h := m.measure(i, at.Unix()/60+7, n)
		out = append(out, store.OperationMinute{Slice: s, Minute: at, N: h.N, Call: m.measure(i, at.Unix()/60, n), Known: h.N, Retried: h.N / 40, LeafAttempts: h.N + h.N/40, DeadlineKnown: h.N, Inference: h,
			TTFT: m.measure(i, at.Unix()/60+3, n), PerToken: m.measure(i, at.Unix()/60+4, n)})
	})
	return out, nil
}

func (m *manySlices) OperationHours(_ context.Context, hours []time.Time) (out []store.OperationHour, _ error) {
	defer m.reading()()
	for i := range m.slices {
		for _, h := range hours {
			out = append(out, store.OperationHour{Slice: m.slice(i), Hour: h, Inference: m.measure(i, h.Unix()/60, int(60*m.rate(i)))})
		}
	}
	return out, nil
}

func (m *manySlices) AttemptCells(_ context.Context, from, to time.Time) (out []store.AttemptCell, _ error) {
	defer m.reading()()
	m.each(from, to, func(s store.Slice, i int, at time.Time, n int) {
		s.Stream = ""
		c := store.AttemptCell{Slice: s, Minute: at, Endpoint: fmt.Sprintf("host-%d", i%7), Layer: rows.LayerSDK, N: uint64(n + n/40), Leaf: uint64(n + n/40), Extra: uint64(n / 40), Failed: uint64(n / 40),
			Timeouts: uint64(n / 80), Cut: store.Measure{Hist: &stats.Hist{}}}
		if n >= 80 {
			c.Cut = m.measure(i, at.Unix()/60+5, n/80)
		}
		out = append(out, c)
	})
	return out, nil
}

func (m *manySlices) AttemptHistory(_ context.Context, from, to time.Time, block time.Duration) (out []store.AttemptBlock, _ error) {
	defer m.reading()()
	for i := range m.slices {
		for at := from; at.Before(to); at = at.Add(block) {
			s, n := m.slice(i), uint64(m.rate(i)*block.Minutes())
			s.Stream = ""
			out = append(out, store.AttemptBlock{Slice: s, At: at, Layer: rows.LayerSDK, N: n + n/40, Leaf: n + n/40, Extra: n / 40, Failed: n / 40, Cut: n / 80})
		}
	}
	return out, nil
}

func (m *manySlices) Timeouts(context.Context, store.Slice, time.Time, time.Time) (store.Timeouts, error) {
	return store.Timeouts{}, nil
}

func (m *manySlices) RequestCells(context.Context, time.Time, time.Time) ([]store.RequestCell, error) {
	return nil, nil
}

func (m *manySlices) RequestHistory(context.Context, time.Time, time.Time) ([]store.RequestMinute, error) {
	return nil, nil
}

func (m *manySlices) Budgets(context.Context, time.Time, time.Time) ([]store.Budget, error) {
	return nil, nil
}

func (m *manySlices) IngestLag(context.Context, time.Time, time.Time) (time.Duration, uint64, error) {
	return 0, 0, nil
}

func (m *manySlices) OperationWork(_ context.Context, from, to time.Time, width time.Duration) (out []store.Work, _ error) {
	defer m.reading()()
	m.each(from, to, func(s store.Slice, i int, at time.Time, n int) {
		w := store.Work{Slice: s, At: at.Truncate(width), N: uint64(n), OK: uint64(n), Limited: uint64(n), LimitNS: 30e9, Known: uint64(n), OKNS: int64(n) * 2e9, P95NS: 4e9,
			BusyNS: int64(n) * 2e9, BusySquared: float64(n) * 5, Left: m.measure(i, at.Unix()/60+5, n)}
		if k := len(out) - 1; k >= 0 && out[k].Slice == s && out[k].At.Equal(w.At) {
			out[k].Add(w)
			return
		}
		out = append(out, w)
	})
	return out, nil
}

func (m *manySlices) RequestWork(context.Context, time.Time, time.Time, time.Duration) ([]store.Work, error) {
	return nil, nil
}

func (m *manySlices) OpenRequests(context.Context, time.Time) ([]store.OpenRequest, error) {
	return nil, nil
}

func (m *manySlices) Spenders(context.Context, store.Slice, store.Slice, time.Time, time.Time) ([]store.Spender, error) {
	return nil, nil
}

func (m *manySlices) MissTable(context.Context, store.Slice, time.Time, time.Time) ([]store.Misses, error) {
	return nil, nil
}

func (m *manySlices) Examples(context.Context, store.Slice, time.Time, time.Time, store.ExampleOrder, int) ([]store.Example, error) {
	return nil, nil
}
func (m *manySlices) SaveAlerts(context.Context, []store.AlertRow) error { return nil }
func (m *manySlices) LoadState(context.Context, string) (string, bool, error) {
	return "", false, nil
}
func (m *manySlices) SaveState(context.Context, string, string, uint64) error { return nil }
func (m *manySlices) Run(context.Context, time.Time) (rollup.Stats, error) {
	return rollup.Stats{}, nil
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// scaled is an engine over so many slices after its first round, with what a slice then
// holds in memory.
func scaled(tb testing.TB, slices int, traffic float64) (e *detector.Engine, st *manySlices, now time.Time, bytesPerSlice float64) {
	tb.Helper()
	st = newManySlices(slices, traffic)
	before := heap()
	cfg := detector.DefaultConfig()
	cfg.MaxSlices = slices
	now = time.Date(2026, 3, 3, 0, 1, 35, 0, time.UTC)
	e, err := detector.New(cfg, st, st, nil, clock.NewManual(now))
	require.NoError(tb, err)
	_, err = e.Evaluate(context.Background(), now)
	require.NoError(tb, err)
	return e, st, now, float64(heap()-before) / float64(slices)
}

// roundCost is what a round costs after a load, per slice, without the store's part, and the
// longest of the rounds.
type roundCost struct{ mean, longest, store, load, loadStore time.Duration }

func costOf(tb testing.TB, slices, rounds int, traffic float64) (c roundCost, bytesPerSlice float64) {
	tb.Helper()
	before := cpuTime()
	e, st, now, bytesPerSlice := scaled(tb, slices, traffic)
	c.load, c.loadStore = cpuTime()-before-st.drawn, st.drawn
	var all, drawn time.Duration
	for range rounds {
		now = now.Add(time.Minute)
		st.spent = 0
		before := cpuTime()
		_, err := e.Evaluate(context.Background(), now)
		require.NoError(tb, err)
		took := cpuTime() - before - st.spent
		all, drawn, c.longest = all+took, drawn+st.spent, max(c.longest, took)
	}
	c.mean, c.store = all/time.Duration(rounds), drawn/time.Duration(rounds)
	return c, bytesPerSlice
}

// quarter is the lower quartile, since what else runs on the machine only makes rounds longer.
func quarter[T cmp.Ordered](all []T) T { return slices.Sorted(slices.Values(all))[len(all)/4] }

// costs are the CPU time of rounds in which no block of the baseline ends, and how many times as
// long those take in which one does, each against the rounds just before it: so what else runs for
// a while slows both.
type costs struct {
	plain  []time.Duration
	longer []float64
}

// TestWhatASliceCosts bounds what a slice costs, at little traffic and at ten times as much: in
// memory, with a day's baseline and thirty minutes of cells; what ten times the traffic adds to a
// round; and how much longer a round takes in which all baselines are worked out anew. Both sides
// take turns, so that what else runs on the machine slows both. What is wanted is less than 1.2
// times, which [BenchmarkRound] measures on a quiet machine; CPU time of so few rounds scatters by
// more than 10 % on a busy one, and the bound leaves room for that.
func TestWhatASliceCosts(t *testing.T) {
	type side struct {
		e   *detector.Engine
		st  *manySlices
		now time.Time
		costs
	}
	var sides []*side
	for _, traffic := range []float64{1, 10} {
		e, st, now, perSlice := scaled(t, 160, traffic)
		t.Logf("traffic %v: %.1f KiB a slice", traffic, perSlice/1024)
		require.Less(t, perSlice, 32.0*1024)
		sides = append(sides, &side{e: e, st: st, now: now})
	}
	for range 100 {
		for _, s := range sides {
			s.now, s.st.spent = s.now.Add(time.Minute), 0
			before := cpuTime()
			round, err := s.e.Evaluate(context.Background(), s.now)
			require.NoError(t, err)
			took := cpuTime() - before - s.st.spent
			if round.Watermark.Sub(round.Watermark.Truncate(detector.DefaultConfig().BlockLength)) == 0 {
				if n := len(s.plain); n >= 9 {
					s.longer = append(s.longer, float64(took)/float64(quarter(s.plain[n-9:])))
				}
			} else {
				s.plain = append(s.plain, took)
			}
		}
	}
	for _, s := range sides {
		require.InDelta(t, 10, len(s.longer), 1, "a block ends every ten minutes")
	}
	little, much := sides[0], sides[1]
	ratio := float64(quarter(much.plain)) / float64(quarter(little.plain))
	t.Logf("a round takes %v, at ten times the traffic %v: %.2f times as long", quarter(little.plain), quarter(much.plain), ratio)
	require.Less(t, ratio, 1.45)
	for _, s := range sides {
		t.Logf("after a block has ended: %.2f times as long, of %.2f", quarter(s.longer), s.longer)
		require.Less(t, quarter(s.longer), 2.3)
	}
}

// BenchmarkRound is rounds a minute apart over slices with a day's baseline, twenty of them, so
// that blocks come and go twice. It counts CPU time: of the engine, and apart from it of the
// drawing of cells, which stands for the store.
func BenchmarkRound(b *testing.B) {
	for _, slices := range []int{300, 10_000} {
		for _, traffic := range []float64{1, 10} {
			b.Run(fmt.Sprintf("slices=%d/traffic=%v", slices, traffic), func(b *testing.B) {
				for range b.N {
					c, perSlice := costOf(b, slices, 20, traffic)
					b.ReportMetric(perSlice/1024, "KiB/slice")
					b.ReportMetric(c.mean.Seconds(), "cpu-s/round")
					b.ReportMetric(c.longest.Seconds(), "cpu-s/longest-round")
					b.ReportMetric(c.store.Seconds(), "drawing-cpu-s/round")
					b.ReportMetric(float64(c.mean.Microseconds())/float64(slices), "cpu-us/slice")
					b.ReportMetric(c.load.Seconds(), "cpu-s/load")
					b.ReportMetric(c.loadStore.Seconds(), "drawing-cpu-s/load")
				}
			})
		}
	}
}
