package assemble

import (
	"encoding/binary"
	"encoding/hex"
	"math"

	"driftline/internal/genai"
)

// Packed spans are records one after the other. A record is: flags, kind and status in
// one byte each, ids, times and text, with numbers as varints. Attribute keys, which are few,
// are numbers of a table that all traces share; a scope, a resource or a link that an
// earlier record of the same release wrote is a number too.

const (
	hasParent = 1 << iota
	hasTraceState
	hasLinks
	hasEvents
	hasResource
	rawIDs // the ids are text that is not the hexadecimal of eight bytes
	eventsDropped
)

// keyNames numbers attribute keys. They are what genai.Wanted lets through, so their
// number is bounded by the domain's tables and the configuration.
type keyNames struct {
	byName map[string]uint64
	names  []string
}

func newKeyNames() keyNames { return keyNames{byName: map[string]uint64{}} }

func (k *keyNames) number(name string) uint64 {
	n, known := k.byName[name]
	if !known {
		name = string(append([]byte(nil), name...))
		n = uint64(len(k.names))
		k.byName[name] = n
		k.names = append(k.names, name)
	}
	return n
}

// references are what records of one release share; the numbers begin anew with each.
type references struct {
	scopes    []string
	resources []*genai.Resource
}

// maxReferences is how many are searched; more are written out again.
const maxReferences = 16

func (r *references) reset() {
	clear(r.scopes)
	clear(r.resources)
	r.scopes, r.resources = r.scopes[:0], r.resources[:0]
}

// packer appends to a slice of bytes.
type packer struct{ out []byte }

func (p *packer) number(n uint64) { p.out = binary.AppendUvarint(p.out, n) }
func (p *packer) signed(n int64)  { p.out = binary.AppendVarint(p.out, n) }
func (p *packer) text(s string) {
	p.number(uint64(len(s)))
	p.out = append(p.out, s...)
}

// pack appends the fresh spans in the scratch to what e keeps.
func (b *Buffer[P]) pack(e *entry[P]) {
	w := &b.work
	if len(w.fresh) == 0 {
		return
	}
	w.refs.reset()
	p := packer{out: w.pack[:0]}
	p.number(uint64(len(w.fresh)))
	base := w.views[w.fresh[0]].Start
	p.signed(base)
	for _, i := range w.fresh {
		b.packSpan(&p, &w.views[i], base)
	}
	w.pack = p.out
	packed := make([]byte, len(e.packed)+len(w.pack))
	copy(packed[copy(packed, e.packed):], w.pack)
	b.weigh(e, sizeClass(len(packed))-sizeClass(len(e.packed)))
	e.packed = packed
	e.kept += len(w.fresh)
	b.stats.Spans += int64(len(w.fresh))
}

func (b *Buffer[P]) packSpan(p *packer, s *genai.Span, base int64) {
	var flags byte
	set := func(bit byte, on bool) {
		if on {
			flags |= bit
		}
	}
	set(hasParent, s.ParentID != "")
	set(hasTraceState, s.TraceState != "")
	set(hasLinks, len(s.LinkedTraces) > 0)
	set(hasEvents, len(s.Events) > 0)
	set(hasResource, s.Resource != nil)
	set(eventsDropped, s.EventsDropped)
	set(rawIDs, !isID(s.SpanID) || s.ParentID != "" && !isID(s.ParentID))
	p.out = append(p.out, flags, byte(s.Kind), byte(s.Status))
	p.id(s.SpanID, flags)
	if s.ParentID != "" {
		p.id(s.ParentID, flags)
	}
	p.signed(s.Start - base)
	p.signed(s.End - s.Start)
	p.text(s.Name)
	refs := &b.work.refs
	p.scope(s.Scope, refs)
	if s.Resource != nil {
		p.resource(s.Resource, refs)
	}
	if s.TraceState != "" {
		p.text(s.TraceState)
	}
	if len(s.LinkedTraces) > 0 {
		p.number(uint64(len(s.LinkedTraces)))
		for _, t := range s.LinkedTraces {
			p.text(t)
		}
	}
	b.packAttrs(p, s.Attrs)
	if len(s.Events) > 0 {
		p.number(uint64(len(s.Events)))
		for i := range s.Events {
			p.signed(s.Events[i].Time - s.Start)
			p.text(s.Events[i].Name)
			b.packAttrs(p, s.Events[i].Attrs)
		}
	}
}

func (p *packer) id(id string, flags byte) {
	if flags&rawIDs != 0 {
		p.text(id)
		return
	}
	var raw [8]byte
	_, _ = hex.Decode(raw[:], []byte(id)) // isID said that it can be read
	p.out = append(p.out, raw[:]...)
}

func isID(s string) bool {
	if len(s) != 16 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// scope writes the scope's number, or 0 and its text.
func (p *packer) scope(scope string, refs *references) {
	for i, known := range refs.scopes {
		if known == scope {
			p.number(uint64(i) + 1)
			return
		}
	}
	p.number(0)
	p.text(scope)
	if len(refs.scopes) < maxReferences {
		refs.scopes = append(refs.scopes, scope)
	}
}

func (p *packer) resource(r *genai.Resource, refs *references) {
	for i, known := range refs.resources {
		if known == r || *known == *r {
			p.number(uint64(i) + 1)
			return
		}
	}
	p.number(0)
	p.text(r.ServiceName)
	p.text(r.ServiceVersion)
	p.text(r.Environment)
	p.text(r.HostID)
	if len(refs.resources) < maxReferences {
		refs.resources = append(refs.resources, r)
	}
}

func (b *Buffer[P]) packAttrs(p *packer, attrs []genai.Attr) {
	p.number(uint64(len(attrs)))
	for i := range attrs {
		v := &attrs[i].Value
		p.number(b.keys.number(attrs[i].Key))
		p.out = append(p.out, byte(v.Type))
		switch v.Type {
		case genai.ValueString:
			p.text(v.Str)
		case genai.ValueInt:
			p.signed(v.Int)
		case genai.ValueDouble:
			p.out = binary.LittleEndian.AppendUint64(p.out, math.Float64bits(v.Double))
		case genai.ValueBool:
			if v.Bool {
				p.out = append(p.out, 1)
			} else {
				p.out = append(p.out, 0)
			}
		case genai.ValueStrings:
			p.number(uint64(len(v.List)))
			for _, s := range v.List {
				p.text(s)
			}
		}
	}
}
