package schema

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"driftline/internal/clock"
)

// sample is an expression for row `number` of a column, never a default and never filtered
// by a view, and recent, so that no retention takes it.
func sample(c Column) string {
	switch {
	case c.Name == "deleted":
		return "false"
	case c.Name == "shard":
		return "0"
	case strings.HasPrefix(c.Type, "Nullable("):
		return sample(Column{Name: c.Name, Type: strings.TrimSuffix(strings.TrimPrefix(c.Type, "Nullable("), ")")})
	case strings.HasPrefix(c.Type, "DateTime64"):
		return "now64(9) - toIntervalSecond(number)"
	case strings.HasPrefix(c.Type, "DateTime"):
		return "toStartOfMinute(now()) - toIntervalMinute(number)"
	case strings.HasPrefix(c.Type, "Map("):
		return "map('k', toString(number))"
	case strings.HasPrefix(c.Type, "Array("):
		return "[number, number + 1]"
	case c.Type == "Bool":
		return "number % 2 = 0"
	case strings.HasSuffix(c.Type, "String)"), c.Type == "String":
		return "concat('" + c.Name + "-', toString(number))"
	}
	return "number + 1"
}

func fill(t *testing.T, conn driver.Conn, database string, table Table, n int) {
	t.Helper()
	var names, values []string
	for _, c := range table.Columns {
		names = append(names, c.Name)
		values = append(values, sample(c))
	}
	require.NoError(t, conn.Exec(background(), fmt.Sprintf("INSERT INTO %s.%s (%s) SELECT %s FROM numbers(%d)",
		database, table.Name, strings.Join(names, ", "), strings.Join(values, ", "), n)), table.Name)
}

// contents is the number and a digest of the rows that a table or view shows, over columns.
func contents(t *testing.T, conn driver.Conn, database, name string, columns []string) string {
	t.Helper()
	var n, digest uint64
	require.NoError(t, conn.QueryRow(background(), fmt.Sprintf("SELECT count(), sum(cityHash64(%s)) FROM %s.%s", strings.Join(columns, ", "), database, name)).Scan(&n, &digest), name)
	return fmt.Sprint(n, " rows, digest ", digest)
}

func TestUpgradeFromVersion1KeepsEveryRow(t *testing.T) {
	ctx, conn, o := fresh(t)
	require.NoError(t, up(ctx, conn, o, 1, nil))
	st, err := readStatus(ctx, conn, o, 1)
	require.NoError(t, err)
	require.NoError(t, st.Problem, "the binary of version 1 is content")

	before, columns := map[string]string{}, map[string][]string{}
	for _, table := range tablesUpTo(1) {
		fill(t, conn, o.Database, table, 50)
		for _, name := range []string{table.Name, strings.TrimSuffix(table.Name, "_base")} {
			for _, c := range engineColumns(t, conn, o.Database, name) {
				columns[name] = append(columns[name], c.Name)
			}
			before[name] = contents(t, conn, o.Database, name, columns[name])
			require.True(t, strings.HasPrefix(before[name], "50 rows"), "%s: %s", name, before[name])
		}
	}

	// Binaries of this version on version 1: they wait, and say for what.
	err = Check(ctx, conn, o)
	require.ErrorIs(t, err, ErrNotMigrated)
	require.False(t, Permanent(err), "it may become right by itself")
	require.ErrorContains(t, err, "the first is 2.1")
	require.ErrorContains(t, err, "detectd migrate up")
	waiting, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, Wait(waiting, conn, o, clock.NewManual(time.Now())), "detectd migrate up")

	require.NoError(t, Up(ctx, conn, o, nil))
	require.NoError(t, Check(ctx, conn, o))
	for name, want := range before {
		require.Equal(t, want, contents(t, conn, o.Database, name, columns[name]), name)
	}
	for _, v := range Views() {
		require.NotZero(t, count(t, conn, "SELECT count() FROM system.tables WHERE database = ? AND name = ?", o.Database, v.Name))
		count(t, conn, "SELECT count() FROM "+o.Database+"."+v.Name)
	}
	require.EqualValues(t, 50, count(t, conn, "SELECT count() FROM "+o.Database+".otel_traces"), "new views show old rows")
	st, err = ReadStatus(ctx, conn, o)
	require.NoError(t, err)
	require.EqualValues(t, Version, st.Current)
	require.Empty(t, st.Pending)

	// A binary of version 1 on version 2: it refuses at its next check, and says why.
	st, err = readStatus(ctx, conn, o, 1)
	require.NoError(t, err)
	require.ErrorIs(t, st.Problem, ErrNewer)
	require.True(t, Permanent(st.Problem))
	require.ErrorContains(t, st.Problem, "upgrade this binary")
	require.ErrorIs(t, up(ctx, conn, o, 1, nil), ErrNewer)
}

// What a collector of the version before had prepared still fits: it names its columns, so
// that what a migration adds gets defaults.
func TestAnOldWritersInsertStillFitsAfterTheUpgrade(t *testing.T) {
	_, conn, o := migrated(t)
	for _, table := range tablesUpTo(1) {
		view := o.Database + "." + strings.TrimSuffix(table.Name, "_base")
		before := count(t, conn, "SELECT count() FROM "+view)
		fill(t, conn, o.Database, table, 10)
		require.EqualValues(t, before+10, count(t, conn, "SELECT count() FROM "+view), table.Name)
	}
}

func TestCheckNoticesWhatWasDroppedByHandAndUpMendsIt(t *testing.T) {
	ctx, conn, o := fresh(t)
	require.NoError(t, Up(ctx, conn, o, nil))
	for _, table := range Tables() {
		fill(t, conn, o.Database, table, 5)
	}
	rows := func(name string) uint64 { return count(t, conn, "SELECT count() FROM "+o.Database+"."+name) }

	t.Run("base table", func(t *testing.T) {
		require.NoError(t, conn.Exec(ctx, "DROP TABLE "+o.local("attempts_base")+o.onCluster()+" SYNC"))
		err := Check(ctx, conn, o)
		require.ErrorIs(t, err, ErrMissing)
		require.False(t, Permanent(err))
		require.ErrorContains(t, err, "attempts_base")
		require.ErrorContains(t, err, "detectd migrate up")
		statements, err := DryRun(ctx, conn, o)
		require.NoError(t, err)
		made := 0
		for _, statement := range statements {
			if strings.HasPrefix(statement, "CREATE TABLE") {
				made++
			}
			require.Contains(t, statement, "attempts_base", "nothing else is touched")
		}
		require.Equal(t, len(o.names(object{name: "attempts_base", shardBy: "x"})), made)
		require.NoError(t, Up(ctx, conn, o, nil))
		require.NoError(t, Check(ctx, conn, o))
		require.Zero(t, rows("attempts"), "the view works again")
		require.EqualValues(t, 5, rows("operations"), "nothing else is touched")
	})
	t.Run("view", func(t *testing.T) {
		require.NoError(t, conn.Exec(ctx, "DROP VIEW "+o.Database+".otel_traces"+o.onCluster()))
		require.ErrorContains(t, Check(ctx, conn, o), "schema object missing: database "+o.Database+": otel_traces;")
		require.NoError(t, Up(ctx, conn, o, nil))
		require.NoError(t, Check(ctx, conn, o))
		require.EqualValues(t, 5, rows("otel_traces"))
	})
	t.Run("migration table", func(t *testing.T) {
		require.NoError(t, conn.Exec(ctx, "DROP TABLE "+o.Database+".schema_migrations"+o.onCluster()+" SYNC"))
		err := Check(ctx, conn, o)
		require.ErrorIs(t, err, ErrNotMigrated)
		require.ErrorContains(t, err, "schema_migrations is missing or empty")
		require.NoError(t, Up(ctx, conn, o, nil))
		require.NoError(t, Check(ctx, conn, o))
		require.EqualValues(t, 5, rows("operations"))
		require.EqualValues(t, len(allObjects()), rows("schema_migrations"))
	})
	t.Run("column", func(t *testing.T) {
		require.NoError(t, conn.Exec(ctx, "ALTER TABLE "+o.local("segments_base")+o.onCluster()+" ADD COLUMN mine String"))
		require.NoError(t, Check(ctx, conn, o), "a column that driftline does not know harms nobody")
		table := o.local("open_requests_base")
		require.NoError(t, conn.Exec(ctx, "ALTER TABLE "+table+o.onCluster()+" MODIFY COLUMN agent String"))
		require.NoError(t, conn.Exec(ctx, "ALTER TABLE "+table+o.onCluster()+" DROP COLUMN operations"))
		err := Check(ctx, conn, o)
		require.ErrorIs(t, err, ErrColumns)
		require.True(t, Permanent(err))
		require.ErrorContains(t, err, strings.TrimPrefix(table, o.Database+".")+".operations is missing, want UInt32")
		require.ErrorContains(t, err, strings.TrimPrefix(table, o.Database+".")+".agent is String, want LowCardinality(String)")
		require.ErrorIs(t, Up(ctx, conn, o, nil), ErrColumns, "up cannot know what to do with the values")
		require.NoError(t, conn.Exec(ctx, "RENAME TABLE "+table+" TO "+table+"_old"+o.onCluster()))
		require.NoError(t, Up(ctx, conn, o, nil), "as the message says")
		require.NoError(t, Check(ctx, conn, o))
	})
}

// A view keeps the columns it was made with, so whoever adds columns must make the view
// over the table anew in the same version.
func TestViewsFollowTheColumnsOfTheirTables(t *testing.T) {
	for version := uint32(1); version <= Version; version++ {
		for i, obj := range versions[version] {
			if obj.alters == "" {
				continue
			}
			commands, err := parseCommands(source(version, obj.name))
			require.NoError(t, err)
			for _, c := range commands {
				if !strings.Contains(c.verb, "COLUMN") || c.verb == "MODIFY COLUMN" && c.column.Type == typeIn(t, obj.alters, c.column.Name) {
					continue // a view does not see indexes, settings and codecs
				}
				view := strings.TrimSuffix(obj.alters, "_base")
				found := false
				for _, later := range versions[version][i+1:] {
					if later.name == view {
						found = strings.HasPrefix(source(version, view), "CREATE OR REPLACE VIEW")
					}
				}
				require.True(t, found, "step %s changes columns: the view %s must be replaced after it in version %d", obj.name, view, version)
			}
		}
	}
}

// typeIn is the type that a column had when its table was made.
func typeIn(t *testing.T, table, column string) string {
	t.Helper()
	for version := range versions {
		for _, obj := range versions[version] {
			if obj.name != table {
				continue
			}
			text, err := Options{}.withDefaults().render(table, source(version, table))
			require.NoError(t, err)
			made, err := parseTable(text)
			require.NoError(t, err)
			for _, c := range made.Columns {
				if c.Name == column {
					return c.Type
				}
			}
		}
	}
	return ""
}
