package genaisegment

import (
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/rows"
)

// Two collectors behind a balancer by trace id, which contrib's loadbalancing exporter is:
// it takes the CRC-32 of the trace id to a place on a ring. They find together what one
// alone would find, wherever the traces go.
func TestTwoCollectorsBehindABalancer(t *testing.T) {
	alone := newRig(t, nil)
	both := [2]*rig{newRig(t, nil), newRig(t, nil)}
	route := func(span ptrace.Span) *rig {
		id := span.TraceID()
		return both[crc32.ChecksumIEEE(id[:])%2]
	}
	for n := range byte(40) {
		// Spans of a trace come one by one, in batches of their own.
		for _, half := range []func(ptrace.Span) bool{
			func(s ptrace.Span) bool { return !s.ParentSpanID().IsEmpty() },
			func(s ptrace.Span) bool { return s.ParentSpanID().IsEmpty() },
		} {
			td := retried(n + 1)
			for _, ss := range td.ResourceSpans().At(0).ScopeSpans().All() {
				ss.Spans().RemoveIf(func(s ptrace.Span) bool { return !half(s) })
			}
			other := ptrace.NewTraces()
			td.CopyTo(other)
			alone.consume(t, td)
			route(spansIn(other)[0]).consume(t, other)
			for _, r := range []*rig{alone, both[0], both[1]} {
				r.clock.Advance(500 * time.Millisecond)
			}
		}
	}
	want := map[rows.Key]rows.Row{}
	got := map[rows.Key]rows.Row{}
	for _, r := range []*rig{alone, both[0], both[1]} {
		require.NoError(t, r.Shutdown(t.Context()))
		into := got
		if r == alone {
			into = want
		}
		for key, row := range rowsOf(t, r.spans()) {
			require.NotContains(t, into, key)
			into[key] = row
		}
		r.ledger(t)
	}
	require.Equal(t, want, got)
	for _, r := range both {
		require.NotEmpty(t, r.spans(), "both took part")
	}
}
