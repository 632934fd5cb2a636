package storagetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/annotate"
)

const secret = "the prompt nobody may read"

// mixedSpans is one GenAI span with content, one plain span and one synthetic span.
func mixedSpans() ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop")
	spans := rs.ScopeSpans().AppendEmpty().Spans()
	for i := range 3 {
		span := spans.AppendEmpty()
		span.SetName([]string{"chat gpt-x", "GET /", annotate.CheckpointName}[i])
		span.SetTraceID(pcommon.TraceID{15: 7})
		span.SetSpanID(pcommon.SpanID{7: byte(i + 1)})
		span.SetKind(ptrace.SpanKindClient)
		span.SetStartTimestamp(pcommon.NewTimestampFromTime(start.Add(5 * time.Nanosecond)))
		span.SetEndTimestamp(pcommon.NewTimestampFromTime(start.Add(1500 * time.Millisecond)))
	}
	chat := spans.At(0)
	chat.SetParentSpanID(pcommon.SpanID{7: 2})
	chat.Status().SetCode(ptrace.StatusCodeError)
	chat.Status().SetMessage(secret)
	chat.Attributes().PutBool(annotate.MarkGenAI, true)
	chat.Attributes().PutStr("gen_ai.request.model", "gpt-x"+strings.Repeat("ü", 200))
	chat.Attributes().PutInt("gen_ai.usage.output_tokens", 12)
	chat.Attributes().PutStr("gen_ai.input.messages", secret)
	chat.Attributes().PutStr("gen_ai.prompt.0.content", secret)
	event := chat.Events().AppendEmpty()
	event.SetName("gen_ai.content.prompt")
	event.Attributes().PutStr("gen_ai.prompt", secret)
	spans.At(2).Attributes().PutBool(annotate.MarkSynthetic, true)
	return td
}

func TestThinSpansHoldWhatIsAllowedAndNoContent(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.exp.ConsumeTraces(ctx, mixedSpans()))
	var (
		service, trace, span, parent, name, kind, status string
		startedAt                                        time.Time
		duration                                         int64
		attributes                                       map[string]string
	)
	row := r.conn.QueryRow(ctx, "SELECT service_name, trace_id, span_id, parent_span_id, name, kind, status_code, started_at, duration_ns, attributes FROM "+r.db+".spans")
	require.NoError(t, row.Scan(&service, &trace, &span, &parent, &name, &kind, &status, &startedAt, &duration, &attributes))
	require.Equal(t, []string{"shop", "00000000000000000000000000000007", "0000000000000001", "0000000000000002", "chat gpt-x", "Client", "Error"},
		[]string{service, trace, span, parent, name, kind, status})
	require.True(t, startedAt.Equal(start.Add(5)))
	require.EqualValues(t, 1500*time.Millisecond-5, duration)
	require.Len(t, attributes, 2)
	require.Equal(t, "12", attributes["gen_ai.usage.output_tokens"])
	require.Equal(t, "gpt-x"+strings.Repeat("ü", 125), attributes["gen_ai.request.model"], "cut at 256 bytes, not within a character")

	require.Equal(t, map[string]int64{"not_genai": 1, "synthetic": 1}, r.sums("spans_skipped"))
	require.EqualValues(t, 1, r.count("SELECT count() FROM {db}.spans"))
	r.requireLedger()
}

func TestStoreSpansSaysWhichSpansAreStored(t *testing.T) {
	for choice, want := range map[genaiclickhouse.StoreSpans]uint64{
		genaiclickhouse.StoreSpansAll: 2, genaiclickhouse.StoreSpansGenAI: 1, genaiclickhouse.StoreSpansNone: 0,
	} {
		r := newRig(t, func(c *genaiclickhouse.Config) { c.StoreSpans = choice })
		require.NoError(t, r.exp.ConsumeTraces(ctx, mixedSpans()))
		require.Equal(t, want, r.count("SELECT count() FROM {db}.spans"), string(choice))
		r.requireLedger()
	}
}
