package genaisegment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"driftline/internal/clock"
	"driftline/processor/genaisegment/internal/metadatatest"
)

// read gives a metric's value: the sum of its points that have the attribute, if one is given.
func read(t *testing.T, tt *componenttest.Telemetry, name, key, value string) int64 {
	t.Helper()
	m, err := tt.GetMetric("otelcol_processor_genaisegment_" + name)
	require.NoError(t, err)
	var points []metricdata.DataPoint[int64]
	switch data := m.Data.(type) {
	case metricdata.Gauge[int64]:
		points = data.DataPoints
	case metricdata.Sum[int64]:
		points = data.DataPoints
	default:
		t.Fatalf("%s is %T", name, m.Data)
	}
	sum := int64(0)
	for _, p := range points {
		if v, ok := p.Attributes.Value(attribute.Key(key)); key == "" || ok && v.AsString() == value {
			sum += p.Value
		}
	}
	return sum
}

// TestEachBoundShowsItsLimitItsUseAndWhatItCut holds for every bound that its key is on a
// gauge, how much of it is used on another, and what gave way in a counter, which stays 0
// below the bound.
func TestEachBoundShowsItsLimitItsUseAndWhatItCut(t *testing.T) {
	open := func(n int) ptrace.Traces { // a trace without its root
		b := newBuilder(byte(n + 1))
		b.chat(2, 1, 0, time.Second).Attributes().PutStr("gen_ai.request.model", string(rune('a'+n)))
		return b.td
	}
	whole := func(n int) ptrace.Traces {
		b := newBuilder(byte(n + 1))
		b.agent(1, 2*time.Second)
		b.chat(2, 1, 0, time.Second).Attributes().PutStr("gen_ai.request.model", string(rune('a'+n)))
		return b.td
	}
	wide := func(n int) ptrace.Traces { // one trace that grows
		b := newBuilder(1)
		for k := range 5 {
			b.chat(byte(n*5+k+2), 1, 0, time.Second)
		}
		return b.td
	}
	heavy := func(n int) ptrace.Traces {
		b := newBuilder(byte(n + 1))
		b.chat(2, 1, 0, time.Second).Attributes().PutStr("app.blob", string(make([]byte, 200<<10)))
		return b.td
	}
	for _, c := range []struct {
		key                                         string
		set                                         func(*Config)
		send                                        func(n int) ptrace.Traces
		fits, more                                  int // how many fit, and how many are sent in all
		limit, usage, cut, by, of                   string
		wantLimit, usedMin, usedMax, cutMin, cutMax int64
	}{
		{key: "max_traces", set: func(c *Config) { c.MaxTraces = 4 }, send: open, fits: 4, more: 6,
			limit: "traces_limit", usage: "traces_open", cut: "evictions", by: "bound", of: "traces", wantLimit: 4, usedMin: 4, usedMax: 4, cutMin: 2, cutMax: 2},
		{key: "max_remembered_traces", set: func(c *Config) { c.MaxRememberedTraces = 4 }, send: whole, fits: 4, more: 6,
			limit: "traces_remembered_limit", usage: "traces_remembered", cut: "evictions", by: "bound", of: "remembered", wantLimit: 4, usedMin: 4, usedMax: 4, cutMin: 2, cutMax: 2},
		{key: "max_spans", set: func(c *Config) { c.MaxSpans, c.MaxSpansPerTrace = 4, 4 }, send: open, fits: 4, more: 6,
			limit: "spans_limit", usage: "spans_buffered", cut: "evictions", by: "bound", of: "spans", wantLimit: 4, usedMin: 1, usedMax: 4, cutMin: 1, cutMax: 4},
		{key: "max_memory_mib", set: func(c *Config) { c.MaxMemoryMiB = 1 }, send: heavy, fits: 3, more: 6,
			limit: "memory_limit", usage: "memory_usage", cut: "evictions", by: "bound", of: "bytes", wantLimit: 1 << 20, usedMin: 400 << 10, usedMax: 1 << 20, cutMin: 1, cutMax: 6},
		// All spans of the trace count as its use, those that are not understood included.
		{key: "max_spans_per_trace", set: func(c *Config) { c.MaxSpansPerTrace = 20 }, send: wide, fits: 4, more: 6,
			limit: "largest_trace_limit", usage: "largest_trace", cut: "spans_truncated", wantLimit: 20, usedMin: 30, usedMax: 30, cutMin: 10, cutMax: 10},
		{key: "max_label_values", set: func(c *Config) { c.MaxLabelValues = 4 }, send: whole, fits: 4, more: 6,
			limit: "label_values_limit", usage: "label_values", cut: "label_values_overflow", wantLimit: 4, usedMin: 4, usedMax: 4, cutMin: 2, cutMax: 8},
	} {
		t.Run(c.key, func(t *testing.T) {
			tt := componenttest.NewTelemetry()
			defer func() { require.NoError(t, tt.Shutdown(t.Context())) }()
			cfg := createDefaultConfig().(*Config)
			c.set(cfg)
			require.NoError(t, cfg.Validate())
			now := clock.NewManual(began)
			p, err := NewFactoryWithClock(now).CreateTraces(t.Context(), metadatatest.NewSettings(tt), cfg, new(consumertest.TracesSink))
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
			require.Equal(t, c.wantLimit, read(t, tt, c.limit, "", ""), c.limit)
			require.LessOrEqual(t, read(t, tt, c.usage, "", ""), c.usedMax/4, "%s of an idle processor", c.usage)
			for n := range c.more {
				if n == c.fits {
					now.Advance(3 * time.Second)
					require.Zero(t, read(t, tt, c.cut, c.by, c.of), "%s below the bound", c.cut)
				}
				require.NoError(t, p.ConsumeTraces(t.Context(), c.send(n)))
			}
			now.Advance(3 * time.Second)
			used := read(t, tt, c.usage, "", "")
			now.Advance(8 * time.Second) // what is cut off a trace is counted at its checkpoint
			cut := read(t, tt, c.cut, c.by, c.of)
			require.True(t, used >= c.usedMin && used <= c.usedMax, "%s is %d", c.usage, used)
			require.True(t, cut >= c.cutMin && cut <= c.cutMax, "%s is %d", c.cut, cut)
			require.NoError(t, p.Shutdown(t.Context()))
		})
	}
}
