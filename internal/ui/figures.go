package ui

import (
	"fmt"
	"math"
	"time"

	"driftline/detector/stats"
	"driftline/internal/ui/chart"
)

// Widths of the two drawings of each chart, in user units.
const (
	wide   = 760.0
	narrow = 340.0
)

// minQuantile is how many values a quantile of the evidence needs, and trailing the
// minutes that each point of a line looks back.
const (
	minQuantile = 20
	trailing    = 5
)

const tooFew = "insufficient traffic"

func groupName(retries string) string {
	switch retries {
	case "0":
		return "Not retried"
	case "1":
		return "Retried once"
	case "2+":
		return "Retried twice or more"
	}
	return "Retries unknown"
}

// quantileIf is NaN below the minimum number of values.
func quantileIf(h *stats.Hist, p float64) float64 {
	if h.N() < minQuantile {
		return math.NaN()
	}
	return quantile(h, p)
}

func quantileCell(h *stats.Hist, p float64) Cell {
	switch {
	case h.N() == 0:
		return number(unknown)
	case h.N() < minQuantile:
		return Cell{Text: tooFew, Class: "n dim"}
	}
	return number(formatMS(quantile(h, p)))
}

// retryFigure sets user time beside agent time by number of retries.
func retryFigure(slices []RetrySlice) Figure {
	f := Figure{
		Heading: "User time beside agent time, by retries",
		Note:    "Open marks are P50, filled ones P95; circles are user time, diamonds agent time. If user time moves to the right with retries and agent time does not, the agent does not see what its users wait for.",
		Table: Table{
			Caption: "User time and agent time by number of retries",
			Head:    []string{"Retries", "n", "User P50", "User P95", "Agent n", "Agent P50", "Agent P95", "Agent time reported"}, Cards: true,
			Empty: "No finished work is stored for this window.",
		},
	}
	var rows []chart.DotRow
	for _, s := range slices {
		note := func(h *stats.Hist) string {
			if h.N() == 0 {
				return unknown
			}
			return tooFew
		}
		rows = append(rows,
			chart.DotRow{Label: "user time", Class: "user", P50: quantileIf(s.User, 0.5), P95: quantileIf(s.User, 0.95), N: s.User.N(), Note: note(s.User), First: true, Group: groupName(s.Retries)},
			chart.DotRow{Label: "agent time", Class: "agent", P50: quantileIf(s.AgentTime, 0.5), P95: quantileIf(s.AgentTime, 0.95), N: s.AgentTime.N(), Note: note(s.AgentTime)})
		f.Table.Rows = append(f.Table.Rows, []Cell{textCell(groupName(s.Retries)), number(fmt.Sprint(s.User.N())), quantileCell(s.User, 0.5), quantileCell(s.User, 0.95),
			number(fmt.Sprint(s.AgentTime.N())), quantileCell(s.AgentTime, 0.5), quantileCell(s.AgentTime, 0.95), ratio(s.AgentReported, s.AgentTime.N())})
	}
	d := chart.DotRange{Title: f.Heading, Desc: "P50 and P95 of user time and agent time for work without, with one, and with more retries. The numbers are in the table below.", Rows: rows, Format: formatMS}
	d.ID, d.Width = "retries-w", wide
	f.Wide = d.SVG()
	d.ID, d.Width = "retries-n", narrow
	f.Narrow = d.SVG()
	return f
}

// histograms draws the distribution of user time and agent time for each number of
// retries, all on one axis.
func histograms(slices []RetrySlice) []Figure {
	lo, hi := math.Inf(1), 0.0
	for _, s := range slices {
		for _, h := range []*stats.Hist{s.User, s.AgentTime} {
			if h.N() > 0 {
				lo, hi = math.Min(lo, math.Max(1, quantile(h, 0))), math.Max(hi, quantile(h, 1))
			}
		}
	}
	if hi <= 0 {
		return nil
	}
	lo, hi = lo/1.1, math.Max(hi*1.1, lo*2)
	var out []Figure
	for i, s := range slices {
		for _, part := range []struct {
			name, class string
			h           *stats.Hist
		}{{"user time", "user", s.User}, {"agent time", "agent", s.AgentTime}} {
			bins := chart.Rebin(binsOf(part.h), lo, hi, 28)
			f := Figure{Heading: groupName(s.Retries) + ": " + part.name, Table: Table{
				Caption: "Distribution of " + part.name + ", " + groupName(s.Retries), Head: []string{"From", "To", "Count"}, Empty: "No values are known."}}
			for _, b := range bins {
				if b.Count > 0 {
					f.Table.Rows = append(f.Table.Rows, []Cell{number(formatMS(b.Lo)), number(formatMS(b.Hi)), number(fmt.Sprint(b.Count))})
				}
			}
			f.Wide = chart.Histogram{ID: fmt.Sprintf("hist-%d-%s", i, part.class), Title: f.Heading, Desc: "Histogram on a logarithmic axis; the counts are in the table below.",
				Class: part.class, Width: narrow, Height: 96, Lo: lo, Hi: hi, Bins: bins, Format: formatMS}.SVG()
			out = append(out, f)
		}
	}
	return out
}

func binsOf(h *stats.Hist) []chart.Bin {
	if h == nil {
		return nil
	}
	out := make([]chart.Bin, len(h.Index))
	for i, ix := range h.Index {
		lo, hi := stats.BucketBounds(ix)
		out[i] = chart.Bin{Lo: lo, Hi: hi, Count: h.Count[i]}
	}
	return out
}

// trailingPoint is what is known of the minutes up to At.
type trailingPoint struct {
	At                  time.Time
	N                   uint64
	P95, Spread         float64
	Requests, Status504 uint64
	Share504            float64
}

// trail computes a point for each minute of [from, to) over the minutes before it.
// Quantiles of fewer than minQuantile values, and shares of nothing, are NaN.
func trail(minutes []Minute, from, to time.Time) []trailingPoint {
	at := map[int64]Minute{}
	for _, m := range minutes {
		at[m.At.Unix()] = m
	}
	var out []trailingPoint
	for t := from; t.Before(to); t = t.Add(time.Minute) {
		p := trailingPoint{At: t.Add(time.Minute), P95: math.NaN(), Spread: math.NaN(), Share504: math.NaN()}
		h := &stats.Hist{}
		for back := range trailing {
			h.Merge(at[t.Add(-time.Duration(back)*time.Minute).Unix()].Latency)
		}
		p.N = h.N()
		if p.N >= minQuantile {
			p.P95 = quantile(h, 0.95)
			if sd, err := h.RobustSD(stats.Linear); err == nil {
				p.Spread = sd
			}
		}
		m := at[t.Unix()]
		p.Requests, p.Status504 = m.Requests, m.Status504
		if m.Requests > 0 {
			p.Share504 = float64(m.Status504) / float64(m.Requests)
		}
		out = append(out, p)
	}
	return out
}

// lineFigures draws P95, spread and the 504 share over one time axis, with one table.
func lineFigures(d *AlertDetail) ([]Figure, Table) {
	a := d.Current()
	points := trail(d.Minutes, d.From, d.To)
	table := Table{
		Caption: fmt.Sprintf("By minute: P95 and spread of %s over the %d minutes before, and 504s of the service's requests in that minute", d.Series, trailing),
		Head:    []string{"Until", "n", "P95", "Spread", "504 share"}, Empty: "No data in this period.",
	}
	var p95, spread, share []chart.Point
	for _, p := range points {
		p95 = append(p95, chart.Point{At: p.At, Value: p.P95})
		spread = append(spread, chart.Point{At: p.At, Value: p.Spread})
		share = append(share, chart.Point{At: p.At, Value: p.Share504})
		if p.N > 0 || p.Requests > 0 {
			table.Rows = append(table.Rows, []Cell{textCell(p.At.UTC().Format("15:04")), number(fmt.Sprint(p.N)), pointCell(p.P95, p.N), pointCell(p.Spread, p.N), ratio(p.Status504, p.Requests)})
		}
	}
	base := chart.Line{From: d.From, To: d.To, MarkFrom: d.EvidenceFrom, MarkTo: d.EvidenceTo, Events: events(d)}
	first := base
	first.ID, first.Title, first.Class, first.Points, first.Format, first.Height = "p95", "P95 of "+d.Series, "p95", p95, formatMS, 190
	second := base
	second.ID, second.Title, second.Class, second.Points, second.Format, second.Height = "spread", "Spread of "+d.Series+" (robust standard deviation)", "spread", spread, formatMS, 170
	third := base
	third.ID, third.Title, third.Class, third.Points, third.Format, third.Height = "errors", "Share of the service's requests that ended with HTTP 504", "errors", share, formatShare, 150
	third.MinTop = 0.1
	third.Levels = []chart.Level{{Label: "504 alert over", Value: 0.05, Class: "fire"}}
	switch a.Detection {
	case "p95_surge":
		first.Levels = levels(a)
	case "p95_spread":
		second.Levels = levels(a)
	}
	var out []Figure
	for _, l := range []chart.Line{first, second, third} {
		l.Desc = l.Title + " from " + formatTime(d.From) + " to " + formatTime(d.To) + ". The numbers are in the table below the charts."
		f := Figure{Heading: l.Title}
		id := l.ID
		l.ID, l.Width = id+"-w", wide
		f.Wide = l.SVG()
		l.ID, l.Width = id+"-n", narrow
		f.Narrow = l.SVG()
		out = append(out, f)
	}
	return out, table
}

func pointCell(v float64, n uint64) Cell {
	if n > 0 && n < minQuantile {
		return Cell{Text: tooFew, Class: "n dim"}
	}
	return number(formatMS(v))
}

// levels are an alert's fire level and baseline in milliseconds, where its unit allows.
func levels(a Alert) []chart.Level {
	scale := 1.0
	switch a.Unit {
	case "ms":
	case "s":
		scale = 1e3
	case "ratio", "x":
		if a.Baseline <= 0 {
			return nil
		}
		return []chart.Level{{Label: "fires at", Value: a.Threshold * a.Baseline, Class: "fire"}, {Label: "baseline", Value: a.Baseline, Class: "base"}}
	default:
		return nil
	}
	out := []chart.Level{{Label: "fires at", Value: a.Threshold * scale, Class: "fire"}}
	if a.Baseline > 0 {
		out = append(out, chart.Level{Label: "baseline", Value: a.Baseline * scale, Class: "base"})
	}
	return out
}

func events(d *AlertDetail) []chart.Event {
	a := d.Current()
	out := []chart.Event{{At: a.StartedAt, Label: "began"}}
	if a.FiredAt != nil {
		out = append(out, chart.Event{At: *a.FiredAt, Label: "fired"})
	}
	if !d.First504.IsZero() {
		out = append(out, chart.Event{At: d.First504, Label: "504s"})
	}
	if a.ResolvedAt != nil {
		out = append(out, chart.Event{At: *a.ResolvedAt, Label: "resolved"})
	}
	return out
}
