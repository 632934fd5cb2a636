package detector

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/store"
)

func spreadVerdict(end time.Time, ratio, threshold, clear float64) Verdict {
	v := Verdict{Detection: P95Spread, Slice: Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "yes"},
		From: end.Add(-5 * time.Minute), To: end, Severity: Warning, Value: ratio, Threshold: threshold, Unit: "ms"}
	switch {
	case ratio >= threshold:
		return v.with(Breach, "spread_bulk")
	case ratio < clear:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}

// step plays one minute twice, as rounds of 30 s do, and returns the changes.
func step(b *book, cfg Config, v Verdict) []string {
	var out []string
	for i := range 2 {
		if c, _ := b.observe(cfg, v, v.To.Add(time.Duration(30+30*i)*time.Second)); c != nil {
			out = append(out, c.State)
		}
	}
	return out
}

func TestC64HoveringFiresOnce(t *testing.T) {
	cfg, b := DefaultConfig(), newBook()
	var states []string
	for m := range 30 {
		ratio := 2.9 + 0.2*float64(m%2)
		states = append(states, step(b, cfg, spreadVerdict(t0.Add(time.Duration(m)*time.Minute), ratio, 3, 2))...)
	}
	require.Equal(t, []string{Pending, Firing}, states)
	for m := range 4 { // short dips under the clear level are not enough
		states = append(states, step(b, cfg, spreadVerdict(t0.Add(time.Duration(30+m)*time.Minute), 1.5, 3, 2))...)
	}
	states = append(states, step(b, cfg, spreadVerdict(t0.Add(34*time.Minute), 2.5, 3, 2))...)
	require.Len(t, states, 2)
	for m := range 5 {
		states = append(states, step(b, cfg, spreadVerdict(t0.Add(time.Duration(35+m)*time.Minute), 1.5, 3, 2))...)
	}
	require.Equal(t, []string{Pending, Firing, Resolved}, states)
}

func TestOneBreachLapsesAndGivesItsTimeBack(t *testing.T) {
	cfg, b := DefaultConfig(), newBook()
	require.Equal(t, []string{Pending}, step(b, cfg, spreadVerdict(t0, 5, 4, 2)), "the same minute twice is one vote")
	require.Len(t, b.Incidents, 1)
	var states []string
	for m := 1; m <= 3; m++ {
		states = append(states, step(b, cfg, spreadVerdict(t0.Add(time.Duration(m)*time.Minute), 1, 4, 2))...)
	}
	require.Equal(t, []string{Resolved}, states)
	require.Empty(t, b.Incidents)
	require.True(t, b.Tracks[b.fingerprints()[0]].Alert.FiredAt.IsZero())
}

func TestC89SilenceIsNotRecovery(t *testing.T) {
	cfg, b := DefaultConfig(), newBook()
	step(b, cfg, spreadVerdict(t0, 5, 4, 2))
	require.Equal(t, []string{Firing}, step(b, cfg, spreadVerdict(t0.Add(time.Minute), 5, 4, 2)))
	v := spreadVerdict(t0, 1, 4, 2)
	for m := 2; m < 60; m++ {
		v.To = t0.Add(time.Duration(m) * time.Minute)
		require.Empty(t, step(b, cfg, v.with(Insufficient, "few_operations")))
	}
	changes, _ := b.expire(cfg, t0.Add(time.Hour))
	require.Empty(t, changes)
	changes, _ = b.expire(cfg, t0.Add(25*time.Hour))
	require.Len(t, changes, 1)
	require.Contains(t, changes[0].Annotations["note"], "no proof of recovery")
}

func TestSeverityRisesOnceAndIsATransition(t *testing.T) {
	cfg, b := DefaultConfig(), newBook()
	step(b, cfg, spreadVerdict(t0, 5, 4, 2))
	step(b, cfg, spreadVerdict(t0.Add(time.Minute), 5, 4, 2))
	v := spreadVerdict(t0.Add(2*time.Minute), 6, 4, 2)
	v.Severity = Critical
	c, _ := b.observe(cfg, v, v.To)
	require.Equal(t, Critical, c.Severity)
	require.Equal(t, uint32(3), c.Transition)
	c, _ = b.observe(cfg, v, v.To.Add(time.Minute))
	require.Nil(t, c)
}

func TestBookSurvivesStorage(t *testing.T) {
	cfg, b := DefaultConfig(), newBook()
	step(b, cfg, spreadVerdict(t0, 5, 4, 2))
	text, err := json.Marshal(b)
	require.NoError(t, err)
	again := newBook()
	require.NoError(t, json.Unmarshal(text, again))
	require.Equal(t, []string{Firing}, step(again, cfg, spreadVerdict(t0.Add(time.Minute), 5, 4, 2)))
	require.Equal(t, "2", again.Tracks[again.fingerprints()[0]].Alert.Key()[17:])
}

func TestBaselineExcludesIncidentsAndWindow(t *testing.T) {
	cfg := DefaultConfig()
	b := NewBaselines(cfg)
	w := t0
	missing := b.Missing(w)
	require.Len(t, missing, 144)
	require.Equal(t, w.Add(-40*time.Minute), missing[len(missing)-1], "the last block ends before the long window")
	s := Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "yes"}
	require.True(t, b.clean(s, missing[0].Unix()))
	b.SetIncidents(map[scope][]Interval{{"shop", "planner"}: {{From: missing[100]}}})
	require.False(t, b.clean(s, missing[101].Unix()))
	require.True(t, b.clean(s, missing[99].Unix()))
	require.True(t, b.clean(s, missing[100].Add(cfg.MaxExclusion).Unix()), "a level that lasts becomes normal")
	require.True(t, b.clean(Slice{Service: "shop", Agent: "other"}, missing[101].Unix()))
}

func TestConfigReportsAllMistakes(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
	c := DefaultConfig()
	c.FDR, c.FireVotes, c.EndsAfter = 2, 9, time.Second
	c.Shadow = map[string]bool{"p95_spraed": true}
	err := c.Validate()
	for _, key := range []string{"fdr", "fire_votes", "ends_after", `shadow "p95_spraed": want one of`} {
		require.ErrorContains(t, err, key)
	}
}

func TestShortDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{30 * time.Second: "30s", 5 * time.Minute: "5m", 2 * time.Hour: "2h", 90 * time.Second: "1m30s"} {
		require.Equal(t, want, short(d))
	}
}

func TestFalseDiscoveriesHoldOneOfMany(t *testing.T) {
	var vs []Verdict
	for range 200 {
		vs = append(vs, Verdict{Detection: P95Surge, Level: Quiet, P: 0.5})
	}
	vs = append(vs, Verdict{Detection: P95Surge, Level: Breach, P: 0.01}, Verdict{Detection: P95Surge, Level: Breach, P: 1e-9})
	out := falseDiscoveries(vs, 0.05, 0.05)
	require.Equal(t, Hold, out[200].Level)
	require.Equal(t, "fdr", out[200].Reason)
	require.Equal(t, Breach, out[201].Level)

	alone := []Verdict{{Detection: P95Surge, Level: Breach, P: 1e-4}}
	require.Equal(t, Breach, falseDiscoveries(slices.Clone(alone), 0.05, 1e-4)[0].Level)
	require.Equal(t, "chance", falseDiscoveries(slices.Clone(alone), 0.05, 0.9e-4)[0].Reason)
}

// A baseline built block by block, with a late row and a restart, is the one built
// at once.
func TestBaselineRecomputationIsTheSame(t *testing.T) {
	rng := source(t)
	s := Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "yes"}
	from := t0.Add(-4 * time.Hour)
	var all []store.OperationMinute
	for m := range 180 {
		all = append(all, store.OperationMinute{Slice: s, Minute: from.Add(time.Duration(m) * time.Minute), N: 60, Known: 60, Retried: uint64(rng.IntN(4)), Inference: measure(around(rng, 60, 2000, 300)...)})
	}
	incidents := map[scope][]Interval{{"shop", "planner"}: {{From: from.Add(31 * time.Minute), To: from.Add(45 * time.Minute)}}}
	at := NewBaselines(DefaultConfig())
	at.Load(from, from.Add(3*time.Hour), all, nil)
	at.SetIncidents(incidents)
	step := NewBaselines(DefaultConfig())
	for b := 0; b < 180; b += 10 {
		step.Operation(s) // asked for in between, as rounds do
		step.Load(all[b].Minute, all[b].Minute.Add(10*time.Minute), all[b:b+10], nil)
	}
	step.SetIncidents(incidents)
	require.Equal(t, at.Operation(s), step.Operation(s))
	require.Equal(t, 16, at.Operation(s).Blocks)
	step.Forget(t0, []int64{all[95].Minute.Unix()})
	require.Equal(t, 15, step.Operation(s).Blocks)
	require.Contains(t, step.Missing(t0), all[90].Minute)
	step.Load(all[90].Minute, all[90].Minute.Add(10*time.Minute), all[90:100], nil)
	require.Equal(t, at.Operation(s), step.Operation(s))
}
