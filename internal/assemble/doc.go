// Package assemble is the bounded trace buffer: it holds spans, decides when a
// trace's findings are released, numbers revisions, remembers which keys were sent
// and writes tombstones for keys that are no longer true.
//
// It is a pure state machine. It starts no goroutine, reads no clock and knows no
// collector: Add, Tick and Drain are told the time and answer with what is to be
// sent. It is not safe for concurrent use.
//
// A span is understood when its trace is released, not when it comes. Once sent, it
// stays as a few bytes (pack.go), for the next release of its trace or a late span.
//
// Nothing is ever discarded here. When a bound is reached, memory of released traces
// is given up first; then the oldest or heaviest open trace is released with what is
// known of it.
package assemble
