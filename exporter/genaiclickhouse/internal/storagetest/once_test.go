package storagetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/internal/rows"
)

func TestRowsComeBackAsTheyWere(t *testing.T) {
	r := newRig(t)
	rng := newSeed(t)
	for _, table := range rows.Tables {
		var list []rows.Row
		for range 200 {
			list = append(list, randomRow(rng, table))
		}
		require.NoError(t, r.exp.ConsumeTraces(ctx, traces(list...)))
		require.Equal(t, latest(list), r.readBack(table), table)
		require.EqualValues(t, 200, r.sums("rows_written")[string(table)])
		require.EqualValues(t, 200, r.count(fmt.Sprintf("SELECT count() FROM {db}.%s WHERE ingested_at = toDateTime64(%d, 3)", table, start.Unix())), "ingested_at is the exporter's clock")
	}
	r.requireLedger()
	require.EqualValues(t, 1000, total(r.sums("spans_received")))
	require.Positive(t, total(r.sums("sent_bytes")))
}

// C47: the same batch sent twice, the second time later, changes nothing.
func TestC47TheSameBatchTwiceIsStoredOnce(t *testing.T) {
	r := newRig(t)
	rng := newSeed(t)
	var list []rows.Row
	for _, table := range rows.Tables {
		for range 20 {
			list = append(list, randomRow(rng, table))
		}
	}
	require.NoError(t, r.exp.ConsumeTraces(ctx, traces(list...)))
	r.clk.Advance(5 * time.Second)
	require.NoError(t, r.exp.ConsumeTraces(ctx, traces(list...)))
	for _, table := range append([]rows.Table{"spans"}, rows.Tables...) {
		raw, seen := r.count("SELECT count() FROM {db}."+string(table)+"_base"), r.count("SELECT count() FROM {db}."+string(table))
		require.EqualValues(t, raw, seen, "%s: the token keeps the copy out of the base table", table)
	}
	require.EqualValues(t, 20, r.count("SELECT count() FROM {db}.attempts"))
	require.EqualValues(t, 100, r.count("SELECT count() FROM {db}.spans"))

	// Batched otherwise, no token can help: the keys do.
	for _, row := range list {
		require.NoError(t, r.exp.ConsumeTraces(ctx, traces(row)))
	}
	for _, table := range rows.Tables {
		require.EqualValues(t, 20, r.count("SELECT count() FROM {db}."+string(table)), table)
	}
	r.requireLedger()
}

func TestRevisionsInAnyOrderEndInTheSameRows(t *testing.T) {
	r := newRig(t)
	rng := newSeed(t)
	for _, table := range rows.Tables {
		var list []rows.Row
		for i := range 30 {
			first := randomRow(rng, table)
			first.Head().Revision = 1
			list = append(list, first)
			// The same key again, with other content and higher revisions.
			for revision := uint64(2); revision < 2+uint64(i%3); revision++ {
				next := revise(rng, first)
				next.Head().Revision = revision
				list = append(list, next)
			}
			if i%5 == 0 {
				gone := tombstone(first)
				gone.Head().Revision = 9
				list = append(list, gone)
			}
			if i%7 == 0 {
				late := revise(rng, first)
				late.Head().Revision = 0
				list = append(list, late)
			}
		}
		want := latest(list)
		list = shuffled(rng, append(list, list[:20]...))
		for len(list) > 0 {
			n := min(len(list), 1+rng.IntN(20))
			require.NoError(t, r.exp.ConsumeTraces(ctx, traces(list[:n]...)))
			list = list[n:]
		}
		require.Equal(t, want, r.readBack(table), table)
		require.NoError(t, r.conn.Exec(ctx, "OPTIMIZE TABLE "+r.db+"."+string(table)+"_base FINAL"))
		require.Equal(t, want, r.readBack(table), "%s after merges", table)
	}
}

// C50: one batch over more days than ClickHouse takes partitions.
func TestC50BadTimesAreSetAsideAndGoodRowsStored(t *testing.T) {
	r := newRig(t)
	rng := newSeed(t)
	var list []rows.Row
	for i := range 200 {
		op := randomRow(rng, rows.TableOperations).(*rows.Operation)
		if i < 150 {
			op.EndedAt = start.AddDate(0, 0, -1-i).UnixNano()
		}
		list = append(list, op)
	}
	require.NoError(t, r.exp.ConsumeTraces(ctx, traces(shuffled(rng, list)...)))
	require.EqualValues(t, 50, r.count("SELECT count() FROM {db}.operations"))
	require.EqualValues(t, 150, r.sums("rows_dropped")["scattered_time/operations"])

	for _, at := range []time.Time{{}, time.Unix(1, 0), start.Add(49 * time.Hour), time.Unix(0, -5)} {
		op := randomRow(rng, rows.TableOperations).(*rows.Operation)
		op.EndedAt = at.UnixNano()
		good := randomRow(rng, rows.TableOperations)
		require.NoError(t, r.exp.ConsumeTraces(ctx, traces(op, good)))
	}
	require.EqualValues(t, 54, r.count("SELECT count() FROM {db}.operations"))
	require.EqualValues(t, 4, total(r.sums("rows_dropped"))-150)
	r.requireLedger()
}

func TestABadRowDoesNotHarmItsNeighbours(t *testing.T) {
	r := newRig(t)
	rng := newSeed(t)
	td := traces(randomRow(rng, rows.TableAttempts), randomRow(rng, rows.TableAttempts))
	td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Events().At(0).Attributes().PutStr("driftline.duration_ns", "long")
	require.NoError(t, r.exp.ConsumeTraces(ctx, td))
	require.EqualValues(t, 1, r.count("SELECT count() FROM {db}.attempts"))
	require.EqualValues(t, 1, r.sums("rows_dropped")["bad_row/attempts"])
	r.requireLedger()
}
