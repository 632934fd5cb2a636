package ui

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"driftline/internal/rows"
	"driftline/internal/ui/chart"
)

type traceBody struct {
	ID         string
	Requests   []requestView
	Operations Table
	Attempts   Table
	Spans      Table
}

type requestView struct {
	Heading string
	Facts   []fact
	Notes   []string
	Figure  Figure
	Totals  Table
}

// findTrace answers the form in the page's head.
func (s *server) findTrace(r *http.Request) (*view, error) {
	id := strings.ToLower(strings.TrimSpace(r.URL.Query().Get("id")))
	if !traceForm.MatchString(id) {
		return nil, badTrace()
	}
	return nil, &redirect{"/traces/" + id}
}

func (s *server) trace(r *http.Request) (*view, error) {
	id := strings.ToLower(r.PathValue("id"))
	if !traceForm.MatchString(id) {
		return nil, badTrace()
	}
	t, err := s.Source.Trace(r.Context(), id)
	if errors.Is(err, ErrNotFound) {
		return nil, &problem{http.StatusNotFound, "There is no such trace", "Nothing is stored about trace " + id + ". It may be older than the retention, still open, sampled away, or hold no GenAI spans."}
	}
	if err != nil {
		return nil, err
	}
	body := traceBody{ID: id, Operations: operationTable(t), Attempts: attemptTable(t), Spans: spanTable(t)}
	for i, q := range t.Requests {
		body.Requests = append(body.Requests, requestOf(i, q, t))
	}
	return &view{name: "trace", Title: "Trace " + id[:8], Body: body}, nil
}

func requestOf(i int, q Request, t *Trace) requestView {
	v := requestView{Heading: strings.TrimSpace(words(q.Kind) + " " + q.Name)}
	v.Facts = []fact{
		{"Who", orUnknown(q.Service) + " · " + orUnknown(q.Agent)},
		{"Outcome", outcome(q.Outcome, q.ErrorClass, q.HTTPStatus)},
		{"Began", formatTime(q.StartedAt)},
		{"User time", formatDuration(q.UserTime)},
		{"Agent time", agentTime(q)},
		{"Hidden on the path", formatDurationPtr(q.HiddenPath)},
		{"Operations and attempts", fmt.Sprintf("%d operations, %s attempts", q.Operations, count(q.Attempts))},
		{"Budget", formatDurationPtr(q.Budget)},
		{"Deadline", deadline(q)},
		{"Deadline drift", drift(q)},
	}
	if q.AttemptsUnknown > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("Attempts are unknown for %d of %d operations, so hidden time may be greater.", q.AttemptsUnknown, q.Operations))
	}
	if q.Incomplete {
		v.Notes = append(v.Notes, "Spans of this request are missing.")
	}
	if q.Truncated {
		v.Notes = append(v.Notes, "The trace had more spans than the limit; the rest was not analysed.")
	}
	if q.LateFragment {
		v.Notes = append(v.Notes, "These spans came after the trace had been let go, so they are only a part.")
	}
	var mine []Segment
	for _, g := range t.Segments {
		if g.RequestID == q.ID {
			mine = append(mine, g)
		}
	}
	names := map[string]string{}
	for _, o := range t.Operations {
		names[o.ID] = operationName(o)
	}
	v.Figure = waterfall(fmt.Sprintf("wf-%d", i), mine, names)
	v.Totals = totals(mine, q.UserTime)
	return v
}

func agentTime(q Request) string {
	if q.AgentTime == nil {
		return unknown
	}
	return formatDuration(*q.AgentTime) + " (" + orUnknown(q.AgentTimeSource) + ")"
}

func deadline(q Request) string {
	switch {
	case q.DeadlineMissed == nil:
		return unknown
	case *q.DeadlineMissed:
		return "missed"
	}
	return "met"
}

func drift(q Request) string {
	if q.Drift == nil {
		return unknown
	}
	return fmt.Sprintf("%s (was told %s, had %s)", formatDuration(*q.Drift), formatDurationPtr(q.Perceived), formatDurationPtr(q.Remaining))
}

func count(n *uint32) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprint(*n)
}

func outcome(o, class string, status uint16) string {
	s := orUnknown(o)
	if class != "" {
		s += ": " + class
	}
	if status != 0 {
		s += fmt.Sprintf(", HTTP %d", status)
	}
	return s
}

func outcomeCell(o, class string, status uint16) Cell {
	c := textCell(outcome(o, class, status))
	if o == rows.OutcomeError {
		c.Class = "bad"
	}
	return c
}

func operationName(o Operation) string {
	if o.Target != "" {
		return words(o.Kind) + " " + o.Target
	}
	return cmp.Or(o.Name, words(o.Kind))
}

const maxLanes = 60

// lanesOf puts segments on one lane per operation, in order of first appearance; time
// that belongs to no operation has a lane of its own.
func lanesOf(segments []Segment, names map[string]string) (lanes []chart.Lane, total time.Duration) {
	if len(segments) == 0 {
		return nil, 0
	}
	start, end := segments[0].StartedAt, segments[0].StartedAt
	for _, g := range segments {
		if g.StartedAt.Before(start) {
			start = g.StartedAt
		}
		if e := g.StartedAt.Add(g.Duration); e.After(end) {
			end = e
		}
	}
	index := map[string]int{}
	for _, g := range segments {
		i, ok := index[g.OperationID]
		if !ok {
			i = len(lanes)
			index[g.OperationID] = i
			label := names[g.OperationID]
			switch {
			case g.OperationID == "":
				label = "the agent itself"
			case label == "":
				label = "operation " + g.OperationID
			}
			lanes = append(lanes, chart.Lane{Label: label})
		}
		lanes[i].Bars = append(lanes[i].Bars, chart.Bar{Kind: g.Kind, Start: g.StartedAt.Sub(start), Width: g.Duration,
			Hint: fmt.Sprintf("%s: %s, from %s", words(g.Kind), formatDuration(g.Duration), formatDuration(g.StartedAt.Sub(start)))})
	}
	return lanes, end.Sub(start)
}

func waterfall(id string, segments []Segment, names map[string]string) Figure {
	f := Figure{Heading: "Where the time went", Table: Table{
		Caption: "Segments of the request's wall clock, in order of time", Head: []string{"#", "Kind", "From", "Duration", "Operation", "Attempt"}, Cards: true, Empty: "No segments are stored."}}
	lanes, total := lanesOf(segments, names)
	if len(lanes) > maxLanes {
		f.Note = fmt.Sprintf("The first %d of %d operations are drawn; the table has all.", maxLanes, len(lanes))
		lanes = lanes[:maxLanes]
	}
	w := chart.Waterfall{Title: "Waterfall of the request's segments", Desc: "One lane per operation; each bar is a stretch of the wall clock by kind. The numbers are in the tables below.",
		Total: total, Lanes: lanes, Format: formatDuration}
	w.ID, w.Width = id+"-w", wide
	f.Wide = w.SVG()
	w.ID, w.Width = id+"-n", narrow
	f.Narrow = w.SVG()
	for _, g := range segments {
		attempt := ""
		if g.AttemptOrdinal > 0 {
			attempt = fmt.Sprint(g.AttemptOrdinal)
		}
		name := names[g.OperationID]
		if g.OperationID == "" {
			name = "the agent itself"
		}
		f.Table.Rows = append(f.Table.Rows, []Cell{number(fmt.Sprint(g.Index)), {Text: words(g.Kind), Swatch: g.Kind}, number(formatDuration(g.StartedAt.Sub(segments[0].StartedAt))),
			number(formatDuration(g.Duration)), textCell(cmp.Or(name, g.OperationID)), number(attempt)})
	}
	return f
}

// totals is the legend with its sums. Segments partition the wall clock, so their sum
// is set beside it.
func totals(segments []Segment, wall time.Duration) Table {
	t := Table{Caption: "Time by kind of segment", Head: []string{"Kind", "Time", "Share", "Pieces"}, Empty: "No segments are stored."}
	sum := map[string]time.Duration{}
	pieces := map[string]int{}
	var all time.Duration
	for _, g := range segments {
		sum[g.Kind] += g.Duration
		pieces[g.Kind]++
		all += g.Duration
	}
	for _, k := range kindsOf(sum) {
		share := unknown
		if all > 0 {
			share = formatShare(sum[k].Seconds() / all.Seconds())
		}
		t.Rows = append(t.Rows, []Cell{{Text: words(k), Swatch: k}, number(formatDuration(sum[k])), number(share), number(fmt.Sprint(pieces[k]))})
	}
	if len(segments) > 0 {
		t.More = fmt.Sprintf("The segments sum to %s of %s user time.", formatDuration(all), formatDuration(wall))
		if all != wall {
			t.More += fmt.Sprintf(" They differ by %s.", formatDuration((all - wall).Abs()))
		}
	}
	return t
}

func start(t *Trace) time.Time {
	var first time.Time
	see := func(at time.Time) {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	for _, q := range t.Requests {
		see(q.StartedAt)
	}
	for _, o := range t.Operations {
		see(o.StartedAt)
	}
	for _, p := range t.Spans {
		see(p.StartedAt)
	}
	return first
}

func operationTable(t *Trace) Table {
	out := Table{Caption: "Operations, in order of their start", Head: []string{"Operation", "From", "User time", "Outcome", "Attempts", "Hidden", "First token", "Inference", "Timeout", "On the path"}, Cards: true,
		Empty: "No operation is stored."}
	began := start(t)
	for _, o := range t.Operations {
		attempts := number(count(o.Attempts))
		if o.Attempts != nil {
			attempts.Note = words(o.AttemptSource) + moreThanConfigured(o)
		}
		ttft := formatDurationPtr(o.TTFT)
		if o.TTFTState != "" && o.TTFTState != rows.TTFTKnown {
			ttft = words(o.TTFTState)
		}
		out.Rows = append(out.Rows, []Cell{textCell(operationName(o)), number(formatDuration(o.StartedAt.Sub(began))), number(formatDuration(o.UserTime)), outcomeCell(o.Outcome, o.ErrorClass, o.HTTPStatus),
			attempts, number(formatDurationPtr(o.Hidden)), number(ttft), number(formatDurationPtr(o.Inference)), number(formatDurationPtr(o.Timeout)), textCell(formatBool(o.OnPath))})
	}
	return out
}

// moreThanConfigured names it when more tries were made than the caller configured: another
// layer tries again too.
func moreThanConfigured(o Operation) string {
	if o.MaxRetries == nil || o.Attempts == nil {
		return ""
	}
	made, configured := *o.Attempts, uint64(*o.MaxRetries)+1
	if o.LeafAttempts != nil {
		made = max(made, *o.LeafAttempts)
	}
	if uint64(made) <= configured {
		return ""
	}
	return fmt.Sprintf("; %d made, %d configured", made, configured)
}

func attemptTable(t *Trace) Table {
	out := Table{Caption: "Attempts, by operation", Head: []string{"Operation", "Try", "Layer", "From", "Duration", "Backoff before", "Outcome", "Left until deadline", "Known from"}, Cards: true,
		Empty: "No attempt is stored."}
	began := start(t)
	names, order := map[string]string{}, map[string]int{}
	for i, o := range t.Operations {
		names[o.ID], order[o.ID] = operationName(o), i
	}
	attempts := slices.Clone(t.Attempts)
	slices.SortStableFunc(attempts, func(a, b Attempt) int {
		return cmp.Or(order[a.OperationID]-order[b.OperationID], strings.Compare(a.OperationID, b.OperationID), strings.Compare(a.Layer, b.Layer), int(a.Ordinal)-int(b.Ordinal))
	})
	for _, a := range attempts {
		backoff := formatDurationPtr(a.Backoff)
		if a.Backoff == nil && a.Ordinal <= 1 {
			backoff = ""
		}
		o := outcomeCell(a.Outcome, a.ErrorClass, a.HTTPStatus)
		if a.AtCap {
			o.Text += ", at its timeout"
			if cutByDeadline(a) {
				o.Text += ": all that the deadline left"
			}
		}
		out.Rows = append(out.Rows, []Cell{textCell(cmp.Or(names[a.OperationID], a.OperationID)), number(fmt.Sprint(a.Ordinal)), textCell(orUnknown(a.Layer)), number(formatDuration(a.StartedAt.Sub(began))),
			number(formatDuration(a.Duration)), number(backoff), o, number(formatDurationPtr(a.Remaining)), textCell(words(orUnknown(a.Source)))})
	}
	return out
}

// cutByDeadline says whether the timeout at which an attempt ended was no more than what its request's
// deadline had left when it began. Both are met within 2 % or 50 ms, as at_cap is.
func cutByDeadline(a Attempt) bool {
	return a.AtCap && a.Remaining != nil && *a.Remaining <= a.Duration+max(a.Duration/50, 50*time.Millisecond)
}

func spanTable(t *Trace) Table {
	const most = 500
	out := Table{Caption: "Spans, in order of their start", Head: []string{"Name", "Service", "Kind", "From", "Duration", "Status", "Span", "Attributes"}, Cards: true,
		Empty: "No spans are stored; they are kept for a shorter time than the rest."}
	began := start(t)
	for i, p := range t.Spans {
		if i == most {
			out.More = fmt.Sprintf("The first %d of %d spans are listed.", most, len(t.Spans))
			break
		}
		var attributes []string
		for _, k := range slices.Sorted(maps.Keys(p.Attributes)) {
			attributes = append(attributes, k+" = "+clip(p.Attributes[k]))
		}
		out.Rows = append(out.Rows, []Cell{textCell(p.Name), textCell(orUnknown(p.Service)), textCell(strings.ToLower(p.Kind)), number(formatDuration(p.StartedAt.Sub(began))), number(formatDuration(p.Duration)),
			textCell(strings.ToLower(p.Status)), mono(p.ID), {Text: strings.Join(attributes, "; "), Class: "mono small"}})
	}
	return out
}

// exampleOf draws an example's wall clock as one strip.
func exampleOf(i int, e Example) exampleView {
	v := exampleView{Example: e, Retried: unknown, Hidden: formatDurationPtr(e.Hidden)}
	if e.Attempts != nil {
		v.Retried = fmt.Sprintf("%d attempts", *e.Attempts)
	}
	lanes, total := lanesOf(e.Segments, nil)
	strip := chart.Lane{}
	for _, l := range lanes {
		strip.Bars = append(strip.Bars, l.Bars...)
	}
	w := chart.Waterfall{ID: fmt.Sprintf("strip-%d", i), Title: "Segments of trace " + e.TraceID, Desc: "The wall clock from left to right by kind of segment; totals are in the table below.",
		Width: wide, Total: total, Bare: true}
	if len(lanes) > 0 {
		w.Lanes = []chart.Lane{strip}
		v.Strip.Wide = w.SVG()
	}
	v.Strip.Table = totals(e.Segments, total)
	v.Strip.Table.Caption = "Time by kind of segment in trace " + e.TraceID
	v.Strip.Table.More = ""
	return v
}

// legend lists the kinds of segment that the examples' strips show.
func legend(examples []Example) []Cell {
	seen := map[string]bool{}
	for _, e := range examples {
		for _, g := range e.Segments {
			seen[g.Kind] = true
		}
	}
	var out []Cell
	for _, k := range kindsOf(seen) {
		out = append(out, Cell{Text: words(k), Swatch: k})
	}
	return out
}

// kindsOf sorts kinds as the contract does; kinds it does not know come last.
func kindsOf[V any](seen map[string]V) []string {
	var out []string
	for _, k := range rows.SegmentKinds {
		if _, ok := seen[k]; ok {
			out = append(out, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(seen)) {
		if !slices.Contains(rows.SegmentKinds, k) {
			out = append(out, k)
		}
	}
	return out
}
