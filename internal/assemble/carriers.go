package assemble

import (
	"driftline/internal/genai"
	"driftline/internal/rows"
)

// carriers finds, among the spans being sent, the one that a row rides on.
type carriers[P any] struct {
	bySpan map[string][]int
	first  int // the first span by start and id; -1 when none is sent
}

func newCarriers[P any](views []genai.Span) carriers[P] {
	c := carriers[P]{bySpan: make(map[string][]int, len(views)), first: firstView(views)}
	for i := range views {
		c.bySpan[views[i].SpanID] = append(c.bySpan[views[i].SpanID], i)
	}
	return c
}

// load puts each row on its span, or among the loose ones.
func (c carriers[P]) load(changed []rows.Row, r *Release[P]) {
	for _, row := range changed {
		i := c.first
		if own := c.bySpan[homeOf(row)]; len(own) > 0 {
			i = own[0]
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
func (c carriers[P]) mark(result *genai.Result, spans []Sent[P]) {
	for _, a := range result.Attempts {
		for _, i := range c.bySpan[a.AttemptID] {
			spans[i].Marks.OperationID = a.OperationID
			spans[i].Marks.AttemptOrdinal = a.Ordinal
		}
	}
	for _, o := range result.Operations {
		for _, i := range c.bySpan[o.OperationID] {
			spans[i].Marks.OperationID = o.OperationID
			spans[i].Marks.Attempts = o.Attempts
			spans[i].Marks.HiddenNS = o.HiddenTotalNS
		}
	}
	for _, q := range result.Requests {
		for _, i := range c.bySpan[q.RequestID] {
			spans[i].Marks.HiddenNS = q.HiddenTotalNS
			spans[i].Marks.DriftNS = q.DriftNS
		}
	}
}
