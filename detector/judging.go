package detector

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"driftline/detector/stats"
)

// lagMargin is added to the measured ingest lag, for the insert itself.
const lagMargin = 10 * time.Second

// minLagSamples is how many requests a lag must be measured on.
const minLagSamples = 20

// delay is how long a minute must be over before it is judged: with what recent
// requests took to arrive, so that no window is judged before its data is in.
func (e *Engine) delay(ctx context.Context, now time.Time) (time.Duration, error) {
	lag, n, err := e.store.IngestLag(ctx, now.Add(-10*time.Minute), now)
	if err != nil {
		return 0, err
	}
	if n < minLagSamples {
		return e.cfg.EvalDelay, nil
	}
	e.lag = lag
	e.metrics.lag.Record(ctx, lag.Seconds())
	return min(max(e.cfg.EvalDelay, lag+lagMargin), e.cfg.MaxEvalDelay), nil
}

// judge judges all slices as of the watermark.
func (e *Engine) judge(ctx context.Context, w time.Time) ([]Verdict, error) {
	from := w.Add(-e.cfg.LongWindow)
	if err := e.cells.read(ctx, e.store, from, w); err != nil {
		return nil, err
	}
	budgets, err := e.store.Budgets(ctx, from, w)
	if err != nil {
		return nil, err
	}
	known := map[Slice]float64{}
	for _, b := range budgets {
		if b.Known*2 >= b.N { // a budget that few requests have is not the agent's
			known[b.Slice] = float64(b.MedianNS) / 1e6
		}
	}
	near := w.Add(-e.cfg.ShortWindow)
	c := &e.cells
	out := make([]Verdict, 0, e.verdicts)
	opSlices := e.bound(ctx, settled(c.ops.slicesWithin(from, w)), func(s Slice) uint64 { return c.ops.bySlice[s].n(from.Unix(), w.Unix()) })
	for _, s := range opSlices {
		c.open(&e.near, s, near, w, from, allNeeds)
		out = e.judgeOperation(out, s, from, w)
	}
	nameTTFTCauses(out)
	namePileUps(out, func(s Slice, from, to time.Time) *OperationWindow { return c.operationWindow(s, from, to, from) })
	reqSlices := e.bound(ctx, settled(c.reqs.slicesWithin(from, w)), func(s Slice) uint64 { return c.reqs.bySlice[s].n(from.Unix(), w.Unix()) })
	for _, s := range reqSlices {
		long := sync.OnceValue(func() *RequestWindow { return c.requestWindow(s, from, w, from, known[s]) })
		out = append(out, e.judgeRequests(c.requestWindow(s, near, w, from, known[s]), long)...)
	}
	works, err := e.judgeWorks(ctx, w, opSlices, reqSlices)
	if err != nil {
		return nil, err
	}
	out = append(out, works...)
	gateway := c.gatewayMinutes(w.Add(-e.cfg.gatewayMinutes()), w)
	for _, s := range sortedSlices(gateway) {
		if g := gateway[s]; g[len(g)-1].At.Equal(w.Add(-time.Minute)) {
			out = append(out, JudgeGateway(s, g, e.cfg.For(s).Gate))
		}
	}
	out = append(out, judgeSilence(e.baselines.services(), c.services(w.Add(-e.cfg.NoDataGrace), w), w, e.cfg)...)
	e.verdicts = len(out) + len(out)/16
	return falseDiscoveries(out, e.cfg.FDR, e.cfg.MaxP), nil
}

// judgeOperation judges the slice whose short window is in e.near, and appends to out.
func (e *Engine) judgeOperation(out []Verdict, s Slice, from, to time.Time) []Verdict {
	b := e.baselines.Operation(s).at(e.seasons.factor(s, to))
	rules := e.cfg.For(s)
	model := modelKind(s.Kind)
	opened := false
	for i := range operationDetections {
		d := &operationDetections[i]
		if d.models && !model {
			continue
		}
		started := time.Now()
		judge := func(x *operationRoom) Verdict {
			e.cells.fill(x, d.needs)
			v := d.judge(&x.w, b, rules, &e.cfg)
			if v.Level == Breach {
				e.cells.fill(x, allNeeds) // for its evidence
				v = d.judge(&x.w, b, rules, &e.cfg)
			}
			return v
		}
		v := judge(&e.near)
		if v.Level == Insufficient {
			if !opened {
				e.cells.open(&e.far, s, from, to, from, onlyCounts)
				opened = true
			}
			if far := judge(&e.far); far.Level != Insufficient {
				v = far
			}
		}
		out = append(out, v)
		e.took[d.name] += time.Since(started)
	}
	return out
}

func (e *Engine) judgeRequests(short *RequestWindow, long func() *RequestWindow) []Verdict {
	b, rules := e.baselines.Request(short.Slice), e.cfg.For(short.Slice)
	out := make([]Verdict, 0, len(requestDetections))
	for i := range requestDetections {
		d := &requestDetections[i]
		started := time.Now()
		out = append(out, enough(func(w *RequestWindow) Verdict { return d.judge(w, b, rules, &e.cfg) }, short, long))
		e.took[d.name] += time.Since(started)
	}
	return out
}

// enough judges the short window, and the long one where the short has too few samples.
// The long one is put together for those alone.
func enough[W any](judge func(*W) Verdict, short *W, long func() *W) Verdict {
	v := judge(short)
	if v.Level == Insufficient {
		if l := judge(long()); l.Level != Insufficient {
			return l
		}
	}
	return v
}

// settled leaves out work whose agent is not known. Nearly all of it belongs to requests
// that are still open and moves to its agent when they end, so such a slice holds mostly
// the slow ones of the last minutes and never has a history to be judged against.
func settled(all []Slice) []Slice {
	return slices.DeleteFunc(all, func(s Slice) bool { return s.Agent == "" })
}

// bound keeps the busiest slices and counts the rest.
func (e *Engine) bound(ctx context.Context, all []Slice, n func(Slice) uint64) []Slice {
	over := len(all) - e.cfg.MaxSlices
	if over <= 0 {
		return all
	}
	slices.SortStableFunc(all, func(a, b Slice) int { return cmp.Compare(n(b), n(a)) })
	e.metrics.dropped.Add(ctx, int64(over))
	return all[:e.cfg.MaxSlices]
}

// falseDiscoveries lets only those breaches stand that survive the control of
// false discoveries over the slices of their detection.
//
// That bounds chance within a round. Over the thousands of rounds of a week also rare
// chances come, so a breach must be less likely than maxP by itself, unless it is of the same
// work in each of them.
func falseDiscoveries(vs []Verdict, q, maxP float64) []Verdict {
	byDetection := map[string][]int{}
	for i, v := range vs {
		if v.Level == Breach || v.Level == Hold || v.Level == Quiet {
			byDetection[v.Detection] = append(byDetection[v.Detection], i)
		}
	}
	for detection, at := range byDetection {
		if detection == Alert504 || detection == PipelineHealth {
			continue // fixed rules without a test
		}
		ps := make([]float64, len(at))
		for i, j := range at {
			ps[i] = min(max(vs[j].P, 0), 1)
			if ps[i] != ps[i] {
				ps[i] = 1
			}
		}
		r, err := stats.BenjaminiHochberg(ps, q)
		if err != nil {
			continue
		}
		for i, j := range at {
			vs[j].number("p_adjusted", r.Adjusted[i])
			switch {
			case vs[j].Level != Breach:
			case !r.Reject[i]:
				vs[j] = vs[j].with(Hold, "fdr")
			case ps[i] > maxP && !vs[j].Lasting:
				vs[j] = vs[j].with(Hold, "chance")
			}
		}
	}
	return vs
}
