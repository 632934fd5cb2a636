// Package rollup keeps the rollup tables true to the base tables.
//
// A run finds the (service, minute) pairs that got rows since the last one,
// aggregates each anew from the deduplicated base rows, writes cells that
// vanished as n = 0, and then does the same for the coarser cells touched. What
// it writes depends on the base rows alone, so a recomputation, a second replica
// and a run after a crash all write the same rows. A run costs what is new, not
// what is old.
//
// There are two kinds of table:
//
//   - Rollups of base rows, with tiers of 1m and 1h: by slice (operations,
//     requests, attempts), which detections read; and by endpoint and region, input
//     tokens, service version and priority, each a table of its own and no cube.
//   - Narrow ones of the slices' cells, with tiers of 10m, 1h and 1d: by agent and
//     retries, agent and target, and agent. Dashboards read them for a day, a week
//     and a month of everything.
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
//   - The column minute is the start of the cell in every tier.
//   - A service's cell keeps a bounded number of values of its dimensions, the
//     busiest; what the others had is added to the value "other", and overflow
//     counts it where the table has that column. The processor bounds every label
//     before that (max_label_values), so these bounds only meet in odd traffic.
//   - Of rows with one key the highest version is true. It is made of the number and
//     the revisions of the cell's base rows (version.go): whatever changes a cell
//     makes it greater.
//
// Tables that come with an upgrade are filled from what the base tables and the
// older rollups hold, a bounded part with each run.
package rollup
