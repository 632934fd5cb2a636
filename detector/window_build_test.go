package detector

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/stats"
	"driftline/detector/store"
	"driftline/internal/rows"
)

// someCells are a slice's cells of the thirty minutes before t0.
func someCells(rng *rand.Rand, s Slice) (ops []store.OperationCell, atts []store.AttemptCell) {
	measure := func(n int, median float64) store.Measure {
		h, _ := stats.HistOf(around(rng, n, median, median*rng.Float64()))
		return store.Measure{N: h.N(), SumNS: int64(float64(h.N()) * median * 1e6), Hist: h}
	}
	most, reported := 1+rng.IntN(40), uint64(rng.IntN(2))
	for m := 30; m > 0; m-- {
		at := t0.Add(-time.Duration(m) * time.Minute)
		for k, retries := range retryNames {
			n := rng.IntN(most)
			if rng.IntN(3) == 0 || n == 0 {
				continue
			}
			u := uint64(n)
			few := func() uint64 { return u * uint64(rng.IntN(3)) / 8 }
			ops = append(ops, store.OperationCell{Slice: s, Minute: at, Retries: retries, N: u, OK: u - few(), Timeouts: few(), AtCap: few(), LeafAttempts: u + few(), DeadlineKnown: u, DeadlineMissed: few(), AgentReported: u * reported,
				InputTokens: 100 * u, OutputTokens: 50 * u, User: measure(n, 2000*float64(1+k)), Agent: measure(n, 2000), Inference: measure(n, 1500), TTFT: measure(n, 400), PerToken: measure(n, 30)})
		}
		n := rng.IntN(most)
		a := s
		a.Stream = ""
		atts = append(atts, store.AttemptCell{Slice: a, Minute: at, Endpoint: fmt.Sprint("host-", rng.IntN(3)), Layer: rows.LayerSDK, N: uint64(n), Leaf: uint64(n), Failed: uint64(n / 3), Timeouts: uint64(n / 5), Cut: measure(n/5, 10_000)})
	}
	return ops, atts
}

// What a detection does not say it needs does not decide its verdict.
func TestDetectionsNeedNoMoreThanTheySay(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	cfg := DefaultConfig()
	levels := map[string]map[Level]bool{}
	var some, all operationRoom
	for range 150 {
		s := Slice{Service: "shop", Kind: []string{rows.KindChat, rows.KindTool, rows.KindAgent}[rng.IntN(3)], Target: "it", Stream: rows.StreamYes}
		c := newCells()
		ops, atts := someCells(rng, s)
		c.ops.add(t0.Add(-30*time.Minute), t0, ops)
		c.atts.add(t0.Add(-30*time.Minute), t0, atts)
		rise := 0.2 + 2*rng.Float64()
		b := OperationBaseline{Blocks: 100, WorkBlocks: 100, Far: FarBaseline{Most: 0.005}, P50MS: 1500 * rise, P95MS: 2500 * rise, SpreadMS: 500 * rise, TailMS: 500 * rise, LogP95: 7.8, LogP95SD: 0.3, Minutes: 500, N: 10_000, Known: 10_000, Retried: 2000, LeafAttempts: 13_000,
			FirstTimeouts: 500, Exhausted: 500, Cut: 300, TTFT: LevelBaseline{100, 300 * rise, 500 * rise}, PerToken: LevelBaseline{100, 20 * rise, 30 * rise}, Call: CallBaseline{100, 4000 * rise, 8.2, 0.3, 500, FarBaseline{Most: 0.005}, 0}, DeadlineKnown: 10_000}
		if rng.IntN(5) == 0 {
			b = OperationBaseline{}
		}
		from := t0.Add(-[]time.Duration{5, 30}[rng.IntN(2)] * time.Minute)
		c.open(&all, s, from, t0, t0.Add(-30*time.Minute), allNeeds)
		for i := range operationDetections {
			d := &operationDetections[i]
			c.open(&some, s, from, t0, t0.Add(-30*time.Minute), onlyCounts)
			c.fill(&some, d.needs)
			got, want := d.judge(&some.w, b, &cfg.Rules, &cfg), d.judge(&all.w, b, &cfg.Rules, &cfg)
			if want.Level == Breach { // it is judged again with all
				require.Equal(t, want.Level, got.Level, d.name)
				c.fill(&some, allNeeds)
				got = d.judge(&some.w, b, &cfg.Rules, &cfg)
			}
			require.Equal(t, want, got, d.name)
			if levels[d.name] == nil {
				levels[d.name] = map[Level]bool{}
			}
			levels[d.name][want.Level] = true
		}
	}
	for name, seen := range levels {
		require.GreaterOrEqual(t, len(seen), 3, "%s: %v", name, seen)
	}
}

// A room that was used before gives the window that a new one gives, and parts filled in later
// are those of a window with all from the start.
func TestWindowsAreTheSameInAnyRoom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	var used operationRoom
	for range 50 {
		s := Slice{Service: "shop", Kind: []string{rows.KindChat, rows.KindTool, rows.KindWorkflow}[rng.IntN(3)], Target: "it", Stream: rows.StreamYes}
		c := newCells()
		ops, atts := someCells(rng, s)
		c.ops.add(t0.Add(-30*time.Minute), t0, ops)
		c.atts.add(t0.Add(-30*time.Minute), t0, atts)
		want := c.operationWindow(s, t0.Add(-5*time.Minute), t0, t0.Add(-30*time.Minute))
		c.open(&used, s, t0.Add(-5*time.Minute), t0, t0.Add(-30*time.Minute), onlyCounts)
		for _, need := range []needs{groupTimes, ttftTimes, callTimes, ownTimes | tokenTimes, tryCounts, allNeeds} {
			c.fill(&used, need)
		}
		got := used.w
		got.Above, want.Above, got.LateTokens, want.LateTokens = nil, nil, nil, nil
		require.Equal(t, plain(want), plain(&got))

		// Against the sums of the cells themselves.
		byRetries := map[string]*RetryGroup{}
		own, call := emptyMeasure(), emptyMeasure()
		for i := range ops {
			if o := &ops[i]; !o.Minute.Before(t0.Add(-5 * time.Minute)) {
				own.Add(ownTime(s.Kind, o.Inference, o.Call()))
				call.Add(callTime(s.Kind, o.Call()))
				groupOf(byRetries, o.Retries).merge(&RetryGroup{N: o.N, User: o.User, Agent: o.Agent})
			}
		}
		require.Equal(t, measured(own), measured(want.Own))
		require.Equal(t, measured(call), measured(want.Call))
		require.Len(t, want.ByRetries, len(byRetries))
		for name, g := range byRetries {
			require.Equal(t, g.N, want.ByRetries[name].N)
			require.Equal(t, measured(g.User), measured(want.ByRetries[name].User))
			require.Equal(t, measured(g.Agent), measured(want.ByRetries[name].Agent))
		}
	}
}

func measured(m store.Measure) string { return fmt.Sprint(m.N, m.SumNS, m.Hist.Index, m.Hist.Count) }

// plain writes a window without pointers and without the difference of nil and empty.
func plain(w *OperationWindow) string {
	out := fmt.Sprint(w.Slice, w.From, w.To, w.N, w.Status504, w.AtCap, w.Censored, w.Known, w.Missed, w.Tokens, w.Alone, w.Minutes)
	for _, m := range []store.Measure{w.Inference, w.Own, w.Call, w.TTFT, w.PerToken} {
		out += measured(m)
	}
	for _, name := range retryNames {
		if g := w.ByRetries[name]; g != nil {
			out += fmt.Sprint(name, g.N, g.AgentReported, g.FailedNS, g.BackoffNS, g.Known, g.Missed, g.LeafAttempts, g.Failed, measured(g.User), measured(g.Agent))
		}
	}
	if a := w.Attempts; a != nil {
		out += fmt.Sprint(a.N, a.Leaf, a.Extra, a.Failed, a.Timeouts, a.Overloads, a.CutAtCap, a.Endpoints, measured(a.Cut))
	}
	return out
}
