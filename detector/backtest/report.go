package backtest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Total is the whole suite's.
type Total struct {
	Figures
	// FalsePages are those in HealthyDays of healthy traffic; FalsePagesPer30d is the upper
	// 95 % bound of their rate, null without healthy traffic.
	FalsePages       int              `json:"false_pages"`
	HealthyDays      int              `json:"healthy_days"`
	FalsePagesPer30d *float64         `json:"false_pages_per_30d"`
	Rivals           map[string]Rival `json:"rivals"`
}

// Rival is a rival's figures at the level at which it pages on as many slice-days of the healthy
// traffic as the detector paged times.
type Rival struct {
	Figures
	Level      float64 `json:"level"`
	FalsePages int     `json:"false_pages"`
}

// ScenarioReport is one scenario's outcome. Times are in seconds; null is not known.
type ScenarioReport struct {
	Kind    string `json:"kind"`
	Number  int    `json:"number"`
	HeldOut bool   `json:"held_out"`
	Found   bool   `json:"found"`
	// By is the detection of the first right page.
	By               string              `json:"by"`
	DetectSeconds    *float64            `json:"detect_seconds"`
	LeadSeconds      *float64            `json:"lead_seconds"`
	HeadroomSeconds  *float64            `json:"headroom_seconds"`
	Alert504Seconds  *float64            `json:"alert_504_seconds"`
	RightPages       int                 `json:"right_pages"`
	WrongPages       []Page              `json:"wrong_pages"`
	RivalLeadSeconds map[string]*float64 `json:"rival_lead_seconds"`
}

// KindReport is a kind's figures.
type KindReport struct {
	Kind    string `json:"kind"`
	Text    string `json:"text"`
	HeldOut bool   `json:"held_out"`
	Figures
	// With504 is how many scenarios came to a 504 alert, MedianHeadroomSeconds from the oracle
	// to it.
	With504               int      `json:"with_504_alert"`
	MedianHeadroomSeconds *float64 `json:"median_headroom_seconds"`
	FirstBy               []string `json:"first_by"`
}

// Healthy is what the healthy traffic gave.
type Healthy struct {
	Days       int    `json:"days"`
	Slices     int    `json:"slices"`
	SlowSlices int    `json:"slices_under_one_request_a_minute"`
	Alerts504  int    `json:"alerts_504"`
	Pages      []Page `json:"pages"`
}

// Report is a suite's result.
type Report struct {
	Seed      uint64           `json:"seed"`
	HeldOut   bool             `json:"held_out"`
	Total     Total            `json:"total"`
	Kinds     []KindReport     `json:"kinds"`
	Scenarios []ScenarioReport `json:"scenarios"`
	Healthy   Healthy          `json:"healthy"`
}

func since(a, b time.Time) *float64 {
	if a.IsZero() || b.IsZero() {
		return nil
	}
	v := b.Sub(a).Seconds()
	return &v
}

func score(o Options, results []*Result, healthy []*healthyResult) *Report {
	rep := &Report{Seed: o.Seed, HeldOut: o.HeldOut, Total: Total{Rivals: map[string]Rival{}}, Scenarios: []ScenarioReport{}, Kinds: []KindReport{}, Healthy: Healthy{Pages: []Page{}}}
	peaks := map[string][]float64{}
	for _, h := range healthy {
		rep.Healthy.Days += h.minutes / 1440
		rep.Healthy.Slices, rep.Healthy.SlowSlices = h.slices, h.slow
		rep.Healthy.Alerts504 += h.alerts504
		rep.Healthy.Pages = append(rep.Healthy.Pages, h.pages...)
		for name, p := range h.peaks {
			peaks[name] = append(peaks[name], p...)
		}
	}
	rep.Total.FalsePages, rep.Total.HealthyDays = len(rep.Healthy.Pages), rep.Healthy.Days
	if rep.Healthy.Days > 0 {
		v := upper95(rep.Total.FalsePages) / float64(rep.Healthy.Days) * 30
		rep.Total.FalsePagesPer30d = &v
	}
	all := &tally{}
	byKind := map[string]*tally{}
	kinds := map[string]*KindReport{}
	headrooms := map[string][]float64{}
	rivalTally := map[string]*tally{}
	levels := map[string]float64{}
	for _, v := range rivals {
		rivalTally[v.name], levels[v.name] = &tally{}, calibrate(peaks[v.name], rep.Total.FalsePages)
	}
	var order []string
	for _, r := range results {
		k := r.Scenario.Kind
		if kinds[k.Name] == nil {
			order = append(order, k.Name)
			byKind[k.Name], kinds[k.Name] = &tally{}, &KindReport{Kind: k.Name, Text: k.Text, HeldOut: k.HeldOut, FirstBy: []string{}}
		}
		out := r.judgePages(r.Pages)
		all.add(r, out)
		byKind[k.Name].add(r, out)
		s := ScenarioReport{Kind: k.Name, Number: r.Scenario.Number, HeldOut: k.HeldOut, Found: out.matched, By: out.by, DetectSeconds: since(r.Onset, out.first), LeadSeconds: since(out.first, r.Alert504),
			HeadroomSeconds: since(r.Oracle, r.Alert504), Alert504Seconds: since(r.Onset, r.Alert504), RightPages: out.right, WrongPages: append([]Page{}, out.wrong...), RivalLeadSeconds: map[string]*float64{}}
		if s.HeadroomSeconds != nil {
			headrooms[k.Name] = append(headrooms[k.Name], *s.HeadroomSeconds)
		}
		if !r.Alert504.IsZero() {
			kinds[k.Name].With504++
		}
		if out.by != "" && !slices.Contains(kinds[k.Name].FirstBy, out.by) {
			kinds[k.Name].FirstBy = append(kinds[k.Name].FirstBy, out.by)
		}
		for _, v := range rivals {
			ro := r.judgePages(r.rivalPages(v, levels[v.name]))
			rivalTally[v.name].add(r, ro)
			s.RivalLeadSeconds[v.name] = since(ro.first, r.Alert504)
		}
		rep.Scenarios = append(rep.Scenarios, s)
	}
	for _, name := range order {
		k := kinds[name]
		k.Figures, k.MedianHeadroomSeconds = byKind[name].figures(), quantileOf(headrooms[name], 0.5)
		rep.Kinds = append(rep.Kinds, *k)
	}
	rep.Total.Figures = all.figures()
	for _, v := range rivals {
		over := 0
		for _, p := range peaks[v.name] {
			if p > levels[v.name] {
				over++
			}
		}
		rep.Total.Rivals[v.name] = Rival{Figures: rivalTally[v.name].figures(), Level: levels[v.name], FalsePages: over}
	}
	return rep
}

func (r *rivalSeries) keys() []rivalKey {
	var out []rivalKey
	for k := range r.p95 {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b rivalKey) int {
		return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.agent, b.agent), cmp.Compare(a.kind, b.kind))
	})
	return out
}

func number(v *float64, format string, per float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v/per)
}

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "kind\tfound\twrong pages\tonset to page min\tonset to 504 min\theadroom min\tlead min\tlead/headroom median\tP10\tfirst by")
	for _, k := range r.Kinds {
		name := k.Kind
		if k.HeldOut {
			name += " *"
		}
		var to504 []float64
		for _, s := range r.Scenarios {
			if s.Kind == k.Kind && s.Alert504Seconds != nil {
				to504 = append(to504, *s.Alert504Seconds)
			}
		}
		found := 0
		for _, s := range r.Scenarios {
			if s.Kind == k.Kind && s.Found {
				found++
			}
		}
		fmt.Fprintf(t, "%s\t%d/%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, found, k.Scenarios, k.WrongPages, number(k.MedianDetectSeconds, "%.1f", 60), number(quantileOf(to504, 0.5), "%.1f", 60),
			number(k.MedianHeadroomSeconds, "%.1f", 60), number(k.MedianLeadSeconds, "%.1f", 60), number(k.MedianLeadOverHeadroom, "%.2f", 1), number(k.P10LeadOverHeadroom, "%.2f", 1), join(k.FirstBy))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "method\trecall\tprecision\tmedian lead min\twith 12 min headroom\tlead/headroom median\tP10\tfalse pages in healthy traffic\tlevel")
	line := func(name string, f Figures, pages int, level string) {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s (%d)\t%s\t%s\t%d\t%s\n", name, number(f.Recall, "%.3f", 1), number(f.Precision, "%.3f", 1), number(f.MedianLeadSeconds, "%.1f", 60),
			number(f.MedianLeadLongSeconds, "%.1f", 60), f.LongScenarios, number(f.MedianLeadOverHeadroom, "%.2f", 1), number(f.P10LeadOverHeadroom, "%.2f", 1), pages, level)
	}
	line("driftline", r.Total.Figures, r.Total.FalsePages, "")
	for _, v := range rivals {
		x := r.Total.Rivals[v.name]
		line(v.name, x.Figures, x.FalsePages, fmt.Sprintf("%.2f", x.Level))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	h := r.Healthy
	fmt.Fprintf(w, "\nseed %d; healthy traffic: %d days of %d slices, %d of them under one request a minute: %d pages, %d 504 alerts; at most %s false pages per 30 days (95 %%)\n",
		r.Seed, h.Days, h.Slices, h.SlowSlices, len(h.Pages), h.Alerts504, number(r.Total.FalsePagesPer30d, "%.2f", 1))
	for _, p := range h.Pages {
		fmt.Fprintf(w, "  healthy: %s %s %s: %s\n", p.At.Format(time.RFC3339), p.Detection, p.Slice, p.Text)
	}
	return nil
}

func join(xs []string) string {
	if len(xs) == 0 {
		return "-"
	}
	s := xs[0]
	for _, x := range xs[1:] {
		s += ", " + x
	}
	return s
}
