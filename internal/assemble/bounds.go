package assemble

import (
	"slices"
	"time"

	"driftline/internal/rows"
)

// enforce gives up memory until every bound holds: first that of released traces, whose
// rows are stored already, then that of open ones, which are released with what is known.
func (b *Buffer[P]) enforce(now time.Time) []Release[P] {
	var out []Release[P]
	for {
		bound, over := b.exceeded()
		if !over {
			return out
		}
		if bound != BoundTraces {
			if e := b.leastRemembered(); e != nil {
				b.stats.EvictedRemembered[bound]++
				if len(e.held) > 0 {
					out = append(out, b.complete(e, rows.ReleaseEvicted, now))
				}
				b.forget(e)
				continue
			}
		}
		e := b.open.first
		if bound != BoundTraces {
			e = b.heaviest()
		}
		b.stats.EvictedOpen[bound]++
		// It stays remembered as long as there is room, so that later spans revise it.
		out = append(out, b.complete(e, rows.ReleaseEvicted, now))
	}
}

// exceeded names a bound that does not hold. An empty buffer exceeds none.
func (b *Buffer[P]) exceeded() (Bound, bool) {
	switch {
	case len(b.traces) == 0:
		return "", false
	case b.open.len > b.set.MaxTraces:
		return BoundTraces, true
	case b.remembered.len+b.plain.len > b.set.MaxRemembered:
		return BoundRemembered, true
	case b.stats.Spans > int64(b.set.MaxSpans):
		return BoundSpans, true
	case b.stats.Bytes > b.set.MaxBytes:
		return BoundBytes, true
	}
	return "", false
}

// plainShare is the part of the remembered traces that those without GenAI spans may
// take from the others: an agent's spans can come after its HTTP root was released.
const plainShare = 4

// leastRemembered is the remembered trace to give up next, nil for none: the oldest, but
// traces without GenAI spans first when they are more than their share.
func (b *Buffer[P]) leastRemembered() *entry[P] {
	if b.plain.first != nil && (b.remembered.first == nil || b.plain.len > b.set.MaxRemembered/plainShare) {
		return b.plain.first
	}
	return b.remembered.first
}

// heavyOnes is how many candidates one look at all open traces gives.
const heavyOnes = 64

// heaviest is the open trace that takes the most memory, about: candidates are found by
// a look at all open traces, and one look serves many evictions.
func (b *Buffer[P]) heaviest() *entry[P] {
	for n := len(b.heavy); n > 0; n = len(b.heavy) {
		e := b.heavy[n-1]
		b.heavy[n-1] = nil
		b.heavy = b.heavy[:n-1]
		if e.in == &b.open {
			return e
		}
	}
	for e := b.open.first; e != nil; e = e.next {
		b.heavy = keepHeaviest(b.heavy, e)
	}
	// Only those of about the first one's weight: what is far lighter is not heavy.
	n := 1
	for n < len(b.heavy) && b.heavy[n].bytes >= b.heavy[0].bytes/2 {
		n++
	}
	b.heavy = b.heavy[:n]
	slices.Reverse(b.heavy)
	return b.heaviest()
}

// keepHeaviest puts e in its place among the heaviest, of which at most heavyOnes stay;
// the heaviest comes first, and of equal ones the older.
func keepHeaviest[P any](list []*entry[P], e *entry[P]) []*entry[P] {
	if len(list) == heavyOnes {
		if e.bytes <= list[heavyOnes-1].bytes {
			return list
		}
		list = list[:heavyOnes-1]
	}
	at, _ := slices.BinarySearchFunc(list, e.bytes, func(x *entry[P], bytes int64) int {
		if x.bytes >= bytes {
			return -1
		}
		return 1
	})
	return slices.Insert(list, at, e)
}
