package annotate

import (
	"errors"
	"fmt"
	"math"
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

// Decode reads the row that event carries. Attributes it does not know are ignored.
// It returns ErrNotRow when the event's name is not one of the contract's, and
// otherwise an error that names every attribute that is missing from the row's key,
// of a wrong type or out of range; the row is then nil and must be dropped whole.
func Decode(event ptrace.SpanEvent) (rows.Row, error) {
	p, ok := planByEvent[event.Name()]
	if !ok {
		return nil, ErrNotRow
	}
	row, err := rows.New(p.table)
	if err != nil {
		return nil, err
	}
	value := reflect.ValueOf(row).Elem()
	var problems []error
	for key, attr := range event.Attributes().All() {
		i, known := p.byKey[key]
		if !known {
			continue
		}
		c := &p.columns[i]
		if err := set(c, value.FieldByIndex(c.index), attr); err != nil {
			problems = append(problems, fmt.Errorf("attribute %q: %w", key, err))
		}
	}
	for _, i := range p.required {
		c := &p.columns[i]
		if _, stated := event.Attributes().Get(c.key); !stated {
			problems = append(problems, fmt.Errorf("attribute %q: is missing, and the row has no key without it", c.key))
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("event %q: %w", event.Name(), errors.Join(problems...))
	}
	return row, nil
}

func set(c *column, field reflect.Value, attr pcommon.Value) error {
	if want := typeOf(c.form); attr.Type() != want {
		return fmt.Errorf("wanted type %s, found %s", want, attr.Type())
	}
	switch c.form {
	case formString:
		field.SetString(attr.Str())
	case formBool:
		field.SetBool(attr.Bool())
	case formFloat:
		if f := attr.Double(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("wanted a finite number, found %v", f)
		}
		field.SetFloat(attr.Double())
	case formInt:
		return setInt(c, field, attr.Int())
	case formUint:
		return setUint(c, field, attr.Int())
	case formOptionalBool:
		b := attr.Bool()
		field.Set(reflect.ValueOf(&b))
	case formOptionalInt:
		return setInt(c, newElem(field), attr.Int())
	case formOptionalUint:
		return setUint(c, newElem(field), attr.Int())
	case formStringMap:
		return setMap(field, attr.Map())
	}
	return nil
}

func typeOf(f form) pcommon.ValueType {
	switch f {
	case formString:
		return pcommon.ValueTypeStr
	case formBool, formOptionalBool:
		return pcommon.ValueTypeBool
	case formFloat:
		return pcommon.ValueTypeDouble
	case formStringMap:
		return pcommon.ValueTypeMap
	}
	return pcommon.ValueTypeInt
}

func newElem(field reflect.Value) reflect.Value {
	field.Set(reflect.New(field.Type().Elem()))
	return field.Elem()
}

func setInt(c *column, field reflect.Value, n int64) error {
	if field.OverflowInt(n) {
		return fmt.Errorf("wanted an integer of %d bits, found %d", c.bits, n)
	}
	field.SetInt(n)
	return nil
}

func setUint(c *column, field reflect.Value, n int64) error {
	if n < 0 || field.OverflowUint(uint64(n)) {
		return fmt.Errorf("wanted a count of %d bits, found %d", c.bits, n)
	}
	field.SetUint(uint64(n))
	return nil
}

func setMap(field reflect.Value, m pcommon.Map) error {
	out := make(map[string]string, m.Len())
	for k, v := range m.All() {
		if v.Type() != pcommon.ValueTypeStr {
			return fmt.Errorf("key %q: wanted type %s, found %s", k, pcommon.ValueTypeStr, v.Type())
		}
		out[k] = v.Str()
	}
	if len(out) > 0 {
		field.Set(reflect.ValueOf(out))
	}
	return nil
}
