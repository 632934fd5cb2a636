package rows

import (
	"fmt"
	"reflect"
	"strings"
)

// AttributePrefix leads every attribute key and event name of the contract.
const AttributePrefix = "driftline."

// Field is one column of a table as the contract fixes it.
type Field struct {
	// Column is the column's name; AttributePrefix + Column is the attribute's key.
	Column string
	// Index is the path of the Go field for reflect.Value.FieldByIndex.
	Index []int
	// Type is the Go type of the field.
	Type reflect.Type
	// Time says that the value is an instant in Unix nanoseconds.
	Time bool
	// Offset is where the field lies in the table's struct, in bytes.
	Offset uintptr
}

// EventName is the name of the span event that carries a row of t: "driftline." and
// the table's name in the singular.
func (t Table) EventName() string {
	return AttributePrefix + strings.TrimSuffix(string(t), "s")
}

// New returns an empty row of t, or an error for a table that is not carried.
func New(t Table) (Row, error) {
	switch t {
	case TableRequests:
		return &Request{}, nil
	case TableOperations:
		return &Operation{}, nil
	case TableAttempts:
		return &Attempt{}, nil
	case TableSegments:
		return &Segment{}, nil
	case TableOpenRequests:
		return &OpenRequest{}, nil
	}
	return nil, fmt.Errorf("table %q carries no rows: want one of %v", t, Tables)
}

// Fields lists the fields of t in their order in the Go struct, which is the order
// of the attributes and of the INSERT's columns. It panics for a table that is not
// carried, since that is a mistake in the program.
func Fields(t Table) []Field {
	row, err := New(t)
	if err != nil {
		panic(err)
	}
	return appendFields(nil, reflect.TypeOf(row).Elem(), nil, 0)
}

func appendFields(out []Field, typ reflect.Type, prefix []int, offset uintptr) []Field {
	for i := range typ.NumField() {
		sf := typ.Field(i)
		tag, ok := sf.Tag.Lookup("row")
		if !ok {
			continue
		}
		index := append(append([]int(nil), prefix...), i)
		name, opts, _ := strings.Cut(tag, ",")
		if opts == "inline" {
			out = appendFields(out, sf.Type, index, offset+sf.Offset)
			continue
		}
		out = append(out, Field{Column: name, Index: index, Type: sf.Type, Time: opts == "time", Offset: offset + sf.Offset})
	}
	return out
}
