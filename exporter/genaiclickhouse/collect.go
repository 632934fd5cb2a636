package genaiclickhouse

import (
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/annotate"
	"driftline/internal/rows"
)

// tableSpans is the table of thin spans, which no event carries.
const tableSpans rows.Table = "spans"

// writeOrder is the order of inserts: what explains a row is stored before the row, so a
// reader that sees a request finds its operations.
var writeOrder = []rows.Table{
	rows.TableAttempts, rows.TableSegments, rows.TableOperations, rows.TableRequests, rows.TableOpenRequests, tableSpans,
}

// Reasons for which a row is set aside.
const (
	reasonBadRow        = "bad_row"
	reasonBadTime       = "bad_time"
	reasonScatteredTime = "scattered_time"
)

// Reasons for which a span gets no thin row; bad_time and bad_row are the same words.
const (
	skipNotGenAI  = "not_genai"
	skipSynthetic = "synthetic"
	skipDisabled  = "disabled"
)

// badRow is one row that was set aside; it never holds values of attributes.
type badRow struct {
	table   rows.Table
	reason  string
	service string
	traceID string
	at      int64
	err     error
}

// collected is what one try of a batch holds.
type collected struct {
	rows  map[rows.Table]*tableRows
	spans *thinRows
	bad   []badRow
	// skipped counts spans without a thin row by reason.
	skipped map[string]int64

	now time.Time
	c   *collector
	// rare tells, per table, the days that hold too few rows; none are known at first.
	rare map[rows.Table]func(ns int64) bool
}

// collector turns traces into rows.
type collector struct {
	store StoreSpans
	allow allowList
	// blocks are blocks that have been written, kept for the memory they hold.
	blocks map[rows.Table]*sync.Pool
	thin   *sync.Pool
}

func newCollector(cfg *Config) *collector {
	c := &collector{store: cfg.StoreSpans, allow: newAllowList(cfg.SpanAttributes), blocks: map[rows.Table]*sync.Pool{}, thin: &sync.Pool{}}
	for _, table := range rows.Tables {
		c.blocks[table] = &sync.Pool{}
	}
	return c
}

// release takes the memory of a batch back. Nothing of the batch may be used afterwards.
func (c *collector) release(o *collected) {
	for table, t := range o.rows {
		t.Reset()
		t.days = days{}
		c.blocks[table].Put(t)
	}
	o.spans.Reset()
	o.spans.days = days{}
	clear(o.spans.picked)
	c.thin.Put(o.spans)
	o.rows, o.spans = nil, nil
}

// collect reads every row of td and sets aside those that can never be stored. now is the
// instant that timestamps are judged by.
func (c *collector) collect(td ptrace.Traces, now time.Time) *collected {
	out := c.read(td, now, nil)
	if rare := out.rareDays(); rare != nil {
		c.release(out)
		// Rows on too many days come in batches of nonsense only, so a second look is cheap.
		out = c.read(td, now, rare)
	}
	return out
}

func (c *collector) read(td ptrace.Traces, now time.Time, rare map[rows.Table]func(int64) bool) *collected {
	out := &collected{
		rows: make(map[rows.Table]*tableRows, len(rows.Tables)), skipped: map[string]int64{},
		now: now, c: c, rare: rare,
	}
	out.spans, _ = c.thin.Get().(*thinRows)
	if out.spans == nil {
		out.spans = newThinRows()
	}
	for _, rs := range td.ResourceSpans().All() {
		service := serviceName(rs.Resource())
		traceID, lastID := "", pcommon.TraceID{}
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if id := span.TraceID(); id != lastID || traceID == "" {
					traceID, lastID = id.String(), id
				}
				out.addRows(span, service, traceID)
				out.addSpan(span, service, traceID)
			}
		}
	}
	for _, t := range out.rows {
		t.Finish()
	}
	out.spans.Finish()
	return out
}

func serviceName(resource pcommon.Resource) string {
	if v, ok := resource.Attributes().Get("service.name"); ok {
		return v.AsString()
	}
	return ""
}

// into returns the rows of a table, made when the first comes.
func (o *collected) into(table rows.Table) *tableRows {
	t := o.rows[table]
	if t == nil {
		if t, _ = o.c.blocks[table].Get().(*tableRows); t == nil {
			t = newTableRows(table)
		}
		t.now = o.now
		o.rows[table] = t
	}
	return t
}

func (o *collected) addRows(span ptrace.Span, service, traceID string) {
	for _, event := range span.Events().All() {
		table, ok := annotate.TableOf(event.Name())
		if !ok {
			continue
		}
		t := o.into(table)
		t.bad, t.reason = nil, reasonBadTime
		if err := annotate.ReadInto(event, t); err != nil {
			t.Rollback()
			o.bad = append(o.bad, badRow{table, reasonBadRow, service, traceID, int64(event.Timestamp()), err})
			continue
		}
		at := t.instant(t.key)
		err := t.problem()
		reason := t.reason
		if rare := o.rare[table]; err == nil && rare != nil && rare(at) {
			reason, err = reasonScatteredTime, errScatteredTime
		}
		if err != nil {
			o.bad = append(o.bad, badRow{table, reason, t.text(t.service), t.text(t.trace), at, err})
			t.Rollback()
			continue
		}
		t.days.add(at)
		t.follows.shorten(t.Rows())
		t.Commit()
	}
}

func (o *collected) addSpan(span ptrace.Span, service, traceID string) {
	switch {
	case o.c.store == StoreSpansNone:
		o.skipped[skipDisabled]++
		return
	case annotate.IsSynthetic(span):
		o.skipped[skipSynthetic]++
		return
	case o.c.store == StoreSpansGenAI && !annotate.IsMarked(span):
		o.skipped[skipNotGenAI]++
		return
	}
	start := int64(span.StartTimestamp())
	reason, err := badSpan(span, o.now)
	skip := reason
	if rare := o.rare[tableSpans]; err == nil && rare != nil && rare(start) {
		reason, skip, err = reasonScatteredTime, reasonBadTime, errScatteredTime
	}
	if err != nil {
		o.bad = append(o.bad, badRow{tableSpans, reason, service, traceID, start, err})
		o.skipped[skip]++
		return
	}
	o.spans.add(span, service, traceID, o.c.allow)
}

// found is the number of rows per table, the bad ones included.
func (o *collected) found() map[rows.Table]int64 {
	out := map[rows.Table]int64{tableSpans: int64(o.spans.Rows())}
	for table, t := range o.rows {
		out[table] += int64(t.Rows())
	}
	for _, b := range o.bad {
		out[b.table]++
	}
	return out
}
