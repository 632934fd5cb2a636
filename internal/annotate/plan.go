package annotate

import (
	"fmt"
	"reflect"

	"driftline/internal/rows"
)

// form is how a field is held in Go.
type form uint8

const (
	formString form = iota
	formBool
	formInt
	formUint
	formFloat
	formStringMap
	formOptionalBool
	formOptionalInt
	formOptionalUint
)

// column is one field of a table, ready for use.
type column struct {
	key    string
	index  []int
	offset uintptr
	form   form
	// bits is the width of an integer field; a wider value would not fit.
	bits int
}

// plan is one table's columns in the contract's order.
type plan struct {
	table     rows.Table
	eventName string
	columns   []column
	byKey     map[string]int
	// timeColumn is the row's key time; required are the columns without which a
	// row has no identity.
	timeColumn int
	required   []int
}

// maxColumns is more columns than any table has.
const maxColumns = 256

var (
	plans       = buildPlans()
	planByEvent = indexByEvent(plans)
)

// keyTimes names the column that a table's event time is taken from.
var keyTimes = map[rows.Table]string{
	rows.TableRequests:     "ended_at",
	rows.TableOperations:   "ended_at",
	rows.TableAttempts:     "ended_at",
	rows.TableSegments:     "request_ended_at",
	rows.TableOpenRequests: "observed_at",
}

// keyIDs names the id column of a table's key.
var keyIDs = map[rows.Table]string{
	rows.TableRequests:   "request_id",
	rows.TableOperations: "operation_id",
	rows.TableAttempts:   "attempt_id",
	rows.TableSegments:   "request_id",
}

func buildPlans() map[rows.Table]*plan {
	out := make(map[rows.Table]*plan, len(rows.Tables))
	for _, table := range rows.Tables {
		p := &plan{table: table, eventName: table.EventName(), byKey: map[string]int{}, timeColumn: -1}
		for _, field := range rows.Fields(table) {
			form, bits, err := formOf(field.Type)
			if err != nil {
				panic(fmt.Sprintf("annotate: column %s of %s: %v", field.Column, table, err))
			}
			i := len(p.columns)
			p.columns = append(p.columns, column{
				key: rows.AttributePrefix + field.Column, index: field.Index, offset: field.Offset, form: form, bits: bits,
			})
			p.byKey[p.columns[i].key] = i
			switch field.Column {
			case keyTimes[table]:
				p.timeColumn = i
				p.required = append(p.required, i)
			case "trace_id", keyIDs[table]:
				p.required = append(p.required, i)
			}
		}
		if len(p.columns) > maxColumns {
			panic(fmt.Sprintf("annotate: table %s has more than %d columns", table, maxColumns))
		}
		if p.timeColumn < 0 {
			panic(fmt.Sprintf("annotate: table %s has no key time", table))
		}
		out[table] = p
	}
	return out
}

func indexByEvent(plans map[rows.Table]*plan) map[string]*plan {
	out := make(map[string]*plan, len(plans))
	for _, p := range plans {
		out[p.eventName] = p
	}
	return out
}

func formOf(t reflect.Type) (form, int, error) {
	optional := t.Kind() == reflect.Pointer
	if optional {
		t = t.Elem()
	}
	switch kind := t.Kind(); {
	case kind == reflect.Bool && optional:
		return formOptionalBool, 0, nil
	case kind == reflect.Bool:
		return formBool, 0, nil
	case t.Kind() >= reflect.Int && kind <= reflect.Int64:
		if optional {
			return formOptionalInt, t.Bits(), nil
		}
		return formInt, t.Bits(), nil
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		if optional {
			return formOptionalUint, t.Bits(), nil
		}
		return formUint, t.Bits(), nil
	case kind == reflect.String && !optional:
		return formString, 0, nil
	case kind == reflect.Float64 && !optional:
		return formFloat, 0, nil
	case t == reflect.TypeFor[map[string]string]() && !optional:
		return formStringMap, 0, nil
	}
	return 0, 0, fmt.Errorf("type %s has no form in the contract", t)
}
