package genaiclickhouse

import (
	"errors"
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

// thinSpan is one row of the table spans.
type thinSpan struct {
	service, traceID, spanID, parentID, name, kind, status string
	startedAt, durationNS                                  int64
	attributes                                             map[string]string
}

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
	rows  map[rows.Table][]rows.Row
	spans []thinSpan
	bad   []badRow
	// skipped counts spans without a thin row by reason.
	skipped map[string]int64
}

// collector turns traces into rows.
type collector struct {
	store StoreSpans
	allow allowList
}

// collect decodes every row of td and sets aside those that can never be stored. now is
// the instant that timestamps are judged by.
func (c *collector) collect(td ptrace.Traces, now time.Time) *collected {
	out := &collected{rows: make(map[rows.Table][]rows.Row, len(rows.Tables)), skipped: map[string]int64{}}
	for _, rs := range td.ResourceSpans().All() {
		service := serviceName(rs.Resource())
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				out.addRows(span, service)
				c.addSpan(out, span, service, now)
			}
		}
	}
	for table, list := range out.rows {
		out.rows[table] = out.keepGoodTimes(table, list, now)
	}
	out.spans = out.keepGatheredSpans(out.spans)
	return out
}

func serviceName(resource pcommon.Resource) string {
	if v, ok := resource.Attributes().Get("service.name"); ok {
		return v.AsString()
	}
	return ""
}

func (o *collected) addRows(span ptrace.Span, service string) {
	for _, event := range span.Events().All() {
		table, ok := annotate.TableOf(event.Name())
		if !ok {
			continue
		}
		row, err := annotate.Decode(event)
		if errors.Is(err, annotate.ErrNotRow) {
			continue
		}
		if err != nil {
			o.bad = append(o.bad, badRow{table, reasonBadRow, service, hexTraceID(span), int64(event.Timestamp()), err})
			continue
		}
		o.rows[table] = append(o.rows[table], row)
	}
}

func (c *collector) addSpan(o *collected, span ptrace.Span, service string, now time.Time) {
	switch {
	case c.store == StoreSpansNone:
		o.skipped[skipDisabled]++
		return
	case annotate.IsSynthetic(span):
		o.skipped[skipSynthetic]++
		return
	case c.store == StoreSpansGenAI && !annotate.IsMarked(span):
		o.skipped[skipNotGenAI]++
		return
	}
	start, end := int64(span.StartTimestamp()), int64(span.EndTimestamp())
	bad := badRow{table: tableSpans, service: service, traceID: hexTraceID(span), at: start}
	switch {
	case !goodKeyTime(start, now):
		bad.reason, bad.err = reasonBadTime, errBadTime
	case span.TraceID().IsEmpty() || span.SpanID().IsEmpty():
		bad.reason, bad.err = reasonBadRow, errNoID
	}
	if bad.reason != "" {
		o.bad = append(o.bad, bad)
		o.skipped[bad.reason]++
		return
	}
	parent := ""
	if !span.ParentSpanID().IsEmpty() {
		parent = span.ParentSpanID().String()
	}
	o.spans = append(o.spans, thinSpan{
		service: service, traceID: bad.traceID, spanID: span.SpanID().String(), parentID: parent,
		name: cut(span.Name()), kind: span.Kind().String(), status: span.Status().Code().String(),
		startedAt: start, durationNS: max(0, end-start), attributes: c.allow.pick(span.Attributes()),
	})
}

func hexTraceID(span ptrace.Span) string { return span.TraceID().String() }

// found is the number of rows per table, the bad ones included.
func (o *collected) found() map[rows.Table]int64 {
	out := map[rows.Table]int64{tableSpans: int64(len(o.spans))}
	for table, list := range o.rows {
		out[table] += int64(len(list))
	}
	for _, b := range o.bad {
		out[b.table]++
	}
	return out
}
