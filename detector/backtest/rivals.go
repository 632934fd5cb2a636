package backtest

import (
	"context"
	"math"
	"slices"
	"time"

	"driftline/detector/memory"
	"driftline/detector/stats"
	"driftline/internal/rows"
)

// The rivals judge the P95 of the last five minutes of each agent's requests and of its model
// calls, once a minute, and page after two votes of three, as the detector does.
const (
	rivalWindow  = 5
	rivalSamples = 20
	// rivalHistory is how many minutes must be known before they judge.
	rivalHistory = 60
)

// rivalKey is one series of a rival.
type rivalKey struct{ service, agent, kind string }

// rivalSeries holds P95 in milliseconds by minute; 0 is too few samples.
type rivalSeries struct {
	minutes map[rivalKey][]*stats.Hist
	p95     map[rivalKey][]float64
	n       int
}

func newRivalSeries() *rivalSeries {
	return &rivalSeries{minutes: map[rivalKey][]*stats.Hist{}, p95: map[rivalKey][]float64{}}
}

// read takes in the minute that ended.
func (r *rivalSeries) read(ctx context.Context, st *memory.Store, end time.Time) error {
	from := end.Add(-time.Minute)
	reqs, err := st.RequestCells(ctx, from, end)
	if err != nil {
		return err
	}
	ops, err := st.OperationCells(ctx, from, end)
	if err != nil {
		return err
	}
	now := map[rivalKey]*stats.Hist{}
	add := func(k rivalKey, h *stats.Hist) {
		if now[k] == nil {
			now[k] = &stats.Hist{}
		}
		now[k].Merge(h)
	}
	for i := range reqs {
		add(rivalKey{reqs[i].Service, reqs[i].Slice.Agent, "requests"}, reqs[i].User.Hist)
	}
	for i := range ops {
		if rows.IsModelKind(ops[i].Kind) {
			add(rivalKey{ops[i].Service, ops[i].Slice.Agent, "model"}, ops[i].User.Hist)
		}
	}
	for k := range now {
		if r.p95[k] == nil {
			r.p95[k] = make([]float64, r.n)
		}
	}
	r.n++
	for k := range r.p95 {
		h := now[k]
		if h == nil {
			h = &stats.Hist{}
		}
		last := append(r.minutes[k], h)
		last = last[max(0, len(last)-rivalWindow):]
		r.minutes[k] = last
		all := &stats.Hist{}
		for _, m := range last {
			all.Merge(m)
		}
		v := 0.0
		if all.N() >= rivalSamples {
			v, _ = all.Quantile(0.95)
		}
		r.p95[k] = append(r.p95[k], v)
	}
	return nil
}

// rival turns a series of P95 into one of scores, which are compared with a level.
type rival struct {
	name  string
	score func(p95 []float64, reference int) []float64
}

var rivals = []rival{{"static_p95", staticScores}, {"three_sigma_p95", sigmaScores}}

// staticScores are P95 over that of the first reference minutes: a threshold that somebody set
// once from what was usual.
func staticScores(p95 []float64, reference int) []float64 {
	var usual []float64
	for _, v := range p95[:min(reference, len(p95))] {
		if v > 0 {
			usual = append(usual, v)
		}
	}
	out := make([]float64, len(p95))
	if len(usual) == 0 {
		return out
	}
	slices.Sort(usual)
	level := usual[len(usual)/2]
	for i := min(reference, len(p95)); i < len(p95); i++ {
		out[i] = p95[i] / level
	}
	return out
}

// sigmaScores are how many standard deviations P95 lies above its mean over the last day,
// without the last half hour.
func sigmaScores(p95 []float64, _ int) []float64 {
	out := make([]float64, len(p95))
	var n, sum, squares float64
	add := func(i int, sign float64) {
		if i >= 0 && p95[i] > 0 {
			n, sum, squares = n+sign, sum+sign*p95[i], squares+sign*p95[i]*p95[i]
		}
	}
	for i := range p95 {
		add(i-30, 1)
		add(i-30-1440, -1)
		if n < rivalHistory || p95[i] == 0 {
			continue
		}
		mean := sum / n
		if sd := math.Sqrt(max(0, squares/n-mean*mean)); sd > 0 {
			out[i] = (p95[i] - mean) / sd
		}
	}
	return out
}

// votes is, for each minute, the second highest score of the last three: what a level must be
// below for two of three votes.
func votes(scores []float64) []float64 {
	out := make([]float64, len(scores))
	for i := range scores {
		last := slices.Clone(scores[max(0, i-2) : i+1])
		slices.Sort(last)
		if len(last) > 1 {
			out[i] = last[len(last)-2]
		}
	}
	return out
}

// pages lists the minutes in which a rival with this level begins to page; five quiet minutes
// end a page.
func pagesOf(v []float64, level float64) []int {
	var out []int
	quiet := 5
	for i, x := range v {
		if x > level {
			if quiet >= 5 {
				out = append(out, i)
			}
			quiet = 0
		} else {
			quiet++
		}
	}
	return out
}
