package storagetest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/annotate"
	"driftline/internal/clock"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
	"driftline/schema"
)

const (
	spansPerTrace = 8
	benchTraces   = 1000
)

// annotated is a batch of traces as the processor sends them: per trace a root, three model
// calls with an HTTP child each, and a tool call; one model call had a failed attempt.
func annotated(run int) ptrace.Traces {
	td := ptrace.NewTraces()
	for i := range benchTraces {
		rs := td.ResourceSpans().AppendEmpty()
		service := fmt.Sprint("service-", i%20)
		rs.Resource().Attributes().PutStr("service.name", service)
		spans := rs.ScopeSpans().AppendEmpty().Spans()
		trace := pcommon.TraceID{byte(run >> 8), byte(run), 2: byte(i >> 8), 3: byte(i), 14: 1, 15: byte(i * 7)}
		common := rows.Common{ServiceName: service, TraceID: trace.String(), Revision: 1}
		begin := start.Add(time.Duration(i) * 7 * time.Millisecond)
		facts := rows.Facts{
			ServiceVersion: "1.4.2", Environment: "prod", Agent: "planner", Kind: rows.KindChat, Name: "chat gpt-x",
			StartedAt: begin.UnixNano(), EndedAt: begin.Add(time.Duration(900+i%800) * time.Millisecond).UnixNano(),
			Outcome: rows.OutcomeOK, SampleWeight: 1,
		}
		request := fmt.Sprintf("%016x", i)
		for s := range spansPerTrace {
			span := spans.AppendEmpty()
			span.SetName([]string{"invoke_agent planner", "chat gpt-x", "POST"}[min(s, 1+s%2)])
			span.SetTraceID(trace)
			span.SetSpanID(pcommon.SpanID{byte(run), byte(i >> 8), byte(i), byte(s), 9})
			span.SetKind(ptrace.SpanKindClient)
			span.SetStartTimestamp(pcommon.NewTimestampFromTime(begin))
			span.SetEndTimestamp(pcommon.NewTimestampFromTime(begin.Add(time.Second)))
			a := span.Attributes()
			a.PutBool(annotate.MarkGenAI, true)
			a.PutStr("gen_ai.operation.name", "chat")
			a.PutStr("gen_ai.request.model", fmt.Sprint("model-", i%5))
			a.PutInt("gen_ai.usage.output_tokens", int64(100+i%900))
			a.PutStr("server.address", "api.example.net")
			if s == 0 {
				r := &rows.Request{Common: common, Facts: facts, RequestID: request, Operations: 4, Steps: 3, ToolCalls: 1, ReleaseReason: rows.ReleaseRoot}
				r.UserTimeNS = facts.EndedAt - facts.StartedAt
				annotate.Encode(r, span.Events().AppendEmpty())
				for k := range 6 {
					annotate.Encode(&rows.Segment{Common: common, RequestID: request, RequestEndedAt: facts.EndedAt, SegmentIndex: uint32(k), Kind: rows.SegmentKinds[k], StartedAt: facts.StartedAt + int64(k)*1e8, DurationNS: 1e8}, span.Events().AppendEmpty())
				}
			}
			if s%2 == 1 {
				ttft, attempts := int64(2e8+i*1000), uint32(1+s%2)
				op := &rows.Operation{Common: common, Facts: facts, OperationID: span.SpanID().String(), RequestID: request, Target: fmt.Sprint("model-", i%5), Provider: "openai", Endpoint: "api.example.net", Dialect: "semconv", Stream: rows.StreamYes, Attempts: &attempts, AttemptSource: rows.SourceHTTPChild, TTFTNS: &ttft, TTFTState: rows.TTFTKnown, InferenceTimeNS: &ttft, OnPath: true, PathNS: 5e8, StepIndex: uint32(s)}
				op.UserTimeNS, op.GenerationNS, op.TTFTSegmentNS = 9e8, 7e8, 2e8
				annotate.Encode(op, span.Events().AppendEmpty())
				annotate.Encode(&rows.Attempt{Common: common, Facts: facts, AttemptID: span.SpanID().String(), OperationID: op.OperationID, RequestID: request, Ordinal: 1, Last: true, Leaf: true, Layer: rows.LayerTransport, Source: rows.SourceHTTPChild, Target: op.Target, Provider: "openai", Endpoint: op.Endpoint, DurationNS: 8e8}, span.Events().AppendEmpty())
			}
		}
	}
	return td
}

// BenchmarkPush is the whole way of annotated spans into the embedded engine, decoded,
// encoded, sent over HTTP and stored, in batches of 8,000 spans with 15,000 findings.
func BenchmarkPush(b *testing.B) {
	e := enginetest.Shared(b)
	db, conn := e.Database(b), e.Conn(b)
	require.NoError(b, schema.Up(ctx, conn, schema.Options{Database: db}, nil))
	factory := genaiclickhouse.NewFactoryWithClock(clock.NewManual(start))
	cfg := factory.CreateDefaultConfig().(*genaiclickhouse.Config)
	cfg.Endpoint, cfg.Database = e.URL(b), db
	noQueue(cfg)
	exp, err := factory.CreateTraces(ctx, exportertest.NewNopSettings(factory.Type()), cfg)
	require.NoError(b, err)
	require.NoError(b, exp.Start(ctx, componenttest.NewNopHost()))
	defer func() { require.NoError(b, exp.Shutdown(ctx)) }()
	b.ReportAllocs()
	var own, engine float64
	b.ResetTimer()
	for i := range b.N {
		b.StopTimer()
		td := annotated(i)
		own, engine = own-cpu(b, os.Getpid()), engine-cpu(b, e.PID())
		b.StartTimer()
		require.NoError(b, exp.ConsumeTraces(ctx, td))
		own, engine = own+cpu(b, os.Getpid()), engine+cpu(b, e.PID())
	}
	seconds := b.Elapsed().Seconds()
	b.StopTimer()
	spans := float64(b.N) * benchTraces * spansPerTrace
	b.ReportMetric(spans/seconds, "spans/s")
	// On a busy machine these say more than spans/s.
	b.ReportMetric(own*1e6/spans, "own-cpu-µs/span")
	b.ReportMetric(engine*1e6/spans, "engine-cpu-µs/span")
	var stored, bytes uint64
	require.NoError(b, conn.QueryRow(ctx, "SELECT count() FROM "+db+".spans").Scan(&stored))
	require.EqualValues(b, spans, stored)
	require.NoError(b, conn.QueryRow(ctx, "SELECT sum(rows) FROM system.parts WHERE active AND database = ?", db).Scan(&stored))
	b.ReportMetric(float64(stored)/seconds, "rows/s")
	for _, table := range schema.Tables() {
		require.NoError(b, conn.Exec(ctx, "OPTIMIZE TABLE "+db+"."+table.Name+" FINAL"))
	}
	require.NoError(b, conn.QueryRow(ctx, "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = ?", db).Scan(&bytes))
	b.ReportMetric(float64(bytes)/spans, "disk-B/span")
}

// cpu is the CPU time a process has used, in seconds; 0 for a server given from outside.
func cpu(b *testing.B, pid int) float64 {
	if pid == 0 {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	user, err := strconv.ParseFloat(f[11], 64)
	require.NoError(b, err)
	system, err := strconv.ParseFloat(f[12], 64)
	require.NoError(b, err)
	return (user + system) / 100
}
