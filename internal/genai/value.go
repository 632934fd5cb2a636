package genai

import (
	"math"
	"strconv"
	"strings"
)

// ValueType tells which field of a Value holds it.
type ValueType uint8

// The types a kept attribute can have.
const (
	ValueEmpty ValueType = iota
	ValueString
	ValueInt
	ValueDouble
	ValueBool
	// ValueStrings is a list of strings, such as a captured HTTP header.
	ValueStrings
)

// Value is an attribute value. Instrumentations write one fact in several types
// (a number as text, a header as a list), so the As methods read any of them.
type Value struct {
	Type   ValueType
	Str    string
	Int    int64
	Double float64
	Bool   bool
	List   []string
}

// StringValue, IntValue, DoubleValue, BoolValue and StringsValue make a Value.
func StringValue(s string) Value     { return Value{Type: ValueString, Str: s} }
func IntValue(i int64) Value         { return Value{Type: ValueInt, Int: i} }
func DoubleValue(f float64) Value    { return Value{Type: ValueDouble, Double: f} }
func BoolValue(b bool) Value         { return Value{Type: ValueBool, Bool: b} }
func StringsValue(l ...string) Value { return Value{Type: ValueStrings, List: l} }

// AsString reads v as text; a list gives its first element, and a number its
// shortest form. ok is false for an empty value.
func (v Value) AsString() (s string, ok bool) {
	switch v.Type {
	case ValueString:
		return v.Str, true
	case ValueInt:
		return strconv.FormatInt(v.Int, 10), true
	case ValueDouble:
		return strconv.FormatFloat(v.Double, 'g', -1, 64), true
	case ValueBool:
		return strconv.FormatBool(v.Bool), true
	case ValueStrings:
		if len(v.List) > 0 {
			return v.List[0], true
		}
	}
	return "", false
}

// AsFloat reads v as a finite number; text that is not a number, such as a redacted
// header, gives ok = false.
func (v Value) AsFloat() (f float64, ok bool) {
	switch v.Type {
	case ValueInt:
		return float64(v.Int), true
	case ValueDouble:
		f, ok = v.Double, true
	case ValueString, ValueStrings:
		s, _ := v.AsString()
		p, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		f, ok = p, err == nil
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, false
	}
	return f, ok
}

// AsInt reads v as a whole number; a double is rounded.
func (v Value) AsInt() (i int64, ok bool) {
	if v.Type == ValueInt {
		return v.Int, true
	}
	f, ok := v.AsFloat()
	if !ok || math.Abs(f) > 1<<62 {
		return 0, false
	}
	return int64(math.Round(f)), true
}

// AsBool reads v as yes or no; "True", "1" and the like count.
func (v Value) AsBool() (b, ok bool) {
	switch v.Type {
	case ValueBool:
		return v.Bool, true
	case ValueInt:
		return v.Int != 0, true
	case ValueString, ValueStrings:
		s, _ := v.AsString()
		p, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(s)))
		return p, err == nil
	}
	return false, false
}
