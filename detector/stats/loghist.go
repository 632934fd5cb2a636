package stats

import (
	"math"
	"slices"
	"strconv"
)

// The mapping follows DDSketch (Masson, Rim, Lee, VLDB 2019): buckets of equal
// width on a log scale, so the relative error is the same everywhere.
const (
	// RelativeError bounds |bucket value - x| / x for x in [MinMS, MaxMS].
	RelativeError = 0.02
	// Gamma is the ratio of a bucket's upper bound to its lower bound,
	// (1+a)/(1-a) for a = RelativeError.
	Gamma = (1 + RelativeError) / (1 - RelativeError)
	// LnGamma is ln(Gamma), a bucket's width on the log scale. It is a literal
	// because Go and SQL must divide by the very same float64.
	LnGamma = 0.040005334613699164

	// MinMS is the smallest value with a bucket of its own, 1 microsecond.
	// Anything from 0 up to it is counted in ZeroIndex.
	MinMS = 1e-3
	// MaxMS is the largest value told apart, 11.6 days. Larger ones are counted
	// in its bucket.
	MaxMS = 1e9

	// MinIndex and MaxIndex are the buckets of MinMS and MaxMS.
	MinIndex int16 = -172
	MaxIndex int16 = 519
	// ZeroIndex is the bucket of values under MinMS. It is far below MinIndex
	// so that it sorts first and so that 2*Gamma^i/(Gamma+1) underflows to
	// exactly 0: no reader needs a special case.
	ZeroIndex int16 = math.MinInt16
)

// Hist is a sparse log-bucket histogram of latencies in milliseconds. Index is
// strictly ascending and Count has the same length and no zeros, so the two
// fields are the columns Array(Int16) and Array(UInt64) as they stand. The zero
// value is an empty histogram; a nil *Hist reads as one.
type Hist struct {
	Index []int16  `json:"index"`
	Count []uint64 `json:"count"`
}

// BucketIndex returns the bucket of a latency in milliseconds:
// ceil(ln(x)/LnGamma), with x above MaxMS taken as MaxMS. Values below MinMS,
// negative ones and NaN give ZeroIndex; use [ValidMS] to tell them apart.
//
// It equals [SQLBucketExpr] bit for bit. Two log implementations may differ by an
// ulp, which matters only next to a bucket's edge. Edges are powers of 51/49, so
// none but 1 ms is a whole number of ticks: no whole number of nanoseconds up to
// a minute, or of microseconds up to an hour, is within 100 ulps of one (a test
// checks every edge). A longer nanosecond value may be; it would land in the
// neighbouring bucket, still within RelativeError up to rounding.
func BucketIndex(ms float64) int16 {
	if !(ms >= MinMS) {
		return ZeroIndex
	}
	if ms > MaxMS {
		ms = MaxMS
	}
	return int16(math.Ceil(math.Log(ms) / LnGamma))
}

// bucketValues are the values of MinIndex to MaxIndex, which rounds ask for millions of times.
var bucketValues = func() (out [MaxIndex - MinIndex + 1]float64) {
	for i := range out {
		out[i] = bucketValue(int16(i) + MinIndex)
	}
	return out
}()

func bucketValue(i int16) float64 { return 2 * math.Exp(float64(i)*LnGamma) / (Gamma + 1) }

// BucketValue returns the representative of bucket i in milliseconds,
// 2*Gamma^i/(Gamma+1), which is within RelativeError of all values in it.
func BucketValue(i int16) float64 {
	if i >= MinIndex && i <= MaxIndex {
		return bucketValues[i-MinIndex]
	}
	return bucketValue(i)
}

// BucketBounds returns the bounds of bucket i in milliseconds; a bucket holds
// lo < x <= hi. ZeroIndex holds 0 <= x < MinMS.
func BucketBounds(i int16) (lo, hi float64) {
	if i == ZeroIndex {
		return 0, MinMS
	}
	return math.Exp(float64(i-1) * LnGamma), math.Exp(float64(i) * LnGamma)
}

// ValidMS reports whether a latency can be counted: finite and not negative.
func ValidMS(ms float64) bool { return ms >= 0 && !math.IsInf(ms, 1) }

func sqlFloat(x float64) string { return strconv.FormatFloat(x, 'g', 17, 64) }

// SQLBucketExpr returns the ClickHouse expression that yields [BucketIndex] of
// a numeric column or expression in milliseconds. The text is inserted as is,
// so it must never come from outside the program. Filter rows with
// [SQLValidExpr], or invalid ones are counted in ZeroIndex.
//
// The conversion to Int16 is outermost: ClickHouse may evaluate both branches
// of if(), and converting a NaN would be undefined.
func SQLBucketExpr(col string) string {
	x := "toFloat64(" + col + ")"
	return "toInt16(if(" + x + " >= 0.001, ceil(log(least(" + x + ", 1000000000.)) / " +
		sqlFloat(LnGamma) + "), -32768.))"
}

// SQLValidExpr returns the ClickHouse condition that equals [ValidMS].
func SQLValidExpr(col string) string {
	x := "toFloat64(" + col + ")"
	return "(" + x + " >= 0 AND isFinite(" + x + "))"
}

// SQLValueExpr returns the ClickHouse expression for [BucketValue] of an
// integer expression; the last bits may differ from Go's.
func SQLValueExpr(index string) string {
	return "(2 * exp(" + index + " * " + sqlFloat(LnGamma) + ") / " + sqlFloat(Gamma+1) + ")"
}

// HistFromColumns builds a histogram from columns in any order, adding up
// repeated indexes and dropping zero counts. It copies its arguments. Columns of
// unequal length and indexes that no value maps to are ErrInvalid.
func HistFromColumns(index []int16, count []uint64) (*Hist, error) {
	if len(index) != len(count) {
		return nil, invalid("histogram has %d indexes and %d counts", len(index), len(count))
	}
	h := &Hist{}
	for i, ix := range index {
		if ix != ZeroIndex && (ix < MinIndex || ix > MaxIndex) {
			return nil, invalid("histogram index %d at position %d is outside %d..%d", ix, i, MinIndex, MaxIndex)
		}
		h.addIndex(ix, count[i])
	}
	return h, nil
}

// HistOf counts a slice of latencies in milliseconds and returns how many were
// rejected as not valid.
func HistOf(ms []float64) (h *Hist, rejected int) {
	h = &Hist{}
	for _, x := range ms {
		if !h.Add(x) {
			rejected++
		}
	}
	return h, rejected
}

// Add counts one latency in milliseconds. It returns false, and counts nothing,
// for a negative, infinite or NaN value: the caller counts the drop.
func (h *Hist) Add(ms float64) bool { return h.AddN(ms, 1) }

// AddN counts a latency in milliseconds n times, as Add does.
func (h *Hist) AddN(ms float64, n uint64) bool {
	if !ValidMS(ms) {
		return false
	}
	h.addIndex(BucketIndex(ms), n)
	return true
}

func (h *Hist) addIndex(ix int16, n uint64) {
	if n == 0 {
		return
	}
	at, found := slices.BinarySearch(h.Index, ix)
	if found {
		h.Count[at] = satAdd(h.Count[at], n)
		return
	}
	h.Index = slices.Insert(h.Index, at, ix)
	h.Count = slices.Insert(h.Count, at, n)
}

func satAdd(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// Clone returns a deep copy.
func (h *Hist) Clone() *Hist {
	if h == nil {
		return &Hist{}
	}
	return &Hist{Index: slices.Clone(h.Index), Count: slices.Clone(h.Count)}
}

// Merge adds the counts of o. The result is what counting both samples into one
// histogram gives. It allocates only when h has no room for the buckets that o adds.
func (h *Hist) Merge(o *Hist) {
	if o == nil || len(o.Index) == 0 {
		return
	}
	added, i := 0, 0
	for _, ix := range o.Index {
		for i < len(h.Index) && h.Index[i] < ix {
			i++
		}
		if i == len(h.Index) || h.Index[i] != ix {
			added++
		}
	}
	// From the back, so that nothing is overwritten before it has moved.
	i = len(h.Index) - 1
	at := i + added
	h.Index, h.Count = slices.Grow(h.Index, added)[:at+1], slices.Grow(h.Count, added)[:at+1]
	for j := len(o.Index) - 1; j >= 0; at-- {
		switch ix := o.Index[j]; {
		case i < 0 || h.Index[i] < ix:
			h.Index[at], h.Count[at] = ix, o.Count[j]
			j--
		case h.Index[i] > ix:
			h.Index[at], h.Count[at] = h.Index[i], h.Count[i]
			i--
		default:
			h.Index[at], h.Count[at] = ix, satAdd(h.Count[i], o.Count[j])
			i, j = i-1, j-1
		}
	}
}

// Sub removes the counts of o, the inverse of Merge. If o holds a count that h
// does not, it returns ErrInvalid and leaves h as it was.
func (h *Hist) Sub(o *Hist) error {
	if o == nil || len(o.Index) == 0 {
		return nil
	}
	for j, ix := range o.Index {
		at, found := slices.BinarySearch(h.Index, ix)
		if o.Count[j] > 0 && (!found || h.Count[at] < o.Count[j]) {
			return invalid("cannot subtract %d from histogram bucket %d: it holds fewer", o.Count[j], ix)
		}
	}
	index := make([]int16, 0, len(h.Index))
	count := make([]uint64, 0, len(h.Index))
	for i, ix := range h.Index {
		c := h.Count[i]
		if at, found := slices.BinarySearch(o.Index, ix); found {
			c -= o.Count[at]
		}
		if c > 0 {
			index, count = append(index, ix), append(count, c)
		}
	}
	h.Index, h.Count = index, count
	return nil
}

// N returns the number of values counted.
func (h *Hist) N() uint64 {
	var n uint64
	if h != nil {
		for _, c := range h.Count {
			n = satAdd(n, c)
		}
	}
	return n
}
