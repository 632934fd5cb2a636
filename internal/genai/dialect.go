package genai

import (
	"strings"
	"sync"

	"driftline/internal/rows"
)

// class is what a span is to driftline.
type class uint8

const (
	classPlain class = iota
	classModel
	classTool
	classRetrieval
	classAgent // agents and workflows
	classHTTPClient
	classHTTPServer
	classNet // DNS, connect, TLS and pool spans below an HTTP client span
)

// operation says whether spans of this class can be an operation.
func (c class) operation() bool { return c >= classModel && c <= classAgent }

// verdict is a span's class and, for operations, its kind (a rows.Kind constant).
type verdict struct {
	class class
	kind  string
}

// classify tells what the span is, by the rule that decided it, if one did. f.seen is
// completed with what scope, provider and name betray.
func (d *Dialects) classify(s *Span, f *facts) (verdict, *rule) {
	if s.Scope != "" && d.scopeStarts[s.Scope[0]] {
		for i := range d.scopes {
			if d.scopes[i].match(s.Scope) {
				f.seen |= d.scopes[i].bit
			}
		}
	}
	if f.has(slotProvider) {
		f.seen |= d.providers[f.str(slotProvider)]
	}
	if s.Kind == KindClient && (f.has(slotResend) || f.has(slotRetryCount) || f.has(slotHTTPMethod)) && !f.has(slotOperation) && !f.has(slotOIKind) && !f.has(slotLLMType) {
		return verdict{classHTTPClient, rows.KindHTTP}, nil
	}
	for i := range d.steps {
		if r := d.steps[i].find(s, f); r != nil {
			f.seen |= r.bit
			return r.verdict, r
		}
	}
	if v, ok := classifyByModel(s, f); ok {
		return v, nil
	}
	return classifyTransport(s, f), nil
}

// find is the rule of the step that fits the span, nil for none.
func (st *step) find(s *Span, f *facts) *rule {
	var word string
	switch {
	case st.of == ofName, st.of == ofFirstWord:
		word = s.Name
	case f.has(st.of):
		word = f.str(st.of)
	case st.orWord:
		word = s.Name
	}
	if word == "" {
		return nil
	}
	if st.ignoreCase {
		word = strings.ToLower(word)
	}
	if !st.first[word[0]] {
		return nil
	}
	if st.of == ofFirstWord || st.orWord && !f.has(st.of) {
		word = firstWord(word)
	}
	for _, r := range st.exact[word] {
		if r.fits(s, f) {
			return r.decided()
		}
	}
	for i := range st.globs {
		if g := &st.globs[i]; g.match(word) && g.rule.fits(s, f) {
			return g.rule.decided()
		}
	}
	return nil
}

func firstWord(name string) string {
	word, _, _ := strings.Cut(name, " ")
	return word
}

func (r *rule) decided() *rule {
	if r.undecided {
		return nil
	}
	return r
}

func (r *rule) fits(s *Span, f *facts) bool {
	if r.seen != 0 && f.seen&r.seen == 0 || r.instant && s.End > s.Start {
		return false
	}
	for _, m := range r.with {
		if !f.has(m) {
			return false
		}
	}
	for _, m := range r.without {
		if f.has(m) {
			return false
		}
	}
	return !r.notHTTP || !isHTTPMethod(s.Name) && !strings.HasPrefix(s.Name, "HTTP ")
}

// classifyByModel takes a model's name beside usage or a provider as a weak sign of a
// model call; it is not believed on server and internal spans that state nothing else.
func classifyByModel(s *Span, f *facts) (verdict, bool) {
	switch {
	case s.Kind == KindServer || s.Kind == KindConsumer:
		return verdict{}, false
	case f.has(slotToolCall) || f.has(slotTool) && !f.has(slotModel):
		return verdict{classTool, rows.KindTool}, true
	case f.has(slotModel) && (f.has(slotProvider) || f.has(slotOutputTokens)):
		return verdict{classModel, rows.KindChat}, true
	}
	return verdict{}, false
}

// classifyTransport knows HTTP and RPC spans, and the spans of getting a connection.
func classifyTransport(s *Span, f *facts) verdict {
	wire := f.has(slotHTTPMethod) || f.has(slotRPC) || f.has(slotResend) || isHTTPMethod(s.Name) || f.has(slotHTTPStatus)
	switch {
	case wire && s.Kind == KindClient:
		return verdict{classHTTPClient, rows.KindHTTP}
	case s.Kind == KindServer:
		return verdict{classHTTPServer, rows.KindHTTP}
	case netSpan(s.Name) != netNone:
		return verdict{classNet, ""}
	}
	return verdict{}
}

func isHTTPMethod(name string) bool {
	word, _, _ := strings.Cut(name, " ")
	word = strings.TrimPrefix(word, "HTTP")
	switch word {
	case "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS":
		return true
	}
	return false
}

type netPart uint8

const (
	netNone netPart = iota
	netConnect
	netQueue // waiting for a connection of the pool
)

// netSpan knows the names that Go's otelhttptrace and .NET give to the parts of
// getting a connection.
func netSpan(name string) netPart {
	switch name {
	case "http.dns", "http.connect", "http.tls", "HTTP connection_setup", "dns.lookup", "tcp.connect",
		"tls.connect", "tls.handshake", "TLS handshake":
		return netConnect
	case "http.getconn", "HTTP wait_for_connection":
		return netQueue
	}
	if strings.HasPrefix(name, "DNS lookup") || strings.HasPrefix(name, "socket connect") || strings.HasPrefix(name, "TLS client handshake") {
		return netConnect
	}
	return netNone
}

// IsGenAI says whether s is a model call, a tool call, a retrieval, an agent or a
// workflow in any of the dialects. It looks at s alone.
func (d *Dialects) IsGenAI(s *Span) bool {
	f := factsPool.Get().(*facts)
	f.read(d, s.Attrs, nil)
	v, _ := d.classify(s, f)
	clear(f.list)
	*f = facts{list: f.list[:0]}
	factsPool.Put(f)
	return v.class.operation()
}

// factsPool saves IsGenAI, which sees every span, its room for facts.
var factsPool = sync.Pool{New: func() any { return &facts{} }}

// IsGenAI is Dialects.IsGenAI for the built-in dialects.
func IsGenAI(s *Span) bool { return defaultDialects().IsGenAI(s) }

// IsGenAI is Dialects.IsGenAI for the dialects of these options.
func (o *Options) IsGenAI(s *Span) bool { return o.set().IsGenAI(s) }

// CarriesContent says whether a key holds what people or models wrote; a key that states
// a fact does not. A nil d stands for the built-in dialects.
func (d *Dialects) CarriesContent(key string) bool {
	if d == nil {
		d = defaultDialects()
	}
	_, fact := d.keys[key]
	return !fact && d.content.Carries(key)
}
