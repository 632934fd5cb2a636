package stats

import "slices"

// Sum adds up histograms. It has room for every bucket, so that adding one takes as long as
// that one is, however much is in it already; [Hist.Merge] takes as long as both. The zero
// value is empty. It is large (6 KB): keep one and use it again.
type Sum struct {
	count [int(MaxIndex-MinIndex) + 2]uint64
	// from and to bound the buckets that may hold something.
	from, to int
}

// place is where a bucket is in a Sum: ZeroIndex comes first.
func place(ix int16) int {
	if ix == ZeroIndex {
		return 0
	}
	return int(ix-MinIndex) + 1
}

func indexAt(place int) int16 {
	if place == 0 {
		return ZeroIndex
	}
	return int16(place-1) + MinIndex
}

// Add adds a histogram; nil is none.
func (s *Sum) Add(h *Hist) {
	if h == nil || len(h.Index) == 0 {
		return
	}
	first, last := place(h.Index[0]), place(h.Index[len(h.Index)-1])+1
	if s.to == 0 {
		s.from, s.to = first, last
	} else {
		s.from, s.to = min(s.from, first), max(s.to, last)
	}
	for i, ix := range h.Index {
		c := &s.count[place(ix)]
		*c = satAdd(*c, h.Count[i])
	}
}

// Take puts what was added into h, in place of what h held, and empties s. It allocates only
// when h has no room.
func (s *Sum) Take(h *Hist) {
	filled := 0
	for _, n := range s.count[s.from:s.to] {
		if n > 0 {
			filled++
		}
	}
	index, count := slices.Grow(h.Index[:0], filled)[:filled], slices.Grow(h.Count[:0], filled)[:filled]
	k := 0
	for at := s.from; at < s.to; at++ {
		if n := s.count[at]; n > 0 {
			index[k], count[k] = indexAt(at), n
			s.count[at] = 0
			k++
		}
	}
	h.Index, h.Count = index, count
	s.from, s.to = 0, 0
}
