package detector

import (
	"math"
	"slices"
	"time"

	"driftline/detector/stats"
	"driftline/detector/store"
)

// OperationBaseline is what was normal for a slice of operations.
type OperationBaseline struct {
	// Blocks is how many clean blocks stand behind it.
	Blocks int
	// P95MS and the spreads are medians over blocks, so that a few bad blocks do not
	// move them. SpreadMS is the robust SD, TailMS (P95 - P50) / 1.645.
	P95MS    float64
	P50MS    float64
	SpreadMS float64
	TailMS   float64
	// Scatter is the movement of the minutes' P95; Windows is 0 when unknown.
	Scatter stats.Spread
	// LogP95 and LogP95SD are median and 1.4826 MAD of the minutes' log P95.
	LogP95   float64
	LogP95SD float64
	Minutes  int
	// Yesterday and YesterdayTTFT are by which factor P95, and that of the time to first token,
	// were higher a day before at this time than over the whole day; 1 where that is not known,
	// or where they were not.
	Yesterday, YesterdayTTFT float64
	// Moves is by how much P95 goes up and down by itself within an hour: a standard
	// deviation of its logarithm, without what few calls make; 0 where that is not known.
	Moves float64
	// Far is the usual share of times far above P95MS.
	Far FarBaseline
	// Call is what was normal for calls of models with their ways.
	Call CallBaseline
	// TTFT and PerToken are medians over the blocks that have enough values.
	TTFT     LevelBaseline
	PerToken LevelBaseline
	Tokens   Tokens
	// Season is the factor of the time of day that P50MS, P95MS and the spreads contain; 0
	// or 1 is none.
	Season float64
	// Known counts operations that know their attempts, Retried those with retries.
	Known   uint64
	Retried uint64
	// N counts all operations, WorkBlocks the clean blocks that had any.
	N          uint64
	WorkBlocks int
	// LeafAttempts are those of the known operations; FirstTimeouts, Exhausted and Cut
	// count operations as store.OperationMinute does.
	LeafAttempts, FirstTimeouts, Exhausted, Cut uint64
	// Attempts are those of all calls to the target, streamed or not.
	Attempts AttemptBaseline
	// DeadlineKnown and DeadlineMissed count operations.
	DeadlineKnown  uint64
	DeadlineMissed uint64
}

// CallBaseline has the median P95 over blocks, in milliseconds, and median and 1.4826 MAD of
// the minutes' log P95.
type CallBaseline struct {
	Blocks           int
	P95MS            float64
	LogP95, LogP95SD float64
	Minutes          int
	Far              FarBaseline
	Moves            float64
}

// LevelBaseline is what was normal for one duration, in milliseconds.
type LevelBaseline struct {
	Blocks       int
	P50MS, P95MS float64
}

// level is a block's own, with ok when it had enough values.
type level struct {
	ok       bool
	p50, p95 float32
}

func levelOf(h *stats.Hist) level {
	if h.N() < minPerBlock {
		return level{}
	}
	return level{true, float32(quantile(h, 0.5)), float32(quantile(h, 0.95))}
}

// StratumBaseline is what was normal for requests of one step stratum.
type StratumBaseline struct {
	// N counts decision points, Requests and Operations what the stratum held.
	N          uint64
	Requests   uint64
	Operations uint64
	Drift      *stats.Hist
}

// RequestBaseline is what was normal for an agent's requests.
type RequestBaseline struct {
	Blocks         int
	Operations     uint64
	Attempts       uint64
	Unknown        uint64
	DeadlineKnown  uint64
	DeadlineMissed uint64
	Strata         map[string]*StratumBaseline
	// PerMinute is the median number of requests per minute over all blocks.
	PerMinute float64
}

// Interval is a stretch of time that is not normal; a zero To is still open.
type Interval struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// scope is what an incident keeps out of the baseline: all slices of an agent,
// because tools, models and requests of one agent move together.
type scope struct{ Service, Agent string }

// Baselines holds the blocks of the baseline window. What it says depends on the
// blocks' content and the incidents alone, not on when they were loaded.
type Baselines struct {
	cfg       Config
	planned   plan
	ops       blocks[opBlock]
	reqs      blocks[reqBlock]
	atts      blocks[AttemptBaseline]
	loaded    map[int64]bool
	incidents map[scope][]Interval
	opCache   map[Slice]OperationBaseline
	reqCache  map[Slice]RequestBaseline
	// newest is the start of the newest block.
	newest time.Time
	// room is used again and again.
	room usualRoom
}

// NewBaselines returns an empty set.
func NewBaselines(cfg Config) *Baselines {
	b := &Baselines{cfg: cfg, ops: newBlocks(opBlockFields), reqs: newBlocks(reqBlockFields), atts: newBlocks(attemptBlockFields), loaded: map[int64]bool{}, opCache: map[Slice]OperationBaseline{}, reqCache: map[Slice]RequestBaseline{}}
	b.reconfigure(cfg)
	return b
}

// reconfigure takes other settings that leave the blocks as they are.
func (b *Baselines) reconfigure(cfg Config) {
	b.cfg = cfg
	b.planned, _ = cfg.planned() // mistakes were reported by Validate
	b.changed()
}

// changed forgets what was worked out of other blocks or settings.
func (b *Baselines) changed() {
	clear(b.opCache)
	clear(b.reqCache)
	var last int64
	for at := range b.loaded {
		last = max(last, at)
	}
	b.newest = time.Unix(last, 0).UTC()
}

func (b *Baselines) blockOf(t time.Time) int64 {
	return t.Truncate(b.cfg.BlockLength).Unix()
}

// Missing lists the starts of blocks that the baseline for a window ending at
// watermark needs and that are not loaded, oldest first. Blocks that reach into
// the long window are not needed: what is judged must not be its own baseline.
func (b *Baselines) Missing(watermark time.Time) []time.Time {
	last := watermark.Add(-b.cfg.LongWindow).Truncate(b.cfg.BlockLength)
	first := last.Add(-b.cfg.BaselineWindow)
	var out []time.Time
	for at := first; at.Before(last); at = at.Add(b.cfg.BlockLength) {
		if !b.loaded[at.Unix()] {
			out = append(out, at)
		}
	}
	return out
}

// Forget drops blocks that hold one of the minutes (Unix seconds), because rows
// of theirs arrived late, and blocks older than the baseline window.
func (b *Baselines) Forget(watermark time.Time, minutes []int64) {
	drop := map[int64]bool{}
	for _, m := range minutes {
		if at := b.blockOf(time.Unix(m, 0).UTC()); b.loaded[at] {
			drop[at] = true
		}
	}
	oldest := watermark.Add(-b.cfg.LongWindow).Truncate(b.cfg.BlockLength).Add(-b.cfg.BaselineWindow).Unix()
	for at := range b.loaded {
		if at < oldest {
			drop[at] = true
		}
	}
	if len(drop) == 0 {
		return
	}
	for at := range drop {
		delete(b.loaded, at)
	}
	b.ops.drop(drop)
	b.reqs.drop(drop)
	b.atts.drop(drop)
	b.changed()
}

// Load puts the minutes of [from, to), whole blocks, into the baseline. Those of a slice come in
// the order of time.
func (b *Baselines) Load(from, to time.Time, ops []store.OperationMinute, reqs []store.RequestMinute) {
	for at := from.Truncate(b.cfg.BlockLength); at.Before(to); at = at.Add(b.cfg.BlockLength) {
		b.loaded[at.Unix()] = true
	}
	eachBlock(b, ops, func(m *store.OperationMinute) (Slice, time.Time) { return m.Slice, m.Minute }, func(s Slice, at int64, of []store.OperationMinute) {
		b.ops.put(s, at, opBlockOf(of))
	})
	eachBlock(b, reqs, func(m *store.RequestMinute) (Slice, time.Time) { return m.Slice, m.Minute }, func(s Slice, at int64, of []store.RequestMinute) {
		b.reqs.put(s, at, reqBlockOf(of))
	})
	b.changed()
}

// eachBlock calls f with what is of one slice and block, in the order of all. f must not keep it.
func eachBlock[M any](b *Baselines, all []M, key func(*M) (Slice, time.Time), f func(s Slice, at int64, of []M)) {
	type part struct {
		slice Slice
		at    int64
	}
	type ends struct{ first, last int }
	parts, found, next := map[part]int{}, []ends{}, make([]int, len(all)) // next leads to the part's next one, 0 ends it
	for i := range all {
		s, t := key(&all[i])
		p := part{s, b.blockOf(t)}
		n, known := parts[p]
		if !known {
			parts[p] = len(found)
			found = append(found, ends{i, i})
			continue
		}
		next[found[n].last], found[n].last = i, i
	}
	var of []M
	for _, p := range found {
		of = append(of[:0], all[p.first])
		for i := next[p.first]; i != 0; i = next[i] {
			of = append(of, all[i])
		}
		s, t := key(&all[p.first])
		f(s, b.blockOf(t), of)
	}
}

// SetIncidents replaces what is kept out. Only agents whose incidents changed are
// worked out anew.
func (b *Baselines) SetIncidents(incidents map[scope][]Interval) {
	same := func(s Slice) bool {
		k := scope{s.Service, s.Agent}
		return sameIntervals(b.incidents[k], incidents[k])
	}
	for s := range b.opCache {
		if !same(s) {
			delete(b.opCache, s)
		}
	}
	for s := range b.reqCache {
		if !same(s) {
			delete(b.reqCache, s)
		}
	}
	b.incidents = incidents
}

func sameIntervals(a, b []Interval) bool {
	return slices.EqualFunc(a, b, func(x, y Interval) bool { return x.From.Equal(y.From) && x.To.Equal(y.To) })
}

// clean says whether a block is free of incidents and planned maintenance. An incident counts for at most
// MaxExclusion: a level that lasts longer becomes the new normal.
func (b *Baselines) clean(s Slice, at int64) bool {
	return b.cleanWith(s, b.incidents[scope{s.Service, s.Agent}], at)
}

// cleanWith is clean where the incidents of the slice's agent are at hand.
func (b *Baselines) cleanWith(s Slice, incidents []Interval, at int64) bool {
	if len(incidents) == 0 && len(b.planned) == 0 {
		return true
	}
	from := time.Unix(at, 0).UTC()
	to := from.Add(b.cfg.BlockLength)
	for _, i := range incidents {
		end := i.From.Add(b.cfg.MaxExclusion)
		if !i.To.IsZero() && i.To.Before(end) {
			end = i.To
		}
		if i.From.Before(to) && from.Before(end) {
			return false
		}
	}
	return b.planned.over(s, from, to) == nil
}

// median is 0 without values; it leaves xs in another order.
func median(xs []float64) float64 {
	m, err := stats.MedianInPlace(xs)
	if err != nil {
		return 0
	}
	return m
}

// minPerBlock is how many inference times a block needs for a P95 of its own,
// minPerMinute a minute, and minPooled all blocks together where no block has
// enough.
const (
	minPerBlock  = 50
	minPerMinute = 50
	minPooled    = 200
)

// sameTime is how much of the baseline's oldest part lies around the same time of the day
// before: it ends where the long window begins, so its start is that much before this time.
const sameTime = 90 * time.Minute

// yesterday is the median of what a level was around this time yesterday over the day's.
func (b *Baselines) yesterday(levels []float64, day float64) float64 {
	if len(levels) < b.cfg.MinBlocks || day <= 0 || b.cfg.BaselineWindow != 24*time.Hour {
		return 1
	}
	return min(max(1, median(levels)/day), maxSeason)
}

// tailMS is the upper half's spread as a standard deviation: what the distance of
// P95 from the median would be 1.645 of, in a normal distribution.
func tailMS(p50, p95 float64) float64 { return math.Max(0, p95-p50) / 1.6448536269514722 }

// Request is the baseline of an agent's requests; without history it is zero.
func (b *Baselines) Request(s Slice) RequestBaseline {
	if c, ok := b.reqCache[s]; ok {
		return c
	}
	out := RequestBaseline{Strata: map[string]*StratumBaseline{}}
	var rates []float64
	b.reqs.each(s, allParts, func(at int64, k *reqBlock) {
		if !b.clean(s, at) {
			return
		}
		out.Blocks++
		out.Operations, out.Attempts, out.Unknown = out.Operations+k.operations, out.Attempts+k.attempts, out.Unknown+k.unknown
		out.DeadlineKnown, out.DeadlineMissed = out.DeadlineKnown+k.deadline, out.DeadlineMissed+k.missed
		rates = append(rates, float64(k.n)/b.cfg.BlockLength.Minutes())
		for i, name := range stepNames {
			st := &k.strata[i]
			if st.N+st.Requests+st.Operations == 0 {
				continue
			}
			o := out.Strata[name]
			if o == nil {
				o = &StratumBaseline{Drift: &stats.Hist{}}
				out.Strata[name] = o
			}
			o.N += st.N
			o.Requests += st.Requests
			o.Operations += st.Operations
			o.Drift.Merge(st.Drift)
		}
	})
	out.PerMinute = median(rates)
	b.reqCache[s] = out
	return out
}

// services gives the requests per minute that each service had, over its agents.
func (b *Baselines) services() map[string]float64 {
	out := map[string]float64{}
	for s := range b.reqs.bySlice {
		if r := b.Request(s); r.Blocks >= b.cfg.MinBlocks {
			out[s.Service] += r.PerMinute
		}
	}
	return out
}
