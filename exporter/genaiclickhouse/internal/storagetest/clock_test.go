package storagetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"driftline/internal/clock"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
	"driftline/internal/sim"
	"driftline/processor/genaisegment"
)

// TestAClockThatJumpsHarmsNothing sets the exporter's clock back and ahead between batches.
func TestAClockThatJumpsHarmsNothing(t *testing.T) {
	r := newRig(t)
	clk := &setClock{now: start}
	r.clock = clk
	exp := r.newExporter(enginetest.Shared(t).URL(t), componenttest.NewNopHost())
	rng := newSeed(t)
	var list []rows.Row
	var batches []ptrace.Traces
	for _, jump := range []time.Duration{0, -time.Hour, 3 * time.Hour, -20 * time.Hour, 23 * time.Hour} {
		clk.jump(jump)
		row := randomRow(rng, rows.TableOperations)
		list = append(list, row)
		td := numbered(len(list), row)
		batches = append(batches, td)
		require.NoError(t, exp.ConsumeTraces(ctx, td))
		require.EqualValues(t, 1, r.count(fmt.Sprintf("SELECT count() FROM {db}.operations WHERE trace_id = '%s' AND ingested_at = toDateTime64('%s', 3, 'UTC')",
			row.Head().TraceID, clk.Now().Format("2006-01-02 15:04:05.000"))), "ingested_at is the exporter's clock at the time")
	}
	require.Zero(t, total(r.sums("rows_dropped")), "nothing is set aside: the rows' own times are sound by either clock")

	// The same batches again, at yet another time, and the rows otherwise batched.
	clk.jump(-5 * time.Hour)
	for _, td := range batches {
		require.NoError(t, exp.ConsumeTraces(ctx, td))
	}
	require.EqualValues(t, len(list), r.count("SELECT count() FROM {db}.operations_base"), "the clock is no part of the token")
	require.NoError(t, exp.ConsumeTraces(ctx, traces(list...)))
	r.requireOnce(list)

	// A later revision wins though the clock says that it is older.
	clk.jump(-2 * time.Hour)
	next := revise(rng, list[0])
	next.Head().Revision = list[0].Head().Revision + 1
	require.NoError(t, exp.ConsumeTraces(ctx, numbered(99, next)))
	list[0] = next
	r.requireOnce(list)

	// Readers that follow stored_at, the server's clock, see every row whatever the exporter's
	// clock did: the last stored is the last there.
	require.EqualValues(t, 1, r.count("SELECT count() FROM {db}.operations_base WHERE stored_at = (SELECT max(stored_at) FROM {db}.operations_base) AND trace_id = '"+next.Head().TraceID+"'"))
	require.Zero(t, r.count("SELECT count() FROM {db}.operations_base WHERE abs(dateDiff('second', stored_at, now64(3))) > 600"))
	require.Zero(t, total(r.sums("rows_dropped")))
	r.requireLedger()

	// Over a day behind, sound rows would look as if they came from the future. They are
	// set aside and counted, never stored in a partition that they may not belong to.
	clk.jump(-40 * time.Hour)
	ahead := randomRow(rng, rows.TableOperations)
	require.NoError(t, exp.ConsumeTraces(ctx, numbered(100, ahead)))
	require.EqualValues(t, 1, r.where("rows_dropped", "reason=bad_time", "table=operations"))
	r.requireLedger()
}

// setClock is a clock that is set, as by an operator or a time server: nothing runs on the way.
type setClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *setClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *setClock) Every(time.Duration, func(time.Time)) func() { return func() {} }

func (c *setClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// C49, base tables: one block of 100 rows twice is 100 rows, in the table itself and in its
// view.
func TestC49ARepeatedBlockIsStoredOnce(t *testing.T) {
	r := newRig(t)
	rng := newSeed(t)
	for _, table := range rows.Tables {
		var list []rows.Row
		for range 100 {
			list = append(list, randomRow(rng, table))
		}
		for range 2 {
			require.NoError(t, r.exp.ConsumeTraces(ctx, traces(list...)))
		}
		require.EqualValues(t, 100, r.count("SELECT count() FROM {db}."+string(table)+"_base"), table)
		require.EqualValues(t, 100, r.count("SELECT count() FROM {db}."+string(table)), table)
		require.EqualValues(t, 200, r.where("rows_written", "table="+string(table)), "both were acknowledged")
	}
	r.requireLedger()
}

// TestALateAttemptMovesItsOperationToAnotherSlice: the old slice must not keep it.
func TestALateAttemptMovesItsOperationToAnotherSlice(t *testing.T) {
	r := newRig(t)
	rng := newSeed(t)
	count := func(target, stream string) uint64 {
		return r.count(fmt.Sprintf("SELECT count() FROM {db}.operations WHERE target = '%s' AND stream = '%s'", target, stream))
	}
	var list []rows.Row
	for range 20 {
		op := randomRow(rng, rows.TableOperations).(*rows.Operation)
		op.Revision, op.Target, op.Stream = 1, "gpt-x", "no"
		list = append(list, op)
	}
	require.NoError(t, r.exp.ConsumeTraces(ctx, traces(list...)))
	require.EqualValues(t, 20, count("gpt-x", "no"))

	// The late span carries complete revised rows: the operation's target is known better
	// now, and there is one attempt more.
	moved := *list[0].(*rows.Operation)
	moved.Revision, moved.Target, moved.Stream = 2, "gpt-x-mini", "yes"
	attempt := randomRow(rng, rows.TableAttempts).(*rows.Attempt)
	attempt.TraceID, attempt.OperationID = moved.TraceID, moved.OperationID
	late := numbered(50, &moved, attempt)
	check := func() {
		t.Helper()
		require.EqualValues(t, 19, count("gpt-x", "no"))
		require.EqualValues(t, 1, count("gpt-x-mini", "yes"))
		require.EqualValues(t, 20, r.count("SELECT count() FROM {db}.operations"))
		require.EqualValues(t, 1, r.count("SELECT count() FROM {db}.attempts"))
	}
	require.NoError(t, r.exp.ConsumeTraces(ctx, late))
	check()
	// An old batch that comes again moves nothing back.
	require.NoError(t, r.exp.ConsumeTraces(ctx, numbered(7, list[:5]...)))
	require.NoError(t, r.exp.ConsumeTraces(ctx, late))
	check()
	r.exec("OPTIMIZE TABLE %s.operations_base FINAL")
	check()
	r.requireLedger()
}

// TestSpansSentAgainAfterARestartAreStoredOnce lets a sender repeat its spans to a collector
// that has forgotten the first time.
func TestSpansSentAgainAfterARestartAreStoredOnce(t *testing.T) {
	r := newRig(t)
	seed := newSeed(t).Uint64()
	rates := sim.DefaultRates()
	rates.RequestsPerMinute = 60
	from := start.Add(-10 * time.Minute)
	s, err := sim.New(sim.Config{Seed: seed, Start: from, Scenario: sim.ScenarioIncident, Rates: rates})
	require.NoError(t, err)
	emissions := s.Next(from.Add(2 * time.Minute))
	require.NotEmpty(t, emissions)

	// collector is a processor that knows nothing yet, before a new exporter.
	collector := func() {
		exp := r.newExporter(enginetest.Shared(t).URL(t), componenttest.NewNopHost())
		clk := clock.NewManual(from)
		next, err := consumer.NewTraces(exp.ConsumeTraces)
		require.NoError(t, err)
		factory := genaisegment.NewFactoryWithClock(clk)
		proc, err := factory.CreateTraces(ctx, processortest.NewNopSettings(factory.Type()), factory.CreateDefaultConfig(), next)
		require.NoError(t, err)
		require.NoError(t, proc.Start(ctx, componenttest.NewNopHost()))
		for _, e := range emissions {
			td := ptrace.NewTraces()
			e.Traces.CopyTo(td)
			require.NoError(t, proc.ConsumeTraces(ctx, td))
		}
		for range 60 {
			clk.Advance(10 * time.Second)
		}
		require.NoError(t, proc.Shutdown(ctx))
		require.NoError(t, exp.Shutdown(ctx))
	}
	collector()
	want := map[string]uint64{}
	count := func(table string) uint64 { return r.count("SELECT count() FROM {db}." + table) }
	tables := []string{"requests", "operations", "attempts", "segments", "spans"}
	for _, table := range tables {
		want[table] = count(table)
		require.Positive(t, want[table], table)
	}
	r.clk.Advance(5 * time.Second)
	collector()
	for _, table := range tables {
		require.Equal(t, want[table], count(table), table)
	}
	require.Zero(t, r.count("SELECT count() FROM {db}.operations WHERE late_fragment"))
	r.requireLedger()
}
