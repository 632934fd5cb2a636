// Package rollup keeps the rollup tables true to the base tables.
//
// A run finds the (service, minute) pairs that got rows since the last one,
// aggregates each anew from the deduplicated base rows, writes cells that
// vanished as n = 0, and then does the same for the hours touched. What it
// writes depends on the base rows alone, so a recomputation, a second replica
// and a run after a crash all write the same rows.
//
// What the columns mean beyond their names:
//
//   - n counts all rows of a cell. Late fragments (spans of a trace no longer
//     remembered) are counted in n and late_fragments and nowhere else, so that
//     none of them is taken for a second operation.
//   - Times are keyed by the minute of the end. A histogram counts known values
//     of zero or more, in milliseconds; its _n is their number, its _sum_ns their
//     sum. A TTFT or time per token that is suspect is in no histogram.
//   - Drift counts decision points; one that was told too little has drift 0.
//   - The 1h tables repeat the 1m tables, with the hour in the column minute.
package rollup
