package chart

import (
	"html/template"
	"math"
	"time"
)

// Bar is one stretch of time of a kind.
type Bar struct {
	// Kind names the segment kind; its colour is the class "k-" + Kind.
	Kind  string
	Start time.Duration
	Width time.Duration
	// Hint is what a pointer resting on the bar shows.
	Hint string
}

// Lane is one row of a waterfall.
type Lane struct {
	Label string
	Bars  []Bar
}

// Waterfall shows when, within Total, each lane spent its time. Bars shorter than a
// pixel are drawn one pixel wide; the exact numbers belong in a table.
type Waterfall struct {
	ID, Title, Desc string
	Width           float64
	Total           time.Duration
	Lanes           []Lane
	// Bare leaves out labels and axis: a strip for lists.
	Bare bool
	// Format renders a duration for the axis.
	Format func(time.Duration) string
}

const (
	laneHeight = 24.0
	laneBar    = 16.0
	// beside is the width from which labels stand beside the bars instead of above.
	beside = 520.0
)

// SVG draws the chart.
func (w Waterfall) SVG() template.HTML {
	left, right, labelAbove := 0.0, 1.0, 0.0
	under := 24.0
	switch {
	case w.Bare:
		under = 0
	case w.Width >= beside:
		left = 210
		right = 16
	default:
		labelAbove = 15
		right = 16
	}
	row := laneHeight + labelAbove
	height := math.Max(laneHeight, float64(len(w.Lanes))*row) + under
	c := open(w.ID, "waterfall", w.Title, w.Desc, w.Width, height)
	if w.Bare { // without text it may stretch to any width
		c.stretch()
	}
	if w.Total <= 0 || len(w.Lanes) == 0 {
		return c.empty(w.Width, height, "No segments stored")
	}
	x := Scale{0, float64(w.Total), left, w.Width - right}
	if !w.Bare {
		ms := float64(w.Total) / 1e6
		for _, v := range Ticks(ms, int(math.Max(2, (w.Width-left)/110))) {
			px := x.At(v * 1e6)
			c.line("grid", px, 0, px, height-under)
			anchor := "middle"
			if v == 0 && left == 0 {
				anchor = "start"
			} else if px > w.Width-right-14 {
				anchor = "end"
			}
			c.text("tick", anchor, px, height-7, w.Format(time.Duration(v*1e6)))
		}
	}
	for i, lane := range w.Lanes {
		y := float64(i) * row
		if left > 0 {
			c.text("label", "start", 0, y+laneHeight/2+4, fit(lane.Label, left-10))
		} else if labelAbove > 0 {
			c.text("label", "start", 0, y+13, fit(lane.Label, w.Width))
		}
		for _, b := range lane.Bars {
			x0, x1 := x.Clamped(float64(b.Start)), x.Clamped(float64(b.Start+b.Width))
			if b.Width <= 0 {
				continue
			}
			x0 = math.Min(x0, x.R1-1)
			c.rect("bar k-"+b.Kind, x0, y+labelAbove+(laneHeight-laneBar)/2, math.Max(1, x1-x0), laneBar, b.Hint)
		}
	}
	return c.close()
}
