package genaisegment

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"driftline/internal/clock"
	"driftline/internal/rows"
	"driftline/processor/genaisegment/internal/metadata"
	"driftline/processor/genaisegment/internal/metadatatest"
)

// pair is one processor in a traces pipeline and in a logs pipeline.
type pair struct {
	*rig
	logs processor.Logs
	out  *consumertest.LogsSink
	tel  *componenttest.Telemetry
}

func newPair(t *testing.T) *pair {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	c := clock.NewManual(began)
	factory := NewFactoryWithClock(c)
	p := &pair{out: new(consumertest.LogsSink), tel: componenttest.NewTelemetry()}
	sink := new(consumertest.TracesSink)
	traces, err := factory.CreateTraces(t.Context(), processortest.NewNopSettings(metadata.Type), cfg, sink)
	require.NoError(t, err)
	p.logs, err = factory.CreateLogs(t.Context(), metadatatest.NewSettings(p.tel), cfg, p.out)
	require.NoError(t, err)
	require.NoError(t, p.logs.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, traces.Start(t.Context(), componenttest.NewNopHost()))
	p.rig = &rig{segments: traces.(*segments), clock: c, sink: sink}
	t.Cleanup(func() {
		require.NoError(t, p.logs.Shutdown(t.Context()))
		require.NoError(t, traces.Shutdown(t.Context()))
	})
	return p
}

func (p *pair) send(t *testing.T, ld plog.Logs) {
	t.Helper()
	ld.MarkReadOnly() // others may hold it too
	require.NoError(t, p.logs.ConsumeLogs(t.Context(), ld))
}

// opened gives the snapshots that came out, the latest last.
func (p *pair) opened(t *testing.T) []*rows.OpenRequest {
	var out []*rows.OpenRequest
	for _, o := range pick[*rows.OpenRequest](rowsOf(t, p.spans())) {
		at := len(out)
		for at > 0 && out[at-1].ObservedAt > o.ObservedAt {
			at--
		}
		out = append(out[:at], append([]*rows.OpenRequest{o}, out[at:]...)...)
	}
	return out
}

// record makes logs of one record.
func record(at time.Time) (plog.Logs, plog.LogRecord) {
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("service.name", "shop")
	r := rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	r.SetTimestamp(pcommon.NewTimestampFromTime(at))
	return ld, r
}

const writtenByPeople = "CANARY-what-people-wrote"

// forms are heartbeats of a span as different senders write them.
var forms = map[string]func(t *testing.T, event string, at time.Time) plog.Logs{
	"a partial span processor's JSON": func(t *testing.T, event string, at time.Time) plog.Logs {
		ld, r := record(at)
		var encode ptrace.JSONMarshaler
		body, err := encode.MarshalTraces(runningSpan())
		require.NoError(t, err)
		require.True(t, json.Valid(body))
		r.Attributes().PutStr("partial.event", event)
		r.Attributes().PutStr("partial.frequency", "10000ms")
		r.Attributes().PutStr("partial.body.type", "json/v1")
		r.Body().SetStr(string(body))
		return ld
	},
	"a partial span processor's protobuf": func(t *testing.T, event string, at time.Time) plog.Logs {
		ld, r := record(at)
		var encode ptrace.ProtoMarshaler
		body, err := encode.MarshalTraces(runningSpan())
		require.NoError(t, err)
		r.Attributes().PutStr("partial.event", event)
		r.Body().SetStr(base64.StdEncoding.EncodeToString(body))
		return ld
	},
	"an application's own": func(_ *testing.T, event string, at time.Time) plog.Logs {
		ld, r := record(at)
		s := spansIn(runningSpan())[0]
		r.SetTraceID(s.TraceID())
		r.SetSpanID(s.SpanID())
		r.SetEventName("driftline.heartbeat")
		if event == "stop" {
			r.SetEventName("driftline.heartbeat.stop")
		}
		s.Attributes().CopyTo(r.Attributes())
		r.Attributes().PutInt("driftline.started_at_unix_ms", began.UnixMilli())
		r.Body().SetStr(writtenByPeople)
		return ld
	},
}

func runningSpan() ptrace.Traces {
	b := newBuilder(1)
	s := b.span(2, 1, "invoke_agent planner", 0, 0)
	s.SetEndTimestamp(0)
	s.Attributes().PutStr("gen_ai.operation.name", "invoke_agent")
	s.Attributes().PutStr("gen_ai.agent.name", "planner")
	s.Attributes().PutStr("gen_ai.input.messages", writtenByPeople)
	return b.td
}

// C89: heartbeat logs each 10 s until 300 s, then none, and no span: by 360 s the snapshots
// show a request that was alive each 10 s and has been silent for 60.
func TestC89_HeartbeatLogs(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			for i := range 31 {
				if i > 0 {
					p.clock.Advance(10 * time.Second)
				}
				p.send(t, form(t, "heartbeat", p.clock.Now()))
			}
			p.clock.Advance(60 * time.Second)
			require.Equal(t, 360*time.Second, p.oldestOpen())
			all := p.opened(t)
			require.NotEmpty(t, all)
			o := all[len(all)-1]
			require.Equal(t, began.Add(360*time.Second).UnixNano(), o.ObservedAt)
			require.Equal(t, began.Add(300*time.Second).UnixNano(), o.LastSpanAt)
			require.Equal(t, began.UnixNano(), o.StartedAt)
			require.EqualValues(t, 360*time.Second, o.AgeNS)
			require.EqualValues(t, 31, o.Spans)
			require.Equal(t, "planner", o.Agent)
			require.Equal(t, "shop", o.ServiceName)
			require.Equal(t, 31, p.out.LogRecordCount(), "logs pass")

			p.clock.Advance(20 * time.Minute)
			require.Zero(t, p.oldestOpen())
			rs := rowsOf(t, p.spans())
			require.Empty(t, pick[*rows.Request](rs))
			require.Empty(t, pick[*rows.Operation](rs))
			c := p.ledger(t)
			require.Zero(t, c.received)
			require.Zero(t, c.buffer.Bytes)
			for _, s := range p.spans() {
				require.NotContains(t, fmt.Sprint(s.Attributes().AsRaw(), s.Name()), writtenByPeople)
				for _, e := range s.Events().All() {
					require.NotContains(t, fmt.Sprint(e.Attributes().AsRaw()), writtenByPeople)
				}
			}
		})
	}
}

// A hang that ends well: the spans come after all, and nothing is open any more.
func TestHeartbeatLogsEndWithTheirSpans(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.send(t, form(t, "heartbeat", p.clock.Now()))
			p.clock.Advance(15 * time.Second)
			p.send(t, form(t, "stop", p.clock.Now()))
			td := runningSpan()
			s := spansIn(td)[0]
			s.SetEndTimestamp(pcommon.NewTimestampFromTime(began.Add(15 * time.Second)))
			p.consume(t, td)
			b := newBuilder(1)
			b.agent(1, 16*time.Second)
			p.consume(t, b.td)
			p.clock.Advance(3 * time.Second)
			rs := rowsOf(t, p.spans())
			require.Len(t, pick[*rows.Request](rs), 1)
			require.Equal(t, rows.OutcomeOK, pick[*rows.Request](rs)[0].Outcome)
			sent := len(p.opened(t))
			require.NotZero(t, sent)
			p.clock.Advance(time.Minute)
			require.Len(t, p.opened(t), sent)
		})
	}
}

// Logs that are no heartbeats, or cannot be read, pass and are counted by what became of them.
func TestHeartbeatsThatSayNothing(t *testing.T) {
	p := newPair(t)
	good := forms["a partial span processor's JSON"]
	p.send(t, good(t, "heartbeat", p.clock.Now()))
	for _, change := range []func(plog.LogRecord){
		func(r plog.LogRecord) { r.Attributes().PutStr("partial.event", "unheard of") },
		func(r plog.LogRecord) { r.Attributes().Remove("partial.event") },
		func(r plog.LogRecord) { r.Body().SetStr("{") },
		func(r plog.LogRecord) { r.Body().SetStr("{}") },
		func(r plog.LogRecord) { r.Body().SetInt(7) },
		func(r plog.LogRecord) { r.Body().SetStr(strings.Repeat(" ", maxHeartbeat+1)) },
		func(r plog.LogRecord) { r.Attributes().PutStr("partial.body.type", "proto") },
		func(r plog.LogRecord) { r.Attributes().Clear(); r.SetEventName("driftline.heartbeat") }, // without ids
	} {
		ld := good(t, "heartbeat", p.clock.Now())
		change(ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0))
		p.send(t, ld)
	}
	// Of a span that is no GenAI work, in a trace that nothing is known of.
	ld, r := record(p.clock.Now())
	td := runningSpan()
	spansIn(td)[0].Attributes().Clear()
	spansIn(td)[0].SetName("sync")
	spansIn(td)[0].SetTraceID(pcommon.TraceID{9})
	var encode ptrace.JSONMarshaler
	body, err := encode.MarshalTraces(td)
	require.NoError(t, err)
	r.Attributes().PutStr("partial.event", "heartbeat")
	r.Attributes().PutStr("partial.body.type", "json/v1")
	r.Body().SetStr(string(body))
	p.send(t, ld)

	require.Equal(t, 10, p.out.LogRecordCount())
	require.EqualValues(t, 1, p.ledger(t).buffer.Traces)
	point := func(outcome string, n int64) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(attribute.String("outcome", outcome))}
	}
	metadatatest.AssertEqualProcessorGenaisegmentHeartbeats(t, p.tel, []metricdata.DataPoint[int64]{
		point(beatUsed, 1), point(beatIgnored, 1), point(beatUnreadable, 6),
	}, metricdatatest.IgnoreTimestamp())
}

// Heartbeats find the processor that has the trace, among several of one name.
func TestHeartbeatsFindTheirTrace(t *testing.T) {
	p := newPair(t)
	second, err := newProcessor(processortest.NewNopSettings(metadata.Type), p.cfg, new(consumertest.TracesSink), p.segments.clock)
	require.NoError(t, err)
	h := p.logs.(*heartbeats)
	h.registry.add(second)
	b := newBuilder(1)
	b.chat(3, 1, 0, time.Second)
	require.NoError(t, second.ConsumeTraces(t.Context(), b.td))
	p.send(t, forms["an application's own"](t, "heartbeat", p.clock.Now()))
	require.EqualValues(t, 1, second.snapshot().buffer.Heartbeats)
	require.Zero(t, p.snapshot().buffer.Heartbeats)
	require.NoError(t, second.Shutdown(t.Context()))
	require.Len(t, h.registry.of(p.cfg), 1)
}

// Alone in a logs pipeline the processor says so once, and passes everything.
func TestHeartbeatsWithoutATracesPipeline(t *testing.T) {
	core, seen := observer.New(zap.WarnLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(core)
	out := new(consumertest.LogsSink)
	logs, err := NewFactory().CreateLogs(t.Context(), set, createDefaultConfig(), out)
	require.NoError(t, err)
	require.NoError(t, logs.Start(t.Context(), componenttest.NewNopHost()))
	require.Len(t, seen.FilterMessageSnippet("no traces pipeline names this processor").All(), 1)
	require.NoError(t, logs.ConsumeLogs(t.Context(), forms["an application's own"](t, "heartbeat", began)))
	require.Equal(t, 1, out.LogRecordCount())
	require.NoError(t, logs.Shutdown(t.Context()))
}

// A clock that is ahead, was not set or counts in another unit neither hides that heartbeats
// have stopped, nor makes a snapshot that cannot be stored.
func TestHeartbeatsOfClocksThatAreWrong(t *testing.T) {
	for name, sent := range map[string]pcommon.Timestamp{
		"ahead": pcommon.NewTimestampFromTime(began.Add(48 * time.Hour)), "milliseconds": pcommon.Timestamp(began.UnixMilli()),
		"not set": 5, "no instant": 1<<63 + 5,
	} {
		for _, since := range []int64{1, began.Add(48 * time.Hour).UnixMilli()} {
			t.Run(fmt.Sprint(name, since), func(t *testing.T) {
				p := newPair(t)
				ld := forms["an application's own"](t, "heartbeat", began)
				r := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
				r.SetTimestamp(sent)
				r.Attributes().PutInt(startedAt, since)
				p.send(t, ld)
				p.clock.Advance(60 * time.Second)
				all := p.opened(t)
				require.NotEmpty(t, all)
				o := all[len(all)-1]
				require.Equal(t, began.UnixNano(), o.LastSpanAt, "when it came")
				require.Equal(t, began.UnixNano(), o.StartedAt)
				require.EqualValues(t, o.ObservedAt-began.UnixNano(), o.AgeNS)
			})
		}
	}
}
