// Package erase deletes what is stored of the requests of one user or tenant, whom the
// keyed hashes of requests tell.
//
// A request is theirs if its last revision says so, or an earlier one and the last says nobody.
// With it goes the whole trace, unless the trace also has requests of somebody else; then go
// the rows that name the request, and what only names the trace (spans, snapshots of open
// requests) stays for its retention. Requests of a trace that say nobody, such as late
// fragments, go with those that do.
//
// Requests with the hash are deleted last, and not while other rows of their traces are left,
// so that the next run goes on where one was cut short or rows came meanwhile. Rollups hold no
// ids: see detector/rollup for how they follow.
package erase
