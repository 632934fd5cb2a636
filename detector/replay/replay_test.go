package replay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/backtest/traffic"
	"driftline/detector/memory"
	"driftline/detector/replay"
	"driftline/internal/clock"
	"driftline/internal/rows"
)

// into stores a generator's rows.
type into struct{ st *memory.Store }

func (s into) Request(r *rows.Request)     { s.st.AddRequests(3*time.Second, r) }
func (s into) Operation(o *rows.Operation) { s.st.AddOperations(o) }
func (s into) Attempt(a *rows.Attempt)     { s.st.AddAttempts(a) }

func agent() *traffic.Agent {
	return &traffic.Agent{Service: "shop", Name: "planner", PerMinute: 40, MeanSteps: 4, MaxSteps: 16, Retries: 4, Backoff: 0.8, Budget: 90, Gateway: 110, Version: "1", Reports: true,
		Model: traffic.Model{Name: "m", Stream: true, TTFT: 0.5, TTFTSigma: 0.35, Prefill: 0.1, Input: 3000, Cached: 0.5, Output: 100, OutputSigma: 0.5, PerToken: 0.015, FailP: 0.01, FailSec: 1, Cap: 30},
		Tools: []traffic.Tool{{Name: "search", Kind: rows.KindTool, Median: 0.8, Sigma: 0.7, Weight: 1, FailP: 0.02, FailSec: 1, Cap: 12}}}
}

// A replay of what is stored tells what the live engine sent, at the same times.
func TestReplayEqualsLive(t *testing.T) {
	ctx := context.Background()
	a := agent()
	const onset = 140 * 60
	a.Shape = func(t float64, c *traffic.Conditions) {
		if t > onset {
			c.Tools[0].FailP, c.Tools[0].FailSec = min(0.9, 0.02+(t-onset)/1200), 3
		}
	}
	st := memory.New()
	g := traffic.New(5, []*traffic.Agent{a}, into{st})
	start := time.Unix(traffic.Start, 0).UTC()
	live, err := detector.New(detector.DefaultConfig(), st, st, nil, clock.NewManual(start))
	require.NoError(t, err)
	const first, last = 120, 180
	key := func(a detector.Alert) string {
		return a.Key() + " " + a.State + " " + a.At.Format(time.TimeOnly) + " " + a.Detection
	}
	var want, got []string
	for m := range last {
		g.Minute(m)
		for _, second := range []int{30, 60} {
			if m < first {
				continue
			}
			r, err := live.Evaluate(ctx, start.Add(time.Duration(m)*time.Minute+time.Duration(second)*time.Second))
			require.NoError(t, err)
			for _, c := range r.Changes {
				if c.State != detector.Pending && !c.FiredAt.IsZero() {
					want = append(want, key(c))
				}
			}
		}
	}
	stored := len(st.Alerts())
	o := replay.Options{Config: detector.DefaultConfig(), From: start.Add(first*time.Minute + 30*time.Second), To: start.Add(last * time.Minute), Transition: func(a detector.Alert) { got = append(got, key(a)) }}
	stats, err := replay.Run(ctx, o, st)
	require.NoError(t, err)
	require.NotEmpty(t, want)
	require.Equal(t, want, got)
	require.Positive(t, stats.Fired)
	require.Positive(t, stats.Verdicts)
	require.Equal(t, (last-first)*2, stats.Rounds)
	require.Len(t, st.Alerts(), stored, "nothing is stored")
}

func TestSpeedAndMistakes(t *testing.T) {
	from := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	var slept []time.Duration
	o := replay.Options{Config: detector.DefaultConfig(), From: from, To: from.Add(2 * time.Minute), Speed: 0.001, Sleep: func(_ context.Context, d time.Duration) error {
		slept = append(slept, d)
		return nil
	}}
	stats, err := replay.Run(context.Background(), o, memory.New())
	require.NoError(t, err)
	require.Equal(t, 5, stats.Rounds)
	require.Len(t, slept, 5)
	require.InDelta(t, 30_000, slept[0].Seconds(), 60, "a thousand times slower than life")
	o.Sleep = func(context.Context, time.Duration) error { return errors.New("stopped") }
	_, err = replay.Run(context.Background(), o, memory.New())
	require.ErrorContains(t, err, "stopped")
	o.To, o.Speed, o.Config.FDR = from, -1, 2
	_, err = replay.Run(context.Background(), o, memory.New())
	for _, part := range []string{"from 2026", "speed -1", "fdr"} {
		require.ErrorContains(t, err, part)
	}
}
