package memory_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/dettest"
	"driftline/detector/memory"
	"driftline/detector/rollup"
	"driftline/detector/store"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
)

var (
	_ detector.Store  = (*memory.Store)(nil)
	_ detector.Roller = (*memory.Store)(nil)
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// What the detector reads is the same from memory as from the engine's rollups.
func TestCellsEqualTheEngines(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	now := time.Now().UTC()
	from := now.Truncate(time.Hour).Add(-4 * time.Hour)
	to := from.Add(4 * time.Hour)
	g := dettest.NewTraffic(t, from, 3)
	for id := range 3000 {
		switch r := g.Row(id).(type) {
		case *rows.Operation:
			// What dettest leaves out and cells are made of.
			out, per := int64(g.Rand.IntN(2000)-100), int64(g.Rand.IntN(50e6))
			r.OutputTokens, r.TimePerOutputTokenNS = &out, &per
			r.Censored, r.FailedAttemptNS, r.BackoffNS = g.Rand.IntN(9) == 0, int64(g.Rand.IntN(2e9)), int64(g.Rand.IntN(1e9))
			r.AgentTimeSource = []string{rows.AgentTimeReported, rows.AgentTimeDerived}[g.Rand.IntN(2)]
			fail(g, &r.Facts)
			timeout := int64(30e9 + g.Rand.IntN(40e9))
			r.TimeoutNS = []*int64{nil, &timeout}[g.Rand.IntN(2)]
		case *rows.Attempt:
			r.Leaf, r.Layer = g.Rand.IntN(4) > 0, []string{rows.LayerSDK, rows.LayerFramework}[g.Rand.IntN(2)]
			fail(g, &r.Facts)
		case *rows.Request:
			agent, attempts := int64(g.Rand.IntN(9e9)), uint32(g.Rand.IntN(30))
			r.Operations, r.ToolCalls, r.ToolErrors, r.DecisionPoints = 20, uint32(g.Rand.IntN(9)), uint32(g.Rand.IntN(3)), uint32(g.Rand.IntN(4))
			r.AgentTimeNS, r.Attempts, r.AttemptsUnknown = &agent, &attempts, uint32(g.Rand.IntN(2))
			r.AgentTimeSource = []string{rows.AgentTimeReported, rows.AgentTimeDerived}[g.Rand.IntN(2)]
			r.BackoffNS = int64(g.Rand.IntN(1e9))
			budget := int64(30e9 + g.Rand.IntN(40e9))
			r.BudgetNS = []*int64{nil, &budget}[g.Rand.IntN(2)]
			r.Retries = []*uint32{nil, r.Retries}[min(1, g.Rand.IntN(5))]
		}
	}
	all := g.Latest()
	require.NoError(t, dettest.Insert(ctx, conn, db, now, all...))
	job, err := rollup.New(conn, rollup.Config{Database: db})
	require.NoError(t, err)
	_, err = job.Run(ctx, now)
	require.NoError(t, err)
	engine, err := store.New(conn, db)
	require.NoError(t, err)
	mem := memory.New()
	mem.Add(3*time.Second, all...)

	equal(t, engine.OperationCells, mem.OperationCells, from, to)
	equal(t, engine.RequestCells, mem.RequestCells, from, to)
	equal(t, engine.OperationHistory, mem.OperationHistory, from, to)
	equal(t, engine.RequestHistory, mem.RequestHistory, from, to)
	equal(t, engine.Budgets, mem.Budgets, from, to)
	hours := func(read func(context.Context, []time.Time) ([]store.OperationHour, error)) func(context.Context, time.Time, time.Time) ([]store.OperationHour, error) {
		return func(ctx context.Context, from, _ time.Time) ([]store.OperationHour, error) {
			return read(ctx, []time.Time{from, from.Add(2 * time.Hour)})
		}
	}
	equal(t, hours(engine.OperationHours), hours(mem.OperationHours), from, to)
	equal(t, engine.AttemptCells, mem.AttemptCells, from, to)
	history := func(read func(context.Context, time.Time, time.Time, time.Duration) ([]store.AttemptBlock, error)) func(context.Context, time.Time, time.Time) ([]store.AttemptBlock, error) {
		return func(ctx context.Context, from, to time.Time) ([]store.AttemptBlock, error) {
			return read(ctx, from, to, 10*time.Minute)
		}
	}
	equal(t, history(engine.AttemptHistory), history(mem.AttemptHistory), from, to)
	declared := func(read func(context.Context, store.Slice, time.Time, time.Time) (store.Timeouts, error)) func(context.Context, time.Time, time.Time) ([]store.Timeouts, error) {
		return func(ctx context.Context, from, to time.Time) ([]store.Timeouts, error) {
			got, err := read(ctx, store.Slice{Service: "shop", Agent: "agent0", Kind: rows.KindChat, Target: "model0", Stream: rows.StreamYes}, from, to)
			return []store.Timeouts{got}, err
		}
	}
	equal(t, declared(engine.Timeouts), declared(mem.Timeouts), from, to)
	equalWork(t, engine.OperationWork, mem.OperationWork, from, to)
	equalWork(t, engine.RequestWork, mem.RequestWork, from, to)
	lag, n, err := mem.IngestLag(ctx, from, to)
	require.NoError(t, err)
	_, want, err := engine.IngestLag(ctx, from, to)
	require.NoError(t, err)
	require.Equal(t, want, n)
	require.InEpsilon(t, 3*time.Second, lag, 0.03)
}

// fail makes some work fail in all the ways that cells tell apart.
func fail(g *dettest.Traffic, f *rows.Facts) {
	if f.ErrorClass != "" {
		f.ErrorClass = []string{rows.ClassTimeout, rows.ClassOverload, rows.ClassCancelled, rows.ClassClient, rows.ClassNetwork, rows.ClassServer, rows.ClassOther}[g.Rand.IntN(7)]
	}
}

func equal[T any](t *testing.T, engine, mem func(context.Context, time.Time, time.Time) ([]T, error), from, to time.Time) {
	t.Helper()
	want, err := engine(context.Background(), from, to)
	require.NoError(t, err)
	got, err := mem(context.Background(), from, to)
	require.NoError(t, err)
	require.NotEmpty(t, want)
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, text(t, want[i]), text(t, got[i]), "%T number %d of %d", want[i], i, len(want))
	}
}

// equalWork compares limits and load by minute, by block and by hour. Medians and percentiles
// are of rows there and of a histogram here, and Most is not known here.
func equalWork(t *testing.T, engine, mem func(context.Context, time.Time, time.Time, time.Duration) ([]store.Work, error), from, to time.Time) {
	t.Helper()
	for _, width := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour} {
		want, err := engine(context.Background(), from, to, width)
		require.NoError(t, err)
		got, err := mem(context.Background(), from, to, width)
		require.NoError(t, err)
		require.NotEmpty(t, want)
		require.Len(t, got, len(want))
		for i := range want {
			w, g := &want[i], &got[i]
			require.InDelta(t, w.BusySquared, g.BusySquared, 1e-9*(1+w.BusySquared))
			for _, c := range []*store.Work{w, g} {
				c.LimitNS, c.DeclaredNS, c.P95NS, c.Most, c.BusySquared = 0, 0, 0, 0, 0
			}
			require.Equal(t, text(t, *w), text(t, *g), "%v, number %d of %d", width, i, len(want))
		}
	}
}

func TestPercentilesOfWork(t *testing.T) {
	s := memory.New()
	at := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	for i := range 101 {
		o := &rows.Operation{Target: "search", Stream: rows.StreamNo}
		o.ServiceName, o.Agent, o.Kind, o.Outcome = "shop", "planner", rows.KindTool, rows.OutcomeOK
		timeout := int64(i+100) * 1e9
		o.EndedAt, o.UserTimeNS, o.TimeoutNS = at.Add(time.Duration(i)*time.Second).UnixNano(), int64(i+1)*1e9, &timeout
		s.Add(0, o)
	}
	got, err := s.OperationWork(context.Background(), at, at.Add(10*time.Minute), 10*time.Minute)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.InEpsilon(t, 150e9, got[0].LimitNS, 0.02)
	require.InEpsilon(t, 150e9, got[0].DeclaredNS, 0.02)
	require.InEpsilon(t, 96e9, got[0].P95NS, 0.02)
}

// text is v as JSON, in which an empty histogram is the same whether or not it has arrays.
func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return strings.ReplaceAll(string(b), "null", "[]")
}

// A run names the minutes that got rows since the last, so that late ones are read again.
func TestRunTellsWhatIsNew(t *testing.T) {
	ctx := context.Background()
	s := memory.New()
	at := time.Date(2026, 3, 2, 10, 0, 30, 0, time.UTC)
	add := func(end time.Time) {
		o := &rows.Operation{}
		o.ServiceName, o.EndedAt = "shop", end.UnixNano()
		s.Add(time.Second, o)
	}
	add(at)
	add(at.Add(time.Minute))
	st, err := s.Run(ctx, at.Add(2*time.Minute))
	require.NoError(t, err)
	require.Equal(t, map[string][]int64{"shop": {at.Unix() - 30, at.Unix() + 30}}, st.Touched)
	require.Equal(t, 2, st.DirtyMinutes)
	st, err = s.Run(ctx, at.Add(3*time.Minute))
	require.NoError(t, err)
	require.Zero(t, st.DirtyMinutes)
	add(at)
	st, err = s.Run(ctx, at.Add(4*time.Minute))
	require.NoError(t, err)
	require.Equal(t, map[string][]int64{"shop": {at.Unix() - 30}}, st.Touched)
	s.Forget(at.Add(30 * time.Second))
	cells, err := s.OperationCells(ctx, at.Add(-time.Hour), at.Add(time.Hour))
	require.NoError(t, err)
	require.Len(t, cells, 1)
	require.EqualValues(t, 1, cells[0].N)
}
