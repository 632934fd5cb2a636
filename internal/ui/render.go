package ui

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"time"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static/*
var staticFiles embed.FS

// renderer draws one page.
type renderer = *template.Template

// view is one page's data: what the frame around every page needs, and the body.
type view struct {
	name  string
	Title string
	// Section is the navigation's entry: "overview", "alerts" or "".
	Section string
	// Live pages reload themselves.
	Live bool
	Body any

	// Filled by render.
	Version                 string
	Now                     time.Time
	RefreshSeconds          int
	RefreshOn, RefreshOff   string
	RefreshEvery, ClockText string
}

var pages = []string{"overview", "alerts", "evaluations", "alert", "trace", "runbook", "error"}

func loadTemplates() (map[string]renderer, error) {
	funcs := template.FuncMap{
		"duration": formatDuration,
		"time":     formatTime,
		"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"ago":      formatAgo,
		"words":    words,
		"title":    title,
		"value":    formatValue,
		"baseline": formatBaseline,
		"orunk":    orUnknown,
		"who":      who,
	}
	base, err := template.New("base").Funcs(funcs).ParseFS(templateFiles, "templates/base.html", "templates/parts.html")
	if err != nil {
		return nil, fmt.Errorf("ui templates: %w", err)
	}
	out := map[string]renderer{}
	for _, name := range pages {
		t, err := base.Clone()
		if err == nil {
			t, err = t.ParseFS(templateFiles, "templates/"+name+".html")
		}
		if err != nil {
			return nil, fmt.Errorf("ui template %s: %w", name, err)
		}
		out[name] = t
	}
	return out, nil
}

func (s *server) render(r *http.Request, v *view) ([]byte, error) {
	v.Version = orUnknown(s.Version)
	v.Now = s.Clock.Now()
	v.ClockText = formatTime(v.Now)
	v.RefreshEvery = formatDuration(s.Refresh)
	if v.Live {
		v.RefreshOn, v.RefreshOff = r.URL.Path, r.URL.Path+"?refresh=off"
		if r.URL.Query().Get("refresh") != "off" {
			v.RefreshSeconds = max(1, int(s.Refresh.Seconds()))
		}
	}
	var b bytes.Buffer
	if err := s.templates[v.name].ExecuteTemplate(&b, "base.html", v); err != nil {
		return nil, fmt.Errorf("draw %s: %w", v.name, err)
	}
	return b.Bytes(), nil
}

// static serves the style sheet and the icon from the binary.
func static() http.Handler {
	files, err := fs.Sub(staticFiles, "static")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "" || r.URL.Path[len(r.URL.Path)-1] == '/' {
			http.NotFound(w, r) // no listing
			return
		}
		w.Header().Set("Cache-Control", "max-age=300")
		serve.ServeHTTP(w, r)
	})
}

// Table is a table with a caption; the first cell of each row is its header.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]Cell
	// Cards says that on narrow screens each row becomes a block of labelled values.
	Cards bool
	// Empty is what to say instead of a table without rows.
	Empty string
	// More says what was left out, if anything.
	More string
}

// Cell is one table cell.
type Cell struct {
	Text string
	// Note is shown small beside the text.
	Note string
	Href string
	// Class is "n" for numbers, "mono" for ids and code, "bad", "warn", "dim", or several.
	Class string
	// Swatch colours a square before the text by segment kind.
	Swatch string
}

func textCell(s string) Cell { return Cell{Text: s} }
func number(s string) Cell {
	if s == unknown {
		return Cell{Text: s, Class: "n dim"}
	}
	return Cell{Text: s, Class: "n"}
}
func mono(s string) Cell { return Cell{Text: s, Class: "mono"} }

// Figure is one chart in two widths, of which the style sheet shows one, and its
// numbers as a table.
type Figure struct {
	Heading string
	Note    string
	Wide    template.HTML
	Narrow  template.HTML
	Table   Table
}
