// Package clienttest holds tests that reach the embedded endpoint with clients that others wrote: curl, the official Node client,
// and the ClickHouse exporter of OpenTelemetry Collector Contrib. clickhouse-go is used by all of driftline, and by the tests of
// the engine package.
package clienttest
