package ui

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"driftline/detector/stats"
)

// status is one item of the status strip. Level is "ok", "warn", "bad" or "none"; the
// page shows it as a word and a sign, not by colour alone.
type status struct {
	Label, Text, Level, Note string
}

type overviewBody struct {
	Status      []status
	Firing      []Alert
	Transitions Table
	Operations  Table
	Requests    Table
	Window      time.Duration
	Now         time.Time
}

func (s *server) overview(r *http.Request) (*view, error) {
	now := s.Clock.Now()
	o, err := s.Source.Overview(r.Context(), now, s.Window)
	if err != nil {
		return nil, err
	}
	more := ""
	if o.More > 0 {
		more = "Only the busiest slices are listed; there are more."
	}
	body := overviewBody{
		Status: statusStrip(now, o, s.Ready()),
		Firing: o.Firing,
		Transitions: Table{
			Caption: "State changes of alerts in the last 24 hours, the newest first",
			Head:    []string{"When", "Alert", "State", "Who", "Value"}, Cards: true,
			Empty: "No alert changed its state in the last 24 hours.",
		},
		Operations: sliceTable(fmt.Sprintf("Model and tool calls that ended in the last %s", formatDuration(s.Window)), o.Operations, s.MinSamples, true),
		Requests:   sliceTable(fmt.Sprintf("User-visible requests that ended in the last %s", formatDuration(s.Window)), o.Requests, s.MinSamples, false),
		Window:     s.Window,
		Now:        now,
	}
	body.Operations.More = more
	for _, a := range o.Transitions {
		body.Transitions.Rows = append(body.Transitions.Rows, []Cell{
			textCell(formatTime(a.At)), {Text: words(a.Detection), Href: "/alerts/" + a.Fingerprint}, stateCell(a), textCell(who(a)), number(formatValue(a.Value, a.Unit)),
		})
	}
	return &view{name: "overview", Title: "Overview", Section: "overview", Live: true, Body: body}, nil
}

// staleAfter is how long without finished work before the data counts as stale, and
// lagAfter how far rollups may lie behind it.
const (
	staleAfter = 5 * time.Minute
	lagAfter   = 3 * time.Minute
)

func statusStrip(now time.Time, o *Overview, ready error) []status {
	p := o.Pipeline
	data := status{Label: "Data", Level: "ok", Text: "newest work ended " + formatAgo(now, p.LastEnd), Note: "received " + formatAgo(now, p.LastIngested)}
	switch {
	case p.LastEnd.IsZero():
		data = status{Label: "Data", Level: "none", Text: "nothing in the last 24 hours", Note: "send OTLP traces to detectd or the collector"}
	case now.Sub(p.LastEnd) > staleAfter:
		data.Level = "bad"
		data.Note = "no new work for longer than " + formatDuration(staleAfter) + ": alerts cannot be trusted to be current"
	}
	pipeline := status{Label: "Pipeline", Level: "ok", Text: "judging", Note: "rolled up to " + formatTime(p.LastRollup)}
	lag := p.LastEnd.Sub(p.LastRollup)
	switch {
	case ready != nil:
		pipeline.Level, pipeline.Text, pipeline.Note = "bad", "not ready", ready.Error()
	case p.LastEnd.IsZero():
		pipeline.Level, pipeline.Text, pipeline.Note = "none", "waiting for data", ""
	case p.LastRollup.IsZero():
		pipeline.Level, pipeline.Text, pipeline.Note = "warn", "no minute rolled up yet", ""
	case lag > lagAfter:
		pipeline.Level, pipeline.Text = "bad", "rollups lag "+formatDuration(lag)+" behind the data"
	}
	alerts := status{Label: "Alerts", Level: "ok", Text: "none firing", Note: fmt.Sprintf("%d pending", o.Pending)}
	if n := len(o.Firing); n > 0 {
		alerts.Level, alerts.Text = "warn", fmt.Sprintf("%d firing", n)
		for _, a := range o.Firing {
			if a.Severity == "critical" {
				alerts.Level = "bad"
			}
		}
	}
	open := status{Label: "Open requests", Level: "ok", Text: fmt.Sprint(p.Open), Note: "none seen open"}
	if p.Open > 0 {
		open.Note = "oldest for " + formatDuration(p.OldestOpen)
	}
	return []status{alerts, data, pipeline, open}
}

func sliceTable(caption string, slices []Slice, minSamples uint64, calls bool) Table {
	t := Table{
		Caption: caption,
		Head:    []string{"Service and agent"},
		Cards:   true,
		Empty:   "Nothing ended in this time.",
	}
	if calls {
		t.Head = append(t.Head, "Call")
	} else {
		t.Head = append(t.Head, "Kind")
	}
	t.Head = append(t.Head, "n", "User P95")
	if calls {
		t.Head = append(t.Head, "Inference P95")
	}
	t.Head = append(t.Head, "Retried", "Hidden time", "504s", "Deadline misses")
	for _, s := range slices {
		row := []Cell{textCell(orUnknown(s.Service) + " · " + orUnknown(s.Agent)), textCell(strings.TrimSpace(words(s.Kind) + " " + s.Target)), number(fmt.Sprint(s.N)), p95Cell(s.User, minSamples)}
		if calls {
			row = append(row, inferenceCell(s, minSamples))
		}
		row = append(row, ratio(s.Retried, s.AttemptsKnown), number(hiddenShare(s)), alarming(s.Status504, s.N), alarming(s.DeadlineMissed, s.DeadlineKnown))
		t.Rows = append(t.Rows, row)
	}
	return t
}

// p95Cell shows a P95, or says that there are too few values for one.
func p95Cell(h *stats.Hist, minSamples uint64) Cell {
	n := h.N()
	if n == 0 {
		return number(unknown)
	}
	if n < minSamples {
		return Cell{Text: tooFew, Note: fmt.Sprintf("%d of %d needed", n, minSamples), Class: "n dim"}
	}
	return number(formatMS(quantile(h, 0.95)))
}

func inferenceCell(s Slice, minSamples uint64) Cell {
	if s.Kind == "tool" || s.Kind == "agent" || s.Kind == "workflow" || s.Kind == "retrieval" {
		return Cell{Text: "no model", Class: "n dim"}
	}
	return p95Cell(s.Inference, minSamples)
}

// hiddenShare is hidden time over user time. Where no attempts are known nothing is
// known of what was hidden.
func hiddenShare(s Slice) string {
	if s.AttemptsKnown == 0 || s.UserSum <= 0 {
		return unknown
	}
	return formatShare(s.Hidden.Seconds() / s.UserSum.Seconds())
}

func alarming(part, whole uint64) Cell {
	c := ratio(part, whole)
	if whole > 0 && part > 0 {
		c.Class += " warn"
	}
	return c
}

// quantile is NaN where it is not known.
func quantile(h *stats.Hist, p float64) float64 {
	if h == nil {
		return math.NaN()
	}
	v, err := h.Quantile(p)
	if err != nil {
		return math.NaN()
	}
	return v
}

func stateCell(a Alert) Cell {
	c := textCell(a.State)
	if a.State == "firing" {
		c.Class = "bad"
	}
	if muted, _, ok := strings.Cut(annotation(a, "muted"), " by "); ok && a.State == "firing" {
		c.Text += " (not sent: " + muted + ")"
	}
	if a.Shadow {
		c.Text += " (shadow)"
	}
	return c
}

// who says whom an alert is about.
func who(a Alert) string {
	s := orUnknown(a.Service)
	if a.Agent != "" {
		s += " · " + a.Agent
	}
	what := strings.TrimSpace(words(a.Kind) + " " + a.Target)
	switch {
	case a.Kind == "": // about a service as a whole
		return s
	case a.Stream == "":
		what = "requests"
	case a.Stream == "yes":
		what += " (streamed)"
	}
	return s + " · " + what
}

func (s *server) alerts(r *http.Request) (*view, error) {
	const most = 500
	list, err := s.Source.Alerts(r.Context(), most+1)
	if err != nil {
		return nil, err
	}
	t := Table{
		Caption: "Alerts with their latest state, firing ones first",
		Head:    []string{"Alert", "State", "Severity", "Who", "Value", "Since", "Last change"}, Cards: true,
		Empty: "No alert has been stored yet.",
	}
	if len(list) > most {
		list = list[:most]
		t.More = fmt.Sprintf("Only the %d that changed last are listed.", most)
	}
	for _, state := range []string{"firing", "pending", ""} {
		for _, a := range list {
			if known := a.State == "firing" || a.State == "pending"; a.State != state && (state != "" || known) {
				continue
			}
			t.Rows = append(t.Rows, []Cell{
				{Text: title(a), Href: "/alerts/" + a.Fingerprint}, stateCell(a), textCell(orUnknown(a.Severity)), textCell(who(a)),
				number(formatValue(a.Value, a.Unit)), textCell(formatTime(a.StartedAt)), textCell(formatTime(a.At)),
			})
		}
	}
	return &view{name: "alerts", Title: "Alerts", Section: "alerts", Live: true, Body: t}, nil
}
