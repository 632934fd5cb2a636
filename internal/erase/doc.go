// Package erase deletes what is stored of the requests of one user or tenant, whom the
// keyed hashes of requests tell.
//
// A request is theirs if its last revision says so. With it go the whole trace, unless the
// trace also has requests of somebody else; then go the rows that name the request, and what
// only names the trace (spans, snapshots of open requests) stays for its retention. Requests of
// a trace that say nobody, such as late fragments, go with those that do.
//
// Rows of requests are deleted last, so that a run that was cut short is done again from
// where it stopped. Rollups hold no ids: see detector/rollup for how they follow.
package erase
