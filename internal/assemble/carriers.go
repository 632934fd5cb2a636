package assemble

import (
	"iter"

	"driftline/internal/genai"
	"driftline/internal/rows"
)

// carriers finds, among the spans being sent, the one that a row rides on.
type carriers struct {
	views  []genai.Span
	bySpan map[string][]int // only of many spans
	first  int              // the first span by start and id; -1 when none is sent
}

func newCarriers(views []genai.Span) carriers {
	c := carriers{views: views, first: firstView(views)}
	if len(views) > smallTrace {
		c.bySpan = make(map[string][]int, len(views))
		for i := range views {
			c.bySpan[views[i].SpanID] = append(c.bySpan[views[i].SpanID], i)
		}
	}
	return c
}

// own is the index of the first span being sent with this id, -1 for none.
func (c *carriers) own(id string) int {
	for i := range c.copies(id) {
		return i
	}
	return -1
}

// copies gives the indexes of the spans being sent with this id.
func (c *carriers) copies(id string) iter.Seq[int] {
	return func(yield func(int) bool) {
		if c.bySpan != nil {
			for _, i := range c.bySpan[id] {
				if !yield(i) {
					return
				}
			}
			return
		}
		for i := range c.views {
			if c.views[i].SpanID == id && !yield(i) {
				return
			}
		}
	}
}

// ride puts each row on its span, or among the loose ones.
func ride[P any](c *carriers, changed []rows.Row, r *Release[P]) {
	for _, row := range changed {
		i := c.first
		if own := c.own(homeOf(row)); own >= 0 {
			i = own
		}
		if i < 0 {
			r.Loose = append(r.Loose, row)
			continue
		}
		r.Spans[i].Rows = append(r.Spans[i].Rows, row)
	}
}

// homeOf is the id of the span that row is about.
func homeOf(row rows.Row) string {
	switch r := row.(type) {
	case *rows.Request:
		return r.RequestID
	case *rows.Segment:
		return r.RequestID
	case *rows.Operation:
		return r.OperationID
	case *rows.Attempt:
		return r.OperationID
	}
	return ""
}

// mark tells each span being sent what it is part of. Copies of one span are marked
// alike.
func mark[P any](c *carriers, result *genai.Result, spans []Sent[P]) {
	for _, a := range result.Attempts {
		for i := range c.copies(a.AttemptID) {
			spans[i].Marks.OperationID = a.OperationID
			spans[i].Marks.AttemptOrdinal = a.Ordinal
		}
	}
	for _, o := range result.Operations {
		for i := range c.copies(o.OperationID) {
			spans[i].Marks.OperationID = o.OperationID
			spans[i].Marks.Attempts = o.Attempts
			spans[i].Marks.HiddenNS = o.HiddenTotalNS
		}
	}
	for _, q := range result.Requests {
		for i := range c.copies(q.RequestID) {
			spans[i].Marks.HiddenNS = q.HiddenTotalNS
			spans[i].Marks.DriftNS = q.DriftNS
		}
	}
}
