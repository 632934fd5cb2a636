package genaiclickhouse

import (
	"context"
	"strings"
	"time"
	"unsafe"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"driftline/internal/rows"
)

// insert is one INSERT: whole columns and the token that names their content.
type insert struct {
	table   rows.Table
	rows    int
	columns []clickhouse.ColumnNameAndType
	values  []any
	token   string
}

// inserts makes one insert per table that has rows, in writeOrder.
func (o *collected) inserts(now time.Time) []insert {
	var out []insert
	for _, table := range writeOrder {
		switch {
		case table == tableSpans && len(o.spans) > 0:
			out = append(out, spanInsert(o.spans, now))
		case len(o.rows[table]) > 0:
			out = append(out, rowInsert(table, o.rows[table], now))
		}
	}
	return out
}

func rowInsert(table rows.Table, list []rows.Row, now time.Time) insert {
	p := plans[table]
	bases := make([]unsafe.Pointer, len(list))
	for i, row := range list {
		bases[i] = pointer(row)
	}
	in := insert{table: table, rows: len(list), columns: p.columns, values: make([]any, 0, len(p.columns))}
	d := &digest{}
	for _, f := range p.fields {
		in.values = append(in.values, f.gather(bases, f.offset, d))
	}
	in.values = append(in.values, repeat(now, len(list)))
	in.token = d.token()
	return in
}

var spanColumns = insertColumns(string(tableSpans))

// spanInsert gathers thin spans in the DDL's order, which TestSpanColumns holds it to.
func spanInsert(list []thinSpan, now time.Time) insert {
	d := &digest{}
	text := func(of func(*thinSpan) string) []string {
		out := make([]string, len(list))
		for i := range list {
			out[i] = of(&list[i])
			d.text(out[i])
		}
		return out
	}
	started, duration := make([]time.Time, len(list)), make([]int64, len(list))
	attributes := make([]map[string]string, len(list))
	for i, s := range list {
		started[i], duration[i], attributes[i] = time.Unix(0, s.startedAt).UTC(), s.durationNS, s.attributes
		d.int64(s.startedAt)
		d.int64(s.durationNS)
		d.pairs(s.attributes)
	}
	in := insert{table: tableSpans, rows: len(list), columns: spanColumns, values: []any{
		text(func(s *thinSpan) string { return s.service }),
		text(func(s *thinSpan) string { return s.traceID }),
		text(func(s *thinSpan) string { return s.spanID }),
		text(func(s *thinSpan) string { return s.parentID }),
		text(func(s *thinSpan) string { return s.name }),
		text(func(s *thinSpan) string { return s.kind }),
		started,
		duration,
		text(func(s *thinSpan) string { return s.status }),
		attributes,
		repeat(now, len(list)),
	}}
	in.token = d.token()
	return in
}

func repeat(at time.Time, n int) []time.Time {
	out := make([]time.Time, n)
	for i := range out {
		out[i] = at
	}
	return out
}

// settings make an acknowledgement mean stored: no server-side buffer, no background
// forwarding to shards, and over HTTP no answer before the end. The token lets the server
// drop a batch it has already stored.
func (in *insert) settings() clickhouse.Settings {
	return clickhouse.Settings{
		"async_insert":                  0,
		"insert_deduplicate":            1,
		"insert_deduplication_token":    in.token,
		"distributed_foreground_insert": 1,
		"wait_end_of_query":             1,
		"log_comment":                   "driftline genaiclickhouse " + string(in.table),
	}
}

// statement is the INSERT's text; names come from the program and the validated database.
func (in *insert) statement(database string) string {
	names := make([]string, len(in.columns))
	for i, c := range in.columns {
		names[i] = c.Name
	}
	return "INSERT INTO " + database + "." + string(in.table) + "_base (" + strings.Join(names, ", ") + ")"
}

// send runs the insert and returns after ClickHouse has stored it.
func (in *insert) send(ctx context.Context, conn driver.Conn, database string) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(in.settings()), clickhouse.WithColumnNamesAndTypes(in.columns))
	batch, err := conn.PrepareBatch(ctx, in.statement(database))
	if err != nil {
		return err
	}
	defer batch.Close()
	for i, column := range in.values {
		if err := batch.Column(i).Append(column); err != nil {
			return &columnError{table: in.table, column: in.columns[i].Name, err: err}
		}
	}
	return batch.Send()
}
