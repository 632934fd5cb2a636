package genaiclickhouse

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/annotate"
	"driftline/internal/rows"
)

// batches is what the collector's queue makes of what it is given, with the exporter's
// default settings.
type batches struct {
	mu    sync.Mutex
	at    []time.Time
	spans []int
	bytes []int
}

func (b *batches) push(_ context.Context, td ptrace.Traces) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = append(b.at, time.Now())
	b.spans = append(b.spans, td.SpanCount())
	b.bytes = append(b.bytes, (&ptrace.ProtoMarshaler{}).TracesSize(td))
	return nil
}

// feed starts the collector's queue before b, lets f fill it, and drains it.
func (b *batches) feed(t *testing.T, f func(consume func(ptrace.Traces))) {
	cfg := createDefaultConfig().(*Config)
	exp, err := exporterhelper.NewTraces(t.Context(), exportertest.NewNopSettings(NewFactory().Type()), cfg, b.push,
		exporterhelper.WithTimeout(cfg.TimeoutConfig), exporterhelper.WithRetry(cfg.RetryConfig), exporterhelper.WithQueue(cfg.QueueConfig))
	require.NoError(t, err)
	require.NoError(t, exp.Start(t.Context(), componenttest.NewNopHost()))
	f(func(td ptrace.Traces) { require.NoError(t, exp.ConsumeTraces(t.Context(), td)) })
	require.NoError(t, exp.Shutdown(context.Background()))
}

func oneOperation() ptrace.Traces {
	td := ptrace.NewTraces()
	span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetName("chat")
	annotate.Encode(&rows.Operation{Common: rows.Common{TraceID: "t"}, Facts: rows.Facts{Kind: rows.KindChat}}, span.Events().AppendEmpty())
	return td
}

// C51: an operation every 100 ms for five minutes makes at most one batch a second, and so,
// since a batch is one INSERT per table, at most one INSERT a second and table.
func TestC51LowTrafficMakesFewInserts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b batches
		begin := time.Now()
		b.feed(t, func(consume func(ptrace.Traces)) {
			for range 3000 {
				consume(oneOperation())
				time.Sleep(100 * time.Millisecond)
			}
		})
		require.Equal(t, 5*time.Minute, time.Since(begin).Truncate(time.Second))
		require.LessOrEqual(t, len(b.at), 300)
		for i := 1; i < len(b.at)-1; i++ { // the last is the shutdown's
			require.GreaterOrEqual(t, b.at[i].Sub(b.at[i-1]), 900*time.Millisecond)
		}
		sent := 0
		for _, n := range b.spans {
			sent += n
		}
		require.Equal(t, 3000, sent)
	})
}

// C51, the other end: at high traffic batches are bounded in bytes, and INSERTs in rows.
func TestC51HighTrafficMakesBoundedInserts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b batches
		tiny := ptrace.NewTraces()
		spans := tiny.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
		for range 400_000 {
			spans.AppendEmpty().SetName("x")
		}
		b.feed(t, func(consume func(ptrace.Traces)) { consume(tiny) })
		require.NotEmpty(t, b.bytes)
		for i, n := range b.bytes {
			require.LessOrEqual(t, n, defaultBatchMaxBytes, "batch %d", i)
		}
		pieces := cutRows(tiny, defaultInsertRows)
		require.Len(t, pieces, 4)
		sum := 0
		for _, piece := range pieces {
			require.LessOrEqual(t, piece.SpanCount(), defaultInsertRows)
			sum += piece.SpanCount()
		}
		require.Equal(t, 400_000, sum)
	})
}
