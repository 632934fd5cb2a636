package schema

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"driftline/internal/clock"
	"driftline/internal/engine/enginetest"
)

// envCluster names the environment variable that makes the tests of this package create
// their tables on a cluster of the server given by enginetest.EnvDSN, and write and read
// them through Distributed tables. It is the cluster's name in the servers' configuration.
const envCluster = "DRIFTLINE_TEST_CLICKHOUSE_CLUSTER"

// background has the settings of every connection that driftline writes with.
func background() context.Context {
	return clickhouse.Context(context.Background(), clickhouse.WithSettings(clickhouse.Settings{"distributed_foreground_insert": 1}))
}

// fresh returns a connection and options for a database that is dropped at the end; on a
// cluster if one is named in the environment.
func fresh(t *testing.T) (context.Context, driver.Conn, Options) {
	ctx, conn, o := freshNode(t)
	if o.Cluster = os.Getenv(envCluster); o.Cluster != "" {
		t.Cleanup(func() {
			require.NoError(t, conn.Exec(ctx, "DROP DATABASE IF EXISTS "+o.Database+o.onCluster()+" SYNC"))
		})
	}
	return ctx, conn, o.withDefaults()
}

// freshNode is fresh for what concerns one node only.
func freshNode(t *testing.T) (context.Context, driver.Conn, Options) {
	e := enginetest.Shared(t)
	return background(), e.Conn(t), Options{Database: e.Database(t), AppliedBy: "test"}.withDefaults()
}

var shared struct {
	once sync.Once
	o    Options
	err  error
}

// migrated is fresh with the schema applied, shared by tests that change no table and leave
// alone what others wrote. It ends with the engine; on a server given from outside it is
// dropped and made again.
func migrated(t *testing.T) (context.Context, driver.Conn, Options) {
	t.Helper()
	e := enginetest.Shared(t)
	ctx, conn := background(), e.Conn(t)
	shared.once.Do(func() {
		shared.o = Options{Database: "schema_shared", Cluster: os.Getenv(envCluster)}.withDefaults()
		if shared.err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+shared.o.Database+shared.o.onCluster()+" SYNC"); shared.err == nil {
			shared.err = Up(ctx, conn, shared.o, nil)
		}
	})
	require.NoError(t, shared.err)
	return ctx, conn, shared.o
}

func count(t *testing.T, conn driver.Conn, query string, args ...any) (n uint64) {
	t.Helper()
	require.NoError(t, conn.QueryRow(background(), query, args...).Scan(&n))
	return n
}

func TestUpCreatesTheDatabaseAndASecondRunChangesNothing(t *testing.T) {
	ctx, conn, o := fresh(t)
	require.NoError(t, conn.Exec(ctx, "DROP DATABASE "+o.Database+o.onCluster()+" SYNC"))
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
	require.Zero(t, count(t, conn, "SELECT count() FROM system.tables WHERE database = ? AND (name = 'schema_lock' OR startsWith(name, 'schema_lock_stale'))", o.Database))
	for _, v := range Views() {
		require.Zero(t, count(t, conn, "SELECT count() FROM "+o.Database+"."+v.Name), v.Name)
	}
}

func TestTheEngineSeesTheColumnsThatThePackageStates(t *testing.T) {
	_, conn, o := migrated(t)
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
	rows, err := conn.Query(background(), "SELECT name, type, default_expression FROM system.columns WHERE database = ? AND table = ? ORDER BY position", database, table)
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
		for _, statement := range step.Statements {
			require.NoError(t, conn.Exec(ctx, statement))
		}
		if i < 7 {
			killed := o
			killed.AppliedBy = "killed"
			require.NoError(t, conn.Exec(ctx, killed.record(step)))
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
	require.NoError(t, conn.Exec(ctx, o.record(Step{Version: 1, Number: 2, Name: "requests", Checksum: "another"})))
	err := Check(ctx, conn, o)
	require.ErrorIs(t, err, ErrChecksum)
	require.ErrorIs(t, Up(ctx, conn, o, nil), ErrChecksum)

	require.NoError(t, conn.Exec(ctx, o.record(Step{Version: Version + 1, Number: 1, Name: "later", Checksum: "x"})))
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
	o.TTLDays[TTLSpans], o.TTLDays[TTLRollup1m] = 2, 21
	want := map[string]int{}
	for _, table := range Tables() {
		if days, ok := o.TTLDays[table.TTLKey]; ok && (table.TTLKey == TTLSpans || table.TTLKey == TTLRollup1m) {
			want[strings.TrimPrefix(o.local(table.Name), o.Database+".")] = days
		}
	}
	statements, err := DryRun(ctx, conn, o)
	require.NoError(t, err)
	require.Len(t, statements, len(want))
	require.Greater(t, len(want), 3)
	require.NoError(t, Up(ctx, conn, o, nil))
	for name, days := range want {
		require.EqualValues(t, 1, count(t, conn, "SELECT count() FROM system.tables WHERE database = ? AND name = ? AND position(create_table_query, ?) > 0", o.Database, name, fmt.Sprintf("toIntervalDay(%d)", days)), name)
	}
	require.NoError(t, Check(ctx, conn, o), "retention is no part of the checksum")
}

// C53: retention is what the configuration says, no shorter and no longer.
func TestC53RetentionIsWhatTheConfigurationSays(t *testing.T) {
	ctx, conn, o := migrated(t)
	require.Equal(t, 30, o.TTLDays[TTLAttempts])
	table := o.Database + ".attempts_base"
	for _, days := range []int{8, 31} {
		require.NoError(t, conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s (service_name, trace_id, attempt_id, ended_at) SELECT 's', 't', '%d', now64(9) - toIntervalDay(%d)", table, days, days)))
	}
	local := o.local("attempts_base") + o.onCluster()
	require.NoError(t, conn.Exec(ctx, "ALTER TABLE "+local+" MATERIALIZE TTL SETTINGS mutations_sync = 2"))
	require.NoError(t, conn.Exec(ctx, "OPTIMIZE TABLE "+local+" FINAL"))
	require.EqualValues(t, 1, count(t, conn, "SELECT count() FROM "+o.Database+".attempts WHERE attempt_id = '8'"))
	require.Zero(t, count(t, conn, "SELECT count() FROM "+o.Database+".attempts WHERE attempt_id = '31'"))
	require.EqualValues(t, 1, count(t, conn, "SELECT count() FROM "+o.Database+".attempts_base WHERE trace_id = 't'"), "gone, not only hidden")
}

func TestAStaleLockIsBrokenOnceAndAFreshOneIsNot(t *testing.T) {
	ctx, conn, o := freshNode(t)
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

	require.NoError(t, conn.Exec(ctx, o.record(Step{Version: Version + 1, Number: 1, Name: "later", Checksum: "x"})))
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
	alters, err := Options{Cluster: "eu-1"}.withDefaults().alterStatements("spans_base", alterTemplate)
	require.NoError(t, err)
	parsed := 0
	for _, statement := range append(statements, alters...) {
		rows, err := conn.Query(ctx, "EXPLAIN AST "+statement)
		require.NoError(t, err, statement)
		require.True(t, rows.Next(), statement)
		require.NoError(t, rows.Close())
		parsed++
	}
	// One statement for each step and another for the Distributed table of each new table, what
	// comes first, and the record. Changes of columns go to the Distributed table as well.
	require.GreaterOrEqual(t, parsed, 2+len(allObjects())+len(Tables())+1+len(alters))
	_, err = conn.Query(ctx, "EXPLAIN AST CREATE TABLE x (a Int ENGINE = Nothing")
	require.Error(t, err, "the check itself must be able to fail")
}

// All revisions of a key must come to one shard, or no FINAL can tell the last one.
func TestRowsOfOneKeyComeToOneShard(t *testing.T) {
	for _, table := range Tables() {
		for _, column := range regexp.MustCompile(`\w+`).FindAllString(table.ShardBy, -1) {
			if column != "cityHash64" {
				require.Regexp(t, `\b`+column+`\b`, table.OrderBy, "%s is sharded by %s, which is no part of the key", table.Name, column)
			}
		}
	}
}

// Readers see the last revision of each key, wherever it is stored and in whatever order it came.
func TestViewsShowTheLastRevisionOfEachKey(t *testing.T) {
	ctx, conn, o := migrated(t)
	for _, revision := range []int{2, 3, 1, 3} {
		require.NoError(t, conn.Exec(ctx, fmt.Sprintf(`INSERT INTO %s.operations_base (service_name, trace_id, operation_id, revision, deleted, ended_at, user_time_ns)
			SELECT 's', lower(hex(sipHash128(number))), 'o', %d, number = 0 AND %d = 3, toStartOfHour(now64(9)), %d FROM numbers(100)`, o.Database, revision, revision, revision)))
		require.NoError(t, conn.Exec(ctx, fmt.Sprintf(`INSERT INTO %s.rollup_operations_1m_base (service_name, minute, kind, n, version)
			SELECT concat('s', toString(number)), toStartOfHour(now()), 'model', if(number = 0 AND %d = 3, 0, %d), %d FROM numbers(100)`, o.Database, revision, revision, revision)))
	}
	require.EqualValues(t, 99, count(t, conn, "SELECT count() FROM "+o.Database+".operations WHERE user_time_ns = 3"))
	require.EqualValues(t, 99, count(t, conn, "SELECT count() FROM "+o.Database+".operations"), "a tombstone hides its key")
	require.EqualValues(t, 99, count(t, conn, "SELECT count() FROM "+o.Database+".rollup_operations_1m WHERE n = 3"))
	require.EqualValues(t, 99, count(t, conn, "SELECT count() FROM "+o.Database+".rollup_operations_1m"), "an emptied cell is hidden")
}
