package detector

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"
)

// minSilent is how many requests must be missing before silence means anything.
const minSilent = 20

// judgeSilence judges pipeline_health per service: no rows for the grace although
// the baseline says that minSilent requests were due.
func judgeSilence(perMinute map[string]float64, seen map[string]bool, w time.Time, cfg Config) []Verdict {
	names := make([]string, 0, len(perMinute))
	for s := range perMinute {
		names = append(names, s)
	}
	for s := range seen {
		if _, ok := perMinute[s]; !ok {
			names = append(names, s)
		}
	}
	sort.Strings(names)
	var out []Verdict
	for _, s := range names {
		v := Verdict{Detection: PipelineHealth, Slice: Slice{Service: s}, From: w.Add(-cfg.NoDataGrace), To: w, P: 1, Unit: "requests/min",
			Severity: Warning, Baseline: perMinute[s], Threshold: 0}
		switch {
		case seen[s]:
			out = append(out, v.with(Quiet, "data"))
		case perMinute[s]*cfg.NoDataGrace.Minutes() >= minSilent:
			v.Text = fmt.Sprintf("no data from %s for %s, though %.0f requests per minute are usual", s, short(cfg.NoDataGrace), perMinute[s])
			v.Cause = "the service, its exporter, the collector or the store stopped; this says nothing about latency"
			out = append(out, v.with(Breach, "no_data"))
		}
	}
	return out
}

// ownService is the slice of findings about driftline itself.
const ownService = "driftline"

// blind handles a round that failed: after the grace it fires pipeline_health, and
// sends it even though nothing can be stored, since nobody else will.
func (e *Engine) blind(ctx context.Context, now time.Time, round *Round) error {
	if now.Sub(e.lastOK) < e.cfg.NoDataGrace {
		return nil
	}
	if e.book == nil {
		e.book = early(now)
	}
	v := Verdict{Detection: PipelineHealth, Slice: Slice{Service: ownService}, From: e.lastOK, To: now, P: 1, Unit: "s", Severity: Warning,
		Value: now.Sub(e.lastOK).Seconds(), Threshold: e.cfg.NoDataGrace.Seconds(),
		Text:  fmt.Sprintf("no evaluation has succeeded for %s", short(now.Sub(e.lastOK))),
		Cause: "the store cannot be reached, or refuses queries: see the detector's log"}
	e.live(ctx, now, []Verdict{v.with(Breach, "store_unreachable")}, false, round)
	return errors.Join(e.notify(ctx, now))
}

// seeing is the verdict that ends blindness.
func seeing(w time.Time) Verdict {
	v := Verdict{Detection: PipelineHealth, Slice: Slice{Service: ownService}, From: w.Add(-time.Minute), To: w, P: 1, Unit: "s", Severity: Warning}
	return v.with(Quiet, "data")
}
