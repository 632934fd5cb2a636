package golden

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"driftline/internal/rows"
)

// call is what must be known of a model call, worked out by hand from the scenario's
// spans. Times are in seconds; -1 is unknown.
type call struct {
	attempts                          int // -1 unknown
	source                            string
	failed, backoff, hidden           float64
	inference, ttftPart, generation   float64 // how the last attempt divides
	ttft, firstChunk                  float64
	ttftState                         string
	bounds                            [][2]float64 // of each attempt
	classes                           []string     // of each attempt
	deleted                           []string     // ids of operations that got a tombstone
	user, requestHidden, requestDrift float64
}

var byHand = map[string]call{
	// C1: 0→8 and 8.6→16 failed, 0.6 and 1.2 waited, 17.2→21 answered.
	"retries_below_a_call": {attempts: 3, source: "http_child", failed: 15.4, backoff: 1.8, hidden: 17.2, inference: 3.8, ttft: -1, firstChunk: -1, ttftState: "missing",
		bounds: [][2]float64{{0, 8}, {8.6, 16}, {17.2, 21}}, classes: []string{"overload", "timeout", ""}, user: 22, requestHidden: 17.2, requestDrift: -1},
	// S9: 18.4 after the call began is 1.2 after its last attempt began, whichever was told.
	"stated_ttft_from_first_attempt": {attempts: 3, source: "http_child", failed: 15.4, backoff: 1.8, hidden: 17.2, ttftPart: 1.2, generation: 2.6, ttft: 1.2, firstChunk: 18.4, ttftState: "known",
		bounds: [][2]float64{{0, 8}, {8.6, 16}, {17.2, 21}}, classes: []string{"overload", "timeout", ""}, user: 21, requestHidden: 17.2, requestDrift: -1},
	"stated_ttft_from_last_attempt": {attempts: 3, source: "http_child", failed: 15.4, backoff: 1.8, hidden: 17.2, ttftPart: 1.2, generation: 2.6, ttft: 1.2, firstChunk: 18.4, ttftState: "known",
		bounds: [][2]float64{{0, 8}, {8.6, 16}, {17.2, 21}}, classes: []string{"overload", "timeout", ""}, user: 21, requestHidden: 17.2, requestDrift: -1},
	// C2: what came before the last attempt is 3.1 s, of which 1.1 s failed.
	"siblings_with_total": {attempts: 3, source: "attribute", failed: 1.1, backoff: 2, hidden: 3.1, inference: 2.9, ttft: -1, firstChunk: -1, ttftState: "missing",
		bounds: [][2]float64{{0, 1}, {1.5, 1.6}, {3.1, 6}}, classes: []string{"server", "overload", ""}, user: 6, requestHidden: 3.1, requestDrift: -1},
	// C3: 2 + 1.6 failed, 0.4 + 0.9 waited.
	"siblings_unmarked": {attempts: 3, source: "sibling", failed: 3.6, backoff: 1.3, hidden: 4.9, inference: 4.1, ttft: -1, firstChunk: -1, ttftState: "missing",
		bounds: [][2]float64{{0, 2}, {2.4, 4}, {4.9, 9}}, classes: []string{"other", "other", ""}, user: 9, requestHidden: 4.9, requestDrift: -1},
	// C5: 0→3, wait 0.5, 3.5→6.5, wait 1, 7.5→9.
	"retry_events": {attempts: 3, source: "event", failed: 6, backoff: 1.5, hidden: 7.5, inference: 1.5, ttft: -1, firstChunk: -1, ttftState: "missing",
		bounds: [][2]float64{{0, 3}, {3.5, 6.5}, {7.5, 9}}, classes: []string{"other", "other", ""}, user: 9, requestHidden: 7.5, requestDrift: -1},
	// C25: the first token cannot have come with the last of 300.
	"suspect_ttft": {attempts: -1, source: "unknown", hidden: -1, inference: 6, ttft: -1, firstChunk: -1, ttftState: "suspect", user: 6, requestHidden: -1, requestDrift: -1},
	// C36: the event says 1.1.
	"openinference": {attempts: -1, source: "unknown", hidden: -1, ttftPart: 1.1, generation: 4.9, ttft: 1.1, firstChunk: 1.1, ttftState: "known", user: 6.4, requestHidden: -1, requestDrift: -1},
	// The first chunk came 1 s into a call of 4 s.
	"openllmetry": {attempts: -1, source: "unknown", hidden: -1, ttftPart: 1, generation: 3, ttft: 1, firstChunk: 1, ttftState: "known", user: 5, requestHidden: -1, requestDrift: -1},
	// S2: at 15 the planner was told 30 of the 15 that were left.
	"missed_deadline": {attempts: 2, source: "http_child", failed: 2, backoff: 1, hidden: 3, inference: 11, ttft: -1, firstChunk: -1, ttftState: "missing",
		bounds: [][2]float64{{0.5, 2.5}, {3.5, 14.5}}, classes: []string{"overload", ""}, user: 36, requestHidden: 3, requestDrift: 15},
	// C39: the other host's clock divides nothing.
	"skewed_clock": {attempts: -1, source: "unknown", hidden: -1, inference: 5, ttft: -1, firstChunk: -1, ttftState: "missing", user: 5, requestHidden: -1, requestDrift: -1},
	// C47: the same spans again change nothing.
	"duplicates": {attempts: 3, source: "http_child", failed: 15.4, backoff: 1.8, hidden: 17.2, inference: 3.8, ttft: -1, firstChunk: -1, ttftState: "missing",
		bounds: [][2]float64{{0, 8}, {8.6, 16}, {17.2, 21}}, classes: []string{"overload", "timeout", ""}, user: 22, requestHidden: 17.2, requestDrift: -1},
	// C40: 5 + 30 failed, 10 + 30 waited, 75→110 answered; the first two were a call of
	// their own minute before.
	"late_attempt": {attempts: 3, source: "sibling", failed: 35, backoff: 40, hidden: 75, inference: 35, ttft: -1, firstChunk: -1, ttftState: "missing",
		bounds: [][2]float64{{0, 5}, {15, 45}, {75, 110}}, classes: []string{"timeout", "timeout", ""}, deleted: []string{"0000000000000002"}, user: 110, requestHidden: 75, requestDrift: -1},
	"late_span_moves_slice": {attempts: 3, source: "http_child", failed: 4, backoff: 2, hidden: 6, inference: 3, ttft: -1, firstChunk: -1, ttftState: "missing",
		bounds: [][2]float64{{0, 2}, {3, 5}, {6, 9}}, classes: []string{"overload", "overload", ""}, user: 9, requestHidden: 6, requestDrift: -1},
	// The first call moves from minute 0 to minute 1, the second is no call any more.
	"folded_by_late_span": {attempts: 2, source: "sibling", failed: 5, backoff: 6, hidden: 11, inference: 14, ttft: -1, firstChunk: -1, ttftState: "missing",
		bounds: [][2]float64{{50, 55}, {61, 75}}, classes: []string{"timeout", ""}, deleted: []string{"0000000000000002", "0000000000000004"}, user: 25, requestHidden: 11, requestDrift: -1},
	"no_root": {attempts: 2, source: "http_child", failed: 1, backoff: 0.5, hidden: 1.5, inference: 2.5, ttft: -1, firstChunk: -1, ttftState: "missing",
		bounds: [][2]float64{{0, 1}, {1.5, 4}}, classes: []string{"overload", ""}, user: 4, requestHidden: 1.5, requestDrift: -1},
}

// found is a run's rows as read through the views.
type found struct {
	requests   []*rows.Request
	operations []*rows.Operation
	attempts   []*rows.Attempt
	segments   []*rows.Segment
}

// rowsByRun reads the views' rows and sorts them by run.
func (s *storage) rowsByRun(t *testing.T) map[int]*found {
	t.Helper()
	out := map[int]*found{}
	for _, table := range rows.Tables {
		for _, row := range s.view(t, table) {
			run := runOf(t, row.Head().TraceID)
			if out[run] == nil {
				out[run] = &found{}
			}
			out[run].add(row)
		}
	}
	return out
}

func (f *found) add(row rows.Row) {
	switch row := row.(type) {
	case *rows.Request:
		f.requests = append(f.requests, row)
	case *rows.Operation:
		f.operations = append(f.operations, row)
	case *rows.Attempt:
		f.attempts = append(f.attempts, row)
	case *rows.Segment:
		f.segments = append(f.segments, row)
	}
}

// requireLaws checks what holds of every finished trace.
func (f *found) requireLaws(t *testing.T) {
	t.Helper()
	for _, q := range f.requests {
		require.Equal(t, q.EndedAt-q.StartedAt, q.Sum(), "segments partition the request")
		require.Equal(t, q.UserTimeNS, q.Sum())
		at, n := q.StartedAt, 0
		for _, s := range f.segments {
			if s.RequestID != q.RequestID {
				continue
			}
			require.Equal(t, at, s.StartedAt, "segment %d follows the one before", s.SegmentIndex)
			require.Positive(t, s.DurationNS)
			at, n = at+s.DurationNS, n+1
		}
		require.Equal(t, q.EndedAt, at)
		require.Positive(t, n)
	}
	for _, o := range f.operations {
		require.Equal(t, o.EndedAt-o.StartedAt, o.Sum(), "segments partition the operation")
		require.Contains(t, []string{rows.StreamYes, rows.StreamNo, rows.StreamUnknown}, o.Stream)
		require.GreaterOrEqual(t, o.UserTimeNS, int64(0))
	}
	for _, a := range f.attempts {
		require.GreaterOrEqual(t, a.DurationNS, int64(0))
		require.NotEqual(t, a.Outcome == rows.OutcomeError, a.ErrorClass == "")
	}
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

func maybe(ns *int64) float64 {
	if ns == nil {
		return -1
	}
	return seconds(*ns)
}

func requireByHand(t *testing.T, r *rig, f *found, want call) {
	t.Helper()
	f.requireLaws(t)
	require.Len(t, f.requests, 1)
	var model []*rows.Operation
	for _, o := range f.operations {
		if rows.IsModelKind(o.Kind) {
			model = append(model, o)
		}
	}
	require.Len(t, model, 1, "one model call")
	o, q := model[0], f.requests[0]
	attempts := -1
	if o.Attempts != nil {
		attempts = int(*o.Attempts)
	}
	near := func(want, got float64, what string) {
		t.Helper()
		require.LessOrEqual(t, math.Abs(want-got), 1e-9, "%s: want %v, got %v", what, want, got)
	}
	require.Equal(t, want.attempts, attempts)
	require.Equal(t, want.source, o.AttemptSource)
	near(want.failed, seconds(o.FailedAttemptNS), "failed")
	near(want.backoff, seconds(o.BackoffNS), "backoff")
	near(want.hidden, maybe(o.HiddenTotalNS), "hidden")
	near(want.inference, seconds(o.InferenceSegmentNS), "inference")
	near(want.ttftPart, seconds(o.TTFTSegmentNS), "ttft segment")
	near(want.generation, seconds(o.GenerationNS), "generation")
	near(want.ttft, maybe(o.TTFTNS), "ttft")
	near(want.firstChunk, maybe(o.FirstChunkNS), "first chunk")
	require.Equal(t, want.ttftState, o.TTFTState)
	near(want.user, seconds(q.UserTimeNS), "user time")
	near(want.requestHidden, maybe(q.HiddenPathNS), "hidden time of the request")
	near(want.requestDrift, maybe(q.DriftNS), "drift")

	require.Len(t, f.attempts, len(want.bounds))
	for i, a := range f.attempts {
		near(want.bounds[i][0], seconds(a.StartedAt-r.base.UnixNano()), "start of attempt")
		near(want.bounds[i][1], seconds(a.EndedAt-r.base.UnixNano()), "end of attempt")
		require.Equal(t, want.classes[i], a.ErrorClass)
		require.Equal(t, uint32(i+1), a.Ordinal)
	}
	require.Equal(t, want.deleted, tombstones(t, r), "operations that went")
}
