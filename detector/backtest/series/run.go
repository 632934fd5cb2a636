package series

import (
	"context"
	"fmt"
	"slices"
	"time"

	"driftline/detector"
	"driftline/detector/memory"
	"driftline/internal/clock"
	"driftline/internal/rows"
)

// maxLength bounds a series: a round is run for each of its minutes.
const maxLength = 400 * 24 * time.Hour

// slice names what a series is judged as.
var slice = detector.Slice{Service: "series", Agent: "series", Kind: rows.KindChat, Target: "series", Stream: rows.StreamNo}

// sink keeps what is sent.
type sink struct{ got []detector.Alert }

// Name is the notifier's.
func (*sink) Name() string { return "series" }

// Notify keeps all but repeats.
func (s *sink) Notify(_ context.Context, alerts []detector.Alert) error {
	for _, a := range alerts {
		if !a.Resend {
			s.got = append(s.got, a)
		}
	}
	return nil
}

// Run judges a series minute by minute, by the detections of P95 alone, and returns what the
// engine would have sent, firing and resolved, in order of time. Points may be in any order.
// A series in which no minute could be judged is an error: no alert would look like health.
func Run(ctx context.Context, cfg detector.Config, points []Point) ([]detector.Alert, error) {
	if len(points) == 0 {
		return nil, nil
	}
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b Point) int { return a.At.Compare(b.At) })
	first, last := points[0].At.Truncate(time.Minute), points[len(points)-1].At
	if length := last.Sub(first); length > maxLength {
		return nil, fmt.Errorf("the series is %s long, from %s to %s: want at most %s; is a timestamp wrong?", length.Round(time.Hour), first.Format(time.RFC3339), last.Format(time.RFC3339), maxLength)
	}
	if !slices.ContainsFunc(points, func(p Point) bool { return p.Latency > 0 }) {
		return nil, fmt.Errorf("all %d values are 0: nothing is usual to be compared with", len(points))
	}
	cfg.Overrides = nil
	cfg.Shadow = map[string]bool{}
	for _, name := range detector.Shadowable() {
		cfg.Shadow[name] = name != detector.P95Surge && name != detector.P95Spread
	}
	st, out := memory.New(), &sink{}
	e, err := detector.New(cfg, st, st, []detector.Notifier{out}, clock.NewManual(first))
	if err != nil {
		return nil, err
	}
	next, judged := 0, false
	for end := first.Add(time.Minute); ; end = end.Add(time.Minute) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for ; next < len(points) && points[next].At.Before(end); next++ {
			st.AddOperations(operation(points[next]))
		}
		if end.Minute() == 0 {
			st.Forget(end.Add(-cfg.BaselineWindow - 2*time.Hour))
		}
		round, err := e.Evaluate(ctx, end.Add(cfg.EvalDelay))
		if err != nil {
			return nil, fmt.Errorf("minute that ends at %s: %w", end.Format(time.RFC3339), err)
		}
		for _, v := range round.Verdicts {
			judged = judged || v.Detection == detector.P95Surge && v.Level != detector.Insufficient && v.Level != detector.NoBaseline
		}
		if !end.Before(last) && next == len(points) {
			if !judged {
				return nil, fmt.Errorf("no minute of the series, with %d values from %s to %s, could be judged: a window needs %d values, and %d blocks of %s with values before the last %s to be compared with",
					len(points), first.Format(time.RFC3339), last.Format(time.RFC3339), cfg.Surge.MinOperations, cfg.MinBlocks, cfg.BlockLength, cfg.LongWindow)
			}
			return out.got, nil
		}
	}
}

func operation(p Point) *rows.Operation {
	o := &rows.Operation{Target: slice.Target, Stream: slice.Stream, TTFTState: rows.TTFTNotApplicable}
	o.ServiceName, o.Agent, o.Kind, o.Outcome, o.SampleWeight = slice.Service, slice.Agent, slice.Kind, rows.OutcomeOK, 1
	ns := p.Latency.Nanoseconds()
	o.EndedAt, o.UserTimeNS, o.InferenceTimeNS = p.At.UnixNano(), ns, &ns
	o.StartedAt = o.EndedAt - ns
	return o
}
