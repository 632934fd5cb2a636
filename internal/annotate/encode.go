package annotate

import (
	"reflect"
	"slices"
	"unsafe"

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
	// Fields are read at their offsets: through reflection this took a fifth of the
	// processor's time.
	base := reflect.ValueOf(row).UnsafePointer()
	event.SetName(p.eventName)
	event.SetTimestamp(pcommon.Timestamp(max(0, *(*int64)(unsafe.Add(base, p.columns[p.timeColumn].offset)))))
	var present [maxColumns]uint8
	n := 0
	for i := range p.columns {
		// A row has no key without its time, even when a broken clock says 1970.
		if i == p.timeColumn || !isAbsent(&p.columns[i], unsafe.Add(base, p.columns[i].offset)) {
			present[n] = uint8(i)
			n++
		}
	}
	// A builder skips the search for duplicate keys that Map.Put does each time.
	var attrs xpdata.MapBuilder
	attrs.EnsureCapacity(n)
	for _, i := range present[:n] {
		c := &p.columns[i]
		put(c, unsafe.Add(base, c.offset), attrs.AppendEmpty(c.key))
	}
	attrs.UnsafeIntoMap(event.Attributes())
}

func isAbsent(c *column, field unsafe.Pointer) bool {
	switch c.form {
	case formString:
		return *(*string)(field) == ""
	case formBool:
		return !*(*bool)(field)
	case formInt, formUint:
		return whole(c, field) == 0
	case formFloat:
		return *(*float64)(field) == 0
	case formStringMap:
		return len(*(*map[string]string)(field)) == 0
	}
	return *(*unsafe.Pointer)(field) == nil
}

func put(c *column, field unsafe.Pointer, to pcommon.Value) {
	switch c.form {
	case formString:
		to.SetStr(*(*string)(field))
	case formBool:
		to.SetBool(*(*bool)(field))
	case formInt, formUint:
		to.SetInt(whole(c, field))
	case formFloat:
		to.SetDouble(*(*float64)(field))
	case formOptionalBool:
		to.SetBool(**(**bool)(field))
	case formOptionalInt, formOptionalUint:
		to.SetInt(whole(c, *(*unsafe.Pointer)(field)))
	case formStringMap:
		putMap(*(*map[string]string)(field), to.SetEmptyMap())
	}
}

// whole reads an integer of the column's width and sign.
func whole(c *column, field unsafe.Pointer) int64 {
	unsigned := c.form == formUint || c.form == formOptionalUint
	switch c.bits {
	case 64:
		return *(*int64)(field)
	case 32:
		if unsigned {
			return int64(*(*uint32)(field))
		}
		return int64(*(*int32)(field))
	case 16:
		if unsigned {
			return int64(*(*uint16)(field))
		}
		return int64(*(*int16)(field))
	}
	if unsigned {
		return int64(*(*uint8)(field))
	}
	return int64(*(*int8)(field))
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
