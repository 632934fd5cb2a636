package chart

import (
	"fmt"
	"html/template"
	"math"
)

// Bin is one bar: how many values lie in (Lo, Hi].
type Bin struct {
	Lo, Hi float64
	Count  uint64
}

// Histogram is a set of bars on a logarithmic axis. Histograms that are to be compared
// share Lo and Hi.
type Histogram struct {
	ID, Title, Desc string
	// Class is "user" or "agent".
	Class         string
	Width, Height float64
	// Lo and Hi are the ends of the axis; values outside are counted in the end bars.
	Lo, Hi float64
	Bins   []Bin
	Format func(float64) string
}

// Rebin adds bins up into n equally wide ones on a logarithmic axis from lo to hi. Each
// bin goes where its middle lies, so no count is lost or split.
func Rebin(bins []Bin, lo, hi float64, n int) []Bin {
	if !(lo > 0) || !(hi > lo) || n < 1 {
		return nil
	}
	out := make([]Bin, n)
	width := math.Log(hi/lo) / float64(n)
	for i := range out {
		out[i].Lo, out[i].Hi = lo*math.Exp(float64(i)*width), lo*math.Exp(float64(i+1)*width)
	}
	for _, b := range bins {
		middle := math.Sqrt(math.Max(b.Lo, lo*1e-3) * math.Max(b.Hi, lo*1e-3))
		i := int(math.Floor(math.Log(middle/lo) / width))
		out[max(0, min(n-1, i))].Count += b.Count
	}
	return out
}

// SVG draws the chart.
func (h Histogram) SVG() template.HTML {
	c := open(h.ID, "histogram", h.Title, h.Desc, h.Width, h.Height)
	var most, total uint64
	for _, b := range h.Bins {
		most = max(most, b.Count)
		total += b.Count
	}
	if total == 0 || !(h.Lo > 0) || !(h.Hi > h.Lo) {
		return c.empty(h.Width, h.Height, "No values")
	}
	const side, over, under = 14.0, 4.0, 20.0
	x := Scale{math.Log(h.Lo), math.Log(h.Hi), side, h.Width - side}
	y := Scale{0, float64(most), h.Height - under, over}
	c.line("axis", side, y.R0, h.Width-side, y.R0)
	for _, v := range LogTicks(h.Lo, h.Hi, int(math.Max(2, h.Width/58))) {
		c.line("grid", x.At(math.Log(v)), y.R0, x.At(math.Log(v)), y.R0+4)
		c.text("tick", "middle", x.At(math.Log(v)), h.Height-4, h.Format(v))
	}
	for _, b := range h.Bins {
		if b.Count == 0 || !(b.Hi > 0) {
			continue
		}
		x0, x1 := x.Clamped(math.Log(math.Max(b.Lo, h.Lo))), x.Clamped(math.Log(b.Hi))
		height := math.Max(1, y.R0-y.At(float64(b.Count)))
		c.rect("bar "+h.Class, x0, y.R0-height, math.Max(1, x1-x0-1), height,
			fmt.Sprintf("%s to %s: %d", h.Format(b.Lo), h.Format(b.Hi), b.Count))
	}
	return c.close()
}
