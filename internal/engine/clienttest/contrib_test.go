package clienttest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/clickhouseexporter"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/engine"
	"driftline/internal/engine/enginetest"
)

// Contrib's exporter, with its defaults (asynchronous inserts and LZ4 among them) but for the queue, creates its tables, inserts,
// and its rows read back right.
func TestContribExporter(t *testing.T) {
	t.Setenv(engine.EnvPassword, "sesame")
	e := enginetest.Start(t)
	for _, compress := range []string{"lz4", "none", "zstd", "gzip"} {
		t.Run(compress, func(t *testing.T) {
			ctx := context.Background()
			database := "contrib_" + compress
			factory := clickhouseexporter.NewFactory()
			config := factory.CreateDefaultConfig()
			must(t, confmap.NewFromStringMap(map[string]any{
				"endpoint": e.URL(t), "username": "default", "password": "sesame", "database": database, "create_schema": true, "compress": compress,
				"ttl": "72h", "sending_queue": map[string]any{"enabled": false}, "retry_on_failure": map[string]any{"enabled": false},
			}).Unmarshal(config))
			exporter, err := factory.CreateTraces(ctx, exportertest.NewNopSettings(factory.Type()), config)
			must(t, err)
			must(t, exporter.Start(ctx, componenttest.NewNopHost()))
			defer func() { must(t, exporter.Shutdown(ctx)) }()
			const batches, spans = 3, 500
			start := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
			for b := range batches {
				must(t, exporter.ConsumeTraces(ctx, contribBatch(b, spans, start)))
			}
			params := map[string]string{"database": database}
			for query, want := range map[string]string{
				"SELECT count(), uniqExact(SpanId), uniqExact(TraceId), sum(Duration) FROM otel_traces": "1500\t1500\t3\t374250000000\n",
				"SELECT ServiceName, SpanName, SpanKind, StatusCode, SpanAttributes['gen_ai.request.model'], ResourceAttributes['service.name'], Events.Name, Events.Attributes[1]['n'] FROM otel_traces WHERE SpanId = '0000000000010002'": "checkout\tchat 2\tClient\tError\tmodel-2\tcheckout\t['retry']\t2\n",
				"SELECT count() FROM otel_traces_trace_id_ts":             "3\n",
				"SELECT toString(min(Timestamp), 'UTC') FROM otel_traces": start.UTC().Format("2006-01-02 15:04:05.000000000") + "\n",
			} {
				if got := ask(t, e, params, query); got != want {
					t.Errorf("%s: %q, want %q", query, got, want)
				}
			}
		})
	}
}

func contribBatch(batch, n int, start time.Time) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "checkout")
	list := rs.ScopeSpans().AppendEmpty().Spans()
	for i := range n {
		span := list.AppendEmpty()
		span.SetTraceID(pcommon.TraceID{0: 1, 15: byte(batch)})
		span.SetSpanID(pcommon.SpanID{5: byte(batch), 6: byte(i >> 8), 7: byte(i)})
		span.SetName(fmt.Sprint("chat ", i))
		span.SetKind(ptrace.SpanKindClient)
		span.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
		span.SetEndTimestamp(pcommon.NewTimestampFromTime(start.Add(time.Duration(i) * time.Millisecond)))
		span.Status().SetCode(ptrace.StatusCodeError)
		span.Attributes().PutStr("gen_ai.request.model", fmt.Sprint("model-", i))
		event := span.Events().AppendEmpty()
		event.SetName("retry")
		event.SetTimestamp(span.StartTimestamp())
		event.Attributes().PutStr("n", fmt.Sprint(i))
	}
	return td
}

func ask(t *testing.T, e *enginetest.Engine, params map[string]string, query string) string {
	t.Helper()
	args := []string{"-sS", "-G", "-u", "default:sesame", e.URL(t), "--data-urlencode", "query=" + query}
	for k, v := range params {
		args = append(args, "--data-urlencode", k+"="+v)
	}
	return output(t, "curl", args...)
}
