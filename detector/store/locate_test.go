package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/detector/store"
	"driftline/internal/rows"
)

// A trace opens by its id alone however old it is, and also when it has spans alone.
func TestTraceOpensAtAnyAge(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	s, err := store.New(conn, db)
	require.NoError(t, err)
	for id, age := range map[string]time.Duration{"new": time.Hour, "old": 20 * 24 * time.Hour} {
		end := time.Now().Add(-age)
		r := &rows.Request{RequestID: "r"}
		r.ServiceName, r.TraceID, r.Revision, r.EndedAt = "shop", id, 1, end.UnixNano()
		a := &rows.Attempt{AttemptID: "a"} // the evening before
		a.ServiceName, a.TraceID, a.Revision, a.EndedAt = "shop", id, 1, end.Add(-20*time.Hour).UnixNano()
		g := &rows.Segment{RequestID: "r", RequestEndedAt: end.UnixNano()}
		g.ServiceName, g.TraceID, g.Revision = "shop", id, 1
		require.NoError(t, dettest.Insert(ctx, conn, db, time.Now(), r, a, g))
	}
	require.NoError(t, conn.Exec(ctx, "INSERT INTO "+db+".spans_base (service_name, trace_id, span_id, started_at) SELECT 'shop', 'bare', 's', now64(9) - INTERVAL 5 DAY"))
	for range 2 { // also from what is remembered
		for _, id := range []string{"new", "old"} {
			r, err := s.Requests(ctx, id)
			require.NoError(t, err)
			require.Len(t, r, 1, id)
			a, err := s.Attempts(ctx, id)
			require.NoError(t, err)
			require.Len(t, a, 1, id)
			g, err := s.Segments(ctx, id)
			require.NoError(t, err)
			require.Len(t, g, 1, id)
		}
		spans, err := s.Spans(ctx, "bare")
		require.NoError(t, err)
		require.Len(t, spans, 1)
		none, err := s.Operations(ctx, "unknown")
		require.NoError(t, err)
		require.Empty(t, none)
	}
}
