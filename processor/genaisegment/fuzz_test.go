package genaisegment

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"driftline/internal/clock"
	"driftline/internal/rows"
	"driftline/processor/genaisegment/internal/metadata"
)

// FuzzOTLP sends any bytes that are an OTLP message through the processor: nothing may be
// lost or doubled, what comes out is what came in but for what driftline writes, and every
// row that it writes can be read.
func FuzzOTLP(f *testing.F) {
	var encode ptrace.ProtoMarshaler
	for _, td := range []ptrace.Traces{ptrace.NewTraces(), retried(1), hostile()} {
		data, err := encode.MarshalTraces(td)
		require.NoError(f, err)
		f.Add(data, uint8(0))
		f.Add(data, uint8(200))
	}
	f.Fuzz(func(t *testing.T, data []byte, pause uint8) {
		var decode ptrace.ProtoUnmarshaler
		td, err := decode.UnmarshalTraces(data)
		if err != nil {
			return
		}
		again, err := decode.UnmarshalTraces(data)
		require.NoError(t, err)
		sink := new(consumertest.TracesSink)
		cfg := createDefaultConfig().(*Config)
		cfg.MaxSpansPerTrace, cfg.MaxSpans, cfg.MaxTraces = 50, 100, 20
		c := clock.NewManual(began)
		made, err := NewFactoryWithClock(c).CreateTraces(t.Context(), processortest.NewNopSettings(metadata.Type), cfg, sink)
		require.NoError(t, err)
		p := made.(*segments)
		require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
		sent := int64(td.SpanCount() + again.SpanCount())
		require.NoError(t, p.ConsumeTraces(t.Context(), td))
		c.Advance(time.Duration(pause) * 250 * time.Millisecond)
		require.NoError(t, p.ConsumeTraces(t.Context(), again))
		c.Advance(15 * time.Second)
		require.NoError(t, p.Shutdown(t.Context()))
		counts := p.snapshot()
		require.Equal(t, sent, counts.received)
		require.Equal(t, sent, counts.out.sent)
		require.Zero(t, counts.held)
		require.Zero(t, counts.buffer.Spans)
		require.Zero(t, counts.buffer.Bytes)

		var out []ptrace.Span
		for _, td := range sink.AllTraces() {
			out = append(out, spansIn(td)...)
		}
		rowsOf(t, out)
		require.Equal(t, sent+counts.out.synthetic, int64(len(out)))
	})
}

// hostile is a message with odd ids, times, parents and values.
func hostile() ptrace.Traces {
	b := newBuilder(9)
	b.chat(1, 1, time.Hour, -time.Hour).Attributes().PutStr("gen_ai.usage.output_tokens", "-1e308")
	b.span(0, 2, "", 0, 0).SetTraceID([16]byte{})
	s := b.agent(2, 1<<62)
	s.SetEndTimestamp(1<<64 - 1)
	s.Attributes().PutStr(rows.AttributePrefix+"genai", strings.Repeat("x", 300))
	s.Events().AppendEmpty().SetName("driftline.operation")
	s.Attributes().PutEmptySlice("gen_ai.response.finish_reasons").AppendEmpty().SetEmptyMap()
	b.http(3, 2, 0, time.Second, 1<<40)
	return b.td
}
