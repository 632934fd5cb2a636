package store

import (
	"fmt"
	"math"
	"strings"

	"driftline/detector/stats"
)

// Histograms come as text such as [12,40]: an array is decoded value by value through
// reflection, which took most of the time that reading cells took here.

// indexes and counts read the two columns of a histogram.
type (
	indexes struct{ of *stats.Hist }
	counts  struct{ of *stats.Hist }
)

// Scan implements sql.Scanner.
func (i indexes) Scan(src any) (err error) {
	i.of.Index, err = numbers[int16](src, -math.MinInt16, math.MaxInt16)
	return err
}

// Scan implements sql.Scanner. Counts come after their indexes, so that here the histogram as
// a whole is checked: what judges it relies on its form.
func (c counts) Scan(src any) error {
	var err error
	if c.of.Count, err = numbers[uint64](src, 0, math.MaxUint64); err != nil {
		return err
	}
	if len(c.of.Index) != len(c.of.Count) {
		return fmt.Errorf("histogram column: %d buckets with %d counts", len(c.of.Index), len(c.of.Count))
	}
	for i, ix := range c.of.Index {
		switch {
		case ix != stats.ZeroIndex && (ix < stats.MinIndex || ix > stats.MaxIndex):
			return fmt.Errorf("histogram column: bucket %d is neither %d nor within %d and %d", ix, stats.ZeroIndex, stats.MinIndex, stats.MaxIndex)
		case i > 0 && ix <= c.of.Index[i-1]:
			return fmt.Errorf("histogram column: bucket %d comes after bucket %d", ix, c.of.Index[i-1])
		case c.of.Count[i] == 0:
			return fmt.Errorf("histogram column: bucket %d is counted with nothing in it", ix)
		}
	}
	return nil
}

// numbers reads an array's text, with numbers from -below to most; an empty array is nil. It
// goes digit by digit: the numbers are short, and most of what a start of the detector does is
// to read them.
func numbers[T int16 | uint64](src any, below, most uint64) ([]T, error) {
	text, ok := src.(string)
	if !ok || len(text) < 2 || text[0] != '[' || text[len(text)-1] != ']' {
		return nil, fmt.Errorf("histogram column: want an array's text, got %T %.40q", src, fmt.Sprint(src))
	}
	list := text[1 : len(text)-1]
	if list == "" {
		return nil, nil
	}
	out := make([]T, 0, strings.Count(list, ",")+1)
	for at := 0; at <= len(list); at++ { // each turn ends at a comma or at the end
		limit, negative := most, at < len(list) && list[at] == '-'
		if negative {
			limit = below
			at++
		}
		v, first, fits := uint64(0), at, true
		for ; at < len(list) && list[at]-'0' <= 9; at++ {
			digit := uint64(list[at] - '0')
			fits = fits && (v < math.MaxUint64/10 || v == math.MaxUint64/10 && digit <= math.MaxUint64%10)
			v = v*10 + digit
		}
		if at == first || at < len(list) && list[at] != ',' || !fits || v > limit {
			return nil, fmt.Errorf("histogram column: value %d of %.40q is no number from %d to %d", len(out)+1, text, -int64(below), most)
		}
		if negative {
			v = -v
		}
		out = append(out, T(v))
	}
	return out, nil
}

// columns names a measure's columns in the order scan takes them.
func columns(measure string) string {
	return measure + "_n, " + measure + "_sum_ns, toString(" + measure + "_buckets), toString(" + measure + "_counts)"
}

// summed is columns over groups of rows.
func summed(measure string) string {
	return "sum(" + measure + "_n), sum(" + measure + "_sum_ns), toString((sumMap(" + measure + "_buckets, " + measure + "_counts) AS " +
		measure + "_map).1), toString(" + measure + "_map.2)"
}

func (m *Measure) dest() []any {
	m.Hist = &stats.Hist{}
	return []any{&m.N, &m.SumNS, indexes{m.Hist}, counts{m.Hist}}
}
