package detector

import (
	"encoding/binary"
	"math"
	"slices"

	"driftline/detector/stats"
)

// places is how many places buckets have, see [placeOf].
const places = int(stats.MaxIndex-stats.MinIndex) + 2

// What a place unpacks to is worked out once: a day's blocks of a slice ask for thousands.
var (
	// quantileAt is a bucket's value in milliseconds with the precision of [coder.f].
	quantileAt [places]float32
	// logAt is the natural logarithm of that value, logs of minus infinity left out.
	logAt [places]float64
)

// A minute's P95 is at least that of the lowest bucket, so logs can be under 0: they are
// rounded shifted by logShift.
const logShift = 16

func init() {
	for at := range quantileAt {
		quantileAt[at] = math.Float32frombits(three(bucket32(at)))
		if at > 0 {
			logAt[at] = float64(math.Float32frombits(three(shiftedLog(bucket32(at))))) - logShift
		}
	}
}

func shiftedLog(ms float32) float32 { return log32(ms) + logShift }

// placeFor is the place of the bucket with that value. That of the lowest bucket may be just
// under what begins it.
func placeFor(ms float64) int {
	if ms > 0 && ms < stats.MinMS {
		return placeOf(stats.MinIndex)
	}
	return placeOf(stats.BucketIndex(ms))
}

func bucket32(place int) float32 { return float32(stats.BucketValue(bucketAt(place))) }

// q codes quantiles of histograms in milliseconds by their buckets; they come back with the
// precision of f.
func (c *coder) q(fields ...*float32) {
	for _, f := range fields {
		at := uint64(0)
		if c.packing {
			at = uint64(placeFor(float64(*f)))
		}
		if c.u(&at); !c.packing {
			*f = quantileAt[at]
		}
	}
}

// tail codes a median and a P95, which are zero unless some is true. The tail, see [tailMS], comes
// back as that of the quantiles as their histogram has them, with the precision of f.
func (c *coder) tail(some bool, p50, p95, tail *float32) {
	if !some {
		*p50, *p95, *tail = 0, 0, 0
		return
	}
	var mid, high uint64
	if c.packing {
		mid, high = uint64(placeFor(float64(*p50))), uint64(placeFor(float64(*p95)))
	}
	if c.u(&mid, &high); !c.packing {
		*p50, *p95 = quantileAt[mid], quantileAt[high]
		*tail = math.Float32frombits(three(float32(tailMS(stats.BucketValue(bucketAt(int(mid))), stats.BucketValue(bucketAt(int(high)))))))
	}
}

// usualPlace is where lists of places begin to count.
var usualPlace = placeFor(1000)

// places codes a list of places, each by how far it is from the one before.
func (c *coder) places(field *[]uint16) {
	n := uint64(len(*field))
	if c.u(&n); c.packing {
		at := usualPlace
		for _, place := range *field {
			c.out = binary.AppendVarint(c.out, int64(int(place)-at))
			at = int(place)
		}
		return
	}
	*field = slices.Grow((*field)[:0], int(n))[:n]
	at, in := usualPlace, c.in
	for i := range *field {
		step := uint64(in[0])
		if step < 0x80 {
			in = in[1:]
		} else {
			var size int
			step, size = binary.Uvarint(in)
			in = in[size:]
		}
		at += int(int64(step>>1) ^ -int64(step&1))
		(*field)[i] = uint16(at)
	}
	c.in = in
}

// placeCounts counts buckets' places. The zero value is empty.
type placeCounts struct {
	count [places]uint32
	n     int
	// first and end bound what may be counted.
	first, end int
}

func (p *placeCounts) add(all []uint16) {
	for _, at := range all {
		if p.n == 0 {
			p.first, p.end = int(at), int(at)+1
		}
		p.first, p.end = min(p.first, int(at)), max(p.end, int(at)+1)
		p.count[at]++
		p.n++
	}
}

// take gives median and median absolute deviation of the logarithms of what was counted, and of
// how many, and empties p; all are 0 without any.
func (p *placeCounts) take() (median, mad float64, n int) {
	if p.n == 0 {
		return 0, 0, 0
	}
	n = p.n
	median, mad, err := stats.CountedMAD(logAt[p.first:p.end], p.count[p.first:p.end])
	clear(p.count[p.first:p.end])
	p.n = 0
	if err != nil {
		return 0, 0, 0
	}
	return median, mad, n
}
