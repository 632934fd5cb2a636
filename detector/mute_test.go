package detector

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var planner = Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "yes"}

// breach is a verdict over the five minutes before minute m of t0.
func breach(detection string, s Slice, m int, severity string) Verdict {
	to := t0.Add(time.Duration(m) * time.Minute)
	return Verdict{Detection: detection, Slice: s, From: to.Add(-5 * time.Minute), To: to, Severity: severity, Unit: "ms"}.with(Breach, "test")
}

// play takes verdicts in and returns who is told of what, as detection and state.
func play(b *book, cfg Config, p plan, m int, vs ...Verdict) []string {
	now := t0.Add(time.Duration(m)*time.Minute + 40*time.Second)
	for _, v := range vs {
		b.observe(cfg, v, now)
	}
	b.mark(p)
	var out []string
	for _, a := range b.due(now) {
		out = append(out, a.Detection+" "+a.State)
	}
	return out
}

func quiet(v Verdict) Verdict { return v.with(Quiet, "as_usual") }

func TestACriticalMutesTheSameAgentsWarnings(t *testing.T) {
	cfg, b := DefaultConfig(), newBook()
	other := planner
	other.Agent = "writer"
	critical := Slice{Service: "shop", Agent: "planner", Kind: "agent"}
	play(b, cfg, nil, 1, breach(P95Surge, planner, 1, Warning))
	require.Equal(t, []string{"p95_surge firing"}, play(b, cfg, nil, 2, breach(P95Surge, planner, 2, Warning)))

	play(b, cfg, nil, 3, breach(DeadlineDrift, critical, 3, Critical), breach(P95Spread, planner, 3, Warning), breach(P95Spread, other, 3, Warning))
	told := play(b, cfg, nil, 4, breach(DeadlineDrift, critical, 4, Critical), breach(P95Spread, planner, 4, Warning), breach(P95Spread, other, 4, Warning))
	require.ElementsMatch(t, []string{"deadline_drift firing", "p95_spread firing"}, told, "of the spreads only the other agent's")
	muted := b.Tracks[Fingerprint(P95Spread, planner)].Alert
	require.Equal(t, Firing, muted.State)
	require.Equal(t, MutedInhibited, muted.Muted)
	require.Contains(t, muted.MutedBy, "deadline_drift on planner requests (alert "+Fingerprint(DeadlineDrift, critical))
	row, err := muted.row(1)
	require.NoError(t, err)
	require.Equal(t, "inhibited by "+muted.MutedBy, row.Annotations["muted"])
	require.NotContains(t, muted.Annotations, "muted", "receivers that hear of it later must not read that they do not")
	require.Empty(t, b.Tracks[Fingerprint(P95Spread, other)].Alert.Muted)

	// What receivers knew goes on being repeated, what they did not know is not.
	var repeated []string
	for _, a := range b.repeats(cfg, t0.Add(10*time.Minute)) {
		repeated = append(repeated, a.Fingerprint)
	}
	require.Len(t, repeated, 3)
	require.NotContains(t, repeated, muted.Fingerprint)

	for m := 5; m < 9; m++ {
		require.Empty(t, play(b, cfg, nil, m, quiet(breach(DeadlineDrift, critical, m, Critical)), breach(P95Spread, planner, m, Warning)))
	}
	require.ElementsMatch(t, []string{"deadline_drift resolved", "p95_spread firing"},
		play(b, cfg, nil, 9, quiet(breach(DeadlineDrift, critical, 9, Critical)), breach(P95Spread, planner, 9, Warning)), "it still fires, so it is told of now")
	require.Empty(t, play(b, cfg, nil, 10, breach(P95Spread, planner, 10, Warning)))
}

func TestAMutedAlertThatEndsIsNeverTold(t *testing.T) {
	cfg, b := DefaultConfig(), newBook()
	critical := Slice{Service: "shop", Agent: "planner", Kind: "agent"}
	for m := 1; m < 3; m++ {
		play(b, cfg, nil, m, breach(DeadlineDrift, critical, m, Critical), breach(P95Spread, planner, m, Warning))
	}
	for m := 3; m < 8; m++ {
		// Both go quiet; the critical one ends first.
		told := play(b, cfg, nil, m, quiet(breach(DeadlineDrift, critical, m, Critical)), quiet(breach(P95Spread, planner, m+1, Warning)))
		if m == 7 {
			require.Equal(t, []string{"deadline_drift resolved"}, told)
		}
	}
	a := b.Tracks[Fingerprint(P95Spread, planner)].Alert
	require.Equal(t, Resolved, a.State)
	require.Empty(t, b.repeats(cfg, t0.Add(7*time.Minute)))
}

func TestAShadowCriticalMutesNothing(t *testing.T) {
	cfg, b := DefaultConfig(), newBook()
	cfg.Shadow = map[string]bool{DeadlineDrift: true}
	critical := Slice{Service: "shop", Agent: "planner", Kind: "agent"}
	play(b, cfg, nil, 1, breach(DeadlineDrift, critical, 1, Critical), breach(P95Spread, planner, 1, Warning))
	require.Equal(t, []string{"p95_spread firing"}, play(b, cfg, nil, 2, breach(DeadlineDrift, critical, 2, Critical), breach(P95Spread, planner, 2, Warning)))
}

func TestPipelineHealthMutesVerdictsAboutItsService(t *testing.T) {
	cfg, b := DefaultConfig(), newBook()
	silent, other := Slice{Service: "shop"}, Slice{Service: "mail", Agent: "triage", Kind: "agent"}
	vs := []Verdict{breach(P95Surge, planner, 1, Warning), breach(DeadlineDrift, other, 1, Warning), breach(PipelineHealth, silent, 1, Warning)}
	kept, muted := b.audible(cfg, vs)
	require.Equal(t, 1, muted)
	require.Equal(t, []Verdict{vs[1], vs[2]}, kept)
	play(b, cfg, nil, 1, vs[2])
	kept, muted = b.audible(cfg, []Verdict{vs[0], quiet(vs[2])})
	require.Equal(t, 1, muted, "until it has resolved")
	require.Len(t, kept, 1)
	for m := 2; m < 7; m++ {
		play(b, cfg, nil, m, quiet(breach(PipelineHealth, silent, m, Warning)))
	}
	_, muted = b.audible(cfg, []Verdict{vs[0]})
	require.Zero(t, muted)

	cfg.Shadow = map[string]bool{PipelineHealth: true}
	_, muted = newBook().audible(cfg, vs)
	require.Zero(t, muted, "nobody would hear of the shadow either")
}

func TestMaintenanceKeepsAlertsAndTellsWhatOutlastsIt(t *testing.T) {
	cfg, b := DefaultConfig(), newBook()
	cfg.Maintenance = []Maintenance{{Match: Match{Service: "shop"}, From: t0.Format(time.RFC3339), To: t0.Add(10 * time.Minute).Format(time.RFC3339), Reason: "move"}}
	require.NoError(t, cfg.Validate())
	p, err := cfg.planned()
	require.NoError(t, err)
	for m := 1; m <= 14; m++ { // the window judged at 14 still has a minute of it
		require.Empty(t, play(b, cfg, p, m, breach(P95Surge, planner, m, Warning)), m)
	}
	a := b.Tracks[Fingerprint(P95Surge, planner)].Alert
	require.Equal(t, Firing, a.State)
	require.Equal(t, MutedMaintenance, a.Muted)
	require.Equal(t, "planned maintenance: move", a.MutedBy)
	require.Equal(t, []string{"p95_surge firing"}, play(b, cfg, p, 15, breach(P95Surge, planner, 15, Warning)))

	base := NewBaselines(cfg)
	require.False(t, base.clean(planner, t0.Unix()))
	require.True(t, base.clean(planner, t0.Add(10*time.Minute).Unix()))
	require.True(t, base.clean(Slice{Service: "mail"}, t0.Unix()))
}

// An alert that receivers know and that becomes critical in maintenance or in shadow is repeated
// all the same: unrepeated it would lapse there and seem to have ended. In maintenance they are
// not told that it has become worse, and its end is of what they know.
func TestWhatReceiversKnowIsRepeatedWhenItBecomesCriticalUntold(t *testing.T) {
	for name, c := range map[string]struct{ maintenance, shadow bool }{"maintenance": {maintenance: true}, "shadow": {shadow: true}} {
		t.Run(name, func(t *testing.T) {
			cfg, b := DefaultConfig(), newBook()
			for m := 1; m < 4; m++ {
				play(b, cfg, nil, m, breach(P95Surge, planner, m, Warning))
			}
			var p plan
			if c.maintenance {
				cfg.Maintenance = []Maintenance{{From: t0.Format(time.RFC3339), To: t0.Add(time.Hour).Format(time.RFC3339)}}
				var err error
				p, err = cfg.planned()
				require.NoError(t, err)
			}
			if c.shadow {
				cfg.Shadow = map[string]bool{P95Surge: true}
			}
			severity := Warning
			if c.shadow {
				severity = Critical
			}
			repeats := 0
			for m := 4; m < 30; m++ {
				play(b, cfg, p, m, breach(P95Surge, planner, m, Critical))
				for _, a := range b.repeats(cfg, t0.Add(time.Duration(m)*time.Minute+45*time.Second)) {
					repeats++
					require.Equal(t, []string{Firing, severity, severity}, []string{a.State, a.Severity, a.Labels["severity"]})
				}
			}
			require.GreaterOrEqual(t, repeats, 25)
			track := b.Tracks[Fingerprint(P95Surge, planner)]
			require.Equal(t, Critical, track.Alert.Severity)
			for m := 30; m < 35; m++ {
				b.observe(cfg, quiet(breach(P95Surge, planner, m, Warning)), t0.Add(time.Duration(m+1)*time.Minute))
			}
			end := b.due(t0.Add(36 * time.Minute))
			require.Len(t, end, 1)
			require.Equal(t, []string{Resolved, severity, severity}, []string{end[0].State, end[0].Severity, end[0].Labels["severity"]})
			again := b.repeats(cfg, t0.Add(37*time.Minute))
			require.Len(t, again, 1)
			require.Equal(t, end[0].Key(), again[0].Key())
			require.Equal(t, severity, again[0].Labels["severity"])
		})
	}
}

// A clock that is set back by a day holds back neither repeats nor tries.
func TestAClockSetBackByADayHoldsBackNothing(t *testing.T) {
	cfg, b := DefaultConfig(), newBook()
	for m := 1; m < 3; m++ {
		play(b, cfg, nil, m, breach(P95Surge, planner, m, Warning))
	}
	require.Len(t, b.repeats(cfg, t0.Add(-24*time.Hour)), 1)
	require.Empty(t, b.repeats(cfg, t0.Add(-24*time.Hour+30*time.Second)))
	var w tries
	w.after(false, t0, cfg.EndsAfter)
	require.True(t, w.waits(t0.Add(14*time.Second)))
	require.False(t, w.waits(t0.Add(15*time.Second)))
	require.False(t, w.waits(t0.Add(-24*time.Hour)))
}

func TestTheEndIsRepeatedForFiveMinutes(t *testing.T) {
	cfg, b := DefaultConfig(), newBook()
	for m := 1; m < 3; m++ {
		play(b, cfg, nil, m, breach(P95Surge, planner, m, Warning))
	}
	for m := 3; m < 8; m++ {
		play(b, cfg, nil, m, quiet(breach(P95Surge, planner, m, Warning)))
	}
	ended := b.Tracks[Fingerprint(P95Surge, planner)].Alert.ResolvedAt
	require.False(t, ended.IsZero())
	// A restart in between changes nothing.
	text, err := json.Marshal(b)
	require.NoError(t, err)
	b = newBook()
	require.NoError(t, json.Unmarshal(text, b))
	b.wake(cfg, ended)
	times := 0
	for now := ended; now.Before(ended.Add(20 * time.Minute)); now = now.Add(30 * time.Second) {
		for _, a := range b.repeats(cfg, now) {
			require.Equal(t, Resolved, a.State)
			require.Equal(t, ended, a.ResolvedAt)
			require.LessOrEqual(t, now.Sub(ended), 5*time.Minute)
			times++
		}
	}
	require.Equal(t, 5, times)
}

// What ended while no detector ran is told as ended, and not shown again before.
func TestWhatEndedWhileItWasDown(t *testing.T) {
	for name, goesOn := range map[string]bool{"it ended": false, "it goes on": true} {
		t.Run(name, func(t *testing.T) {
			cfg, b := DefaultConfig(), newBook()
			for m := 1; m < 3; m++ {
				play(b, cfg, nil, m, breach(P95Surge, planner, m, Warning))
			}
			b.wake(cfg, t0.Add(60*time.Minute))
			var told []string
			for m := 60; m < 70; m++ {
				v := breach(P95Surge, planner, m, Warning)
				if !goesOn {
					v = quiet(v)
				}
				told = append(told, play(b, cfg, nil, m, v)...)
				for _, a := range b.repeats(cfg, v.To.Add(40*time.Second)) {
					told = append(told, "repeat "+a.State)
				}
			}
			if goesOn {
				require.NotContains(t, told, "p95_surge resolved")
				require.Equal(t, "repeat firing", told[0])
				return
			}
			require.Equal(t, "p95_surge resolved", told[0])
			require.NotContains(t, told, "repeat firing")
		})
	}
}

func TestWeeklyMaintenance(t *testing.T) {
	at := func(text string) time.Time {
		v, err := time.Parse("2006-01-02 15:04 MST", text)
		require.NoError(t, err)
		return v
	}
	berlin := Maintenance{Weekly: "Sat,Sun 22:00-02:00", Zone: "Europe/Berlin"}
	days := Maintenance{Weekly: "fri-mon 00:00-24:00"}
	// The clock of Berlin skips 02:00 to 03:00 on 29 March 2026 and has it twice on 25 October, so
	// that Sundays have 23 and 25 hours; that of Cairo skips the first hour of 26 April 2024, a Friday.
	sunday := Maintenance{Weekly: "Sun 00:00-24:00", Zone: "Europe/Berlin"}
	skipped := Maintenance{Weekly: "Sun 02:00-02:30", Zone: "Europe/Berlin"}
	cairo := Maintenance{Weekly: "Fri 00:00-06:00", Zone: "Africa/Cairo"}
	for _, c := range []struct {
		m    Maintenance
		at   string
		want bool
	}{
		// In winter Berlin is one hour ahead of UTC, from 29 March 2026 two.
		{berlin, "2026-03-07 20:59 UTC", false}, // a Saturday
		{berlin, "2026-03-07 21:00 UTC", true},
		{berlin, "2026-03-08 00:59 UTC", true}, // the stretch of the day before
		{berlin, "2026-03-08 01:00 UTC", false},
		{berlin, "2026-03-09 00:59 UTC", true},
		{berlin, "2026-03-09 21:30 UTC", false}, // a Monday
		{berlin, "2026-04-04 20:00 UTC", true},
		{berlin, "2026-04-04 19:59 UTC", false},
		{days, "2026-03-05 23:59 UTC", false}, // a Thursday
		{days, "2026-03-06 00:00 UTC", true},
		{days, "2026-03-09 23:59 UTC", true},
		{days, "2026-03-10 00:00 UTC", false},
		{sunday, "2026-03-28 23:00 UTC", true},
		{sunday, "2026-03-29 21:59 UTC", true},
		{sunday, "2026-03-29 22:00 UTC", false},
		{sunday, "2026-10-24 22:00 UTC", true},
		{sunday, "2026-10-25 22:59 UTC", true},
		{sunday, "2026-10-25 23:00 UTC", false},
		{skipped, "2026-03-29 01:29 UTC", true},
		{skipped, "2026-03-29 01:30 UTC", false},
		{cairo, "2024-04-25 21:59 UTC", false},
		{cairo, "2024-04-25 22:00 UTC", true},
		{cairo, "2024-04-26 02:59 UTC", true},
		{cairo, "2024-04-26 03:00 UTC", false},
		{Maintenance{From: "2026-03-07 22:00", To: "2026-03-07 23:00", Zone: "America/New_York"}, "2026-03-08 03:30 UTC", true},
		{Maintenance{From: "2026-03-07 22:00", To: "2026-03-07 23:00", Zone: "America/New_York"}, "2026-03-08 04:00 UTC", false},
	} {
		s, errs := c.m.read()
		require.Empty(t, errs)
		require.Equal(t, c.want, s.overlaps(at(c.at), at(c.at).Add(time.Minute)), "%+v at %s", c.m, c.at)
	}
}

func TestMistakesInMaintenanceAreNamed(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Maintenance = []Maintenance{
		{Weekly: "Sat 22:00-02:00", Zone: "Mars/Olympus"},
		{Weekly: "Caturday 22:00-02:00"},
		{Weekly: "Sat 22:00"},
		{Weekly: "Sat 22:00-22:00"},
		{Weekly: "Sat 22:00-23:00", From: "2026-03-07 22:00"},
		{From: "2026-03-07 22:00"},
		{From: "2026-03-07 22:00", To: "2026-03-07 21:00"},
		{From: "yesterday", To: "tomorrow"},
		{},
		{Match: Match{Service: "a*b"}, Weekly: "Sat 22:00-02:00"},
	}
	err := cfg.Validate()
	for _, want := range []string{`maintenance[0].zone "Mars/Olympus"`, `maintenance[1].weekly "Caturday 22:00-02:00": "Caturday" is no day`, `maintenance[2].weekly`, `maintenance[3].weekly`,
		`maintenance[4].weekly "Sat 22:00-23:00": leave it out`, `maintenance[5].from: want both`, `maintenance[6].to "2026-03-07 21:00": want it after`, `maintenance[7].from "yesterday"`, `maintenance[7].to "tomorrow"`, `maintenance[8].from: want both`, `maintenance[9].service "a*b": want "*" at the end alone`} {
		require.ErrorContains(t, err, want)
	}
}
