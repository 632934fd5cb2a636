package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/detector/rollup"
	"driftline/detector/store"
	"driftline/internal/rows"
)

func TestFactsAroundAnAlert(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	st, err := store.New(conn, db)
	require.NoError(t, err)
	start := time.Now().UTC().Truncate(time.Minute).Add(-30 * time.Minute)
	of := func(i int, end time.Time) (rows.Common, rows.Facts) {
		c := rows.Common{ServiceName: "shop", TraceID: fmt.Sprintf("%032x", i+1), Revision: 1}
		return c, rows.Facts{Agent: "planner", Kind: rows.KindTool, Outcome: rows.OutcomeOK, StartedAt: end.UnixNano() - 1e9, EndedAt: end.UnixNano(), SampleWeight: 1,
			ServiceVersion: map[bool]string{true: "1.4", false: "1.3"}[i >= 10], Attributes: map[string]string{"app.config.hash": map[bool]string{true: "b", false: "a"}[i >= 12], "tenant": "x"}}
	}
	ns := func(v int64) *int64 { return &v }
	var all []rows.Row
	for i := range 20 { // one request a minute, with one call of a tool that is tried once, later twice
		end := start.Add(time.Duration(i)*time.Minute + 30*time.Second)
		c, f := of(i, end)
		o := &rows.Operation{Common: c, Facts: f, OperationID: "o", RequestID: "r", Target: "search", Stream: rows.StreamNo, TimeoutNS: ns(map[bool]int64{true: 5e9, false: 10e9}[i >= 15])}
		o.UserTimeNS, o.HiddenTotalNS = int64(i+1)*1e8, ns(0)
		if i >= 16 {
			o.HiddenTotalNS = ns(3e8)
		}
		f.Kind = rows.KindAgent
		r := &rows.Request{Common: c, Facts: f, RequestID: "r", ReleaseReason: rows.ReleaseRoot}
		a := &rows.Attempt{Common: c, Facts: f, AttemptID: "a", OperationID: "o", RequestID: "r", Ordinal: 1, Target: "search"}
		a.Kind = rows.KindTool
		if i >= 16 {
			a.Outcome, a.ErrorClass, a.HTTPStatus = rows.OutcomeError, rows.ClassOverload, 503
		}
		all = append(all, o, r, a)
	}
	require.NoError(t, dettest.Insert(ctx, conn, db, time.Now(), all...))
	job, err := rollup.New(conn, rollup.Config{Database: db})
	require.NoError(t, err)
	_, err = job.Run(ctx, time.Now())
	require.NoError(t, err)
	end := start.Add(20 * time.Minute)

	seen, err := st.Settings(ctx, "shop", start, end)
	require.NoError(t, err)
	var got []string
	for _, s := range seen {
		got = append(got, fmt.Sprintf("%s=%s %d from %s", s.Name, s.Value, s.N, s.First.Sub(start)))
	}
	require.Equal(t, []string{"app.config.hash=a 12 from 30s", "app.config.hash=b 8 from 12m30s", "service.version=1.3 10 from 30s", "service.version=1.4 10 from 10m30s",
		"timeout of tool search=10000 ms 15 from 30s", "timeout of tool search=5000 ms 5 from 15m30s"}, got)

	attempts, err := st.AttemptMinutes(ctx, "shop", "planner", start, end)
	require.NoError(t, err)
	require.Len(t, attempts, 20)
	require.Equal(t, store.AttemptMinute{Kind: "tool", Target: "search", Class: "overload", Status: 503, At: start.Add(19 * time.Minute), Failed: true, N: 1}, attempts[19])
	require.Equal(t, store.AttemptMinute{Kind: "tool", Target: "search", At: start, N: 1}, attempts[0])

	slice := store.Slice{Service: "shop", Agent: "planner", Kind: rows.KindTool, Target: "search", Stream: rows.StreamNo}
	normal, ok, err := st.NormalExample(ctx, slice, start, end, 44e7)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, fmt.Sprintf("%032x", 4), normal.TraceID, "400 ms is nearest")
	for order, want := range map[store.ExampleOrder]uint64{store.ByHidden: 4, store.ByUserTime: 2, store.ByDrift: 0, store.By504: 0, store.ByInherited: 0, store.ByOverrun: 0} {
		c, err := st.Coverage(ctx, slice, start, end, order, 185e7)
		require.NoError(t, err)
		require.Equal(t, store.Coverage{Minutes: 20, N: 20, Hit: want, Requests: 20}, c)
	}
	c, err := st.Coverage(ctx, store.Slice{Service: "shop", Agent: "planner", Kind: rows.KindAgent}, start.Add(-10*time.Minute), end, store.ByDrift, 0)
	require.NoError(t, err)
	require.Equal(t, store.Coverage{Minutes: 20, N: 20, Requests: 20}, c)
}
