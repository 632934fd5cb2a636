package genai

import (
	"net"
	"slices"
	"strings"

	"driftline/internal/rows"
)

// httpTries picks the tries of one call among HTTP client spans by start: the last one,
// and those before it that failed or that its resend number counts. Others fetch tokens,
// follow redirects, answer challenges, hedge, or upload files. A tool may make many
// calls, itself or in plain spans below it, so its tries must go to one place, and several calls without a failure prove
// nothing. It returns none where the spans are several calls, some of them tried again:
// which attempts are whose is not known then.
func (a *analysis) httpTries(found []int32, caller *node, tool bool) []int32 {
	if found = a.dropHedges(a.upToTheCall(found, caller)); len(found) < 2 {
		return found
	}
	last := &a.nodes[found[len(found)-1]]
	if _, ok := last.retryCount(); ok {
		return a.countedRun(found)
	}
	place := last.place()
	a.countAside(found)
	_, counted := last.ordinal()
	var out []int32
	answered := false
	g := a.lastGroup(found[len(found)-1])
	for k := len(found) - 2; k >= 0; k-- {
		n := &a.nodes[found[k]]
		same := n.place() == place
		if !n.sameRequest(last) || n.aside() {
			continue
		}
		if n.end > g.from+overlap {
			if !tool {
				g.join(n)
			}
			continue
		}
		if same && n.unanswered(last) && (last.status != 0 || caller.failed() || counted) {
			n.errClass = rows.ClassTimeout
		}
		if same && !tool && n.gaveUp() {
			n.errClass = rows.ClassTimeout // nobody cancels a call that then goes on
		}
		switch {
		case same && n.succeeded():
			answered = true
			continue
		case tool && !same:
			continue
		case !same && a.servesAnother(found[k+1:], n):
			continue
		case n.failed() && retryable(n.errClass), n.failed() && same && (counted || !tool), counted && same && n.status == 0:
			out = append(out, found[k])
			g = g.before(found[k])
		}
	}
	if answered && len(out) > 0 || tool && len(out) == 0 {
		return nil
	}
	slices.Reverse(out)
	return append(out, found[len(found)-1])
}

// upToTheCall leaves out the requests after the last one to where the caller says that it
// went: checks of the answer, and telemetry.
func (a *analysis) upToTheCall(found []int32, caller *node) []int32 {
	host := caller.host()
	if host == "" {
		return found
	}
	for k := len(found); k > 0; k-- {
		if a.nodes[found[k-1]].host() == host {
			return found[:k]
		}
	}
	return found
}

// host is the name of the server that a span states, without its port.
func (n *node) host() string {
	address, _ := endpoint(n)
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// countedRun is the tries of the last call where its SDK numbers them in a header, from
// 0: a number that does not rise starts another call. An answered try that was followed
// by the next number broke later. It returns none if an earlier call was tried again.
func (a *analysis) countedRun(found []int32) []int32 {
	var out []int32
	others, retried := 0, false
	next, _ := a.nodes[found[len(found)-1]].retryCount()
	resent := a.nodes[found[len(found)-1]].f.has(slotResend)
	out = append(out, found[len(found)-1])
	g := a.lastGroup(found[len(found)-1])
	for k := len(found) - 2; k >= 0; k-- {
		n := &a.nodes[found[k]]
		c, ok := n.retryCount()
		if !ok || n.aside() || others == 0 && c == next && g.join(n) {
			continue
		}
		if others == 0 && (c < next || c == next && resent) {
			if n.errClass == "" {
				n.errClass = rows.ClassOther
				if n.status == 0 {
					n.errClass = rows.ClassTimeout
				}
			}
			out = append(out, found[k])
			g = g.before(found[k])
		} else {
			others++
			retried = retried || c > 0
		}
		next, resent = c, n.f.has(slotResend)
	}
	if retried {
		return nil
	}
	slices.Reverse(out)
	return out
}

// countAside notes for each span how many before it were redirects or challenges, which
// its resend number counts too.
func (a *analysis) countAside(found []int32) {
	count := uint32(0)
	for _, k := range found {
		n := &a.nodes[k]
		n.asides = count
		if n.aside() {
			count++
		}
	}
}

// aside says whether the answer asked for the same request in another form: elsewhere,
// or with credentials. Such a request is no attempt that failed.
func (n *node) aside() bool {
	return n.status >= 300 && n.status < 400 || n.status == 401 || n.status == 407
}

// succeeded says whether an HTTP request is known to have been answered well.
func (n *node) succeeded() bool {
	return !n.failed() && (n.status >= 200 && n.status < 300 || n.status == 0 && n.Status == StatusOK)
}

// sameRequest says whether two HTTP spans use one method.
func (n *node) sameRequest(o *node) bool {
	m := n.f.str(slotHTTPMethod)
	return m == o.f.str(slotHTTPMethod) && (m != "" || n.Name == o.Name)
}

// servesAnother says whether a request to another place than the call's was for
// something else: it went to where credentials come from, or a later one to the same
// place was answered before the call. Otherwise the client went on to another route.
func (a *analysis) servesAnother(later []int32, n *node) bool {
	place := n.place()
	if fetchesToken(place) {
		return true
	}
	for _, k := range later[:len(later)-1] {
		if o := &a.nodes[k]; o.succeeded() && o.place() == place {
			return true
		}
	}
	return false
}

// fetchesToken knows addresses that hand out credentials: OAuth's token endpoints and
// the clouds' metadata servers.
func fetchesToken(p place) bool {
	text := strings.ToLower(p.server + " " + p.url)
	for _, w := range [...]string{"oauth", "/token", "login.", "sts.", "metadata.google", "169.254.169.254"} {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// unanswered says whether an HTTP request got no status before next was sent, though
// no error was noted either: its client gave up waiting. Node's fetch leaves such spans
// when a timeout aborts it; a broken connection leaves an error.
func (n *node) unanswered(next *node) bool {
	return n.class == classHTTPClient && n.f.has(slotHTTPMethod) && n.status == 0 && n.errClass == "" &&
		n.Status == StatusUnset && n.end <= next.start+chainSlack
}

// gaveUp says whether an HTTP request was cancelled before it was answered. Clients whose
// timeout aborts a request say no more of it.
func (n *node) gaveUp() bool {
	return n.class == classHTTPClient && n.status == 0 && n.errClass == rows.ClassCancelled
}

// place is where an HTTP request went, without its query.
func (n *node) place() place {
	u := n.f.str(slotURL)
	if k := strings.IndexAny(u, "?#"); k >= 0 {
		u = u[:k]
	}
	return place{n.f.str(slotServer), u}
}

// place is a server and a URL or path there.
type place struct{ server, url string }

// retryCount is the number of the try, from 0, as an SDK sends it along in a header.
func (n *node) retryCount() (int64, bool) {
	v, ok := n.f.num(slotRetryCount)
	return v, ok && v < maxAttempts
}
