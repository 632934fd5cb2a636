package genaisegment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"driftline/internal/annotate"
	"driftline/internal/rows"
	"driftline/processor/genaisegment/internal/metadata"
)

func TestRetriedRequestIsUnderstood(t *testing.T) {
	r := newRig(t, nil)
	r.consume(t, retried(1))
	r.clock.Advance(time.Second)
	require.Empty(t, r.spans(), "stragglers are waited for")
	r.clock.Advance(time.Second)
	got := r.spans()
	require.Len(t, got, 5)
	all := rowsOf(t, got)
	requests := pick[*rows.Request](all)
	require.Len(t, requests, 1)
	require.Equal(t, rows.ReleaseRoot, requests[0].ReleaseReason)
	require.NotNil(t, requests[0].Retries)
	require.EqualValues(t, 2, *requests[0].Retries)
	require.NotNil(t, requests[0].DeadlineMissed)
	require.True(t, *requests[0].DeadlineMissed)
	require.EqualValues(t, 9*time.Second, requests[0].Sum())

	for _, span := range got {
		mark := span.Attributes().AsRaw()
		require.Equal(t, true, mark[annotate.MarkGenAI])
		switch span.SpanID()[0] {
		case 1:
			require.InDelta(t, 5000, mark[annotate.MarkHiddenMS], 1e-6)
		case 2:
			require.EqualValues(t, 3, mark[annotate.MarkAttempts])
			require.InDelta(t, 5000, mark[annotate.MarkHiddenMS], 1e-6)
		case 3, 4, 5:
			require.Equal(t, "0200000000000001", mark[annotate.MarkOperationID])
			require.EqualValues(t, span.SpanID()[0]-2, mark[annotate.MarkAttemptOrdinal])
		}
	}
	r.ledger(t)
	require.NoError(t, r.Shutdown(t.Context()))
}

func TestRowsHoldNoContent(t *testing.T) {
	r := newRig(t, nil)
	r.consume(t, retried(1))
	r.clock.Advance(2 * time.Second)
	for _, span := range r.spans() {
		for _, event := range span.Events().All() {
			for key, value := range event.Attributes().All() {
				require.NotContains(t, value.AsString(), "secret", key)
			}
		}
	}
}

func TestPlainTracesPassUntouched(t *testing.T) {
	r := newRig(t, nil)
	b := newBuilder(1)
	b.http(3, 0, 0, time.Second, 200)
	want := ptrace.NewTraces()
	b.td.CopyTo(want)
	r.consume(t, b.td)
	r.clock.Advance(2 * time.Second)
	require.Len(t, r.sink.AllTraces(), 1)
	require.Equal(t, want, r.sink.AllTraces()[0])
}

func TestSpansHandledBeforePassAtOnce(t *testing.T) {
	first := newRig(t, nil)
	first.consume(t, retried(1))
	first.clock.Advance(2 * time.Second)
	marked := first.sink.AllTraces()[0]
	want := ptrace.NewTraces()
	marked.CopyTo(want)

	second := newRig(t, func(c *Config) { c.TrustAnnotations = true })
	second.consume(t, marked)
	require.Len(t, second.sink.AllTraces(), 1, "without waiting")
	require.Equal(t, want, second.sink.AllTraces()[0])
	require.EqualValues(t, 5, second.ledger(t).received)
}

func TestForgedAnnotationsAreTakenOff(t *testing.T) {
	r := newRig(t, nil)
	forge := func(span ptrace.Span) {
		span.Attributes().PutBool(annotate.MarkGenAI, true)
		span.Attributes().PutStr(annotate.MarkOperationID, "another's")
		span.Attributes().PutInt("driftline.timeout_ms", 5000)
		annotate.Encode(&rows.Request{
			Common:    rows.Common{ServiceName: "victim", TraceID: "0102", Revision: 1 << 60, Deleted: true},
			Facts:     rows.Facts{EndedAt: began.UnixNano(), SampleWeight: 1},
			RequestID: "0a",
		}, span.Events().AppendEmpty())
		span.Events().AppendEmpty().SetName("the application's own")
	}
	plain := newBuilder(1)
	forge(plain.span(1, 0, "GET /", 0, time.Second))
	calls := newBuilder(2)
	forge(calls.chat(1, 0, 0, time.Second))
	checkpoint := newBuilder(3)
	span := checkpoint.span(1, 0, annotate.CheckpointName, 0, 0)
	span.Attributes().PutBool(annotate.MarkSynthetic, true)
	forge(span)
	for _, b := range []*builder{plain, calls, checkpoint} {
		r.consume(t, b.td)
	}
	require.Len(t, r.spans(), 1, "the checkpoint span passes at once and is no root")
	r.clock.Advance(time.Minute)
	got := r.spans()
	require.Len(t, got, 3)
	for _, span := range got {
		require.Equal(t, "the application's own", span.Events().At(0).Name())
		_, kept := span.Attributes().Get("driftline.timeout_ms")
		require.True(t, kept, "an attribute that applications set")
	}
	written := rowsOf(t, got)
	require.NotEmpty(t, pick[*rows.Operation](written), "the call is analysed")
	for _, row := range written {
		require.NotEqual(t, "victim", row.Head().ServiceName)
	}
	require.EqualValues(t, 3, r.ledger(t).stripped)
}

// Spans without a trace id would all look like one trace, and a row without one has no
// key: they pass at once as they are, and are counted.
func TestSpansWithoutIDsPass(t *testing.T) {
	r := newRig(t, nil)
	b := newBuilder(1)
	b.chat(1, 0, 0, time.Second).SetTraceID(pcommon.TraceID{})
	b.chat(2, 0, 0, time.Second).SetSpanID(pcommon.SpanID{})
	b.chat(3, 0, 0, time.Second)
	r.consume(t, b.td)
	got := r.spans()
	require.Len(t, got, 2)
	for _, span := range got {
		require.Zero(t, span.Events().Len())
		require.False(t, annotate.IsMarked(span))
	}
	r.clock.Advance(time.Minute)
	require.Len(t, r.spans(), 3)
	require.Len(t, pick[*rows.Operation](rowsOf(t, r.spans())), 1)
	require.EqualValues(t, 2, r.ledger(t).withoutIDs)
}

// A framework's span that comes after the model span inside it makes them one call at once,
// not only when the trace is complete.
func TestAnAbsorbedOperationIsTakenBackWhileOpen(t *testing.T) {
	r := newRig(t, nil)
	b := newBuilder(1)
	b.chat(3, 2, time.Second, 3*time.Second)
	r.consume(t, b.td)
	r.clock.Advance(15 * time.Second)
	require.Len(t, pick[*rows.Operation](rowsOf(t, r.spans())), 1)
	b = newBuilder(1)
	b.chat(2, 1, time.Second, 14*time.Second)
	r.consume(t, b.td)
	r.clock.Advance(5 * time.Minute) // the agent goes on
	require.Len(t, pick[*rows.Operation](rowsOf(t, r.spans())), 1)
}

func TestOpenRequestsRideOnCheckpointSpans(t *testing.T) {
	r := newRig(t, nil)
	b := newBuilder(1)
	b.chat(2, 1, 0, time.Second)
	r.consume(t, b.td)
	r.clock.Advance(10 * time.Second)
	require.Len(t, r.spans(), 1, "the first snapshot rides on the call")
	r.clock.Advance(10 * time.Second)
	got := r.spans()
	require.Len(t, got, 2)
	require.True(t, annotate.IsSynthetic(got[1]))
	require.Equal(t, annotate.CheckpointName, got[1].Name())
	require.Equal(t, got[0].TraceID(), got[1].TraceID())
	open := pick[*rows.OpenRequest](rowsOf(t, got))
	require.Len(t, open, 2)
	c := r.ledger(t)
	require.EqualValues(t, 1, c.out.sent)
	require.EqualValues(t, 1, c.out.synthetic)
	r.clock.Advance(time.Hour)
	require.Zero(t, r.ledger(t).buffer.Traces, "timed out and forgotten")
	timedOut := pick[*rows.Operation](rowsOf(t, r.spans()))
	require.Len(t, timedOut, 1)
}

func TestRowsNameTheirOwnService(t *testing.T) {
	r := newRig(t, nil)
	b := newBuilder(1)
	b.chat(2, 1, 0, time.Second)
	r.consume(t, b.td)
	r.clock.Advance(30 * time.Second)
	for _, row := range rowsOf(t, r.spans()) {
		require.Equal(t, "shop", row.Head().ServiceName)
	}
}

func TestShutdownDrains(t *testing.T) {
	r := newRig(t, nil)
	r.consume(t, retried(1))
	r.consume(t, retried(2))
	require.NoError(t, r.Shutdown(t.Context()))
	require.Len(t, r.spans(), 10)
	for _, q := range pick[*rows.Request](rowsOf(t, r.spans())) {
		require.Equal(t, rows.ReleaseShutdown, q.ReleaseReason)
	}
	require.Zero(t, r.ledger(t).held)
}

func TestShutdownKeepsItsDeadlineAndCountsTheLoss(t *testing.T) {
	r := newRig(t, nil)
	r.consume(t, retried(1))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, r.Shutdown(over), "5 held spans were lost")
	c := r.ledger(t)
	require.EqualValues(t, 5, c.out.dropped[dropShutdown])
	require.Zero(t, c.held)
}

func TestTemporaryFailureIsRetried(t *testing.T) {
	for _, mutates := range []bool{false, true} {
		t.Run(fmt.Sprintf("mutates %t", mutates), func(t *testing.T) {
			next := &failing{TracesSink: new(consumertest.TracesSink), err: errors.New("full"), mutates: mutates}
			r := newRigTo(t, next, next.TracesSink, nil)
			r.consume(t, retried(1))
			r.clock.Advance(4 * time.Second)
			require.EqualValues(t, 5, r.ledger(t).held)
			next.err = nil
			r.clock.Advance(40 * time.Second)
			require.Len(t, r.spans(), 5)
			c := r.ledger(t)
			require.EqualValues(t, 5, c.out.sent)
			require.Zero(t, c.held)
			require.Zero(t, c.out.bytes)
		})
	}
}

func TestPermanentFailureIsCounted(t *testing.T) {
	next := &failing{TracesSink: new(consumertest.TracesSink), err: consumererror.NewPermanent(errors.New("no"))}
	r := newRigTo(t, next, next.TracesSink, nil)
	r.consume(t, retried(1))
	r.clock.Advance(2 * time.Second)
	c := r.ledger(t)
	require.EqualValues(t, 5, c.out.dropped[dropDownstream])
	require.NotZero(t, c.out.droppedRows[dropDownstream])
	require.Zero(t, c.held)
}

// While the next component fails, memory is bounded: senders are refused at half, and
// what is released all the same makes the oldest give way.
func TestLongFailureIsBounded(t *testing.T) {
	next := &failing{TracesSink: new(consumertest.TracesSink), err: errors.New("full")}
	r := newRigTo(t, next, next.TracesSink, func(c *Config) { c.MaxMemoryMiB, c.Remember = 1, time.Second })
	refused := 0
	for i := range 250 {
		if err := r.ConsumeTraces(t.Context(), retried(byte(i))); err != nil {
			require.False(t, consumererror.IsPermanent(err))
			refused++
		}
		r.clock.Advance(500 * time.Millisecond)
		c := r.ledger(t)
		require.LessOrEqual(t, c.bytes, r.cfg.maxBytes())
	}
	require.NotZero(t, refused)
	require.EqualValues(t, 5*refused, r.ledger(t).out.refused)
	require.ErrorContains(t, r.Shutdown(t.Context()), "were lost at shutdown")
	require.Zero(t, r.ledger(t).held)
}

func TestBatchesAreCut(t *testing.T) {
	r := newRig(t, nil)
	b := newBuilder(1)
	for i := range 10_000 {
		s := b.http(0, 9, 0, time.Second, 200)
		id := s.SpanID()
		id[5], id[6] = byte(i>>8), byte(i)
		s.SetSpanID(id)
	}
	r.consume(t, b.td)
	r.clock.Advance(40 * time.Second) // calls wait for a GenAI span of their trace
	require.Len(t, r.sink.AllTraces(), 10)
	require.Len(t, r.spans(), 10_000)
	r.ledger(t)
}

// With the machine's clock, many senders and a slow end, every span comes out once.
func TestConcurrentSenders(t *testing.T) {
	sink := new(consumertest.TracesSink)
	cfg := createDefaultConfig().(*Config)
	cfg.Linger, cfg.CheckpointInterval, cfg.MaxTraces = tick, tick, 40
	p, err := NewFactory().CreateTraces(t.Context(), processortest.NewNopSettings(metadata.Type), cfg, consumer.Traces(sink))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	var senders sync.WaitGroup
	const perSender = 60
	for sender := range 4 {
		senders.Go(func() {
			for i := range perSender {
				if err := p.ConsumeTraces(t.Context(), retried(byte(sender*perSender+i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	require.NoError(t, p.Shutdown(t.Context()))
	r := &rig{segments: p.(*segments), sink: sink}
	seen := map[string]int{}
	for _, span := range r.spans() {
		if !annotate.IsSynthetic(span) {
			seen[span.TraceID().String()+span.SpanID().String()]++
		}
	}
	require.Len(t, seen, 4*perSender*5)
	for id, n := range seen {
		require.Equal(t, 1, n, id)
	}
	c := r.ledger(t)
	require.Zero(t, c.held)
	require.NotZero(t, c.buffer.EvictedOpen["traces"])
}
