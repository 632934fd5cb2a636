package detector

import (
	"driftline/detector/stats"
)

// usualRoom is what a baseline is worked out in, for one slice after the other: in the round
// after a block ends that is all of them.
type usualRoom struct {
	p50s, p95s, sds, tails, calls []float64
	raw, sampling, corrected      []float64
	ttft, perToken                levelRoom
	thisTime, ttftThisTime        []float64
	minutes, callMinutes          placeCounts
	fars, callFars                []farBlock
	moves, callMoves              moveRoom
	thin                          stats.Sum
}

func (r *usualRoom) empty() {
	for _, xs := range []*[]float64{&r.p50s, &r.p95s, &r.sds, &r.tails, &r.calls, &r.raw, &r.sampling, &r.corrected, &r.ttft.p50s, &r.ttft.p95s, &r.perToken.p50s, &r.perToken.p95s,
		&r.thisTime, &r.ttftThisTime} {
		*xs = (*xs)[:0]
	}
	r.fars, r.callFars = r.fars[:0], r.callFars[:0]
	r.moves.empty()
	r.callMoves.empty()
}

// levelRoom has the levels of blocks that have one.
type levelRoom struct{ p50s, p95s []float64 }

func (r *levelRoom) add(l level) {
	if l.ok {
		r.p50s, r.p95s = append(r.p50s, float64(l.p50)), append(r.p95s, float64(l.p95))
	}
}

// baseline takes the medians over blocks.
func (r *levelRoom) baseline() LevelBaseline {
	return LevelBaseline{Blocks: len(r.p50s), P50MS: median(r.p50s), P95MS: median(r.p95s)}
}

// Operation is the baseline of a slice of operations; without history it is zero.
func (b *Baselines) Operation(s Slice) OperationBaseline {
	if c, ok := b.opCache[s]; ok {
		return c
	}
	var out OperationBaseline
	r := &b.room
	r.empty()
	until := b.newest.Add(b.cfg.BlockLength - b.cfg.BaselineWindow + sameTime).Unix()
	incidents := b.incidents[scope{s.Service, s.Agent}]
	withWork := 0
	b.ops.each(s, noParts, func(at int64, k *opBlock) {
		// Without their highest waves, which page, waves would look lower than they are.
		r.callMoves.add(at, float64(k.callP95), k.n)
		if k.ok {
			r.moves.add(at, float64(k.p95), k.n)
		}
		if !b.cleanWith(s, incidents, at) {
			return
		}
		out.count(k)
		r.ttft.add(k.ttft)
		r.perToken.add(k.perToken)
		if at < until && k.ttft.ok {
			r.ttftThisTime = append(r.ttftThisTime, float64(k.ttft.p95))
		}
		if at < until && k.ok {
			r.thisTime = append(r.thisTime, float64(k.p95))
		}
		r.minutes.add(k.minutes)
		r.callMinutes.add(k.callMinutes)
		if k.callP95 > 0 {
			r.calls = append(r.calls, float64(k.callP95))
			r.callFars = append(r.callFars, farBlock{float64(k.callP95), farCount{k.callFar, k.n}})
		}
		if k.isThin {
			withWork++
		}
		if !k.ok {
			return
		}
		out.Blocks++
		r.fars = append(r.fars, farBlock{float64(k.p95), farCount{k.far, k.n}})
		r.p50s, r.p95s, r.tails = append(r.p50s, float64(k.p50)), append(r.p95s, float64(k.p95)), append(r.tails, float64(k.tail))
		if k.sdOK {
			r.sds = append(r.sds, float64(k.sd))
		}
		if k.windows > 0 {
			r.raw, r.sampling, r.corrected = append(r.raw, float64(k.raw)), append(r.sampling, float64(k.sampling)), append(r.corrected, float64(k.corrected))
			out.Scatter.Windows += int(k.windows)
		}
	})
	out.P50MS, out.P95MS, out.SpreadMS, out.TailMS = median(r.p50s), median(r.p95s), median(r.sds), median(r.tails)
	out.Far = farBaseline(farOver(r.fars, out.P95MS))
	if out.Blocks < b.cfg.MinBlocks && withWork+out.Blocks >= b.cfg.MinBlocks {
		b.together(s, incidents, &out, withWork)
	}
	out.Scatter.RawSD, out.Scatter.SamplingSD, out.Scatter.CorrectedSD = median(r.raw), median(r.sampling), median(r.corrected)
	var mad float64
	out.LogP95, mad, out.Minutes = r.minutes.take()
	out.LogP95SD = 1.4826 * mad
	out.Call.Blocks, out.Call.P95MS = len(r.calls), median(r.calls)
	out.Call.LogP95, mad, out.Call.Minutes = r.callMinutes.take()
	out.Call.LogP95SD = 1.4826 * mad
	sigma := out.tailSigma()
	out.Moves, out.Call.Moves = r.moves.take(sigma), r.callMoves.take(sigma)
	out.Call.Far = farBaseline(farOver(r.callFars, out.Call.P95MS))
	out.TTFT, out.PerToken = r.ttft.baseline(), r.perToken.baseline()
	out.Attempts = b.attempts(s)
	out.Yesterday, out.YesterdayTTFT = b.yesterday(r.thisTime, out.P95MS), b.yesterday(r.ttftThisTime, out.TTFT.P95MS)
	b.opCache[s] = out
	return out
}

// count adds what a block counts.
func (b *OperationBaseline) count(k *opBlock) {
	b.Known, b.Retried = b.Known+k.known, b.Retried+k.retried
	if b.N += k.n; k.n > 0 {
		b.WorkBlocks++
	}
	b.LeafAttempts, b.FirstTimeouts, b.Exhausted, b.Cut = b.LeafAttempts+k.leaf, b.FirstTimeouts+k.first, b.Exhausted+k.exhausted, b.Cut+k.cut
	b.DeadlineKnown, b.DeadlineMissed = b.DeadlineKnown+k.deadline, b.DeadlineMissed+k.missed
	b.Tokens.add(k.tokens)
}

// together takes so many thin blocks as one: the slice has too little traffic for blocks of its
// own. They are unpacked for that alone.
func (b *Baselines) together(s Slice, incidents []Interval, out *OperationBaseline, thinBlocks int) {
	b.ops.each(s, allParts, func(at int64, k *opBlock) {
		if b.cleanWith(s, incidents, at) {
			b.room.thin.Add(&k.thin)
		}
	})
	var thin stats.Hist
	b.room.thin.Take(&thin)
	if thin.N() < minPooled {
		return
	}
	out.P50MS, out.P95MS = quantile(&thin, 0.5), quantile(&thin, 0.95)
	out.TailMS = tailMS(out.P50MS, out.P95MS)
	out.Far = farBaseline(farOf(&thin, out.P95MS, thin.N()), 0)
	if sd, err := thin.RobustSD(stats.Linear); err == nil {
		out.SpreadMS = sd
	}
	out.Blocks += thinBlocks
}
