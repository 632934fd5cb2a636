package assemble

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"driftline/internal/genai"
)

func drawTrace(t *rapid.T, trace int) []genai.Span {
	names := []string{"chat", "tool", "search", "plain"}
	spans := make([]genai.Span, 0, 12)
	for id := range rapid.IntRange(1, 10).Draw(t, "spans") {
		from := time.Duration(rapid.IntRange(0, 150).Draw(t, "from")) * time.Second
		spans = append(spans, span(trace, id+2, rapid.SampledFrom(names).Draw(t, "name"), from, from+time.Duration(rapid.IntRange(0, 90).Draw(t, "long"))*time.Second))
	}
	if rapid.Bool().Draw(t, "has root") {
		spans = append(spans, span(trace, 1, "root", 0, 4*time.Minute))
	}
	return spans
}

// Order does not matter: any order, batching and duplication of a trace's spans
// within the remembered time ends in the same rows.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var spans []genai.Span
		for trace := range rapid.IntRange(1, 3).Draw(t, "traces") {
			spans = append(spans, drawTrace(t, trace+1)...)
		}
		// Traces time out again and again while they arrive, and are never forgotten.
		set := testSettings()
		set.TraceTimeout, set.Remember = time.Minute, 2*time.Hour
		want := deliver(newToy(set), spans, func(int) time.Duration { return 0 })

		order := append([]genai.Span(nil), spans...)
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(spans)-1), 0, 5).Draw(t, "copies") {
			order = append(order, spans[i])
		}
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "shuffle"))).Shuffle(len(order), func(i, j int) {
			order[i], order[j] = order[j], order[i]
		})
		got := deliver(newToy(set), order, func(int) time.Duration {
			return time.Duration(rapid.IntRange(0, 40).Draw(t, "pause")) * time.Second
		})
		require.Equal(t, want, got)
	})
}

func deliver(b toy, spans []genai.Span, pause func(int) time.Duration) any {
	store := table{}
	now := start
	for i, s := range spans {
		until := now.Add(pause(i))
		for now.Before(until) {
			now = now.Add(time.Second)
			store.take(b.Tick(now))
		}
		store.take(b.Add(s, i, 100, now))
	}
	for range 120 {
		now = now.Add(time.Second)
		store.take(b.Tick(now))
	}
	return store.final()
}

// The ledger closes and every bound holds after every step, whatever the limits.
func TestLedgerAndBoundsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := testSettings()
		set.MaxTraces = rapid.IntRange(1, 5).Draw(t, "max traces")
		set.MaxRemembered = rapid.IntRange(1, 5).Draw(t, "max remembered")
		set.MaxSpans = rapid.IntRange(1, 20).Draw(t, "max spans")
		set.MaxBytes = int64(rapid.IntRange(1000, 30_000).Draw(t, "max bytes"))
		set.MaxSpansPerTrace = rapid.IntRange(1, 8).Draw(t, "max spans per trace")
		set.MaxForgotten = rapid.IntRange(1, 4).Draw(t, "max forgotten")
		set.CheckpointSpans = rapid.Bool().Draw(t, "checkpoint spans")
		b := newToy(set)
		now := start
		received := 0
		sent := map[int]int{}
		take := func(releases []Release[load]) {
			for i := range releases {
				require.Contains(t, Reasons, releases[i].Reason)
				for _, s := range releases[i].Spans {
					sent[s.Payload.n]++
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "tick") {
				now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second)
				take(b.Tick(now))
			} else {
				s := span(rapid.IntRange(1, 8).Draw(t, "trace"), rapid.IntRange(1, 12).Draw(t, "span"),
					rapid.SampledFrom([]string{"root", "chat", "plain", "plain POST", "tool"}).Draw(t, "name"), 0, time.Second)
				take(b.Add(s, received, rapid.IntRange(0, 2000).Draw(t, "size"), now))
				received++
			}
			verify(t, b)
		}
		for r := range b.Drain(now) {
			take([]Release[load]{r})
		}
		verify(t, b)
		require.Len(t, sent, received, "every span was sent")
		for payload, times := range sent {
			require.Equal(t, 1, times, "span %d was sent %d times", payload, times)
		}
		require.Zero(t, b.Stats().Bytes)
	})
}

func verify(t *rapid.T, b toy) {
	s := b.Stats()
	require.Equal(t, s.Received, s.Sent+s.Held)
	var open, spans, bytes, held int64
	for _, e := range b.traces {
		spans += int64(e.load())
		bytes += e.bytes
		held += int64(len(e.held))
		if !e.released {
			open++
		}
		want := bytesPerTrace + int64(len(e.held))*bytesPerHeld + sizeClass(len(e.packed)) + sizeClass(cap(e.sent))
		for i := range e.held {
			want += e.held[i].size
		}
		require.Equal(t, want, e.bytes)
		require.Len(t, b.unpack(nil, e.packed, ""), e.kept)
	}
	require.Equal(t, [5]int64{open, spans, bytes, held, int64(len(b.traces))},
		[5]int64{s.Open, s.Spans, s.Bytes, s.Held, s.Traces}, fmt.Sprintf("%+v", s))
	require.Equal(t, s.Traces, s.Open+s.Remembered)
	require.LessOrEqual(t, int(s.Open), b.set.MaxTraces)
	require.LessOrEqual(t, int(s.Remembered), b.set.MaxRemembered)
	require.LessOrEqual(t, int(s.Spans), b.set.MaxSpans)
	require.LessOrEqual(t, s.Bytes, b.set.MaxBytes)
	require.LessOrEqual(t, len(b.forgotten.ids), b.set.MaxForgotten)
	require.Equal(t, len(b.traces), len(b.queue))
}
