package detector_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/memory"
	"driftline/internal/clock"
)

func TestMatch(t *testing.T) {
	s := detector.Slice{Service: "billing-eu", Agent: "planner", Kind: "chat", Target: "gpt", Stream: "yes"}
	for _, c := range []struct {
		m    detector.Match
		want bool
	}{
		{detector.Match{}, true},
		{detector.Match{Service: "billing-eu"}, true},
		{detector.Match{Service: "billing-*", Kind: "chat"}, true},
		{detector.Match{Service: "*"}, true},
		{detector.Match{Service: "billing"}, false},
		{detector.Match{Service: "billing-*", Kind: "tool"}, false},
		{detector.Match{Agent: "plan"}, false},
		{detector.Match{Target: "gpt", Stream: "no"}, false},
	} {
		require.Equal(t, c.want, c.m.Matches(s), "%+v", c.m)
	}
}

func TestTheFirstOverrideThatMatchesCounts(t *testing.T) {
	cfg := detector.DefaultConfig()
	strict, loose := cfg.Rules, cfg.Rules
	strict.Surge.Ratio, loose.Surge.Ratio = 2, 9
	cfg.Overrides = []detector.Override{{Match: detector.Match{Kind: "chat"}, Rules: strict}, {Match: detector.Match{Service: "a*"}, Rules: loose}}
	require.NoError(t, cfg.Validate())
	require.EqualValues(t, 2, cfg.For(detector.Slice{Service: "a", Kind: "chat"}).Surge.Ratio)
	require.EqualValues(t, 9, cfg.For(detector.Slice{Service: "ab", Kind: "tool"}).Surge.Ratio)
	require.EqualValues(t, 3, cfg.For(detector.Slice{Service: "b", Kind: "tool"}).Surge.Ratio)
}

// An override that an earlier one hides, and one with a star that matches nothing, are mistakes.
func TestOverridesThatAreNeverUsed(t *testing.T) {
	check := func(of ...detector.Match) error {
		cfg := detector.DefaultConfig()
		for _, m := range of {
			cfg.Overrides = append(cfg.Overrides, detector.Override{Match: m, Rules: cfg.Rules})
		}
		return cfg.Validate()
	}
	for _, hidden := range []detector.Match{{Service: "a"}, {Service: "ab*"}, {Service: "a*", Kind: "chat"}, {Service: "a*"}} {
		require.ErrorContains(t, check(detector.Match{Service: "a*"}, hidden), "overrides[1]: never used: all that it matches matches overrides[0]", "%+v", hidden)
	}
	for _, seen := range []detector.Match{{Service: "*"}, {Kind: "chat"}, {Service: "b"}, {Service: "A"}} {
		require.NoError(t, check(detector.Match{Service: "a*"}, seen), "%+v", seen)
	}
	require.NoError(t, check(detector.Match{Service: "a", Kind: "chat"}, detector.Match{Service: "a"}))
	require.ErrorContains(t, check(detector.Match{Target: "gpt-*-mini"}), `overrides[0].target "gpt-*-mini": want "*" at the end alone`)
}

// A change of settings in an incident takes effect in the next round, and alerts stay.
func TestReconfigureKeepsAlerts(t *testing.T) {
	g := seeded(t)
	ctx := context.Background()
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	st, sink := memory.New(), &collect{name: "sink"}
	cfg := detector.DefaultConfig()
	off := cfg.Rules
	off.Shadow = map[string]bool{}
	for _, name := range detector.Shadowable() {
		off.Shadow[name] = true
	}
	muted := cfg
	muted.Overrides = []detector.Override{{Match: detector.Match{Service: "*"}, Rules: off}}
	e, err := detector.New(muted, st, st, []detector.Notifier{sink}, clock.NewManual(start))
	require.NoError(t, err)
	const quiet = 100
	firing := 0
	for m := range quiet + 24 {
		now := start.Add(time.Duration(m) * time.Minute)
		if m < quiet {
			g.into(st, now, healthy)
		} else {
			g.into(st, now, incident(m-quiet))
		}
		if m < 80 {
			continue
		}
		if m == quiet+14 {
			for _, a := range e.Active() {
				require.True(t, a.Shadow, a.Key())
				if a.State == detector.Firing {
					firing++
				}
			}
			require.Positive(t, firing, "the incident is seen, in shadow")
			require.Empty(t, sink.news(), "an override mutes all services")
			bad := cfg
			bad.FDR, bad.MaxSlices = 2, 0
			require.ErrorContains(t, e.Reconfigure(bad), "fdr")
			require.NoError(t, e.Reconfigure(cfg))
			require.GreaterOrEqual(t, len(e.Active()), firing, "the alerts stay")
		}
		_, err := e.Evaluate(ctx, now.Add(time.Minute+35*time.Second))
		require.NoError(t, err)
	}
	sent := 0
	for _, a := range sink.news() {
		if a.State == detector.Firing && a.Detection != detector.Alert504 {
			sent++
		}
	}
	require.Positive(t, sent)
	for _, a := range e.Active() {
		if a.Muted == detector.MutedInhibited { // deadlines are missed by then
			sent++
		}
	}
	require.GreaterOrEqual(t, sent, firing, "what fires after the change is sent, also what had begun before")
}

// A new interval takes effect at once.
func TestReconfigureTheInterval(t *testing.T) {
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	clk := &announced{Manual: clock.NewManual(start), registered: make(chan struct{})}
	st := memory.New()
	e, err := detector.New(detector.DefaultConfig(), st, st, nil, clk)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx) }()
	<-clk.registered
	cfg := detector.DefaultConfig()
	cfg.Interval = 5 * time.Second
	require.NoError(t, e.Reconfigure(cfg))
	<-clk.registered
	require.Error(t, e.Ready())
	clk.Advance(5 * time.Second)
	require.NoError(t, e.Ready(), "a round was run after five seconds")
	cancel()
	<-done
}
