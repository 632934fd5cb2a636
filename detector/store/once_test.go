package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/detector/rollup"
	"driftline/detector/store"
	"driftline/internal/rows"
)

// asked is every read of the store about traffic, by name.
func asked(t *testing.T, conn driver.Conn, db string, from, to time.Time) map[string]any {
	t.Helper()
	ctx := context.Background()
	s, err := store.New(conn, db)
	require.NoError(t, err)
	ops := store.Slice{Service: "shop", Agent: "agent0", Kind: rows.KindChat, Target: "model0", Stream: rows.StreamYes}
	reqs := store.Slice{Service: "shop", Agent: "agent0", Kind: rows.KindAgent}
	out := map[string]any{}
	take := func(name string, v any, err error) {
		t.Helper()
		require.NoError(t, err, name)
		out[name] = v
	}
	oc, err := s.OperationCells(ctx, from, to)
	take("OperationCells", oc, err)
	rc, err := s.RequestCells(ctx, from, to)
	take("RequestCells", rc, err)
	oh, err := s.OperationHistory(ctx, from, to)
	take("OperationHistory", oh, err)
	ac, err := s.AttemptCells(ctx, from, to)
	take("AttemptCells", ac, err)
	ah, err := s.AttemptHistory(ctx, from, to, 10*time.Minute)
	take("AttemptHistory", ah, err)
	declared, err := s.Timeouts(ctx, ops, from, to)
	take("Timeouts", declared, err)
	configured, err := s.ConfiguredRetries(ctx, ops, from, to)
	take("ConfiguredRetries", configured, err)
	rh, err := s.RequestHistory(ctx, from, to)
	take("RequestHistory", rh, err)
	b, err := s.Budgets(ctx, from, to)
	take("Budgets", b, err)
	lag, n, err := s.IngestLag(ctx, from, to)
	take("IngestLag", fmt.Sprint(lag, n), err)
	first, _, err := s.FirstMinute(ctx, from, to)
	take("FirstMinute", first, err)
	calls, err := s.Calls(ctx, from, to, 100)
	take("Calls", calls, err)
	ov, err := s.Overview(ctx, from, to)
	take("Overview", ov, err)
	slices, err := s.Slices(ctx, from, to, 1000)
	take("Slices", slices, err)
	em, err := s.ErrorMinutes(ctx, "shop", from, to)
	take("ErrorMinutes", em, err)
	vs, err := s.Versions(ctx, "shop", from, to)
	take("Versions", vs, err)
	newest, err := s.Newest(ctx, from, to)
	newest.Ended, newest.Ingested = time.Time{}, time.Time{} // how fresh the tables are, tombstones too
	take("Newest", newest, err)
	for name, slice := range map[string]store.Slice{"operations": ops, "requests": reqs} {
		rs, err := s.RetrySlices(ctx, slice, from, to)
		take("RetrySlices of "+name, rs, err)
		um, err := s.UserMinutes(ctx, slice, from, to)
		take("UserMinutes of "+name, um, err)
		series, err := s.Series(ctx, slice, from, to, 5*time.Minute)
		take("Series of "+name, series, err)
		for _, order := range []store.ExampleOrder{store.ByHidden, store.ByUserTime, store.ByDrift, store.By504} {
			ex, err := s.Examples(ctx, slice, from, to, order, 50)
			take(fmt.Sprintf("Examples %d of %s", order, name), ex, err)
		}
	}
	for id := range 60 {
		trace := fmt.Sprint("trace-", []string{"o", "r", "a"}[id%3], id)
		tr, err := s.Requests(ctx, trace)
		take("Requests of "+trace, tr, err)
		to, err := s.Operations(ctx, trace)
		take("Operations of "+trace, to, err)
		ta, err := s.Attempts(ctx, trace)
		take("Attempts of "+trace, ta, err)
	}
	return out
}

// Batches that come twice, revisions in any order, rows that move from slice to slice and
// tombstones change no answer: it is that of each key's last revision alone.
func TestEveryReadCountsOncePerKey(t *testing.T) {
	ctx := context.Background()
	now := time.Now().UTC()
	g := dettest.NewTraffic(t, now.Add(-4*time.Hour), 2)
	messy, messyDB := dettest.DB(t)
	job, err := rollup.New(messy, rollup.Config{Database: messyDB, HourEvery: time.Nanosecond})
	require.NoError(t, err)
	for _, batch := range g.Mess(240, 3) {
		require.NoError(t, dettest.Insert(ctx, messy, messyDB, now, batch...))
		_, err = job.Run(ctx, now)
		require.NoError(t, err)
	}
	clean, cleanDB := dettest.DB(t)
	require.NoError(t, dettest.Insert(ctx, clean, cleanDB, now, g.Latest()...))
	job, err = rollup.New(clean, rollup.Config{Database: cleanDB})
	require.NoError(t, err)
	_, err = job.Run(ctx, now)
	require.NoError(t, err)

	from, to := now.Add(-5*time.Hour).Truncate(time.Minute), now.Truncate(time.Minute)
	want, got := asked(t, clean, cleanDB, from, to), asked(t, messy, messyDB, from, to)
	require.Len(t, got, len(want))
	for name := range want {
		require.Equal(t, want[name], got[name], name)
	}
}
