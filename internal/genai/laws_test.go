package genai

import (
	"reflect"

	"driftline/internal/rows"
)

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkLaws checks what must hold for the rows of any trace.
func checkLaws(t failer, res Result) {
	t.Helper()
	keys := map[rows.Key]bool{}
	once := func(r rows.Row) {
		if keys[r.Key()] {
			t.Fatalf("two rows with key %+v", r.Key())
		}
		keys[r.Key()] = true
		notNegative(t, r)
	}
	byRequest := map[string]int64{}
	ends := map[string]int64{}
	starts := map[string]int64{}
	for _, r := range res.Requests {
		once(r)
		if got := r.Segments.Sum(); got != r.UserTimeNS || got != r.EndedAt-r.StartedAt {
			t.Fatalf("request %s: segments sum to %d, wall clock is %d, user time %d", r.RequestID, got, r.EndedAt-r.StartedAt, r.UserTimeNS)
		}
		starts[r.RequestID], ends[r.RequestID] = r.StartedAt, r.StartedAt
		if r.HiddenPathNS != nil && *r.HiddenPathNS > r.UserTimeNS {
			t.Fatalf("request %s: hidden on the path %d exceeds user time %d", r.RequestID, *r.HiddenPathNS, r.UserTimeNS)
		}
		if r.AgentTimeSource == rows.AgentTimeDerived && *r.AgentTimeNS+*r.HiddenPathNS != r.UserTimeNS {
			t.Fatalf("request %s: derived agent time is not user time minus hidden time", r.RequestID)
		}
		checkFacts(t, r.Facts)
	}
	for _, s := range res.Segments {
		once(s)
		if s.DurationNS <= 0 {
			t.Fatalf("segment %d of %s lasts %d", s.SegmentIndex, s.RequestID, s.DurationNS)
		}
		if s.StartedAt != ends[s.RequestID] {
			t.Fatalf("segment %d of %s starts at %d, the one before ended at %d", s.SegmentIndex, s.RequestID, s.StartedAt, ends[s.RequestID])
		}
		ends[s.RequestID] = s.StartedAt + s.DurationNS
		byRequest[s.RequestID] += s.DurationNS
	}
	for _, r := range res.Requests {
		if byRequest[r.RequestID] != r.UserTimeNS {
			t.Fatalf("request %s: segment rows sum to %d, user time is %d", r.RequestID, byRequest[r.RequestID], r.UserTimeNS)
		}
	}
	tries := map[string]uint32{}
	leaves := map[string]uint32{}
	for _, at := range res.Attempts {
		once(at)
		checkFacts(t, at.Facts)
		if at.ParentAttemptID == "" {
			tries[at.OperationID]++
		}
		if at.Leaf {
			leaves[at.OperationID]++
		}
	}
	for _, o := range res.Operations {
		once(o)
		checkFacts(t, o.Facts)
		if got := o.Segments.Sum(); got != o.EndedAt-o.StartedAt || got != o.UserTimeNS {
			t.Fatalf("operation %s: segments sum to %d, wall clock is %d", o.OperationID, got, o.EndedAt-o.StartedAt)
		}
		if o.PathNS > o.UserTimeNS {
			t.Fatalf("operation %s: path %d exceeds wall clock %d", o.OperationID, o.PathNS, o.UserTimeNS)
		}
		if (o.Attempts == nil) != (o.AttemptSource == rows.SourceUnknown) {
			t.Fatalf("operation %s: attempts %v, source %q", o.OperationID, o.Attempts, o.AttemptSource)
		}
		if o.Attempts == nil {
			if o.HiddenTotalNS != nil || o.HiddenPathNS != nil || o.LeafAttempts != nil || tries[o.OperationID] > 0 {
				t.Fatalf("operation %s: attempts are unknown, but something about them is not", o.OperationID)
			}
			continue
		}
		if *o.Attempts < tries[o.OperationID] || *o.LeafAttempts < leaves[o.OperationID] || *o.LeafAttempts < *o.Attempts {
			t.Fatalf("operation %s: attempts %d, leaves %d, rows %d", o.OperationID, *o.Attempts, *o.LeafAttempts, tries[o.OperationID])
		}
		if (o.TTFTNS != nil) != (o.TTFTState == rows.TTFTKnown) {
			t.Fatalf("operation %s: TTFT %v in state %s", o.OperationID, o.TTFTNS, o.TTFTState)
		}
	}
	for _, o := range res.Open {
		once(o)
	}
	checkPath(t, res)
	checkTries(t, res)
	checkUnknown(t, res)
}

// checkPath holds the rows of one critical path to each other: an operation's time on
// the path is what its request's segments charge to it, and hidden time on the path is
// part of all hidden time.
func checkPath(t failer, res Result) {
	t.Helper()
	charged, kinds := map[string]int64{}, map[string]map[string]int64{}
	for _, s := range res.Segments {
		charged[s.OperationID] += s.DurationNS
		if kinds[s.RequestID] == nil {
			kinds[s.RequestID] = map[string]int64{}
		}
		kinds[s.RequestID][s.Kind] += s.DurationNS
	}
	for _, o := range res.Operations {
		if o.PathNS != charged[o.OperationID] {
			t.Fatalf("operation %s: %d on the path, its segments sum to %d", o.OperationID, o.PathNS, charged[o.OperationID])
		}
		if o.PathNS > 0 && !o.OnPath {
			t.Fatalf("operation %s has time on the path and is not on it", o.OperationID)
		}
		if o.HiddenPathNS != nil && *o.HiddenPathNS > min(*o.HiddenTotalNS, o.PathNS) {
			t.Fatalf("operation %s: hidden %d on the path, %d in total, %d on the path altogether", o.OperationID, *o.HiddenPathNS, *o.HiddenTotalNS, o.PathNS)
		}
	}
	for _, r := range res.Requests {
		for k, want := range map[string]int64{
			rows.SegmentFailedAttempt: r.FailedAttemptNS, rows.SegmentBackoff: r.BackoffNS, rows.SegmentQueue: r.QueueNS,
			rows.SegmentConnect: r.ConnectNS, rows.SegmentTTFT: r.TTFTSegmentNS, rows.SegmentGeneration: r.GenerationNS,
			rows.SegmentInference: r.InferenceSegmentNS, rows.SegmentTool: r.ToolNS, rows.SegmentAgent: r.AgentNS, rows.SegmentUnattributed: r.UnattributedNS,
		} {
			if got := kinds[r.RequestID][k]; got != want {
				t.Fatalf("request %s: %s segments sum to %d, its column says %d", r.RequestID, k, got, want)
			}
		}
		if r.HiddenPathNS != nil && *r.HiddenPathNS > *r.HiddenTotalNS {
			t.Fatalf("request %s: hidden %d on the path, %d in total", r.RequestID, *r.HiddenPathNS, *r.HiddenTotalNS)
		}
	}
}

// checkTries holds attempts to their operation: within it, numbered upwards from 1, one
// of each level last, and a wait before each but the first.
func checkTries(t failer, res Result) {
	t.Helper()
	ops := map[string]*rows.Operation{}
	for _, o := range res.Operations {
		ops[o.OperationID] = o
	}
	type level struct{ operation, parent string }
	before := map[level]*rows.Attempt{}
	for _, a := range res.Attempts {
		o := ops[a.OperationID]
		if o == nil {
			t.Fatalf("attempt %s belongs to %s, which has no row", a.AttemptID, a.OperationID)
		}
		if a.StartedAt < o.StartedAt || a.EndedAt > o.EndedAt || a.DurationNS != a.EndedAt-a.StartedAt {
			t.Fatalf("attempt %s is %d to %d, its operation %d to %d", a.AttemptID, a.StartedAt, a.EndedAt, o.StartedAt, o.EndedAt)
		}
		l := level{a.OperationID, a.ParentAttemptID}
		p := before[l]
		switch {
		case p == nil && (a.Ordinal < 1 || a.BackoffBeforeNS != nil):
			t.Fatalf("first attempt %s has ordinal %d, wait %v", a.AttemptID, a.Ordinal, a.BackoffBeforeNS)
		case p != nil && (a.Ordinal <= p.Ordinal || a.BackoffBeforeNS == nil || p.Last):
			t.Fatalf("attempt %s has ordinal %d after %d, wait %v, after the last %v", a.AttemptID, a.Ordinal, p.Ordinal, a.BackoffBeforeNS, p.Last)
		}
		before[l] = a
		if a.ParentAttemptID == "" && *o.Attempts < a.Ordinal {
			t.Fatalf("attempt %s is number %d of %d", a.AttemptID, a.Ordinal, *o.Attempts)
		}
	}
	for l, a := range before {
		if !a.Last {
			t.Fatalf("no attempt of %+v is the last", l)
		}
	}
}

// checkUnknown holds what is not known to be left unknown.
func checkUnknown(t failer, res Result) {
	t.Helper()
	deadline := false
	times := func(what string, x rows.Times) {
		known := x.DeadlineAt != nil
		deadline = deadline || known
		missed := known && x.DeadlineMissed != nil && *x.DeadlineMissed
		switch {
		case known != (x.DeadlineMissed != nil), known != (x.DeadlineSource != ""):
			t.Fatalf("%s: deadline %v, missed %v, source %q", what, x.DeadlineAt, x.DeadlineMissed, x.DeadlineSource)
		case missed != (x.MissCause != ""):
			t.Fatalf("%s: missed %v because of %q", what, missed, x.MissCause)
		case x.PerceivedRemainingNS != nil && x.DriftNS == nil, (x.TrueRemainingNS != nil) != (x.DriftNS != nil):
			t.Fatalf("%s: perceived %v, true %v, drift %v", what, x.PerceivedRemainingNS, x.TrueRemainingNS, x.DriftNS)
		case x.PerceivedRemainingNS != nil && *x.PerceivedRemainingNS-*x.TrueRemainingNS != *x.DriftNS:
			t.Fatalf("%s: drift %d is not %d minus %d", what, *x.DriftNS, *x.PerceivedRemainingNS, *x.TrueRemainingNS)
		case (x.AgentTimeNS == nil) != (x.AgentTimeSource == ""):
			t.Fatalf("%s: agent time %v from %q", what, x.AgentTimeNS, x.AgentTimeSource)
		}
	}
	for _, o := range res.Operations {
		times("operation "+o.OperationID, o.Times)
		if o.DriftNS != nil && o.DeadlineAt == nil {
			t.Fatalf("operation %s drifts by %d from no deadline", o.OperationID, *o.DriftNS)
		}
		switch o.TTFTState {
		case rows.TTFTKnown:
			if *o.TTFTNS < int64(minTTFT) || o.FirstChunkNS == nil || o.Stream != rows.StreamYes {
				t.Fatalf("operation %s: first token after %d, first chunk %v, stream %s", o.OperationID, *o.TTFTNS, o.FirstChunkNS, o.Stream)
			}
		case rows.TTFTMissing, rows.TTFTSuspect, rows.TTFTNotApplicable:
			if o.TTFTNS != nil || o.FirstChunkNS != nil || o.TimePerOutputTokenNS != nil {
				t.Fatalf("operation %s: %s, but %v, %v, %v", o.OperationID, o.TTFTState, o.TTFTNS, o.FirstChunkNS, o.TimePerOutputTokenNS)
			}
		default:
			t.Fatalf("operation %s: TTFT state %q", o.OperationID, o.TTFTState)
		}
		if o.Stream != rows.StreamYes && o.Stream != rows.StreamNo && o.Stream != rows.StreamUnknown {
			t.Fatalf("operation %s: stream %q", o.OperationID, o.Stream)
		}
		if (o.InferenceTimeNS == nil) != (o.InferenceSource == "") || o.InferenceTimeNS != nil && !rows.IsModelKind(o.Kind) {
			t.Fatalf("operation %s (%s): inference %v from %q", o.OperationID, o.Kind, o.InferenceTimeNS, o.InferenceSource)
		}
		if o.AtCap && o.TimeoutNS == nil {
			t.Fatalf("operation %s ended at no cap", o.OperationID)
		}
	}
	for _, r := range res.Requests {
		times("request "+r.RequestID, r.Times)
		if (r.Attempts == nil) != (r.AttemptsUnknown == r.Operations) {
			t.Fatalf("request %s: attempts %v, of %d operations %d unknown", r.RequestID, r.Attempts, r.Operations, r.AttemptsUnknown)
		}
		if r.DriftNS != nil && !deadline {
			t.Fatalf("request %s drifts by %d from no deadline", r.RequestID, *r.DriftNS)
		}
	}
}

func checkFacts(t failer, f rows.Facts) {
	t.Helper()
	switch {
	case f.EndedAt < f.StartedAt:
		t.Fatalf("%s ends before it starts", f.Name)
	case f.Outcome == rows.OutcomeOK && (f.ErrorClass != "" || f.Censored):
		t.Fatalf("%s is ok, with class %q, censored %v", f.Name, f.ErrorClass, f.Censored)
	case f.Outcome == rows.OutcomeError && f.ErrorClass == "":
		t.Fatalf("%s failed without a class", f.Name)
	case f.Outcome == rows.OutcomeError && (f.ErrorClass == rows.ClassTimeout || f.ErrorClass == rows.ClassCancelled) && !f.Censored:
		t.Fatalf("%s was cut and is not censored", f.Name)
	case f.Outcome == rows.OutcomeOpen && !f.Censored:
		t.Fatalf("%s is open and not censored", f.Name)
	case f.SampleWeight < 1:
		t.Fatalf("%s stands for %v spans", f.Name, f.SampleWeight)
	}
}

// mayBeNegative are the columns that say how far past a deadline something is.
var mayBeNegative = map[string]bool{
	"true_remaining_ns": true, "drift_ns": true, "remaining_ns": true, "perceived_remaining_ns": true,
	"user_hash": true, "tenant_hash": true, // 64 bits of any kind
}

func notNegative(t failer, r rows.Row) {
	t.Helper()
	v := reflect.ValueOf(r).Elem()
	for _, f := range fieldsOf(r.Table()) {
		x := v.FieldByIndex(f.Index)
		if x.Kind() == reflect.Pointer {
			if x.IsNil() {
				continue
			}
			x = x.Elem()
		}
		if x.Kind() == reflect.Int64 && x.Int() < 0 && !mayBeNegative[f.Column] {
			t.Fatalf("%s: %s is %d", r.Table(), f.Column, x.Int())
		}
	}
}

var fieldCache = map[rows.Table][]rows.Field{}

func fieldsOf(t rows.Table) []rows.Field {
	if fieldCache[t] == nil {
		fieldCache[t] = rows.Fields(t)
	}
	return fieldCache[t]
}
