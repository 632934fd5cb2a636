package genaisegment

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"driftline/internal/clock"
	"driftline/internal/rows"
	"driftline/processor/genaisegment/internal/metadata"
)

// heap is what lives on the heap, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what sync.Pool gave up in the first one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// numbered is td as a receiver decodes it, with the n-th ids.
func numbered(t *testing.T, data []byte, n int) ptrace.Traces {
	t.Helper()
	var decode ptrace.ProtoUnmarshaler
	td, err := decode.UnmarshalTraces(data)
	require.NoError(t, err)
	for _, span := range spansIn(td) {
		id := span.TraceID()
		binary.BigEndian.PutUint64(id[4:], uint64(n)+1)
		span.SetTraceID(id)
	}
	return td
}

// shapes are traces as different senders write them.
func shapes() map[string]func() ptrace.Traces {
	return map[string]func() ptrace.Traces{
		"retried request": func() ptrace.Traces { return retried(1) },
		"bare spans": func() ptrace.Traces {
			b := newBuilder(1)
			for i := range byte(10) {
				b.span(i+2, 1, "step", 0, time.Second)
			}
			b.agent(1, time.Second)
			return b.td
		},
		"prompts": func() ptrace.Traces {
			b := newBuilder(1)
			b.agent(1, time.Second)
			for i := range byte(4) {
				s := b.chat(i+2, 1, 0, time.Second)
				s.Attributes().PutStr("gen_ai.input.messages", strings.Repeat("what is it? ", 700))
				s.Attributes().PutStr("gen_ai.output.messages", strings.Repeat("it is this. ", 100))
			}
			return b.td
		},
		"streams with an event a chunk": func() ptrace.Traces {
			b := newBuilder(1)
			b.agent(1, time.Second)
			s := b.chat(2, 1, 0, time.Second)
			for i := range 60 {
				e := s.Events().AppendEmpty()
				e.SetName("gen_ai.content.chunk")
				e.SetTimestamp(pcommon.NewTimestampFromTime(began.Add(time.Duration(i) * time.Millisecond)))
				e.Attributes().PutInt("index", int64(i))
			}
			return b.td
		},
		"many attributes": func() ptrace.Traces {
			b := newBuilder(1)
			b.agent(1, time.Second)
			for i := range byte(8) {
				s := b.chat(i+2, 1, 0, time.Second)
				for k := range 40 {
					s.Attributes().PutStr(fmt.Sprintf("app.dimension.%02d", k), strings.Repeat("v", k))
				}
				s.Attributes().PutEmptySlice("gen_ai.response.finish_reasons").AppendEmpty().SetStr("stop")
				s.Attributes().PutEmptyMap("app.map").PutInt("n", 7)
			}
			return b.td
		},
		"one span": func() ptrace.Traces {
			b := newBuilder(1)
			b.chat(2, 0, 0, time.Second)
			return b.td
		},
		"a shop without GenAI": func() ptrace.Traces {
			b := newBuilder(1)
			for i := range byte(9) {
				b.http(i+2, 1, 0, time.Second, 200)
			}
			b.span(1, 0, "GET /", 0, time.Second)
			return b.td
		},
	}
}

// The bytes that are counted against max_memory_mib are those on the heap, for spans
// that are held and for traces that are remembered.
func TestAccountedBytesAreTheHeap(t *testing.T) {
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			cfg.MaxTraces, cfg.MaxRememberedTraces, cfg.MaxSpans, cfg.MaxMemoryMiB = 1<<20, 1<<20, 1<<30, 1<<14
			c := clock.NewManual(began)
			made, err := NewFactoryWithClock(c).CreateTraces(t.Context(), processortest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
			require.NoError(t, err)
			p := made.(*segments)
			require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
			var encode ptrace.ProtoMarshaler
			data, err := encode.MarshalTraces(shape())
			require.NoError(t, err)
			before := heap()
			n := 0
			for ; p.snapshot().bytes < 8<<20; n++ {
				require.NoError(t, p.ConsumeTraces(t.Context(), numbered(t, data, n)))
			}
			check := func(what string) {
				took, counted := heap()-before, p.snapshot().bytes
				t.Logf("%s, %d traces: %.1f MiB counted, %.1f MiB of heap: %+.0f %%; %d B a trace", what, n,
					float64(counted)/(1<<20), float64(took)/(1<<20), 100*(float64(counted)/float64(took)-1), took/int64(n))
				require.InEpsilon(t, took, counted, 0.15, what)
			}
			check("held")
			// Those released have few bytes each: more of them, for a heap that can be measured.
			c.Advance(2 * time.Second)
			for ; n < 6_000; n++ {
				require.NoError(t, p.ConsumeTraces(t.Context(), numbered(t, data, n)))
				if n%500 == 0 {
					c.Advance(time.Second)
				}
			}
			c.Advance(3 * time.Second)
			require.Zero(t, p.snapshot().held)
			require.EqualValues(t, n, p.snapshot().buffer.Remembered)
			check("remembered")
			runtime.KeepAlive(p)
			require.NoError(t, p.Shutdown(t.Context()))
		})
	}
}

// C42: 100,000 traces without roots, far more than are allowed, and ten minutes of event
// time: memory is flat, every span is accounted for, rows say that they are incomplete.
func TestC42_RootlessTracesStayWithinBounds(t *testing.T) {
	out := &tally{}
	r := newRigTo(t, out, nil, func(c *Config) { c.CheckpointInterval = 5 * time.Minute })
	before := heap()
	var flat []int64
	for n := range 1000 {
		b := newBuilder(1)
		for k := range 100 {
			id := pcommon.TraceID{7}
			binary.BigEndian.PutUint64(id[8:], uint64(n*100+k+1))
			b.chat(2, 1, 0, time.Second).SetTraceID(id)
		}
		r.consume(t, b.td)
		if n%10 == 9 {
			r.clock.Advance(600 * time.Millisecond)
		}
		if n%200 == 199 {
			flat = append(flat, heap()-before)
		}
	}
	c := r.ledger(t)
	require.EqualValues(t, 80_000, c.buffer.EvictedOpen["traces"])
	require.EqualValues(t, 20_000, c.buffer.Open)
	require.EqualValues(t, 20_000, c.buffer.Remembered)
	require.Equal(t, 80_000, out.incomplete)
	for range 10 {
		r.clock.Advance(time.Minute)
		flat = append(flat, heap()-before)
		require.LessOrEqual(t, r.ledger(t).bytes, r.cfg.maxBytes())
	}
	t.Logf("heap beyond the start, MiB: %v", mib(flat))
	for _, size := range flat {
		require.Less(t, size, int64(64<<20))
	}
	c = r.ledger(t)
	require.Zero(t, c.buffer.Open, "those that stay silent time out")
	require.EqualValues(t, 100_000, c.out.sent)
	require.Zero(t, c.held)
	require.Equal(t, 100_000, out.incomplete, "an operation of each trace says that its root is missing")
	require.NoError(t, r.Shutdown(t.Context()))
}

// C42 the other way round: where 100,000 traces without roots are allowed, all stay open for
// ten minutes, and memory does not grow while they are snapshot at every checkpoint.
func TestC42_AHundredThousandOpenTraces(t *testing.T) {
	const traces = 100_000
	out := &tally{}
	r := newRigTo(t, out, nil, func(c *Config) {
		c.MaxTraces, c.MaxRememberedTraces, c.TraceTimeout, c.CheckpointInterval = traces, 1000, 11*time.Minute, 4*time.Minute
	})
	before := heap()
	for n := range traces / 100 {
		b := newBuilder(1)
		for k := range 100 {
			id := pcommon.TraceID{8}
			binary.BigEndian.PutUint64(id[8:], uint64(n*100+k+1))
			b.chat(2, 1, 0, time.Second).SetTraceID(id)
		}
		r.consume(t, b.td)
	}
	var flat []int64
	for range 10 {
		r.clock.Advance(time.Minute)
		c := r.ledger(t)
		require.EqualValues(t, traces, c.buffer.Open)
		require.Empty(t, c.buffer.EvictedOpen)
		require.LessOrEqual(t, c.bytes, r.cfg.maxBytes())
		flat = append(flat, heap()-before)
	}
	t.Logf("heap beyond the start, MiB: %v", mib(flat))
	for _, size := range flat[5:] {
		require.Less(t, size, flat[4]+8<<20, "memory grows while nothing comes")
		require.Less(t, size, r.cfg.maxBytes())
	}
	r.clock.Advance(3 * time.Minute)
	c := r.ledger(t)
	require.Zero(t, c.buffer.Open, "those that stay silent time out")
	require.EqualValues(t, traces, c.out.sent)
	require.EqualValues(t, traces, c.buffer.Releases[rows.ReleaseTimeout])
	require.Zero(t, c.held)
	require.NoError(t, r.Shutdown(t.Context()))
}

func mib(sizes []int64) (out []int64) {
	for _, s := range sizes {
		out = append(out, s>>20)
	}
	return out
}

// tally counts what comes out and keeps nothing.
type tally struct {
	spans, incomplete int
	names             map[string]bool
}

func (*tally) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (y *tally) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	for _, span := range spansIn(td) {
		y.spans++
		for _, event := range span.Events().All() {
			if event.Name() != rows.TableOperations.EventName() {
				continue
			}
			if v, ok := event.Attributes().Get("driftline.incomplete"); ok && v.Bool() {
				y.incomplete++
			}
			if v, ok := event.Attributes().Get("driftline.target"); ok && y.names != nil {
				y.names[v.Str()] = true
			}
		}
	}
	return nil
}

// C44: a trace of 12,000 spans takes bounded time and says that it is partial.
func TestC44_HugeTraceIsPartialAndQuick(t *testing.T) {
	r := newRig(t, nil)
	b := newBuilder(1)
	for i := range 12_000 {
		s := b.span(0, 0, "execute_tool search", time.Duration(i)*10*time.Millisecond, time.Duration(i+1)*10*time.Millisecond)
		s.SetSpanID([8]byte{1, 2: byte(i >> 8), 3: byte(i)})
		s.SetParentSpanID([8]byte{9, 7: 1})
		s.SetKind(ptrace.SpanKindInternal)
		s.Attributes().PutStr("gen_ai.operation.name", "execute_tool")
		s.Attributes().PutStr("gen_ai.tool.name", "search")
	}
	b.agent(9, 2*time.Minute)
	r.consume(t, b.td)
	at := time.Now()
	r.clock.Advance(2 * time.Second)
	took := time.Since(at)
	t.Logf("released in %s", took)
	require.Less(t, took, 20*time.Second)
	require.Len(t, r.spans(), 12_001)
	requests := pick[*rows.Request](rowsOf(t, r.spans()))
	require.Len(t, requests, 1)
	require.True(t, requests[0].Truncated)
	require.EqualValues(t, 2000, r.ledger(t).buffer.Truncated)
	require.NoError(t, r.Shutdown(t.Context()))
}

// C46: 50,000 spans, each with a name and a model of its own.
func TestC46_NamesWithoutEndAreBounded(t *testing.T) {
	out := &tally{names: map[string]bool{}}
	r := newRigTo(t, out, nil, nil)
	for n := range 500 {
		b := newBuilder(1)
		for k := range 100 {
			s := b.chat(2, 0, 0, time.Second)
			id := pcommon.TraceID{7}
			binary.BigEndian.PutUint64(id[8:], uint64(n*100+k+1))
			s.SetTraceID(id)
			s.SetName(fmt.Sprintf("chat model-%d", n*100+k))
			s.Attributes().PutStr("gen_ai.request.model", fmt.Sprintf("model-%d", n*100+k))
		}
		r.consume(t, b.td)
		r.clock.Advance(500 * time.Millisecond)
	}
	r.clock.Advance(10 * time.Second)
	c := r.ledger(t)
	require.EqualValues(t, 50_000, c.out.sent)
	require.Len(t, out.names, 1001)
	require.True(t, out.names["other"])
	require.EqualValues(t, 1000, c.buffer.LabelValues)
	require.GreaterOrEqual(t, c.buffer.OverflowLabels, int64(49_000))
	require.NoError(t, r.Shutdown(t.Context()))
}

// C47: everything comes a second time, five seconds later.
func TestC47_CopiesAddNoAttempts(t *testing.T) {
	r := newRig(t, nil)
	r.consume(t, retried(1))
	r.clock.Advance(5 * time.Second)
	r.consume(t, retried(1))
	r.clock.Advance(5 * time.Second)
	got := r.spans()
	require.Len(t, got, 10, "copies pass, since no span is lost")
	all := rowsOf(t, got)
	for _, o := range pick[*rows.Operation](all) {
		if o.Kind == rows.KindChat {
			require.EqualValues(t, 3, *o.Attempts)
			require.EqualValues(t, 1, o.Revision, "a copy changes nothing")
		}
	}
	require.Len(t, pick[*rows.Attempt](all), 3)
	require.EqualValues(t, 5, r.ledger(t).buffer.Duplicates)
	require.NoError(t, r.Shutdown(t.Context()))
}

// C89: a request falls silent. Its age grows on the gauge and in the snapshots, which say
// when its last span was; after the trace's timeout what is known is released.
func TestC89_SilentRequestIsSeenByItsAge(t *testing.T) {
	r := newRig(t, nil)
	require.Zero(t, r.oldestOpen())
	b := newBuilder(1)
	b.chat(2, 1, 0, 10*time.Second)
	r.clock.Advance(10 * time.Second)
	r.consume(t, b.td)
	r.clock.Advance(350 * time.Second)
	require.Equal(t, 360*time.Second, r.oldestOpen())
	var latest *rows.OpenRequest
	for _, o := range pick[*rows.OpenRequest](rowsOf(t, r.spans())) {
		if latest == nil || o.ObservedAt > latest.ObservedAt {
			latest = o
		}
	}
	require.NotNil(t, latest)
	require.InDelta(t, 360e9, latest.AgeNS, 10e9)
	require.Equal(t, began.Add(10*time.Second).UnixNano(), latest.LastSpanAt)
	r.clock.Advance(10 * time.Minute)
	require.Zero(t, r.oldestOpen())
	require.EqualValues(t, 1, r.ledger(t).buffer.Releases[rows.ReleaseTimeout])
	for _, o := range pick[*rows.Operation](rowsOf(t, r.spans())) {
		require.True(t, o.Incomplete)
	}
	require.NoError(t, r.Shutdown(t.Context()))
}

// slow takes its time for each batch, and honours its context.
type slow struct {
	*consumertest.TracesSink
	takes time.Duration
}

func (s slow) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	select {
	case <-time.After(s.takes):
		return s.TracesSink.ConsumeTraces(ctx, td)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A shutdown takes no longer than it may, whatever the next component does, and counts
// what it could not send.
func TestShutdownDrainsWithinItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := slow{new(consumertest.TracesSink), time.Second}
		p, err := NewFactory().CreateTraces(t.Context(), processortest.NewNopSettings(metadata.Type), createDefaultConfig(), next)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
		for n := range 6 {
			b := newBuilder(byte(n + 1))
			for i := range batchSpans {
				b.span(0, 0, "step", 0, time.Second).SetSpanID([8]byte{1, 2: byte(i >> 8), 3: byte(i)})
			}
			for _, s := range spansIn(b.td) {
				s.SetParentSpanID([8]byte{9})
			}
			require.NoError(t, p.ConsumeTraces(t.Context(), b.td))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		at := time.Now()
		err = p.Shutdown(ctx)
		require.Equal(t, 3500*time.Millisecond, time.Since(at))
		require.ErrorContains(t, err, fmt.Sprintf("%d held spans were lost", 3*batchSpans))
		require.Equal(t, 3*batchSpans, next.SpanCount())
		c := p.(*segments).snapshot()
		require.Zero(t, c.held)
		require.EqualValues(t, 3*batchSpans, c.out.dropped[dropShutdown])
		require.Equal(t, c.received, c.out.sent+c.out.dropped[dropShutdown])
	})
}
