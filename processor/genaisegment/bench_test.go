package genaisegment

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/processor/processortest"

	"driftline/internal/clock"
	"driftline/processor/genaisegment/internal/metadata"
)

// BenchmarkRetriedRequests measures the whole way of a span: taken, held, understood,
// annotated and sent.
func BenchmarkRetriedRequests(b *testing.B) {
	b.ReportAllocs()
	cfg := createDefaultConfig()
	c := clock.NewManual(began)
	p, err := NewFactoryWithClock(c).CreateTraces(b.Context(), processortest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(b, err)
	require.NoError(b, p.Start(b.Context(), componenttest.NewNopHost()))
	n := 0
	for b.Loop() {
		td := retried(1)
		for _, span := range spansIn(td) {
			id := span.TraceID()
			binary.BigEndian.PutUint64(id[1:], uint64(n))
			span.SetTraceID(id)
		}
		if err := p.ConsumeTraces(b.Context(), td); err != nil {
			b.Fatal(err)
		}
		if n++; n%100 == 0 {
			c.Advance(500 * time.Millisecond)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(5*n), "ns/span")
	require.NoError(b, p.Shutdown(b.Context()))
}
