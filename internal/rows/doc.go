// Package rows is driftline's frozen contract: one Go struct per base table.
//
// A field's `row` tag is its column name in ClickHouse and, with the prefix
// "driftline.", its attribute key in the span event that carries the row
// (docs/attributes.md). The package is data only: it knows no collector, no
// database and no HTTP.
//
// Conventions: times are Unix nanoseconds in UTC; durations are nanoseconds;
// a nil pointer is "unknown" and never means zero; an empty string is "not
// stated".
package rows
