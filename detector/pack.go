package detector

import (
	"encoding/binary"
	"slices"

	"driftline/detector/stats"
	"driftline/detector/store"
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
}

// packer appends fields to b.
type packer struct{ b []byte }

func (p *packer) u(fields ...*uint64) {
	for _, f := range fields {
		p.b = binary.AppendUvarint(p.b, *f)
	}
}

func (p *packer) i(fields ...*int64) {
	for _, f := range fields {
		p.b = binary.AppendVarint(p.b, *f)
	}
}

func (p *packer) s(field *string) {
	p.b = binary.AppendUvarint(p.b, uint64(len(*field)))
	p.b = append(p.b, *field...)
}

func (p *packer) m(fields ...*store.Measure) {
	for _, f := range fields {
		p.b = binary.AppendUvarint(p.b, f.N)
		p.b = binary.AppendVarint(p.b, f.SumNS)
		p.hist(f.Hist)
	}
}

func (p *packer) hist(h *stats.Hist) {
	if h == nil {
		p.b = append(p.b, 0)
		return
	}
	p.b = binary.AppendUvarint(p.b, uint64(len(h.Index)))
	last := int64(0)
	for i, ix := range h.Index {
		p.b = binary.AppendVarint(p.b, int64(ix)-last)
		p.b = binary.AppendUvarint(p.b, h.Count[i])
		last = int64(ix)
	}
}

// unpacker takes fields off b. Histograms are put where the field's own is, if it has one,
// so that one cell can be filled many times.
type unpacker struct{ b []byte }

func (u *unpacker) uvarint() uint64 {
	v, n := binary.Uvarint(u.b)
	u.b = u.b[n:]
	return v
}

func (u *unpacker) varint() int64 {
	v, n := binary.Varint(u.b)
	u.b = u.b[n:]
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
var labelsOfCells = []string{"0", "1", "2+", "unknown", "1-3", "4-7", "8-14", "15+"}

func (u *unpacker) s(field *string) {
	n := u.uvarint()
	raw := u.b[:n]
	u.b = u.b[n:]
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
		u.hist(f.Hist)
	}
}

func (u *unpacker) hist(h *stats.Hist) {
	n := int(u.uvarint())
	h.Index, h.Count = slices.Grow(h.Index[:0], n), slices.Grow(h.Count[:0], n)
	last := int64(0)
	for range n {
		last += u.varint()
		h.Index, h.Count = append(h.Index, int16(last)), append(h.Count, u.uvarint())
	}
}

func operationFields(c *store.OperationCell, f coder) {
	f.s(&c.Retries)
	f.u(&c.N, &c.Late, &c.OK, &c.Timeouts, &c.Overloads, &c.Status504, &c.AtCap, &c.Censored, &c.Attempts, &c.LeafAttempts, &c.AttemptsUnknown,
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
