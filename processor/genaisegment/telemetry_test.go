package genaisegment

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"driftline/internal/clock"
	"driftline/processor/genaisegment/internal/metadatatest"
)

// The ledger and the limits are on the processor's own metrics.
func TestOwnMetrics(t *testing.T) {
	tt := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tt.Shutdown(context.Background())) })
	c := clock.NewManual(began)
	sink := new(consumertest.TracesSink)
	p, err := NewFactoryWithClock(c).CreateTraces(t.Context(), metadatatest.NewSettings(tt), createDefaultConfig(), sink)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, p.ConsumeTraces(t.Context(), retried(1)))
	c.Advance(2 * time.Second)
	require.NoError(t, p.ConsumeTraces(t.Context(), retried(2)))
	require.NoError(t, p.ConsumeTraces(t.Context(), retried(1)))

	value := func(n int64) []metricdata.DataPoint[int64] { return []metricdata.DataPoint[int64]{{Value: n}} }
	bare := metricdatatest.IgnoreTimestamp()
	metadatatest.AssertEqualProcessorGenaisegmentSpansReceived(t, tt, value(15), bare)
	metadatatest.AssertEqualProcessorGenaisegmentSpansSent(t, tt, value(5), bare)
	metadatatest.AssertEqualProcessorGenaisegmentSpansHeld(t, tt, value(10), bare)
	metadatatest.AssertEqualProcessorGenaisegmentSpansLate(t, tt, value(5), bare)
	metadatatest.AssertEqualProcessorGenaisegmentSpansDuplicate(t, tt, value(0), bare)
	metadatatest.AssertEqualProcessorGenaisegmentTracesBuffered(t, tt, value(2), bare)
	metadatatest.AssertEqualProcessorGenaisegmentTracesOpen(t, tt, value(1), bare)
	metadatatest.AssertEqualProcessorGenaisegmentTracesLimit(t, tt, value(20_000), bare)
	metadatatest.AssertEqualProcessorGenaisegmentSpansLimit(t, tt, value(500_000), bare)
	metadatatest.AssertEqualProcessorGenaisegmentMemoryLimit(t, tt, value(256<<20), bare)

	// All of them answer, and the late spans' age too.
	for _, name := range []string{"releases", "rows", "rows_dropped", "evictions", "spans_dropped", "late_span_age", "memory_usage", "label_values_overflow", "checkpoint_spans"} {
		m, err := tt.GetMetric("otelcol_processor_genaisegment_" + name)
		require.NoError(t, err)
		require.False(t, strings.HasSuffix(m.Name, "_total"))
	}
	c.Advance(2 * time.Second) // a span is compared with what is known when it is released
	metadatatest.AssertEqualProcessorGenaisegmentSpansDuplicate(t, tt, value(5), bare)
	require.NoError(t, p.Shutdown(t.Context()))
}
