package genaisegment

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/recorded"
	"driftline/internal/rows"
)

var update = flag.Bool("update", false, "rewrite the golden files from what the processor does now")

// The contract from spans to annotated spans, as files that readers can look at and
// the exporter's tests can start from.
func TestGolden(t *testing.T) {
	for name, run := range map[string]func(*testing.T, *rig){
		"retried_request": func(t *testing.T, r *rig) {
			r.consume(t, retried(1))
			r.clock.Advance(2 * time.Second)
		},
		"open_then_late": func(t *testing.T, r *rig) {
			b := newBuilder(1)
			b.chat(2, 1, time.Second, 3*time.Second)
			r.consume(t, b.td)
			r.clock.Advance(20 * time.Second) // a checkpoint and a snapshot
			b = newBuilder(1)
			b.agent(1, 22*time.Second)
			r.consume(t, b.td)
			r.clock.Advance(2 * time.Second) // the request
			b = newBuilder(1)
			b.chat(6, 1, 4*time.Second, 21*time.Second)
			r.consume(t, b.td)
			r.clock.Advance(2 * time.Second) // its late revision
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			run(t, r)
			whole := ptrace.NewTraces()
			for _, td := range r.sink.AllTraces() {
				td.ResourceSpans().MoveAndAppendTo(whole.ResourceSpans())
			}
			raw, err := (&ptrace.JSONMarshaler{}).MarshalTraces(whole)
			require.NoError(t, err)
			var got bytes.Buffer
			require.NoError(t, json.Indent(&got, raw, "", " "))
			got.WriteByte('\n')
			path := filepath.Join("testdata", name+".golden.json")
			if *update {
				require.NoError(t, os.WriteFile(path, got.Bytes(), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err, "make it with -update")
			require.Equal(t, string(want), got.String())
		})
	}
}

func jsonOf(t *testing.T, span ptrace.Span) string {
	t.Helper()
	td := ptrace.NewTraces()
	span.CopyTo(td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty())
	raw, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	require.NoError(t, err)
	return string(raw)
}

// Spans that real SDKs wrote: each comes out once, unchanged but for driftline's own
// marks and events, with rows that decode.
func TestRecordedSpans(t *testing.T) {
	for _, name := range recorded.Names(t) {
		t.Run(name, func(t *testing.T) {
			td, _ := recorded.Load(t, name)
			before, _ := recorded.Load(t, name)
			want := map[string]ptrace.Span{}
			for _, span := range spansIn(before) {
				want[span.SpanID().String()] = span
			}
			r := newRig(t, nil)
			r.consume(t, td)
			r.clock.Advance(30 * time.Minute)
			got := r.spans()
			all := rowsOf(t, got)
			require.Equal(t, len(pick[*rows.Operation](all)) == 0, len(pick[*rows.Request](all)) == 0)
			if !recorded.Lost(name) {
				require.NotEmpty(t, pick[*rows.Operation](all))
			}
			for _, q := range pick[*rows.Request](all) {
				require.Equal(t, q.EndedAt-q.StartedAt, q.Sum(), "segments partition the request")
			}
			for _, span := range got {
				if original, mine := want[span.SpanID().String()]; mine {
					strip(span)
					require.Equal(t, jsonOf(t, original), jsonOf(t, span))
					delete(want, span.SpanID().String())
				}
			}
			require.Empty(t, want, "every span came out")
			require.Zero(t, r.ledger(t).held)
		})
	}
}
