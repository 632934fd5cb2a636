package genaiclickhouse

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/annotate"
	"driftline/internal/rows"
)

// randomTraces spreads spans with events over resources and scopes, some of them empty.
func randomTraces(rng *rand.Rand) ptrace.Traces {
	td := ptrace.NewTraces()
	id := 0
	for r := range rng.IntN(4) {
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutInt("resource", int64(r))
		for s := range rng.IntN(3) {
			ss := rs.ScopeSpans().AppendEmpty()
			ss.Scope().SetName(fmt.Sprint("scope ", r, s))
			for range rng.IntN(8) {
				id++
				span := ss.Spans().AppendEmpty()
				span.SetName(fmt.Sprint("span ", id))
				for e := range rng.IntN(4) {
					annotate.Encode(&rows.Attempt{AttemptID: fmt.Sprint(id, "-", e)}, span.Events().AppendEmpty())
				}
			}
		}
	}
	return td
}

// contents lists every span and every event with where it lies.
func contents(list ...ptrace.Traces) (spans, events []string) {
	for _, td := range list {
		eachSpan(td, func(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans, span ptrace.Span) {
			where := fmt.Sprint(rs.Resource().Attributes().AsRaw(), ss.Scope().Name(), span.Name())
			if !annotate.IsSynthetic(span) {
				spans = append(spans, where)
			}
			for _, event := range span.Events().All() {
				events = append(events, fmt.Sprint(where, event.Name(), event.Attributes().AsRaw()))
			}
		})
	}
	return spans, events
}

func TestCutsLoseAndDoubleNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		td := randomTraces(rng)
		spans, events := contents(td)
		most := 3 + rng.IntN(20)
		pieces := cutRows(td, most)
		for _, piece := range pieces {
			s, e := rowsOf(piece)
			require.LessOrEqual(t, max(s, e), most)
		}
		gotSpans, gotEvents := contents(pieces...)
		require.Equal(t, spans, gotSpans)
		require.Equal(t, events, gotEvents)
		again, _ := contents(cutRows(td, most)...)
		require.Equal(t, gotSpans, again)

		// Halved to the end, each piece is one span's row or one event's.
		if td.SpanCount() == 0 {
			continue
		}
		todo, single := []ptrace.Traces{td}, []ptrace.Traces(nil)
		for len(todo) > 0 {
			piece := todo[0]
			todo = todo[1:]
			if isAlone(piece) {
				single = append(single, piece)
				continue
			}
			a, b := halve(piece)
			todo = append(todo, a, b)
		}
		require.Len(t, single, len(spans)+len(events))
		gotSpans, gotEvents = contents(single...)
		require.ElementsMatch(t, spans, gotSpans)
		require.ElementsMatch(t, events, gotEvents)
		after, _ := contents(td)
		require.Equal(t, spans, after, "the batch itself is not touched")
	}
}
