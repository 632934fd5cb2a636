package schema

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// A table whose sort key or granularity changes is made anew under another name and filled
// from the one that is there, which writers and readers use meanwhile. Then the two change
// places in one statement, what came meanwhile is copied too, and the old one is dropped.
// What is done follows from what is there, so a migration that was killed goes on anywhere.
// Copying a row twice does no harm, since the tables keep one row of each key and version.
//
// On one node the tables change places by EXCHANGE TABLES, so the table keeps its name. On a
// cluster the new one keeps its own name, and with it its own path in Keeper, and the
// Distributed table is replaced by one over it; all shards are copied by one statement.

// versioned is the name of a table that a version rebuilt, while it has not the table's own.
func versioned(table string, version uint32) string { return fmt.Sprintf("%s_v%d", table, version) }

// rebuiltBy is the newest step up to o.last that rebuilds a table.
func (o Options) rebuiltBy(table string) (version uint32, by object, ok bool) {
	last := o.last
	if last == 0 {
		last = Version
	}
	for version := last; version > 0; version-- {
		for _, obj := range versions[version] {
			if obj.rebuilds == table {
				return version, obj, true
			}
		}
	}
	return 0, object{}, false
}

// rebuilding is one table to rebuild.
type rebuilding struct {
	o    Options
	conn driver.Conn
	// table is what it is to be like; made is the object that created it.
	table Table
	made  object
	// create makes the new table under name, on one node the name that it has for a while.
	create, name string
}

func (o Options) newRebuilding(conn driver.Conn, step Step) (rebuilding, bool, error) {
	table := step.of.rebuilds
	if version, _, _ := o.rebuiltBy(table); version != step.Version {
		return rebuilding{}, false, nil // a later step does it
	}
	r := rebuilding{o: o, conn: conn, name: o.Database + "." + versioned(table, step.Version)}
	text, err := o.render(step.Name, source(step.Version, step.Name))
	if err != nil {
		return r, false, err
	}
	if r.table, err = parseTable(text); err != nil {
		return r, false, err
	}
	r.table.Name = table
	if o.Cluster != "" {
		r.name = o.local(table)
	}
	const create = "CREATE TABLE IF NOT EXISTS "
	rest, ok := strings.CutPrefix(text, create+o.local(table))
	if !ok {
		return r, false, fmt.Errorf("schema: the template of %s does not begin with %s%s", step.Name, create, o.local(table))
	}
	r.create = create + r.name + rest
	for version := uint32(1); version < step.Version; version++ {
		for _, obj := range versions[version] {
			if obj.name == table {
				r.made = obj
			}
		}
	}
	return r, true, nil
}

// place is where a table stands.
type place struct {
	// from is the table with the former definition, whose rows are to be moved; empty when there
	// is nothing left to do.
	from string
	// swapped says that writers and readers use the new table already.
	swapped bool
}

// look finds out where the table stands.
func (r rebuilding) look(ctx context.Context) (place, error) {
	forms, err := r.forms(ctx)
	if err != nil {
		return place{}, err
	}
	if r.o.Cluster != "" {
		before := r.o
		for before.last = lastOf(r.o); before.last > 0; before.last-- {
			name := before.localName(r.table.Name)
			if _, there := forms[name]; there && before.local(r.table.Name) != r.name {
				return place{from: before.local(r.table.Name)}, nil
			}
		}
		return place{}, nil
	}
	now, there := forms[r.table.Name]
	aside, asideThere := forms[strings.TrimPrefix(r.name, r.o.Database+".")]
	switch {
	case !there:
		return place{}, nil // made by the step that makes it
	case !now:
		if asideThere && !aside {
			return place{}, fmt.Errorf("both %s and %s have the former definition: drop the second, if its rows are not wanted, and run `detectd migrate up` again", r.o.all(r.table.Name), r.name)
		}
		return place{from: r.o.all(r.table.Name)}, nil
	case asideThere:
		return place{from: r.name, swapped: true}, nil
	}
	return place{}, nil
}

func lastOf(o Options) uint32 {
	if o.last == 0 {
		return Version
	}
	return o.last
}

var granularity = regexp.MustCompile(`\bindex_granularity = (\d+)`)

// forms tells of the table and what may stand for it, by name, whether it has the new definition.
func (r rebuilding) forms(ctx context.Context) (map[string]bool, error) {
	rows, err := r.conn.Query(ctx, "SELECT name, sorting_key, create_table_query FROM "+r.o.system("tables")+" WHERE database = ? AND startsWith(name, ?) AND endsWith(engine, 'MergeTree')", r.o.Database, r.table.Name)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", r.o.all(r.table.Name), err)
	}
	defer rows.Close()
	wanted := granularity.FindStringSubmatch(r.table.Settings)
	out := map[string]bool{}
	for rows.Next() {
		var name, key, ddl string
		if err := rows.Scan(&name, &key, &ddl); err != nil {
			return nil, fmt.Errorf("look at %s: %w", r.o.all(r.table.Name), err)
		}
		have := granularity.FindStringSubmatch(ddl)
		out[name] = "("+key+")" == r.table.OrderBy && wanted != nil && have != nil && have[1] == wanted[1]
	}
	return out, rows.Err()
}

// system is a system table of all nodes.
func (o Options) system(table string) string {
	if o.Cluster == "" {
		return "system." + table
	}
	return "clusterAllReplicas(" + quote(o.Cluster) + ", system." + table + ")"
}

// swap makes writers and readers use the new table.
func (r rebuilding) swap() string {
	if r.o.Cluster != "" {
		return "CREATE OR REPLACE TABLE " + r.o.overShards(r.made)
	}
	return "EXCHANGE TABLES " + r.name + " AND " + r.o.all(r.table.Name)
}

// whole is a table's rows, on a cluster those of all shards.
func (r rebuilding) whole(name string, write bool) string {
	if r.o.Cluster == "" {
		return name
	}
	table := "cluster(" + quote(r.o.Cluster) + ", " + r.o.Database + ", " + quote(strings.TrimPrefix(name, r.o.Database+"."))
	if write {
		return "FUNCTION " + table + ", " + r.made.shardBy + ")"
	}
	return table + ")"
}

// copy copies a partition. The blocks are small enough for an engine of 1 GiB, and are not
// looked for among those that were inserted before.
func (r rebuilding) copy(from, to string, columns []string, partition string) string {
	settings := "max_threads = 1, max_insert_threads = 1, min_insert_block_size_rows = 100000, min_insert_block_size_bytes = 67108864, optimize_on_insert = 0, insert_deduplicate = 0"
	if r.o.Cluster != "" {
		settings += ", distributed_foreground_insert = 1"
	}
	names := strings.Join(columns, ", ")
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s WHERE _partition_id = %s SETTINGS %s",
		r.whole(to, true), names, names, r.whole(from, false), quote(partition), settings)
}

// columns are those of the new table that the former one has.
func (r rebuilding) columns(ctx context.Context, from string) ([]string, error) {
	have, err := readFound(ctx, r.conn, r.o.Database)
	if err != nil {
		return nil, err
	}
	there := have[strings.TrimPrefix(from, r.o.Database+".")]
	var out []string
	for _, c := range r.table.Columns {
		if there == nil || there[c.Name] != "" { // a node that joined later does not have the former one
			out = append(out, c.Name)
		}
	}
	return out, nil
}

// parts is a digest of a table's parts by partition: it changes with each insert.
func (r rebuilding) parts(ctx context.Context, name string) (map[string]string, error) {
	rows, err := r.conn.Query(ctx, "SELECT partition_id, toString(groupBitXor(cityHash64(hostName(), name))) FROM "+r.o.system("parts")+" WHERE active AND database = ? AND table = ? GROUP BY partition_id",
		r.o.Database, strings.TrimPrefix(name, r.o.Database+"."))
	if err != nil {
		return nil, fmt.Errorf("list the partitions of %s: %w", name, err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var partition, digest string
		if err := rows.Scan(&partition, &digest); err != nil {
			return nil, fmt.Errorf("list the partitions of %s: %w", name, err)
		}
		out[partition] = digest
	}
	return out, rows.Err()
}

// partitions are those of now whose parts are not those of before, the newest first, since
// they are asked for most.
func partitions(now, before map[string]string) []string {
	var out []string
	for p, digest := range now {
		if before[p] != digest {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

// rebuild does what is left to do of a step that rebuilds a table.
func (o Options) rebuild(ctx context.Context, conn driver.Conn, step Step, l *lock, logger *slog.Logger) error {
	r, mine, err := o.newRebuilding(conn, step)
	if err != nil || !mine {
		return err
	}
	at, err := r.look(ctx)
	if err != nil || at.from == "" {
		return err
	}
	began := time.Now()
	exec := func(statement string) error {
		return l.during(ctx, func(ctx context.Context) error { return conn.Exec(ctx, statement) })
	}
	columns, err := r.columns(ctx, at.from)
	if err != nil {
		return err
	}
	copyAll := func(to string, parts []string) error {
		for i, partition := range parts {
			if err := exec(r.copy(at.from, to, columns, partition)); err != nil {
				return fmt.Errorf("copy partition %s of %s to %s: %w", partition, at.from, to, err)
			}
			logger.Info("partition copied", "from", at.from, "to", to, "partition", partition, "done", i+1, "of", len(parts))
		}
		return nil
	}
	copied := map[string]string{}
	if !at.swapped {
		if err := exec(r.create); err != nil {
			return err
		}
		if o.Cluster != "" {
			if err := exec("SYSTEM SYNC REPLICA" + o.onCluster() + " " + at.from + " IF EXISTS"); err != nil {
				return err
			}
		}
		if copied, err = r.parts(ctx, at.from); err != nil {
			return err
		}
		if err := copyAll(r.name, partitions(copied, nil)); err != nil {
			return err
		}
		if err := exec(r.swap()); err != nil {
			return fmt.Errorf("put the new %s in place (EXCHANGE TABLES needs a database of engine Atomic): %w", o.all(step.of.rebuilds), err)
		}
		if o.Cluster == "" {
			at.from = r.name
		}
	}
	to := o.local(step.of.rebuilds)
	if err := r.settle(ctx, l); err != nil {
		return err
	}
	now, err := r.parts(ctx, at.from)
	if err != nil {
		return err
	}
	if err := copyAll(to, partitions(now, copied)); err != nil {
		return err
	}
	if err := exec("DROP TABLE IF EXISTS " + at.from + o.onCluster() + " SYNC"); err != nil {
		return err
	}
	logger.Info("table rebuilt", "table", o.all(step.of.rebuilds), "partitions", len(now), "took", time.Since(began).Round(time.Second))
	return nil
}

// planRebuild lists the statements that rebuild would run now. What comes meanwhile is not
// known, so the second copy is of every partition.
func (o Options) planRebuild(ctx context.Context, conn driver.Conn, step Step) ([]string, error) {
	r, mine, err := o.newRebuilding(conn, step)
	if err != nil || !mine {
		return nil, err
	}
	at, err := r.look(ctx)
	if err != nil || at.from == "" {
		return nil, err
	}
	columns, err := r.columns(ctx, at.from)
	if err != nil {
		return nil, err
	}
	parts, err := r.parts(ctx, at.from)
	if err != nil {
		return nil, err
	}
	return r.statements(at, columns, partitions(parts, nil)), nil
}

// statements are all of a rebuilding that begins at a place.
func (r rebuilding) statements(at place, columns, parts []string) []string {
	var out []string
	if !at.swapped {
		out = append(out, r.create)
		for _, p := range parts {
			out = append(out, r.copy(at.from, r.name, columns, p))
		}
		out = append(out, r.swap())
		if r.o.Cluster == "" {
			at.from = r.name
		}
	}
	for _, p := range parts {
		out = append(out, r.copy(at.from, r.o.local(r.table.Name), columns, p))
	}
	return append(out, "DROP TABLE IF EXISTS "+at.from+r.o.onCluster()+" SYNC")
}

// settleWait bounds how long an INSERT that began before the tables changed places may take.
const settleWait = 10 * time.Minute

// settle waits for the INSERTs that may still write to the former table.
func (r rebuilding) settle(ctx context.Context, l *lock) error {
	running, err := r.inserts(ctx)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(settleWait)
	for len(running) > 0 {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d INSERTs into %s still run after %v (%s): end them and run `detectd migrate up` again", len(running), r.o.all(r.table.Name), settleWait, strings.Join(running, ", "))
		}
		timer := time.NewTimer(lockPoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
		if err := l.renew(ctx); err != nil {
			return err
		}
		now, err := r.inserts(ctx)
		if err != nil {
			return err
		}
		running = slices.DeleteFunc(running, func(id string) bool { return !slices.Contains(now, id) })
	}
	return nil
}

// inserts lists the INSERTs into the table that run, by query id.
func (r rebuilding) inserts(ctx context.Context) ([]string, error) {
	rows, err := r.conn.Query(ctx, "SELECT DISTINCT query_id FROM "+r.o.system("processes")+" WHERE startsWith(upper(trimLeft(query)), 'INSERT') AND position(query, ?) > 0", r.table.Name)
	if err != nil {
		return nil, fmt.Errorf("look for INSERTs into %s: %w", r.o.all(r.table.Name), err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("look for INSERTs into %s: %w", r.o.all(r.table.Name), err)
		}
		out = append(out, strconv.Quote(id))
	}
	return out, rows.Err()
}
