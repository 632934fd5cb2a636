// Package ui serves driftline's pages: what is firing, why, and where one request's
// time went.
//
// It is read only and server-rendered: no script, no external asset, nothing that
// writes. What it shows it asks of a [Source]; internal/ui/clickhouse is the one on
// real tables. A value that is not known is shown as the word "unknown", and a
// percentile of too few values as "insufficient traffic", never as a number.
package ui
