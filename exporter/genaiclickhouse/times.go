package genaiclickhouse

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"driftline/exporter/genaiclickhouse/internal/block"
	"driftline/internal/rows"
)

// maxDays is how many days, and so partitions, one insert may touch. A batch of sound
// rows touches one or two; ClickHouse refuses a hundred.
const maxDays = 30

const dayNS = int64(24 * time.Hour)

// oldestNS is the start of 2000: an earlier instant is a unit mistaken or a clock never set.
var oldestNS = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()

// latestNS is what DateTime64(9) and the TTL's DateTime can hold.
var latestNS = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()

var (
	errBadTime       = errors.New("is before the year 2000 or over a day ahead of the exporter's clock")
	errScatteredTime = fmt.Errorf("is one of over %d days in one batch, and others hold more of its rows", maxDays)
	errNoID          = errors.New("has no trace id or span id")
)

// goodKeyTime says whether an instant that places a row in a partition can be believed.
func goodKeyTime(ns int64, now time.Time) bool {
	return ns >= oldestNS && ns <= now.UnixNano()+dayNS
}

// goodTime says whether an instant can be stored at all.
func goodTime(ns int64) bool { return ns >= oldestNS && ns <= latestNS }

// badTime says what is wrong with an instant of a row, or returns nil.
func (t *tableRows) badTime(column int, ns int64) error {
	f := &t.fields[column]
	switch {
	case column == t.key && !goodKeyTime(ns, t.now):
		return fmt.Errorf("%s %w", f.Column, errBadTime)
	// Tombstones carry the key's columns only, so other instants may be zero in them; a
	// zero is judged with the row.
	case column != t.key && !goodTime(ns) && (ns != 0 || f.Type.Kind() == reflect.Pointer):
		return errUnstorable(f)
	}
	return nil
}

func errUnstorable(f *rows.Field) error {
	return fmt.Errorf("%s cannot be stored: it lies outside 2000 to 2100", f.Column)
}

// problem says what is wrong with the instants of the current row as a whole, or returns nil.
func (t *tableRows) problem() error {
	if t.bad != nil || t.isDeleted() {
		return t.bad
	}
	for i := range t.fields {
		f := &t.fields[i]
		if !f.Time || i == t.key || f.Type.Kind() == reflect.Pointer {
			continue
		}
		if c := t.columns[i].(*block.Number[int64]); !c.IsSet(t.Rows()) || c.At(t.Rows()) == 0 {
			return errUnstorable(f)
		}
	}
	return nil
}

// days counts rows by day.
type days struct {
	rows map[int64]int
	// last saves the look-up for a row of the same day as the one before.
	last  int64
	count int
}

func (d *days) add(ns int64) {
	if day := ns / dayNS; day != d.last {
		d.settle()
		d.last = day
	}
	d.count++
}

func (d *days) settle() {
	if d.count > 0 {
		if d.rows == nil {
			d.rows = map[int64]int{}
		}
		d.rows[d.last] += d.count
		d.count = 0
	}
}

// rare returns nil if the rows lie on at most maxDays days, and otherwise tells whether an
// instant's day is not among the maxDays fullest, or holds less than a quarter of the rows of
// the fullest. So at most maxDays days remain, the days that sound rows gather on do, and
// single rows strewn over many days do not.
func (d *days) rare() func(ns int64) bool {
	d.settle()
	if len(d.rows) <= maxDays {
		return nil
	}
	type day struct {
		number int64
		rows   int
	}
	all := make([]day, 0, len(d.rows))
	for number, n := range d.rows {
		all = append(all, day{number, n})
	}
	slices.SortFunc(all, func(a, b day) int { return cmp.Or(b.rows-a.rows, cmp.Compare(b.number, a.number)) })
	kept := map[int64]bool{}
	for _, x := range all[:maxDays] {
		if x.rows*4 >= all[0].rows {
			kept[x.number] = true
		}
	}
	return func(ns int64) bool { return !kept[ns/dayNS] }
}

// rareDays returns nil unless a table has rows on too many days.
func (o *collected) rareDays() map[rows.Table]func(int64) bool {
	var out map[rows.Table]func(int64) bool
	add := func(table rows.Table, d *days) {
		if rare := d.rare(); rare != nil {
			if out == nil {
				out = map[rows.Table]func(int64) bool{}
			}
			out[table] = rare
		}
	}
	for table, t := range o.rows {
		add(table, &t.days)
	}
	add(tableSpans, &o.spans.days)
	return out
}
