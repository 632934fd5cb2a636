package genai

import (
	"strings"

	"slices"

	"driftline/internal/rows"
)

// gather finds the outermost tries below a span of an operation: spans of inner
// wrappers tried one after another, server spans of a caller whose context was injected
// once, plain spans of a retry loop, or HTTP client spans. A wrapper or a hop around a
// single try is looked through, so that retries of a proxy are seen too. It returns them by start, or none.
func (a *analysis) gather(i int32) []int32 {
	if a.nodes[i].class == classAgent {
		return nil
	}
	var http []int32 // the caller's own HTTP span, if nothing below is tried again
	for range maxDepth {
		found := a.candidates(i)
		if len(found) != 1 {
			if found = a.settle(i, found); len(found) > 1 || http == nil {
				return found
			}
			return http
		}
		if i = found[0]; a.nodes[i].class == classHTTPClient && http == nil {
			http = found
		}
	}
	return http
}

// maxDepth bounds how deep wrappers are looked through.
const maxDepth = 32

func (a *analysis) candidates(i int32) []int32 {
	var found []int32
	for _, k := range a.kids(i) {
		n := &a.nodes[k]
		if n.hasTry && (n.absorbed >= 0 || !n.class.operation()) || n.absorbed >= 0 {
			found = append(found, k)
		}
	}
	return found
}

// settle decides which of several candidates are tries of one call.
func (a *analysis) settle(i int32, found []int32) []int32 {
	if found = a.withoutAsides(found); len(found) == 0 {
		return nil
	}
	if a.isLayer(found, a.makesManyCalls(i)) {
		return found
	}
	var flat []int32
	for _, k := range found {
		if a.nodes[k].class == classHTTPClient {
			flat = append(flat, k)
			continue
		}
		flat = append(flat, a.leaves(k, maxDepth)...)
	}
	slices.Sort(flat)
	return a.httpTries(flat, &a.nodes[i], a.makesManyCalls(i))
}

// withoutAsides drops the server spans of requests that were sent elsewhere or asked for
// credentials, and that another one followed.
func (a *analysis) withoutAsides(found []int32) []int32 {
	drop := func(k int) bool {
		n := &a.nodes[found[k]]
		return k < len(found)-1 && n.class == classHTTPServer && n.aside()
	}
	for k := range found {
		if !drop(k) {
			continue
		}
		var out []int32
		for k := range found {
			if !drop(k) {
				out = append(out, found[k])
			}
		}
		return out
	}
	return found
}

// leaves lists the HTTP client spans at or below k.
func (a *analysis) leaves(k int32, depth int) []int32 {
	if a.nodes[k].class == classHTTPClient {
		return []int32{k}
	}
	var out []int32
	if depth > 0 {
		for _, c := range a.candidates(k) {
			out = append(out, a.leaves(c, depth-1)...)
		}
	}
	return out
}

// isLayer says whether the spans are tries of one call, one after another: of one kind,
// and all but the last failed. Below a tool, plain spans must also have gone to one place,
// unless they are declared to be tries.
func (a *analysis) isLayer(found []int32, tool bool) bool {
	if len(found) < 2 {
		return false
	}
	for k, i := range found {
		n := &a.nodes[i]
		if n.class == classHTTPClient {
			return false
		}
		if k == 0 {
			continue
		}
		p := &a.nodes[found[k-1]]
		if p.class != n.class || p.absorbed < 0 && p.class == classPlain && p.Name != n.Name {
			return false
		}
		if p.class == classHTTPServer && !p.servesTheSame(n) {
			return false
		}
		if tool && p.absorbed < 0 && p.class == classPlain && !n.isAttempt() && !a.wentToOnePlace(found[k-1], i) {
			return false
		}
		if p.end > n.start+chainSlack || !a.gaveUp(found[k-1], maxDepth) {
			return false
		}
	}
	return true
}

// makesManyCalls says whether span i belongs to work that may call several services: a
// tool or a retrieval, unlike a model call.
func (a *analysis) makesManyCalls(i int32) bool {
	o := a.nodes[i].op
	if o < 0 {
		return false
	}
	c := a.nodes[a.ops[o].first()].class
	return c == classTool || c == classRetrieval
}

// wentToOnePlace says whether the last requests at or below two spans went to one server
// and path, where both are known, or the later one's number says that it is a further try.
func (a *analysis) wentToOnePlace(p, n int32) bool {
	if v, ok := a.nodes[n].f.num(slotAttempt); ok && v > 1 {
		return true
	}
	x, y := a.lastPlace(p), a.lastPlace(n)
	return x == y || x == place{} || y == place{}
}

func (a *analysis) lastPlace(i int32) place {
	if p := a.nodes[i].place(); p != (place{}) {
		return p
	}
	if l := a.leaves(i, maxDepth); len(l) > 0 {
		return a.nodes[l[len(l)-1]].place()
	}
	return place{}
}

// servesTheSame says whether two server spans may answer one request sent twice: the same
// method and path, where both state them. Hosts differ where requests are balanced.
func (n *node) servesTheSame(o *node) bool {
	differ := func(s slot) bool {
		x, _, _ := strings.Cut(n.f.str(s), "?")
		y, _, _ := strings.Cut(o.f.str(s), "?")
		return x != "" && y != "" && x != y
	}
	return !differ(slotHTTPMethod) && !differ(slotURL)
}

// gaveUp says whether a try failed, by itself or because its last inner try did.
func (a *analysis) gaveUp(i int32, depth int) bool {
	n := &a.nodes[i]
	if n.failed() {
		return true
	}
	if depth == 0 || n.class == classHTTPClient || n.Status == StatusOK {
		return false
	}
	inner := a.candidates(i)
	return len(inner) > 0 && a.gaveUp(inner[len(inner)-1], depth-1)
}

// addLevel adds spans as tries below parent (-1 for the outermost) and looks below them.
func (a *analysis) addLevel(o *op, level []int32, parent int32) {
	resent := false
	for _, k := range level {
		resent = resent || a.nodes[k].f.has(slotResend)
	}
	for _, k := range level {
		n := &a.nodes[k]
		layer, source := "", rows.SourceHTTPChild
		nested := parent >= 0
		switch {
		case n.class == classHTTPServer || n.absorbed >= 0 && n.Kind == KindServer:
			layer, source = rows.LayerClient, rows.SourceServerChild
		case n.class == classHTTPClient:
			layer = rows.LayerSDK
			if resent || nested && o.tries[parent].parent >= 0 {
				layer = rows.LayerTransport
			}
		case nested, n.isAttempt():
			layer = rows.LayerSDK
		default:
			layer = rows.LayerFramework
		}
		if n.absorbed >= 0 && n.Kind != KindServer {
			source = rows.SourceSibling
		}
		t := a.addTry(o, k, parent, layer, source)
		if inner := a.gather(k); len(inner) > 1 {
			a.addLevel(o, inner, t)
		} else if len(inner) == 1 && n.class != classHTTPClient {
			n.borrowStatus(&a.nodes[inner[0]])
			if n.class == classPlain && n.Status != StatusOK && !n.failed() {
				n.errClass, n.errType = a.nodes[inner[0]].errClass, a.nodes[inner[0]].errType
			}
			o.tries[t].errClass = n.errClass
		}
		if o.tries[t].errClass == "" && a.gaveUp(k, maxDepth) {
			kids := o.tries[t].kids
			o.tries[t].errClass = rows.ClassOther
			if len(kids) > 0 {
				o.tries[t].errClass = o.tries[kids[len(kids)-1]].errClass
			}
		}
	}
}
