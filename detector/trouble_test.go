package detector_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/store"
	"driftline/internal/clock"
)

// broken is a store whose questions about requests can fail.
type broken struct {
	*away
	err error
}

func (b *broken) RequestCells(ctx context.Context, from, to time.Time) ([]store.RequestCell, error) {
	if b.err != nil {
		return nil, b.err
	}
	return b.away.RequestCells(ctx, from, to)
}

func (l *lifetime) breakable(t *testing.T, to ...detector.Notifier) (*broken, *detector.Engine) {
	st := &broken{away: l.store()}
	e, err := detector.New(detector.DefaultConfig(), st, st, to, clock.NewManual(l.start))
	require.NoError(t, err)
	return st, e
}

// A receiver that is away for an hour, in which an alert begins and ends, gets both once it
// is back, each once and in order; one that is there waits for nothing.
func TestAReceiverThatIsAwayForAnHour(t *testing.T) {
	l := newLifetime()
	gone, there := &collect{name: "gone", fail: errors.New("connection refused")}, &collect{name: "there"}
	e := l.detector(t, l.store(), gone, there)
	_ = l.run(e, 99, 145) // the last rounds may be in a pause between tries
	require.Empty(t, gone.got)
	require.Len(t, there.news(), 2)
	gone.fail = nil
	require.NoError(t, l.run(e, 145, 151), "tries are at most five minutes apart")
	require.Len(t, gone.news(), 2)
	for i, a := range gone.news() {
		require.Equal(t, there.news()[i].Key(), a.Key())
		require.Equal(t, there.news()[i].State, a.State)
	}
	require.Len(t, there.news(), 2)
}

// Settings that are read again while questions fail are in effect once they succeed, and
// neither changes an alert.
func TestSettingsAreReadAgainWhileQuestionsFail(t *testing.T) {
	l := newLifetime()
	sink := &collect{name: "sink"}
	st, e := l.breakable(t, sink)
	require.NoError(t, l.run(e, 99, 108))
	require.Len(t, sink.news(), 1)
	before := e.Active()
	st.err = errors.New("memory limit exceeded")
	require.ErrorContains(t, l.run(e, 108, 110), "memory limit exceeded")
	cfg := detector.DefaultConfig()
	cfg.BaselineWindow, cfg.SeasonDays, cfg.Interval = 12*time.Hour, 0, time.Minute
	require.NoError(t, e.Reconfigure(cfg))
	require.ErrorContains(t, l.run(e, 110, 112), "memory limit exceeded", "the baseline is read anew, and cannot be")
	require.Equal(t, before, e.Active())
	st.err = nil
	require.NoError(t, l.run(e, 112, l.end+15))
	require.Len(t, sink.news(), 2)
	require.Equal(t, sink.news()[0].Fingerprint, sink.news()[1].Fingerprint)
	require.Equal(t, detector.Resolved, sink.news()[1].State)
	require.True(t, sink.news()[1].At.After(l.start.Add(time.Duration(l.end)*time.Minute)))
}

// A clock that is set back by minutes shows the detector windows from before the alert again:
// they are no recovery. One that was set forward and back neither ends nor repeats it.
func TestAClockThatJumps(t *testing.T) {
	for name, jump := range map[string]struct{ from, to int }{"back": {80, 92}, "far back": {60, 62}, "forward": {114, 118}} {
		t.Run(name, func(t *testing.T) {
			l := newLifetime()
			sink := &collect{name: "sink"}
			_, e := l.breakable(t, sink)
			require.NoError(t, l.run(e, 99, 108))
			require.Len(t, sink.news(), 1)
			require.NoError(t, l.run(e, jump.from, jump.to))
			require.NoError(t, l.run(e, 108, 120))
			require.Len(t, sink.news(), 1)
			require.NoError(t, l.run(e, 120, l.end+15))
			require.Len(t, sink.news(), 2)
			require.Equal(t, detector.Resolved, sink.news()[1].State)
			require.Equal(t, sink.news()[0].Transition+1, sink.news()[1].Transition)
		})
	}
}
