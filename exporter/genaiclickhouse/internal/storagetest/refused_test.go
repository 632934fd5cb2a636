package storagetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/annotate"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
)

const poison = "poison"

// poisoned is a row that the tests' constraints refuse.
func poisoned(row rows.Row) rows.Row {
	row.(*rows.Attempt).Name = poison
	return row
}

// exec runs a statement on the database, whose tables are not those of a migration any more.
func (r *rig) exec(sql string) {
	r.t.Helper()
	r.spoiled = true
	require.NoError(r.t, r.conn.Exec(ctx, fmt.Sprintf(sql, r.db)))
}

// constrain makes ClickHouse refuse poisoned attempts with a code that is about content.
func (r *rig) constrain() {
	r.exec("ALTER TABLE %s.attempts_base ADD CONSTRAINT no_poison CHECK name != '" + poison + "'")
}

// refuseUnknown makes it refuse them with a code that the exporter does not know.
func (r *rig) refuseUnknown() {
	r.exec("ALTER TABLE %s.attempts_base ADD CONSTRAINT no_poison CHECK throwIf(name = '" + poison + "') = 0")
}

// TestARefusedRowIsDroppedAndItsNeighboursAreStored hides three poisoned rows among a
// thousand others.
func TestARefusedRowIsDroppedAndItsNeighboursAreStored(t *testing.T) {
	r := newRig(t)
	r.constrain()
	rng := newSeed(t)
	var good, all []rows.Row
	for i := range 1000 {
		row := randomRow(rng, rows.TableAttempts)
		if i%400 == 199 {
			all = append(all, poisoned(row))
			continue
		}
		good, all = append(good, row), append(all, row)
	}
	for _, table := range []rows.Table{rows.TableOperations, rows.TableRequests} {
		for range 50 {
			row := randomRow(rng, table)
			good, all = append(good, row), append(all, row)
		}
	}
	all = shuffled(rng, all)
	require.NoError(t, r.exp.ConsumeTraces(ctx, traces(all...)), "one try is enough")
	r.requireOnce(good)
	require.EqualValues(t, len(all), r.count("SELECT count() FROM {db}.spans"), "spans of refused rows are stored")
	r.requireLedger()
	require.EqualValues(t, 3, r.where("rows_refused", "class=permanent"))
	require.EqualValues(t, 3, r.where("rows_refused", "class=permanent", "table=attempts"))
	require.Positive(t, r.where("insert_errors", "class=permanent", "code=469", "error=VIOLATED_CONSTRAINT"))
	require.Zero(t, r.where("retries"))
	lines := r.logs.FilterMessageSnippet("refuses a row").All()
	require.Len(t, lines, 1, "once a minute per table and error")
	line := lines[0].ContextMap()
	require.Equal(t, "attempts", line["table"])
	require.Equal(t, "carrier", line["service"])
	require.Contains(t, line["what_to_do"], "constraints")
	require.NotContains(t, fmt.Sprint(line), poison, "no values in the log")
}

// TestARefusedRowHarmsNoOtherOfItsSpan puts all rows on one span.
func TestARefusedRowHarmsNoOtherOfItsSpan(t *testing.T) {
	r := newRig(t)
	r.constrain()
	rng := newSeed(t)
	td := ptrace.NewTraces()
	traces(randomRow(rng, rows.TableRequests)).CopyTo(td)
	span := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	for i := range 6 {
		row := randomRow(rng, rows.TableAttempts)
		if i == 2 {
			row = poisoned(row)
		}
		annotate.Encode(row, span.Events().AppendEmpty())
	}
	require.NoError(t, r.exp.ConsumeTraces(ctx, td))
	require.EqualValues(t, 5, r.count("SELECT count() FROM {db}.attempts"))
	require.EqualValues(t, 1, r.count("SELECT count() FROM {db}.requests"))
	require.EqualValues(t, 1, r.count("SELECT count() FROM {db}.spans"))
	require.EqualValues(t, 1, r.where("rows_refused", "class=permanent"))
	r.requireLedger()
}

// TestARefusedRowAloneWaitsForProof: without a neighbour that is stored, the table may be
// at fault.
func TestARefusedRowAloneWaitsForProof(t *testing.T) {
	r := newRig(t)
	r.constrain()
	rng := newSeed(t)
	first, second := traces(poisoned(randomRow(rng, rows.TableAttempts))), numbered(9, poisoned(randomRow(rng, rows.TableAttempts)))
	err := r.exp.ConsumeTraces(ctx, first)
	require.Error(t, err)
	require.False(t, consumererror.IsPermanent(err))
	require.ErrorContains(t, err, "VIOLATED_CONSTRAINT")
	require.Zero(t, r.where("rows_refused", "class=permanent"))
	require.NoError(t, r.exp.ConsumeTraces(ctx, numbered(1, randomRow(rng, rows.TableAttempts))))
	require.NoError(t, r.exp.ConsumeTraces(ctx, first), "another row was stored: this one is at fault")
	require.EqualValues(t, 1, r.where("rows_refused", "class=permanent"))

	require.Error(t, r.exp.ConsumeTraces(ctx, second))
	r.clk.Advance(10*time.Minute - time.Second)
	require.Error(t, r.exp.ConsumeTraces(ctx, second))
	r.clk.Advance(time.Second)
	require.NoError(t, r.exp.ConsumeTraces(ctx, second), "no row may be tried for ever")
	require.EqualValues(t, 2, r.where("rows_refused", "class=permanent"))
	require.EqualValues(t, 1, r.count("SELECT count() FROM {db}.attempts"))
	require.EqualValues(t, 3, r.count("SELECT count() FROM {db}.spans"))
	r.requireLedger()
}

// TestATableThatRefusesEverythingIsWaitedFor: nothing is dropped while nothing is stored.
func TestATableThatRefusesEverythingIsWaitedFor(t *testing.T) {
	r := newRig(t)
	r.exec("ALTER TABLE %s.attempts_base ADD CONSTRAINT nothing CHECK ordinal < 0")
	host := &statusHost{}
	exp := r.newExporter(enginetest.Shared(t).URL(t), host, withQueue, withTimeout(2*time.Minute))
	rng := newSeed(t)
	var list []rows.Row
	for range 200 {
		list = append(list, randomRow(rng, rows.TableAttempts))
	}
	require.NoError(t, exp.ConsumeTraces(ctx, traces(list...)))
	require.Eventually(t, func() bool { return r.where("retries", "error=VIOLATED_CONSTRAINT") >= 2 }, 60*time.Second, 20*time.Millisecond)
	require.Equal(t, "StatusRecoverableError", host.last().String())
	require.Len(t, r.logs.FilterMessageSnippet("waiting for ClickHouse").All(), 1)
	require.Less(t, r.where("insert_errors"), int64(50*(1+r.where("retries"))), "a try is bounded")
	r.exec("ALTER TABLE %s.attempts_base DROP CONSTRAINT nothing")
	r.eventually(200, "SELECT count() FROM {db}.attempts")
	require.Eventually(t, func() bool { return host.last().String() == "StatusOK" }, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, exp.Shutdown(ctx))
	r.requireOnce(list)
	require.Zero(t, r.where("rows_refused", "class=permanent"))
	r.requireLedger()
}

// TestAnUnknownErrorIsTriedAgainWithinBounds: a batch with it does not stand in the way for
// ever, and its rows are lost only if others are stored.
func TestAnUnknownErrorIsTriedAgainWithinBounds(t *testing.T) {
	r := newRig(t)
	r.refuseUnknown()
	rng := newSeed(t)
	td := traces(randomRow(rng, rows.TableAttempts), poisoned(randomRow(rng, rows.TableAttempts)), randomRow(rng, rows.TableAttempts))
	alone := numbered(7, poisoned(randomRow(rng, rows.TableAttempts)))
	require.Error(t, r.exp.ConsumeTraces(ctx, alone))
	for range 3 {
		err := r.exp.ConsumeTraces(ctx, td)
		require.Error(t, err)
		require.False(t, consumererror.IsPermanent(err))
		r.clk.Advance(3 * time.Minute)
	}
	require.EqualValues(t, 4, r.where("insert_errors", "error=OTHER", "class=retryable"))
	require.Zero(t, r.count("SELECT count() FROM {db}.attempts"), "until then, nothing is divided")
	require.Error(t, r.exp.ConsumeTraces(ctx, alone), "nothing else was stored: the server may be at fault")
	r.clk.Advance(time.Minute)
	require.NoError(t, r.exp.ConsumeTraces(ctx, td))
	require.EqualValues(t, 2, r.count("SELECT count() FROM {db}.attempts"))
	require.EqualValues(t, 1, r.where("rows_refused", "class=permanent"))
	require.NoError(t, r.exp.ConsumeTraces(ctx, alone), "now others were stored")
	require.EqualValues(t, 2, r.where("rows_refused", "class=permanent"))
	r.requireLedger()
}

// TestServerTroubleIsWaitedForWithItsOwnName meets the engine's real errors, and lets them
// be mended.
func TestServerTroubleIsWaitedForWithItsOwnName(t *testing.T) {
	first := newRig(t)
	first.spoiled = true
	for _, c := range []struct {
		name, code, spoil, mend, whatToDo string
		// found says that the check of the schema finds it too.
		found bool
	}{
		{"NOT_ENOUGH_SPACE", "243", "MODIFY SETTING min_free_disk_bytes_to_perform_insert = 1000000000000000", "RESET SETTING min_free_disk_bytes_to_perform_insert", "disk space", false},
		{"TOO_MANY_PARTS", "252", "MODIFY SETTING parts_to_throw_insert = 1, parts_to_delay_insert = 1", "RESET SETTING parts_to_throw_insert, parts_to_delay_insert", "merges", false},
		{"SCHEMA_COLUMNS_DIFFER", "0", "DROP COLUMN at_cap", "ADD COLUMN at_cap Bool AFTER timeout_ns", "attempts_base.at_cap is missing", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRigOn(t, first.conn, first.db)
			r.exec("TRUNCATE TABLE %s.attempts_base")
			host := &statusHost{}
			exp := r.newExporter(enginetest.Shared(t).URL(t), host)
			rng := newSeed(t)
			list := []rows.Row{randomRow(rng, rows.TableAttempts)}
			require.NoError(t, exp.ConsumeTraces(ctx, traces(list...)))
			require.Equal(t, "StatusOK", host.last().String())
			r.exec("ALTER TABLE %s.attempts_base " + c.spoil)
			row := randomRow(rng, rows.TableAttempts)
			if c.found {
				// The INSERT meets it first, and from then on the check of the schema.
				require.ErrorContains(t, exp.ConsumeTraces(ctx, numbered(1, row)), "NO_SUCH_COLUMN_IN_TABLE")
				require.EqualValues(t, 1, r.where("insert_errors", "code=16", "class=retryable"))
			}
			for range 3 {
				err := exp.ConsumeTraces(ctx, numbered(1, row))
				require.ErrorContains(t, err, c.whatToDo)
				require.False(t, consumererror.IsPermanent(err))
			}
			require.Equal(t, "StatusRecoverableError", host.last().String())
			told := 1
			if c.found {
				told = 2
			}
			require.Len(t, r.logs.FilterMessageSnippet("ClickHouse").FilterLevelExact(zap.WarnLevel).All(), told, "told once")
			require.EqualValues(t, 3, r.where("retries", "code="+c.code, "error="+c.name))
			if !c.found {
				require.EqualValues(t, 3, r.where("insert_errors", "code="+c.code, "class=retryable"))
			}
			r.exec("ALTER TABLE %s.attempts_base " + c.mend)
			require.NoError(t, exp.ConsumeTraces(ctx, numbered(1, row)))
			require.Equal(t, "StatusOK", host.last().String())
			require.EqualValues(t, 2, r.count("SELECT count() FROM {db}.attempts"))
			r.requireLedger()
		})
	}
}

// TestNoInsertHasMoreRowsThanConfigured: batches are bounded in bytes, which tiny rows make
// many of.
func TestNoInsertHasMoreRowsThanConfigured(t *testing.T) {
	r := newRig(t, func(c *genaiclickhouse.Config) { c.MaxInsertRows = 100 })
	rng := newSeed(t)
	var list []rows.Row
	for range 950 {
		list = append(list, randomRow(rng, []rows.Table{rows.TableAttempts, rows.TableSegments}[rng.IntN(2)]))
	}
	require.NoError(t, r.exp.ConsumeTraces(ctx, traces(list...)))
	r.requireOnce(list)
	require.EqualValues(t, 950, r.count("SELECT count() FROM {db}.spans"))
	// Each INSERT makes a block per partition; the largest part before merges is bounded by it.
	require.EqualValues(t, 10, r.inserts("spans"))
	require.LessOrEqual(t, r.inserts("attempts"), uint64(10))
	r.requireLedger()
	require.NoError(t, r.exp.ConsumeTraces(ctx, traces(list...)), "again")
	require.EqualValues(t, 950, r.count("SELECT count() FROM {db}.spans_base"), "the cut is the same, and so the tokens")
}
