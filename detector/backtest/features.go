package backtest

import (
	"math"

	"driftline/detector/backtest/traffic"
	"driftline/internal/rows"
)

// slotSec is how long the oracle's steps are, in seconds.
const slotSec = 10

// feature is a bin of what an observed row says: its kind of work in the upper bits.
type feature struct {
	what int
	bin  int
}

// features collects the bins of a service's rows, by family and slot. The families are the
// operations and the requests: each says all it can of its own rows, and a request's time is
// that of its operations, so the two are never added up.
type features struct {
	service string
	names   map[string]int
	// slots hold the features of the rows that ended in a slot, by family.
	slots [2]map[int][]feature
	// keep, if not nil, tells whether rows of now count; counts then holds them.
	counts [2]map[feature]float64
	only   bool
}

func newFeatures(service string) *features {
	return &features{service: service, names: map[string]int{}, slots: [2]map[int][]feature{{}, {}}}
}

// counting collects no slots but counts, with the names of another.
func (f *features) counting() *features {
	return &features{service: f.service, names: f.names, counts: [2]map[feature]float64{{}, {}}, only: true}
}

func (f *features) add(family int, name string, bin int, ended int64) {
	what, ok := f.names[name]
	if !ok {
		what = len(f.names)
		f.names[name] = what
	}
	x := feature{what, bin}
	if f.only {
		f.counts[family][x]++
		return
	}
	slot := int((ended/1e9 - traffic.Start) / slotSec)
	f.slots[family][slot] = append(f.slots[family][slot], x)
}

// logBin is the bin of a duration in nanoseconds, width on the log scale, at most n bins.
func logBin(ns int64, width float64, n int) int {
	x := math.Log(max(float64(ns)/1e9, 0.02) / 0.02)
	return min(int(x/width), n-1)
}

func three(retries uint32) int { return int(min(retries, 2)) }

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Operation adds a call: its retries, its outcome, its time, and for streams the time to the
// first token.
func (f *features) Operation(o *rows.Operation) {
	if o.ServiceName != f.service {
		return
	}
	retries := uint32(0) // calls of agents do not say
	if o.Attempts != nil {
		retries = *o.Attempts - 1
	}
	bin := three(retries)*2 + bit(o.Outcome != rows.OutcomeOK)
	bin = bin*40 + logBin(o.UserTimeNS, 0.25, 40)
	if o.TTFTNS != nil {
		bin = bin*20 + 1 + logBin(*o.TTFTNS, 0.4, 19)
	}
	f.add(0, o.Agent+"/"+o.Target, bin, o.EndedAt)
}

// Request adds a request: its retries, its outcome, its time, its drift.
func (f *features) Request(r *rows.Request) {
	if r.ServiceName != f.service {
		return
	}
	bin := three(*r.Retries)*2 + bit(r.Outcome != rows.OutcomeOK)
	bin = bin*40 + logBin(r.UserTimeNS, 0.25, 40)
	if r.DriftNS != nil {
		bin = bin*16 + 1 + logBin(*r.DriftNS, 0.6, 15)
	}
	f.add(1, r.Agent, bin, r.EndedAt)
}

// Attempt is nothing: an operation's attempts are in its row.
func (*features) Attempt(*rows.Attempt) {}
