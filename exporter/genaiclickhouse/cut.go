package genaiclickhouse

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/annotate"
)

// cutRows returns td, or copies of its parts if it may hold more than most rows of one
// table. A span is one row of the table of spans, and each of its events at most one of
// another table.
func cutRows(td ptrace.Traces, most int) []ptrace.Traces {
	if spans, events := rowsOf(td); max(spans, events) <= most {
		return []ptrace.Traces{td}
	}
	var out []ptrace.Traces
	var c copier
	spans, events := 0, 0
	eachSpan(td, func(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans, span ptrace.Span) {
		n := span.Events().Len()
		if n > most {
			// The span's own row goes with its first events; marked as synthetic, the copies
			// that carry the others add none.
			for from := 0; from < n; from += most {
				var part copier
				copied := part.next(rs, ss)
				span.CopyTo(copied)
				keepEvents(copied, from, from+most)
				if from > 0 {
					copied.Attributes().PutBool(annotate.MarkSynthetic, true)
				}
				out = append(out, part.td)
			}
			return
		}
		if c.started && (spans+1 > most || events+n > most) {
			out = append(out, c.td)
			c = copier{}
			spans, events = 0, 0
		}
		span.CopyTo(c.next(rs, ss))
		spans++
		events += n
	})
	if c.started {
		out = append(out, c.td)
	}
	return out
}

func rowsOf(td ptrace.Traces) (spans, events int) {
	eachSpan(td, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, span ptrace.Span) {
		spans++
		events += span.Events().Len()
	})
	return spans, events
}

// isAlone says whether td holds one row, so that it cannot be divided.
func isAlone(td ptrace.Traces) bool {
	spans, events := rowsOf(td)
	if spans != 1 {
		return spans == 0
	}
	return events == 0 || events == 1 && annotate.IsSynthetic(firstSpan(td))
}

// halve copies the two halves of td, which is not alone. A single span is divided into
// one part with the span's own row and others that carry its events: marked as synthetic,
// so that they add no row of the span.
func halve(td ptrace.Traces) (first, second ptrace.Traces) {
	spans, events := rowsOf(td)
	var a, b copier
	i := 0
	eachSpan(td, func(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans, span ptrace.Span) {
		if spans > 1 {
			to := &a
			if i >= spans/2 {
				to = &b
			}
			span.CopyTo(to.next(rs, ss))
			i++
			return
		}
		one, other := a.next(rs, ss), b.next(rs, ss)
		span.CopyTo(one)
		span.CopyTo(other)
		other.Attributes().PutBool(annotate.MarkSynthetic, true)
		keepEvents(one, 0, events/2)
		keepEvents(other, events/2, events)
	})
	return a.td, b.td
}

// keepEvents leaves a span its events number from, from+1 and so on up to to-1.
func keepEvents(span ptrace.Span, from, to int) {
	at := -1
	span.Events().RemoveIf(func(ptrace.SpanEvent) bool { at++; return at < from || at >= to })
}

func eachSpan(td ptrace.Traces, f func(ptrace.ResourceSpans, ptrace.ScopeSpans, ptrace.Span)) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				f(rs, ss, span)
			}
		}
	}
}

// firstSpan returns the first span of td, which has one.
func firstSpan(td ptrace.Traces) ptrace.Span {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			if ss.Spans().Len() > 0 {
				return ss.Spans().At(0)
			}
		}
	}
	return ptrace.NewSpan()
}

// copier collects copies of spans under copies of their resource and scope.
type copier struct {
	started bool
	td      ptrace.Traces
	rs, of  ptrace.ResourceSpans
	ss, in  ptrace.ScopeSpans
}

// next returns the place for the copy of a span of rs and ss.
func (c *copier) next(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans) ptrace.Span {
	if !c.started {
		c.td = ptrace.NewTraces()
	}
	if !c.started || c.of != rs {
		c.rs = c.td.ResourceSpans().AppendEmpty()
		rs.Resource().CopyTo(c.rs.Resource())
		c.rs.SetSchemaUrl(rs.SchemaUrl())
	}
	if !c.started || c.of != rs || c.in != ss {
		c.ss = c.rs.ScopeSpans().AppendEmpty()
		ss.Scope().CopyTo(c.ss.Scope())
		c.ss.SetSchemaUrl(ss.SchemaUrl())
	}
	c.started, c.of, c.in = true, rs, ss
	return c.ss.Spans().AppendEmpty()
}
