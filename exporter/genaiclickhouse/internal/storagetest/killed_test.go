package storagetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
	"driftline/schema"
)

// requireOnce checks that each of the rows is in its view, once and as it was, and nothing
// else is there.
func (r *rig) requireOnce(list []rows.Row) {
	r.t.Helper()
	byTable := map[rows.Table][]rows.Row{}
	for _, row := range list {
		byTable[row.Table()] = append(byTable[row.Table()], row)
	}
	for _, table := range rows.Tables {
		require.Equal(r.t, latest(byTable[table]), r.readBack(table), table)
	}
}

func (r *rig) eventually(want uint64, query string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.count(query) >= want }, 60*time.Second, 20*time.Millisecond, "%s reaches no %d", query, want)
}

// TestKill9OfTheExporterLosesNothingItHasAcknowledged kills a process with the exporter and
// a persistent queue at moments of an INSERT, and lets another drain the queue.
func TestKill9OfTheExporterLosesNothingItHasAcknowledged(t *testing.T) {
	r := newRig(t)
	seed := newSeed(t).Uint64()
	p, through := newProxy(t, enginetest.Shared(t).URL(t))
	p.held = make(chan struct{}, 1)
	dir := t.TempDir()
	spec := childSpec{Endpoint: through, Database: r.db, Dir: dir, Seed: seed, StartNS: start.UnixNano()}
	var acknowledged []rows.Row
	next := 0
	for _, m := range []struct {
		name string
		at   moment
		// nth is the INSERT at which the process dies: one of the six tables.
		nth int64
	}{
		{"before an INSERT is sent", beforeSent, 1},
		{"between two tables, with half an INSERT sent", halfSent, 4},
		{"after the first table was stored, unknown to the exporter", afterStored, 1},
		{"after the last table was stored, unknown to the exporter", afterStored, 6},
	} {
		p.at.Store(int64(m.at))
		p.countdown.Store(m.nth)
		c := startChild(t, spec)
		for range 5 {
			require.Empty(t, c.send(next))
			acknowledged = append(acknowledged, childRows(seed, uint64(next))...)
			next++
		}
		select {
		case <-p.held:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: no INSERT came by\n%s", m.name, c.log)
		}
		c.kill()
		p.cut()
	}
	p.countdown.Store(0)
	c := startChild(t, spec)
	for _, table := range append([]rows.Table{"spans"}, rows.Tables...) {
		want := uint64(10 * next)
		if table == "spans" {
			want *= uint64(len(rows.Tables))
		}
		r.eventually(want, fmt.Sprintf("SELECT count() FROM {db}.%s", table))
	}
	counted := c.stop()
	require.Zero(t, counted["rows_dropped"])
	// The last process received what the killed ones had not seen stored, and stored it.
	require.LessOrEqual(t, counted["spans_stored"], int64(len(acknowledged)))
	require.Positive(t, counted["spans_stored"])
	r.requireOnce(acknowledged)
	require.EqualValues(t, len(acknowledged), r.count("SELECT count() FROM {db}.spans"))
	require.EqualValues(t, len(acknowledged), r.count("SELECT uniqExact(trace_id, span_id) FROM {db}.spans_base"))
}

// TestKill9OfTheEngineWhileInserting kills the engine with an INSERT under way, twice.
func TestKill9OfTheEngineWhileInserting(t *testing.T) {
	e := enginetest.Start(t)
	r := newRigOn(t, e.Conn(t), "driftline")
	require.NoError(t, schema.Up(ctx, r.conn, schema.Options{Database: r.db}, nil))
	p, through := newProxy(t, e.URL(t))
	p.held = make(chan struct{}, 1)
	exp := r.newExporter(through, &statusHost{}, withQueue)
	rng := newSeed(t)
	var list []rows.Row
	send := func(n int) {
		for range n {
			var batch []rows.Row
			for _, table := range rows.Tables {
				for range 20 {
					batch = append(batch, randomRow(rng, table))
				}
			}
			list = append(list, batch...)
			require.NoError(t, exp.ConsumeTraces(ctx, numbered(len(list), batch...)))
		}
	}
	for _, at := range []moment{halfSent, afterStored} {
		p.at.Store(int64(at))
		p.countdown.Store(3)
		send(10)
		<-p.held
		e.Kill9(t)
		p.cut()
		send(5)
		e.Restart(t)
	}
	send(1)
	require.Eventually(t, func() bool { return total(r.sums("spans_stored")) >= int64(len(list)) }, 60*time.Second, 20*time.Millisecond)
	require.NoError(t, exp.Shutdown(ctx))
	r.requireOnce(list)
	require.EqualValues(t, len(list), r.count("SELECT count() FROM {db}.spans"))
	r.requireLedger()
	// What was refused came again; all that was taken has been stored.
	require.EqualValues(t, len(list), total(r.sums("spans_received"))-total(r.sums("spans_refused")))
	require.Zero(t, total(r.sums("rows_dropped")))
	require.Zero(t, r.where("rows_refused", "class=permanent"))
	require.Positive(t, r.where("retries", "code=0"))
}

// TestASlowEngineIsWaitedForAndDoublesNothing stops the engine for longer than the timeout
// with an INSERT under way.
func TestASlowEngineIsWaitedForAndDoublesNothing(t *testing.T) {
	e := enginetest.Start(t)
	r := newRigOn(t, e.Conn(t), "driftline")
	require.NoError(t, schema.Up(ctx, r.conn, schema.Options{Database: r.db}, nil))
	host := &statusHost{}
	exp := r.newExporter(e.URL(t), host, withQueue, withTimeout(500*time.Millisecond))
	rng := newSeed(t)
	list := []rows.Row{randomRow(rng, rows.TableAttempts)}
	require.NoError(t, exp.ConsumeTraces(ctx, numbered(0, list...)))
	r.eventually(1, "SELECT count() FROM {db}.attempts")

	pause(t, e)
	for range 50 {
		row := randomRow(rng, rows.TableAttempts)
		require.NoError(t, exp.ConsumeTraces(ctx, numbered(len(list), row)), "the queue takes data meanwhile")
		list = append(list, row)
	}
	require.Eventually(t, func() bool { return r.where("retries", "error=TIMEOUT") >= 2 }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, "StatusRecoverableError", host.last().String())
	resume(t, e)
	// A shutdown would give up what is still being tried again.
	require.Eventually(t, func() bool { return total(r.sums("spans_stored")) >= int64(len(list)) }, 60*time.Second, 20*time.Millisecond)
	require.NoError(t, exp.Shutdown(ctx))
	r.requireOnce(list)
	require.EqualValues(t, len(list), r.count("SELECT count() FROM {db}.attempts_base"), "tokens keep out what the engine stored after the timeout")
	r.requireLedger()
	require.EqualValues(t, len(list), total(r.sums("spans_received"))-total(r.sums("spans_refused")), "what came again was refused before")
	require.EqualValues(t, len(list), total(r.sums("spans_stored")))
	require.Equal(t, "StatusOK", host.last().String())
}
