//go:generate go tool -modfile=../../tools/go.mod mdatagen metadata.yaml

// Package genaisegment is the collector processor that understands GenAI spans: it
// holds a trace for a bounded time, links attempts to operations, cuts requests into
// segments, and writes what it found onto the spans as docs/attributes.md fixes it.
package genaisegment
