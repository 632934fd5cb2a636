package assemble

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/internal/genai"
	"driftline/internal/rows"
)

// lostCall is a buffer to which the failed requests of a call have come, and nothing else.
func lostCall(root bool) (b toy, store table, run func(time.Duration), add func(genai.Span)) {
	b = newReal(realSettings())
	store = table{}
	now := start
	run = func(d time.Duration) {
		for end := now.Add(d); now.Before(end); {
			now = now.Add(time.Second)
			store.take(b.Tick(now))
		}
	}
	add = func(s genai.Span) { store.take(b.Add(s, 0, 100, now)) }
	add(call(3, 2, "POST", 0, time.Second, true))
	add(call(4, 2, "POST", 2*time.Second, 3*time.Second, true))
	if root {
		plain := span(7, 1, "plain root", 0, 4*time.Second)
		add(plain)
	}
	return b, store, run, add
}

func theCall(t *testing.T, store table) *rows.Operation {
	t.Helper()
	require.Equal(t, 1, store.count(rows.TableOperations))
	require.Equal(t, 1, store.count(rows.TableRequests))
	require.Equal(t, 2, store.count(rows.TableAttempts))
	for _, row := range store {
		if o, ok := row.(*rows.Operation); ok && !o.Deleted {
			require.Equal(t, fmt.Sprintf("%016x", 2), o.OperationID)
			require.EqualValues(t, 2, *o.Attempts)
			return o
		}
	}
	return nil
}

// A call whose own span never comes is known once its trace is released, and revised, not
// doubled, when the span comes late after all.
func TestCallWhoseSpanNeverCame(t *testing.T) {
	for name, root := range map[string]bool{"after the timeout": false, "after the root": true} {
		t.Run(name, func(t *testing.T) {
			_, store, run, add := lostCall(root)
			wait := 3 * time.Second
			if !root {
				run(9 * time.Minute)
				require.Zero(t, len(store), "its span may still come")
				wait = 2 * time.Minute
			}
			run(wait)
			o := theCall(t, store)
			require.True(t, o.Incomplete)
			require.Equal(t, genai.CallSpanMissing, o.Attributes[genai.PartialKey])
			require.Empty(t, o.Target)
			require.Zero(t, o.Revision, "rows of the span itself win, wherever it came")

			add(call(2, 1, "chat", 0, 4*time.Second, true))
			run(3 * time.Second)
			o = theCall(t, store)
			require.Equal(t, "m", o.Target)
			require.Empty(t, o.Attributes)
			require.EqualValues(t, 2, o.Revision)
		})
	}
}

// When the missing parent turns out to be no model call, nothing of the call stays.
func TestCallWhoseParentWasNone(t *testing.T) {
	_, store, run, add := lostCall(false)
	run(11 * time.Minute)
	theCall(t, store)
	parent := span(7, 2, "plain", 0, 4*time.Second)
	add(parent)
	run(3 * time.Second)
	for _, table := range []rows.Table{rows.TableOperations, rows.TableRequests, rows.TableAttempts, rows.TableSegments} {
		require.Zero(t, store.count(table), table)
	}
}

// A trace that is cut off says nothing of calls that may still run, but keeps what it has said.
func TestCallWhoseSpanNeverCameAtShutdown(t *testing.T) {
	b, store, run, _ := lostCall(false)
	run(time.Minute)
	for r := range b.Drain(start.Add(time.Minute)) {
		store.take([]Release[load]{r})
	}
	require.Zero(t, len(store))

	b, store, run, add := lostCall(false)
	run(11 * time.Minute)
	add(call(9, 2, "POST", 5*time.Second, 6*time.Second, true))
	for r := range b.Drain(start.Add(12 * time.Minute)) {
		store.take([]Release[load]{r})
	}
	require.Equal(t, 1, store.count(rows.TableOperations))
	require.Equal(t, 3, store.count(rows.TableAttempts))
}
