package detector_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"driftline/detector"
	"driftline/detector/memory"
	"driftline/internal/clock"
)

// announced tells when somebody has asked to be called.
type announced struct {
	*clock.Manual
	registered chan struct{}
}

func (c *announced) Every(d time.Duration, f func(time.Time)) func() {
	stop := c.Manual.Every(d, f)
	c.registered <- struct{}{}
	return stop
}

func TestMetricsAndRun(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")
	g := seeded(t)
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	clk := &announced{Manual: clock.NewManual(start.Add(20 * time.Minute)), registered: make(chan struct{})}
	st := memory.New()
	for m := range 20 {
		g.into(st, start.Add(time.Duration(m)*time.Minute), healthy)
	}
	e, err := detector.New(detector.DefaultConfig(), st, st, nil, clk, detector.WithMeter(meter))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx) }()
	<-clk.registered
	clk.Advance(time.Minute)
	require.NoError(t, e.Ready())
	cancel()
	<-done
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &got))
	units := map[string]string{}
	for _, s := range got.ScopeMetrics {
		for _, m := range s.Metrics {
			units[m.Name] = m.Unit
		}
	}
	require.Equal(t, "{evaluation}", units["driftline.detector.evaluations"])
	require.Equal(t, "s", units["driftline.detector.evaluation.duration"])
	require.Equal(t, "{verdict}", units["driftline.detector.verdicts"])
	require.Equal(t, "{alert}", units["driftline.detector.alerts.firing"])
	require.Equal(t, "s", units["driftline.detector.watermark.lag"])
	require.Equal(t, "s", units["driftline.detector.ingest.lag"])
	require.Empty(t, e.Active())
	_, err = detector.New(detector.DefaultConfig(), st, st, []detector.Notifier{&collect{name: "a"}, &collect{name: "a"}}, clk)
	require.ErrorContains(t, err, `"a"`)
}

// A slice too quiet for blocks of its own is judged against its whole history.
func TestQuietSliceHasABaseline(t *testing.T) {
	g := seeded(t)
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	st := memory.New()
	e, err := detector.New(detector.DefaultConfig(), st, st, nil, clock.NewManual(start))
	require.NoError(t, err)
	levels := map[detector.Level]int{}
	for m := range 8 * 60 {
		now := start.Add(time.Duration(m) * time.Minute)
		reqs, ops := g.minute(now, healthy)
		if m%2 == 0 {
			put(st, reqs[:1], ops[:2*reqs[0].Steps])
		}
		if m%60 != 59 {
			continue
		}
		r, err := e.Evaluate(context.Background(), now.Add(time.Minute+35*time.Second))
		require.NoError(t, err)
		for _, v := range r.Verdicts {
			if v.Detection == detector.P95Surge && v.Slice.Kind == "chat" {
				levels[v.Level]++
				require.NotEqual(t, detector.Breach, v.Level)
			}
		}
	}
	require.GreaterOrEqual(t, levels[detector.Quiet]+levels[detector.Hold], 4, "%v", levels)
}
