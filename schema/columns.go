package schema

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Column is one column as the DDL states it.
type Column struct {
	Name string
	// Type is the ClickHouse type, such as Nullable(Int64).
	Type string
	// Default is the DEFAULT expression; empty when there is none.
	Default string
	// Codec is the CODEC list; empty when there is none.
	Codec string
}

// Table is one base table as the DDL states it, rendered with default options.
type Table struct {
	// Name is the table's name, such as "operations_base".
	Name        string
	Columns     []Column
	Engine      string
	PartitionBy string
	OrderBy     string
	// TTL is the expression after TTL; TTLKey its key in Options.TTLDays, empty for none.
	TTL      string
	TTLKey   string
	Settings string
	// ShardBy is the sharding expression on a cluster.
	ShardBy string
}

// Tables lists the base tables of Version in the order they are created, with the columns
// and settings that later steps gave them.
func Tables() []Table { return tablesUpTo(Version) }

func tablesUpTo(last uint32) []Table {
	var out []Table
	for version := uint32(1); version <= last; version++ {
		for _, obj := range versions[version] {
			out = withObject(out, version, obj)
		}
	}
	return out
}

// tablesOf lists the base tables as steps leave them.
func tablesOf(steps []Step) []Table {
	var out []Table
	for _, step := range steps {
		for _, obj := range versions[step.Version] {
			if obj.name == step.Name {
				out = withObject(out, step.Version, obj)
			}
		}
	}
	return out
}

// withObject adds the table that obj creates or changes the one it alters.
func withObject(tables []Table, version uint32, obj object) []Table {
	o := Options{}.withDefaults()
	var err error
	switch {
	case obj.isTable():
		var table Table
		table, err = parseTable(o.mustRender(version, obj))
		table.Name, table.TTLKey, table.ShardBy = obj.name, obj.ttl, obj.shardBy
		tables = append(tables, table)
	case obj.alters != "":
		err = alterParsed(tables, obj, o.mustRender(version, obj))
	case obj.rebuilds != "":
		err = rebuildParsed(tables, obj, o.mustRender(version, obj))
	}
	if err != nil {
		panic(err) // a template in the binary is broken; TestTemplatesRender shows it first
	}
	return tables
}

func alterParsed(tables []Table, obj object, text string) error {
	at := slices.IndexFunc(tables, func(t Table) bool { return t.Name == obj.alters })
	if at < 0 {
		return fmt.Errorf("schema: %s alters %s, which no earlier step creates", obj.name, obj.alters)
	}
	commands, err := parseCommands(text)
	if err != nil {
		return err
	}
	for _, c := range commands {
		if err := c.apply(&tables[at]); err != nil {
			return err
		}
	}
	return nil
}

func rebuildParsed(tables []Table, obj object, text string) error {
	at := slices.IndexFunc(tables, func(t Table) bool { return t.Name == obj.rebuilds })
	if at < 0 {
		return fmt.Errorf("schema: %s rebuilds %s, which no earlier step creates", obj.name, obj.rebuilds)
	}
	table, err := parseTable(text)
	if err != nil {
		return err
	}
	table.Name, table.TTLKey, table.ShardBy = tables[at].Name, tables[at].TTLKey, tables[at].ShardBy
	tables[at] = table
	return nil
}

// mustRender panics if a template in the binary is broken; TestTemplatesRender shows it first.
func (o Options) mustRender(version uint32, obj object) string {
	text, err := o.render(obj.name, source(version, obj.name))
	if err != nil {
		panic(err)
	}
	return text
}

// Columns lists the columns of a base table in the order of the DDL, or nil if there is no
// such table. The name is that of the table ("operations_base") or of its view.
func Columns(table string) []Column {
	for _, t := range Tables() {
		if t.Name == table || t.Name == table+"_base" {
			return t.Columns
		}
	}
	return nil
}

// Views lists the views of Version with the text of their SELECT, each as the last step
// that defines it does.
func Views() []View {
	var out []View
	o := Options{}.withDefaults()
	for version := uint32(1); version <= Version; version++ {
		for _, obj := range versions[version] {
			if !obj.isView() {
				continue
			}
			_, query, _ := strings.Cut(o.mustRender(version, obj), " AS\n")
			view := View{Name: obj.name, Select: query}
			if at := slices.IndexFunc(out, func(v View) bool { return v.Name == obj.name }); at >= 0 {
				out[at] = view
				continue
			}
			out = append(out, view)
		}
	}
	return out
}

// View is one view as the DDL states it, rendered with default options.
type View struct {
	Name   string
	Select string
}

var (
	columnLine = regexp.MustCompile(`^(\w+) (.+?)(?: DEFAULT (.+?))?(?: CODEC\((.+)\))?$`)
	clause     = regexp.MustCompile(`(?m)^(ENGINE =|PARTITION BY|ORDER BY|TTL|SETTINGS) (.+)$`)
)

func parseColumn(line string) (Column, error) {
	m := columnLine.FindStringSubmatch(line)
	if m == nil {
		return Column{}, fmt.Errorf("schema: cannot read column %q", line)
	}
	return Column{Name: m[1], Type: m[2], Default: m[3], Codec: m[4]}, nil
}

// parseTable reads the project's own style of DDL: one column a line, one clause a line.
func parseTable(text string) (Table, error) {
	var t Table
	head, tail, ok := strings.Cut(text, "\n)\n")
	if !ok {
		return t, fmt.Errorf("schema: no end of the column list in %.60q", text)
	}
	_, body, ok := strings.Cut(head, "\n(\n")
	if !ok {
		return t, fmt.Errorf("schema: no column list in %.60q", text)
	}
	for line := range strings.SplitSeq(body, "\n") {
		line = strings.TrimSuffix(strings.TrimSpace(line), ",")
		if strings.HasPrefix(line, "INDEX ") {
			continue
		}
		column, err := parseColumn(line)
		if err != nil {
			return t, err
		}
		t.Columns = append(t.Columns, column)
	}
	for _, m := range clause.FindAllStringSubmatch(tail, -1) {
		switch m[1] {
		case "ENGINE =":
			t.Engine = m[2]
		case "PARTITION BY":
			t.PartitionBy = m[2]
		case "ORDER BY":
			t.OrderBy = m[2]
		case "TTL":
			t.TTL = m[2]
		case "SETTINGS":
			t.Settings = m[2]
		}
	}
	return t, nil
}
