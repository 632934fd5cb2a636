// Package memory is a detector's store and rollup in memory: rows go in, and the cells that
// package rollup would have written come out. It is for event-time runs of many days, such
// as back-tests, where a database would do nothing but slow them down. That both give the
// same cells is tested against the real engine.
//
// It differs from the real ones in three ways. A row is added once: revisions and tombstones
// are for the exporter's retries, which nothing here has. Busy dimensions are not folded into
// "other", so a run must have fewer slices than the rollups keep. And the ingest lag is known
// to the minute, within a histogram's relative error.
package memory
