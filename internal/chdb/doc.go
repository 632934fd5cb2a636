// Package chdb loads libchdb, the ClickHouse engine as a shared library, and exposes the few C functions driftline needs,
// without cgo.
//
// One process opens one data folder. Several connections to it may be open; each runs one statement at a time, so a
// caller serialises the calls on a [Conn] and on what it returns. Opening is expensive and an engine that has been shut
// down does not come back: keep one connection open for the life of the process.
//
// A bad library must be found before the loader maps it, since a truncated file is a SIGBUS later. [CheckFile] does that.
package chdb
