package detector

import (
	"encoding/binary"
	"math"
	"slices"

	"driftline/detector/stats"
	"driftline/detector/store"
	"driftline/internal/rows"
)

// A slice's recent cells are kept packed: counts are small and most buckets hold one or two
// values, so a bucket takes two bytes instead of ten, and a cell one allocation instead of
// twenty. The same list of fields packs and unpacks, so that the two cannot differ.

// coder visits the fields of a cell.
type coder interface {
	u(fields ...*uint64)
	i(fields ...*int64)
	s(field *string)
	m(fields ...*store.Measure)
	f(fields ...*float32)
	fs(field *[]float32)
	b(fields ...*bool)
	h(field *stats.Hist)
}

// packer appends fields to out.
type packer struct{ out []byte }

func (p *packer) u(fields ...*uint64) {
	for _, f := range fields {
		p.out = binary.AppendUvarint(p.out, *f)
	}
}

func (p *packer) i(fields ...*int64) {
	for _, f := range fields {
		p.out = binary.AppendVarint(p.out, *f)
	}
}

func (p *packer) s(field *string) {
	p.out = binary.AppendUvarint(p.out, uint64(len(*field)))
	p.out = append(p.out, *field...)
}

func (p *packer) m(fields ...*store.Measure) {
	for _, f := range fields {
		p.out = binary.AppendUvarint(p.out, f.N)
		p.out = binary.AppendVarint(p.out, f.SumNS)
		p.h(f.Hist)
	}
}

func (p *packer) h(h *stats.Hist) {
	if h == nil {
		p.out = append(p.out, 0)
		return
	}
	p.out = binary.AppendUvarint(p.out, uint64(len(h.Index)))
	last := int64(0)
	for i, ix := range h.Index {
		p.out = binary.AppendVarint(p.out, int64(ix)-last)
		p.out = binary.AppendUvarint(p.out, h.Count[i])
		last = int64(ix)
	}
}

// f packs a float of 0 or more in three bytes, to within 2^-16 of itself: a histogram's buckets
// are 600 times as wide.
func (p *packer) f(fields ...*float32) {
	for _, f := range fields {
		v := min(math.Float32bits(*f), math.Float32bits(math.MaxFloat32)-0x80) + 0x80
		p.out = append(p.out, byte(v>>8), byte(v>>16), byte(v>>24))
	}
}

func (p *packer) fs(field *[]float32) {
	p.out = binary.AppendUvarint(p.out, uint64(len(*field)))
	for i := range *field {
		p.f(&(*field)[i])
	}
}

func (p *packer) b(fields ...*bool) {
	var set byte
	for i, f := range fields {
		if *f {
			set |= 1 << i
		}
	}
	p.out = append(p.out, set)
}

// unpacker takes fields off in. Histograms are put where the field's own is, if it has one,
// so that one cell can be filled many times.
type unpacker struct{ in []byte }

func (u *unpacker) uvarint() uint64 {
	v, n := binary.Uvarint(u.in)
	u.in = u.in[n:]
	return v
}

func (u *unpacker) varint() int64 {
	v, n := binary.Varint(u.in)
	u.in = u.in[n:]
	return v
}

func (u *unpacker) u(fields ...*uint64) {
	for _, f := range fields {
		*f = u.uvarint()
	}
}

func (u *unpacker) i(fields ...*int64) {
	for _, f := range fields {
		*f = u.varint()
	}
}

// labels are the dimensions that cells of one slice differ in.
var labelsOfCells = []string{"0", "1", "2+", "unknown", "1-3", "4-7", "8-14", "15+", "", rows.LayerFramework, rows.LayerSDK, rows.LayerTransport, rows.LayerClient}

func (u *unpacker) s(field *string) {
	n := u.uvarint()
	raw := u.in[:n]
	u.in = u.in[n:]
	for _, known := range labelsOfCells {
		if string(raw) == known { // no copy for the usual ones
			*field = known
			return
		}
	}
	*field = string(raw)
}

func (u *unpacker) m(fields ...*store.Measure) {
	for _, f := range fields {
		f.N, f.SumNS = u.uvarint(), u.varint()
		if f.Hist == nil {
			f.Hist = &stats.Hist{}
		}
		u.h(f.Hist)
	}
}

func (u *unpacker) h(h *stats.Hist) {
	n := int(u.uvarint())
	h.Index, h.Count = slices.Grow(h.Index[:0], n), slices.Grow(h.Count[:0], n)
	last := int64(0)
	for range n {
		last += u.varint()
		h.Index, h.Count = append(h.Index, int16(last)), append(h.Count, u.uvarint())
	}
}

func (u *unpacker) f(fields ...*float32) {
	for _, f := range fields {
		*f = math.Float32frombits(uint32(u.in[0])<<8 | uint32(u.in[1])<<16 | uint32(u.in[2])<<24)
		u.in = u.in[3:]
	}
}

func (u *unpacker) fs(field *[]float32) {
	*field = (*field)[:0]
	for range u.uvarint() {
		var x float32
		u.f(&x)
		*field = append(*field, x)
	}
}

func (u *unpacker) b(fields ...*bool) {
	for i, f := range fields {
		*f = u.in[0]&(1<<i) != 0
	}
	u.in = u.in[1:]
}

func operationFields(c *store.OperationCell, f coder) {
	f.s(&c.Retries)
	f.u(&c.N, &c.Late, &c.OK, &c.Timeouts, &c.Overloads, &c.ClientErrors, &c.Cancelled, &c.Status504, &c.AtCap, &c.Censored, &c.Attempts, &c.LeafAttempts, &c.AttemptsUnknown,
		&c.DeadlineKnown, &c.DeadlineMissed, &c.AgentReported, &c.InputTokens, &c.OutputTokens, &c.CachedTokens)
	f.i(&c.HiddenNS, &c.FailedNS, &c.BackoffNS)
	f.m(&c.User, &c.Agent, &c.Inference, &c.TTFT, &c.PerToken)
}

func requestFields(c *store.RequestCell, f coder) {
	f.s(&c.Steps)
	f.s(&c.Retries)
	f.u(&c.N, &c.Late, &c.OK, &c.Timeouts, &c.Status504, &c.Censored, &c.Operations, &c.ToolCalls, &c.ToolErrors, &c.Attempts, &c.AttemptsUnknown,
		&c.DeadlineKnown, &c.DeadlineMissed, &c.DecisionPoints, &c.AgentReported)
	f.i(&c.FailedNS, &c.BackoffNS)
	f.m(&c.User, &c.Agent, &c.Hidden, &c.Drift)
}

func attemptFields(c *store.AttemptCell, f coder) {
	f.s(&c.Endpoint)
	f.s(&c.Layer)
	f.u(&c.N, &c.Leaf, &c.Extra, &c.Failed, &c.Timeouts, &c.Overloads, &c.CutAtCap)
	f.m(&c.Cut)
}
