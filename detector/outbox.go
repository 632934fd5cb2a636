package detector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Bounds of delivery.
const (
	// maxOutbox is how many notifications are kept for notifiers that never answer.
	maxOutbox = 10_000
	// sendTimeout bounds what one notifier may take in a round.
	sendTimeout = 10 * time.Second
	// firstBackoff doubles with each failed try after another, up to maxBackoff.
	firstBackoff = 15 * time.Second
	maxBackoff   = 5 * time.Minute
	// maxRefused is how often an alert that a notifier refuses for what it is is tried.
	maxRefused = 3
)

// DeliveryError is a notifier's error that says more than that all alerts are to be sent
// again.
type DeliveryError struct {
	// Taken are the keys of alerts that were delivered all the same.
	Taken []string
	// Refused are those that the receiver will not take however often they are sent.
	Refused []string
	// Reason is of few values, for metrics: timeout, refused, 5xx and the like.
	Reason string
	Err    error
}

func (e *DeliveryError) Error() string { return e.Err.Error() }
func (e *DeliveryError) Unwrap() error { return e.Err }

// tries is how a notifier has fared lately.
type tries struct {
	failed int
	next   time.Time
}

// after notes a try and says when the next may be. The wait stays well inside the time for
// which receivers keep an alert that is not repeated.
func (t *tries) after(ok bool, now time.Time, endsAfter time.Duration) {
	if ok {
		*t = tries{}
		return
	}
	wait := min(firstBackoff<<min(t.failed, 10), maxBackoff, endsAfter/2)
	t.failed++
	t.next = now.Add(wait)
}

// waits says that the next try is not due. A wait that is longer than any is one from before the
// clock was set back.
func (t *tries) waits(now time.Time) bool {
	return now.Before(t.next) && t.next.Sub(now) <= maxBackoff
}

// parcel is what one notifier is given in a round, and how it fared.
type parcel struct {
	to     Notifier
	alerts []Alert
	err    error
}

// notify sends the outbox and repeats alerts in time. All notifiers are asked at once, so
// that one that hangs delays no other. What a notifier does not take stays, and is tried
// again with growing waits.
func (e *Engine) notify(ctx context.Context, now time.Time) error {
	if over := len(e.book.Outbox) - maxOutbox; over > 0 {
		e.log.Error("notifications dropped: a notifier has not taken any for long", "dropped", over)
		e.metrics.sent(ctx, "all", "dropped", "outbox_full", over)
		e.book.Outbox = slices.Delete(e.book.Outbox, 0, over)
	}
	repeats := e.book.repeats(e.cfg, now)
	var parcels []*parcel
	for _, n := range e.notifiers {
		if t := e.tries[n.Name()]; t != nil && t.waits(now) {
			continue
		}
		p := &parcel{to: n}
		for _, item := range e.book.Outbox {
			if slices.Contains(item.To, n.Name()) {
				p.alerts = append(p.alerts, e.ends(item.Alert, now))
			}
		}
		for _, a := range repeats {
			r := e.ends(*a, now)
			r.Resend = true
			p.alerts = append(p.alerts, r)
		}
		if len(p.alerts) > 0 {
			parcels = append(parcels, p)
		}
	}
	var all sync.WaitGroup
	for _, p := range parcels {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, sendTimeout)
			defer cancel()
			p.err = p.to.Notify(ctx, p.alerts)
		})
	}
	all.Wait()
	var errs []error
	changed := false
	for _, p := range parcels {
		changed = e.delivered(ctx, p, now) || changed
		if p.err != nil {
			errs = append(errs, fmt.Errorf("notifier %s did not take all of %d alerts: %w", p.to.Name(), len(p.alerts), p.err))
		}
	}
	known := e.names()
	e.book.Outbox = slices.DeleteFunc(e.book.Outbox, func(i outboxItem) bool {
		return !slices.ContainsFunc(i.To, func(s string) bool { return slices.Contains(known, s) })
	})
	if changed {
		if err := e.saveBook(ctx, now); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// delivered takes what a notifier took, or never will, out of the outbox, and says whether
// that changed it.
func (e *Engine) delivered(ctx context.Context, p *parcel, now time.Time) (changed bool) {
	name := p.to.Name()
	how := &DeliveryError{}
	if p.err != nil && !errors.As(p.err, &how) {
		how = &DeliveryError{Reason: "error"}
	}
	taken := func(a *Alert) bool { return p.err == nil || slices.Contains(how.Taken, a.Key()) }
	ok, refused := 0, 0
	for i := range p.alerts {
		switch {
		case taken(&p.alerts[i]):
			ok++
		case slices.Contains(how.Refused, p.alerts[i].Key()):
			refused++
		}
	}
	e.metrics.sent(ctx, name, "ok", "", ok)
	e.metrics.sent(ctx, name, "error", how.Reason, len(p.alerts)-ok)
	for i := range e.book.Outbox {
		item := &e.book.Outbox[i]
		if !slices.Contains(item.To, name) {
			continue
		}
		gone := taken(&item.Alert)
		if !gone && slices.Contains(how.Refused, item.Alert.Key()) {
			if item.Refused++; item.Refused >= maxRefused {
				gone = true
				e.metrics.sent(ctx, name, "dropped", "refused", 1)
				e.log.Error("notification dropped: the notifier refuses it", "notifier", name, "alert", item.Alert.Key(), "error", p.err)
			}
		}
		if gone {
			item.To = slices.DeleteFunc(item.To, func(s string) bool { return s == name })
			changed = true
		}
	}
	if e.tries[name] == nil {
		e.tries[name] = &tries{}
	}
	// A receiver that answers, if only to refuse some or to take as many as there was time for,
	// is there: the rest need not wait.
	e.tries[name].after(ok+refused > 0, now, e.cfg.EndsAfter)
	return changed
}
