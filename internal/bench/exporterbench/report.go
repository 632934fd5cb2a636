package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"driftline/internal/bench/report"
)

// median returns the round whose spans per second are in the middle.
func median(rounds []result) result {
	sorted := slices.Clone(rounds)
	slices.SortFunc(sorted, func(a, b result) int { return cmp.Compare(a.spansPerSecond(), b.spansPerSecond()) })
	return sorted[len(sorted)/2]
}

// render prints the comparison, with the two ratios last, and writes the pages asked for.
func render(o options, all map[string][]result) error {
	peer, ours, informed := median(all[nameContrib]), median(all[nameDriftline]), median(all[nameContribFindings])
	speed, bytes := ours.spansPerSecond()/peer.spansPerSecond(), ours.bytesPerSpan()/peer.bytesPerSpan()
	var b strings.Builder
	fmt.Fprintf(&b, "## The exporter beside contrib's clickhouseexporter\n\n")
	fmt.Fprintf(&b, "%d GenAI spans without content, the same for all (seed %d), into one embedded engine over HTTP, compression %s, in batches of %d spans, %d at once; median of %d rounds, last run %s. ",
		o.spans, o.seed, o.compress, o.batch, o.workers, o.rounds, time.Now().UTC().Format(time.DateOnly))
	b.WriteString("Made by `go run ./internal/bench/exporterbench`. contrib's exporter gets the spans as an SDK sends them; genaiclickhouse gets them as genaisegment hands them on, with 1.7 findings a span. " +
		"In the last row, for comparison, contrib's exporter gets those too and stores the findings as span events.\n\n")
	row := func(r result) []string {
		return []string{r.name, fmt.Sprintf("%.0f", r.spansPerSecond()), fmt.Sprintf("%.2f", r.rowsPerSpan()), fmt.Sprintf("%.1f", r.bytesPerSpan()),
			fmt.Sprintf("%.1f", r.perSpan(r.own)), fmt.Sprintf("%.1f", r.perSpan(r.other)), fmt.Sprintf("%.1f", r.perSpan(r.all))}
	}
	b.WriteString(report.Table([]string{"exporter", "#spans/s", "#rows a span", "disk (B/span)", "own CPU (us/span)", "engine CPU (us/span)", "with merges (us/span)"},
		[][]string{row(peer), row(ours), row(informed)}))
	fmt.Fprintf(&b, "\nRatios of genaiclickhouse to contrib's exporter: spans/s %.2f (the bar is at least 1.0), bytes a span %.2f (the bar is at most 0.5). With the same findings in both: spans/s %.2f, bytes a span %.2f.\n\n",
		speed, bytes, ours.spansPerSecond()/informed.spansPerSecond(), ours.bytesPerSpan()/informed.bytesPerSpan())
	var tables [][]string
	for _, t := range ours.tables {
		if t.rows > 0 {
			tables = append(tables, []string{t.name, fmt.Sprintf("%.2f", float64(t.rows)/float64(ours.spans)), fmt.Sprintf("%.1f", float64(t.bytes)/float64(t.rows)), fmt.Sprintf("%.1f", float64(t.bytes)/float64(ours.spans))})
		}
	}
	b.WriteString(report.Table([]string{"table", "#rows a span", "bytes a row (B)", "bytes a span (B)"}, tables))
	cost := func(state string, c viewCost) []string {
		return []string{state, fmt.Sprintf("%.0f", c.view.Seconds()*1e3), fmt.Sprintf("%.0f", c.base.Seconds()*1e3), fmt.Sprintf("%.2f", c.view.Seconds()/c.base.Seconds())}
	}
	b.WriteString("\nWhat it costs readers that views hide older revisions and tombstones: all operations by model or tool, with their count, P95 and errors, through the view and from the base table without FINAL.\n\n")
	b.WriteString(report.Table([]string{"state of the table", "view (ms)", "without FINAL (ms)", "#ratio"}, [][]string{cost("as inserted", ours.fresh), cost("merged", ours.merged)}))
	fmt.Println(b.String())
	if o.out != "" {
		if err := report.Replace(o.out, "exporterbench", b.String()); err != nil {
			return err
		}
	}
	if o.capacity != "" {
		if err := report.Replace(o.capacity, "capacity", capacity(o, ours)); err != nil {
			return err
		}
	}
	fmt.Printf("RATIO exporter_spans_per_s=%.3f\nRATIO bytes_per_span=%.3f\n", speed, bytes)
	return nil
}
