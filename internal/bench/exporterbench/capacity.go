package main

import (
	"fmt"
	"math"
	"strings"

	"driftline/internal/bench/report"
	"driftline/schema"
)

// What a shard is taken to be, and how traffic is taken to vary over a day.
const (
	shardCores = 8
	shardBytes = 2e12
	// headroom is the share of a shard's processors and disk that is planned with: the rest
	// is for queries, merges that lag and growth.
	headroom = 0.5
	// peak is the busiest minute's traffic over the day's mean.
	peak = 4
	// spansPerBatch is how many spans with their findings fill the default batch.
	spansPerBatch = 15_000
)

// capacity turns what was measured into rows, bytes, inserts and shards per traffic.
func capacity(o options, r result) string {
	requests := 0.0
	for _, t := range r.tables {
		if t.name == "requests_base" {
			requests = float64(t.rows)
		}
	}
	ttl := schema.DefaultTTLDays()
	var b strings.Builder
	fmt.Fprintf(&b, "Measured with %d spans of %.0f requests (%.1f spans, %.1f operations a request), bytes after merges, by `go run ./internal/bench/exporterbench`.\n\n",
		r.spans, requests, float64(r.spans)/requests, perRequest(r, "operations_base", requests))
	b.WriteString("Per million requests a day, of one copy of the rows:\n\n")
	var rows [][]string
	var daily, kept float64
	for _, t := range r.tables {
		if t.rows == 0 {
			continue
		}
		days := float64(ttl[strings.TrimSuffix(t.name, "_base")])
		bytes := float64(t.bytes) / requests * 1e6
		daily, kept = daily+bytes, kept+bytes*days
		rows = append(rows, []string{t.name, fmt.Sprintf("%.2f", float64(t.rows)/requests), fmt.Sprintf("%.2f", bytes/1e9), fmt.Sprintf("%.0f", days), fmt.Sprintf("%.1f", bytes*days/1e9)})
	}
	rows = append(rows, []string{"all", fmt.Sprintf("%.2f", float64(r.rows())/requests), fmt.Sprintf("%.2f", daily/1e9), "", fmt.Sprintf("%.1f", kept/1e9)})
	b.WriteString(report.Table([]string{"table", "rows a day (million)", "bytes a day (GB)", "kept (days)", "on disk (GB)"}, rows))
	engine := r.all.Seconds() / float64(r.spans) // processor seconds per span, merges included
	spansPerRequest := float64(r.spans) / requests
	fmt.Fprintf(&b, "\nThe engine used %.1f µs of processor time a span, merges included; a shard is taken to have %d cores and %.0f TB, of which %.0f %% are planned with, and the busiest minute %d times the mean traffic. "+
		"A collector sends a batch after a second or at 32 MiB, which is about %d spans, and a batch is one INSERT into each table that it has rows for.\n\n",
		engine*1e6, shardCores, shardBytes/1e12, headroom*100, peak, spansPerBatch)
	rows = nil
	for _, millions := range []float64{1, 10, 100} {
		spans := millions * 1e6 * spansPerRequest / 86400 * peak
		cores := spans * engine
		bytes := millions * kept
		byCPU, byDisk := math.Ceil(cores/(shardCores*headroom)), math.Ceil(bytes/(shardBytes*headroom))
		inserts := math.Max(1, spans/spansPerBatch)
		rows = append(rows, []string{fmt.Sprintf("%.0f", millions), fmt.Sprintf("%.0f", spans), fmt.Sprintf("%.2f", inserts), fmt.Sprintf("%.2f", cores),
			fmt.Sprintf("%.2f", bytes/1e12), fmt.Sprintf("%.0f", math.Max(byCPU, byDisk))})
	}
	b.WriteString(report.Table([]string{"requests a day (million)", "spans/s in the busiest minute (1/s)", "INSERTs a table (1/s)", "cores for inserts and merges (cores)", "on disk (TB)", "shards needed (shards)"}, rows))
	return b.String()
}

func perRequest(r result, table string, requests float64) float64 {
	for _, t := range r.tables {
		if t.name == table {
			return float64(t.rows) / requests
		}
	}
	return 0
}
