package schema

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"driftline/internal/clock"
	"driftline/internal/engine/enginetest"
)

// fresh returns a connection and options for a database that is dropped at the end.
func fresh(t *testing.T) (context.Context, driver.Conn, Options) {
	e := enginetest.Shared(t)
	return context.Background(), e.Conn(t), Options{Database: e.Database(t), AppliedBy: "test"}
}

func count(t *testing.T, conn driver.Conn, query string, args ...any) (n uint64) {
	t.Helper()
	require.NoError(t, conn.QueryRow(context.Background(), query, args...).Scan(&n))
	return n
}

func TestUpCreatesTheDatabaseAndASecondRunChangesNothing(t *testing.T) {
	ctx, conn, o := fresh(t)
	require.NoError(t, conn.Exec(ctx, "DROP DATABASE "+o.Database+" SYNC"))
	require.ErrorIs(t, Check(ctx, conn, o), ErrNotMigrated)
	require.NoError(t, Up(ctx, conn, o, nil))
	require.NoError(t, Check(ctx, conn, o))

	st, err := ReadStatus(ctx, conn, o)
	require.NoError(t, err)
	require.EqualValues(t, Version, st.Current)
	require.Empty(t, st.Pending)
	require.Equal(t, "test", st.Applied[0].AppliedBy)
	require.WithinDuration(t, time.Now(), st.Applied[0].AppliedAt, 10*time.Minute)

	require.NoError(t, Up(ctx, conn, o, nil))
	require.EqualValues(t, len(st.Applied), count(t, conn, "SELECT count() FROM "+o.Database+".schema_migrations"))
	require.Zero(t, count(t, conn, "SELECT count() FROM system.tables WHERE database = ? AND startsWith(name, 'schema_lock')", o.Database))
	for _, v := range Views() {
		require.Zero(t, count(t, conn, "SELECT count() FROM "+o.Database+"."+v.Name), v.Name)
	}
}

func TestTheEngineSeesTheColumnsThatThePackageStates(t *testing.T) {
	ctx, conn, o := fresh(t)
	require.NoError(t, Up(ctx, conn, o, nil))
	for _, table := range Tables() {
		got := engineColumns(t, conn, o.Database, table.Name)
		var want []Column
		for _, c := range table.Columns {
			c.Codec = ""
			want = append(want, c)
		}
		require.Equal(t, want, got, table.Name)
	}
}

// engineColumns reads a table's columns, without codecs, from the engine.
func engineColumns(t *testing.T, conn driver.Conn, database, table string) (out []Column) {
	t.Helper()
	rows, err := conn.Query(context.Background(), "SELECT name, type, default_expression FROM system.columns WHERE database = ? AND table = ? ORDER BY position", database, table)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var c Column
		require.NoError(t, rows.Scan(&c.Name, &c.Type, &c.Default))
		out = append(out, c)
	}
	require.NoError(t, rows.Err())
	return out
}

func TestTenAtOnceApplyEachStepOnce(t *testing.T) {
	ctx, _, o := fresh(t)
	e := enginetest.Shared(t)
	var wg sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		conn := e.Conn(t)
		wg.Go(func() {
			mine := o
			mine.AppliedBy = fmt.Sprint("caller ", i)
			errs[i] = Up(ctx, conn, mine, nil)
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	conn := e.Conn(t)
	steps, err := Steps(o)
	require.NoError(t, err)
	require.EqualValues(t, len(steps), count(t, conn, "SELECT count() FROM "+o.Database+".schema_migrations"), "raw rows: a step recorded twice would show")
	require.NoError(t, Check(ctx, conn, o))
}

func TestAnInterruptedMigrationGoesOnWhereItStopped(t *testing.T) {
	ctx, conn, o := fresh(t)
	steps, err := Steps(o)
	require.NoError(t, err)
	for _, statement := range o.bootstrap() {
		require.NoError(t, conn.Exec(ctx, statement))
	}
	// Seven steps recorded, the eighth applied but not recorded, as after a kill.
	for i, step := range steps[:8] {
		require.NoError(t, conn.Exec(ctx, step.Statements[0]))
		if i < 7 {
			require.NoError(t, conn.Exec(ctx, o.record(), step.Version, step.Number, step.Name, step.Checksum, "killed"))
		}
	}
	require.ErrorIs(t, Check(ctx, conn, o), ErrNotMigrated)
	require.NoError(t, Up(ctx, conn, o, nil))
	require.NoError(t, Check(ctx, conn, o))
	require.EqualValues(t, 7, count(t, conn, "SELECT count() FROM "+o.Database+".schema_migrations WHERE applied_by = 'killed'"))
}

func TestAChangedOrNewerSchemaIsRefused(t *testing.T) {
	ctx, conn, o := fresh(t)
	require.NoError(t, Up(ctx, conn, o, nil))
	require.NoError(t, conn.Exec(ctx, o.record(), uint32(1), uint32(2), "requests", "another", "someone"))
	err := Check(ctx, conn, o)
	require.ErrorIs(t, err, ErrChecksum)
	require.ErrorIs(t, Up(ctx, conn, o, nil), ErrChecksum)

	require.NoError(t, conn.Exec(ctx, o.record(), uint32(Version+1), uint32(1), "later", "x", "a later release"))
	err = Check(ctx, conn, o)
	require.ErrorIs(t, err, ErrNewer)
	require.ErrorContains(t, err, "upgrade this binary")
	require.ErrorIs(t, Up(ctx, conn, o, nil), ErrNewer)
	_, err = DryRun(ctx, conn, o)
	require.ErrorIs(t, err, ErrNewer)
}

func TestDryRunStatesWhatUpWouldDoAndDoesNothing(t *testing.T) {
	ctx, conn, o := fresh(t)
	before := count(t, conn, "SELECT count() FROM system.tables WHERE database = ?", o.Database)
	statements, err := DryRun(ctx, conn, o)
	require.NoError(t, err)
	offline, err := DryRun(ctx, nil, o)
	require.NoError(t, err)
	require.Equal(t, offline, statements)
	require.Equal(t, before, count(t, conn, "SELECT count() FROM system.tables WHERE database = ?", o.Database))

	for _, statement := range statements {
		require.NoError(t, conn.Exec(ctx, statement), statement)
	}
	require.NoError(t, Check(ctx, conn, o), "what dry-run prints brings a database to this version")
	statements, err = DryRun(ctx, conn, o)
	require.NoError(t, err)
	require.Empty(t, statements)
	require.Empty(t, Script(statements))
}

func TestAChangedRetentionIsAltered(t *testing.T) {
	ctx, conn, o := fresh(t)
	require.NoError(t, Up(ctx, conn, o, nil))
	o.TTLDays = map[string]int{TTLSpans: 2, TTLRollup1m: 21}
	statements, err := DryRun(ctx, conn, o)
	require.NoError(t, err)
	require.Len(t, statements, 4)
	require.NoError(t, Up(ctx, conn, o, nil))
	require.EqualValues(t, 1, count(t, conn, "SELECT count() FROM system.tables WHERE database = ? AND name = 'spans_base' AND create_table_query LIKE '%toIntervalDay(2)%'", o.Database))
	require.EqualValues(t, 3, count(t, conn, "SELECT count() FROM system.tables WHERE database = ? AND name LIKE 'rollup%1m_base' AND create_table_query LIKE '%toIntervalDay(21)%'", o.Database))
	require.NoError(t, Check(ctx, conn, o), "retention is no part of the checksum")
}

// C53: retention is what the configuration says, no shorter and no longer.
func TestC53RetentionIsWhatTheConfigurationSays(t *testing.T) {
	ctx, conn, o := fresh(t)
	o.TTLDays = map[string]int{TTLAttempts: 30}
	require.NoError(t, Up(ctx, conn, o, nil))
	table := o.Database + ".attempts_base"
	for _, days := range []int{8, 31} {
		require.NoError(t, conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s (service_name, trace_id, attempt_id, ended_at) SELECT 's', 't', '%d', now64(9) - toIntervalDay(%d)", table, days, days)))
	}
	require.NoError(t, conn.Exec(ctx, "ALTER TABLE "+table+" MATERIALIZE TTL SETTINGS mutations_sync = 2"))
	require.NoError(t, conn.Exec(ctx, "OPTIMIZE TABLE "+table+" FINAL"))
	require.EqualValues(t, 1, count(t, conn, "SELECT count() FROM "+o.Database+".attempts WHERE attempt_id = '8'"))
	require.Zero(t, count(t, conn, "SELECT count() FROM "+o.Database+".attempts WHERE attempt_id = '31'"))
}

func TestAStaleLockIsBrokenOnceAndAFreshOneIsNot(t *testing.T) {
	ctx, conn, o := fresh(t)
	o = o.withDefaults()
	dead, err := acquire(ctx, conn, o, nil)
	require.NoError(t, err)

	// Two callers saw the dead holder's lock. The first moves it aside and takes its own.
	first := &lock{conn: conn, o: o, how: o.tableLock(), owner: newOwner()}
	second := &lock{conn: conn, o: o, how: o.tableLock(), owner: newOwner()}
	log := discard()
	require.NoError(t, first.breakStale(ctx, dead.owner, LockStale, log))
	fresh, err := acquire(ctx, conn, o, log)
	require.NoError(t, err)
	require.NoError(t, second.breakStale(ctx, dead.owner, LockStale, log))
	owner, age, held, err := fresh.holder(ctx)
	require.NoError(t, err)
	require.True(t, held)
	require.Equal(t, fresh.owner, owner, "the late caller must not take the fresh lock away")
	require.Less(t, age, LockStale)

	dead.renewed = time.Time{}
	require.ErrorIs(t, dead.renew(ctx), ErrLocked, "the dead holder, should it come back, must stop")
	fresh.renewed = time.Time{}
	require.NoError(t, fresh.renew(ctx))
	dead.release(log)
	_, _, held, err = fresh.holder(ctx)
	require.NoError(t, err)
	require.True(t, held, "a release frees one's own lock only")

	short, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	_, err = acquire(short, conn, o, log)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, fresh.owner)
	fresh.release(log)
	_, _, held, err = fresh.holder(ctx)
	require.NoError(t, err)
	require.False(t, held)
}

func TestWaitReturnsOnceTheSchemaIsThere(t *testing.T) {
	ctx, conn, o := fresh(t)
	clk := clock.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	done := make(chan error, 1)
	go func() { done <- Wait(ctx, conn, o, clk) }()
	clk.Advance(3 * WaitInterval)
	require.NoError(t, Up(ctx, conn, o, nil))
	require.Eventually(t, func() bool {
		clk.Advance(WaitInterval)
		select {
		case err := <-done:
			require.NoError(t, err)
			return true
		default:
			return false
		}
	}, 30*time.Second, 10*time.Millisecond)

	require.NoError(t, conn.Exec(ctx, o.record(), uint32(Version+1), uint32(1), "later", "x", ""))
	require.ErrorIs(t, Wait(ctx, conn, o, clk), ErrNewer, "waiting cannot mend a newer schema")

	ended, cancel := context.WithCancel(ctx)
	cancel()
	err := Wait(ended, conn, Options{Database: "not_migrated"}, clk)
	require.ErrorIs(t, err, context.Canceled)
}

func TestClusterTemplatesAreSQLToTheEngine(t *testing.T) {
	ctx, conn, _ := fresh(t)
	statements, err := DryRun(ctx, nil, Options{Database: "driftline", Cluster: "eu-1", AppliedBy: "it's"})
	require.NoError(t, err)
	parsed := 0
	for _, statement := range statements {
		rows, err := conn.Query(ctx, "EXPLAIN AST "+statement)
		require.NoError(t, err, statement)
		require.True(t, rows.Next(), statement)
		require.NoError(t, rows.Close())
		parsed++
	}
	require.Greater(t, parsed, 40)
	_, err = conn.Query(ctx, "EXPLAIN AST CREATE TABLE x (a Int ENGINE = Nothing")
	require.Error(t, err, "the check itself must be able to fail")
}
