package genai

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
