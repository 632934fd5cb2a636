package chart

import (
	"fmt"
	"html/template"
	"math"
)

// DotRow is one range from P50 to P95. NaN is not known.
type DotRow struct {
	Label string
	// Class is "user" (drawn with circles) or "agent" (drawn with diamonds).
	Class    string
	P50, P95 float64
	N        uint64
	// Note is shown where P50 or P95 is not known; default "unknown".
	Note string
	// First says that a new group begins with this row; Group is its heading.
	First bool
	Group string
}

// DotRange is one row per range on a common axis that starts at 0: an open mark at
// P50, a filled one at P95.
type DotRange struct {
	ID, Title, Desc string
	Width           float64
	Rows            []DotRow
	Format          func(float64) string
}

const (
	dotRow    = 22.0
	dotHead   = 24.0
	dotFooter = 26.0
)

// SVG draws the chart.
func (d DotRange) SVG() template.HTML {
	height := 8 + dotFooter
	top := 0.0
	for _, r := range d.Rows {
		height += dotRow
		if r.First {
			height += dotHead
		}
		for _, v := range []float64{r.P50, r.P95} {
			if finite(v) {
				top = math.Max(top, v)
			}
		}
	}
	if len(d.Rows) == 0 || top == 0 {
		c := open(d.ID, "dots", d.Title, d.Desc, d.Width, 60)
		return c.empty(d.Width, 60, "No finished work in this window")
	}
	c := open(d.ID, "dots", d.Title, d.Desc, d.Width, height)
	const left, right = 96.0, 84.0
	top = NiceMax(top)
	x := Scale{0, top, left, d.Width - right}
	for _, v := range Ticks(top, int(math.Max(2, d.Width/160))) {
		c.line("grid", x.At(v), 8, x.At(v), height-dotFooter)
		c.text("tick", "middle", x.At(v), height-8, d.Format(v))
	}
	y := 8.0
	for _, r := range d.Rows {
		if r.First {
			c.text("group", "start", 0, y+16, r.Group)
			y += dotHead
		}
		d.row(c, r, x, y+dotRow/2, d.Width-right+14)
		y += dotRow
	}
	return c.close()
}

func (d DotRange) row(c *canvas, r DotRow, x Scale, y, noteAt float64) {
	c.text("label", "end", x.R0-10, y+4, r.Label)
	c.text("tick", "start", noteAt, y+4, fmt.Sprintf("n = %d", r.N))
	if !finite(r.P50) || !finite(r.P95) {
		note := r.Note
		if note == "" {
			note = "unknown"
		}
		c.text("none", "start", x.R0+6, y+4, note)
		return
	}
	c.line("range "+r.Class, x.At(r.P50), y, x.At(r.P95), y)
	mark := c.circle
	if r.Class == "agent" {
		mark = c.diamond
	}
	mark("open "+r.Class, x.At(r.P50), y, 5, r.Label+" P50 "+d.Format(r.P50))
	mark("full "+r.Class, x.At(r.P95), y, 5, r.Label+" P95 "+d.Format(r.P95))
}
