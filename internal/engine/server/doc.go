// Package server speaks ClickHouse's HTTP interface in front of the embedded engine, so that everything else in
// driftline, and curl, reaches the embedded engine exactly as it reaches a ClickHouse server.
//
// Each request runs on a connection of its own, opened for it and closed after it, which costs under a millisecond and
// lets no setting or database choice leak into the next. What this endpoint does not do is refused with code 48
// (NOT_IMPLEMENTED) and a text that says what to do instead: sessions, external tables, roles and quotas, INTO OUTFILE,
// FROM INFILE, INSERT ... SELECT FROM input(), several statements in one request, and shutting the engine down by SQL.
// KILL QUERY by query_id does not find requests: disconnecting cancels.
package server
