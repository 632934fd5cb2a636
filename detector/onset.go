package detector

import (
	"math"
	"time"

	"driftline/detector/stats"
)

// minGain is the least evidence (see [stats.Change]) for saying when a change began.
const minGain = 10

// latencyOnset is when the minutes' P95 changed, upwards; zero when that cannot be told.
func latencyOnset(minutes []Minute, of func(*Minute) *MinuteP95) time.Time {
	return onset(minutes, func(m *Minute) (value, weight float64) {
		p := of(m)
		if !p.Sub.Known || p.Sub.LogSE <= 0 {
			return 0, 0
		}
		return p.Sub.LogMS, 1 / (p.Sub.LogSE * p.Sub.LogSE)
	})
}

// retriesOnset is when the share of work that was tried again changed, upwards. Counts are
// taken to a scale on which their variance is the same at every share (arcsine of the
// root, Anscombe 1948).
func retriesOnset(minutes []Minute) time.Time {
	return onset(minutes, func(m *Minute) (value, weight float64) {
		if m.Known == 0 {
			return 0, 0
		}
		n := float64(m.Known)
		return math.Asin(math.Sqrt((float64(min(m.Retried, m.Known)) + 3.0/8) / (n + 3.0/4))), 4*n + 2
	})
}

func onset(minutes []Minute, of func(*Minute) (value, weight float64)) time.Time {
	values, weights := make([]float64, len(minutes)), make([]float64, len(minutes))
	for i := range minutes {
		values[i], weights[i] = of(&minutes[i])
	}
	c, err := stats.ChangePoint(values, weights, 1)
	if err != nil || c.Shift <= 0 || c.Gain < minGain {
		return time.Time{}
	}
	return minutes[c.At].At
}

// began notes when the change behind a verdict began.
func (v *Verdict) began(at time.Time) {
	if at.IsZero() {
		return
	}
	v.Since, v.Evidence.Since = at, &at
}

func ownOf(m *Minute) *MinuteP95  { return &m.Own }
func callOf(m *Minute) *MinuteP95 { return &m.Call }

// passed says that the last two minutes, each with enough times to tell, are under level
// again: what a window of five minutes still shows is over.
func passed(minutes []Minute, of func(*Minute) *MinuteP95, to time.Time, level float64) bool {
	under := 0
	for i := max(0, len(minutes)-2); i < len(minutes); i++ {
		if p := of(&minutes[i]); to.Sub(minutes[i].At) <= 2*time.Minute && p.N >= minPassed && p.P95MS < level {
			under++
		}
	}
	return under == 2
}

// minPassed is how many times a minute needs for its P95 to say that it is over.
const minPassed = 20
