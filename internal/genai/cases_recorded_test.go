package genai

import (
	"testing"

	"driftline/internal/rows"
)

// What recordings of real SDKs taught, in small.

func TestUnansweredRequestIsAFailedAttempt(t *testing.T) {
	// Node's fetch ends the span of an aborted request without status and without error.
	o := one(t, analyze(t, chat("01", "", "m1", 0, 1.3), post("02", "01", 0, 0.5, 0), post("03", "01", 1, 1.3, 200)))
	if o.Attempts == nil || *o.Attempts != 2 || o.AttemptSource != rows.SourceHTTPChild || o.FailedAttemptNS != 500*ms || o.BackoffNS != 500*ms {
		t.Fatalf("attempts %v by %s, failed %v s, backoff %v s", o.Attempts, o.AttemptSource, secs(o.FailedAttemptNS), secs(o.BackoffNS))
	}
	res := analyze(t, chat("01", "", "m1", 0, 1.5, StatusError, kv("error.type", "APIConnectionTimeoutError")), post("02", "01", 0, 0.5, 0), post("03", "01", 1, 1.5, 0))
	if o := one(t, res); o.Attempts == nil || *o.Attempts != 2 || o.ErrorClass != rows.ClassTimeout {
		t.Fatalf("attempts %v, class %s", o.Attempts, o.ErrorClass)
	}
	for _, a := range res.Attempts {
		if a.Outcome != rows.OutcomeError || a.ErrorClass != rows.ClassTimeout || !a.Censored {
			t.Fatalf("attempt %d: %s, class %q, censored %v", a.Ordinal, a.Outcome, a.ErrorClass, a.Censored)
		}
	}
	for name, first := range map[string]Span{
		"still running when the next began": post("02", "01", 0, 1.2, 0),
		"to another place":                  post("02", "01", 0, 0.5, 0, kv("server.address", "login.example.com")),
		"judged a success":                  post("02", "01", 0, 0.5, 0, StatusOK),
	} {
		if name == "to another place" {
			first.Attrs[1] = kv("server.address", "login.example.com")
		}
		if o := one(t, analyze(t, chat("01", "", "m1", 0, 1.3), first, post("03", "01", 1, 1.3, 200))); *o.Attempts != 1 {
			t.Errorf("%s: %d attempts, want 1", name, *o.Attempts)
		}
	}
}

func TestStatusBelowNamesTheFailure(t *testing.T) {
	// SDKs raise one InternalServerError for 500, 502, 503 and 504.
	for status, want := range map[int]string{500: rows.ClassServer, 502: rows.ClassServer, 503: rows.ClassOverload, 504: rows.ClassTimeout, 200: rows.ClassServer} {
		o := one(t, analyze(t, chat("01", "", "m1", 0, 1, StatusError, kv("error.type", "InternalServerError")), post("02", "01", 0, 1, status)))
		if o.ErrorClass != want || o.HTTPStatus != uint16(status) || o.ErrorType != "InternalServerError" || o.Outcome != rows.OutcomeError {
			t.Errorf("%d: class %s, want %s; status %d, type %s", status, o.ErrorClass, want, o.HTTPStatus, o.ErrorType)
		}
	}
}

func TestBrokenConnectionsAreNetwork(t *testing.T) {
	for word, want := range map[string]string{
		"httpx.ReadError": rows.ClassNetwork, "ReadError": rows.ClassNetwork, "httpx.WriteError": rows.ClassNetwork,
		"ENOTFOUND": rows.ClassNetwork, "EAI_AGAIN": rows.ClassNetwork, "EPIPE": rows.ClassNetwork,
		"aiohttp.ClientOSError": rows.ClassNetwork, "ThreadError": rows.ClassOther, "httpx.ReadTimeout": rows.ClassTimeout,
		"openai.NotFoundError": rows.ClassClient, "20": rows.ClassCancelled, "23": rows.ClassTimeout, "24": rows.ClassOther,
		"GeneratorExit": rows.ClassCancelled, // Python's word for a stream that its reader dropped
	} {
		if got := ErrorClass(0, word, true); got != want {
			t.Errorf("%s is %s, want %s", word, got, want)
		}
	}
}

func TestWorkWithoutTokensIsNotStreamed(t *testing.T) {
	res := analyze(t, agent("01", "", "a", 0, 9), tool("02", "01", "t", 1, 2), agent("03", "01", "b", 3, 4),
		sp("04", "01", "retrieval docs", 5, 6, kv("gen_ai.operation.name", "retrieval")))
	if len(res.Operations) != 3 {
		t.Fatalf("%d operations, want 3", len(res.Operations))
	}
	for _, o := range res.Operations {
		if o.Stream != rows.StreamNo || o.TTFTState != rows.TTFTNotApplicable {
			t.Errorf("%s: stream %q, TTFT %s", o.Kind, o.Stream, o.TTFTState)
		}
	}
}

func TestTimeBeforeTheFirstAttemptIsNoFailure(t *testing.T) {
	// The client took 0.4 s before it sent anything.
	o := one(t, analyze(t, chat("01", "", "m1", 0, 3), post("02", "01", 0.4, 1, 503), post("03", "01", 1.5, 3, 200)))
	if o.UnattributedNS != 400*ms || o.FailedAttemptNS != 600*ms || o.BackoffNS != 500*ms || *o.HiddenTotalNS != 1100*ms || o.InferenceSegmentNS != 1500*ms {
		t.Fatalf("before %v, failed %v, backoff %v, hidden %v, inference %v", secs(o.UnattributedNS), secs(o.FailedAttemptNS), secs(o.BackoffNS), secs(*o.HiddenTotalNS), secs(o.InferenceSegmentNS))
	}
	// With one attempt it is part of the call's own time: nothing was hidden.
	o = one(t, analyze(t, chat("01", "", "m1", 0, 3), post("02", "01", 0.4, 3, 200)))
	if o.UnattributedNS != 0 || o.InferenceSegmentNS != 3000*ms || *o.InferenceTimeNS != 3000*ms {
		t.Fatalf("before %v, inference %v", secs(o.UnattributedNS), secs(o.InferenceSegmentNS))
	}
}

func TestBrokenAnswerIsAFailure(t *testing.T) {
	// Node's fetch ends the span of an answer that breaks in its middle with its status and an error.
	broken := post("02", "01", 0, 0.7, 200, StatusError, kv("error.type", "23"))
	if o := one(t, analyze(t, chat("01", "", "m1", 0, 0.7), broken)); o.Outcome != rows.OutcomeError || o.ErrorClass != rows.ClassTimeout || !o.Censored {
		t.Fatalf("%s, class %q, censored %v", o.Outcome, o.ErrorClass, o.Censored)
	}
	for name, whole := range map[string]Span{
		"judged a success":     chat("01", "", "m1", 0, 0.7, StatusOK),
		"with a finish reason": chat("01", "", "m1", 0, 0.7, kv("gen_ai.response.finish_reasons", []string{"stop"})),
		"with its tokens":      chat("01", "", "m1", 0, 0.7, kv("gen_ai.usage.output_tokens", 20)),
	} {
		if o := one(t, analyze(t, whole, broken)); o.Outcome != rows.OutcomeOK {
			t.Errorf("%s: %s, class %q", name, o.Outcome, o.ErrorClass)
		}
	}
}
