package demo

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/internal/engine/enginetest"
	"driftline/internal/sim"
)

// seed is fresh for each run and printed, or what DRIFTLINE_TEST_SEED says.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := rand.Uint64() % 1_000_000
	if text := os.Getenv("DRIFTLINE_TEST_SEED"); text != "" {
		var err error
		s, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("seed %d: repeat with DRIFTLINE_TEST_SEED=%d", s, s)
	return s
}

func play(t *testing.T, scenario sim.Scenario) *Demo {
	t.Helper()
	engine, err := enginetest.Binary()
	require.NoError(t, err)
	began := time.Now()
	d, err := Play(context.Background(), Options{
		Scenario: scenario, Seed: seed(t), History: 80 * time.Minute, Play: 17 * time.Minute,
		DataDir: t.TempDir(), Engine: []string{engine}, UIListen: "127.0.0.1:0", Now: time.Now(),
		Progress: t.Logf,
		Transition: func(a detector.Alert) {
			t.Logf("%.1f s: %s %s %s %s: %s", time.Since(began).Seconds(), a.At.Format("15:04:05"), a.State, a.Detection, a.Slice, a.Annotations["description"])
		},
		Logger: slog.New(slog.DiscardHandler), EngineLog: io.Discard,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func TestIncidentIsWarnedOfBeforeThe504s(t *testing.T) {
	d := play(t, sim.ScenarioIncident)
	require.NoError(t, Check(sim.ScenarioIncident, d.Transitions))

	// The rule that lead is measured against must not be late itself: the simulator
	// knows when the share of 504s had been above 5 % for two minutes.
	first := First504(d.Transitions)
	require.False(t, d.Truth.Alert504At.IsZero())
	require.WithinDuration(t, d.Truth.Alert504At, first, time.Minute, "the 504 rule fired at another time than the generated truth says")
	for _, a := range d.Transitions {
		require.NotEqual(t, detector.PipelineHealth, a.Detection, "the pipeline was healthy")
		if a.State == detector.Firing {
			require.False(t, a.FiredAt.Before(d.Truth.T0), "%s fired before anything was wrong", a.Detection)
			require.Equal(t, d.Truth.Service, a.Slice.Service, "the bystander service was blamed")
		}
	}

	for _, name := range Early {
		at := slices.IndexFunc(d.Transitions, func(a detector.Alert) bool { return a.Detection == name && a.State == detector.Firing })
		resp, err := http.Get(d.URL + "/alerts/" + d.Transitions[at].Fingerprint)
		require.NoError(t, err)
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Contains(t, string(page), "<svg", "%s has a page with no evidence drawn", name)
	}
}

func TestHealthyTrafficPagesNobody(t *testing.T) {
	require.NoError(t, Check(sim.ScenarioHealthy, play(t, sim.ScenarioHealthy).Transitions))
}

func TestLongerTasksPageNobody(t *testing.T) {
	require.NoError(t, Check(sim.ScenarioMoreSteps, play(t, sim.ScenarioMoreSteps).Transitions))
}

func TestCheckCanFail(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	alert := func(name string, minutes int) detector.Alert {
		return detector.Alert{Detection: name, State: detector.Firing, FiredAt: at.Add(time.Duration(minutes) * time.Minute)}
	}
	early := []detector.Alert{alert(detector.RetryBimodality, 1), alert(detector.DeadlineDrift, 2), alert(detector.P95Spread, 3)}
	require.NoError(t, Check(sim.ScenarioIncident, append(early, alert(detector.Alert504, 4))))
	require.ErrorContains(t, Check(sim.ScenarioIncident, append(early, alert(detector.Alert504, 3))), "p95_spread fired 0s after")
	require.ErrorContains(t, Check(sim.ScenarioIncident, append(early[:2:2], alert(detector.Alert504, 4))), "p95_spread did not fire")
	require.ErrorContains(t, Check(sim.ScenarioIncident, early), "the 504 rule did not fire")
	require.ErrorContains(t, Check(sim.ScenarioHealthy, early[:1]), "retry_bimodality")
	require.NoError(t, Check(sim.ScenarioHealthy, []detector.Alert{{Detection: detector.P95Spread, State: detector.Pending}}))
	shadow := alert(detector.P95Surge, 1)
	shadow.Shadow = true
	require.NoError(t, Check(sim.ScenarioMoreSteps, []detector.Alert{shadow}))

	line := NewLine(early[0], at.Add(10*time.Minute))
	require.EqualValues(t, 540, *line.LeadSeconds)
	require.Nil(t, NewLine(early[0], time.Time{}).LeadSeconds)
}
