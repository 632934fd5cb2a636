package detector

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"
	"time"

	"driftline/detector/stats"
)

// recent keeps one kind of cell by slice for the minutes of the long window.
type recent[C any] struct {
	// slice, minute and fields say what a cell is of and what it holds.
	slice  func(*C) Slice
	minute func(*C) time.Time
	fields func(*C, *coder)
	// count gives what is counted by minute.
	count func(*C) counted
	// latency, where a kind has them, are what P95 by minute is taken of.
	latency func(*C) (own, call *stats.Hist)

	loaded  map[int64]bool
	bySlice map[Slice]*series

	// cell, coder and the sums are used again and again.
	cell      C
	coder     coder
	own, call stats.Sum
	hist      stats.Hist
}

// mostWords bounds the labels that are remembered, such as endpoints.
const mostWords = 10_000

// series is a slice's minutes with work, in order.
type series struct{ minutes []packedMinute }

// counted is the work of a cell or a minute, how much of it ended with HTTP 504, how much
// knows its attempts, and how much of that was tried again.
// More than four thousand million in a minute are counted as that many.
type counted struct{ n, status504, known, retried uint32 }

func countedOf(n, status504, known, retried uint64) counted {
	return counted{upTo32(n), upTo32(status504), upTo32(known), upTo32(retried)}
}

func upTo32(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }

func (c counted) plus(o counted) counted {
	sum := func(a, b uint32) uint64 { return uint64(a) + uint64(b) }
	return countedOf(sum(c.n, o.n), sum(c.status504, o.status504), sum(c.known, o.known), sum(c.retried, o.retried))
}

// packedMinute is the cells of one slice and minute.
type packedMinute struct {
	at int64 // Unix seconds
	counted
	// cells has before them, where a kind has latencies, the P95 of [OperationWindow]'s Own and
	// Call.
	cells []byte
}

// subP95 is a minute's P95 in the precision that a histogram's buckets have anyway.
type subP95 struct {
	n                   uint32
	p95MS, logMS, logSE float32
}

func subP95Of(h *stats.Hist) subP95 {
	n := h.N()
	if n == 0 {
		return subP95{}
	}
	out := subP95{n: upTo32(n), p95MS: float32(quantile(h, 0.95)), logSE: -1}
	if p, err := stats.P95Of(h); err == nil {
		out.logMS, out.logSE = float32(p.LogMS), float32(p.LogSE)
	}
	return out
}

// pack appends p: its size, and where there is any, the bucket of its P95 and two floats.
func (p subP95) pack(out []byte) []byte {
	out = binary.AppendUvarint(out, uint64(p.n))
	if p.n == 0 {
		return out
	}
	out = binary.AppendUvarint(out, uint64(placeFor(float64(p.p95MS))))
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(out, math.Float32bits(p.logMS)), math.Float32bits(p.logSE))
}

// skipP95 cuts what subP95.pack has appended off the front of in.
func skipP95(in []byte) (rest []byte) {
	n, size := binary.Uvarint(in)
	if in = in[size:]; n == 0 {
		return in
	}
	_, size = binary.Uvarint(in)
	return in[size+8:]
}

// unpack puts what subP95.pack has appended into m, and gives what follows it. A standard error
// below 0 says that there is none.
func (m *MinuteP95) unpack(in []byte) (rest []byte) {
	n, size := binary.Uvarint(in)
	if in = in[size:]; n == 0 {
		*m = MinuteP95{}
		return in
	}
	at, size := binary.Uvarint(in)
	in = in[size:]
	m.N, m.P95MS, m.Sub = n, float64(bucket32(int(at))), stats.SubP95{N: n}
	if se := math.Float32frombits(binary.BigEndian.Uint32(in[4:])); se >= 0 {
		m.Sub.LogMS, m.Sub.LogSE, m.Sub.Known = float64(math.Float32frombits(binary.BigEndian.Uint32(in))), float64(se), true
	}
	return in[8:]
}

func log32(ms float32) float32 { return float32(math.Log(float64(ms))) }

func (p subP95) sub() stats.SubP95 {
	if p.logSE < 0 {
		return stats.SubP95{N: uint64(p.n)}
	}
	return stats.SubP95{N: uint64(p.n), LogMS: float64(p.logMS), LogSE: float64(p.logSE), Known: true}
}

// forget drops minutes (Unix seconds) whose cells were computed anew.
func (r *recent[C]) forget(minutes []int64) {
	again := false
	for _, m := range minutes {
		again = again || r.loaded[m]
		delete(r.loaded, m)
	}
	if again {
		r.keep(func(m *packedMinute) bool { return r.loaded[m.at] })
	}
}

// dropBefore drops minutes before from (Unix seconds).
func (r *recent[C]) dropBefore(from int64) {
	old := false
	for m := range r.loaded {
		if m < from {
			delete(r.loaded, m)
			old = true
		}
	}
	if len(r.coder.words) > mostWords {
		r.coder.words = nil
	}
	if old {
		r.keep(func(m *packedMinute) bool { return m.at >= from })
	}
}

func (r *recent[C]) keep(f func(*packedMinute) bool) {
	for s, of := range r.bySlice {
		of.minutes = slices.DeleteFunc(of.minutes, func(m packedMinute) bool { return !f(&m) })
		if len(of.minutes) == 0 {
			delete(r.bySlice, s)
		}
	}
}

// add takes the cells of minutes that are not loaded, in the order of slices and then
// minutes, as stores give them.
func (r *recent[C]) add(from, to time.Time, cells []C) {
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		r.loaded[at.Unix()] = true
	}
	for i := 0; i < len(cells); {
		s, at := r.slice(&cells[i]), r.minute(&cells[i]).Unix()
		m := packedMinute{at: at}
		r.coder.packing, r.coder.out = true, r.coder.out[:0]
		first := i
		for ; i < len(cells) && r.minute(&cells[i]).Unix() == at && r.slice(&cells[i]) == s; i++ {
			m.counted = m.plus(r.count(&cells[i]))
			if r.latency != nil {
				o, c := r.latency(&cells[i])
				r.own.Add(o)
				r.call.Add(c)
			}
		}
		if r.latency != nil {
			for _, sum := range []*stats.Sum{&r.own, &r.call} {
				sum.Take(&r.hist)
				r.coder.out = subP95Of(&r.hist).pack(r.coder.out)
			}
		}
		for k := range cells[first:i] {
			r.fields(&cells[first+k], &r.coder)
		}
		m.cells = slices.Clone(r.coder.out)
		of := r.bySlice[s]
		if of == nil {
			of = &series{}
			r.bySlice[s] = of
		}
		k := sort.Search(len(of.minutes), func(k int) bool { return of.minutes[k].at >= at })
		of.minutes = slices.Insert(of.minutes, k, m)
	}
}

// each unpacks a slice's cells with minutes in [from, to), with the parts needed, one after
// the other into the same cell, which f must not keep. f must not ask for cells itself.
func (r *recent[C]) each(s Slice, from, to time.Time, need parts, f func(*C)) {
	of := r.bySlice[s]
	if of == nil {
		return
	}
	if r.coder.words == nil {
		r.coder.words = map[string]string{}
	}
	first, end := from.Unix(), to.Unix()
	for i := range of.minutes {
		if m := &of.minutes[i]; m.at >= first && m.at < end {
			r.coder.packing, r.coder.need, r.coder.in = false, need, m.cells
			if r.latency != nil {
				r.coder.in = skipP95(skipP95(m.cells))
			}
			for len(r.coder.in) > 0 {
				r.fields(&r.cell, &r.coder)
				f(&r.cell)
			}
		}
	}
}

// n is how much work a slice had in [from, to), Unix seconds.
func (s *series) n(from, to int64) (n uint64) {
	for i := range s.minutes {
		if at := s.minutes[i].at; at >= from && at < to {
			n += uint64(s.minutes[i].n)
		}
	}
	return n
}

// within says whether there was any cell in [from, to), Unix seconds.
func (s *series) within(from, to int64) bool {
	return slices.ContainsFunc(s.minutes, func(m packedMinute) bool { return m.at >= from && m.at < to })
}

// summaries appends a slice's minutes in [from, to), in order.
func (r *recent[C]) summaries(out []Minute, s Slice, from, to time.Time) []Minute {
	of := r.bySlice[s]
	if of == nil {
		return out
	}
	first, end := from.Unix(), to.Unix()
	for i := range of.minutes {
		if m := &of.minutes[i]; m.at >= first && m.at < end {
			out = append(out, Minute{At: time.Unix(m.at, 0).UTC(), Known: uint64(m.known), Retried: uint64(m.retried)})
			if r.latency != nil {
				last := &out[len(out)-1]
				rest := last.Own.unpack(m.cells)
				last.Call.unpack(rest)
			}
		}
	}
	return out
}

// slicesWithin lists the slices with cells in [from, to), in order.
func (r *recent[C]) slicesWithin(from, to time.Time) []Slice {
	var out []Slice
	for s, of := range r.bySlice {
		if of.within(from.Unix(), to.Unix()) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, compareSlices)
	return out
}
