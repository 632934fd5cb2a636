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
	for name, jump := range map[string]struct{ from, to int }{"back": {80, 92}, "far back": {60, 62}, "forward": {114, 118}, "a day back": {108 - 1440, 112 - 1440}, "30 hours forward": {108 + 1800, 112 + 1800}} {
		t.Run(name, func(t *testing.T) {
			l := newLifetime()
			sink := &collect{name: "sink"}
			_, e := l.breakable(t, sink)
			require.NoError(t, l.run(e, 99, 108))
			require.Len(t, sink.news(), 1)
			require.NoError(t, l.run(e, jump.from, jump.to))
			require.NoError(t, l.run(e, 108, 120))
			require.Len(t, drifts(sink), 1)
			require.NoError(t, l.run(e, 120, l.end+15))
			told := drifts(sink)
			require.Len(t, told, 2)
			require.Equal(t, detector.Resolved, told[1].State)
			require.Equal(t, told[0].Transition+1, told[1].Transition)
			require.Empty(t, told[1].Annotations["note"], "it did not expire")
		})
	}
}

// drifts leaves out what was told of the pipeline: at an hour from which no data is, it does not see.
func drifts(sink *collect) (out []detector.Alert) {
	for _, a := range sink.news() {
		if a.Detection == detector.DeadlineDrift {
			out = append(out, a)
		}
	}
	return out
}

// An alert does not expire for want of traffic while no round sees any: neither with a store that
// is away for longer than that takes, nor with a detector that was.
func TestWhatIsNotSeenDoesNotExpire(t *testing.T) {
	for _, who := range []string{"store", "detector"} {
		t.Run(who, func(t *testing.T) {
			l := newLifetime()
			sink := &collect{name: "sink"}
			st, e := l.breakable(t, sink)
			require.NoError(t, l.run(e, 99, 108))
			if who == "store" {
				st.err = errors.New("connection refused")
				for m := 108; m < 108+25*60; m += 5 {
					require.Error(t, l.run(e, m, m+1))
				}
				st.err = nil
			} else {
				again, err := detector.New(detector.DefaultConfig(), st, st, []detector.Notifier{sink}, clock.NewManual(l.start))
				require.NoError(t, err)
				e = again
			}
			require.NoError(t, l.run(e, 108+25*60, 113+25*60))
			require.Len(t, drifts(sink), 1, "no traffic is in the windows yet")
			require.NoError(t, l.run(e, 114+25*60, 115+25*60))
			for m := 115 + 25*60; m < 108+50*60; m += 5 {
				require.NoError(t, l.run(e, m, m+1))
			}
			told := drifts(sink)
			require.Len(t, told, 2, "a day that was seen to be without traffic ends it")
			require.Contains(t, told[1].Annotations["note"], "no proof of recovery")
		})
	}
}
