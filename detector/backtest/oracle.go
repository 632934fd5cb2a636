package backtest

import (
	"math"
	"time"

	"driftline/detector/backtest/traffic"
)

// falseAlarms is the oracle's rate of false alarms per minute.
const falseAlarms = 1e-4

// levels are the shares of the incident's severity at the 504 alert that the oracle looks for.
var levels = []float64{0.25, 0.5, 1}

// perEstimate is about how many requests a density is estimated from.
const perEstimate = 5000

// oracle says when somebody could have known who knows the parameters before and after: the
// first alarm of one-sided CUSUMs of the log-likelihood ratio of the rows of each slot, for
// each level and each family of rows. A CUSUM of a log-likelihood ratio with limit ln(1/a) has
// a run length of at least 1/a slots while nothing happens (Lorden, Procedures for reacting to
// a change in distribution, 1971). Where shared noise, which makes rows depend on each other,
// took a sum higher than that before the onset, that is the limit. Zero is no alarm.
func oracle(sc *Scenario, alert time.Time, seen *features) time.Time {
	end := alert.Sub(start).Seconds()
	top := sc.Severity(end)
	before := estimate(sc, seen, 0, sc.OnsetSec, 0)
	limit := math.Log(2 * float64(len(levels)) * 60 / slotSec / falseAlarms)
	best := math.Inf(1)
	for i, level := range levels {
		// The stretch in which the severity is closest to the level, and eight minutes long.
		mid := sc.reaches(level * top)
		from, to := max(sc.OnsetSec, mid-240), min(end, mid+240)
		if level == 1 {
			from, to = max(sc.OnsetSec, end-480), end
		}
		after := estimate(sc, seen, from, to, uint64(i+1))
		for family := range seen.slots {
			llr := ratio(before.counts[family], after.counts[family])
			if t, ok := cusum(seen.slots[family], llr, limit, sc.OnsetSec, end); ok {
				best = min(best, t)
			}
		}
	}
	if math.IsInf(best, 1) {
		return time.Time{}
	}
	return at(best)
}

// reaches is when the severity first is s, in seconds since the start.
func (sc *Scenario) reaches(s float64) float64 {
	if s <= sc.Step {
		return sc.OnsetSec
	}
	return sc.OnsetSec + sc.RampSec*math.Pow(s-sc.Step, 1/sc.Power)
}

// estimate counts features of other traffic under the same conditions that arrives in
// [from, to), in seconds since the start: as many minutes of it as needed, boosted.
func estimate(sc *Scenario, seen *features, from, to float64, stream uint64) *features {
	c := seen.counting()
	first, last := int(from/60), max(int(from/60)+1, int(to/60))
	every := max(1, (last-first)/24)
	minutes := (last - first + every - 1) / every
	g := traffic.New(seedOf(sc.Seed, "oracle", string(rune('0'+stream))), []*traffic.Agent{sc.Hit}, c)
	g.Boost = max(1, perEstimate/(sc.Hit.PerMinute*float64(minutes)))
	for m := first; m < last; m += every {
		g.Minute(m)
	}
	return c
}

// ratio is the log-likelihood ratio of each feature. Counts are smoothed by half an
// observation in each bin that either side has.
func ratio(before, after map[feature]float64) map[feature]float64 {
	out := make(map[feature]float64, len(after))
	var n0, n1 float64
	for x, c := range before {
		out[x] = 0
		n0 += c
	}
	for x, c := range after {
		out[x] = 0
		n1 += c
	}
	k := 0.5 * float64(len(out)+1)
	for x := range out {
		out[x] = math.Log((after[x] + 0.5) / (n1 + k) * (n0 + k) / (before[x] + 0.5))
	}
	return out
}

// cusum gives the end of the slot in which the sum first passes the limit after the onset.
func cusum(slots map[int][]feature, llr map[feature]float64, limit, onset, end float64) (float64, bool) {
	first := int(onset / slotSec)
	s := 0.0
	for slot := blindMinutes * 60 / slotSec; slot < first; slot++ {
		s = max(0, s+sum(slots[slot], llr))
		limit = max(limit, s)
	}
	s = 0
	for slot := first; slot < int(end/slotSec); slot++ {
		if s = max(0, s+sum(slots[slot], llr)); s >= limit {
			return float64(slot+1) * slotSec, true
		}
	}
	return 0, false
}

func sum(xs []feature, llr map[feature]float64) float64 {
	total := 0.0
	for _, x := range xs {
		total += llr[x]
	}
	return total
}
