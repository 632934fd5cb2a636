package assemble

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"driftline/internal/rows"
)

// sentKey is a row that was sent: its key, and a hash of its content.
type sentKey struct {
	key  rows.Key
	hash uint64
}

// Forms of an id in packed keys: a span's id, one with an ordinal behind it, and text.
const (
	idRaw = iota
	idSpan
	idTry
)

// rememberKeys replaces what e knows of the rows it sent.
func (b *Buffer[P]) rememberKeys(e *entry[P], list []sentKey) {
	p := packer{out: b.work.keys[:0]}
	service := ""
	for i := range list {
		k := &list[i].key
		// Keys of one trace are mostly of one service, which is written when it changes.
		head := byte(slices.Index(rows.Tables, k.Table))<<3 | idForm(k.ID)
		if k.Service != service {
			head |= 4
		}
		p.out = append(p.out, head)
		if k.Service != service {
			service = k.Service
			p.text(service)
		}
		p.out = binary.LittleEndian.AppendUint64(p.out, list[i].hash)
		p.signed(k.Minute)
		p.keyID(k.ID, head&3)
		p.number(uint64(uint32(k.Index)))
	}
	b.work.keys = p.out
	sent := append([]byte(nil), p.out...)
	b.weigh(e, sizeClass(cap(sent))-sizeClass(cap(e.sent)))
	e.sent = sent
}

func idForm(id string) byte {
	span, ordinal, dotted := strings.Cut(id, ".")
	switch {
	case !isID(span):
		return idRaw
	case dotted && len(ordinal) < 255:
		return idTry
	case dotted:
		return idRaw
	}
	return idSpan
}

func (p *packer) keyID(id string, form byte) {
	if form == idRaw {
		p.text(id)
		return
	}
	var raw [8]byte
	_, _ = hex.Decode(raw[:], []byte(id[:16]))
	p.out = append(p.out, raw[:]...)
	if form == idTry {
		p.text(id[17:])
	}
}

// sentKeys gives back what rememberKeys wrote.
func (b *Buffer[P]) sentKeys(e *entry[P], traceID string) map[rows.Key]uint64 {
	if len(e.sent) == 0 {
		return nil
	}
	out := make(map[rows.Key]uint64, len(e.sent)/24)
	u := unpacker{in: e.sent, text: string(e.sent)}
	service := ""
	for u.at < len(e.sent) {
		head := u.byte()
		if head&4 != 0 {
			service = u.string()
		}
		hash := binary.LittleEndian.Uint64(u.in[u.at:])
		u.at += 8
		k := rows.Key{Table: rows.Tables[head>>3], Service: service, TraceID: traceID, Minute: u.signed()}
		switch head & 3 {
		case idRaw:
			k.ID = u.string()
		case idSpan:
			k.ID = u.id(0)
		case idTry:
			k.ID = u.id(0) + "." + u.string()
		}
		k.Index = int32(uint32(u.number()))
		out[k] = hash
	}
	return out
}

// sizeClass is about what the allocator takes for n bytes: classes are an eighth apart.
func sizeClass(n int) int64 {
	switch {
	case n == 0:
		return 0
	case n <= 128:
		return int64(n+15) &^ 15
	}
	return int64(n + n/16)
}
