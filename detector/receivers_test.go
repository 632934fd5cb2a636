package detector_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/memory"
	"driftline/internal/clock"
)

// away is a store that can be out of reach, states and all.
type away struct {
	*mortal
	gone bool
}

func (a *away) LoadState(ctx context.Context, key string) (string, bool, error) {
	if a.gone {
		return "", false, errors.New("connection refused")
	}
	return a.mortal.LoadState(ctx, key)
}

func (a *away) SaveState(ctx context.Context, key, state string, version uint64) error {
	if a.gone {
		return errors.New("connection refused")
	}
	return a.mortal.SaveState(ctx, key, state, version)
}

// lifetime is the story of one alert that several detectors tell, one after the other.
type lifetime struct {
	start time.Time
	rows  *memory.Store
	disk  *disk
	end   int
}

func newLifetime() *lifetime {
	l := &lifetime{start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), disk: &disk{states: map[string]string{}}, end: 125}
	l.rows = drifting(l.start, 100, l.end-100)
	return l
}

func (l *lifetime) store() *away { return &away{mortal: &mortal{Store: l.rows, disk: l.disk}} }

func (l *lifetime) detector(t *testing.T, st *away, to ...detector.Notifier) *detector.Engine {
	e, err := detector.New(detector.DefaultConfig(), st, st, to, clock.NewManual(l.start))
	require.NoError(t, err)
	return e
}

// run plays minutes [from, to).
func (l *lifetime) run(e *detector.Engine, from, to int) (err error) {
	for m := from; m < to; m++ {
		_, err = e.Evaluate(context.Background(), l.start.Add(time.Duration(m+1)*time.Minute+35*time.Second))
	}
	return err
}

// A receiver whose URL was changed hears of what already fires, with the key that the others
// got, who hear of it no second time; and all hear of the end.
func TestANewReceiverHearsOfWhatFires(t *testing.T) {
	l := newLifetime()
	old, other, fresh := &collect{name: "old"}, &collect{name: "other"}, &collect{name: "new"}
	require.NoError(t, l.run(l.detector(t, l.store(), old, other), 99, 110))
	require.Len(t, other.news(), 1)
	require.NoError(t, l.run(l.detector(t, l.store(), fresh, other), 110, 115))
	require.Len(t, other.news(), 1)
	require.Len(t, fresh.news(), 1)
	require.Equal(t, detector.Firing, fresh.news()[0].State)
	require.Equal(t, other.news()[0].Key(), fresh.news()[0].Key())
	require.NoError(t, l.run(l.detector(t, l.store(), fresh, other), 115, l.end+15))
	for _, r := range []*collect{other, fresh} {
		require.Len(t, r.news(), 2, "%s: its beginning, and its end", r.name)
		require.Equal(t, detector.Resolved, r.news()[1].State)
	}
}

// A detector that never reached its store tells so after the grace, and then goes on where
// the one before it had stopped.
func TestADetectorThatNeverReachedItsStoreTells(t *testing.T) {
	l := newLifetime()
	sink := &collect{name: "sink"}
	require.NoError(t, l.run(l.detector(t, l.store(), sink), 99, 105))
	require.Len(t, sink.news(), 1)
	drift := sink.news()[0]

	st := l.store()
	st.gone = true
	e := l.detector(t, st, sink)
	require.ErrorContains(t, l.run(e, 105, 115), "connection refused")
	require.Len(t, sink.news(), 1, "within the grace")
	require.ErrorContains(t, l.run(e, 115, 117), "connection refused")
	require.Len(t, sink.news(), 2)
	blind := sink.news()[1]
	require.Equal(t, detector.PipelineHealth, blind.Detection)
	require.Equal(t, detector.Firing, blind.State)
	require.Error(t, e.Ready())
	st.gone = false
	require.NoError(t, l.run(e, 117, l.end+15))
	ends := map[string]detector.Alert{}
	for _, a := range sink.news()[2:] {
		require.Equal(t, detector.Resolved, a.State, a.Detection)
		ends[a.Detection] = a
	}
	require.Len(t, sink.news(), 4, "an end of each")
	require.Equal(t, blind.Transition+1, ends[detector.PipelineHealth].Transition)
	require.Equal(t, drift.Fingerprint, ends[detector.DeadlineDrift].Fingerprint)
	require.Equal(t, drift.Transition+1, ends[detector.DeadlineDrift].Transition, "what was stored is still known")
}

// Two detectors on one database notice each other, whatever their clocks say; one that takes
// another's place does not.
func TestTwoDetectorsNoticeEachOther(t *testing.T) {
	l := newLifetime()
	var logs [3]strings.Builder
	engine := func(i int) *detector.Engine {
		st := l.store()
		e, err := detector.New(detector.DefaultConfig(), st, st, nil, clock.NewManual(l.start), detector.WithLogger(slog.New(slog.NewTextHandler(&logs[i], nil))))
		require.NoError(t, err)
		return e
	}
	const warning = "another detector runs on the same database"
	require.NoError(t, l.run(engine(0), 0, 20))
	second := engine(1)
	require.NoError(t, l.run(second, 10, 30), "its clock is behind that of the one before it")
	require.NotContains(t, logs[0].String()+logs[1].String(), warning)
	third := engine(2)
	for m := 30; m < 60; m++ {
		require.NoError(t, l.run(second, m, m+1))
		require.NoError(t, l.run(third, m+30, m+31))
	}
	for _, log := range logs[1:] {
		require.Equal(t, 1, strings.Count(log.String(), warning), "said once: %s", log.String())
	}
}
