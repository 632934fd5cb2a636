package genaiclickhouse

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/exporter/genaiclickhouse/internal/block"
	"driftline/internal/annotate"
	"driftline/internal/rows"
	"driftline/schema"
)

var testNow = time.Unix(1_800_000_000, 0).UTC()

// carried is a batch that carries these rows, each on a span of its own.
func carried(list ...rows.Row) ptrace.Traces {
	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for _, row := range list {
		span := spans.AppendEmpty()
		span.Attributes().PutBool(annotate.MarkSynthetic, true)
		annotate.Encode(row, span.Events().AppendEmpty())
	}
	return td
}

func testCollector() *collector { return newCollector(createDefaultConfig().(*Config)) }

func collectAt(now time.Time, list ...rows.Row) *collected {
	return testCollector().collect(carried(list...), now)
}

// tokenOf is the deduplication token of the only insert of these rows.
func tokenOf(t *testing.T, now time.Time, list ...rows.Row) string {
	t.Helper()
	ins := collectAt(now, list...).inserts()
	require.Len(t, ins, 1)
	var buf proto.Buffer
	return ins[0].settings(ins[0].block.Encode(&buf, columnIngestedAt))["insert_deduplication_token"].(string)
}

func TestTheTokenNamesTheContentAndNothingElse(t *testing.T) {
	row := func() *rows.Operation {
		n := int64(7)
		return &rows.Operation{
			Common: rows.Common{ServiceName: "s", TraceID: "t", Revision: 1},
			Facts: rows.Facts{StartedAt: testNow.UnixNano(), EndedAt: testNow.UnixNano(), SampleWeight: 1,
				Attributes: map[string]string{"a": "1", "b": "2", "c": "3"}},
			OperationID: "o", TTFTNS: &n,
		}
	}
	base := tokenOf(t, testNow, row(), row())
	require.Equal(t, base, tokenOf(t, testNow, row(), row()))
	require.Equal(t, base, tokenOf(t, testNow.Add(time.Hour), row(), row()), "the time of the try is no content")
	seen := map[string]string{base: "base"}
	differs := func(name string, change func(*rows.Operation)) {
		t.Helper()
		changed := row()
		change(changed)
		got := tokenOf(t, testNow, row(), changed)
		require.Empty(t, seen[got], "%s makes no difference", name)
		seen[got] = name
	}
	differs("revision", func(o *rows.Operation) { o.Revision = 2 })
	differs("text", func(o *rows.Operation) { o.Target = "x" })
	differs("text in another column", func(o *rows.Operation) { o.Provider = "x" })
	differs("unknown", func(o *rows.Operation) { o.TTFTNS = nil })
	differs("zero", func(o *rows.Operation) { *o.TTFTNS = 0 })
	differs("flag", func(o *rows.Operation) { o.AtCap = true })
	differs("instant", func(o *rows.Operation) { o.EndedAt++ })
	differs("optional flag", func(o *rows.Operation) { v := false; o.DeadlineMissed = &v })
	differs("attribute", func(o *rows.Operation) { o.Attributes["b"] = "9" })
	differs("attributes swapped", func(o *rows.Operation) { o.Attributes["a"], o.Attributes["b"] = "2", "1" })
	require.NotEqual(t, base, tokenOf(t, testNow, row()))
}

// TestColumnsHoldWhatRowsSay draws rows of every table and compares every column of the
// block with the fields of the rows, also when the block's memory was used before.
func TestColumnsHoldWhatRowsSay(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	c := testCollector()
	for round := range 20 {
		var list []rows.Row
		byTable := map[rows.Table][]rows.Row{}
		for range rng.IntN(40) {
			row, err := rows.New(rows.Tables[rng.IntN(len(rows.Tables))])
			require.NoError(t, err)
			fill(rng, row)
			list = append(list, row)
			byTable[row.Table()] = append(byTable[row.Table()], row)
		}
		got := c.collect(carried(list...), testNow)
		require.Empty(t, got.bad, "round %d", round)
		got.inserts() // fills ingested_at
		for table, want := range byTable {
			b := got.rows[table].Block
			require.Equal(t, len(want), b.Rows())
			for i, f := range rows.Fields(table) {
				require.Equal(t, columnOf(want, f), b.Columns()[i].Values(), "table %s column %s", table, f.Column)
			}
			ingested := b.Columns()[len(b.Columns())-1]
			require.Equal(t, columnIngestedAt, ingested.Name())
			for _, at := range ingested.Values().([]time.Time) {
				require.Equal(t, testNow, at)
			}
		}
		c.release(got)
	}
}

// fill draws the fields of a row, leaving about half of those out that may be.
func fill(rng *rand.Rand, row rows.Row) {
	v := reflect.ValueOf(row).Elem()
	for _, f := range rows.Fields(row.Table()) {
		field := v.FieldByIndex(f.Index)
		needed := f.Time || f.Column == "trace_id" || f.Column == "request_id" || f.Column == "operation_id" || f.Column == "attempt_id"
		if !needed && rng.IntN(2) == 0 {
			continue
		}
		if field.Kind() == reflect.Pointer {
			if rng.IntN(2) == 0 {
				continue
			}
			field.Set(reflect.New(field.Type().Elem()))
			field = field.Elem()
		}
		switch field.Kind() {
		case reflect.String:
			field.SetString(fmt.Sprint("text ", rng.IntN(300)))
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Int64:
			field.SetInt(int64(rng.Uint64()))
			if f.Column == "remaining_ns" {
				field.SetInt(rng.Int64N(1e15) - 5e14)
			}
			if f.Time {
				field.SetInt(testNow.UnixNano() - rng.Int64N(1e12))
			}
		case reflect.Uint64, reflect.Uint32, reflect.Uint16:
			field.SetUint(rng.Uint64() >> 1 & (1<<field.Type().Bits() - 1))
		case reflect.Float64:
			field.SetFloat(rng.Float64() * 100)
		case reflect.Map:
			field.Set(reflect.ValueOf(map[string]string{"region": fmt.Sprint(rng.IntN(9)), "": "empty key", "z": ""}))
		}
	}
}

// columnOf is what the column of a field must hold for these rows.
func columnOf(list []rows.Row, f rows.Field) any {
	typ := f.Type
	if f.Time {
		typ = reflect.TypeFor[time.Time]()
		if f.Type.Kind() == reflect.Pointer {
			typ = reflect.TypeFor[*time.Time]()
		}
	}
	out := reflect.MakeSlice(reflect.SliceOf(typ), 0, len(list))
	for _, row := range list {
		v := reflect.ValueOf(row).Elem().FieldByIndex(f.Index)
		switch {
		case f.Column == "remaining_ns" && !v.IsNil(): // stored as the deadline
			v = reflect.ValueOf(new(row.(*rows.Attempt).StartedAt + v.Elem().Int()))
		case f.Time && f.Type.Kind() == reflect.Pointer:
			var at *time.Time
			if !v.IsNil() {
				at = new(time.Unix(0, v.Elem().Int()).UTC())
			}
			v = reflect.ValueOf(at)
		case f.Time:
			v = reflect.ValueOf(time.Unix(0, v.Int()).UTC())
		case v.Kind() == reflect.Map && v.IsNil():
			v = reflect.ValueOf(map[string]string{})
		}
		out = reflect.Append(out, v)
	}
	return out.Interface()
}

func TestABadRowLeavesNoTraceInItsNeighbours(t *testing.T) {
	attempt := func(id string) *rows.Attempt {
		return &rows.Attempt{Common: rows.Common{ServiceName: "shop", TraceID: "t"}, AttemptID: id, DurationNS: 5, Target: "m",
			Facts: rows.Facts{StartedAt: testNow.UnixNano(), EndedAt: testNow.UnixNano(), SampleWeight: 1}}
	}
	td := carried(attempt("a"), attempt("wrong type"), attempt("b"), attempt("far ahead"), attempt("no start"), attempt("c"))
	spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	attrs := func(i int) pcommon.Map { return spans.At(i).Events().At(0).Attributes() }
	attrs(1).PutStr("driftline.duration_ns", "long")
	attrs(3).PutInt("driftline.ended_at", testNow.Add(25*time.Hour).UnixNano())
	attrs(4).Remove("driftline.started_at")
	got := testCollector().collect(td, testNow)
	require.Len(t, got.bad, 3)
	require.Equal(t, reasonBadRow, got.bad[0].reason)
	require.ErrorContains(t, got.bad[0].err, "driftline.duration_ns")
	require.Equal(t, reasonBadTime, got.bad[1].reason)
	require.ErrorContains(t, got.bad[1].err, "ended_at")
	require.Equal(t, "shop", got.bad[1].service)
	require.Equal(t, "t", got.bad[1].traceID)
	require.ErrorContains(t, got.bad[2].err, "started_at")
	b := got.rows[rows.TableAttempts].Block
	require.Equal(t, 3, b.Rows())
	for _, c := range b.Columns() {
		switch c.Name() {
		case "attempt_id":
			require.Equal(t, []string{"a", "b", "c"}, c.Values())
		case "duration_ns":
			require.Equal(t, []int64{5, 5, 5}, c.Values())
		}
	}
	require.EqualValues(t, 6, got.found()[rows.TableAttempts], "the ledger counts the bad ones as received")
}

func TestTombstonesNeedNoOtherInstants(t *testing.T) {
	row := &rows.Attempt{Common: rows.Common{TraceID: "t"}, AttemptID: "a", Facts: rows.Facts{EndedAt: testNow.UnixNano()}}
	problem := func() error {
		bad := collectAt(testNow, row).bad
		if len(bad) == 0 {
			return nil
		}
		return bad[0].err
	}
	require.ErrorContains(t, problem(), "started_at")
	row.Deleted = true
	require.NoError(t, problem())
	row.EndedAt = testNow.Add(25 * time.Hour).UnixNano()
	require.ErrorContains(t, problem(), "ended_at")
	row.EndedAt, row.StartedAt = testNow.UnixNano(), 5
	require.ErrorContains(t, problem(), "started_at")
}

func TestSpanColumns(t *testing.T) {
	var want, types []string
	for _, c := range schema.Columns("spans") {
		if c.Default == "" {
			want, types = append(want, c.Name), append(types, c.Type)
		}
	}
	var got, gotTypes []string
	for _, c := range newThinRows().Columns() {
		got, gotTypes = append(got, c.Name()), append(gotTypes, c.Type())
	}
	require.Equal(t, want, got)
	require.Equal(t, types, gotTypes)
}

func TestEveryCarriedColumnIsWritten(t *testing.T) {
	for _, table := range rows.Tables {
		var want []string
		for _, c := range schema.Columns(string(table)) {
			if c.Default == "" {
				want = append(want, c.Name+" "+c.Type)
			}
		}
		var got []string
		for _, c := range newTableRows(table).Block.Columns() {
			got = append(got, c.Name()+" "+c.Type())
		}
		require.ElementsMatch(t, want, got, "table %s", table)
	}
}

func TestThinSpansKeepAllowedAttributesInOneOrder(t *testing.T) {
	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for i := range 2 {
		span := spans.AppendEmpty()
		span.SetTraceID(pcommon.TraceID{1})
		span.SetSpanID(pcommon.SpanID{byte(i + 1)})
		span.SetStartTimestamp(pcommon.NewTimestampFromTime(testNow))
		a := span.Attributes()
		a.PutBool(annotate.MarkGenAI, true)
		if i == 1 {
			a.PutStr("server.address", "api.example.net")
		}
		a.PutInt("http.response.status_code", 503)
		a.PutStr("gen_ai.prompt", "never stored")
		a.PutStr("error.type", "503")
		a.PutEmptySlice("gen_ai.response.finish_reasons").AppendEmpty().SetStr("stop")
	}
	got := testCollector().collect(td, testNow)
	var pairs *block.Pairs
	for _, c := range got.spans.Columns() {
		if p, ok := c.(*block.Pairs); ok {
			pairs = p
		}
	}
	for row, want := range []string{
		"error.type=503 gen_ai.response.finish_reasons=[\"stop\"] http.response.status_code=503 ",
		"error.type=503 gen_ai.response.finish_reasons=[\"stop\"] http.response.status_code=503 server.address=api.example.net ",
	} {
		text := ""
		for k, v := range pairs.Row(row) {
			text += k + "=" + v + " "
		}
		require.Equal(t, want, text)
	}
}

func TestWhatFollowsFromOtherColumnsIsStoredInShort(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	length, inference := int64(7e9), int64(5e9)
	op := &rows.Operation{Common: rows.Common{TraceID: "t"}, OperationID: "o", InferenceTimeNS: &inference,
		Facts: rows.Facts{StartedAt: testNow.UnixNano() - length, EndedAt: testNow.UnixNano(), SampleWeight: 1}}
	op.UserTimeNS, op.AgentTimeNS, op.PathNS, op.ToolNS, op.InferenceSegmentNS = length, &length, length, length, inference
	op.TTFTNS, op.FirstChunkNS, op.TTFTSegmentNS, op.GenerationNS = n(1e9), n(1e9), 1e9, 4e9
	op.OutputTokens, op.TimePerOutputTokenNS = n(8), n(571_428_571)
	other := *op
	other.StartedAt, other.PathNS, other.ToolNS, other.AgentTimeNS, other.InferenceSegmentNS = op.StartedAt+1, 1, 0, nil, 3
	other.InferenceTimeNS, other.FirstChunkNS, other.TTFTSegmentNS, other.GenerationNS, other.TimePerOutputTokenNS = nil, n(2), 0, 0, nil
	retried := other
	retried.InferenceTimeNS, retried.HiddenTotalNS, retried.AgentTimeNS, retried.ToolNS = &length, n(2e9), n(5e9), 5e9
	retried.OutputTokens, retried.TimePerOutputTokenNS = n(1), n(3)
	got := collectAt(testNow, op, &other, &retried)
	require.Empty(t, got.bad)
	want := map[string]any{
		"started_at": []time.Time{time.Unix(0, 0).UTC(), testNow.Add(1 - 7*time.Second), testNow.Add(1 - 7*time.Second)},
		"path_ns":    []int64{-1, 1, 1}, "tool_ns": []int64{-1, 0, -2}, "user_time_ns": []int64{length, length, length},
		"agent_time_ns": []*int64{n(-1), nil, n(-2)}, "inference_time_ns": []*int64{&inference, nil, n(-1)}, "inference_segment_ns": []int64{-1, 3, 3},
		"first_chunk_ns": []*int64{n(-1), n(2), n(2)}, "ttft_ns": []*int64{n(1e9), n(1e9), n(1e9)}, "ttft_segment_ns": []int64{-1, 0, 0},
		"generation_ns": []int64{-1, 0, 0}, "time_per_output_token_ns": []*int64{n(-1), nil, n(3)},
	}
	found := 0
	for _, c := range got.rows[rows.TableOperations].Columns() {
		if v, ok := want[c.Name()]; ok {
			require.Equal(t, v, c.Values(), c.Name())
			found++
		}
	}
	require.Len(t, want, found)
	for column, spoil := range map[string]func(*rows.Operation){
		"path_ns is -1":        func(o *rows.Operation) { o.PathNS = -1 },
		"agent_time_ns is -2":  func(o *rows.Operation) { o.AgentTimeNS = n(-2) },
		"generation_ns is -1":  func(o *rows.Operation) { o.GenerationNS = -1 },
		"first_chunk_ns is -1": func(o *rows.Operation) { o.FirstChunkNS = n(-1) },
	} {
		spoilt := *op
		spoil(&spoilt)
		bad := collectAt(testNow, &spoilt).bad
		require.Len(t, bad, 1)
		require.Equal(t, reasonBadRow, bad[0].reason)
		require.ErrorContains(t, bad[0].err, column)
	}
}

func TestWhatIsLeftOfADeadlineIsStoredAsTheDeadline(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	start := testNow.UnixNano() - 3e9
	attempt := func(left *int64) *rows.Attempt {
		return &rows.Attempt{Common: rows.Common{TraceID: "t"}, AttemptID: "a", OperationID: "o", DurationNS: 3e9, RemainingNS: left,
			Facts: rows.Facts{StartedAt: start, EndedAt: testNow.UnixNano(), SampleWeight: 1}}
	}
	got := collectAt(testNow, attempt(n(60e9)), attempt(nil), attempt(n(-5e9)), attempt(n(0)), attempt(n(math.MaxInt64)))
	require.Empty(t, got.bad)
	for _, c := range got.rows[rows.TableAttempts].Columns() {
		if c.Name() == "remaining_ns" {
			require.Equal(t, []*int64{n(start + 60e9), nil, n(start - 5e9), n(start), n(start + farAhead)}, c.Values())
		}
	}
}
