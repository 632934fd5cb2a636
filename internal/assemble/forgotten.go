package assemble

import "github.com/cespare/xxhash/v2"

// forgotten is a bounded set of trace ids; the oldest gives way to the newest. Only
// hashes are kept: with a million ids a false answer has a chance of 1 in 10^13.
type forgotten struct {
	ids  map[uint64]struct{}
	ring []uint64
	next int
	max  int
}

func newForgotten(limit int) *forgotten {
	return &forgotten{ids: map[uint64]struct{}{}, max: limit}
}

func (f *forgotten) add(traceID [16]byte) {
	h := xxhash.Sum64(traceID[:])
	if _, known := f.ids[h]; known {
		return
	}
	f.ids[h] = struct{}{}
	if len(f.ring) < f.max {
		f.ring = append(f.ring, h)
		return
	}
	delete(f.ids, f.ring[f.next])
	f.ring[f.next] = h
	f.next = (f.next + 1) % f.max
}

func (f *forgotten) has(traceID [16]byte) bool {
	if len(f.ids) == 0 {
		return false
	}
	_, known := f.ids[xxhash.Sum64(traceID[:])]
	return known
}

// bytes is about what the set takes.
func (f *forgotten) bytes() int64 { return int64(24*len(f.ids) + 8*cap(f.ring)) }
