package detector

import (
	"encoding/binary"
	"math"
	"slices"

	"driftline/detector/stats"
	"driftline/detector/store"
	"driftline/internal/rows"
)

// A slice's recent cells are kept packed: counts are small, so that a field takes a byte or two
// instead of eight, and a cell one allocation instead of twenty. The same list of fields packs and unpacks, so that the two cannot differ.

// parts are histograms of a cell that can be left out when it is unpacked: most of what a cell
// holds is in them, and few detections look at all.
type parts uint8

const (
	userPart parts = 1 << iota
	agentPart
	inferencePart
	ttftPart
	perTokenPart
	hiddenPart
	driftPart
	leftPart

	noParts  parts = 0
	allParts parts = 0xff
)

// coder packs fields, or unpacks them into where they were. It is one type and not two, so
// that the lists of fields stay off the heap.
type coder struct {
	packing bool
	// out is what was packed, in what is to be unpacked.
	out, in []byte
	// need are the parts to unpack; the rest is left empty.
	need parts
	// words are strings seen before, which are then not copied again; nil keeps none.
	words map[string]string
}

// packer begins to pack.
func packer() coder { return coder{packing: true} }

// unpacker unpacks all parts.
func unpacker(in []byte) coder { return coder{in: in, need: allParts} }

func (c *coder) uvarint() uint64 {
	if v := c.in[0]; v < 0x80 {
		c.in = c.in[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(c.in)
	c.in = c.in[n:]
	return v
}

func (c *coder) varint() int64 {
	v := c.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// u codes counts.
func (c *coder) u(fields ...*uint64) {
	if c.packing {
		for _, f := range fields {
			c.out = binary.AppendUvarint(c.out, *f)
		}
		return
	}
	in := c.in
	for _, f := range fields {
		if v := in[0]; v < 0x80 {
			*f, in = uint64(v), in[1:]
			continue
		}
		v, n := binary.Uvarint(in)
		*f, in = v, in[n:]
	}
	c.in = in
}

// i codes sums that may be below 0.
func (c *coder) i(fields ...*int64) {
	for _, f := range fields {
		if c.packing {
			c.out = binary.AppendVarint(c.out, *f)
		} else {
			*f = c.varint()
		}
	}
}

// labelsOfCells are the dimensions that cells of one slice differ in.
var labelsOfCells = []string{"0", "1", "2+", "unknown", "1-3", "4-7", "8-14", "15+", "", rows.LayerFramework, rows.LayerSDK, rows.LayerTransport, rows.LayerClient}

// s codes a label.
func (c *coder) s(field *string) {
	if c.packing {
		c.out = binary.AppendUvarint(c.out, uint64(len(*field)))
		c.out = append(c.out, *field...)
		return
	}
	n := c.uvarint()
	raw := c.in[:n]
	c.in = c.in[n:]
	if string(raw) == *field {
		return
	}
	for _, known := range labelsOfCells {
		if string(raw) == known { // no copy for the usual ones
			*field = known
			return
		}
	}
	word, ok := c.words[string(raw)]
	if !ok {
		if word = string(raw); c.words != nil {
			c.words[word] = word
		}
	}
	*field = word
}

// m codes a measure, whose histogram is the part. It gives the packed histogram where it unpacks.
func (c *coder) m(part parts, field *store.Measure) (packed []byte) {
	c.u(&field.N)
	c.i(&field.SumNS)
	packed = c.in
	c.measured(part, field)
	return packed
}

// like codes a measure that is often the same as another one, whose part and packed histogram are
// given: nothing hidden, agent time is user time, and where no queue is known, so is inference time.
func (c *coder) like(part parts, field, other *store.Measure, otherPart parts, packed []byte) {
	same := c.packing && field.N == other.N && field.SumNS == other.SumNS && sameHist(field.Hist, other.Hist)
	c.b(&same)
	switch {
	case !same:
		c.m(part, field)
	case c.packing:
	case part&c.need != 0 && otherPart&c.need != 0:
		field.N, field.SumNS = other.N, other.SumNS
		if field.Hist == nil {
			field.Hist = &stats.Hist{}
		}
		field.Hist.Index, field.Hist.Count = append(field.Hist.Index[:0], other.Hist.Index...), append(field.Hist.Count[:0], other.Hist.Count...)
	default:
		field.N, field.SumNS = other.N, other.SumNS
		after := c.in
		c.in = packed
		c.measured(part, field)
		c.in = after
	}
}

func sameHist(a, b *stats.Hist) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.Index, b.Index) && slices.Equal(a.Count, b.Count)
}

// measured codes a measure's histogram.
func (c *coder) measured(part parts, field *store.Measure) {
	if field.Hist == nil && !c.packing {
		field.Hist = &stats.Hist{}
	}
	c.h(part, field.Hist)
}

// h codes a histogram. Unpacked, it uses the room that field has.
func (c *coder) h(part parts, field *stats.Hist) {
	switch {
	case c.packing:
		c.out = appendHist(c.out, field)
	case part&c.need != 0:
		c.in = unpackHist(c.in, field)
	default:
		field.Index, field.Count = field.Index[:0], field.Count[:0]
		_, c.in = cutHist(c.in)
	}
}

// three is a float of 0 or more to within 2^-16 of itself, so that its last byte is 0: a
// histogram's buckets are 600 times as wide.
func three(x float32) uint32 {
	return (min(math.Float32bits(x), math.Float32bits(math.MaxFloat32)-0x80) + 0x80) &^ 0xff
}

// f codes floats in the three bytes of [three].
func (c *coder) f(fields ...*float32) {
	for _, f := range fields {
		if c.packing {
			v := three(*f)
			c.out = append(c.out, byte(v>>8), byte(v>>16), byte(v>>24))
		} else {
			*f = math.Float32frombits(uint32(c.in[0])<<8 | uint32(c.in[1])<<16 | uint32(c.in[2])<<24)
			c.in = c.in[3:]
		}
	}
}

// b codes up to eight flags.
func (c *coder) b(fields ...*bool) {
	if c.packing {
		var set byte
		for i, f := range fields {
			if *f {
				set |= 1 << i
			}
		}
		c.out = append(c.out, set)
		return
	}
	for i, f := range fields {
		*f = c.in[0]&(1<<i) != 0
	}
	c.in = c.in[1:]
}

func operationFields(c *store.OperationCell, f *coder) {
	f.s(&c.Retries)
	f.u(&c.N, &c.Late, &c.OK, &c.Timeouts, &c.Overloads, &c.ClientErrors, &c.Cancelled, &c.Status504, &c.AtCap, &c.Censored, &c.Attempts, &c.LeafAttempts, &c.AttemptsUnknown,
		&c.DeadlineKnown, &c.DeadlineMissed, &c.AgentReported, &c.InputTokens, &c.OutputTokens, &c.CachedTokens)
	f.i(&c.HiddenNS, &c.FailedNS, &c.BackoffNS)
	user := f.m(userPart, &c.User)
	f.like(agentPart, &c.Agent, &c.User, userPart, user)
	f.like(inferencePart, &c.Inference, &c.User, userPart, user)
	f.m(ttftPart, &c.TTFT)
	f.m(perTokenPart, &c.PerToken)
}

func requestFields(c *store.RequestCell, f *coder) {
	f.s(&c.Steps)
	f.s(&c.Retries)
	f.u(&c.N, &c.Late, &c.OK, &c.Timeouts, &c.Status504, &c.Censored, &c.Operations, &c.ToolCalls, &c.ToolErrors, &c.Attempts, &c.AttemptsUnknown,
		&c.DeadlineKnown, &c.DeadlineMissed, &c.DecisionPoints, &c.AgentReported)
	f.i(&c.FailedNS, &c.BackoffNS)
	user := f.m(userPart, &c.User)
	f.like(agentPart, &c.Agent, &c.User, userPart, user)
	f.m(hiddenPart, &c.Hidden)
	f.m(driftPart, &c.Drift)
}

func attemptFields(c *store.AttemptCell, f *coder) {
	f.s(&c.Endpoint)
	f.s(&c.Layer)
	f.u(&c.N, &c.Leaf, &c.Extra, &c.Failed, &c.Timeouts, &c.Overloads, &c.CutAtCap)
	f.m(allParts, &c.Cut)
}
