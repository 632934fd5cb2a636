package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestManualRunsDueFunctionsInOrder(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := NewManual(start)
	var got []string
	m.Every(2*time.Second, func(now time.Time) { got = append(got, "a"+now.Sub(start).String()) })
	stop := m.Every(3*time.Second, func(now time.Time) { got = append(got, "b"+now.Sub(start).String()) })
	m.Advance(6 * time.Second)
	require.Equal(t, []string{"a2s", "b3s", "a4s", "a6s", "b6s"}, got)
	stop()
	m.Advance(3 * time.Second)
	require.Equal(t, "a8s", got[len(got)-1])
	require.Equal(t, start.Add(9*time.Second), m.Now())
}

func TestSystemStopWaitsForRunningCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		stop := System().Every(time.Second, func(time.Time) { calls++ })
		time.Sleep(2500 * time.Millisecond)
		stop()
		stop()
		require.Equal(t, 2, calls)
	})
}
