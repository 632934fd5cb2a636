package annotate

import (
	"errors"
	"reflect"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/rows"
)

// ErrNotRow is returned by Decode for an event that carries no row.
var ErrNotRow = errors.New("the event carries no driftline row")

// TableOf tells which table an event's row belongs to; ok is false when the event
// carries no row that this version knows.
func TableOf(eventName string) (table rows.Table, ok bool) {
	p, ok := planByEvent[eventName]
	if !ok {
		return "", false
	}
	return p.table, true
}

// Decode reads the row that event carries, as ReadInto does.
func Decode(event ptrace.SpanEvent) (rows.Row, error) {
	p, ok := planByEvent[event.Name()]
	if !ok {
		return nil, ErrNotRow
	}
	row, err := rows.New(p.table)
	if err != nil {
		return nil, err
	}
	if err := ReadInto(event, rowSink{p, reflect.ValueOf(row).Elem()}); err != nil {
		return nil, err
	}
	return row, nil
}

// rowSink fills the fields of a row.
type rowSink struct {
	p     *plan
	value reflect.Value
}

// field is the place of a column's value, made if it is optional.
func (s rowSink) field(column int) reflect.Value {
	f := s.value.FieldByIndex(s.p.columns[column].index)
	if f.Kind() == reflect.Pointer {
		f.Set(reflect.New(f.Type().Elem()))
		f = f.Elem()
	}
	return f
}

func (s rowSink) Text(column int, v string)   { s.field(column).SetString(v) }
func (s rowSink) Flag(column int, v bool)     { s.field(column).SetBool(v) }
func (s rowSink) Float(column int, v float64) { s.field(column).SetFloat(v) }

func (s rowSink) Int(column int, v int64) {
	if f := s.field(column); f.CanUint() {
		f.SetUint(uint64(v))
	} else {
		f.SetInt(v)
	}
}

func (s rowSink) Pairs(column int, m pcommon.Map) {
	out := make(map[string]string, m.Len())
	for k, v := range m.All() {
		out[k] = v.Str()
	}
	s.field(column).Set(reflect.ValueOf(out))
}
