package schema

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"driftline/internal/engine/enginetest"
)

// beforeRebuild is the last version whose tables have their first definition.
const beforeRebuild = 3

// rebuilt lists the tables that are rebuilt, as Version has them.
func rebuilt() (out []Table) {
	for _, table := range Tables() {
		if _, _, ok := (Options{}).rebuiltBy(table.Name); ok {
			out = append(out, table)
		}
	}
	return out
}

// rebuiltRollup is one of them whose rows have a minute.
func rebuiltRollup(t *testing.T) Table {
	t.Helper()
	for _, table := range rebuilt() {
		if strings.HasPrefix(table.Name, "rollup_") {
			return table
		}
	}
	t.Fatal("no rollup is rebuilt")
	return Table{}
}

func rebuildVersion(table string) uint32 {
	version, _, _ := Options{}.rebuiltBy(table)
	return version
}

// fillDays gives a table n rows of its newest days, of which one key has two versions.
func fillDays(t *testing.T, conn driver.Conn, database string, table Table, n int) {
	t.Helper()
	var names, values []string
	for _, c := range table.Columns {
		value := sample(c)
		if c.Name == "minute" {
			value = "toStartOfMinute(now()) - toIntervalHour(number * 60 / " + fmt.Sprint(n) + ")"
		}
		if c.Name == "started_at" {
			value = "now64(9) - toIntervalHour(number * 60 / " + fmt.Sprint(n) + ")"
		}
		names, values = append(names, c.Name), append(values, value)
	}
	insert := fmt.Sprintf("INSERT INTO %s.%s (%s) SELECT %s FROM numbers(%d)", database, table.Name, strings.Join(names, ", "), strings.Join(values, ", "), n)
	require.NoError(t, conn.Exec(background(), insert))
	newer := "version + 7 AS version, n + 1 AS n"
	if table.Name == "spans_base" {
		newer = "ingested_at + 7 AS ingested_at, duration_ns + 1 AS duration_ns"
	}
	require.NoError(t, conn.Exec(background(), fmt.Sprintf("INSERT INTO %s.%s SELECT * REPLACE (%s) FROM %s.%s LIMIT 1", database, table.Name, newer, database, table.Name)))
}

func form(t *testing.T, conn driver.Conn, database, table string) (key, ddl string) {
	t.Helper()
	require.NoError(t, conn.QueryRow(background(), "SELECT sorting_key, create_table_query FROM system.tables WHERE database = ? AND name = ?", database, table).Scan(&key, &ddl))
	return key, ddl
}

// shown is what readers see of a table.
func shown(t *testing.T, conn driver.Conn, database string, table Table) string {
	t.Helper()
	var columns []string
	for _, c := range table.Columns {
		if c.Name != "version" && c.Name != "stored_at" && c.Name != "ingested_at" {
			columns = append(columns, c.Name)
		}
	}
	return contents(t, conn, database, strings.TrimSuffix(table.Name, "_base"), columns)
}

// A rebuilt table must be what the steps before made of it but for its key's order, codecs and
// settings, and those steps must not undo it: a new table is made as it is to be. A key may
// name a column again that it has had rounded.
func TestARebuildKeepsColumnsAndKey(t *testing.T) {
	require.NotEmpty(t, rebuilt())
	words := func(s string) []string {
		all := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("(), ", r) })
		slices.Sort(all)
		return slices.Compact(all)
	}
	withoutCodecs := func(columns []Column) []Column {
		out := slices.Clone(columns)
		for i := range out {
			out[i].Codec = ""
		}
		return out
	}
	for _, now := range rebuilt() {
		for _, before := range tablesUpTo(beforeRebuild) {
			if before.Name != now.Name {
				continue
			}
			require.Equal(t, withoutCodecs(before.Columns), withoutCodecs(now.Columns), now.Name)
			require.Equal(t, words(before.OrderBy), words(now.OrderBy), "%s: another key would take other rows for one", now.Name)
			require.Equal(t, before.Engine, now.Engine)
			require.Equal(t, before.PartitionBy, now.PartitionBy)
			require.Equal(t, before.TTL, now.TTL)
			require.Equal(t, []string{before.TTLKey, before.ShardBy}, []string{now.TTLKey, now.ShardBy})
		}
		again := []Table{now}
		again[0].Columns = slices.Clone(now.Columns)
		for v := uint32(1); v <= Version; v++ {
			for _, obj := range versions[v] {
				if obj.alters == now.Name {
					require.NoError(t, alterParsed(again, obj, source(v, obj.name)))
				}
			}
		}
		require.Equal(t, now, again[0], "all changes of %s on the new definition", now.Name)
	}
}

func TestUpgradeRebuildsTablesWithTheirRows(t *testing.T) {
	ctx, conn, o := fresh(t)
	require.NoError(t, up(ctx, conn, o, beforeRebuild, nil))
	before := map[string]string{}
	for _, table := range rebuilt() {
		fillDays(t, conn, o.Database, table, 500)
		before[table.Name] = shown(t, conn, o.Database, table)
		require.True(t, strings.HasPrefix(before[table.Name], "500 rows"), before[table.Name])
	}
	statements, err := DryRun(ctx, conn, o)
	require.NoError(t, err)
	script := Script(statements)
	for _, table := range rebuilt() {
		require.Contains(t, script, "CREATE TABLE IF NOT EXISTS "+o.Database+"."+versioned(table.Name, rebuildVersion(table.Name)))
		partitions := 3
		if strings.Contains(table.PartitionBy, "toYYYYMM") {
			partitions = 1
		}
		require.GreaterOrEqual(t, strings.Count(script, "FROM "+o.Database+"."+table.Name+" WHERE _partition_id = "), partitions, "each of the days or months")
	}

	require.NoError(t, Up(ctx, conn, o, nil))
	require.NoError(t, Check(ctx, conn, o))
	for _, table := range rebuilt() {
		require.Equal(t, before[table.Name], shown(t, conn, o.Database, table), table.Name)
		if o.Cluster == "" {
			key, ddl := form(t, conn, o.Database, table.Name)
			require.Equal(t, table.OrderBy, "("+key+")")
			require.Contains(t, ddl, granularity.FindString(table.Settings))
			require.Contains(t, ddl, fmt.Sprintf("toIntervalDay(%d)", DefaultTTLDays()[table.TTLKey]))
			require.Contains(t, ddl, "INDEX ")
		}
		require.EqualValues(t, 501, count(t, conn, "SELECT count() FROM "+o.Database+"."+table.Name), "each row once: copying twice would show before a merge")
	}
	require.Zero(t, count(t, conn, "SELECT count() FROM system.tables WHERE database = ? AND match(name, '_v[0-9]$')", o.Database))

	statements, err = DryRun(ctx, conn, o)
	require.NoError(t, err)
	require.Empty(t, statements)
}

// What dry-run prints does the same by hand.
func TestARebuildByHandIsWhatDryRunPrints(t *testing.T) {
	ctx, conn, o := freshNode(t)
	require.NoError(t, up(ctx, conn, o, beforeRebuild, nil))
	before := map[string]string{}
	for _, table := range rebuilt() {
		fillDays(t, conn, o.Database, table, 100)
		before[table.Name] = shown(t, conn, o.Database, table)
	}
	statements, err := DryRun(ctx, conn, o)
	require.NoError(t, err)
	for _, statement := range statements {
		require.NoError(t, conn.Exec(ctx, statement), statement)
	}
	require.NoError(t, Check(ctx, conn, o))
	for _, table := range rebuilt() {
		require.Equal(t, before[table.Name], shown(t, conn, o.Database, table), table.Name)
	}
}

func TestAFreshDatabaseHasRebuiltTablesFromTheStart(t *testing.T) {
	_, conn, o := migrated(t)
	for _, table := range rebuilt() {
		key, ddl := form(t, conn, o.Database, strings.TrimPrefix(o.local(table.Name), o.Database+"."))
		require.Equal(t, table.OrderBy, "("+key+")")
		require.Contains(t, ddl, granularity.FindString(table.Settings))
	}
}

// The migrator dies after each statement of a table's rebuilding in turn, and rows go on coming all
// the time: to the table by its name, and to the former one after it lost the name, as an
// INSERT does that began before. None of them is lost, whatever the next migrator finds.
func TestARebuildKilledAtEveryPointLosesNothing(t *testing.T) {
	ctx, conn, o := freshNode(t)
	require.NoError(t, up(ctx, conn, o, beforeRebuild, nil))
	tables := []Table{rebuiltRollup(t)} // the others are rebuilt by the same statements
	fillDays(t, conn, o.Database, tables[0], 200)
	p := newProxy(t, enginetest.Shared(t))
	var mu sync.Mutex
	seen, late := map[string]bool{}, map[string]int{}
	write := func(table, into string) {
		late[table]++
		require.NoError(t, conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s.%s (service_name, minute, agent, kind, n, version) SELECT 'late', toStartOfMinute(now()), '%d', 'k', 1, 1", o.Database, into, late[table])))
	}
	kills := 0
	p.after = func(text string) bool {
		mu.Lock()
		defer mu.Unlock()
		if seen[text] || !strings.Contains(text, tables[0].Name) {
			return true
		}
		seen[text] = true
		for _, table := range tables {
			aside := versioned(table.Name, rebuildVersion(table.Name))
			write(table.Name, table.Name)
			if strings.HasPrefix(text, "EXCHANGE ") {
				write(table.Name, aside)
			}
		}
		kills++
		p.kill()
		return false
	}
	for {
		killed, output := p.migrate(t, o.Database, 7)
		if !killed {
			require.Empty(t, output)
			break
		}
	}
	require.NoError(t, Check(ctx, conn, o))
	for _, table := range tables {
		name := o.Database + "." + strings.TrimSuffix(table.Name, "_base")
		require.EqualValues(t, 200, count(t, conn, "SELECT count() FROM "+name+" WHERE service_name != 'late'"), table.Name)
		// At least: created, three days copied, changed places, copied again, dropped.
		require.Greater(t, late[table.Name], 6, table.Name)
		require.EqualValues(t, late[table.Name], count(t, conn, "SELECT count() FROM "+name+" WHERE service_name = 'late'"), table.Name)
		key, _ := form(t, conn, o.Database, table.Name)
		require.Equal(t, table.OrderBy, "("+key+")")
	}
	require.Zero(t, count(t, conn, "SELECT count() FROM system.tables WHERE database = ? AND match(name, '_v[0-9]$')", o.Database))
	t.Logf("%d migrators killed", kills)
}

// An INSERT that began before the tables changed places writes to the former one, and ends
// after. The former one is copied and dropped only then.
func TestARebuildWaitsForInsertsThatRun(t *testing.T) {
	ctx, conn, o := freshNode(t)
	e := enginetest.Shared(t)
	require.NoError(t, up(ctx, conn, o, beforeRebuild, nil))
	table := rebuiltRollup(t)
	fillDays(t, conn, o.Database, table, 50)
	p := newProxy(t, e)
	slow := make(chan error, 1)
	var once sync.Once
	p.after = func(text string) bool {
		if strings.HasPrefix(text, "INSERT ") && strings.Contains(text, " FROM "+o.Database+"."+table.Name+" ") {
			once.Do(func() {
				writer := e.Conn(t)
				go func() {
					slow <- writer.Exec(ctx, fmt.Sprintf("INSERT INTO %s.%s (service_name, minute, agent, kind, n, version) SELECT 'slow', toStartOfMinute(now()), toString(number), 'k', 1, 1 FROM numbers(30) WHERE sleepEachRow(0.1) = 0 SETTINGS max_block_size = 1000", o.Database, table.Name))
				}()
				require.Eventually(t, func() bool {
					return count(t, conn, "SELECT count() FROM system.processes WHERE position(query, 'sleepEachRow') > 0 AND startsWith(query, 'INSERT')") > 0
				}, 20e9, 10e6)
			})
		}
		return true
	}
	killed, output := p.migrate(t, o.Database, 7)
	require.False(t, killed)
	require.Empty(t, output)
	require.NoError(t, <-slow)
	require.EqualValues(t, 30, count(t, conn, "SELECT count() FROM "+o.Database+"."+strings.TrimSuffix(table.Name, "_base")+" WHERE service_name = 'slow'"))
	require.NoError(t, Check(ctx, conn, o))
}

// On a cluster the new table has a name and a path of its own, and the engine can read the SQL.
func TestARebuildOnAClusterIsSQLToTheEngine(t *testing.T) {
	ctx, conn, _ := freshNode(t)
	o := Options{Cluster: "eu-1"}.withDefaults()
	steps, err := Steps(o)
	require.NoError(t, err)
	parsed := 0
	for _, step := range steps {
		if step.of.rebuilds == "" {
			continue
		}
		r, mine, err := o.newRebuilding(conn, step)
		require.NoError(t, err)
		require.True(t, mine)
		former := Options{Cluster: "eu-1", last: beforeRebuild}.withDefaults().local(step.of.rebuilds)
		require.NotEqual(t, former, r.name)
		require.Equal(t, o.Database+"."+step.of.rebuilds+"_local", former)
		var columns []string
		for _, c := range r.table.Columns {
			columns = append(columns, c.Name)
		}
		statements := r.statements(place{from: former}, columns, []string{"20260101"})
		require.Len(t, statements, 5)
		require.Contains(t, statements[0], r.name+" ON CLUSTER `eu-1`")
		require.Contains(t, statements[0], "ReplicatedReplacingMergeTree('"+DefaultReplicaPath+"'", "the path holds the table's name, which is a new one")
		require.Contains(t, statements[1], "INSERT INTO FUNCTION cluster('eu-1', driftline, '"+versioned(step.of.rebuilds, step.Version)+"_local', "+r.made.shardBy+")")
		require.Contains(t, statements[1], "FROM cluster('eu-1', driftline, '"+step.of.rebuilds+"_local')")
		require.Contains(t, statements[2], "CREATE OR REPLACE TABLE driftline."+step.of.rebuilds+" ON CLUSTER")
		require.Equal(t, statements[1], statements[3])
		require.Equal(t, "DROP TABLE IF EXISTS "+former+" ON CLUSTER `eu-1` SYNC", statements[4])
		for _, statement := range append(statements, "SYSTEM SYNC REPLICA"+o.onCluster()+" "+former+" IF EXISTS", "SELECT name FROM "+o.system("tables")) {
			rows, err := conn.Query(ctx, "EXPLAIN AST "+statement)
			require.NoError(t, err, statement)
			require.True(t, rows.Next(), statement)
			require.NoError(t, rows.Close())
			parsed++
		}
	}
	require.Equal(t, 7*len(rebuilt()), parsed)
}
