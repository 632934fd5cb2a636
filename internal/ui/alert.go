package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

type link struct{ Text, Href string }

type alertBody struct {
	Alert
	Who         string
	Facts       []fact
	Description string
	Cause       string
	CauseDetail string
	Normal      string
	First       []string
	Avoid       []string
	Links       []link
	Lead        string
	Transitions Table
	Window      string
	Retries     Figure
	Histograms  []Figure
	Lines       []Figure
	LinesTable  Table
	Series      string
	Examples    []exampleView
	Legend      []Cell
	Versions    Table
	Detector    Table
	Raw         string
}

type fact struct{ Label, Text string }

type exampleView struct {
	Example
	Retried string
	Hidden  string
	Strip   Figure
}

func (s *server) alert(r *http.Request) (*view, error) {
	fingerprint := r.PathValue("fingerprint")
	if !fingerprintForm.MatchString(fingerprint) {
		return nil, badFingerprint()
	}
	now := s.Clock.Now()
	d, err := s.Source.Alert(r.Context(), now, fingerprint)
	if errors.Is(err, ErrNotFound) {
		return nil, &problem{http.StatusNotFound, "There is no such alert", "No alert with the fingerprint " + fingerprint + " is stored. It may be older than the retention of alerts; /alerts lists those that are known."}
	}
	if err != nil {
		return nil, err
	}
	a := d.Current()
	first, avoid := steps(a)
	body := alertBody{
		Alert: a, Who: who(a), Facts: facts(a, now), Description: annotation(a, "description"), Cause: causeOf(a), CauseDetail: annotation(a, "cause_detail"), Normal: annotation(a, "normal_trace_id"), First: first, Avoid: avoid,
		Links: links(a), Lead: lead(d), Transitions: transitionTable(d),
		Window:  fmt.Sprintf("%s to %s", formatTime(d.EvidenceFrom), formatTime(d.EvidenceTo)),
		Retries: retryFigure(d.Retries), Histograms: histograms(d.Retries), Series: d.Series, Versions: versionTable(d),
	}
	body.Lines, body.LinesTable = lineFigures(d)
	for i, e := range d.Examples {
		body.Examples = append(body.Examples, exampleOf(i, e))
	}
	body.Legend = legend(d.Examples)
	body.Detector, body.Raw = evidenceTable(a.Evidence)
	return &view{name: "alert", Title: title(a), Section: "alerts", Live: true, Body: body}, nil
}

func facts(a Alert, now time.Time) []fact {
	level := formatValue(a.Value, a.Unit)
	against := "baseline " + formatBaseline(a) + ", fires at " + formatValue(a.Threshold, a.Unit)
	samples := fmt.Sprintf("%d samples", a.Samples)
	if a.Window > 0 {
		samples += " in " + formatDuration(a.Window)
	}
	since := formatTime(a.StartedAt) + " (" + formatAgo(now, a.StartedAt) + ")"
	out := []fact{{"Who", who(a)}, {"How much", level}, {"Against", against}, {"From", samples}, {"Since", since}}
	if a.FiredAt != nil {
		out = append(out, fact{"Fired", formatTime(*a.FiredAt)})
	}
	for _, f := range []fact{{"Not sent", "muted"}, {"Requests hit", "requests_hit"}, {"Users hit", "users_hit"}, {"Same detection elsewhere", "differs"}, {"Data", "completeness"}, {"Changed nearby", "changes"}} {
		if text := annotation(a, f.Text); text != "" {
			out = append(out, fact{f.Label, text})
		}
	}
	if a.ResolvedAt != nil {
		out = append(out, fact{"Resolved", formatTime(*a.ResolvedAt) + ", after " + formatDuration(a.ResolvedAt.Sub(a.StartedAt))})
	}
	return out
}

// links are the alert's own links; anything but http and https is left out.
func links(a Alert) []link {
	var out []link
	for _, l := range []link{{"Runbook", annotation(a, "runbook_url")}, {"Dashboard", annotation(a, "dashboard_url")}} {
		if u, err := url.Parse(l.Href); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
			out = append(out, l)
		}
	}
	return out
}

// lead says how long before the 504 alert this one fired.
func lead(d *AlertDetail) string {
	const rule = "504 share over 5 % in 1-minute windows for 2 minutes"
	a := d.Current()
	source := "computed by the rule: " + rule
	if d.Source504 == "alert" {
		source = "from the stored 504 alert"
	}
	switch {
	case strings.Contains(a.Detection, "504"):
		return "None: this is the 504 alert itself (" + rule + ")."
	case d.First504.IsZero():
		return "No 504 alert in the period shown (" + rule + ")."
	case a.FiredAt == nil:
		return fmt.Sprintf("The 504 alert fired at %s (%s); this alert has not fired.", formatTime(d.First504), source)
	case a.FiredAt.Before(d.First504):
		return fmt.Sprintf("Fired %s before the 504 alert at %s (%s).", formatDuration(d.First504.Sub(*a.FiredAt)), formatTime(d.First504), source)
	}
	return fmt.Sprintf("Fired %s after the 504 alert at %s (%s): no early warning.", formatDuration(a.FiredAt.Sub(d.First504)), formatTime(d.First504), source)
}

// First504 returns when the 504 rule fires at or after from: the end of the second of
// two adjoining minutes with a 504 share over 5 %, or the zero time.
func First504(minutes []Minute, from time.Time) time.Time {
	var last time.Time
	for _, m := range minutes {
		if m.Requests == 0 || float64(m.Status504) <= 0.05*float64(m.Requests) {
			continue
		}
		if end := m.At.Add(time.Minute); m.At.Equal(last) && !end.Before(from) {
			return end
		}
		last = m.At.Add(time.Minute)
	}
	return time.Time{}
}

func transitionTable(d *AlertDetail) Table {
	t := Table{Caption: "State changes of this alert, the oldest first", Head: []string{"When", "State", "Severity", "Value", "Baseline", "Samples"}, Cards: true}
	added := d.First504.IsZero()
	for _, a := range d.Transitions {
		if !added && d.First504.Before(a.At) {
			t.Rows, added = append(t.Rows, row504(d)), true
		}
		t.Rows = append(t.Rows, []Cell{textCell(formatTime(a.At)), stateCell(a), textCell(orUnknown(a.Severity)), number(formatValue(a.Value, a.Unit)), number(formatBaseline(a)), number(fmt.Sprint(a.Samples))})
	}
	if !added {
		t.Rows = append(t.Rows, row504(d))
	}
	return t
}

func row504(d *AlertDetail) []Cell {
	return []Cell{textCell(formatTime(d.First504)), {Text: "504 alert of this service", Class: "warn"}, textCell(""), textCell(""), textCell(""), textCell("")}
}

func versionTable(d *AlertDetail) Table {
	t := Table{
		Caption: "Versions of " + orUnknown(d.Current().Service) + " seen around the alert",
		Head:    []string{"service.version", "First seen", "Last seen", "Requests", "Change"}, Cards: true,
		Empty: "No service.version was reported in this period, so a deployment cannot be ruled out.",
	}
	for i, v := range d.Versions {
		change := ""
		if i > 0 {
			gap := v.First.Sub(d.Current().StartedAt)
			change = "appeared " + formatDuration(gap.Abs()) + " before the alert began"
			if gap > 0 {
				change = "appeared " + formatDuration(gap) + " after the alert began"
			}
		}
		t.Rows = append(t.Rows, []Cell{mono(v.Version), textCell(formatTime(v.First)), textCell(formatTime(v.Last)), number(fmt.Sprint(v.N)), textCell(change)})
	}
	return t
}

// evidenceTable lists the detector's own record, an object of any depth, by path. What
// is not JSON is shown as it is.
func evidenceTable(text string) (Table, string) {
	const most = 200
	t := Table{Caption: "Numbers the detector judged by", Head: []string{"What", "Value"}}
	if strings.TrimSpace(text) == "" {
		return t, ""
	}
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return t, clip(text)
	}
	flatten("", v, func(path, value string) {
		if len(t.Rows) < most {
			t.Rows = append(t.Rows, []Cell{mono(path), textCell(value)})
		} else {
			t.More = fmt.Sprintf("Only the first %d values are listed.", most)
		}
	})
	return t, ""
}

func flatten(path string, v any, add func(path, value string)) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			flatten(strings.TrimPrefix(path+"."+k, "."), v[k], add)
		}
	case []any:
		if scalars, ok := joined(v); ok {
			add(path, scalars)
			return
		}
		for i, e := range v {
			flatten(fmt.Sprintf("%s[%d]", path, i), e, add)
		}
	case nil:
		add(path, unknown)
	case bool:
		add(path, formatBool(v))
	default:
		add(path, clip(fmt.Sprint(v)))
	}
}

// joined renders a short list of plain values on one line.
func joined(list []any) (string, bool) {
	var out []string
	for i, e := range list {
		switch e.(type) {
		case map[string]any, []any:
			return "", false
		}
		if i == 12 {
			out = append(out, fmt.Sprintf("… %d more", len(list)-i))
			break
		}
		out = append(out, fmt.Sprint(e))
	}
	return strings.Join(out, ", "), true
}
