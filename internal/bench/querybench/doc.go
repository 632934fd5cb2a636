// Command querybench measures every query that the detector, the pages and the dashboards
// send, on generated data of two sizes that share their last 24 hours, and writes what it
// found into docs/benchmarks.md.
//
// The rows are pure functions of a seed and their number, made inside the engine; the
// rollups are the real job's, run once per day of data.
package main
