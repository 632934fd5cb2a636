package annotate

import (
	"errors"
	"fmt"
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/rows"
)

// Sink takes the values of one row. Columns are numbered as rows.Fields lists them. A column
// for which nothing is called has its zero value, or is unknown if it is optional.
type Sink interface {
	Text(column int, v string)
	Flag(column int, v bool)
	// Int takes whole numbers; it is only called with values that fit the column's type.
	Int(column int, v int64)
	Float(column int, v float64)
	// Pairs takes a map that is not empty and whose values are all text.
	Pairs(column int, m pcommon.Map)
}

// ReadInto hands the row that event carries to the sink, without a copy of its text.
// Attributes it does not know are ignored. It returns ErrNotRow when the event's name is not
// one of the contract's, and otherwise an error that names every attribute that is missing
// from the row's key, of a wrong type or out of range; the row must then be dropped whole.
func ReadInto(event ptrace.SpanEvent, to Sink) error {
	p, ok := planByEvent[event.Name()]
	if !ok {
		return ErrNotRow
	}
	var problems []error
	var seen [maxColumns / 64]uint64
	for key, attr := range event.Attributes().All() {
		i, known := p.byKey[key]
		if !known {
			continue
		}
		if attr.Type() != pcommon.ValueTypeStr || attr.Str() != "" {
			seen[i/64] |= 1 << (i % 64) // an empty text is none, as with rows that are encoded
		}
		if err := read(&p.columns[i], i, attr, to); err != nil {
			problems = append(problems, fmt.Errorf("attribute %q: %w", key, err))
		}
	}
	for _, i := range p.required {
		if seen[i/64]&(1<<(i%64)) == 0 {
			problems = append(problems, fmt.Errorf("attribute %q: is missing or empty, and the row has no key without it", p.columns[i].key))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("event %q: %w", event.Name(), errors.Join(problems...))
	}
	return nil
}

// KeyTime is the index of the table's key time among rows.Fields(table).
func KeyTime(table rows.Table) int { return plans[table].timeColumn }

func read(c *column, i int, attr pcommon.Value, to Sink) error {
	if want := typeOf(c.form); attr.Type() != want {
		return fmt.Errorf("wanted type %s, found %s", want, attr.Type())
	}
	switch c.form {
	case formString:
		to.Text(i, attr.Str())
	case formBool, formOptionalBool:
		to.Flag(i, attr.Bool())
	case formFloat:
		f := attr.Double()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("wanted a finite number, found %v", f)
		}
		to.Float(i, f)
	case formInt, formOptionalInt:
		n := attr.Int()
		if c.bits < 64 && (n < -1<<(c.bits-1) || n >= 1<<(c.bits-1)) {
			return fmt.Errorf("wanted an integer of %d bits, found %d", c.bits, n)
		}
		to.Int(i, n)
	case formUint, formOptionalUint:
		n := attr.Int()
		if n < 0 || c.bits < 64 && n >= 1<<c.bits {
			return fmt.Errorf("wanted a count of %d bits, found %d", c.bits, n)
		}
		to.Int(i, n)
	case formStringMap:
		m := attr.Map()
		for k, v := range m.All() {
			if v.Type() != pcommon.ValueTypeStr {
				return fmt.Errorf("key %q: wanted type %s, found %s", k, pcommon.ValueTypeStr, v.Type())
			}
		}
		if m.Len() > 0 {
			to.Pairs(i, m)
		}
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
