package detector

import (
	"sort"
	"time"

	"driftline/detector/stats"
	"driftline/detector/store"
	"driftline/internal/rows"
)

// layerOrder are the layers that retry, the outermost first.
var layerOrder = [...]string{rows.LayerFramework, rows.LayerSDK, rows.LayerTransport, rows.LayerClient}

// layerNames are their names for people.
var layerNames = [...]string{"framework", "SDK", "transport", "client (as its server sees it)"}

// layerCounts has a count for each of layerOrder.
type layerCounts [len(layerOrder)]uint64

// AttemptWindow is the attempts of calls of one agent to one target, streamed or not, in
// a window: attempts are not rolled up by streaming.
type AttemptWindow struct {
	// N counts tries of all layers, Leaf those with none below them.
	N, Leaf uint64
	// Extra counts by layer the tries after the first of their kind. Each adds one leaf, so
	// leaf attempts less all extra ones are the operations.
	Extra layerCounts
	// Failed counts tries that failed; Timeouts and Overloads are among them.
	Failed, Timeouts, Overloads uint64
	// Cut are the lengths of leaf tries that a timeout or a cancellation ended.
	Cut store.Measure
	// CutAtCap are those among them that ended at their declared timeout.
	CutAtCap uint64
	// Endpoints are by name.
	Endpoints map[string]EndpointTries
}

// EndpointTries are an endpoint's tries.
type EndpointTries struct{ N, Failed uint64 }

// AttemptBaseline is what was normal for such attempts.
type AttemptBaseline struct {
	N, Leaf uint64
	Extra   layerCounts
	// Failed counts tries that failed, Cut leaf ones that were ended before they were done.
	Failed, Cut uint64
}

// attemptsIn puts the tries of the slice's calls in [from, to), streamed or not, into w and
// says whether there are any.
func (c *cells) attemptsIn(w *AttemptWindow, s Slice, from, to time.Time) (any bool) {
	s.Stream = ""
	cut, endpoints := w.Cut.Hist, w.Endpoints
	if cut == nil {
		cut, endpoints = &stats.Hist{}, map[string]EndpointTries{}
	}
	clear(endpoints)
	*w = AttemptWindow{Cut: store.Measure{Hist: cut}, Endpoints: endpoints}
	c.atts.each(s, from, to, allParts, func(a *store.AttemptCell) {
		any = true
		w.add(a)
		c.sums.cut.Add(a.Cut.Hist)
	})
	c.sums.cut.Take(cut)
	return any
}

func (w *AttemptWindow) add(c *store.AttemptCell) {
	w.N += c.N
	w.Leaf += c.Leaf
	w.Extra.add(c.Layer, c.Extra)
	w.Failed += c.Failed
	w.Timeouts += c.Timeouts
	w.Overloads += c.Overloads
	count(&w.Cut, c.Cut)
	w.CutAtCap += c.CutAtCap
	e := w.Endpoints[c.Endpoint]
	e.N, e.Failed = e.N+c.N, e.Failed+c.Failed
	w.Endpoints[c.Endpoint] = e
}

func (l *layerCounts) add(layer string, n uint64) {
	for i, name := range layerOrder {
		if name == layer {
			l[i] += n
		}
	}
}

func attemptBlockFields(k *AttemptBaseline, f *coder) {
	f.u(&k.N, &k.Leaf, &k.Failed, &k.Cut)
	for i := range k.Extra {
		f.u(&k.Extra[i])
	}
}

// LoadAttempts puts whole blocks of tries, in the order of slices, into the baseline.
func (b *Baselines) LoadAttempts(all []store.AttemptBlock) {
	for i := 0; i < len(all); {
		s, at := all[i].Slice, b.blockOf(all[i].At)
		var k AttemptBaseline
		for ; i < len(all) && all[i].Slice == s && b.blockOf(all[i].At) == at; i++ {
			m := &all[i]
			k.N, k.Leaf, k.Failed, k.Cut = k.N+m.N, k.Leaf+m.Leaf, k.Failed+m.Failed, k.Cut+m.Cut
			k.Extra.add(m.Layer, m.Extra)
		}
		b.atts.put(s, at, &k)
	}
	b.changed()
}

// attempts is the baseline of the tries of a slice's calls, streamed or not.
func (b *Baselines) attempts(s Slice) (out AttemptBaseline) {
	s.Stream = ""
	incidents := b.incidents[scope{s.Service, s.Agent}]
	b.atts.each(s, allParts, func(at int64, k *AttemptBaseline) {
		if !b.cleanWith(s, incidents, at) {
			return
		}
		out.N, out.Leaf, out.Failed, out.Cut = out.N+k.N, out.Leaf+k.Leaf, out.Failed+k.Failed, out.Cut+k.Cut
		for l, x := range k.Extra {
			out.Extra[l] += x
		}
	})
	return out
}

// layerFactors gives for each layer how many tries it makes of each one that it is given.
// The first layer is given the operations, each further one what those around it made of
// them, so that the product is leaf attempts over operations.
func layerFactors(leaf uint64, extra layerCounts) (out [len(layerOrder)]float64) {
	given := float64(leaf)
	for _, x := range extra {
		given -= float64(x)
	}
	given = max(given, 1)
	for i, x := range extra {
		out[i] = 1 + float64(x)/given
		given += float64(x)
	}
	return out
}

// degraded names the endpoints that fail at least limit of least tries or more, the worst
// first.
func (w *AttemptWindow) degraded(least uint64, limit float64) []string {
	if w == nil {
		return nil
	}
	var out []string
	for name, e := range w.Endpoints {
		if name != "" && e.N >= least && share(e.Failed, e.N) >= limit {
			out = append(out, name)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := w.Endpoints[out[i]], w.Endpoints[out[j]]
		if x, y := share(a.Failed, a.N), share(b.Failed, b.N); x != y {
			return x > y
		}
		return out[i] < out[j]
	})
	return out
}
