package genaiclickhouse

import (
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/exporter/genaiclickhouse/internal/block"
	"driftline/internal/genai"
)

// thinRows are thin spans on their way into the table spans.
type thinRows struct {
	*block.Block
	service, name, kind, status *block.Word
	traceID, spanID, parentID   *block.Text
	startedAt, durationNS       *block.Number[int64]
	attributes                  *block.Pairs
	days                        days
	// picked is one value per key of the allow-list, for the span at hand.
	picked []pcommon.Value
}

func newThinRows() *thinRows {
	t := &thinRows{
		service: block.NewWord("service_name"), name: block.NewWord("name"), kind: block.NewWord("kind"), status: block.NewWord("status_code"),
		traceID: block.NewText("trace_id"), spanID: block.NewText("span_id"), parentID: block.NewText("parent_span_id"),
		startedAt: block.NewInstant("started_at", 9, false), durationNS: block.NewNumber[int64]("duration_ns", false),
		attributes: block.NewPairs("attributes"),
	}
	// The order of the DDL, which TestSpanColumns holds it to.
	t.Block = block.New(t.service, t.traceID, t.spanID, t.parentID, t.name, t.kind, t.startedAt, t.durationNS, t.status,
		t.attributes, block.NewInstant(columnIngestedAt, 3, false))
	return t
}

// add adds the thin row of a span that is fit for it.
func (t *thinRows) add(span ptrace.Span, service, traceID string, allow allowList) {
	row := t.Rows()
	start, end := int64(span.StartTimestamp()), int64(span.EndTimestamp())
	t.service.Set(row, service)
	t.traceID.Set(row, traceID)
	id, parent := span.SpanID(), span.ParentSpanID()
	t.spanID.SetHex(row, id[:])
	if !parent.IsEmpty() {
		t.parentID.SetHex(row, parent[:])
	}
	t.name.Set(row, cut(genai.SpanName(span.Name())))
	t.kind.Set(row, span.Kind().String())
	t.status.Set(row, span.Status().Code().String())
	t.startedAt.Set(row, start)
	t.durationNS.Set(row, max(0, end-start))
	t.addAttributes(span.Attributes(), allow)
	t.days.add(start)
	t.Commit()
}

// addAttributes stores the allowed attributes as text, cut to maxAttributeBytes, in the
// order of the allow-list: rows that hold the same keys in the same order compress well.
func (t *thinRows) addAttributes(attrs pcommon.Map, allow allowList) {
	if t.picked == nil {
		t.picked = make([]pcommon.Value, len(allow.keys))
	}
	clear(t.picked)
	for key, value := range attrs.All() {
		if i, ok := allow.index[key]; ok {
			t.picked[i] = value
		}
	}
	for i, value := range t.picked {
		if value != (pcommon.Value{}) {
			text := attributeText(value)
			if allow.keys[i] == "error.type" {
				text = genai.ErrorName(text) // some write the whole message there
			}
			t.attributes.Add(t.Rows(), allow.keys[i], text)
		}
	}
}

// attributeText is the value as text, without the detour that AsString takes for numbers.
func attributeText(v pcommon.Value) string {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return cut(v.Str())
	case pcommon.ValueTypeInt:
		return strconv.FormatInt(v.Int(), 10)
	}
	return cut(v.AsString())
}

// badSpan says why a span gets no thin row although it should, or returns nothing.
func badSpan(span ptrace.Span, now time.Time) (reason string, err error) {
	switch {
	case !goodKeyTime(int64(span.StartTimestamp()), now):
		return reasonBadTime, fmt.Errorf("started_at %w", errBadTime)
	case span.TraceID().IsEmpty() || span.SpanID().IsEmpty():
		return reasonBadRow, errNoID
	}
	return "", nil
}
