package chart

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// canvas collects SVG text. All text that comes from data goes through esc.
type canvas struct {
	b strings.Builder
}

func esc(s string) string { return html.EscapeString(s) }

// num renders a coordinate with one decimal, without a trailing ".0".
func num(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "0"
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

func open(id, class, title, desc string, width, height float64) *canvas {
	c := &canvas{}
	fmt.Fprintf(&c.b, `<svg class="chart %s" viewBox="0 0 %s %s" role="img" aria-labelledby="%s-t %s-d" xmlns="http://www.w3.org/2000/svg">`,
		esc(class), num(width), num(height), esc(id), esc(id))
	fmt.Fprintf(&c.b, `<title id="%s-t">%s</title><desc id="%s-d">%s</desc>`, esc(id), esc(title), esc(id), esc(desc))
	return c
}

// stretch lets the drawing fill its box in both directions.
func (c *canvas) stretch() {
	s := strings.Replace(c.b.String(), "<svg ", `<svg preserveAspectRatio="none" `, 1)
	c.b.Reset()
	c.b.WriteString(s)
}

func (c *canvas) close() template.HTML {
	c.b.WriteString("</svg>")
	return template.HTML(c.b.String()) //nolint:gosec // every value was escaped or is a number
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, esc(class), num(x1), num(y1), num(x2), num(y2))
}

// rect draws a box; a hint, where given, is what a pointer resting on it shows.
func (c *canvas) rect(class string, x, y, w, h float64, hint string) {
	fmt.Fprintf(&c.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"`, esc(class), num(x), num(y), num(math.Max(0, w)), num(math.Max(0, h)))
	if hint == "" {
		c.b.WriteString("/>")
		return
	}
	fmt.Fprintf(&c.b, "><title>%s</title></rect>", esc(hint))
}

func (c *canvas) text(class, anchor string, x, y float64, s string) {
	fmt.Fprintf(&c.b, `<text class="%s" text-anchor="%s" x="%s" y="%s">%s</text>`, esc(class), anchor, num(x), num(y), esc(s))
}

func (c *canvas) circle(class string, x, y, r float64, hint string) {
	fmt.Fprintf(&c.b, `<circle class="%s" cx="%s" cy="%s" r="%s">`, esc(class), num(x), num(y), num(r))
	if hint != "" {
		fmt.Fprintf(&c.b, "<title>%s</title>", esc(hint))
	}
	c.b.WriteString("</circle>")
}

func (c *canvas) diamond(class string, x, y, r float64, hint string) {
	fmt.Fprintf(&c.b, `<path class="%s" d="M%s %sL%s %sL%s %sL%s %sZ">`, esc(class),
		num(x), num(y-r), num(x+r), num(y), num(x), num(y+r), num(x-r), num(y))
	if hint != "" {
		fmt.Fprintf(&c.b, "<title>%s</title>", esc(hint))
	}
	c.b.WriteString("</path>")
}

// empty says in the chart's middle why nothing is drawn.
func (c *canvas) empty(width, height float64, why string) template.HTML {
	c.text("none", "middle", width/2, height/2, why)
	return c.close()
}

// fit cuts s to about the number of characters that fit into width at the charts'
// text size.
func fit(s string, width float64) string {
	const perChar = 6.9
	n := int(width / perChar)
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	if n < 2 {
		return ""
	}
	return string(r[:n-1]) + "…"
}
