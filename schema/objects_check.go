package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// found is what a database holds: the type of each column by table or view and name.
type found map[string]map[string]string

func readFound(ctx context.Context, conn driver.Conn, database string) (found, error) {
	rows, err := conn.Query(ctx, "SELECT table, name, type FROM system.columns WHERE database = ?", database)
	if err != nil {
		return nil, fmt.Errorf("look at the tables of database %s: %w", database, err)
	}
	defer rows.Close()
	out := found{}
	for rows.Next() {
		var table, name, typ string
		if err := rows.Scan(&table, &name, &typ); err != nil {
			return nil, fmt.Errorf("look at the tables of database %s: %w", database, err)
		}
		if out[table] == nil {
			out[table] = map[string]string{}
		}
		out[table][name] = typ
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look at the tables of database %s: %w", database, err)
	}
	return out, nil
}

// objectsOf lists the tables and views that steps create.
func objectsOf(steps []Step) []object {
	var out []object
	for _, step := range steps {
		for _, obj := range versions[step.Version] {
			if obj.name == step.Name && obj.target() == "" && !slices.Contains(out, obj) {
				out = append(out, obj)
			}
		}
	}
	return out
}

// names lists what an object is called in the database: on a cluster a table has two.
func (o Options) names(obj object) []string {
	if o.Cluster != "" && obj.isTable() {
		return []string{o.localName(obj.name), obj.name}
	}
	return []string{obj.name}
}

// missing lists the objects of applied steps that the database does not hold.
func (o Options) missing(applied []Step, have found) []string {
	var out []string
	for _, obj := range objectsOf(applied) {
		for _, name := range o.names(obj) {
			if have[name] == nil && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// columnDifferences names the columns of applied steps that are not in the database or are of
// another type. A step that is pending may have been run and not recorded, so what it leads
// to is right too. Columns that driftline does not know are left alone: no insert names them.
func (o Options) columnDifferences(applied, all []Step, have found) []string {
	after := map[string]Table{}
	for _, t := range tablesOf(all) {
		after[t.Name] = t
	}
	var out []string
	for _, t := range tablesOf(applied) {
		for _, name := range o.names(object{name: t.Name, shardBy: t.ShardBy}) {
			if have[name] == nil {
				continue
			}
			for _, c := range t.Columns {
				later, stays := columnOf(after[t.Name], c.Name)
				typ, there := have[name][c.Name]
				switch {
				case !there && stays:
					out = append(out, fmt.Sprintf("%s.%s is missing, want %s", name, c.Name, c.Type))
				case there && typ != c.Type && typ != later.Type:
					out = append(out, fmt.Sprintf("%s.%s is %s, want %s", name, c.Name, typ, c.Type))
				}
			}
		}
	}
	return out
}

func columnOf(t Table, name string) (Column, bool) {
	at := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
	if at < 0 {
		return Column{}, false
	}
	return t.Columns[at], true
}

// compareObjects adds to s what is wrong with the objects of applied steps.
func (s *Status) compareObjects(o Options, steps []Step, have found) {
	applied := slices.DeleteFunc(slices.Clone(steps), func(step Step) bool {
		return slices.ContainsFunc(s.Pending, func(p Step) bool { return p.Version == step.Version && p.Number == step.Number })
	})
	s.Missing = o.missing(applied, have)
	if different := o.columnDifferences(applied, steps, have); len(different) > 0 {
		s.Problem = &Error{ErrColumns,
			fmt.Sprintf("database %s: %s", s.Database, shorten(different)),
			"change the columns back with ALTER TABLE, or move the table away with RENAME TABLE and run `detectd migrate up`, which creates it again"}
		return
	}
	if len(s.Applied) == 0 && slices.ContainsFunc(objectsOf(steps), func(obj object) bool { return have[obj.name] != nil }) {
		s.Problem = &Error{ErrNotMigrated,
			fmt.Sprintf("database %s has driftline's tables, but %s is missing or empty", s.Database, migrationsTable),
			"run `detectd migrate up`, which keeps the tables and records the steps anew"}
	}
	if s.Problem == nil && len(s.Missing) > 0 {
		s.Problem = &Error{ErrMissing,
			fmt.Sprintf("database %s: %s", s.Database, shorten(s.Missing)),
			"run `detectd migrate up`, which creates tables again, empty; if they are there, this user may not see them: GRANT SHOW ON " + s.Database + ".*"}
	}
}

// shorten lists at most five items.
func shorten(items []string) string {
	const most = 5
	if more := len(items) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(items[:most], ", "), more)
	}
	return strings.Join(items, ", ")
}

// restores says whether the step makes or changes one of the missing objects.
func (s Step) restores(missing []string) bool {
	target := s.of.target()
	if target == "" {
		target = s.of.name
	}
	return slices.ContainsFunc(missing, func(name string) bool {
		return name == target || strings.HasPrefix(name, target+"_") && strings.HasSuffix(name, "_local")
	})
}
