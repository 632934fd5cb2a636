package detector_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/memory"
	"driftline/internal/clock"
)

// Each detection's last evaluation says when, how long, of how many rows and what.
func TestEvaluationsAreMeasured(t *testing.T) {
	g := seeded(t)
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	st := memory.New()
	const minutes = 80
	for m := range minutes {
		g.into(st, start.Add(time.Duration(m)*time.Minute), healthy)
	}
	e, err := detector.New(detector.DefaultConfig(), st, st, nil, clock.NewManual(start))
	require.NoError(t, err)
	at := start.Add(minutes*time.Minute + 35*time.Second)
	for range 2 {
		_, err = e.Evaluate(context.Background(), at)
		require.NoError(t, err)
		at = at.Add(20 * time.Second)
	}
	seen := map[string]int{}
	for _, v := range e.Evaluations("", 1000) {
		seen[v.Detection]++
		require.Equal(t, start.Add(minutes*time.Minute), v.Watermark, v.Detection)
		require.Positive(t, v.Slices, v.Detection)
		require.NotEmpty(t, v.Worst.Reason, v.Detection)
		require.Equal(t, v.Detection, v.Worst.Detection)
		if v.Detection != detector.Alert504 && v.Detection != detector.PipelineHealth { // which compare two numbers
			require.Positive(t, v.Duration, v.Detection)
		}
		require.Less(t, v.Duration, v.RoundDuration, v.Detection)
		if seen[v.Detection] == 1 {
			require.Zero(t, v.RowsRead, "nothing is new in the last round")
		} else {
			require.Greater(t, v.RowsRead, uint64(30*8), v.Detection)
		}
	}
	for _, name := range detector.Detections() {
		require.Equal(t, 2, seen[name], name)
	}
}
