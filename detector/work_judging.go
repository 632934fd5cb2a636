package detector

import (
	"context"
	"sync"
	"time"

	"driftline/detector/store"
	"driftline/internal/rows"
)

// judgeWorks judges the detections over limits, load and misses of the slices that are
// judged in this round, and of agents of which nothing but open requests is seen.
func (e *Engine) judgeWorks(ctx context.Context, w time.Time, opSlices, reqSlices []Slice) ([]Verdict, error) {
	if err := e.works.read(ctx, e.store, w, e.cfg.LongWindow); err != nil {
		return nil, err
	}
	var out []Verdict
	judged, requests := map[scope]bool{}, map[scope]uint64{}
	kinds := map[scope][]Slice{}
	for _, s := range reqSlices {
		k := scope{s.Service, s.Agent}
		kinds[k] = append(kinds[k], s)
	}
	for _, s := range reqSlices {
		k := scope{s.Service, s.Agent}
		b := e.workBaseline(s)
		requests[k] += b.N
		var open OpenWork
		if o := e.works.open[k]; o != nil && !judged[k] { // an agent's first kind of request has them
			open = *o
		}
		judged[k] = true
		out = append(out, e.judgeWork(s, w, b, open, 1, kinds[k])...)
	}
	for _, s := range opSlices {
		b, perRequest := e.workBaseline(s), 1.0
		if n := requests[scope{s.Service, s.Agent}]; n > 0 {
			perRequest = float64(b.N) / float64(n)
		}
		out = append(out, e.judgeWork(s, w, b, OpenWork{}, perRequest, kinds[scope{s.Service, s.Agent}])...)
	}
	for _, s := range e.works.onlyOpen(judged) {
		out = append(out, e.judgeWork(s, w, e.workBaseline(s), *e.works.open[scope{s.Service, s.Agent}], 1, nil)...)
	}
	return out, nil
}

// onlyOpen lists slices for the agents with open requests that are not among those judged.
func (k *works) onlyOpen(judged map[scope]bool) []Slice {
	known := map[scope]Slice{}
	for _, s := range sortedSlices(k.blocks.bySlice) {
		if key := (scope{s.Service, s.Agent}); s.IsRequest() {
			if _, ok := known[key]; !ok {
				known[key] = s
			}
		}
	}
	out := map[Slice]bool{}
	for key := range k.open {
		if judged[key] {
			continue
		}
		s, ok := known[key]
		if !ok {
			s = Slice{Service: key.Service, Agent: key.Agent, Kind: rows.KindAgent}
		}
		out[s] = true
	}
	return sortedSlices(out)
}

// judgeWork judges one slice, of which a request makes so many calls on average; requests are
// the slices of its agent's requests. User time and steps are looked up for what asks for them
// alone.
func (e *Engine) judgeWork(s Slice, w time.Time, b WorkBaseline, open OpenWork, perRequest float64, requests []Slice) []Verdict {
	rules := e.cfg.For(s)
	window := func(length time.Duration) *WorkWindow {
		out := e.works.window(s, w.Add(-length), w, rules.Saturation.Window)
		out.Open, out.PerRequest, out.User = open, perRequest, func() store.Measure { return e.cells.userTime(s, w.Add(-length), w) }
		out.Steps = func() float64 { return e.moreSteps(requests, w.Add(-length), w) }
		return out
	}
	near := window(e.cfg.ShortWindow)
	far := sync.OnceValue(func() *WorkWindow { return window(e.cfg.LongWindow) })
	var out []Verdict
	for i := range workDetections {
		if d := &workDetections[i]; s.IsRequest() && d.requests || !s.IsRequest() && d.operations {
			started := time.Now()
			judge := func(w *WorkWindow) Verdict {
				if d.left {
					e.works.addLeft(w)
				}
				return d.judge(w, b, rules, &e.cfg)
			}
			if d.once {
				out = append(out, judge(near))
			} else {
				out = append(out, enough(judge, near, far))
			}
			e.took[d.name] += time.Since(started)
		}
	}
	return out
}

// userTime is the user time of a slice's work in [from, to).
func (c *cells) userTime(s Slice, from, to time.Time) store.Measure {
	m := emptyMeasure()
	if s.IsRequest() {
		c.reqs.each(s, from, to, userPart, func(c *store.RequestCell) { m.Add(c.User) })
	} else {
		c.ops.each(s, from, to, userPart, func(c *store.OperationCell) { m.Add(c.User) })
	}
	return m
}

// moreSteps is how many times as many calls the requests of some slices that ended in [from, to)
// made as usual, from 1 to mostSteps; 1 where that is not known.
func (e *Engine) moreSteps(requests []Slice, from, to time.Time) float64 {
	var now, calls, usual, usualCalls uint64
	for _, s := range requests {
		e.cells.reqs.each(s, from, to, noParts, func(c *store.RequestCell) { now, calls = now+c.N-min(c.N, c.Late), calls+c.Operations })
		b := e.baselines.Request(s)
		usualCalls += b.Operations
		for _, st := range b.Strata {
			usual += st.Requests
		}
	}
	return min(grown(share(calls, now), share(usualCalls, usual)), mostSteps)
}

// mostSteps is as much as longer tasks may explain.
const mostSteps = 2

// explainWork asks for what a breach alone does not say: who spent a deadline.
func (e *Engine) explainWork(ctx context.Context, v *Verdict) error {
	switch {
	case v.Detection == Cascade:
		all, err := e.store.Spenders(ctx, v.Slice, v.Slice, v.From, v.To)
		if err != nil {
			return err
		}
		explainCascade(v, all, func(s Slice) float64 { return e.workBaseline(s).OKMS })
	case v.Detection == DeadlineDrift && v.Slice.IsRequest():
		all, err := e.store.Spenders(ctx, v.Slice, Slice{}, v.From, v.To)
		if err != nil {
			return err
		}
		misses, err := e.store.MissTable(ctx, v.Slice, v.From, v.To)
		if err != nil {
			return err
		}
		explainDrift(v, all, misses)
	}
	return nil
}
