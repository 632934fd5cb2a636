package detector

import (
	"math"

	"driftline/detector/stats"
)

// A slow minority: times over farTimes the usual P95. A sequential test looks for a share that
// is farSought above the usual one; it counts from farLeast above it, with half of that as the
// lower bound of what the window shows, and has passed at farClear above it.
//
// What share is usual is a matter of the slice: of a lognormal time one in 300 where its
// logarithm has a standard deviation of 0.85, one in 90 at 1.4, and as many as every thirtieth
// where one kind of call is always slow. So each block counts its own.
const (
	farTimes  = 2.5
	farSought = 0.035
	farLeast  = 0.015
	farClear  = 0.005
	// farUsual is the least that is taken as usual: rarer ones do not make one in a hundred
	// an incident.
	farUsual = 0.005
	// farMargin is by how much the usual share may be higher than its upper bound over the
	// baseline: P95 of a block follows its own slow times a little.
	farMargin = 1.25
)

// farCount is how many of so many times were above farTimes their P95.
type farCount struct{ far, of uint64 }

// farOf takes the times in h as a sample of n.
func farOf(h *stats.Hist, p95MS float64, n uint64) farCount {
	part, err := h.Above(farTimes * p95MS)
	if err != nil {
		return farCount{}
	}
	return farCount{uint64(math.Round(part * float64(n))), n}
}

func (c *farCount) add(far, of uint64) { c.far, c.of = c.far+far, c.of+of }

// farBlock is a block's own count, and the P95 that it was counted against.
type farBlock struct {
	p95   float64
	count farCount
}

// farOver adds up what blocks counted, for a usual P95. A block whose own P95 is itself far over it
// has counted against that, and so nearly none: one call in twenty of its is above. One whose P95 is
// far below has counted times that are not far above the usual P95, and says nothing of it; below are
// their calls.
//
// Where about one in twenty is always slow, blocks are on either side.
func farOver(blocks []farBlock, p95MS float64) (sum farCount, below uint64) {
	for _, k := range blocks {
		far := k.count.far
		if k.p95 > 0 && k.p95*farTimes <= p95MS {
			below += k.count.of
			continue
		}
		if p95MS > 0 && k.p95 >= farTimes*p95MS {
			far = max(far, k.count.of/20)
		}
		sum.add(far, k.count.of)
	}
	return sum, below
}

// usual is the share that is usual: the upper bound, with confidence 0.95, of what the
// baseline had, and a margin. Of little traffic little is known, and the bound is high.
func (c farCount) usual() float64 {
	if c.of == 0 {
		return 1
	}
	i, err := stats.Wilson(min(c.far, c.of), c.of, 0.95)
	if err != nil {
		return 1
	}
	return max(farUsual, farMargin*i.Hi)
}

// waveSD is how many standard deviations of the slice's own waves the middle of all times may
// be lifted by one.
const waveSD = 2

// farMS is the time above which calls are far slower than usual. While a wave of the slice
// lifts all calls, which their median shows, it lies as much higher: those are no minority.
func (l *lateness) farMS() float64 {
	return farTimes * l.baseMS * min(max(1, l.middle.est), math.Exp(waveSD*l.moves))
}

// P95 says little where about one call in twenty is always far slower: it lies between the usual
// times and theirs, and a few of them more or fewer, as chance has it, move it from the one to the
// other. There the median says whether the slice has become slower. So it is where the baseline
// has betweenFrom of them, or betweenBelow of its calls in blocks whose P95 is far below the usual one.
const (
	betweenFrom       = 0.025
	betweenBelow      = 0.1
	betweenConfidence = 0.9999
	// betweenMargin is by how much the share may be seen too low: a block whose own P95 is
	// theirs has counted one call in twenty, however many there were.
	betweenMargin = 1.5
)

// FarBaseline is what share of a slice's times is usually above farTimes its usual P95.
type FarBaseline struct {
	// Most is at least the share, Seen what the baseline has, 0 where nothing is known.
	Most, Seen float64
	// Between says that P95 lies between two modes.
	Between bool
}

func farBaseline(c farCount, below uint64) FarBaseline {
	out := FarBaseline{Most: c.usual()}
	if c.of > 0 {
		out.Seen = float64(min(c.far, c.of)) / float64(c.of)
	}
	out.Between = out.Seen >= betweenFrom || below > 0 && float64(below) >= betweenBelow*float64(below+c.of)
	return out
}

// usualIn says that P95 of h may be high because of far slower calls alone, of which there are no
// more than there always are.
func (f FarBaseline) usualIn(h *stats.Hist, p95MS float64) bool {
	if !f.Between {
		return false
	}
	c := farOf(h, p95MS, h.N())
	i, err := stats.Wilson(min(c.far, c.of), c.of, betweenConfidence)
	return err == nil && i.Lo <= betweenMargin*f.Seen
}

// minority runs the test of the slow minority, where the window itself has one.
func (l *lateness) minority(w *OperationWindow, cfg SurgeConfig) {
	l.farAbove = l.farMS()
	part, err := l.hist.Above(l.farAbove)
	if err != nil || part < farUsual+farClear || l.usual.Most <= 0 {
		return
	}
	n := l.hist.N()
	l.far, err = stats.Wilson(min(uint64(math.Round(part*float64(n))), n), n, 0.95)
	if err != nil || part < l.usual.Most+farClear || l.usual.Most+farSought >= 1 || w.Above == nil {
		return
	}
	above, all := w.Above(l.call, l.farAbove)
	c := stats.BernoulliCUSUM{P0: l.usual.Most, P1: l.usual.Most + farSought, H: cfg.ExceedH}
	for i := range above {
		if over, err := c.Update(above[i], all[i]); err == nil {
			l.farAlarm = over
		}
		if l.farSinceMinute++; c.S == 0 {
			l.farSinceMinute = 0
		}
	}
	l.farSum = c.S
}

// minorityPages says whether the minority is as large now as the test found it over time.
func (l *lateness) minorityPages() bool {
	least := l.usual.Most + farLeast
	return l.farAlarm && l.far.Estimate >= least && l.far.Lo >= least/2
}
