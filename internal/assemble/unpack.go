package assemble

import (
	"encoding/binary"
	"encoding/hex"
	"math"

	"driftline/internal/genai"
)

// unpacker reads what a packer wrote. Its input is this process's own memory, so it
// checks nothing that the packer guarantees.
type unpacker struct {
	in   []byte
	text string // the same bytes: spans share its memory
	at   int
}

func (u *unpacker) number() uint64 {
	n, size := binary.Uvarint(u.in[u.at:])
	u.at += size
	return n
}

func (u *unpacker) signed() int64 {
	n, size := binary.Varint(u.in[u.at:])
	u.at += size
	return n
}

func (u *unpacker) byte() byte {
	u.at++
	return u.in[u.at-1]
}

func (u *unpacker) string() string {
	n := int(u.number())
	u.at += n
	return u.text[u.at-n : u.at]
}

// unpack appends the spans that pack wrote to out.
func (b *Buffer[P]) unpack(out []genai.Span, packed []byte, traceID string) []genai.Span {
	if len(packed) == 0 {
		return out
	}
	u := unpacker{in: packed, text: string(packed)}
	for u.at < len(packed) {
		n := int(u.number())
		base := u.signed()
		var refs references
		for range n {
			out = append(out, b.unpackSpan(&u, &refs, traceID, base))
		}
	}
	return out
}

func (b *Buffer[P]) unpackSpan(u *unpacker, refs *references, traceID string, base int64) genai.Span {
	flags := u.byte()
	s := genai.Span{TraceID: traceID, Kind: genai.SpanKind(u.byte()), Status: genai.Status(u.byte()), EventsDropped: flags&eventsDropped != 0}
	s.SpanID = u.id(flags)
	if flags&hasParent != 0 {
		s.ParentID = u.id(flags)
	}
	s.Start = base + u.signed()
	s.End = s.Start + u.signed()
	s.Name = u.string()
	s.Scope = u.scope(refs)
	if flags&hasResource != 0 {
		s.Resource = u.resource(refs)
	}
	if flags&hasTraceState != 0 {
		s.TraceState = u.string()
	}
	if flags&hasLinks != 0 {
		s.LinkedTraces = make([]string, u.number())
		for i := range s.LinkedTraces {
			s.LinkedTraces[i] = u.string()
		}
	}
	s.Attrs = b.unpackAttrs(u)
	if flags&hasEvents != 0 {
		s.Events = make([]genai.Event, u.number())
		for i := range s.Events {
			e := &s.Events[i]
			e.Time = s.Start + u.signed()
			e.Name = u.string()
			e.Attrs = b.unpackAttrs(u)
		}
	}
	return s
}

func (u *unpacker) id(flags byte) string {
	if flags&rawIDs != 0 {
		return u.string()
	}
	var text [16]byte
	hex.Encode(text[:], u.in[u.at:u.at+8])
	u.at += 8
	return string(text[:])
}

func (u *unpacker) scope(refs *references) string {
	if n := u.number(); n > 0 {
		return refs.scopes[n-1]
	}
	s := u.string()
	if len(refs.scopes) < maxReferences {
		refs.scopes = append(refs.scopes, s)
	}
	return s
}

func (u *unpacker) resource(refs *references) *genai.Resource {
	if n := u.number(); n > 0 {
		return refs.resources[n-1]
	}
	r := &genai.Resource{ServiceName: u.string(), ServiceVersion: u.string(), Environment: u.string(), HostID: u.string()}
	if len(refs.resources) < maxReferences {
		refs.resources = append(refs.resources, r)
	}
	return r
}

func (b *Buffer[P]) unpackAttrs(u *unpacker) []genai.Attr {
	n := int(u.number())
	if n == 0 {
		return nil
	}
	out := make([]genai.Attr, n)
	for i := range out {
		out[i].Key = b.keys.names[u.number()]
		v := &out[i].Value
		switch v.Type = genai.ValueType(u.byte()); v.Type {
		case genai.ValueString:
			v.Str = u.string()
		case genai.ValueInt:
			v.Int = u.signed()
		case genai.ValueDouble:
			v.Double = math.Float64frombits(binary.LittleEndian.Uint64(u.in[u.at:]))
			u.at += 8
		case genai.ValueBool:
			v.Bool = u.byte() == 1
		case genai.ValueStrings:
			v.List = make([]string, u.number())
			for k := range v.List {
				v.List[k] = u.string()
			}
		}
	}
	return out
}
