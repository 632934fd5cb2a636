package detector

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A receiver that is new hears of what fires, and of nothing that nobody would be told of now.
func TestANewReceiverHearsOfNothingMutedOrInShadow(t *testing.T) {
	told := func(change func(*Alert)) int {
		b := newBook()
		b.Receivers = []string{"old"}
		a := Alert{Fingerprint: "f", Detection: P95Surge, Slice: planner, State: Firing, Transition: 2, FiredAt: t0}
		change(&a)
		b.Tracks["f"] = &track{Alert: a, Told: 2, LastSent: t0}
		b.introduce([]string{"old", "new"}, t0.Add(time.Minute))
		return len(b.Outbox)
	}
	require.Equal(t, 1, told(func(*Alert) {}))
	require.Zero(t, told(func(a *Alert) { a.Muted, a.MutedBy = MutedInhibited, "deadline_drift" }))
	require.Zero(t, told(func(a *Alert) { a.Shadow = true }))
}
