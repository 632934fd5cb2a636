package block

import (
	"time"
	"unsafe"

	"github.com/ClickHouse/ch-go/proto"
)

// Number is a column of numbers or flags, with NULL if it is nullable.
type Number[T number] struct {
	name, typ string
	values    []T
	// nulls is nil for a column that is not nullable.
	nulls    []bool
	nullable bool
	// instant says that values are nanoseconds since the Unix epoch.
	instant bool
}

type number interface {
	int64 | uint64 | uint32 | uint16 | float64 | bool
}

// NewNumber returns an empty column of the ClickHouse type that T stands for.
func NewNumber[T number](name string, nullable bool) *Number[T] {
	var zero T
	typ := ""
	switch any(zero).(type) {
	case int64:
		typ = "Int64"
	case uint64:
		typ = "UInt64"
	case uint32:
		typ = "UInt32"
	case uint16:
		typ = "UInt16"
	case float64:
		typ = "Float64"
	case bool:
		typ = "Bool"
	}
	return newNumber[T](name, typ, nullable)
}

// NewInstant returns an empty column of type DateTime64(digits, 'UTC'). With 9 digits its
// values are nanoseconds since the Unix epoch, with 3 milliseconds.
func NewInstant(name string, digits byte, nullable bool) *Number[int64] {
	c := newNumber[int64](name, "DateTime64("+string('0'+digits)+", 'UTC')", nullable)
	c.instant = true
	return c
}

func newNumber[T number](name, typ string, nullable bool) *Number[T] {
	if nullable {
		typ = "Nullable(" + typ + ")"
	}
	return &Number[T]{name: name, typ: typ, nullable: nullable}
}

// Set sets the value of the given row, which is the block's current one.
func (c *Number[T]) Set(row int, v T) {
	c.cut(row)
	c.pad(row)
	c.values = append(c.values, v)
	if c.nullable {
		c.nulls = append(c.nulls, false)
	}
}

// At returns the value of a row that was set or padded, its zero if it is NULL.
func (c *Number[T]) At(row int) T { return c.values[row] }

// IsSet says whether the given row, the block's current one, has been set.
func (c *Number[T]) IsSet(row int) bool { return len(c.values) > row }

func (c *Number[T]) Name() string { return c.name }
func (c *Number[T]) Type() string { return c.typ }

func (c *Number[T]) pad(n int) {
	var zero T
	for len(c.values) < n {
		c.values = append(c.values, zero)
		if c.nullable {
			c.nulls = append(c.nulls, true)
		}
	}
}

func (c *Number[T]) cut(n int) {
	if len(c.values) > n {
		c.values = c.values[:n]
		if c.nullable {
			c.nulls = c.nulls[:n]
		}
	}
}

func (c *Number[T]) reset() { c.values, c.nulls = c.values[:0], c.nulls[:0] }

func (c *Number[T]) state(*proto.Buffer) {}

func (c *Number[T]) data(b *proto.Buffer) {
	if c.nullable {
		proto.ColBool(c.nulls).EncodeColumn(b)
	}
	switch v := any(c.values).(type) {
	case []int64:
		proto.ColInt64(v).EncodeColumn(b)
	case []uint64:
		proto.ColUInt64(v).EncodeColumn(b)
	case []uint32:
		proto.ColUInt32(v).EncodeColumn(b)
	case []uint16:
		proto.ColUInt16(v).EncodeColumn(b)
	case []float64:
		proto.ColFloat64(v).EncodeColumn(b)
	case []bool:
		proto.ColBool(v).EncodeColumn(b)
	}
}

// Values is []T, []*T, []time.Time or []*time.Time.
func (c *Number[T]) Values() any {
	if c.instant {
		at := make([]time.Time, len(c.values))
		for i, v := range c.values {
			ns := any(v).(int64)
			if c.typ == "DateTime64(3, 'UTC')" {
				ns *= int64(time.Millisecond)
			}
			at[i] = time.Unix(0, ns).UTC()
		}
		return optional(at, c.nulls, c.nullable)
	}
	return optional(c.values, c.nulls, c.nullable)
}

func optional[T any](values []T, nulls []bool, nullable bool) any {
	if !nullable {
		return values
	}
	out := make([]*T, len(values))
	for i := range values {
		if !nulls[i] {
			out[i] = &values[i]
		}
	}
	return out
}

func (c *Number[T]) size() int {
	var zero T
	return len(c.nulls) + len(c.values)*int(unsafe.Sizeof(zero))
}
