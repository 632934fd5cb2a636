package detector

import (
	"fmt"
	"slices"
	"time"
)

// Reasons for which a firing alert is kept and not sent, beside shadow.
const (
	// MutedInhibited: requests of the agent miss deadlines, and an alert says so.
	MutedInhibited = "inhibited"
	// MutedMaintenance: the window judged has a part in planned maintenance.
	MutedMaintenance = "maintenance"
	// mutedPipeline: nothing is said about a service whose data does not come.
	mutedPipeline = "pipeline_health"
)

// muting is why an alert is not sent, and by what, in words.
type muting struct{ reason, by string }

// inhibits says whether an alert is of those that mute early warnings: a critical one
// that is sent itself. Only missed deadlines make an alert critical.
func inhibits(a *Alert) bool {
	return a.State == Firing && a.Severity == Critical && !a.Shadow && a.Detection != PipelineHealth && a.Detection != Alert504
}

// mutings says which firing alerts are kept back now, by fingerprint. A critical alert
// mutes the warnings of the same agent: it says what they warned of. A muted alert mutes
// none itself.
func (b *book) mutings(p plan) map[string]muting {
	out := map[string]muting{}
	by := map[scope]*Alert{}
	for _, fp := range b.fingerprints() {
		t := b.Tracks[fp]
		if t.Alert.State != Firing {
			continue
		}
		if s := p.over(t.Alert.Slice, t.Seen.From, t.Seen.To); s != nil {
			out[fp] = muting{MutedMaintenance, s.String()}
			continue
		}
		k := scope{t.Alert.Slice.Service, t.Alert.Slice.Agent}
		if inhibits(&t.Alert) && (by[k] == nil || t.Alert.FiredAt.Before(by[k].FiredAt)) {
			by[k] = &t.Alert
		}
	}
	for _, fp := range b.fingerprints() {
		a := &b.Tracks[fp].Alert
		c := by[scope{a.Slice.Service, a.Slice.Agent}]
		if _, done := out[fp]; done || c == nil || a.State != Firing || a.Severity == Critical || a.Detection == PipelineHealth || a.Detection == Alert504 {
			continue
		}
		out[fp] = muting{MutedInhibited, fmt.Sprintf("%s on %s (alert %s): deadlines are missed", c.Detection, c.Slice, c.Fingerprint)}
	}
	return out
}

// mark notes on each alert why it is kept back, and returns copies of those for which that
// changed, to be stored again.
func (b *book) mark(p plan) (changed []*Alert) {
	now := b.mutings(p)
	for _, fp := range b.fingerprints() {
		a := &b.Tracks[fp].Alert
		if m := now[fp]; a.State == Firing && (a.Muted != m.reason || a.MutedBy != m.by) {
			a.Muted, a.MutedBy = m.reason, m.by
			changed = append(changed, b.Tracks[fp].copy())
		}
	}
	return changed
}

// due gives the alerts that receivers are to be told of: each firing one at each
// transition, once it is neither in shadow nor muted and still breaches, and the end of
// each that they were told of. It notes that they have been told.
func (b *book) due(now time.Time) []*Alert {
	var out []*Alert
	for _, fp := range b.fingerprints() {
		t := b.Tracks[fp]
		a := &t.Alert
		switch {
		case t.Told >= a.Transition:
			continue
		case a.State == Firing && !a.Shadow && a.Muted == "" && (t.Quiet == 0 || t.Told > 0):
		case a.State == Resolved && t.Told > 0:
		default:
			continue
		}
		if a.State == Firing {
			t.ToldAs = a.Severity
		}
		t.Told, t.LastSent = a.Transition, now
		out = append(out, t.asTold())
	}
	slices.SortStableFunc(out, func(x, y *Alert) int { return x.At.Compare(y.At) })
	return out
}

// wake readies a stored book. Receivers have let alerts lapse that nobody repeated before
// their end; whether those go on is for the next verdicts to say, else receivers would
// show again what has ended meanwhile.
func (b *book) wake(cfg Config, now time.Time) {
	for _, t := range b.Tracks {
		if t.Alert.State != Firing {
			continue
		}
		if t.Told == 0 && !t.LastSent.IsZero() { // stored before Told was
			t.Told = t.Alert.Transition
		}
		if t.Told > 0 && now.Sub(t.LastSent) >= cfg.EndsAfter {
			t.stale = now.Add(time.Duration(cfg.ClearRounds)*time.Minute + 2*cfg.Interval)
			t.LastJudged = t.LastJudged.Add(now.Sub(t.LastSent)) // as in rest
		}
	}
}

// repeats gives the alerts that are due to be sent again: firing ones, so that receivers
// that expire alerts keep them, and for a while resolved ones, for receivers that were
// away or have forgotten. It notes that they have been. One whose severity has risen while it is
// muted is repeated as they know it: unrepeated it would seem to have ended.
func (b *book) repeats(cfg Config, now time.Time) []*Alert {
	var out []*Alert
	for _, fp := range b.fingerprints() {
		t := b.Tracks[fp]
		switch a := &t.Alert; {
		case t.Told == 0 || t.Told < a.Transition && a.State != Firing || now.Before(t.stale):
			continue
		case now.Sub(t.LastSent).Abs() < cfg.ResendEvery: // much less than 0 where the clock was set back
			continue
		case a.State == Firing && !a.Shadow:
		case a.State == Resolved && now.Sub(a.ResolvedAt) <= resolvedFor:
		default:
			continue
		}
		t.LastSent = now
		told := t.asTold()
		told.Transition = t.Told
		out = append(out, told)
	}
	return out
}

// resolvedFor is for how long the end of an alert is repeated: an Alertmanager that was
// restarted, or joins its cluster late, would else show the alert until its end lapses.
const resolvedFor = 5 * time.Minute

// audible leaves out verdicts about services whose data does not come: what is there of it
// proves neither a fault nor recovery. A pipeline_health in shadow mutes nothing, since
// nobody would hear of it.
func (b *book) audible(cfg Config, vs []Verdict) (kept []Verdict, muted int) {
	silent := map[string]bool{}
	for _, t := range b.Tracks {
		if t.Alert.Detection == PipelineHealth && t.Alert.State == Firing && !t.Alert.Shadow {
			silent[t.Alert.Slice.Service] = true
		}
	}
	for _, v := range vs {
		if v.Detection == PipelineHealth && v.Level == Breach && !cfg.For(v.Slice).Shadow[PipelineHealth] {
			silent[v.Slice.Service] = true
		}
	}
	if len(silent) == 0 {
		return vs, 0
	}
	for _, v := range vs {
		if v.Detection != PipelineHealth && silent[v.Slice.Service] {
			muted++
			continue
		}
		kept = append(kept, v)
	}
	return kept, muted
}
