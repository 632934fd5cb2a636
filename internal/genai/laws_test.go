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
