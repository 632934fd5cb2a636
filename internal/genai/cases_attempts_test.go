package genai

import (
	"testing"

	"driftline/internal/rows"
)

func case1(options ...any) []Span {
	return []Span{
		chat("01", "", "m1", 0, 21, options...),
		post("02", "01", 0, 8, 503),
		post("03", "01", 8.6, 16, 504, kv("http.request.resend_count", 1)),
		post("04", "01", 17.2, 21, 200, kv("http.request.resend_count", 2)),
	}
}

func near(t *testing.T, what string, got *int64, want float64) {
	t.Helper()
	if got == nil {
		t.Fatalf("%s is unknown, want %v s", what, want)
	}
	if d := secs(*got) - want; d > 1e-6 || d < -1e-6 {
		t.Fatalf("%s is %v s, want %v s", what, secs(*got), want)
	}
}

func attemptsAre(t *testing.T, o *rows.Operation, want uint32, source string) {
	t.Helper()
	if o.Attempts == nil {
		t.Fatalf("attempts of %s are unknown, want %d", o.OperationID, want)
	}
	if *o.Attempts != want || o.AttemptSource != source {
		t.Fatalf("attempts of %s are %d from %s, want %d from %s", o.OperationID, *o.Attempts, o.AttemptSource, want, source)
	}
}

func TestC1_AttemptsFromHTTPChildren(t *testing.T) {
	res := analyze(t, case1()...)
	o := one(t, res)
	attemptsAre(t, o, 3, rows.SourceHTTPChild)
	near(t, "failed", &o.FailedAttemptNS, 15.4)
	near(t, "backoff", &o.BackoffNS, 1.8)
	near(t, "final", &o.InferenceSegmentNS, 3.8)
	near(t, "inference time", o.InferenceTimeNS, 3.8)
	near(t, "hidden", o.HiddenTotalNS, 17.2)
	r := theRequest(t, res)
	near(t, "request hidden", r.HiddenPathNS, 17.2)
	if r.Kind != rows.KindChat || *r.Retries != 2 || r.Operations != 1 || r.Steps != 1 {
		t.Fatalf("request is %s with %d retries, %d operations, %d steps", r.Kind, *r.Retries, r.Operations, r.Steps)
	}
	if len(res.Attempts) != 3 || res.Attempts[0].Layer != rows.LayerTransport || !res.Attempts[2].Last {
		t.Fatalf("attempts: %+v", res.Attempts)
	}

	alone := one(t, analyze(t, case1()[0]))
	if alone.Attempts != nil || alone.AttemptSource != rows.SourceUnknown {
		t.Fatalf("without children attempts are %v from %s, want unknown", alone.Attempts, alone.AttemptSource)
	}
	if alone.TTFTState != rows.TTFTMissing {
		t.Fatalf("TTFT is %s", alone.TTFTState)
	}
}
