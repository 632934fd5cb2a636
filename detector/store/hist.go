package store

import (
	"fmt"
	"strconv"
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
func (i indexes) Scan(src any) error {
	return eachOf(src, func(n int) { i.of.Index = make([]int16, 0, n) }, func(item string) error {
		v, err := strconv.ParseInt(item, 10, 16)
		i.of.Index = append(i.of.Index, int16(v))
		return err
	})
}

// Scan implements sql.Scanner. Counts come after their indexes, so that here the histogram as
// a whole is checked: what judges it relies on its form.
func (c counts) Scan(src any) error {
	if err := c.read(src); err != nil {
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

func (c counts) read(src any) error {
	return eachOf(src, func(n int) { c.of.Count = make([]uint64, 0, n) }, func(item string) error {
		v, err := strconv.ParseUint(item, 10, 64)
		c.of.Count = append(c.of.Count, v)
		return err
	})
}

// eachOf calls item with each number of an array's text, and room with how many there are
// before; an empty array has no calls.
func eachOf(src any, room func(n int), item func(string) error) error {
	text, ok := src.(string)
	if !ok || len(text) < 2 || text[0] != '[' || text[len(text)-1] != ']' {
		return fmt.Errorf("histogram column: want an array's text, got %T %.40q", src, fmt.Sprint(src))
	}
	text = text[1 : len(text)-1]
	if text == "" {
		return nil
	}
	room(strings.Count(text, ",") + 1)
	for part := range strings.SplitSeq(text, ",") {
		if err := item(part); err != nil {
			return fmt.Errorf("histogram column: %w", err)
		}
	}
	return nil
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
