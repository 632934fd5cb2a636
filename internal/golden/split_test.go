package golden

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/rows"
)

// A scale event sends some spans of a trace to one collector and the rest to another,
// which know nothing of each other. Whatever the split: each operation is in the store
// once, no attempt is there twice, none is made up, and the request's row is that of the
// part with its root; what else stands alone says that it is incomplete.
func TestSplitTraceEndsRightInTheStore(t *testing.T) {
	whole := retriedCall().td
	n := whole.SpanCount()
	begin := t0.Add(48 * time.Hour)
	s := newStorage(t, begin.Add(200*time.Hour))
	splits := map[int]int{}                    // by run
	for split := 0; split < 1<<n; split += 2 { // the root goes to the first one: they are alike
		s.runs++
		splits[s.runs] = split
		base := begin.Add(time.Duration(s.runs) * time.Hour)
		first, second := newRigAt(t, s, base), newRigAt(t, s, base)
		for _, r := range []*rig{first, second} {
			r.clock.Advance(22 * time.Second)
		}
		first.consume(part(whole, func(i int) bool { return split>>i&1 == 0 }))
		second.consume(part(whole, func(i int) bool { return split>>i&1 == 1 }))
		for _, r := range []*rig{first, second} {
			// What has no root waits for it until it times out.
			r.clock.Advance(12 * time.Minute)
			require.NoError(t, r.proc.Shutdown(t.Context()))
		}
	}
	s.store(t, begin.Add(200*time.Hour))
	byRun := s.rowsByRun(t)
	require.Len(t, byRun, len(splits))
	for run, f := range byRun {
		split := splits[run]
		whole := 0
		for _, q := range f.requests {
			if q.RequestID == "0000000000000001" {
				require.Equal(t, rows.ReleaseRoot, q.ReleaseReason, "split %06b: the part with the root has the word", split)
				whole++
				continue
			}
			require.True(t, q.Incomplete, "split %06b", split)
		}
		require.Equal(t, 1, whole, "split %06b", split)
		require.LessOrEqual(t, len(f.requests), 3, "split %06b: the call and the tool, at most, stand alone", split)
		kinds := map[string]int{}
		for _, o := range f.operations {
			kinds[o.Kind]++
			if o.Kind == rows.KindChat && o.Attempts != nil {
				require.LessOrEqual(t, *o.Attempts, uint32(3), "split %06b", split)
			}
		}
		require.Equal(t, [2]int{1, 1}, [2]int{kinds[rows.KindChat], kinds[rows.KindTool]}, "split %06b", split)
		require.LessOrEqual(t, kinds[rows.KindAgent], 1, "split %06b", split)
		ids := map[string]bool{}
		for _, a := range f.attempts {
			require.False(t, ids[a.AttemptID], "split %06b: attempt %s twice", split, a.AttemptID)
			ids[a.AttemptID] = true
		}
	}
}

// part is the spans of td, each in a resource of its own, whose index is taken.
func part(td ptrace.Traces, take func(int) bool) ptrace.Traces {
	out := ptrace.NewTraces()
	for i := range td.ResourceSpans().Len() {
		if take(i) {
			td.ResourceSpans().At(i).CopyTo(out.ResourceSpans().AppendEmpty())
		}
	}
	return out
}
