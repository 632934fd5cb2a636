package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/annotate"
	"driftline/internal/rows"
)

// since writes an instant as seconds after its run's start, to the nanosecond.
func since(base time.Time, ns int64) string {
	d := ns - base.UnixNano()
	sign := "+"
	if d < 0 {
		sign, d = "-", -d
	}
	s := strconv.FormatInt(d/1e9, 10)
	if frac := d % 1e9; frac > 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%09d", frac), "0")
	}
	return "T" + sign + s
}

// timeColumns are the columns of the contract that hold instants.
var timeColumns = func() map[string]bool {
	out := map[string]bool{}
	for _, table := range rows.Tables {
		for _, f := range rows.Fields(table) {
			out[f.Column] = out[f.Column] || f.Time
		}
	}
	return out
}()

func orderOf(row rows.Row) string {
	k := row.Key()
	start := ""
	if f := reflect.ValueOf(row).Elem().FieldByName("StartedAt"); f.IsValid() {
		start = fmt.Sprintf("%020d", f.Int())
	}
	return strings.Join([]string{k.TraceID, start, k.ID, fmt.Sprintf("%012d/%06d", k.Minute, k.Index)}, "/")
}

// rowLine is a row as one JSON object in the order of the contract.
func rowLine(t *testing.T, base time.Time, row rows.Row) string {
	var o object
	value := reflect.ValueOf(row).Elem()
	for _, f := range rows.Fields(row.Table()) {
		field := value.FieldByIndex(f.Index)
		if field.IsZero() || field.Kind() == reflect.Map && field.Len() == 0 {
			continue
		}
		if field.Kind() == reflect.Pointer {
			field = field.Elem()
		}
		if f.Time {
			o.add(t, f.Column, since(base, field.Int()))
			continue
		}
		o.add(t, f.Column, field.Interface())
	}
	return o.text()
}

// object builds a JSON object on one line in a given order.
type object struct{ members []string }

func (o *object) add(t *testing.T, key string, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	o.members = append(o.members, strconv.Quote(key)+": "+string(text))
}

func (o *object) text() string { return "{" + strings.Join(o.members, ", ") + "}" }

// cellLine is a rollup cell as one JSON object, dimensions first, without zeros.
func cellLine(t *testing.T, base time.Time, cell map[string]any) string {
	var o object
	keys := make([]string, 0, len(cell))
	for k, v := range cell {
		rv := reflect.ValueOf(v)
		if rv.IsZero() || rv.Kind() == reflect.Slice && rv.Len() == 0 {
			continue
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y string) int {
		if a, b := rankOf(cell[x], x), rankOf(cell[y], y); a != b {
			return a - b
		}
		return strings.Compare(x, y)
	})
	for _, k := range keys {
		if at, ok := cell[k].(time.Time); ok {
			o.add(t, k, since(base, at.UnixNano()))
			continue
		}
		o.add(t, k, cell[k])
	}
	return o.text()
}

func rankOf(v any, name string) int {
	switch v.(type) {
	case time.Time:
		return 0
	case string, bool:
		return 1
	}
	if name == "n" {
		return 2
	}
	return 3
}

// sentLines gives what the processor sent, a line per batch, span and event.
func sentLines(t *testing.T, base time.Time, batches []ptrace.Traces) [][]string {
	var out [][]string
	for _, td := range batches {
		var lines []string
		for _, rs := range td.ResourceSpans().All() {
			service, _ := rs.Resource().Attributes().Get("service.name")
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					lines = append(lines, spanLines(t, base, service.AsString(), span))
				}
			}
		}
		out = append(out, lines)
	}
	return out
}

func spanLines(t *testing.T, base time.Time, service string, span ptrace.Span) string {
	var o object
	if !annotate.IsSynthetic(span) { // whose id is a digest
		o.add(t, "span", span.SpanID().String())
	}
	o.add(t, "name", span.Name())
	o.add(t, "service", service)
	o.add(t, "at", since(base, int64(span.StartTimestamp())))
	marks := map[string]any{}
	for k, v := range span.Attributes().All() {
		if strings.HasPrefix(k, rows.AttributePrefix) && !strings.HasPrefix(k, "driftline.request.") {
			marks[k] = v.AsRaw()
		}
	}
	o.add(t, "marks", marks)
	var events []string
	for _, e := range span.Events().All() {
		if strings.HasPrefix(e.Name(), rows.AttributePrefix) {
			events = append(events, "    "+eventLine(t, base, e))
		}
	}
	if len(events) == 0 {
		return o.text()
	}
	return strings.TrimSuffix(o.text(), "}") + ", \"events\": [\n" + strings.Join(events, ",\n") + "\n  ]}"
}

func eventLine(t *testing.T, base time.Time, e ptrace.SpanEvent) string {
	var o object
	o.add(t, "event", e.Name())
	o.add(t, "at", since(base, int64(e.Timestamp())))
	for k, v := range e.Attributes().All() {
		column := strings.TrimPrefix(k, rows.AttributePrefix)
		if timeColumns[column] && v.Type() == pcommon.ValueTypeInt {
			o.add(t, column, since(base, v.Int()))
			continue
		}
		o.add(t, column, v.AsRaw())
	}
	return o.text()
}

// stored is everything in a storage's views, in lines of JSON by table and by run.
type stored map[string]map[int][]string

// read reads every view once. Rows and spans belong to a run by their trace, cells by
// their hour.
func (s *storage) read(t *testing.T) stored {
	t.Helper()
	out := stored{}
	put := func(table string, run int, line func(base time.Time) string) {
		if out[table] == nil {
			out[table] = map[int][]string{}
		}
		out[table][run] = append(out[table][run], line(t0.Add(time.Duration(run)*time.Hour)))
	}
	for _, table := range rows.Tables {
		for _, row := range s.view(t, table) {
			put(string(table), runOf(t, row.Head().TraceID), func(base time.Time) string { return rowLine(t, base, row) })
		}
	}
	for _, record := range s.records(t, "SELECT * FROM "+s.db+".spans ORDER BY trace_id, started_at, span_id") {
		put("spans", runOf(t, record["trace_id"].(string)), func(base time.Time) string { return cellLine(t, base, record) })
	}
	for _, table := range rollups {
		for _, cell := range s.records(t, "SELECT * FROM "+s.db+"."+table) {
			run := int(cell["minute"].(time.Time).Sub(t0) / time.Hour)
			put(table, run, func(base time.Time) string { return cellLine(t, base, cell) })
		}
		for _, lines := range out[table] {
			slices.Sort(lines)
		}
	}
	return out
}

// runOf reads a run's number from the second byte of its trace ids.
func runOf(t *testing.T, traceID string) int {
	run, err := strconv.ParseUint(traceID[2:4], 16, 8)
	require.NoError(t, err)
	return int(run)
}

// document renders everything of a run.
func (r *rig) document(t *testing.T, all stored) []byte {
	var out bytes.Buffer
	out.WriteString("{\n\"sent\": [\n")
	for i, lines := range sentLines(t, r.base, r.sent) {
		if i > 0 {
			out.WriteString(",\n")
		}
		out.WriteString(" [\n  " + strings.Join(lines, ",\n  ") + "\n ]")
	}
	out.WriteString("\n]")
	tables := []string{"spans"}
	for _, table := range rows.Tables {
		tables = append(tables, string(table))
	}
	for _, name := range append(tables, rollups...) {
		out.WriteString(",\n" + strconv.Quote(name) + ": [")
		if lines := all[name][r.run]; len(lines) > 0 {
			out.WriteString("\n " + strings.Join(lines, ",\n ") + "\n")
		}
		out.WriteString("]")
	}
	out.WriteString("\n}\n")
	text := bytes.ReplaceAll(out.Bytes(), fmt.Appendf(nil, `"d1%02x`, r.run), []byte(`"d100`)) // whichever run it was
	require.True(t, json.Valid(text), string(text))
	return text
}
