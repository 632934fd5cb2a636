package detector

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/store"
)

// hourly is a store of one slice's hours; an hour without a P95 has no work.
type hourly struct {
	Store
	p95   func(at time.Time) float64
	asked []time.Time
}

var seasonal = Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "yes"}

func (h *hourly) OperationHours(_ context.Context, hours []time.Time) (out []store.OperationHour, _ error) {
	h.asked = append(h.asked, hours...)
	for _, at := range hours {
		if p := h.p95(at); p > 0 {
			out = append(out, store.OperationHour{Slice: seasonal, Hour: at, Inference: measure(fixed(minPerHour, p)...)})
		}
	}
	return out, nil
}

func TestTheTimeOfDayMovesTheBaseline(t *testing.T) {
	w := time.Date(2026, 3, 20, 9, 30, 0, 0, time.UTC)
	rng := source(t)
	st := &hourly{p95: func(at time.Time) float64 {
		if at.Before(w.AddDate(0, 0, -10)) {
			return 0 // ten days of history
		}
		p := 2000 * math.Exp(0.05*rng.NormFloat64())
		if at.Hour() >= 9 && at.Hour() < 12 {
			p *= 2
		}
		if at.Day() == 15 && at.Hour() == 9 {
			p *= 20 // one morning's incident
		}
		return p
	}}
	s := newSeasons(14)
	rounds := 0
	for ; ; rounds++ {
		before := len(st.asked)
		require.NoError(t, s.read(context.Background(), st, w))
		if len(st.asked) == before {
			break
		}
		require.LessOrEqual(t, len(st.asked)-before, 14)
	}
	require.Equal(t, 24, rounds)
	require.Len(t, st.asked, 14*24)
	require.Equal(t, 9, st.asked[0].Hour(), "the present hour comes first")
	require.InDelta(t, 2, s.factor(seasonal, w), 0.15)
	require.InDelta(t, 1, s.factor(seasonal, w.Add(8*time.Hour)), 0.06)
	require.InDelta(t, math.Sqrt(2), s.factor(seasonal, w.Add(-30*time.Minute)), 0.1, "half way between two hours")
	require.Equal(t, 1.0, s.factor(Slice{Service: "other"}, w))

	b := OperationBaseline{P95MS: 3000, SpreadMS: 500, LogP95: math.Log(3000)}.at(2)
	require.Equal(t, 6000.0, b.P95MS)
	require.Equal(t, 1000.0, b.SpreadMS)
	require.InDelta(t, math.Log(6000), b.LogP95, 1e-9)

	// A day on, one day's hours are new; a month on, none of these are left.
	before := len(st.asked)
	for range 30 {
		require.NoError(t, s.read(context.Background(), st, w.AddDate(0, 0, 1)))
	}
	require.Len(t, st.asked, before+24)
	require.LessOrEqual(t, len(s.loaded), 14*24)
	st.p95 = func(time.Time) float64 { return 0 }
	require.NoError(t, s.read(context.Background(), st, w.AddDate(0, 1, 0)))
	require.Empty(t, s.bySlice)
}

func TestFewDaysAreNoRhythm(t *testing.T) {
	w := time.Date(2026, 3, 20, 9, 30, 0, 0, time.UTC)
	for days, want := range map[int]float64{2: 1, 4: 2} {
		st := &hourly{p95: func(at time.Time) float64 {
			if at.Before(w.Truncate(24*time.Hour).AddDate(0, 0, -days)) {
				return 0
			}
			if at.Hour() == 9 || at.Hour() == 8 || at.Hour() == 10 {
				return 4000
			}
			return 2000
		}}
		s := newSeasons(14)
		for range 24 {
			require.NoError(t, s.read(context.Background(), st, w))
		}
		require.InEpsilon(t, want, s.factor(seasonal, w), 0.04, "%d days", days)
	}
	s := newSeasons(0)
	require.NoError(t, s.read(context.Background(), nil, w))
}

// What was so yesterday at this time is no news, after one day of history.
func TestYesterdayAtThisTime(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig()
	history := func(peak float64) OperationBaseline {
		b := NewBaselines(cfg)
		from := t0.Truncate(cfg.BlockLength).Add(-24*time.Hour - 30*time.Minute)
		var all []store.OperationMinute
		for m := range 24 * 60 {
			f := 1.0
			if m < 90 {
				f = peak
			}
			all = append(all, store.OperationMinute{Slice: seasonal, Minute: from.Add(time.Duration(m) * time.Minute), N: 60,
				Inference: measure(around(rng, 60, 2000*f, 300*f)...), TTFT: measure(around(rng, 60, 500*f, 50*f)...)})
		}
		b.Load(from, from.Add(24*time.Hour), all, nil)
		return b.Operation(seasonal).at(1)
	}
	w := inference(t0, around(rng, 300, 5400, 800))
	w.TTFT = measure(around(rng, 300, 1350, 140)...)
	flat, peak := history(1), history(2.5)
	require.InDelta(t, 2.5, peak.Yesterday, 0.1)
	require.InDelta(t, 1, flat.Yesterday, 0.05)
	require.Equal(t, Breach, JudgeTTFT(w, flat, cfg.TTFT, cfg.MinBlocks).Level)
	require.Equal(t, Quiet, JudgeTTFT(w, peak, cfg.TTFT, cfg.MinBlocks).Level)
	require.InDelta(t, 2.6, JudgeSurge(w, flat, cfg.Surge, cfg.MinBlocks).Effect.Estimate, 0.3)
	require.Equal(t, Quiet, JudgeSurge(w, peak, cfg.Surge, cfg.MinBlocks).Level)
	require.Equal(t, Breach, JudgeSurge(inference(t0, around(rng, 300, 18000, 2000)), peak, cfg.Surge, cfg.MinBlocks).Level, "more than yesterday")
}
