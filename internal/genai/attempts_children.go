package genai

import (
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
	if len(found) == 0 {
		return nil
	}
	if a.isLayer(found) {
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
	return a.httpTries(flat, &a.nodes[i])
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
// and all but the last failed.
func (a *analysis) isLayer(found []int32) bool {
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
		if p.end > n.start+chainSlack || !a.gaveUp(found[k-1], maxDepth) {
			return false
		}
	}
	return true
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

// httpTries picks the tries of one call among HTTP client spans by start: the last one,
// and those before it that failed or that its resend number counts. Others fetch
// tokens, follow redirects or upload files. A tool may make many calls, so its tries
// must go to one place, and several calls without a failure prove nothing.
func (a *analysis) httpTries(found []int32, caller *node) []int32 {
	if len(found) < 2 {
		return found
	}
	tool := caller.class == classTool
	last := &a.nodes[found[len(found)-1]]
	place := last.place()
	_, counted := last.ordinal()
	var out []int32
	for _, k := range found[:len(found)-1] {
		n := &a.nodes[k]
		same := n.place() == place
		if same && n.unanswered(last) && (last.status != 0 || caller.failed() || counted) {
			n.errClass = rows.ClassTimeout
		}
		switch {
		case n.f.str(slotHTTPMethod) != last.f.str(slotHTTPMethod), n.Name != last.Name && n.f.str(slotHTTPMethod) == "":
		case tool && !same:
		case n.failed() && retryable(n.errClass) || n.failed() && same && counted:
			out = append(out, k)
		case counted && same && (n.status == 0 || n.status >= 400):
			out = append(out, k)
		}
	}
	if tool && len(out) == 0 {
		return nil
	}
	return append(out, found[len(found)-1])
}

// unanswered says whether an HTTP request got no status before next was sent, though
// no error was noted either: its client gave up waiting. Node's fetch leaves such spans
// when a timeout aborts it; a broken connection leaves an error.
func (n *node) unanswered(next *node) bool {
	return n.class == classHTTPClient && n.f.has(slotHTTPMethod) && n.status == 0 && n.errClass == "" &&
		n.Status == StatusUnset && n.end <= next.start+chainSlack
}

// place is where an HTTP request went, without its query.
func (n *node) place() string {
	u := n.f.str(slotURL)
	for i := range len(u) {
		if u[i] == '?' || u[i] == '#' {
			u = u[:i]
			break
		}
	}
	return n.f.str(slotServer) + " " + u
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
		case nested:
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
