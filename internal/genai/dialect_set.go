package genai

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"driftline/internal/genai/dialects"
	"driftline/internal/rows"
)

// Dialects are the dialects that an analysis understands, compiled to tables. They are
// made once and can be used by many goroutines.
type Dialects struct {
	docs    []dialects.Document
	keys    map[string]*known
	content *dialects.ContentKeys
	scopes  []scopeSign
	// scopeStarts spares other scopes the patterns.
	scopeStarts firstBytes
	// providers are providers' names that betray a dialect.
	providers map[string]keySet
	steps     []step
	events    map[string]chunk
	patterns  []eventPattern
	names     []string // of dialects, by bit
	tools     []glob
	agents    []glob
	// marksStreams are dialects that flag every streamed call; perAttempt those whose time
	// to the first token starts anew with each attempt.
	marksStreams, perAttempt keySet
}

// known is a fact that a key states.
type known struct {
	slot slot
	rank uint8
	unit int64
	// number says that the fact is a number, so that text which is none states nothing.
	number bool
	// id says that the fact names somebody, so that text which names nobody states nothing.
	id bool
	// seen is the dialect that the key betrays.
	seen keySet
	// doc is the number of the document that gave the row.
	doc int
	// only is the dialect that a span must show for the key to count; 0 for any.
	only keySet
	// own is the dialect that unit is of; units are other dialects' units.
	own   keySet
	units []dialectUnit
}

type dialectUnit struct {
	in   keySet
	unit int64
}

// keySet remembers which dialects were betrayed. The lowest bit that is set names the
// span: bits go by the dialects' order.
type keySet uint64

type scopeSign struct {
	glob
	bit keySet
}

type eventPattern struct {
	glob
	says chunk
}

// What a rule looks at, besides slots.
const (
	ofName      slot = 255
	ofFirstWord slot = 254
)

// step is a run of rules that look at one thing.
type step struct {
	of         slot
	orWord     bool
	ignoreCase bool
	number     int
	exact      map[string][]*rule
	globs      []globRule
	first      firstBytes
}

type globRule struct {
	glob
	rule *rule
}

// rule makes something of a span.
type rule struct {
	verdict
	bit           keySet
	undecided     bool
	with, without []slot
	seen          keySet
	instant       bool
	notHTTP       bool
	streamed      string // a rows.Stream constant, empty for unknown
	replaces      string
}

var verdicts = map[string]verdict{
	"chat": {classModel, rows.KindChat}, "text_completion": {classModel, rows.KindCompletion},
	"generate_content": {classModel, rows.KindGenerate}, "embeddings": {classModel, rows.KindEmbeddings},
	"tool": {classTool, rows.KindTool}, "retrieval": {classRetrieval, rows.KindRetrieval},
	"agent": {classAgent, rows.KindAgent}, "workflow": {classAgent, rows.KindWorkflow},
	"structure": {}, "undecided": {},
}

var units = map[string]int64{
	"": unitNone, "ns": ns, "us": 1000, "ms": ms, "s": sec, "ns_or_s": unitByType, "grpc": unitGRPC,
	"unix_ns": ns, "unix_ms": ms, "unix_s": sec, "rfc3339": unitNone,
}

var eventChunks = map[string]chunk{
	"chunk": chunkAny, "chunk_role": chunkRole, "chunk_hidden": chunkHidden, "chunk_visible": chunkVisible,
	"retry": chunkRetry, "attempt": chunkAttempt, "nothing": chunkNone,
}

var slotOf = func() map[string]slot {
	out := map[string]slot{"name": ofName, "first_word": ofFirstWord}
	for i, m := range dialects.Meanings {
		out[m.Name] = slot(i + 1)
	}
	return out
}()

// defaultDialects are the built-in ones.
var defaultDialects = sync.OnceValue(func() *Dialects {
	d, err := NewDialects(nil)
	if err != nil {
		panic(fmt.Sprintf("the built-in dialects are wrong: %v", err)) // a test holds that they are not
	}
	return d
})

// NewDialects lays changes over the built-in dialects; see dialects.Merge. Its error
// joins every problem.
func NewDialects(changes []dialects.Document) (*Dialects, error) {
	docs, err := dialects.BuiltIn()
	if err != nil {
		return nil, err
	}
	if len(changes) > 0 {
		if docs, err = dialects.Merge(docs, changes); err != nil {
			return nil, err
		}
	}
	return compile(docs), nil
}

// set is what the options understand.
func (o *Options) set() *Dialects {
	if o == nil || o.Dialects == nil {
		return defaultDialects()
	}
	return o.Dialects
}

func compile(docs []dialects.Document) *Dialects {
	d := &Dialects{docs: docs, content: dialects.ContentOf(docs), keys: make(map[string]*known, 512), providers: map[string]keySet{}, events: map[string]chunk{}}
	bitOf := map[string]keySet{}
	for i := range docs {
		if !docs[i].Unnamed {
			bitOf[docs[i].Dialect] = 1 << len(d.names)
			d.names = append(d.names, docs[i].Dialect)
		}
	}
	signs := keySigns(docs, bitOf)
	for i := range docs {
		doc := &docs[i]
		bit := bitOf[doc.Dialect]
		if doc.MarksStreams {
			d.marksStreams |= bit
		}
		if doc.FirstTokenFrom == "attempt" {
			d.perAttempt |= bit
		}
		for _, s := range doc.Recognise.Scopes {
			d.scopes = append(d.scopes, scopeSign{newGlob(s), bit})
			d.scopeStarts.add(s)
		}
		for _, p := range doc.Recognise.Providers {
			d.providers[p] |= bit
		}
		for _, s := range doc.Subjects.Tool {
			d.tools = append(d.tools, newGlob(s))
		}
		for _, s := range doc.Subjects.Agent {
			d.agents = append(d.agents, newGlob(s))
		}
		for _, e := range doc.Events {
			if g := newGlob(e.Name); g.open {
				d.patterns = append(d.patterns, eventPattern{g, eventChunks[e.Means]})
			} else {
				d.events[e.Name] = eventChunks[e.Means]
			}
		}
		for k := range doc.Attributes {
			d.addRow(&doc.Attributes[k], i, bit, signs)
		}
	}
	d.compileRules(docs, bitOf)
	return d
}

// Means says what a key states and which dialect says so; "" for a key that no row names.
// A nil d stands for the built-in dialects.
func (d *Dialects) Means(key string) (dialect, meaning string) {
	if d == nil {
		d = defaultDialects()
	}
	k := d.keys[key]
	if k == nil {
		return "", ""
	}
	return d.docs[k.doc].Dialect, dialects.Meanings[k.slot-1].Name
}

// addRow adds a row of document doc, under each spelling of its key.
func (d *Dialects) addRow(a *dialects.Attribute, doc int, bit keySet, signs []keySign) {
	for i, key := range a.Keys() {
		k := &known{doc: doc, slot: slotOf[a.Means], unit: units[a.Unit], seen: signOf(signs, key), rank: uint8(i), number: isNumber[a.Means] && a.Unit != "rfc3339", id: isID(slotOf[a.Means])}
		if a.Precedence != nil {
			k.rank += uint8(*a.Precedence)
		}
		if a.Only {
			k.only = bit
		}
		if a.Header || k.id {
			k.seen = 0 // a header says nothing of who captured it, and ids go with baggage to spans of all kinds
		}
		d.addKey(key, k, bit)
	}
}

func isID(s slot) bool { return s == slotUser || s == slotTenant }

// isNumber are the meanings whose values are numbers.
var isNumber = func() map[string]bool {
	out := map[string]bool{}
	for _, m := range dialects.Meanings {
		switch m.Type {
		case dialects.Count, dialects.Number, dialects.Duration, dialects.Instant:
			out[m.Name] = true
		}
	}
	return out
}()

// addKey adds what a key states. Where several dialects give a key different units, the
// unit of the dialect that the key itself betrays holds in general, and the others in
// their spans.
func (d *Dialects) addKey(key string, k *known, bit keySet) {
	have := d.keys[key]
	switch {
	case have == nil:
		k.own = bit
		d.keys[key] = k
	case bit == 0 || k.seen&bit != 0:
		k.own = bit
		k.units = append(have.units, dialectUnit{have.own, have.unit})
		d.keys[key] = k
	default:
		have.units = append(have.units, dialectUnit{bit, k.unit})
	}
}

// keySign says that a key, or each key with a prefix, betrays a dialect.
type keySign struct {
	prefix string
	bit    keySet
}

// keySigns lists the longest prefixes first.
func keySigns(docs []dialects.Document, bitOf map[string]keySet) []keySign {
	var out []keySign
	for i := range docs {
		for _, k := range docs[i].Recognise.Keys {
			out = append(out, keySign{k, bitOf[docs[i].Dialect]})
		}
	}
	slices.SortStableFunc(out, func(x, y keySign) int { return len(y.prefix) - len(x.prefix) })
	return out
}

func signOf(signs []keySign, key string) keySet {
	for _, s := range signs {
		if key == s.prefix || strings.HasSuffix(s.prefix, ".") && strings.HasPrefix(key, s.prefix) {
			return s.bit
		}
	}
	return 0
}

// compileRules orders the rules of all dialects by step, then by the dialects' order,
// and indexes each run that looks at one thing.
func (d *Dialects) compileRules(docs []dialects.Document, bitOf map[string]keySet) {
	type row struct {
		*dialects.Rule
		bit keySet
	}
	var all []row
	for i := range docs {
		for k := range docs[i].Rules {
			all = append(all, row{&docs[i].Rules[k], bitOf[docs[i].Dialect]})
		}
	}
	slices.SortStableFunc(all, func(x, y row) int { return x.Step - y.Step })
	for _, r := range all {
		c := &rule{
			verdict: verdicts[r.As], bit: r.bit, undecided: r.As == "undecided", instant: r.Instant, notHTTP: r.NotHTTP, replaces: r.Replaces,
			streamed: map[string]string{"yes": rows.StreamYes, "no": rows.StreamNo}[r.Streamed],
		}
		for _, m := range r.With {
			c.with = append(c.with, slotOf[m])
		}
		for _, m := range r.Without {
			c.without = append(c.without, slotOf[m])
		}
		for _, s := range r.Seen {
			c.seen |= bitOf[s]
		}
		st := d.stepFor(r.Rule)
		for _, v := range r.Values {
			if r.IgnoreCase {
				v = strings.ToLower(v)
			}
			st.first.add(v)
			if g := newGlob(v); g.open {
				st.globs = append(st.globs, globRule{g, c})
			} else {
				st.exact[v] = append(st.exact[v], c)
			}
		}
	}
}

// stepFor is the last step of r's number that looks at what r does, or a new one.
func (d *Dialects) stepFor(r *dialects.Rule) *step {
	of := slotOf[r.Of]
	for i := len(d.steps) - 1; i >= 0 && d.steps[i].number == r.Step; i-- {
		if s := &d.steps[i]; s.of == of && s.orWord == r.OrFirstWord && s.ignoreCase == r.IgnoreCase {
			return s
		}
	}
	d.steps = append(d.steps, step{of: of, orWord: r.OrFirstWord, ignoreCase: r.IgnoreCase, number: r.Step, exact: map[string][]*rule{}})
	return &d.steps[len(d.steps)-1]
}

// name is the dialect that names a span with these signs, "" without any.
func (d *Dialects) name(s keySet) string {
	if s == 0 {
		return ""
	}
	return d.names[bits.TrailingZeros64(uint64(s))]
}

// marks says whether the dialect that names a span flags every streamed call.
func (d *Dialects) marks(s keySet) bool { return s&-s&d.marksStreams != 0 }

// eventSays is what an event of this name means; known is false if no dialect says.
func (d *Dialects) eventSays(name string) (says chunk, known bool) {
	if says, known = d.events[name]; known {
		return says, true
	}
	for i := range d.patterns {
		if d.patterns[i].match(name) {
			return d.patterns[i].says, true
		}
	}
	return chunkNone, false
}
