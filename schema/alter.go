package schema

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// command is one line of a template that alters a table.
type command struct {
	text string
	// verb is what stands before the name: ADD COLUMN, MODIFY COLUMN and so on.
	verb string
	// column is what a column command adds or modifies; its name only for DROP COLUMN.
	column Column
	// after is the column that an added one follows; empty at the end.
	after string
}

var (
	// Each form can be run again without an error and without another effect.
	columnCommand = regexp.MustCompile(`^(ADD COLUMN IF NOT EXISTS|MODIFY COLUMN|DROP COLUMN IF EXISTS) (.+?)(?: AFTER (\w+))?$`)
	localCommand  = regexp.MustCompile(`^(ADD INDEX IF NOT EXISTS|DROP INDEX IF EXISTS|MODIFY SETTING) (.+)$`)
)

// parseCommands reads a template that alters a table: one command a line.
func parseCommands(text string) ([]command, error) {
	var out []command
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		line = strings.TrimSuffix(strings.TrimSpace(line), ",")
		if m := localCommand.FindStringSubmatch(line); m != nil {
			out = append(out, command{text: line, verb: m[1]})
			continue
		}
		m := columnCommand.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("schema: %q is no ALTER command that is safe to repeat", line)
		}
		c := command{text: line, verb: m[1], after: m[3], column: Column{Name: m[2]}}
		if !strings.HasPrefix(c.verb, "DROP") {
			var err error
			if c.column, err = parseColumn(m[2]); err != nil {
				return nil, err
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// alterStatements renders the commands for the table that holds the rows and, on a
// cluster, those about columns for the Distributed table over it.
func (o Options) alterStatements(table, text string) ([]string, error) {
	commands, err := parseCommands(text)
	if err != nil {
		return nil, err
	}
	var local, distributed []string
	for _, c := range commands {
		local = append(local, c.text)
		if c.column.Name != "" {
			distributed = append(distributed, c.text)
		}
	}
	alter := func(name string, commands []string) string {
		return fmt.Sprintf("ALTER TABLE %s%s\n    %s", name, o.onCluster(), strings.Join(commands, ",\n    "))
	}
	out := []string{alter(o.local(table), local)}
	if o.Cluster != "" && len(distributed) > 0 {
		out = append(out, alter(o.all(table), distributed))
	}
	return out, nil
}

// apply changes t as the engine does when it runs the command.
func (c command) apply(t *Table) error {
	at := slices.IndexFunc(t.Columns, func(have Column) bool { return have.Name == c.column.Name })
	switch {
	case c.verb == "MODIFY SETTING":
		t.Settings = mergeSettings(t.Settings, strings.TrimPrefix(c.text, c.verb+" "))
	case c.column.Name == "":
		// Indexes are no part of Table.
	case strings.HasPrefix(c.verb, "DROP"):
		if at >= 0 {
			t.Columns = slices.Delete(t.Columns, at, at+1)
		}
	case c.verb == "MODIFY COLUMN":
		if at < 0 {
			return fmt.Errorf("schema: %s has no column %s to modify", t.Name, c.column.Name)
		}
		t.Columns[at] = mergeColumn(t.Columns[at], c.column)
	case at < 0: // ADD COLUMN
		to := len(t.Columns)
		if c.after != "" {
			if to = 1 + slices.IndexFunc(t.Columns, func(have Column) bool { return have.Name == c.after }); to == 0 {
				return fmt.Errorf("schema: %s has no column %s to add %s after", t.Name, c.after, c.column.Name)
			}
		}
		t.Columns = slices.Insert(t.Columns, to, c.column)
	}
	return nil
}

// mergeColumn keeps the default and codec that a MODIFY COLUMN does not name, as the
// engine does.
func mergeColumn(old, changed Column) Column {
	if changed.Default == "" {
		changed.Default = old.Default
	}
	if changed.Codec == "" {
		changed.Codec = old.Codec
	}
	return changed
}

// mergeSettings overlays one list of settings on another, keeping the order of the first.
func mergeSettings(old, changed string) string {
	var names []string
	values := map[string]string{}
	for _, list := range []string{old, changed} {
		for setting := range strings.SplitSeq(list, ", ") {
			name, value, ok := strings.Cut(setting, " = ")
			if !ok {
				continue
			}
			if _, seen := values[name]; !seen {
				names = append(names, name)
			}
			values[name] = value
		}
	}
	for i, name := range names {
		names[i] = name + " = " + values[name]
	}
	return strings.Join(names, ", ")
}
