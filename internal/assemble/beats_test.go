package assemble

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/internal/genai"
	"driftline/internal/rows"
)

// heart is a buffer whose clock runs, with what it has sent.
type heart struct {
	toy
	now   time.Time
	store table
	open  []*rows.OpenRequest
}

func newHeart(set Settings) *heart { return &heart{toy: newReal(set), now: start, store: table{}} }

func (h *heart) take(list []Release[load]) {
	h.store.take(list)
	for i := range list {
		all := list[i].Loose
		for k := range list[i].Spans {
			all = append(all, list[i].Spans[k].Rows...)
		}
		for _, row := range all {
			if o, ok := row.(*rows.OpenRequest); ok {
				h.open = append(h.open, o)
			}
		}
	}
}

func (h *heart) until(d time.Duration) {
	for h.now.Before(at(d)) {
		h.now = h.now.Add(500 * time.Millisecond)
		h.take(h.Tick(h.now))
	}
}

func (h *heart) beat(s genai.Span, stop bool) bool {
	b := Beat{Span: s, At: h.now.UnixNano(), GenAI: genai.IsGenAI(&s), Stop: stop}
	if _, err := hex.Decode(b.TraceID[:], []byte(s.TraceID)); err != nil {
		panic(err)
	}
	used, out := h.Beat(b, h.now)
	h.take(out)
	return used
}

// C89: heartbeats each 10 s until 300 s, then none, and no span. The request is open, seen
// to be silent, and given up as what it is: no success and no failure.
func TestC89_HeartbeatsThatStop(t *testing.T) {
	h := newHeart(realSettings())
	running := call(2, 1, "invoke_agent", 0, 0, false)
	for d := time.Duration(0); d <= 300*time.Second; d += 10 * time.Second {
		h.until(d)
		require.True(t, h.beat(running, false))
	}
	h.until(360 * time.Second)
	last := h.open[len(h.open)-1]
	require.Equal(t, at(360*time.Second).UnixNano(), last.ObservedAt)
	require.Equal(t, at(300*time.Second).UnixNano(), last.LastSpanAt)
	require.Equal(t, start.UnixNano(), last.StartedAt)
	require.EqualValues(t, 31, last.Spans, "a heartbeat each 10 s is a rhythm that the silence is measured by")
	require.Equal(t, "planner", last.Agent)
	require.EqualValues(t, 31, h.Stats().Heartbeats)
	o := h.Open()
	require.True(t, o.Any)
	require.Equal(t, start.UnixNano(), o.Began)

	h.until(300*time.Second + 10*time.Minute)
	require.False(t, h.Open().Any, "silent for the trace's timeout")
	require.EqualValues(t, 1, h.Stats().Releases[rows.ReleaseTimeout])
	for _, table := range []rows.Table{rows.TableRequests, rows.TableOperations} {
		require.Zero(t, h.store.count(table), table)
	}
	sent := len(h.open)
	h.until(30 * time.Minute)
	require.Len(t, h.open, sent)
	require.Zero(t, h.Stats().Traces)
	require.Zero(t, h.Stats().Bytes)
}

// A span that comes ends its heartbeats: its request is judged by its spans.
func TestHeartbeatsEndWithTheirSpan(t *testing.T) {
	h := newHeart(realSettings())
	root := call(1, 0, "invoke_agent", 0, 35*time.Second, false)
	for d := time.Duration(0); d <= 30*time.Second; d += 10 * time.Second {
		h.until(d)
		require.True(t, h.beat(root, false))
	}
	h.until(35 * time.Second)
	h.take(h.Add(root, 0, 100, h.now))
	require.False(t, h.beat(root, true), "it is over")
	h.until(38 * time.Second)
	require.Equal(t, 1, h.store.count(rows.TableRequests))
	require.False(t, h.beat(root, false), "an old one says nothing of a request that was released")
	before := len(h.open)
	h.until(2 * time.Minute)
	require.Len(t, h.open, before)
	require.EqualValues(t, 2, h.Stats().IgnoredHeartbeats)
	h.until(10 * time.Minute)
	require.Zero(t, h.Stats().Traces)
	require.Zero(t, h.Stats().Bytes)
	require.False(t, h.beat(root, false), "nor of one that was forgotten")
}

// A stop without a span says that the span was not sampled, or is on its way.
func TestHeartbeatsThatStopProperly(t *testing.T) {
	h := newHeart(realSettings())
	running := call(2, 1, "chat", 0, 0, false)
	require.True(t, h.beat(running, false))
	h.until(20 * time.Second)
	require.True(t, h.beat(running, true))
	require.False(t, h.Open().Any)
	sent := len(h.open)
	require.NotZero(t, sent)
	h.until(60 * time.Second)
	require.Len(t, h.open, sent, "nothing is open that is known of")

	h.take(h.Add(call(2, 1, "chat", 0, 20*time.Second, false), 0, 100, h.now))
	h.until(75 * time.Second)
	require.Equal(t, 1, models(h.store))
	require.Greater(t, len(h.open), sent, "its request is still open")
	require.Zero(t, h.Stats().LateFragments)
}

// What is kept of heartbeats is the span that began first, and its size is counted; what
// cannot be told from other work is not followed.
func TestHeartbeatsOfSeveralSpans(t *testing.T) {
	h := newHeart(realSettings())
	plain := span(7, 9, "plain", 0, 0)
	require.False(t, h.beat(plain, false))
	require.Zero(t, h.Stats().Traces)

	inner, outer := call(3, 2, "chat", 5*time.Second, 0, false), call(2, 1, "invoke_agent", time.Second, 0, false)
	require.True(t, h.beat(inner, false))
	one := h.Stats().Bytes
	require.True(t, h.beat(inner, false))
	require.Equal(t, one, h.Stats().Bytes)
	require.True(t, h.beat(outer, false))
	require.True(t, h.beat(plain, false), "its trace is known by now, and it began first")
	require.True(t, h.beat(inner, true), "not the one that is kept")
	h.until(10 * time.Second)
	require.Equal(t, start.UnixNano(), h.open[0].StartedAt)
	require.EqualValues(t, 5, h.open[0].Spans)

	// The bound on traces holds for these too.
	set := realSettings()
	set.MaxTraces = 10
	h = newHeart(set)
	for i := range 100 {
		s := outer
		s.TraceID = span(i+1, 1, "", 0, 0).TraceID
		h.beat(s, false)
	}
	require.EqualValues(t, 10, h.Stats().Open)
	require.EqualValues(t, 90, h.Stats().EvictedOpen[BoundTraces])
	h.until(20 * time.Minute)
	require.Zero(t, h.Stats().Bytes)
}
