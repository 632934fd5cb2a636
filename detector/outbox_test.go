package detector

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/internal/clock"
)

// funcNotifier is a notifier made of a function.
type funcNotifier struct {
	name string
	f    func(context.Context, []Alert) error
}

func (n funcNotifier) Name() string                                 { return n.name }
func (n funcNotifier) Notify(ctx context.Context, as []Alert) error { return n.f(ctx, as) }

// posting is an engine with so many alerts in its outbox, and no store behind it.
func posting(t *testing.T, alerts int, ns ...Notifier) *Engine {
	e, err := New(DefaultConfig(), stateless{}, nil, ns, clock.NewManual(t0))
	require.NoError(t, err)
	e.book, e.loaded = newBook(), true
	for i := range alerts {
		e.book.post(Alert{Fingerprint: string(rune('a' + i)), Transition: 1, State: Firing}, e.names())
	}
	return e
}

// stateless takes states and keeps none; it has nothing else of a store.
type stateless struct{ Store }

func (stateless) SaveState(context.Context, string, string, uint64) error { return nil }

// A receiver that hangs gets its alerts at the same time as the others get theirs.
func TestAHangingReceiverDelaysNoOther(t *testing.T) {
	taken := make(chan struct{})
	slow := funcNotifier{"slow", func(ctx context.Context, _ []Alert) error {
		select {
		case <-taken:
			return errors.New("too late")
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	fast := funcNotifier{"fast", func(context.Context, []Alert) error { close(taken); return nil }}
	e := posting(t, 2, slow, fast)
	require.ErrorContains(t, e.notify(context.Background(), t0), "notifier slow did not take all of 2 alerts: too late")
	require.Len(t, e.book.Outbox, 2)
	for _, i := range e.book.Outbox {
		require.Equal(t, []string{"slow"}, i.To)
	}
}

func TestWaitsGrowAndEnd(t *testing.T) {
	var at []time.Duration
	down := true
	n := funcNotifier{"n", func(context.Context, []Alert) error {
		if down {
			return &DeliveryError{Reason: "refused", Err: errors.New("connection refused")}
		}
		return nil
	}}
	e := posting(t, 1, n)
	for d := time.Duration(0); d <= 30*time.Minute; d += 30 * time.Second {
		if e.notify(context.Background(), t0.Add(d)) != nil {
			at = append(at, d)
		}
	}
	require.Equal(t, []time.Duration{0, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 13 * time.Minute, 18 * time.Minute, 23 * time.Minute, 28 * time.Minute}, at)
	down = false
	require.NoError(t, e.notify(context.Background(), t0.Add(33*time.Minute)))
	require.Empty(t, e.book.Outbox)
	require.Zero(t, e.tries["n"].failed)
}

// What a receiver will not take is given up after a few tries, and does not make it wait.
func TestARefusedAlertIsGivenUp(t *testing.T) {
	rounds := 0
	n := funcNotifier{"n", func(_ context.Context, as []Alert) error {
		rounds++
		how := &DeliveryError{Reason: "4xx", Err: errors.New("400")}
		for _, a := range as {
			if a.Fingerprint == "a" {
				how.Refused = append(how.Refused, a.Key())
			} else {
				how.Taken = append(how.Taken, a.Key())
			}
		}
		return how
	}}
	e := posting(t, 3, n)
	for i := range 5 {
		_ = e.notify(context.Background(), t0.Add(time.Duration(i)*30*time.Second))
		want := 1
		if i >= 2 {
			want = 0
		}
		require.Len(t, e.book.Outbox, want, i)
	}
	require.Equal(t, 3, rounds)
}

// A receiver that is slow takes some alerts of a storm in each round; the rest do not wait longer
// and longer as if it were away.
func TestASlowReceiverIsNotTakenForOneThatIsAway(t *testing.T) {
	n := funcNotifier{"n", func(_ context.Context, as []Alert) error {
		how := &DeliveryError{Reason: "timeout", Err: context.DeadlineExceeded}
		for _, a := range as[:min(4, len(as))] {
			how.Taken = append(how.Taken, a.Key())
		}
		if len(as) <= 4 {
			return nil
		}
		return how
	}}
	e := posting(t, 24, n)
	for i := range 6 {
		_ = e.notify(context.Background(), t0.Add(time.Duration(i)*30*time.Second))
	}
	require.Empty(t, e.book.Outbox)
}
