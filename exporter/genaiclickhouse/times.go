package genaiclickhouse

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

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
	errScatteredTime = fmt.Errorf("is one of over %d days in one batch, and that day holds too few of its rows", maxDays)
	errNoID          = errors.New("has no trace id or span id")
)

// goodKeyTime says whether an instant that places a row in a partition can be believed.
func goodKeyTime(ns int64, now time.Time) bool {
	return ns >= oldestNS && ns <= now.UnixNano()+dayNS
}

// goodTime says whether an instant can be stored at all.
func goodTime(ns int64) bool { return ns >= oldestNS && ns <= latestNS }

// keepGoodTimes sets rows with unbelievable instants aside.
func (o *collected) keepGoodTimes(table rows.Table, list []rows.Row, now time.Time) []rows.Row {
	p := plans[table]
	kept := list[:0]
	for _, row := range list {
		if bad := p.badTime(row, now); bad != nil {
			o.setAside(table, row, p, reasonBadTime, bad)
			continue
		}
		kept = append(kept, row)
	}
	rare := rareDays(len(kept), func(i int) int64 { return p.keyTime(kept[i]) })
	if rare == nil {
		return kept
	}
	gathered := make([]rows.Row, 0, len(kept))
	for _, row := range kept {
		if rare(p.keyTime(row)) {
			o.setAside(table, row, p, reasonScatteredTime, errScatteredTime)
			continue
		}
		gathered = append(gathered, row)
	}
	return gathered
}

// keepGatheredSpans does for thin spans what keepGoodTimes does for rows; their bad times
// were set aside when they were made.
func (o *collected) keepGatheredSpans(list []thinSpan) []thinSpan {
	rare := rareDays(len(list), func(i int) int64 { return list[i].startedAt })
	if rare == nil {
		return list
	}
	gathered := make([]thinSpan, 0, len(list))
	for _, s := range list {
		if rare(s.startedAt) {
			o.bad = append(o.bad, badRow{tableSpans, reasonScatteredTime, s.service, s.traceID, s.startedAt, errScatteredTime})
			o.skipped[reasonBadTime]++
			continue
		}
		gathered = append(gathered, s)
	}
	return gathered
}

// rareDays returns nil if n rows lie on at most maxDays days, and otherwise tells whether
// an instant's day holds less than 1/maxDays of them. So at most maxDays days remain, and
// the days that sound rows gather on do.
func rareDays(n int, at func(i int) int64) func(ns int64) bool {
	days := map[int64]int{}
	for i := range n {
		days[at(i)/dayNS]++
	}
	if len(days) <= maxDays {
		return nil
	}
	return func(ns int64) bool { return days[ns/dayNS]*maxDays < n }
}

func (o *collected) setAside(table rows.Table, row rows.Row, p *plan, reason string, err error) {
	head := row.Head()
	o.bad = append(o.bad, badRow{table, reason, head.ServiceName, head.TraceID, p.keyTime(row), err})
}

// badTime says which instant of row is wrong, or nil.
func (p *plan) badTime(row rows.Row, now time.Time) error {
	base := pointer(row)
	for i, f := range p.fields {
		if !f.time {
			continue
		}
		if f.optional {
			if v := *(**int64)(unsafe.Add(base, f.offset)); v != nil && !goodTime(*v) {
				return fmt.Errorf("%s cannot be stored: it lies outside 2000 to 2100", f.name)
			}
			continue
		}
		ns := *(*int64)(unsafe.Add(base, f.offset))
		if i == p.key && !goodKeyTime(ns, now) {
			return fmt.Errorf("%s %w", f.name, errBadTime)
		}
		// Tombstones carry the key's columns only, so other instants may be zero in them.
		if i != p.key && !goodTime(ns) && !(ns == 0 && row.Head().Deleted) {
			return fmt.Errorf("%s cannot be stored: it lies outside 2000 to 2100", f.name)
		}
	}
	return nil
}
