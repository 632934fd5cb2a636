// Package schema is the one place where driftline's tables are defined: versioned SQL
// templates, the migrations that apply them, and the checks that refuse a database this
// binary does not know.
//
// Only `detectd migrate` and standalone call Up. Collectors and detectors call Check or
// Wait, so that any number of them can start at once without touching the schema.
package schema

//go:generate go run ./schemagen ../docs/schema.md
