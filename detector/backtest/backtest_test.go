package backtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/backtest"
)

func options() backtest.Options {
	return backtest.Options{Config: detector.DefaultConfig(), Seed: 11, Kinds: []string{"tool_503_storm", "cascade_three_agents", "slow_decode", "collector_outage"}, PerKind: 1, HealthySlices: 5}
}

// A short suite: the result is the same with one worker and with several, the incidents are
// found before the 504s and healthy traffic is quiet.
func TestSuite(t *testing.T) {
	var texts [2]string
	var rep *backtest.Report
	var all string
	for i, workers := range []int{1, 3} {
		o := options()
		o.Workers = workers
		if i == 1 {
			o.Kinds = o.Kinds[1:] // what is played beside a scenario changes nothing either
		}
		r, err := backtest.Play(context.Background(), o)
		require.NoError(t, err)
		scenarios := r.Scenarios
		if i == 0 {
			rep, scenarios = r, scenarios[1:]
			b, err := json.Marshal(r)
			require.NoError(t, err)
			all = string(b)
		}
		b, err := json.Marshal(scenarios)
		require.NoError(t, err)
		texts[i] = string(b)
	}
	require.Equal(t, texts[0], texts[1], "the number of workers changes nothing")

	var got struct {
		Total map[string]any `json:"total"`
	}
	require.NoError(t, json.Unmarshal([]byte(all), &got))
	for _, key := range []string{"recall", "precision", "median_lead_seconds", "median_lead_over_headroom", "p10_lead_over_headroom"} {
		require.IsType(t, 1.0, got.Total[key], key)
	}
	require.Contains(t, got.Total, "false_pages_per_30d")
	for _, name := range []string{"static_p95", "three_sigma_p95"} {
		require.Contains(t, got.Total["rivals"], name)
	}
	require.EqualValues(t, 1, *rep.Total.Recall)
	for _, s := range rep.Scenarios {
		if s.Kind == "collector_outage" {
			require.Equal(t, detector.PipelineHealth, s.By)
			require.Nil(t, s.Alert504Seconds)
			continue
		}
		require.Empty(t, s.WrongPages, s.Kind)
		require.Positive(t, *s.LeadSeconds, s.Kind)
		require.Positive(t, *s.HeadroomSeconds, s.Kind)
		require.LessOrEqual(t, *s.HeadroomSeconds, *s.Alert504Seconds, "the oracle cannot know before the onset")
	}
	var table bytes.Buffer
	require.NoError(t, rep.Table(&table))
	require.Contains(t, table.String(), "tool_503_storm")
}

func TestOptionsAreChecked(t *testing.T) {
	o := options()
	o.Kinds, o.PerKind, o.HealthyDays, o.HealthySlices, o.Workers = []string{"nonsense"}, -1, -1, 2, -3
	_, err := backtest.Play(context.Background(), o)
	for _, part := range []string{"nonsense", "-1 scenarios", "-1 healthy days", "2 healthy slices", "-3 workers"} {
		require.ErrorContains(t, err, part)
	}
}

// At least 24 kinds, six of them kept from tuning, and tuning never draws from the reserved
// part of a range.
func TestKinds(t *testing.T) {
	names, held := map[string]bool{}, 0
	for _, k := range backtest.Kinds() {
		require.False(t, names[k.Name], k.Name)
		names[k.Name] = true
		require.NotEmpty(t, k.Text)
		if k.HeldOut {
			held++
		}
		a := backtest.NewScenario(k, 0, 5, false)
		require.Greater(t, a.Hit.Gateway, a.Hit.Budget)
		if !k.HeldOut {
			require.LessOrEqual(t, a.RampSec, 60*(k.Ramp[1]-0.2*(k.Ramp[1]-k.Ramp[0]))+1e-6)
		}
	}
	require.GreaterOrEqual(t, len(names), 24)
	require.Equal(t, 6, held)
	k := backtest.Kinds()[0]
	a, b := backtest.NewScenario(k, 0, 5, false), backtest.NewScenario(k, 0, 5, false)
	require.Equal(t, a.OnsetSec, b.OnsetSec)
	require.Equal(t, a.Hit.Budget, b.Hit.Budget)
	require.NotEqual(t, a.OnsetSec, backtest.NewScenario(k, 1, 5, false).OnsetSec)
}
