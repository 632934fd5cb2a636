package detector

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/store"
)

// A minority of requests that drifts and stays is found while the window alone is not sure;
// as many as the history may have had are not, and neither is a group that has passed.
func TestDeadlineDriftOfALastingMinority(t *testing.T) {
	cfg := DefaultConfig().Drift
	history := func(drifting int) RequestBaseline {
		return RequestBaseline{Blocks: 100, Strata: map[string]*StratumBaseline{"4-7": {N: 4000, Drift: measure(append(fixed(4000-drifting, 0), fixed(drifting, 9000)...)...).Hist}}}
	}
	every := func(k float64, minutes int) (out []Share) {
		for range 30 - minutes {
			out = append(out, Share{0, 20})
		}
		for range minutes {
			out = append(out, Share{k, 20})
		}
		return out
	}
	judge := func(minutes []Share, b RequestBaseline) Verdict {
		w := requestWindow(map[string][]float64{"4-7": append(fixed(94, 0), fixed(6, 9000)...)}, 30000)
		w.Drifting = func(strata map[string]bool, ms float64) []Share {
			require.Equal(t, map[string]bool{"4-7": true}, strata)
			require.InDelta(t, 3000, ms, 1e-9)
			return minutes
		}
		return JudgeDrift(w, b, cfg)
	}
	v := judge(every(1.2, 12), history(0))
	require.Equal(t, Breach, v.Level, v.Text)
	require.Equal(t, "stale_budget_lasts", v.Reason)
	require.Less(t, v.P, 1e-6)
	require.Contains(t, v.Text, "raised for 12 minutes")
	require.Greater(t, v.Evidence.Numbers.At("drift_cusum"), 14.0)

	require.Equal(t, Hold, judge(every(1.2, 3), history(0)).Level, "three minutes are too few")
	require.Equal(t, Hold, judge(append(every(1.2, 5), every(0, 25)...), history(0)).Level, "it has passed")
	require.NotEqual(t, Breach, judge(every(1.2, 30), history(240)).Level, "6 % always drift")
	v = judge(every(1.2, 30), RequestBaseline{})
	require.NotEqual(t, Breach, v.Level, "without history nothing is known to be unusual")
	require.NotContains(t, v.Evidence.Numbers.byName(), "drift_cusum")
}

func TestAlmostCertainDriftIsNoRise(t *testing.T) {
	require.Equal(t, creeping{}, creepOf([]Share{{20, 20}}, 90, 100, 1000))
}

// The minutes' shares come from the cells of the named strata alone, minutes without any are
// left out.
func TestDriftingMinutesComeFromCells(t *testing.T) {
	a := &drifts{cells: []store.RequestCell{
		{Minute: t0, Steps: "1-3", Drift: measure(0, 0, 0, 9000)},
		{Minute: t0, Steps: "4-7", Drift: measure(9000, 9000)},
		{Minute: t0.Add(2 * time.Minute), Steps: "1-3", Drift: measure(0, 4000)},
		{Minute: t0.Add(3 * time.Minute), Steps: "4-7", Drift: measure(9000)},
	}}
	c := newCells()
	require.NoError(t, c.read(context.Background(), a, t0, t0.Add(30*time.Minute)))
	w := c.requestWindow(Slice{}, t0.Add(25*time.Minute), t0.Add(30*time.Minute), t0, 0)
	require.Equal(t, []Share{{1, 4}, {1, 2}}, w.Drifting(map[string]bool{"1-3": true}, 3000))
	require.Equal(t, []Share{{3, 6}, {0, 2}, {1, 1}}, w.Drifting(map[string]bool{"1-3": true, "4-7": true}, 6000))
}

type drifts struct {
	asked
	cells []store.RequestCell
}

func (d *drifts) RequestCells(_ context.Context, from, to time.Time) (out []store.RequestCell, err error) {
	for _, c := range d.cells {
		if !c.Minute.Before(from) && c.Minute.Before(to) {
			out = append(out, c)
		}
	}
	return out, nil
}

// A group that drifted at large weighs on the sum for long; the window that is as usual again
// says that it has passed.
func TestDeadlineDriftThatHasPassedIsOver(t *testing.T) {
	cfg := DefaultConfig().Drift
	b := RequestBaseline{Blocks: 100, Strata: map[string]*StratumBaseline{"4-7": {N: 4000, Drift: measure(append(fixed(3880, 0), fixed(120, 9000)...)...).Hist}}}
	w := requestWindow(map[string][]float64{"4-7": append(fixed(97, 0), fixed(3, 9000)...)}, 30000)
	var minutes []Share
	for range 10 {
		minutes = append(minutes, Share{10, 20})
	}
	for range 20 {
		minutes = append(minutes, Share{0.6, 20})
	}
	w.Drifting = func(map[string]bool, float64) []Share { return minutes }
	v := JudgeDrift(w, b, cfg)
	require.Equal(t, Quiet, v.Level, "%s: %s", v.Reason, v.Text)
	require.Equal(t, "as_usual", v.Reason)
}
