package assemble

import (
	"cmp"
	"encoding/hex"
	"math"
	"slices"

	"driftline/internal/genai"
)

// scratch is room that each release uses again.
type scratch[P any] struct {
	spans []genai.Span // of the trace: those packed, then those held
	views []genai.Span // of the held spans, in their order
	fresh []int32      // indexes of views that are neither known nor over the limit
	byID  map[string]int32
	pack  []byte
	keys  []byte
	refs  references
	keep  []sentKey
}

// maxScratch is how many spans' room is kept for the next release.
const maxScratch = 4096

func (w *scratch[P]) trim() {
	if cap(w.spans) > maxScratch {
		w.spans, w.views, w.fresh = nil, nil, nil
	}
	if cap(w.pack)+cap(w.keys) > 64*maxScratch {
		w.pack, w.keys = nil, nil
	}
	clear(w.spans)
	clear(w.views)
}

// understand puts the trace's spans into the scratch: what was sent before and, once and
// within the trace's limit, what is held.
func (b *Buffer[P]) understand(e *entry[P], traceID string) {
	w := &b.work
	w.views, w.fresh = w.views[:0], w.fresh[:0]
	b.view.Reset()
	for i := range e.held {
		w.views = append(w.views, b.view.View(e.held[i].payload))
	}
	w.spans = b.unpack(w.spans[:0], e.packed, traceID)
	index := len(w.views)+len(w.spans) > smallTrace
	if index {
		if w.byID == nil {
			w.byID = map[string]int32{}
		}
		clear(w.byID)
		for i := range w.spans {
			w.byID[w.spans[i].SpanID] = int32(i)
		}
	}
	for i := range w.views {
		v := &w.views[i]
		if w.knows(v, index) {
			b.stats.Duplicates++
			continue
		}
		root := v.ParentID == ""
		if len(w.spans) >= b.set.MaxSpansPerTrace && !(root && e.roots < extraRoots) {
			e.truncated = true
			b.stats.Truncated++
			continue
		}
		if root {
			e.roots++
		}
		if index {
			w.byID[v.SpanID] = int32(len(w.spans))
		}
		w.spans = append(w.spans, *v)
		w.fresh = append(w.fresh, int32(i))
	}
}

// smallTrace is up to how many spans a search is quicker than a map.
const smallTrace = 24

// knows says whether a copy of v is among the spans. Of several versions of one span only
// the latest is compared when there is an index; a further copy then only costs room.
func (w *scratch[P]) knows(v *genai.Span, index bool) bool {
	if index {
		i, found := w.byID[v.SpanID]
		return found && sameSpan(&w.spans[i], v)
	}
	for i := range w.spans {
		if w.spans[i].SpanID == v.SpanID && sameSpan(&w.spans[i], v) {
			return true
		}
	}
	return false
}

// sameSpan says whether two spans of one trace are copies.
func sameSpan(x, y *genai.Span) bool {
	return x.SpanID == y.SpanID && x.ParentID == y.ParentID && x.Start == y.Start && x.End == y.End &&
		x.Name == y.Name && x.Kind == y.Kind && x.Status == y.Status && x.Scope == y.Scope && x.TraceState == y.TraceState && x.EventsDropped == y.EventsDropped &&
		sameResource(x.Resource, y.Resource) && slices.Equal(x.LinkedTraces, y.LinkedTraces) && sameAttrs(x.Attrs, y.Attrs) &&
		slices.EqualFunc(x.Events, y.Events, func(a, b genai.Event) bool {
			return a.Time == b.Time && a.Name == b.Name && sameAttrs(a.Attrs, b.Attrs)
		})
}

func sameResource(x, y *genai.Resource) bool {
	if x == nil || y == nil {
		return x == y
	}
	return *x == *y
}

func sameAttrs(x, y []genai.Attr) bool {
	return slices.EqualFunc(x, y, func(a, b genai.Attr) bool {
		v, w := &a.Value, &b.Value
		return a.Key == b.Key && v.Type == w.Type && v.Str == w.Str && v.Int == w.Int && v.Bool == w.Bool &&
			math.Float64bits(v.Double) == math.Float64bits(w.Double) && slices.Equal(v.List, w.List)
	})
}

// firstView is the index of the held span that is first by start and id, -1 for none.
func firstView(views []genai.Span) int {
	first := -1
	for i := range views {
		if first < 0 || cmp.Or(cmp.Compare(views[i].Start, views[first].Start), cmp.Compare(views[i].SpanID, views[first].SpanID)) < 0 {
			first = i
		}
	}
	return first
}

func idText(id [16]byte) string {
	var text [32]byte
	hex.Encode(text[:], id[:])
	return string(text[:])
}
