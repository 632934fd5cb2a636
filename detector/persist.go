package detector

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// load reads the stored book before the first round.
func (e *Engine) load(ctx context.Context, now time.Time) error {
	if e.loaded {
		return nil
	}
	text, ok, err := e.store.LoadState(ctx, stateKey)
	if err != nil {
		return err
	}
	b := newBook()
	if ok {
		if err := json.Unmarshal([]byte(text), b); err != nil {
			return fmt.Errorf("the detector's stored state is not readable: delete key %q from detector_state to start without it: %w", stateKey, err)
		}
		if b.Tracks == nil {
			b.Tracks = map[string]*track{}
		}
	}
	b.wake(e.cfg, now)
	b.introduce(e.names(), now)
	if e.book != nil {
		b.join(e.book)
	}
	e.book, e.loaded = b, true
	e.baselines.SetIncidents(b.excluded())
	return nil
}

// persist stores changed alerts and then the book, with its outbox. Alerts are sent
// only after that, so that a crash repeats a notification and never loses one.
func (e *Engine) persist(ctx context.Context, now time.Time, dirty bool) error {
	if !dirty && len(e.unsaved) == 0 {
		return nil
	}
	version := e.nextVersion(now)
	for i := range e.unsaved {
		e.unsaved[i].Version = version
	}
	if err := e.store.SaveAlerts(ctx, e.unsaved); err != nil {
		return err
	}
	if err := e.saveBook(ctx, now); err != nil {
		return err
	}
	e.unsaved = nil
	return nil
}

func (e *Engine) nextVersion(now time.Time) uint64 {
	return max(e.book.Version+1, uint64(max(now.UnixMilli(), 0))<<8)
}

// saveBook stores the book. One to alert from early is not stored: it would replace what was.
func (e *Engine) saveBook(ctx context.Context, now time.Time) error {
	if !e.loaded {
		return nil
	}
	e.book.Version = e.nextVersion(now)
	text, err := json.Marshal(e.book)
	if err != nil {
		return fmt.Errorf("write the detector's state: %w", err)
	}
	return e.store.SaveState(ctx, stateKey, string(text), e.book.Version)
}
