package detector

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"driftline/detector/stats"
)

// A histogram is packed in bits: how many buckets, the first one, and then for each its count
// and how far the next one is, as exponential Golomb codes (Teuhola 1978). The order of a
// count's code is that of the count before, since neighbours are alike. A bucket takes some
// three to seven bits; with more traffic gaps shrink as counts grow. Before it stands its length in bytes, 0 for an empty
// histogram, so that who does not need it can skip it.

// bitWriter appends bits to out, the most significant first.
type bitWriter struct {
	out  []byte
	held uint64 // the bits not yet in out are the upper ones
	n    uint
}

// put appends the lower n bits of v, at most 32.
func (w *bitWriter) put(v uint64, n uint) {
	w.held |= v << (64 - n) >> w.n
	for w.n += n; w.n >= 8; w.n -= 8 {
		w.out = append(w.out, byte(w.held>>56))
		w.held <<= 8
	}
}

// golomb appends a number in the code of order k, under 32.
func (w *bitWriter) golomb(v uint64, k uint) {
	q := v>>k + 1
	n := uint(bits.Len64(q))
	if size := 2*n - 1 + k; size <= 32 { // zeros, number and further bits at once
		w.put(q<<k|v&(1<<k-1), size)
		return
	}
	for zeros := n - 1; zeros > 0; {
		part := min(zeros, 32)
		w.put(0, part)
		zeros -= part
	}
	if n > 32 {
		w.put(q>>32, n-32)
		n = 32
	}
	w.put(q&(1<<n-1), n)
	if k > 0 {
		w.put(v&(1<<k-1), k)
	}
}

func (w *bitWriter) end() []byte {
	if w.n > 0 {
		w.out = append(w.out, byte(w.held>>56))
	}
	return w.out
}

// bitReader takes bits off in; behind its end are zeros.
type bitReader struct {
	in   []byte
	held uint64
	n    uint
}

func (r *bitReader) fill() {
	if len(r.in) >= 8 {
		r.held |= binary.BigEndian.Uint64(r.in) >> r.n
		taken := (63 - r.n) / 8
		r.in = r.in[taken:]
		r.n += 8 * taken
		return
	}
	for r.n <= 56 {
		if len(r.in) > 0 {
			r.held |= uint64(r.in[0]) << (56 - r.n)
			r.in = r.in[1:]
		}
		r.n += 8
	}
}

// take takes n bits, 1 to 32.
func (r *bitReader) take(n uint) uint64 {
	if r.n < n {
		r.fill()
	}
	v := r.held >> (64 - n)
	r.held <<= n
	r.n -= n
	return v
}

func (r *bitReader) golomb(k uint) uint64 {
	if r.n < 48 {
		r.fill()
	}
	v, size := golombOf(r.held, k)
	if size > r.n {
		return r.longGolomb(k)
	}
	r.held <<= size
	r.n -= size
	return v
}

// golombOf is the number whose code of order k begins held, and the code's size in bits. Where
// that is more than there are bits, the number says nothing.
func golombOf(held uint64, k uint) (v uint64, size uint) {
	zeros := uint(bits.LeadingZeros64(held))
	return held<<(zeros&63)>>((63-zeros-k)&63) - 1<<k, 2*zeros + 1 + k // the code's number with its k further bits
}

// longGolomb is golomb for what may not be there as a whole.
func (r *bitReader) longGolomb(k uint) uint64 {
	zeros := uint(0)
	for r.take(1) == 0 {
		if zeros++; zeros == 64 {
			return 0 // nothing was packed like this
		}
	}
	q := uint64(1)
	for range zeros {
		q = q<<1 | r.take(1)
	}
	v := (q - 1) << k
	if k > 0 {
		v |= r.take(k)
	}
	return v
}

// placeOf numbers buckets without the distance between ZeroIndex and the others.
func placeOf(ix int16) int {
	if ix == stats.ZeroIndex {
		return 0
	}
	return int(ix-stats.MinIndex) + 1
}

func bucketAt(place int) int16 {
	if place == 0 {
		return stats.ZeroIndex
	}
	return int16(place-1) + stats.MinIndex
}

// Bits of a packed histogram's head.
const (
	sizeOrder = 4 // of the code of its number of buckets
	orderBits = 4 // of the order of the gaps' code
	placeBits = 10
)

// orderFor is the order that suits numbers around n, 1 or more.
func orderFor(n uint64) uint { return min(uint(bits.Len64(n))-1, 31) }

func appendHist(out []byte, h *stats.Hist) []byte {
	if h == nil || len(h.Index) == 0 {
		return append(out, 0)
	}
	n := len(h.Index)
	at := placeOf(h.Index[0])
	gaps, counts := orderFor(uint64((placeOf(h.Index[n-1])-at)/n|1)), uint(0)
	w := bitWriter{out: append(out, 0)} // the length's first byte
	start := len(w.out)
	w.golomb(uint64(n-1), sizeOrder)
	w.put(uint64(gaps), orderBits)
	w.put(uint64(at), placeBits)
	for i, ix := range h.Index {
		if i > 0 {
			next := placeOf(ix)
			w.golomb(uint64(next-at-1), gaps)
			at = next
		}
		w.golomb(h.Count[i]-1, counts)
		counts = orderFor(h.Count[i])
	}
	out = w.end()
	size := len(out) - start
	if size < 0x80 {
		out[start-1] = byte(size)
		return out
	}
	var length [binary.MaxVarintLen64]byte
	return slices.Replace(out, start-1, start, length[:binary.PutUvarint(length[:], uint64(size))]...)
}

// unpackHist puts the histogram at the front of in into h and gives what follows it.
func unpackHist(in []byte, h *stats.Hist) (rest []byte) {
	h.Index, h.Count = h.Index[:0], h.Count[:0]
	packed, rest := cutHist(in)
	if len(packed) == 0 {
		return rest
	}
	r := bitReader{in: packed}
	n := int(r.golomb(sizeOrder)) + 1
	gaps, at, counts := uint(r.take(orderBits)), int(r.take(placeBits)), uint(0)
	h.Index, h.Count = slices.Grow(h.Index, n)[:n], slices.Grow(h.Count, n)[:n]
	index, count := h.Index, h.Count[:len(h.Index)]
	// The reader's fields are kept in variables of their own: a round unpacks millions of buckets.
	held, have := r.held, r.n
	for i := range index {
		if i > 0 {
			if have < 48 {
				r.held, r.n = held, have
				r.fill()
				held, have = r.held, r.n
			}
			gap, size := golombOf(held, gaps)
			if size <= have {
				held, have = held<<size, have-size
			} else {
				r.held, r.n = held, have
				gap = r.longGolomb(gaps)
				held, have = r.held, r.n
			}
			at += int(gap) + 1
		}
		if have < 48 {
			r.held, r.n = held, have
			r.fill()
			held, have = r.held, r.n
		}
		n, size := golombOf(held, counts)
		if size <= have {
			held, have = held<<size, have-size
		} else {
			r.held, r.n = held, have
			n = r.longGolomb(counts)
			held, have = r.held, r.n
		}
		n++
		index[i], count[i] = bucketAt(at), n
		counts = orderFor(n)
	}
	return rest
}

// cutHist cuts the packed histogram at the front of in off.
func cutHist(in []byte) (packed, rest []byte) {
	size, n := uint64(in[0]), 1
	if size >= 0x80 {
		size, n = binary.Uvarint(in)
	}
	return in[n : n+int(size)], in[n+int(size):]
}
