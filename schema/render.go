package schema

import (
	"fmt"
	"strings"
	"text/template"
)

// The functions below are what templates may use; a template that uses another does not
// parse, which TestTemplatesRender would show.
func (o Options) funcs() template.FuncMap {
	return template.FuncMap{
		"local":     o.local,
		"all":       o.all,
		"view":      o.all,
		"onCluster": o.onCluster,
		"engine":    o.engine,
		"ttlDays":   o.ttlDays,
	}
}

func (o Options) render(name, text string) (string, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(o.funcs()).Parse(text)
	if err != nil {
		return "", fmt.Errorf("schema template %s: %w", name, err)
	}
	var b strings.Builder
	if err := t.Execute(&b, nil); err != nil {
		return "", fmt.Errorf("schema template %s: %w", name, err)
	}
	return strings.TrimSpace(b.String()), nil
}

// local is the table that holds this node's rows.
func (o Options) local(name string) string {
	return o.Database + "." + o.localName(name)
}

// localName is local without the database. A table that was rebuilt has another name on a
// cluster than before, and with it another path in Keeper.
func (o Options) localName(name string) string {
	if o.Cluster == "" {
		return name
	}
	if version, _, ok := o.rebuiltBy(name); ok {
		name = versioned(name, version)
	}
	return name + "_local"
}

// all is the name readers and writers use: on a cluster the Distributed table.
func (o Options) all(name string) string { return o.Database + "." + name }

func (o Options) onCluster() string {
	if o.Cluster == "" {
		return ""
	}
	return " ON CLUSTER " + quoteIdentifier(o.Cluster)
}

// engine renders an engine's name and arguments, as its Replicated variant on a cluster.
func (o Options) engine(name string, args ...string) string {
	if o.Cluster != "" {
		name = "Replicated" + name
		args = append([]string{quote(o.ReplicaPath), quote(o.ReplicaName)}, args...)
	}
	if len(args) == 0 {
		return name
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}

func (o Options) ttlDays(key string) (int, error) {
	days, ok := o.TTLDays[key]
	if !ok {
		return 0, fmt.Errorf("ttlDays: unknown key %q", key)
	}
	return days, nil
}

// distributed is the statement for the table over all shards of obj.
func (o Options) distributed(obj object) string {
	return "CREATE TABLE IF NOT EXISTS " + o.overShards(obj)
}

func (o Options) overShards(obj object) string {
	return fmt.Sprintf("%s%s AS %s\nENGINE = Distributed(%s, %s, %s, %s)",
		o.all(obj.name), o.onCluster(), o.local(obj.name),
		quote(o.Cluster), quote(o.Database), quote(o.localName(obj.name)), obj.shardBy)
}

// quote renders s as a string literal.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// quoteIdentifier renders s as a quoted identifier.
func quoteIdentifier(s string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(s) + "`"
}
