package annotate

import (
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"pgregory.net/rapid"

	"driftline/internal/genai"
	"driftline/internal/rows"
)

// drawRow fills every field of a row of table at random, with the columns of its
// key present as in every real row.
func drawRow(t *rapid.T, table rows.Table) rows.Row {
	row, err := rows.New(table)
	require.NoError(t, err)
	value := reflect.ValueOf(row).Elem()
	for i := range plans[table].columns {
		c := &plans[table].columns[i]
		drawField(t, c, value.FieldByIndex(c.index))
	}
	for _, i := range plans[table].required {
		field := value.FieldByIndex(plans[table].columns[i].index)
		if field.Kind() == reflect.String {
			field.SetString(rapid.StringMatching(`[0-9a-f]{16}`).Draw(t, "id"))
		} else {
			field.SetInt(rapid.Int64Range(1, math.MaxInt64).Draw(t, "time"))
		}
	}
	return row
}

func drawField(t *rapid.T, c *column, field reflect.Value) {
	switch c.form {
	case formString:
		field.SetString(rapid.String().Draw(t, c.key))
	case formBool:
		field.SetBool(rapid.Bool().Draw(t, c.key))
	case formFloat:
		field.SetFloat(rapid.Float64().Draw(t, c.key))
	case formInt:
		field.SetInt(rapid.Int64().Draw(t, c.key))
	case formUint:
		field.SetUint(drawUint(t, c))
	case formStringMap:
		if m := rapid.MapOfN(rapid.String(), rapid.String(), 0, 8).Draw(t, c.key); len(m) > 0 {
			field.Set(reflect.ValueOf(m))
		}
	default:
		if rapid.Bool().Draw(t, c.key+" is known") {
			field.Set(reflect.New(field.Type().Elem()))
			elem := field.Elem()
			switch c.form {
			case formOptionalBool:
				elem.SetBool(rapid.Bool().Draw(t, c.key))
			case formOptionalInt:
				elem.SetInt(rapid.Int64().Draw(t, c.key))
			case formOptionalUint:
				elem.SetUint(drawUint(t, c))
			}
		}
	}
}

func drawUint(t *rapid.T, c *column) uint64 {
	return rapid.Uint64Range(0, min(uint64(1)<<c.bits-1, math.MaxInt64)).Draw(t, c.key)
}

func TestRowsSurviveTheRoundTrip(t *testing.T) {
	for _, table := range rows.Tables {
		t.Run(string(table), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				row := drawRow(t, table)
				event := ptrace.NewSpanEvent()
				Encode(row, event)
				back, err := Decode(event)
				require.NoError(t, err)
				require.Equal(t, row, back)
				require.Equal(t, table.EventName(), event.Name())
				require.Equal(t, row.Key().Minute, int64(event.Timestamp())/60e9, "event time is the key time")
			})
		})
	}
}

func TestUnknownStaysUnknownAndZeroStaysKnown(t *testing.T) {
	zero := int64(0)
	no := false
	op := operation()
	op.TTFTNS, op.DeadlineMissed = &zero, &no
	event := ptrace.NewSpanEvent()
	Encode(op, event)
	_, present := event.Attributes().Get("driftline.ttft_ns")
	require.True(t, present, "a known zero is written")
	_, present = event.Attributes().Get("driftline.attempts")
	require.False(t, present, "an unknown count is not")
	back, err := Decode(event)
	require.NoError(t, err)
	require.Equal(t, op, back)
}

func TestDecodeNamesEveryBadAttribute(t *testing.T) {
	event := ptrace.NewSpanEvent()
	Encode(operation(), event)
	attrs := event.Attributes()
	attrs.PutStr("driftline.attempts", "three")
	attrs.PutInt("driftline.http_status", 70_000)
	attrs.PutInt("driftline.step_index", -1)
	attrs.PutDouble("driftline.sample_weight", math.NaN())
	attrs.PutEmptyMap("driftline.attributes").PutInt("tenant", 3)
	attrs.PutStr("driftline.from_a_later_version", "ignored")
	attrs.Remove("driftline.trace_id")
	row, err := Decode(event)
	require.Nil(t, row)
	for _, want := range []string{
		`event "driftline.operation"`,
		`attribute "driftline.attempts": wanted type Int, found Str`,
		`attribute "driftline.http_status": wanted a count of 16 bits, found 70000`,
		`attribute "driftline.step_index": wanted a count of 32 bits, found -1`,
		`attribute "driftline.sample_weight": wanted a finite number, found NaN`,
		`attribute "driftline.attributes": key "tenant": wanted type Str, found Int`,
		`attribute "driftline.trace_id": is missing`,
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "later_version")
}

func TestOtherEventsAreNotRows(t *testing.T) {
	event := ptrace.NewSpanEvent()
	event.SetName("exception")
	_, err := Decode(event)
	require.ErrorIs(t, err, ErrNotRow)
	_, ok := TableOf("driftline.from_a_later_version")
	require.False(t, ok)
	for _, table := range rows.Tables {
		got, ok := TableOf(table.EventName())
		require.True(t, ok)
		require.Equal(t, table, got)
	}
}

func TestSpanOfKeepsFactsAndNoContent(t *testing.T) {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop")
	rs.Resource().Attributes().PutStr("deployment.environment", "prod")
	rs.Resource().Attributes().PutStr("host.name", "h1")
	span := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetTraceID(pcommon.TraceID{1})
	span.SetSpanID(pcommon.SpanID{2})
	span.SetKind(ptrace.SpanKindClient)
	span.SetStartTimestamp(5)
	span.SetEndTimestamp(9)
	span.Status().SetCode(ptrace.StatusCodeError)
	span.TraceState().FromRaw("ot=th:8")
	span.Attributes().PutStr("keep.text", "yes")
	span.Attributes().PutStr("gen_ai.input.messages", "secret prompt")
	span.Attributes().PutEmptySlice("keep.list").AppendEmpty().SetInt(7)
	span.Attributes().PutEmptyMap("keep.map")
	span.Links().AppendEmpty().SetTraceID(pcommon.TraceID{1})
	span.Links().AppendEmpty().SetTraceID(pcommon.TraceID{3})
	event := span.Events().AppendEmpty()
	event.SetName("First Token Stream Event")
	event.SetTimestamp(6)
	span.SetDroppedEventsCount(3)
	event.Attributes().PutStr("content", "secret completion")

	resource := ResourceOf(rs.Resource())
	var arena Arena
	got := arena.Span(span, resource, "lib", func(key string) bool { return len(key) > 5 && key[:5] == "keep." })
	require.Equal(t, genai.Span{
		TraceID: "01000000000000000000000000000000", SpanID: "0200000000000000",
		LinkedTraces: []string{"03000000000000000000000000000000"},
		TraceState:   "ot=th:8", Scope: "lib", Kind: genai.KindClient, Status: genai.StatusError,
		Start: 5, End: 9, Resource: &genai.Resource{ServiceName: "shop", Environment: "prod", HostID: "h1"},
		Attrs: []genai.Attr{
			{Key: "keep.text", Value: genai.StringValue("yes")},
			{Key: "keep.list", Value: genai.StringsValue("7")},
		},
		Events: []genai.Event{{Name: "First Token Stream Event", Time: 6}}, EventsDropped: true,
	}, got)
}

func TestCutNeverSplitsACharacter(t *testing.T) {
	require.Equal(t, "a", cut("aé", 2))
	require.Equal(t, "aé", cut("aé", 3))
}

func operation() *rows.Operation {
	attempts, ns := uint32(3), int64(1_500_000_000)
	return &rows.Operation{
		Common: rows.Common{ServiceName: "shop", TraceID: "0102", Revision: 2},
		Facts: rows.Facts{Agent: "planner", Kind: rows.KindChat, Name: "chat m", StartedAt: 1, EndedAt: 61e9,
			Outcome: rows.OutcomeOK, SampleWeight: 1, Attributes: map[string]string{"tenant": "a"}},
		Times:       rows.Times{UserTimeNS: 60e9, HiddenPathNS: &ns},
		OperationID: "0300", RequestID: "0100", Target: "m", Provider: "openai", Dialect: "semconv",
		Stream: rows.StreamUnknown, AttemptSource: rows.SourceUnknown, TTFTState: rows.TTFTMissing,
		MaxRetries: &attempts, InferenceTimeNS: &ns,
	}
}

func BenchmarkEncodeOperation(b *testing.B) {
	b.ReportAllocs()
	op := operation()
	for b.Loop() {
		Encode(op, ptrace.NewSpanEvent())
	}
}

func BenchmarkDecodeOperation(b *testing.B) {
	b.ReportAllocs()
	event := ptrace.NewSpanEvent()
	Encode(operation(), event)
	for b.Loop() {
		if _, err := Decode(event); err != nil {
			b.Fatal(err)
		}
	}
}
