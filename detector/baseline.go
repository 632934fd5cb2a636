package detector

import (
	"math"
	"slices"
	"sort"
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
	// TTFT and PerToken are medians over the blocks that have enough values.
	TTFT     LevelBaseline
	PerToken LevelBaseline
	Tokens   Tokens
	// Pooled holds all inference times of the clean blocks.
	Pooled *stats.Hist
	// Known counts operations that know their attempts, Retried those with retries.
	Known   uint64
	Retried uint64
	// DeadlineKnown and DeadlineMissed count operations.
	DeadlineKnown  uint64
	DeadlineMissed uint64
}

// LevelBaseline is what was normal for one duration, in milliseconds.
type LevelBaseline struct {
	Blocks       int
	P50MS, P95MS float64
}

// level is a block's own.
type level struct {
	ok       bool
	p50, p95 float64
}

func levelOf(h *stats.Hist) level {
	if h.N() < minPerBlock {
		return level{}
	}
	return level{true, quantile(h, 0.5), quantile(h, 0.95)}
}

// levelsOf takes the medians over blocks.
func levelsOf(blocks []level) LevelBaseline {
	var p50s, p95s []float64
	for _, l := range blocks {
		if l.ok {
			p50s, p95s = append(p50s, l.p50), append(p95s, l.p95)
		}
	}
	return LevelBaseline{Blocks: len(p50s), P50MS: median(p50s), P95MS: median(p95s)}
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

// opBlock and reqBlock are one block of a slice.
type opBlock struct {
	n, known, retried uint64
	deadline, missed  uint64
	tokens            Tokens
	inference         *stats.Hist
	ttft, perToken    *stats.Hist
	minutes           []*stats.Hist
	sum               *blockSummary
}

// blockSummary is what a block of operations says by itself. It is worked out once,
// since the baseline is asked for every few minutes and a block stays for a day.
type blockSummary struct {
	ok             bool
	p50, p95, tail float64
	sd             float64
	sdOK           bool
	scatter        stats.Spread
	scatterOK      bool
	logs           []float64
	ttft, perToken level
}

func (k *opBlock) summary() *blockSummary {
	if k.sum != nil {
		return k.sum
	}
	s := &blockSummary{ok: k.inference.N() >= minPerBlock}
	for _, m := range k.minutes {
		if p, err := m.Quantile(0.95); err == nil && m.N() >= minPerMinute && p > 0 {
			s.logs = append(s.logs, math.Log(p))
		}
	}
	if s.ok {
		s.p50, s.p95 = quantile(k.inference, 0.5), quantile(k.inference, 0.95)
		s.tail = tailMS(s.p50, s.p95)
		sd, err := k.inference.RobustSD(stats.Linear)
		s.sd, s.sdOK = sd, err == nil
		s.scatter, err = stats.P95Spread(k.minutes, stats.SpreadConfig{MinPerWindow: minPerMinute, MinWindows: 5})
		s.scatterOK = err == nil
	}
	s.ttft, s.perToken = levelOf(k.ttft), levelOf(k.perToken)
	k.sum, k.minutes, k.ttft, k.perToken = s, nil, nil, nil // not needed any more
	return s
}

type reqBlock struct {
	n, operations, attempts, unknown uint64
	deadline, missed                 uint64
	strata                           map[string]*StratumBaseline
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
	ops       map[Slice]map[int64]*opBlock
	reqs      map[Slice]map[int64]*reqBlock
	loaded    map[int64]bool
	incidents map[scope][]Interval
	opCache   map[Slice]OperationBaseline
	reqCache  map[Slice]RequestBaseline
}

// NewBaselines returns an empty set.
func NewBaselines(cfg Config) *Baselines {
	b := &Baselines{cfg: cfg, ops: map[Slice]map[int64]*opBlock{}, reqs: map[Slice]map[int64]*reqBlock{}, loaded: map[int64]bool{}}
	b.reconfigure(cfg)
	return b
}

// reconfigure takes other settings that leave the blocks as they are.
func (b *Baselines) reconfigure(cfg Config) {
	b.cfg = cfg
	b.planned, _ = cfg.planned() // mistakes were reported by Validate
	b.changed()
}

func (b *Baselines) changed() {
	b.opCache, b.reqCache = map[Slice]OperationBaseline{}, map[Slice]RequestBaseline{}
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
		dropBlock(b.ops, at)
		dropBlock(b.reqs, at)
	}
	b.changed()
}

func dropBlock[B any](m map[Slice]map[int64]B, at int64) {
	for s, blocks := range m {
		if delete(blocks, at); len(blocks) == 0 {
			delete(m, s)
		}
	}
}

// Load puts the minutes of [from, to), whole blocks, into the baseline.
func (b *Baselines) Load(from, to time.Time, ops []store.OperationMinute, reqs []store.RequestMinute) {
	for at := from.Truncate(b.cfg.BlockLength); at.Before(to); at = at.Add(b.cfg.BlockLength) {
		b.loaded[at.Unix()] = true
	}
	for i := range ops {
		m := &ops[i]
		k := block(b.ops, m.Slice, b.blockOf(m.Minute), func() *opBlock {
			return &opBlock{inference: &stats.Hist{}, ttft: &stats.Hist{}, perToken: &stats.Hist{}}
		})
		k.n, k.known, k.retried = k.n+m.N, k.known+m.Known, k.retried+m.Retried
		k.deadline, k.missed = k.deadline+m.DeadlineKnown, k.missed+m.DeadlineMissed
		k.tokens.add(Tokens{m.N, m.InputTokens, m.OutputTokens, m.CachedTokens})
		k.inference.Merge(m.Inference.Hist)
		k.ttft.Merge(m.TTFT.Hist)
		k.perToken.Merge(m.PerToken.Hist)
		k.minutes = append(k.minutes, m.Inference.Hist)
	}
	for i := range reqs {
		m := &reqs[i]
		k := block(b.reqs, m.Slice, b.blockOf(m.Minute), func() *reqBlock { return &reqBlock{strata: map[string]*StratumBaseline{}} })
		k.n, k.operations, k.attempts, k.unknown = k.n+m.N, k.operations+m.Operations, k.attempts+m.Attempts, k.unknown+m.AttemptsUnknown
		k.deadline, k.missed = k.deadline+m.DeadlineKnown, k.missed+m.DeadlineMissed
		s := k.strata[m.Steps]
		if s == nil {
			s = &StratumBaseline{Drift: &stats.Hist{}}
			k.strata[m.Steps] = s
		}
		s.N += m.Drift.N
		s.Requests += m.N
		s.Operations += m.Operations
		s.Drift.Merge(m.Drift.Hist)
	}
	b.changed()
}

func block[B any](m map[Slice]map[int64]*B, s Slice, at int64, fresh func() *B) *B {
	if m[s] == nil {
		m[s] = map[int64]*B{}
	}
	if m[s][at] == nil {
		m[s][at] = fresh()
	}
	return m[s][at]
}

// SetIncidents replaces what is kept out. Only agents whose incidents changed are
// worked out anew.
func (b *Baselines) SetIncidents(incidents map[scope][]Interval) {
	same := func(s Slice) bool {
		k := scope{s.Service, s.Agent}
		return slices.EqualFunc(b.incidents[k], incidents[k], func(x, y Interval) bool { return x.From.Equal(y.From) && x.To.Equal(y.To) })
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

// clean says whether a block is free of incidents and planned maintenance. An incident counts for at most
// MaxExclusion: a level that lasts longer becomes the new normal.
func (b *Baselines) clean(s Slice, at int64) bool {
	from := time.Unix(at, 0).UTC()
	to := from.Add(b.cfg.BlockLength)
	for _, i := range b.incidents[scope{s.Service, s.Agent}] {
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

// usable lists the clean blocks of a slice that lie before the long window.
func usable[B any](b *Baselines, blocks map[int64]*B, s Slice) []*B {
	starts := make([]int64, 0, len(blocks))
	for at := range blocks {
		if b.clean(s, at) {
			starts = append(starts, at)
		}
	}
	sort.Slice(starts, func(i, j int) bool { return starts[i] < starts[j] })
	out := make([]*B, len(starts))
	for i, at := range starts {
		out[i] = blocks[at]
	}
	return out
}

func median(xs []float64) float64 {
	m, err := stats.Median(xs)
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

// Operation is the baseline of a slice of operations; without history it is zero.
func (b *Baselines) Operation(s Slice) OperationBaseline {
	if c, ok := b.opCache[s]; ok {
		return c
	}
	out := OperationBaseline{Pooled: &stats.Hist{}}
	var p50s, p95s, sds, tails, logs []float64
	var raw, sampling, corrected []float64
	var ttft, perToken []level
	withWork := 0
	for _, k := range usable(b, b.ops[s], s) {
		out.Known, out.Retried = out.Known+k.known, out.Retried+k.retried
		out.DeadlineKnown, out.DeadlineMissed = out.DeadlineKnown+k.deadline, out.DeadlineMissed+k.missed
		out.Pooled.Merge(k.inference)
		if k.inference.N() > 0 {
			withWork++
		}
		sum := k.summary()
		logs = append(logs, sum.logs...)
		ttft, perToken = append(ttft, sum.ttft), append(perToken, sum.perToken)
		out.Tokens.add(k.tokens)
		if !sum.ok {
			continue
		}
		out.Blocks++
		p50s, p95s, tails = append(p50s, sum.p50), append(p95s, sum.p95), append(tails, sum.tail)
		if sum.sdOK {
			sds = append(sds, sum.sd)
		}
		if sp := sum.scatter; sum.scatterOK {
			raw, sampling, corrected = append(raw, sp.RawSD), append(sampling, sp.SamplingSD), append(corrected, sp.CorrectedSD)
			out.Scatter.Windows += sp.Windows
		}
	}
	if out.Blocks < b.cfg.MinBlocks && out.Pooled.N() >= minPooled && withWork >= b.cfg.MinBlocks {
		// Too little traffic for blocks of their own: take the whole history as one.
		p50, p95 := quantile(out.Pooled, 0.5), quantile(out.Pooled, 0.95)
		p50s, p95s, tails = []float64{p50}, []float64{p95}, []float64{tailMS(p50, p95)}
		if sd, err := out.Pooled.RobustSD(stats.Linear); err == nil {
			sds = []float64{sd}
		}
		out.Blocks = withWork
	}
	out.P50MS, out.P95MS, out.SpreadMS, out.TailMS = median(p50s), median(p95s), median(sds), median(tails)
	out.Scatter.RawSD, out.Scatter.SamplingSD, out.Scatter.CorrectedSD = median(raw), median(sampling), median(corrected)
	if m, mad, err := stats.MAD(logs); err == nil {
		out.LogP95, out.LogP95SD, out.Minutes = m, 1.4826*mad, len(logs)
	}
	out.TTFT, out.PerToken = levelsOf(ttft), levelsOf(perToken)
	b.opCache[s] = out
	return out
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
	for _, k := range usable(b, b.reqs[s], s) {
		out.Blocks++
		out.Operations, out.Attempts, out.Unknown = out.Operations+k.operations, out.Attempts+k.attempts, out.Unknown+k.unknown
		out.DeadlineKnown, out.DeadlineMissed = out.DeadlineKnown+k.deadline, out.DeadlineMissed+k.missed
		rates = append(rates, float64(k.n)/b.cfg.BlockLength.Minutes())
		for name, st := range k.strata {
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
	}
	out.PerMinute = median(rates)
	b.reqCache[s] = out
	return out
}

// services gives the requests per minute that each service had, over its agents.
func (b *Baselines) services() map[string]float64 {
	out := map[string]float64{}
	for s := range b.reqs {
		if r := b.Request(s); r.Blocks >= b.cfg.MinBlocks {
			out[s.Service] += r.PerMinute
		}
	}
	return out
}
