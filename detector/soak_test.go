package detector_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/memory"
	"driftline/internal/clock"
)

func seeded(t *testing.T) *traffic {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("DRIFTLINE_TEST_SEED"); s != "" {
		v, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		seed = v
	}
	t.Logf("seed %d (set DRIFTLINE_TEST_SEED to repeat)", seed)
	return &traffic{rng: rand.New(rand.NewPCG(seed, 3))}
}

// play runs minutes of traffic through an engine over a memory store.
func play(t *testing.T, g *traffic, minutes int, at func(minute int) conditions) (*memory.Store, *collect, []detector.Alert) {
	t.Helper()
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	st, sink := memory.New(), &collect{name: "sink"}
	e, err := detector.New(detector.DefaultConfig(), st, st, []detector.Notifier{sink}, clock.NewManual(start))
	require.NoError(t, err)
	var changes []detector.Alert
	for m := range minutes {
		now := start.Add(time.Duration(m) * time.Minute)
		g.into(st, now, at(m))
		if m < 60 {
			continue
		}
		st.Forget(now.Add(-26 * time.Hour))
		r, err := e.Evaluate(context.Background(), now.Add(time.Minute+35*time.Second))
		require.NoError(t, err)
		for _, c := range r.Changes {
			t.Logf("%s %s %s %s value %.4g baseline %.4g %s", c.At.Sub(start), c.Detection, c.State, c.Slice, c.Value, c.Baseline, c.Evidence.Reason)
		}
		changes = append(changes, r.Changes...)
	}
	return st, sink, changes
}

func quietSink(t *testing.T, sink *collect) {
	t.Helper()
	for _, a := range sink.news() {
		t.Errorf("paged: %s %s %s: %s", a.Detection, a.State, a.Slice, a.Annotations["description"])
	}
}

// TestQuietTrafficDoesNotPage plays healthy traffic: 12 hours, or the days in
// DRIFTLINE_SOAK_DAYS. docs/detections.md states what a long soak gave.
func TestQuietTrafficDoesNotPage(t *testing.T) {
	minutes := 8 * 60
	if d := os.Getenv("DRIFTLINE_SOAK_DAYS"); d != "" {
		days, err := strconv.Atoi(d)
		require.NoError(t, err)
		minutes = days * 24 * 60
	}
	_, sink, changes := play(t, seeded(t), minutes, func(int) conditions { return healthy })
	pending := 0
	for _, c := range changes {
		if c.State == detector.Pending {
			pending++
		}
	}
	t.Logf("%d minutes, 5 slices: %d pending, %d notifications", minutes, pending, len(sink.got))
	quietSink(t, sink)
}

func TestMoreStepsDoNotPage(t *testing.T) {
	g := seeded(t)
	factor := 1.3 + 1.5*g.rng.Float64()
	t.Logf("tasks %.2f times as long", factor)
	_, sink, _ := play(t, g, 5*60, func(m int) conditions {
		c := healthy
		if m >= 4*60 {
			c.stepFactor = factor
		}
		return c
	})
	quietSink(t, sink)
}

func incident(m int) conditions {
	c := healthy
	if m >= 0 {
		c.toolRetry = 0.3
	}
	if m >= 8 {
		c.slowShare, c.slowFactor = 0.25, 6
	}
	if m >= 16 {
		c.share504 = 0.15
	}
	return c
}

func TestIncidentFiresInOrderBeforeTheLateRule(t *testing.T) {
	const quiet = 4 * 60
	_, sink, changes := play(t, seeded(t), quiet+70, func(m int) conditions {
		if m < quiet || m >= quiet+25 {
			return healthy
		}
		return incident(m - quiet)
	})
	fired := map[string]time.Time{}
	for _, c := range changes {
		if _, ok := fired[c.Detection]; c.State == detector.Firing && !ok {
			fired[c.Detection] = c.FiredAt
		}
	}
	late, ok := fired[detector.Alert504]
	require.True(t, ok)
	for _, d := range []string{detector.RetryBimodality, detector.DeadlineDrift, detector.P95Spread, detector.P95Surge} {
		at, ok := fired[d]
		require.True(t, ok, d)
		require.True(t, at.Before(late), "%s at %v, late rule at %v", d, at, late)
		t.Logf("%s leads by %s", d, late.Sub(at))
	}
	require.True(t, fired[detector.RetryBimodality].Before(fired[detector.P95Spread]))
	require.True(t, fired[detector.DeadlineDrift].Before(fired[detector.P95Spread]))
	open := map[string]bool{}
	for _, a := range sink.news() {
		require.NotEqual(t, detector.Alert504, a.Detection)
		open[a.Fingerprint] = a.State == detector.Firing
		require.NotEmpty(t, a.Annotations["summary"])
		require.Contains(t, a.Annotations["description"], "samples")
	}
	for fp, firing := range open {
		require.False(t, firing, "alert %s never resolved", fp)
	}
}
