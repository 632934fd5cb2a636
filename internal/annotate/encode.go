package annotate

import (
	"reflect"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/xpdata"

	"driftline/internal/rows"
)

// Encode writes row into event: name, time and attributes. Unknown optional fields
// and zero values are left out, as the contract allows. Whatever event held before
// is replaced. It panics for a table that is not carried, since that is a mistake
// in the program.
func Encode(row rows.Row, event ptrace.SpanEvent) {
	p := plans[row.Table()]
	if p == nil {
		panic("annotate: table " + string(row.Table()) + " is not carried by events")
	}
	value := reflect.ValueOf(row).Elem()
	event.SetName(p.eventName)
	event.SetTimestamp(pcommon.Timestamp(max(0, value.FieldByIndex(p.columns[p.timeColumn].index).Int())))
	var present [maxColumns]uint8
	n := 0
	for i := range p.columns {
		if !isAbsent(&p.columns[i], value.FieldByIndex(p.columns[i].index)) {
			present[n] = uint8(i)
			n++
		}
	}
	// A builder skips the search for duplicate keys that Map.Put does each time.
	var attrs xpdata.MapBuilder
	attrs.EnsureCapacity(n)
	for _, i := range present[:n] {
		c := &p.columns[i]
		put(c, value.FieldByIndex(c.index), attrs.AppendEmpty(c.key))
	}
	attrs.UnsafeIntoMap(event.Attributes())
}

func isAbsent(c *column, field reflect.Value) bool {
	if c.form == formStringMap {
		return field.Len() == 0
	}
	return field.IsZero()
}

func put(c *column, field reflect.Value, to pcommon.Value) {
	switch c.form {
	case formString:
		to.SetStr(field.String())
	case formBool:
		to.SetBool(field.Bool())
	case formInt:
		to.SetInt(field.Int())
	case formUint:
		to.SetInt(int64(field.Uint()))
	case formFloat:
		to.SetDouble(field.Float())
	case formOptionalBool:
		to.SetBool(field.Elem().Bool())
	case formOptionalInt:
		to.SetInt(field.Elem().Int())
	case formOptionalUint:
		to.SetInt(int64(field.Elem().Uint()))
	case formStringMap:
		putMap(field.Interface().(map[string]string), to.SetEmptyMap())
	}
}

// putMap writes m in the order of its keys, so that equal rows are equal bytes.
func putMap(m map[string]string, to pcommon.Map) {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	to.EnsureCapacity(len(keys))
	for _, k := range keys {
		to.PutStr(k, m[k])
	}
}
