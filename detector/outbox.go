package detector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxOutbox bounds what is kept for a notifier that never answers.
const maxOutbox = 10_000

// notify sends the outbox and repeats firing alerts in time. What a notifier does
// not take stays for the next round.
func (e *Engine) notify(ctx context.Context, now time.Time) error {
	if over := len(e.book.Outbox) - maxOutbox; over > 0 {
		e.log.Error("notifications dropped: a notifier has not taken any for long", "dropped", over)
		e.metrics.sent(ctx, "dropped", over, errors.New("outbox full"))
		e.book.Outbox = slices.Delete(e.book.Outbox, 0, over)
	}
	var errs []error
	changed := false
	for _, n := range e.notifiers {
		var due []Alert
		for _, item := range e.book.Outbox {
			if slices.Contains(item.To, n.Name()) {
				due = append(due, e.ends(item.Alert, now))
			}
		}
		if len(due) == 0 {
			continue
		}
		err := n.Notify(ctx, due)
		e.metrics.sent(ctx, n.Name(), len(due), err)
		if err != nil {
			errs = append(errs, fmt.Errorf("notifier %s did not take %d alerts: %w", n.Name(), len(due), err))
			continue
		}
		changed = true
		for i := range e.book.Outbox {
			item := &e.book.Outbox[i]
			item.To = slices.DeleteFunc(item.To, func(s string) bool { return s == n.Name() })
		}
	}
	known := e.names()
	e.book.Outbox = slices.DeleteFunc(e.book.Outbox, func(i outboxItem) bool {
		return !slices.ContainsFunc(i.To, func(s string) bool { return slices.Contains(known, s) })
	})
	errs = append(errs, e.resend(ctx, now))
	if changed {
		if err := e.saveBook(ctx, now); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// resend repeats alerts. A failed repeat is not kept: the next one is due soon and says
// the same.
func (e *Engine) resend(ctx context.Context, now time.Time) error {
	var due []Alert
	for _, a := range e.book.repeats(e.cfg, now) {
		r := e.ends(*a, now)
		r.Resend = true
		due = append(due, r)
	}
	if len(due) == 0 {
		return nil
	}
	var errs []error
	for _, n := range e.notifiers {
		err := n.Notify(ctx, due)
		e.metrics.sent(ctx, n.Name(), len(due), err)
		if err != nil {
			errs = append(errs, fmt.Errorf("notifier %s did not take %d repeated alerts: %w", n.Name(), len(due), err))
		}
	}
	return errors.Join(errs...)
}
