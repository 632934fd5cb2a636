package detector

import (
	"maps"
	"slices"
	"sort"
	"time"
)

// vote is what one minute's window said.
type vote struct {
	At     time.Time `json:"at"`
	Breach bool      `json:"breach"`
}

// track is the life of one alert. All of it is stored, so that a restart goes on
// where the last process was.
type track struct {
	Alert Alert `json:"alert"`
	// Votes are those of the last FireRounds minutes judged.
	Votes []vote `json:"votes,omitempty"`
	// Quiet counts quiet minutes in a row, LastQuiet is the last one counted.
	Quiet     int       `json:"quiet,omitempty"`
	LastQuiet time.Time `json:"last_quiet"`
	// LastJudged is when there last was enough traffic to say anything.
	LastJudged time.Time `json:"last_judged"`
	LastSent   time.Time `json:"last_sent"`
	// Told is the last transition that went to the outbox, 0 if receivers know nothing of
	// the alert since it began.
	Told uint32 `json:"told,omitempty"`
	// ToldAs is the severity that receivers know. It is a label, so that they would take the
	// same alert with another one for another alert.
	ToldAs string `json:"told_as,omitempty"`
	// Seen is the window last judged.
	Seen Interval `json:"seen"`
	// stale holds repeats back until then or until a verdict says that the alert goes on:
	// receivers let it lapse while no detector ran, and it may be over.
	stale time.Time
}

// incident is a stretch that stays out of the baseline of an agent's slices.
type incident struct {
	Fingerprint string   `json:"fingerprint"`
	Service     string   `json:"service"`
	Agent       string   `json:"agent"`
	Span        Interval `json:"span"`
}

// outboxItem is a notification that not all notifiers have taken yet.
type outboxItem struct {
	Alert Alert    `json:"alert"`
	To    []string `json:"to"`
	// Refused counts tries that a notifier refused.
	Refused int `json:"refused,omitempty"`
}

// book is the engine's whole state.
type book struct {
	Version   uint64            `json:"version"`
	Tracks    map[string]*track `json:"tracks"`
	Incidents []incident        `json:"incidents,omitempty"`
	Outbox    []outboxItem      `json:"outbox,omitempty"`
	// Receivers are the names of those that were told of what fires; nil is not known.
	Receivers []string `json:"receivers,omitempty"`
}

func newBook() *book { return &book{Tracks: map[string]*track{}} }

// votesNeeded gives m and n of the m-of-n rule. The late rule and pipeline health
// have their hold times in their own definition.
func (c Config) votesNeeded(detection string) (m, n int) {
	if detection == Alert504 || detection == PipelineHealth {
		return 1, 1
	}
	return c.FireVotes, c.FireRounds
}

// fast says that an effect is so large that its first minute is enough.
func (c Config) fast(v Verdict) bool { return v.Strength >= c.FastFactor }

// observe takes a verdict into the book. It returns the alert if its state or
// severity changed, and whether anything changed that must be stored.
func (b *book) observe(cfg Config, v Verdict, now time.Time) (change *Alert, dirty bool) {
	fp := Fingerprint(v.Detection, v.Slice)
	t := b.Tracks[fp]
	if t != nil && v.Level != Quiet {
		t.stale = time.Time{}
	}
	if t == nil || (t.Alert.State != Pending && t.Alert.State != Firing) {
		if v.Level != Breach {
			return nil, false
		}
		if t == nil {
			t = &track{Alert: Alert{Fingerprint: fp, Detection: v.Detection, Slice: v.Slice}}
			b.Tracks[fp] = t
		}
		return b.begin(cfg, t, v, now), true
	}
	if v.Level == Insufficient || v.Level == NoBaseline {
		return nil, false // silence is not recovery
	}
	if back := t.Seen.To.Sub(v.To); back > 0 && back <= cfg.LongWindow && v.Detection != PipelineHealth {
		return nil, false // the clock was set back: what was before the alert is not recovery either
	}
	t.LastJudged, t.Seen = now, Interval{v.From, v.To}
	_, n := cfg.votesNeeded(v.Detection)
	t.vote(v, n)
	switch v.Level {
	case Breach, Hold:
		t.Quiet = 0
	case Quiet:
		if !v.To.Equal(t.LastQuiet) {
			t.Quiet++
			t.LastQuiet = v.To
		}
	}
	if t.Alert.State == Pending {
		return b.fireOrLapse(cfg, t, v, now), true
	}
	switch {
	case t.Quiet >= cfg.ClearRounds:
		return b.resolve(t, v.To, now, ""), true
	case v.Level == Breach && v.Severity == Critical && t.Alert.Severity != Critical:
		t.set(cfg, v, now)
		t.Alert.Transition++
		return t.copy(), true
	}
	return nil, true
}

func (t *track) vote(v Verdict, keep int) {
	if k := len(t.Votes); k > 0 && t.Votes[k-1].At.Equal(v.To) {
		t.Votes[k-1].Breach = v.Level == Breach // the same minute, judged again with more data
	} else {
		t.Votes = append(t.Votes, vote{v.To, v.Level == Breach})
	}
	t.Votes = t.Votes[max(0, len(t.Votes)-keep):]
}

func (t *track) breaches() int {
	k := 0
	for _, v := range t.Votes {
		if v.Breach {
			k++
		}
	}
	return k
}

func (b *book) begin(cfg Config, t *track, v Verdict, now time.Time) *Alert {
	t.Votes, t.Quiet, t.LastJudged, t.LastSent, t.Told, t.ToldAs, t.Seen = nil, 0, now, time.Time{}, 0, "", Interval{v.From, v.To}
	t.Alert.Muted, t.Alert.MutedBy = "", ""
	started, touched := v.From, v.From
	if !v.Since.IsZero() {
		started = v.Since
		if v.Since.Before(v.From) {
			touched = v.Since
		}
	}
	t.Alert.State, t.Alert.StartsAt, t.Alert.FiredAt, t.Alert.ResolvedAt = Pending, started, time.Time{}, time.Time{}
	t.set(cfg, v, now)
	b.Incidents = append(b.Incidents, incident{t.Alert.Fingerprint, v.Slice.Service, v.Slice.Agent, Interval{From: touched}})
	t.vote(v, 1)
	if m, _ := cfg.votesNeeded(v.Detection); m <= 1 || cfg.fast(v) {
		return b.fire(t, v, now)
	}
	t.Alert.Transition++
	return t.copy()
}

func (b *book) fire(t *track, v Verdict, now time.Time) *Alert {
	t.Alert.State, t.Alert.FiredAt, t.Alert.At = Firing, now, now
	if v.Detection == Alert504 {
		t.Alert.FiredAt = v.To // the rule itself has no evaluation delay
	}
	t.Alert.Transition++
	return t.copy()
}

func (b *book) fireOrLapse(cfg Config, t *track, v Verdict, now time.Time) *Alert {
	m, n := cfg.votesNeeded(v.Detection)
	switch {
	case v.Level == Breach && (t.breaches() >= m || cfg.fast(v)):
		t.set(cfg, v, now)
		return b.fire(t, v, now)
	case len(t.Votes) >= n && t.breaches() == 0:
		return b.resolve(t, v.To, now, "")
	}
	return nil
}

// set copies a verdict's findings into the alert.
func (t *track) set(cfg Config, v Verdict, now time.Time) {
	a := &t.Alert
	// What receivers know goes on being told until it ends, whatever shadow says by then.
	a.At, a.Severity, a.Shadow = now, v.Severity, v.Detection == Alert504 || t.Told == 0 && cfg.For(v.Slice).Shadow[v.Detection]
	a.Labels, a.Annotations = labels(v.Detection, v.Severity, v.Slice), cfg.annotations(v, a.Fingerprint)
	a.Value, a.Threshold, a.Baseline, a.Unit = v.Value, v.Threshold, v.Baseline, v.Unit
	a.Window, a.Samples, a.Evidence = v.To.Sub(v.From), v.Samples, v.Evidence
}

// resolve ends an alert: one that fired, or one that was pending and lapsed. A
// lapsed one was no incident, so the baseline may have its time back.
func (b *book) resolve(t *track, end, now time.Time, note string) *Alert {
	t.Alert.State, t.Alert.ResolvedAt, t.Alert.At = Resolved, now, now
	t.Alert.Transition++
	if note != "" {
		t.Alert.Annotations["note"] = note
	}
	lapsed := t.Alert.FiredAt.IsZero()
	b.Incidents = slices.DeleteFunc(b.Incidents, func(i incident) bool {
		return lapsed && i.Fingerprint == t.Alert.Fingerprint && i.Span.To.IsZero()
	})
	for i := range b.Incidents {
		if in := &b.Incidents[i]; in.Fingerprint == t.Alert.Fingerprint && in.Span.To.IsZero() {
			in.Span.To = end
		}
	}
	t.Votes, t.Quiet = nil, 0
	return t.copy()
}

func (t *track) copy() *Alert {
	a := t.Alert
	a.Labels, a.Annotations = maps.Clone(a.Labels), maps.Clone(a.Annotations)
	return &a
}

// asTold is the alert with the severity that receivers know.
func (t *track) asTold() *Alert {
	a := t.copy()
	if t.ToldAs != "" && t.ToldAs != a.Severity {
		a.Severity, a.Labels["severity"] = t.ToldAs, t.ToldAs
	}
	return a
}

// keepResolved is how long a resolved track is kept: its transition number must
// not start again while receivers may remember the old ones.
const keepResolved = 30 * 24 * time.Hour

// rest takes the time in which no round saw anything out of the wait before alerts expire: the
// store or the detector was away, or a clock jumped, and the slices' traffic is not known.
func (b *book) rest(away time.Duration) {
	for _, t := range b.Tracks {
		if t.Alert.State == Pending || t.Alert.State == Firing {
			t.LastJudged = t.LastJudged.Add(away)
		}
	}
}

// expire resolves alerts that could not be judged for long and forgets what is old.
func (b *book) expire(cfg Config, now time.Time) (changes []*Alert, dirty bool) {
	for _, fp := range b.fingerprints() {
		t := b.Tracks[fp]
		switch active := t.Alert.State == Pending || t.Alert.State == Firing; {
		case active && now.Sub(t.LastJudged) >= cfg.ExpireAfter:
			changes = append(changes, b.resolve(t, now, now, "expired: too little traffic to judge it, which is no proof of recovery"))
		case !active && now.Sub(t.Alert.At) >= keepResolved:
			delete(b.Tracks, fp)
			dirty = true
		}
	}
	oldest := now.Add(-cfg.BaselineWindow - cfg.LongWindow - cfg.BlockLength)
	before := len(b.Incidents)
	b.Incidents = slices.DeleteFunc(b.Incidents, func(i incident) bool { return !i.Span.To.IsZero() && i.Span.To.Before(oldest) })
	return changes, dirty || len(changes) > 0 || before != len(b.Incidents)
}

func (b *book) fingerprints() []string {
	out := make([]string, 0, len(b.Tracks))
	for fp := range b.Tracks {
		out = append(out, fp)
	}
	sort.Strings(out)
	return out
}

// excluded gives the incidents by agent, for the baseline. Pipeline health is not a
// state of the traffic.
func (b *book) excluded() map[scope][]Interval {
	out := map[scope][]Interval{}
	for _, i := range b.Incidents {
		if t := b.Tracks[i.Fingerprint]; t != nil && t.Alert.Detection == PipelineHealth {
			continue
		}
		k := scope{i.Service, i.Agent}
		out[k] = append(out[k], i.Span)
	}
	return out
}

// post puts a change into the outbox of the named notifiers.
func (b *book) post(a Alert, to []string) {
	if len(to) == 0 {
		return
	}
	b.Outbox = append(b.Outbox, outboxItem{Alert: a, To: slices.Clone(to)})
}
