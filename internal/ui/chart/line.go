package chart

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"time"
)

// Point is one value at one instant. NaN is a gap.
type Point struct {
	At    time.Time
	Value float64
}

// Level is a horizontal line with a label: a fire level, a baseline.
type Level struct {
	Label string
	Value float64
	// Class is "fire" or "base".
	Class string
}

// Line is one series over time, with levels and marked instants.
type Line struct {
	// ID must be unique in the page.
	ID, Title, Desc string
	// Class colours the series: "p95", "spread" or "errors".
	Class string
	// Width and Height are in user units, about pixels.
	Width, Height float64
	From, To      time.Time
	Points        []Point
	Levels        []Level
	// MarkFrom and MarkTo are the window that was judged; zero values mark none.
	MarkFrom, MarkTo time.Time
	// Events are instants with a label: started, fired, resolved.
	Events []Event
	// Format renders a value for axis and hints.
	Format func(float64) string
	// MinTop is the least top of the axis, so that noise near zero stays small.
	MinTop float64
}

// Event is a labelled instant.
type Event struct {
	At    time.Time
	Label string
}

// SVG draws the chart.
func (l Line) SVG() template.HTML {
	c := open(l.ID, "line", l.Title, l.Desc, l.Width, l.Height)
	top := l.MinTop
	known := 0
	for _, p := range l.Points {
		if finite(p.Value) {
			known++
			top = math.Max(top, p.Value)
		}
	}
	if known == 0 || !l.To.After(l.From) {
		return c.empty(l.Width, l.Height, "No data in this period")
	}
	for _, v := range l.Levels {
		if finite(v.Value) {
			top = math.Max(top, v.Value*1.05)
		}
	}
	top = NiceMax(top)
	const left, right, over, under = 58.0, 10.0, 22.0, 22.0
	x := Scale{0, l.To.Sub(l.From).Seconds(), left, l.Width - right}
	y := Scale{0, top, l.Height - under, over}
	at := func(t time.Time) float64 { return x.Clamped(t.Sub(l.From).Seconds()) }

	if l.MarkTo.After(l.MarkFrom) && l.MarkTo.After(l.From) && l.MarkFrom.Before(l.To) {
		a, b := at(l.MarkFrom), at(l.MarkTo)
		c.rect("mark", a, over, b-a, y.R0-over, "window that was judged")
	}
	for _, v := range Ticks(top, 4) {
		c.line("grid", left, y.At(v), l.Width-right, y.At(v))
		c.text("tick", "end", left-6, y.At(v)+4, l.Format(v))
	}
	for _, t := range TimeTicks(l.From, l.To, int(l.Width/90)) {
		c.line("grid", at(t), y.R0, at(t), y.R0+4)
		c.text("tick", "middle", math.Min(math.Max(at(t), left), l.Width-right-14), l.Height-5, t.UTC().Format("15:04"))
	}
	for _, v := range l.Levels {
		if !finite(v.Value) {
			continue
		}
		c.line("level "+v.Class, left, y.At(v.Value), l.Width-right, y.At(v.Value))
		c.text("level-label "+v.Class, "start", left+4, y.At(v.Value)-4, v.Label+" "+l.Format(v.Value))
	}
	l.series(c, at, y)
	l.events(c, at, over, y.R0)
	return c.close()
}

func (l Line) series(c *canvas, at func(time.Time) float64, y Scale) {
	var path []byte
	run := 0
	flush := func(last Point) {
		if run == 1 { // a point between two gaps has no line to be seen by
			c.circle("dot "+l.Class, at(last.At), y.Clamped(last.Value), 3, "")
		}
		run = 0
	}
	var last Point
	for _, p := range l.Points {
		if !finite(p.Value) || p.At.Before(l.From) || p.At.After(l.To) {
			flush(last)
			continue
		}
		cmd := byte('L')
		if run == 0 {
			cmd = 'M'
		}
		path = append(path, cmd)
		path = fmt.Appendf(path, "%s %s", num(at(p.At)), num(y.Clamped(p.Value)))
		run++
		last = p
	}
	flush(last)
	if len(path) > 0 {
		fmt.Fprintf(&c.b, `<path class="series %s" d="%s"/>`, esc(l.Class), path)
	}
}

// events draws instants with their labels on top. Labels are placed from the right, each
// moved left as far as the one after it needs; their order tells which is which.
func (l Line) events(c *canvas, at func(time.Time) float64, over, bottom float64) {
	events := slices.Clone(l.Events)
	slices.SortStableFunc(events, func(a, b Event) int { return b.At.Compare(a.At) })
	limit := l.Width
	for _, e := range events {
		if e.At.Before(l.From) || e.At.After(l.To) {
			continue
		}
		px := at(e.At)
		c.line("event", px, over-4, px, bottom)
		width := float64(len([]rune(e.Label))) * 6.9
		start := math.Min(px-width/2, limit-width)
		if start < 0 {
			continue
		}
		c.text("event-label", "start", start, over-8, e.Label)
		limit = start - 6
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
