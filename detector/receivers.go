package detector

import (
	"slices"
	"time"
)

// introduce tells receivers that are new since the book was stored of what already fires: a
// webhook whose URL was changed would else hear of those alerts only when they end. A
// book from before receivers were noted is taken as one that all of them know.
func (b *book) introduce(names []string, now time.Time) {
	defer func() { b.Receivers = slices.Clone(names) }()
	if b.Receivers == nil {
		return
	}
	var fresh []string
	for _, n := range names {
		if !slices.Contains(b.Receivers, n) {
			fresh = append(fresh, n)
		}
	}
	if len(fresh) == 0 {
		return
	}
	for _, fp := range b.fingerprints() {
		t := b.Tracks[fp]
		// What waits for a verdict after a long pause, or is due anyway, is not told here, and
		// what is in shadow or muted is told nobody.
		if a := &t.Alert; a.State == Firing && !a.Shadow && a.Muted == "" && t.Told == a.Transition && now.After(t.stale) {
			b.post(*t.copy(), fresh)
		}
	}
}

// early is a book to alert from while the stored one has never been read. Its numbers begin
// at the time in seconds, so that no key comes twice whatever is stored.
func early(now time.Time) *book {
	b := newBook()
	s := Slice{Service: ownService}
	fp := Fingerprint(PipelineHealth, s)
	b.Tracks[fp] = &track{Alert: Alert{Fingerprint: fp, Transition: uint32(now.Unix()), Detection: PipelineHealth, Slice: s, State: Resolved, At: now}}
	return b
}

// join takes over what was alerted early, once the stored book is there.
func (b *book) join(e *book) {
	for fp, t := range e.Tracks {
		if before := b.Tracks[fp]; t.Alert.State != Firing || before != nil && before.Alert.Transition > t.Alert.Transition {
			continue
		}
		b.Tracks[fp] = t
	}
	b.Incidents, b.Outbox = append(b.Incidents, e.Incidents...), append(b.Outbox, e.Outbox...)
}
