// Package genaiclickhouse exports driftline's findings to ClickHouse: each
// `driftline.*` span event becomes one row, and GenAI spans become thin rows to open a
// trace by. It joins nothing, so batching may split a trace anywhere, and a batch sent
// twice ends in the same rows.
package genaiclickhouse

//go:generate go tool -modfile=../../tools/go.mod mdatagen metadata.yaml
