package storagetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/annotate"
	"driftline/internal/rows"
)

// Rows that lie evenly on one day more than a batch may have lose that day only.
func TestSoundRowsOnManyDaysAreKept(t *testing.T) {
	r := newRig(t)
	rng := newSeed(t)
	var list []rows.Row
	for i := range 310 {
		op := randomRow(rng, rows.TableOperations).(*rows.Operation)
		op.EndedAt = start.AddDate(0, 0, -(i % 31)).UnixNano()
		if i < 10 {
			op.EndedAt = start.UnixNano()
		}
		list = append(list, op)
	}
	require.NoError(t, r.exp.ConsumeTraces(ctx, traces(list...)))
	// Written, not counted in the table, whose oldest day the retention may have taken.
	require.EqualValues(t, 301, r.sums("rows_written")["operations"])
	require.EqualValues(t, 9, r.sums("rows_dropped")["scattered_time/operations"])
	r.requireLedger()
}

// attempts_base refuses every row for its content for over ten minutes; operations, requests
// and spans are healthy. README: "A row that ClickHouse refuses harms no other."
func TestHealthyTablesKeepTheirRowsWhenOneTableRefuses(t *testing.T) {
	r := newRig(t)
	r.exec("ALTER TABLE %s.attempts_base ADD CONSTRAINT nothing CHECK ordinal < 0")
	rng := newSeed(t)
	var list []rows.Row
	for range 500 {
		list = append(list, randomRow(rng, rows.TableAttempts), randomRow(rng, rows.TableOperations), randomRow(rng, rows.TableRequests))
	}
	td := traces(list...)
	require.Error(t, r.exp.ConsumeTraces(ctx, td))
	r.clk.Advance(11 * time.Minute)
	for range 3 {
		if err := r.exp.ConsumeTraces(ctx, td); err == nil {
			break
		}
	}
	r.requireLedger()
	for _, table := range []string{"operations", "requests"} {
		require.EqualValues(t, 500, r.count("SELECT count() FROM {db}."+table), table)
	}
	require.Zero(t, r.count("SELECT count() FROM {db}.attempts"))
}

// README: "No INSERT has more than max_insert_rows rows."
func TestOneSpanWithManyRowsIsCut(t *testing.T) {
	r := newRig(t, func(c *genaiclickhouse.Config) { c.MaxInsertRows = 100 })
	rng := newSeed(t)
	td := ptrace.NewTraces()
	s := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{1})
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
	for range 1000 {
		annotate.Encode(randomRow(rng, rows.TableSegments), s.Events().AppendEmpty())
	}
	require.NoError(t, r.exp.ConsumeTraces(ctx, td))
	require.GreaterOrEqual(t, r.inserts("segments"), uint64(10))
}

// Values at the edges of the new short forms must come back as they were.
func TestShortFormsAtTheEdges(t *testing.T) {
	r := newRig(t)
	rng := newSeed(t)
	p := func(v int64) *int64 { return &v }
	var list []rows.Row
	for _, user := range []int64{0, 1, 5, 1e9, -5, 1 << 62} {
		for _, agent := range []*int64{nil, p(0), p(5), p(user), p(-3)} {
			for _, inf := range []*int64{nil, p(0), p(user)} {
				o := randomRow(rng, rows.TableOperations).(*rows.Operation)
				o.EndedAt = start.UnixNano() - 5
				o.UserTimeNS, o.AgentTimeNS, o.InferenceTimeNS = user, agent, inf
				o.ToolNS, o.PathNS, o.InferenceSegmentNS = user, 0, user
				if user < 1e10 {
					o.StartedAt = o.EndedAt - user
				}
				o.Deleted = false
				list = append(list, o)
			}
		}
	}
	require.NoError(t, r.exp.ConsumeTraces(ctx, traces(list...)))
	require.Equal(t, latest(list), r.readBack(rows.TableOperations))
}
