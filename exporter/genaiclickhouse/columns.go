package genaiclickhouse

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"driftline/exporter/genaiclickhouse/internal/block"
	"driftline/internal/annotate"
	"driftline/internal/rows"
	"driftline/schema"
)

// columnIngestedAt is filled when a batch is sent and is no part of its content.
const columnIngestedAt = "ingested_at"

// maxWeight bounds sample_weight, the only fraction that rows carry: a span does not stand
// for more, and a single one could otherwise make every weighted count worthless.
const maxWeight = 1e6

// plan is how the rows of one table become columns.
type plan struct {
	table  rows.Table
	fields []rows.Field
	// types are the columns' ClickHouse types, in the order of fields.
	types []string
	// key is the index of the row's key time; service, trace and deleted are those of the
	// columns that every row has.
	key, service, trace, deleted int
}

var plans = buildPlans()

func buildPlans() map[rows.Table]*plan {
	out := map[rows.Table]*plan{}
	for _, table := range rows.Tables {
		p := &plan{table: table, fields: rows.Fields(table), key: annotate.KeyTime(table)}
		types := columnTypes(string(table))
		for i, f := range p.fields {
			typ, ok := types[f.Column]
			if !ok {
				panic(fmt.Sprintf("genaiclickhouse: table %s has no column %s", table, f.Column))
			}
			p.types = append(p.types, typ)
			switch f.Column {
			case "service_name":
				p.service = i
			case "trace_id":
				p.trace = i
			case "deleted":
				p.deleted = i
			}
			newColumn(f, typ) // panics here, at the start, for a type that has no form
		}
		out[table] = p
	}
	return out
}

// columnTypes are the types of a table's columns by name.
func columnTypes(table string) map[string]string {
	out := map[string]string{}
	for _, c := range schema.Columns(table) {
		out[c.Name] = c.Type
	}
	return out
}

// newColumn makes an empty column for a field of the contract.
func newColumn(f rows.Field, typ string) block.Column {
	nullable := f.Type.Kind() == reflect.Pointer
	var c block.Column
	switch kind := f.Type; {
	case f.Time:
		c = block.NewInstant(f.Column, 9, nullable)
	case typ == "LowCardinality(String)":
		c = block.NewWord(f.Column)
	case kind.Kind() == reflect.String:
		c = block.NewText(f.Column)
	case kind.Kind() == reflect.Map:
		c = block.NewPairs(f.Column)
	default:
		if nullable {
			kind = kind.Elem()
		}
		switch kind.Kind() {
		case reflect.Bool:
			c = block.NewNumber[bool](f.Column, nullable)
		case reflect.Int64:
			c = block.NewNumber[int64](f.Column, nullable)
		case reflect.Uint64:
			c = block.NewNumber[uint64](f.Column, nullable)
		case reflect.Uint32:
			c = block.NewNumber[uint32](f.Column, nullable)
		case reflect.Uint16:
			c = block.NewNumber[uint16](f.Column, nullable)
		case reflect.Float64:
			c = block.NewNumber[float64](f.Column, nullable)
		}
	}
	if c == nil || c.Type() != typ {
		panic(fmt.Sprintf("genaiclickhouse: column %s has Go type %s and ClickHouse type %s, which has no form here", f.Column, f.Type, typ))
	}
	return c
}

// tableRows are rows of one table on their way into columns. It is the annotate.Sink of the
// row that is being read.
type tableRows struct {
	*plan
	*block.Block
	columns []block.Column
	follows follows
	now     time.Time
	days    days
	// bad is the first value of the current row that cannot be stored, and reason its kind.
	bad    error
	reason string
}

func newTableRows(table rows.Table) *tableRows {
	t := &tableRows{plan: plans[table]}
	for i, f := range t.fields {
		t.columns = append(t.columns, newColumn(f, t.types[i]))
	}
	t.Block = block.New(append(t.columns[:len(t.columns):len(t.columns)], block.NewInstant(columnIngestedAt, 3, false))...)
	t.follows = t.newFollows()
	return t
}

func (t *tableRows) Text(column int, v string) {
	switch c := t.columns[column].(type) {
	case *block.Word:
		c.Set(t.Rows(), v)
	case *block.Text:
		c.Set(t.Rows(), v)
	}
}

func (t *tableRows) Flag(column int, v bool) {
	t.columns[column].(*block.Number[bool]).Set(t.Rows(), v)
}

func (t *tableRows) Float(column int, v float64) {
	if t.bad == nil && (v < 0 || v > maxWeight) {
		t.bad, t.reason = fmt.Errorf("%s is %g, outside 0 to %g", t.fields[column].Column, v, maxWeight), reasonBadRow
	}
	t.columns[column].(*block.Number[float64]).Set(t.Rows(), v)
}

func (t *tableRows) Int(column int, v int64) {
	switch c := t.columns[column].(type) {
	case *block.Number[int64]:
		switch {
		case t.bad != nil:
		case t.fields[column].Time:
			t.bad, t.reason = t.badTime(column, v), reasonBadTime
		default:
			if t.bad = t.follows.problem(c, v); t.bad != nil {
				t.reason = reasonBadRow
			}
		}
		c.Set(t.Rows(), v)
	case *block.Number[uint64]:
		c.Set(t.Rows(), uint64(v))
	case *block.Number[uint32]:
		c.Set(t.Rows(), uint32(v))
	case *block.Number[uint16]:
		c.Set(t.Rows(), uint16(v))
	}
}

// Pairs sorts by key, so that rows with the same keys compress well.
func (t *tableRows) Pairs(column int, m pcommon.Map) {
	c := t.columns[column].(*block.Pairs)
	for _, key := range sortedKeys(m) {
		v, _ := m.Get(key)
		c.Add(t.Rows(), key, v.Str())
	}
}

// value is a value of the current row as text, empty if it has none.
func (t *tableRows) text(column int) string {
	row := t.Rows()
	switch c := t.columns[column].(type) {
	case *block.Word:
		if c.IsSet(row) {
			return c.At(row)
		}
	case *block.Text:
		if c.IsSet(row) {
			return c.At(row)
		}
	}
	return ""
}

// instant is an instant of the current row in Unix nanoseconds, 0 if it has none.
func (t *tableRows) instant(column int) int64 {
	if c := t.columns[column].(*block.Number[int64]); c.IsSet(t.Rows()) {
		return c.At(t.Rows())
	}
	return 0
}

func (t *tableRows) isDeleted() bool {
	c := t.columns[t.deleted].(*block.Number[bool])
	return c.IsSet(t.Rows()) && c.At(t.Rows())
}

// names lists the columns for an INSERT.
func names(columns []block.Column) string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.Name()
	}
	return strings.Join(out, ", ")
}
