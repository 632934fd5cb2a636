package detector

import (
	"fmt"
	"math"

	"driftline/detector/stats"
)

// JudgeSaturation judges saturation: the utilisation rho = L / c. L is the mean number in
// service, by Little's law (Little 1961) the arrival rate times the mean time in service, here
// the time that work which ended in the window occupied servers, over the window. c is
// configured, or the plateau of observed concurrency. Time in queues and backoff is not
// service. The interval is that of a compound Poisson sum: the relative variance of L is
// (1 + scv) / n, with scv the squared coefficient of variation of service time.
//
// Waiting is foretold by Erlang C and Allen-Cunneen (see stats.QueueWait): a large pool has
// its knee later, and is not warned of while hardly any work would wait.
func JudgeSaturation(w WorkWindow, b WorkBaseline, cfg SaturationConfig, minBlocks int) Verdict {
	v := Verdict{Detection: Saturation, Slice: w.Slice, From: w.To.Add(-w.LoadSpan), To: w.To, P: 1, Unit: "1", EffectUnit: "1", Severity: Warning, Samples: w.Load.N}
	c, source := cfg.Concurrency, "configured"
	if c == 0 {
		c, source = int(b.Plateau), "inferred"
	}
	span, n := w.LoadSpan.Seconds(), float64(w.Load.N)
	switch {
	case c == 0:
		return v.with(Insufficient, "concurrency_unknown")
	case w.Load.N < cfg.MinWork || w.Load.BusyNS <= 0 || span <= 0:
		return v.with(Insufficient, "little_work")
	}
	busy := float64(w.Load.BusyNS) / 1e9
	mean := busy / n
	if mean > span/2 {
		return v.with(Insufficient, "longer_than_window")
	}
	if b.Blocks < minBlocks {
		return v.with(NoBaseline, "learning")
	}
	scv := max(w.Load.BusySquared/n/(mean*mean)-1, 0)
	load := busy / span
	se := math.Sqrt((1 + scv) / n)
	rho, usual := load/float64(c), b.Load/float64(c)
	v.Value, v.Baseline, v.Threshold = rho, usual, cfg.Knee
	v.Effect = stats.Interval{Estimate: rho, Lo: rho * math.Exp(-z95*se), Hi: rho * math.Exp(z95*se), Confidence: 0.95}
	// Against the usual load: places are never more than full, so that a few hundred calls can
	// not show beyond doubt that more are busy than at the clear level. That is the interval's.
	v.P = normSF(math.Log(rho/max(usual, 0.01)) / se)
	// The formulas end at c, beyond which a queue only grows.
	held := min(load, 0.999*float64(c))
	chance, err := stats.ErlangC(c, held)
	if err != nil {
		return v.with(Insufficient, "little_work")
	}
	wait, _ := stats.QueueWait(c, held, 1, scv)
	more, _ := stats.QueueWait(c, min(1.1*load, 0.999*float64(c)), 1, scv)
	queue := float64(w.Load.QueueNS) / n / 1e6
	v.number("concurrency", float64(c))
	v.number("load", load)
	v.number("arrivals_per_s", n/span)
	v.number("service_mean_ms", mean*1e3)
	v.number("service_scv", scv)
	v.number("wait_chance", chance)
	v.number("wait_mean_ms", wait*mean*1e3)
	v.number("wait_mean_ms_at_10_percent_more", more*mean*1e3)
	v.number("queue_mean_ms", queue)
	v.number("queue_mean_baseline_ms", b.QueueMS)
	v.Severity = severity(missed(w.Sum.Missed, w.Sum.Known, b.Missed, b.Known, cfg.MissShare))
	v.Text = fmt.Sprintf("%.0f %% of %d places (%s) are busy (95 %% interval %.0f to %.0f %%; usual %.0f %%): %.2f arrive each second and take %.1f s; %.0f %% of new work waits, %.1f s on average over all, and %.1f s with 10 %% more load",
		100*rho, c, source, 100*v.Effect.Lo, 100*v.Effect.Hi, 100*usual, n/span, mean, 100*chance, wait*mean, more*mean)
	v.Cause = "load nears the number of places: from here on a little more load makes waits grow quickly"
	queues := queue > 2*max(b.QueueMS, 10*mean) // twice the usual, or 2 % of the service time
	if queues {
		v.Cause += fmt.Sprintf("; queue time has grown from %.2f to %.2f s", b.QueueMS/1e3, queue/1e3)
	}
	switch {
	case rho < cfg.Clear:
		return v.with(Quiet, "as_usual")
	case rho < cfg.Knee || v.Effect.Lo < cfg.Clear:
		return v.with(Hold, "between")
	case chance < cfg.MinWait:
		return v.with(Hold, "large_pool")
	case rho < usual+cfg.Step:
		return v.with(Hold, "always_so")
	case source == "inferred" && !queues:
		// A batch job keeps its own few workers busy all the time without any queue.
		return v.with(Hold, "no_queue")
	}
	return v.with(Breach, "past_the_knee")
}
