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
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func ptr[T any](v T) *T { return &v }

func TestReads(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	s, err := store.New(conn, db)
	require.NoError(t, err)
	at := time.Now().UTC().Truncate(time.Minute).Add(-10 * time.Minute)
	var all []rows.Row
	for i := range 20 {
		end := at.Add(time.Duration(i) * 6 * time.Second)
		trace := fmt.Sprintf("t%02d", i)
		o := &rows.Operation{OperationID: "o", RequestID: "r", Target: "search", Stream: rows.StreamNo, Attempts: ptr(uint32(1 + i%3)), MaxRetries: ptr(uint32(1)), InferenceTimeNS: ptr(int64(1e9))}
		o.ServiceName, o.TraceID, o.Revision, o.Agent, o.Kind, o.Outcome, o.SampleWeight = "shop", trace, 1, "planner", rows.KindTool, rows.OutcomeOK, 1
		o.EndedAt, o.StartedAt, o.UserTimeNS, o.HiddenTotalNS = end.UnixNano(), end.Add(-2*time.Second).UnixNano(), int64(2e9), ptr(int64(i%3)*1e8)
		if i == 7 {
			o.Outcome, o.HTTPStatus = rows.OutcomeError, 504
		}
		r := &rows.Request{RequestID: "r", Steps: 4, Operations: 8, Attempts: ptr(uint32(9)), Retries: ptr(uint32(i % 3))}
		r.ServiceName, r.TraceID, r.Revision, r.Agent, r.Kind, r.Outcome, r.SampleWeight = "shop", trace, 1, "planner", rows.KindAgent, rows.OutcomeOK, 1
		r.EndedAt, r.StartedAt, r.UserTimeNS = end.UnixNano(), end.Add(-20*time.Second).UnixNano(), int64(20e9)
		r.ReleaseReason = rows.ReleaseRoot
		r.BudgetNS, r.DriftNS, r.DeadlineMissed = ptr(int64(60e9)), ptr(int64(i)*1e9), ptr(i == 3)
		r.HiddenTotalNS = ptr(int64(i) * 1e9)
		g := &rows.Segment{RequestID: "r", RequestEndedAt: end.UnixNano(), Kind: rows.SegmentTool, StartedAt: r.StartedAt, DurationNS: 20e9}
		g.ServiceName, g.TraceID, g.Revision = "shop", trace, 1
		a := &rows.Attempt{AttemptID: "a", OperationID: "o", RequestID: "r", Ordinal: 1, Layer: rows.LayerSDK, DurationNS: 1e9}
		a.ServiceName, a.TraceID, a.Revision, a.EndedAt, a.StartedAt, a.SampleWeight = "shop", trace, 1, end.UnixNano(), end.UnixNano(), 1
		all = append(all, o, r, g, a)
	}
	require.NoError(t, dettest.Insert(ctx, conn, db, at.Add(3*time.Minute), all...))
	job, err := rollup.New(conn, rollup.Config{Database: db})
	require.NoError(t, err)
	_, err = job.Run(ctx, time.Now())
	require.NoError(t, err)

	from, to := at, at.Add(2*time.Minute)
	ops := store.Slice{Service: "shop", Agent: "planner", Kind: "tool", Target: "search", Stream: "no"}
	reqs := store.Slice{Service: "shop", Agent: "planner", Kind: "agent"}

	retries, err := s.ConfiguredRetries(ctx, ops, from, to)
	require.NoError(t, err)
	require.Equal(t, store.ConfiguredRetries{N: 20, Known: 20, Over: 6, Allowed: 1, Most: 3}, retries)
	retries, err = s.ConfiguredRetries(ctx, ops, from.Add(-time.Hour), from)
	require.NoError(t, err)
	require.Zero(t, retries)

	cells, err := s.OperationCells(ctx, from, to)
	require.NoError(t, err)
	require.Len(t, cells, 6)
	require.Equal(t, ops, cells[0].Slice)
	require.Equal(t, cells[0].N, cells[0].User.Hist.N())
	rc, err := s.RequestCells(ctx, from, to)
	require.NoError(t, err)
	require.Len(t, rc, 6)
	require.Equal(t, "4-7", rc[0].Steps)

	oh, err := s.OperationHistory(ctx, from, to)
	require.NoError(t, err)
	require.Len(t, oh, 2)
	require.Equal(t, []uint64{10, 10, 6}, []uint64{oh[0].N, oh[0].Known, oh[0].Retried})
	require.Equal(t, uint64(10), oh[0].Inference.Hist.N())
	rh, err := s.RequestHistory(ctx, from, to)
	require.NoError(t, err)
	require.Len(t, rh, 2)
	require.Equal(t, uint64(80), rh[0].Operations)
	require.Equal(t, uint64(1), rh[0].DeadlineMissed)

	budgets, err := s.Budgets(ctx, from, to)
	require.NoError(t, err)
	require.Equal(t, []store.Budget{{Slice: reqs, N: 20, Known: 20, MedianNS: 60e9}}, budgets)
	lag, n, err := s.IngestLag(ctx, from, to)
	require.NoError(t, err)
	require.Equal(t, uint64(20), n)
	require.InDelta(t, 174, lag.Seconds(), 7)
	_, n, err = s.IngestLag(ctx, from.Add(-time.Hour), from)
	require.NoError(t, err)
	require.Zero(t, n)
	first, ok, err := s.FirstMinute(ctx, from.Add(-time.Hour), to)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, at, first)
	_, ok, err = s.FirstMinute(ctx, from.Add(-time.Hour), from)
	require.NoError(t, err)
	require.False(t, ok)

	over, err := s.Overview(ctx, from, to)
	require.NoError(t, err)
	require.Len(t, over, 1)
	require.Equal(t, []uint64{20, 20, 13, 1}, []uint64{over[0].N, over[0].RetriesKnown, over[0].Retried, over[0].DeadlineMissed})
	for _, slice := range []store.Slice{ops, reqs} {
		rs, err := s.RetrySlices(ctx, slice, from, to)
		require.NoError(t, err)
		require.Len(t, rs, 3)
		points, err := s.Series(ctx, slice, from, to, time.Minute)
		require.NoError(t, err)
		require.Len(t, points, 2)
		require.NotNil(t, points[0].P95MS)
		ex, err := s.Examples(ctx, slice, from, to, store.ByHidden, 2)
		require.NoError(t, err)
		require.Len(t, ex, 2)
		require.GreaterOrEqual(t, *ex[0].HiddenNS, *ex[1].HiddenNS)
	}
	points, err := s.Series(ctx, ops, from, to, time.Minute)
	require.NoError(t, err)
	require.InDelta(t, 0.1, points[0].Share504(), 1e-9)
	ex, err := s.Examples(ctx, ops, from, to, store.By504, 5)
	require.NoError(t, err)
	require.Len(t, ex, 1)
	require.Equal(t, "t07", ex[0].TraceID)
	ex, err = s.Examples(ctx, reqs, from, to, store.ByDrift, 1)
	require.NoError(t, err)
	require.Equal(t, "t19", ex[0].TraceID)
	_, err = s.Examples(ctx, reqs, from, to, store.ByUserTime, 1)
	require.NoError(t, err)
	slices, err := s.Slices(ctx, from, to, 10)
	require.NoError(t, err)
	require.ElementsMatch(t, []store.Slice{ops, reqs}, slices)

	tr, err := s.Requests(ctx, "t03")
	require.NoError(t, err)
	require.Len(t, tr, 1)
	require.True(t, *tr[0].DeadlineMissed)
	to1, err := s.Operations(ctx, "t03")
	require.NoError(t, err)
	require.Len(t, to1, 1)
	ta, err := s.Attempts(ctx, "t03")
	require.NoError(t, err)
	require.Len(t, ta, 1)
	seg, err := s.Segments(ctx, "t03")
	require.NoError(t, err)
	require.Equal(t, int64(20e9), seg[0].DurationNS)
	_, err = s.Spans(ctx, "t03")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, conn.Exec(ctx, "INSERT INTO "+db+".spans_base (service_name, trace_id, span_id, name, started_at) VALUES ('shop', 't03', 's1', 'chat', now())"))
	sp, err := s.Spans(ctx, "t03")
	require.NoError(t, err)
	require.Equal(t, "chat", sp[0].Name)
}

func TestAlertsAndState(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	s, err := store.New(conn, db)
	require.NoError(t, err)
	at := time.Now().UTC().Truncate(time.Second)
	row := store.AlertRow{Fingerprint: "f", Transition: 1, At: at, Detection: "p95_surge", State: "pending", Slice: store.Slice{Service: "it's"},
		StartedAt: at, Window: 5 * time.Minute, Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"summary": "x"}, Evidence: "{}", Version: 1}
	fired := row
	fired.Transition, fired.State, fired.FiredAt, fired.At = 2, "firing", &at, at.Add(time.Second)
	require.NoError(t, s.SaveAlerts(ctx, []store.AlertRow{row, fired}))
	fired.Severity, fired.Version = "critical", 2
	require.NoError(t, s.SaveAlerts(ctx, []store.AlertRow{fired}))
	got, err := s.AlertHistory(ctx, "f")
	require.NoError(t, err)
	row.Version, fired.Version = 0, 0
	require.Equal(t, []store.AlertRow{row, fired}, got)
	latest, err := s.Alerts(ctx, at.Add(-time.Minute), at.Add(time.Minute), 10)
	require.NoError(t, err)
	require.Equal(t, []store.AlertRow{fired}, latest)
	all, err := s.AlertTransitions(ctx, at.Add(-time.Minute), at.Add(time.Minute), 10)
	require.NoError(t, err)
	require.Len(t, all, 2)
	_, err = s.AlertHistory(ctx, "none")
	require.ErrorIs(t, err, store.ErrNotFound)

	_, ok, err := s.LoadState(ctx, "k")
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, s.SaveState(ctx, "k", "two", 2))
	require.NoError(t, s.SaveState(ctx, "k", "one", 1))
	v, ok, err := s.LoadState(ctx, "k")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "two", v)
	_, err = store.New(conn, "a; DROP TABLE x")
	require.Error(t, err)
}
