package detector

import (
	"encoding/binary"
	"math"
	"slices"

	"driftline/detector/stats"
	"driftline/detector/store"
)

// blocks keeps one kind of block by slice, packed one after the other: a day has 144 of them,
// and a pointer to each would cost as much as what it says.
type blocks[B any] struct {
	fields  func(*B, *coder)
	bySlice map[Slice]packedBlocks
	// block and coder are used again and again.
	block B
	coder coder
}

// packedBlocks are blocks in the order of time, each with its start in seconds and its length.
type packedBlocks []byte

// next takes the first block off p.
func (p packedBlocks) next() (at int64, data []byte, rest packedBlocks) {
	start, n := binary.Varint(p)
	size, m := binary.Uvarint(p[n:])
	end := n + m + int(size)
	return start, p[n+m : end], p[end:]
}

func (p packedBlocks) with(at int64, data []byte) packedBlocks {
	if need := len(p) + len(data) + 2*binary.MaxVarintLen64; need > cap(p) {
		p = append(make(packedBlocks, 0, need+need/16), p...)
	}
	return append(binary.AppendUvarint(binary.AppendVarint(p, at), uint64(len(data))), data...)
}

func newBlocks[B any](fields func(*B, *coder)) blocks[B] {
	return blocks[B]{fields: fields, bySlice: map[Slice]packedBlocks{}}
}

// put takes a block, in place of the one that started then.
func (b *blocks[B]) put(s Slice, at int64, block *B) {
	b.coder = coder{packing: true, out: b.coder.out[:0]}
	b.fields(block, &b.coder)
	all := b.bySlice[s]
	var before, after packedBlocks
	for rest := all; len(rest) > 0; {
		start, _, next := rest.next()
		switch whole := rest[:len(rest)-len(next)]; {
		case start < at:
			before = all[:len(before)+len(whole)]
		case start > at:
			after = append(after, whole...)
		}
		rest = next
	}
	if before == nil {
		before = all[:0:0]
	}
	b.bySlice[s] = append(before.with(at, b.coder.out), after...)
}

// drop forgets the blocks that started then.
func (b *blocks[B]) drop(starts map[int64]bool) {
	for s, all := range b.bySlice {
		kept := all[:0]
		for rest := all; len(rest) > 0; {
			start, _, next := rest.next()
			if !starts[start] {
				kept = append(kept, rest[:len(rest)-len(next)]...)
			}
			rest = next
		}
		if b.bySlice[s] = kept; len(kept) == 0 {
			delete(b.bySlice, s)
		}
	}
}

// each unpacks a slice's blocks in order, with the parts needed, one after the other into the
// same block, which f must not keep. f must not ask for blocks itself.
func (b *blocks[B]) each(s Slice, need parts, f func(at int64, block *B)) {
	b.between(s, math.MinInt64, math.MaxInt64, need, f)
}

// between is each of the blocks that start in [from, to).
func (b *blocks[B]) between(s Slice, from, to int64, need parts, f func(at int64, block *B)) {
	for rest := b.bySlice[s]; len(rest) > 0; {
		at, data, next := rest.next()
		if at < from || at >= to {
			rest = next
			continue
		}
		b.coder.packing, b.coder.in, b.coder.need = false, data, need
		b.fields(&b.block, &b.coder)
		f(at, &b.block)
		rest = next
	}
}

// opBlock is what a block of operations says by itself: worked out once, when it is read.
// Times are in milliseconds.
type opBlock struct {
	n, known, retried uint64
	leaf, first       uint64
	exhausted, cut    uint64
	deadline, missed  uint64
	tokens            Tokens
	// ok says that there were enough of the slice's own times for p50, p95 and tail, sdOK for sd. A
	// block with fewer keeps them all in thin.
	ok, sdOK           bool
	p50, p95, tail, sd float32
	thin               stats.Hist
	// isThin says that thin has something, also where it was not unpacked.
	isThin bool
	// windows is how many minutes the movement of P95 was measured over, 0 for none.
	windows                  uint64
	raw, sampling, corrected float32
	ttft, perToken           level
	// minutes are the places of the minutes' P95.
	minutes []uint16
	// callP95 and callMinutes are of the window's Call.
	callP95     float32
	callMinutes []uint16
	// far and callFar are how many of the n operations took far longer than the block's own P95,
	// if those whose time is not known are as the others.
	far, callFar uint64
}

func opBlockOf(minutes []store.OperationMinute) *opBlock {
	k := &opBlock{}
	var own, call, ttft, perToken stats.Hist
	var ownSum, callSum, ttftSum, perTokenSum stats.Sum
	subs := make([]stats.SubP95, 0, len(minutes))
	for i := range minutes {
		m := &minutes[i]
		k.n, k.known, k.retried = k.n+m.N, k.known+m.Known, k.retried+m.Retried
		k.leaf, k.first, k.exhausted, k.cut = k.leaf+m.LeafAttempts, k.first+m.FirstTimeouts, k.exhausted+m.Exhausted, k.cut+m.Cut
		k.deadline, k.missed = k.deadline+m.DeadlineKnown, k.missed+m.DeadlineMissed
		k.tokens.add(Tokens{m.N, m.InputTokens, m.OutputTokens, m.CachedTokens})
		mine, calls := ownTime(m.Kind, m.Inference, m.Call).Hist, callTime(m.Kind, m.Call).Hist
		ownSum.Add(mine)
		callSum.Add(calls)
		ttftSum.Add(m.TTFT.Hist)
		perTokenSum.Add(m.PerToken.Hist)
		if p := subP95Of(calls); p.n >= minPerMinute && p.p95MS > 0 {
			k.callMinutes = append(k.callMinutes, uint16(placeFor(float64(p.p95MS))))
		}
		if p := subP95Of(mine); p.n >= minPerMinute && p.p95MS > 0 {
			k.minutes = append(k.minutes, uint16(placeFor(float64(p.p95MS))))
			subs = append(subs, p.sub())
		}
	}
	ownSum.Take(&own)
	callSum.Take(&call)
	ttftSum.Take(&ttft)
	perTokenSum.Take(&perToken)
	k.ttft, k.perToken = levelOf(&ttft), levelOf(&perToken)
	if call.N() >= minPerBlock {
		p95 := quantile(&call, 0.95)
		k.callP95, k.callFar = float32(p95), farOf(&call, p95, k.n).far
	}
	if k.ok = own.N() >= minPerBlock; !k.ok {
		k.thin, k.isThin = own, own.N() > 0
		return k
	}
	p50, p95 := quantile(&own, 0.5), quantile(&own, 0.95)
	k.p50, k.p95, k.tail = float32(p50), float32(p95), float32(tailMS(p50, p95))
	k.far = farOf(&own, p95, k.n).far
	sd, err := own.RobustSD(stats.Linear)
	k.sd, k.sdOK = float32(sd), err == nil
	if sp, err := stats.P95SpreadOf(subs, stats.SpreadConfig{MinPerWindow: minPerMinute, MinWindows: 5}); err == nil {
		k.windows, k.raw, k.sampling, k.corrected = uint64(sp.Windows), float32(sp.RawSD), float32(sp.SamplingSD), float32(sp.CorrectedSD)
	}
	return k
}

func opBlockFields(k *opBlock, f *coder) {
	f.u(&k.n, &k.known, &k.retried, &k.leaf, &k.first, &k.exhausted, &k.cut, &k.deadline, &k.missed, &k.tokens.Operations, &k.tokens.Input, &k.tokens.Output, &k.tokens.Cached, &k.windows, &k.far, &k.callFar)
	f.b(&k.ok, &k.sdOK, &k.ttft.ok, &k.perToken.ok)
	f.tail(k.ok, &k.p50, &k.p95, &k.tail)
	floatsIf(f, k.sdOK, &k.sd)
	floatsIf(f, k.windows > 0, &k.raw, &k.sampling, &k.corrected)
	quantilesIf(f, k.ttft.ok, &k.ttft.p50, &k.ttft.p95)
	quantilesIf(f, k.perToken.ok, &k.perToken.p50, &k.perToken.p95)
	f.q(&k.callP95)
	f.places(&k.minutes)
	f.places(&k.callMinutes)
	if !f.packing {
		k.isThin = f.in[0] != 0
	}
	f.h(allParts, &k.thin)
}

// stepNames are the strata of requests, by how many model calls they have.
var stepNames = []string{"0", "1-3", "4-7", "8-14", "15+"}

// reqBlock is one block of an agent's requests; its strata are in the order of stepNames.
type reqBlock struct {
	n, operations, attempts, unknown uint64
	deadline, missed                 uint64
	strata                           [5]StratumBaseline
}

func reqBlockOf(minutes []store.RequestMinute) *reqBlock {
	k := &reqBlock{}
	for i := range k.strata {
		k.strata[i].Drift = &stats.Hist{}
	}
	for i := range minutes {
		m := &minutes[i]
		k.n, k.operations, k.attempts, k.unknown = k.n+m.N, k.operations+m.Operations, k.attempts+m.Attempts, k.unknown+m.AttemptsUnknown
		k.deadline, k.missed = k.deadline+m.DeadlineKnown, k.missed+m.DeadlineMissed
		if at := slices.Index(stepNames, m.Steps); at >= 0 {
			s := &k.strata[at]
			s.N += m.Drift.N
			s.Requests += m.N
			s.Operations += m.Operations
			s.Drift.Merge(m.Drift.Hist)
		}
	}
	return k
}

func reqBlockFields(k *reqBlock, f *coder) {
	f.u(&k.n, &k.operations, &k.attempts, &k.unknown, &k.deadline, &k.missed)
	for i := range k.strata {
		s := &k.strata[i]
		f.u(&s.N, &s.Requests, &s.Operations)
		if s.Drift == nil {
			s.Drift = &stats.Hist{}
		}
		f.h(allParts, s.Drift)
	}
}
