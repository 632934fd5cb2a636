package chart

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ms(v float64) string { return fmt.Sprintf("%g ms", v) }

// parse fails the test unless svg is well-formed and returns its elements by name.
func parse(t *testing.T, svg template.HTML) map[string][]map[string]string {
	t.Helper()
	out := map[string][]map[string]string{}
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "%s", svg)
		if e, ok := tok.(xml.StartElement); ok {
			attrs := map[string]string{}
			for _, a := range e.Attr {
				attrs[a.Name.Local] = a.Value
			}
			out[e.Name.Local] = append(out[e.Name.Local], attrs)
		}
	}
	require.NotContains(t, string(svg), "NaN")
	require.NotContains(t, string(svg), "Inf")
	require.NotContains(t, string(svg), "style=")
	require.Len(t, out["svg"], 1)
	require.Equal(t, "img", out["svg"][0]["role"])
	require.Len(t, out["desc"], 1)
	return out
}

func classed(elements []map[string]string, class string) []map[string]string {
	var out []map[string]string
	for _, e := range elements {
		if strings.HasPrefix(e["class"], class) {
			out = append(out, e)
		}
	}
	return out
}

func TestScale(t *testing.T) {
	s := Scale{0, 10, 100, 300}
	require.Equal(t, 100.0, s.At(0))
	require.Equal(t, 200.0, s.At(5))
	require.Equal(t, 300.0, s.At(10))
	require.Equal(t, 320.0, s.At(11))
	require.Equal(t, 300.0, s.Clamped(11))
	require.Equal(t, 100.0, s.Clamped(-1))
	require.True(t, math.IsNaN(s.At(math.NaN())))
	down := Scale{0, 10, 300, 100}
	require.Equal(t, 250.0, down.At(2.5))
	require.Equal(t, 100.0, down.Clamped(99))
	require.Equal(t, 5.0, Scale{3, 3, 0, 10}.At(3))
}

func TestNiceMaxAndTicks(t *testing.T) {
	for v, want := range map[float64]float64{0.9: 1, 1: 1, 3.2: 4, 9.1: 10, 101: 150, 30_000: 30_000, 0: 1, -4: 1} {
		require.InDelta(t, want, NiceMax(v), 1e-9, "NiceMax(%g)", v)
	}
	require.Equal(t, 1.0, NiceMax(math.NaN()))
	require.Equal(t, 1.0, NiceMax(math.Inf(1)))
	require.Equal(t, []float64{0, 5, 10, 15, 20}, Ticks(20, 4))
	require.Equal(t, []float64{0}, Ticks(math.NaN(), 4))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		v := math.Exp(rng.Float64()*40 - 20)
		top := NiceMax(v)
		require.GreaterOrEqual(t, top, v*(1-1e-6))
		require.LessOrEqual(t, top, v*2.3)
		ticks := Ticks(top, 4)
		require.LessOrEqual(t, len(ticks), 6)
		require.GreaterOrEqual(t, len(ticks), 2)
		require.LessOrEqual(t, ticks[len(ticks)-1], top*(1+1e-6))
	}
}

func TestTimeTicksAreRoundAndFew(t *testing.T) {
	got := TimeTicks(noon.Add(3*time.Minute), noon.Add(63*time.Minute), 5)
	require.Equal(t, []time.Time{noon.Add(15 * time.Minute), noon.Add(30 * time.Minute), noon.Add(45 * time.Minute), noon.Add(time.Hour)}, got)
	require.Empty(t, TimeTicks(noon, noon, 5))
	require.LessOrEqual(t, len(TimeTicks(noon, noon.AddDate(1, 0, 0), 5)), 6)
}

func TestLogTicks(t *testing.T) {
	require.InDeltaSlice(t, []float64{10, 20, 50, 100}, LogTicks(9, 110, 8), 1e-9)
	require.LessOrEqual(t, len(LogTicks(1e-3, 1e9, 4)), 4)
	require.Nil(t, LogTicks(0, 10, 4))
	require.Nil(t, LogTicks(math.NaN(), 10, 4))
}

func line(points ...Point) Line {
	return Line{ID: "l", Title: "P95", Desc: "d", Class: "p95", Width: 400, Height: 150, From: noon, To: noon.Add(time.Hour), Points: points, Format: ms}
}

func TestLineDrawsGapsForUnknownValues(t *testing.T) {
	var pts []Point
	for i := range 10 {
		v := float64(100 + i)
		if i == 4 || i == 6 {
			v = math.NaN()
		}
		pts = append(pts, Point{noon.Add(time.Duration(i) * time.Minute), v})
	}
	l := line(pts...)
	l.Levels = []Level{{Label: "fires at", Value: 300, Class: "fire"}, {Label: "baseline", Value: math.NaN(), Class: "base"}}
	l.MarkFrom, l.MarkTo = noon.Add(5*time.Minute), noon.Add(10*time.Minute)
	l.Events = []Event{{noon.Add(20 * time.Minute), "fired"}, {noon.Add(3 * time.Hour), "outside"}}
	got := parse(t, l.SVG())
	series := classed(got["path"], "series")
	require.Len(t, series, 1)
	require.Equal(t, 3, strings.Count(series[0]["d"], "M"), "one run before, between and after the gaps")
	require.Len(t, classed(got["circle"], "dot"), 1, "a lone point is a dot")
	require.Len(t, classed(got["line"], "level"), 1, "an unknown level is not drawn")
	require.Len(t, classed(got["rect"], "mark"), 1)
	require.Len(t, classed(got["line"], "event"), 1)
	require.NotContains(t, string(l.SVG()), "outside")
}

func TestLinePutsValuesWhereTheScaleSays(t *testing.T) {
	l := line(Point{noon, 0}, Point{noon.Add(30 * time.Minute), 50}, Point{noon.Add(time.Hour), 100})
	series := classed(parse(t, l.SVG())["path"], "series")
	// The plot spans x 58..390 and y 128..22, and 100 is the axis' top.
	require.Equal(t, "M58 128L224 75L390 22", series[0]["d"])
}

func TestEventLabelsDoNotOverlap(t *testing.T) {
	l := line(Point{noon, 1}, Point{noon.Add(time.Hour), 1})
	l.Width = 340
	l.Events = []Event{{noon.Add(50 * time.Minute), "began"}, {noon.Add(58 * time.Minute), "504s"}, {noon.Add(51 * time.Minute), "fired"}}
	labels := classed(parse(t, l.SVG())["text"], "event-label")
	require.Len(t, labels, 3)
	right := 340.0
	for i, width := range []float64{4 * 6.9, 5 * 6.9, 5 * 6.9} { // from the right
		x, err := strconv.ParseFloat(labels[i]["x"], 64)
		require.NoError(t, err)
		require.LessOrEqual(t, x+width, right+0.1)
		right = x
	}
}

func TestEmptyAndOnePoint(t *testing.T) {
	for name, svg := range map[string]template.HTML{
		"line without points": line().SVG(),
		"line all unknown":    line(Point{noon, math.NaN()}, Point{noon, math.Inf(1)}).SVG(),
		"line without period": Line{ID: "x", Points: []Point{{noon, 1}}, Format: ms, Width: 100, Height: 50}.SVG(),
		"dots":                DotRange{ID: "x", Width: 100, Format: ms}.SVG(),
		"histogram":           Histogram{ID: "x", Width: 100, Height: 50, Format: ms}.SVG(),
		"waterfall":           Waterfall{ID: "x", Width: 100, Format: time.Duration.String}.SVG(),
	} {
		got := parse(t, svg)
		require.Len(t, classed(got["text"], "none"), 1, name)
	}
	got := parse(t, line(Point{noon.Add(time.Minute), 7}).SVG())
	require.Len(t, classed(got["circle"], "dot"), 1)
	// All values zero is data, not "no data".
	got = parse(t, line(Point{noon, 0}, Point{noon.Add(time.Minute), 0}).SVG())
	require.Len(t, classed(got["path"], "series"), 1)
}

func TestDotRange(t *testing.T) {
	d := DotRange{ID: "d", Title: "t", Width: 600, Format: ms, Rows: []DotRow{
		{Label: "user", Class: "user", P50: 100, P95: 400, N: 12, First: true, Group: "0 retries"},
		{Label: "agent", Class: "agent", P50: math.NaN(), P95: math.NaN(), N: 0},
	}}
	got := parse(t, d.SVG())
	require.Len(t, classed(got["line"], "range"), 1)
	require.Contains(t, string(d.SVG()), "unknown")
	require.Contains(t, string(d.SVG()), "n = 12")
	open, full := classed(got["circle"], "open"), classed(got["circle"], "full")
	require.Equal(t, "201", open[0]["cx"], "96 + 100/400 of 420")
	require.Equal(t, "516", full[0]["cx"])
}

func TestRebinLosesNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var bins []Bin
	var total, sum uint64
	for range 300 {
		lo := math.Exp(rng.Float64()*20 - 5)
		b := Bin{lo, lo * 1.04, rng.Uint64N(9)}
		bins, total = append(bins, b), total+b.Count
	}
	bins = append(bins, Bin{0, 1e-3, 5})
	out := Rebin(bins, 10, 1e5, 24)
	for _, b := range out {
		sum += b.Count
	}
	require.Equal(t, total+5, sum)
	require.InDelta(t, 10, out[0].Lo, 1e-9)
	require.InDelta(t, 1e5, out[23].Hi, 1e-6)
	require.Equal(t, uint64(3), Rebin([]Bin{{100, 104, 3}}, 10, 1000, 2)[1].Count)
	require.Nil(t, Rebin(bins, 0, 1, 3))
}

func TestHistogramHeightsAreProportional(t *testing.T) {
	h := Histogram{ID: "h", Title: "t", Class: "user", Width: 228, Height: 124, Lo: 1, Hi: 100, Format: ms,
		Bins: []Bin{{1, 10, 5}, {10, 100, 10}}}
	bars := classed(parse(t, h.SVG())["rect"], "bar")
	require.Len(t, bars, 2)
	require.Equal(t, []string{"50", "100"}, []string{bars[0]["height"], bars[1]["height"]})
	require.Equal(t, []string{"14", "114"}, []string{bars[0]["x"], bars[1]["x"]})
}

func TestWaterfallKeepsShortBarsVisibleAndInside(t *testing.T) {
	w := Waterfall{ID: "w", Title: "t", Width: 720, Total: 10 * time.Second, Format: time.Duration.String, Lanes: []Lane{
		{Label: "chat <m1>", Bars: []Bar{{Kind: "ttft", Start: 0, Width: 5 * time.Second, Hint: "a & b"}, {Kind: "backoff", Start: 10*time.Second - 1, Width: 1}}},
	}}
	bars := classed(parse(t, w.SVG())["rect"], "bar")
	require.Len(t, bars, 2)
	require.Equal(t, "210", bars[0]["x"])
	require.Equal(t, "247", bars[0]["width"], "half of 210..704")
	require.Equal(t, "1", bars[1]["width"])
	require.Equal(t, "703", bars[1]["x"])
	require.Contains(t, string(w.SVG()), "chat &lt;m1&gt;")
	w.Width, w.Bare = 300, true
	require.Empty(t, parse(t, w.SVG())["text"])
	w.Width, w.Bare = 340, false
	require.Equal(t, "0", classed(parse(t, w.SVG())["rect"], "bar")[0]["x"])
}

func TestTextIsEscaped(t *testing.T) {
	evil := `"><script>alert(1)</script>`
	for _, svg := range []template.HTML{
		Line{ID: evil, Title: evil, Desc: evil, Class: evil, Width: 300, Height: 90, From: noon, To: noon.Add(time.Hour), Format: func(float64) string { return evil },
			Points: []Point{{noon, 1}}, Levels: []Level{{evil, 1, evil}}, Events: []Event{{noon, evil}}}.SVG(),
		DotRange{ID: evil, Title: evil, Width: 300, Rows: []DotRow{{Label: evil, Class: evil, P50: 1, P95: 2, First: true, Group: evil}}, Format: ms}.SVG(),
		Histogram{ID: evil, Title: evil, Class: evil, Width: 100, Height: 50, Lo: 1, Hi: 2, Bins: []Bin{{1, 2, 1}}, Format: func(float64) string { return evil }}.SVG(),
		Waterfall{ID: evil, Title: evil, Width: 300, Total: 1, Lanes: []Lane{{evil, []Bar{{evil, 0, 1, evil}}}}, Format: func(time.Duration) string { return evil }}.SVG(),
	} {
		parse(t, svg)
		require.NotContains(t, string(svg), "<script")
	}
}
