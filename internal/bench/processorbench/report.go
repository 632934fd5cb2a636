package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"driftline/internal/bench/report"
)

// middle gives the median of one figure over the rounds.
func middle(rounds []result, figure func(result) float64) float64 {
	values := make([]float64, 0, len(rounds))
	for _, r := range rounds {
		values = append(values, figure(r))
	}
	slices.SortFunc(values, cmp.Compare[float64])
	return values[len(values)/2]
}

// ratio gives the median over the rounds of a figure of ours to the peer's in the same
// round, so that a machine that is busy for a while does not count for one of them alone.
func ratio(ours, peer []result, figure func(result) float64) float64 {
	values := make([]float64, 0, len(ours))
	for i := range ours {
		values = append(values, figure(ours[i])/figure(peer[i]))
	}
	slices.SortFunc(values, cmp.Compare[float64])
	return values[len(values)/2]
}

func peakOf(r result) float64      { return float64(r.peak) }
func liveOf(r result) float64      { return float64(r.live) }
func rowsOf(r result) float64      { return float64(r.rows) / float64(r.spans) }
func allocatedOf(r result) float64 { return float64(r.allocated) / float64(r.spans) }

// render prints the tables, with the ratios last, and writes the page asked for.
func (o options) render(all map[string]map[string][]result, began string) error {
	var b strings.Builder
	b.WriteString("## The processor beside contrib's groupbytraceprocessor\n\n")
	first := all[mixes[0].name][nameOurs][0]
	fmt.Fprintf(&b, "%d spans a run in traces of %d (seed %d), batches of about %d spans from %d services, %d senders; a trace comes in two batches %s apart, the root with the second, and is held for %s from then on, in both processors alike. ",
		first.spans, spansPerTrace, o.seed, o.batch, o.services, o.senders, stepTime, o.hold)
	fmt.Fprintf(&b, "Median of %d interleaved rounds, load average %s before and %s after, last run %s. Made by `make bench`.\n\n",
		o.rounds, began, load(), time.Now().UTC().Format(time.DateOnly))
	b.WriteString("Time is simulated (testing/synctest), so only the processors' work is measured, garbage collection included, and not the making of spans; what comes out is read by a sink. " +
		"groupbytrace (v0.165, its defaults but for the wait) groups spans and hands them on. genaisegment (its defaults but for linger) also finds operations, attempts and segments, writes them onto the spans, and remembers released traces for late spans. " +
		"Peak heap is the most that objects on the heap took, garbage included, sampled every 2 ms; live is after a collection at the end of the traffic. Remembered traces are in both figures.\n\n")
	var table [][]string
	for _, mix := range mixes {
		for _, name := range []string{namePeer, nameOurs} {
			r := all[mix.name][name]
			table = append(table, []string{
				mix.name, name, fmt.Sprintf("%.0f", middle(r, result.spansPerSecond)), fmt.Sprintf("%.2f", middle(r, result.microsPerSpan)),
				fmt.Sprintf("%.0f", middle(r, peakOf)/(1<<20)), fmt.Sprintf("%.0f", middle(r, liveOf)/(1<<20)),
				fmt.Sprintf("%.0f", middle(r, allocatedOf)), fmt.Sprintf("%.2f", middle(r, rowsOf)),
			})
		}
	}
	b.WriteString(report.Table([]string{"traces", "processor", "#spans/s", "CPU (us/span)", "peak heap (MiB)", "live heap (MiB)", "allocated (B/span)", "#findings a span"}, table))
	ours := func(mix int) []result { return all[mixes[mix].name][nameOurs] }
	peer := func(mix int) []result { return all[mixes[mix].name][namePeer] }
	mixed, pure := ratio(ours(0), peer(0), result.spansPerSecond), ratio(ours(1), peer(1), result.spansPerSecond)
	heapMixed, heapPure := ratio(ours(0), peer(0), peakOf), ratio(ours(1), peer(1), peakOf)
	fmt.Fprintf(&b, "\nRatios of genaisegment to groupbytrace, median of the rounds: spans/s %.2f mixed (the bar is at least 1.5) and %.2f pure GenAI (at least 1.0); CPU a span %.2f and %.2f; peak heap %.2f and %.2f (at most 1.0, the goal is 0.8).\n",
		mixed, pure, ratio(ours(0), peer(0), result.microsPerSpan), ratio(ours(1), peer(1), result.microsPerSpan), heapMixed, heapPure)
	fmt.Println(b.String())
	if o.out != "" {
		if err := report.Replace(o.out, "processorbench", b.String()); err != nil {
			return err
		}
	}
	fmt.Printf("RATIO processor_spans_per_s=%.3f\nRATIO processor_spans_per_s_pure=%.3f\nRATIO processor_peak_heap=%.3f\n", mixed, pure, max(heapMixed, heapPure))
	return nil
}
