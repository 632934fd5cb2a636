package genai

import (
	"slices"
	"strings"

	"driftline/internal/rows"
)

// maxRequestKey bounds a request's key, in bytes.
const maxRequestKey = 256

// requestKey is the id by which requests of several traces belong together: what the root
// states of the first configured key, else the first span that states one. A key can be
// made of several attributes, all of which one span must state.
func (a *analysis) requestKey(q *request) string {
	for _, parts := range a.requestKeys {
		if q.root >= 0 {
			if key := a.nodes[q.root].joined(parts); key != "" {
				return key
			}
		}
		for i := range a.nodes {
			if n := &a.nodes[i]; n.req >= 0 && &a.reqs[n.req] == q {
				if key := n.joined(parts); key != "" {
					return key
				}
			}
		}
	}
	return ""
}

// requestKeyParts splits each configured key at its pluses.
func (o *Options) requestKeyParts() [][]string {
	var out [][]string
	for _, k := range o.RequestKeys {
		out = append(out, strings.Split(k, "+"))
	}
	return out
}

// joined is the text of the attributes named parts, joined by pluses, or "" where one is
// missing.
func (n *node) joined(parts []string) string {
	var b strings.Builder
	for k, part := range parts {
		at := slices.IndexFunc(n.Attrs, func(a Attr) bool { return a.Key == part })
		if at < 0 {
			return ""
		}
		text, ok := n.Attrs[at].Value.AsString()
		if text = strings.TrimSpace(n.set.withoutContent(part, text)); !ok || text == "" {
			return ""
		}
		if k > 0 {
			b.WriteByte('+')
		}
		b.WriteString(text)
	}
	return clip(b.String(), maxRequestKey)
}

// linkedTrace is the trace that a detached root links to, "" for none.
func (a *analysis) linkedTrace(q *request) string {
	if q.root < 0 {
		return ""
	}
	for _, t := range a.nodes[q.root].LinkedTraces {
		if t != a.nodes[q.root].TraceID {
			return clip(t, 64)
		}
	}
	return ""
}

// findFallbacks notes which model calls took over from a failed one that went elsewhere:
// under the same parent, begun soon after the failure, with no other call in between.
// A failure that was tried again on its own route belongs to the operation of those tries.
func (a *analysis) findFallbacks() {
	a.eachSiblings(func(list []int32) {
		for at, i := range list {
			if at == 0 || a.nodes[i].prev >= 0 || a.nodes[i].class != classModel || a.nodes[i].op < 0 {
				continue
			}
			a.fallback(list[:at], i)
		}
	})
}

func (a *analysis) fallback(before []int32, i int32) {
	n := &a.nodes[i]
	best := int32(-1) // the operation that ended last before n began
	for steps, k := 0, len(before)-1; k >= 0 && steps < maxBetween; steps, k = steps+1, k-1 {
		b := &a.nodes[before[k]]
		if b.op < 0 || b.op == n.op || b.end > n.start+chainSlack {
			continue
		}
		if best < 0 || a.ops[b.op].end > a.ops[best].end {
			best = b.op
		}
	}
	if best < 0 {
		return
	}
	last := &a.nodes[a.ops[best].lastMember()]
	if last.class != classModel || (last.kind == rows.KindEmbeddings) != (n.kind == rows.KindEmbeddings) || !last.failed() || !retryable(last.errClass) ||
		a.ops[best].end > n.start+chainSlack || n.start-a.ops[best].end > maxBackoff || a.sameRoute(best, n.op) {
		return
	}
	a.ops[n.op].fallbackOf = a.nodes[a.ops[best].first()].SpanID
}

// sameRoute says whether two operations asked the same model of the same provider at the
// same place; what one of them does not state is taken for the same.
func (a *analysis) sameRoute(x, y int32) bool {
	p, n := &a.ops[x], &a.ops[y]
	same := func(v, w string) bool { return v == "" || w == "" || v == w }
	pe, _ := a.endpointOf(p, p.sources)
	ne, _ := a.endpointOf(n, n.sources)
	return same(firstText(p.sources, slotModel), firstText(n.sources, slotModel)) &&
		same(firstText(p.sources, slotProvider), firstText(n.sources, slotProvider)) && same(pe, ne)
}

// wasted is how long servers below a failed call went on after it had ended, nil where no
// server's span is seen there.
func (a *analysis) findWasted() {
	for i := range a.nodes {
		n := &a.nodes[i]
		if n.Kind != KindServer || n.op < 0 || n.skewed {
			continue
		}
		o := &a.ops[n.op]
		if last := &a.nodes[o.lastMember()]; !last.failed() || o.lastMember() == int32(i) {
			continue
		}
		if o.wasted == nil {
			o.wasted = new(int64)
		}
		*o.wasted = max(*o.wasted, n.end-o.end)
	}
}
