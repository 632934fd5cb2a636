// Package assemble is the bounded trace buffer: it holds spans, decides when a
// trace's findings are released, numbers revisions, remembers which keys were sent
// and writes tombstones for keys that are no longer true.
//
// It is a pure state machine. It starts no goroutine, reads no clock and knows no
// collector: Add, Tick and Drain are told the time and answer with what is to be
// sent. It is not safe for concurrent use.
//
// Nothing is ever discarded here. When a bound is reached, the oldest trace is
// released with what is known of it and then forgotten.
package assemble
