// Package daemon runs detection, alert delivery, UI and metrics over a ClickHouse that
// holds driftline's tables. serve, standalone and demo share it.
package daemon
