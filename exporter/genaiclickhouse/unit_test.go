package genaiclickhouse

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"driftline/internal/clock"
	"driftline/internal/rows"
	"driftline/schema"
)

func TestTheTokenNamesTheContentAndNothingElse(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	row := func() *rows.Operation {
		n := int64(7)
		return &rows.Operation{
			Common: rows.Common{ServiceName: "s", TraceID: "t", Revision: 1},
			Facts:  rows.Facts{EndedAt: now.UnixNano(), Attributes: map[string]string{"a": "1", "b": "2", "c": "3"}},
			TTFTNS: &n,
		}
	}
	token := func(list ...rows.Row) string { return rowInsert(rows.TableOperations, list, now).token }
	base := token(row(), row())
	require.Equal(t, base, token(row(), row()))
	require.Equal(t, base, rowInsert(rows.TableOperations, []rows.Row{row(), row()}, now.Add(time.Hour)).token, "the time of the try is no content")
	seen := map[string]string{base: "base"}
	differs := func(name string, change func(*rows.Operation)) {
		t.Helper()
		changed := row()
		change(changed)
		got := token(row(), changed)
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
	require.NotEqual(t, base, token(row()))
}

func TestSpanColumns(t *testing.T) {
	in := spanInsert([]thinSpan{{}}, time.Now())
	var names []string
	for _, c := range in.columns {
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"service_name", "trace_id", "span_id", "parent_span_id", "name", "kind", "started_at", "duration_ns", "status_code", "attributes", "ingested_at"}, names)
	require.Len(t, in.values, len(names))
	require.Len(t, schema.Columns("spans"), len(names)+1)
}

func TestEveryTableIsWrittenOnce(t *testing.T) {
	require.ElementsMatch(t, append([]rows.Table{tableSpans}, rows.Tables...), writeOrder)
}

func TestRareDaysLeaveFewDays(t *testing.T) {
	days := func(perDay ...int) (kept map[int64]bool) {
		var at []int64
		for day, n := range perDay {
			for range n {
				at = append(at, int64(day)*dayNS+5)
			}
		}
		rare := rareDays(len(at), func(i int) int64 { return at[i] })
		kept = map[int64]bool{}
		for _, ns := range at {
			if rare == nil || !rare(ns) {
				kept[ns/dayNS] = true
			}
		}
		return kept
	}
	even := make([]int, maxDays)
	for i := range even {
		even[i] = 1
	}
	require.Len(t, days(even...), maxDays, "within the limit nothing is rare")
	require.Equal(t, map[int64]bool{int64(maxDays): true}, days(append(even, 100)...))
	for i := range even {
		even[i] = 1 + i%4
	}
	require.LessOrEqual(t, len(days(append(even, 1, 1, 1)...)), maxDays)
}

func TestTombstonesNeedNoOtherInstants(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	row := &rows.Attempt{Common: rows.Common{TraceID: "t"}, AttemptID: "a", Facts: rows.Facts{EndedAt: now.UnixNano()}}
	p := plans[rows.TableAttempts]
	require.ErrorContains(t, p.badTime(row, now), "started_at")
	row.Deleted = true
	require.NoError(t, p.badTime(row, now))
	row.EndedAt = now.Add(25 * time.Hour).UnixNano()
	require.ErrorContains(t, p.badTime(row, now), "ended_at")
}

func TestSamplesAreFewAndCountTheRest(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	clk := clock.NewManual(time.Unix(1_800_000_000, 0))
	s := newSampler(zap.New(core), clk)
	bad := &badRow{table: rows.TableAttempts, reason: reasonBadTime, service: "shop", traceID: "abc", err: errBadTime}
	for range 100 {
		s.log(bad)
	}
	s.log(&badRow{table: rows.TableAttempts, reason: reasonBadRow, err: errNoID})
	require.Equal(t, 2, logs.Len(), "one per table and reason")
	clk.Advance(sampleInterval)
	s.log(bad)
	last := logs.All()[2].ContextMap()
	require.EqualValues(t, 99, last["others_since_last_line"])
	require.Equal(t, "abc", last["trace_id"])
}
