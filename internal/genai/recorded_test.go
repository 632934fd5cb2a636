package genai_test

import (
	"strings"
	"testing"
	"time"

	"driftline/internal/annotate"
	"driftline/internal/fakellm"
	"driftline/internal/genai"
	"driftline/internal/recorded"
	"driftline/internal/rows"
)

// What real SDKs under real instrumentation wrote, against what is known to have happened: each scenario's script and
// the server's log. An instrumentation may leave things unseen, which the page of instrumentations lists cell by cell;
// what the analysis does say must be true.

const ms = time.Millisecond

// call is one model call as it was.
type call struct {
	// turn is its place in the conversation.
	turn int
	// attempts are the error classes of its tries in order; "" is a success.
	attempts []string
	// failed is the time of all attempts but the last.
	failed time.Duration
	// ttft is from the last attempt's start to the first token of a stream; 0 for a call that is not streamed.
	ttft time.Duration
	// tokens is the number of output tokens that the server says it wrote; 0 where no answer was whole.
	tokens int64
}

// truth is one scenario as it was.
type truth struct {
	calls []call
	kind  string
	// tools are the error classes of the tool calls in order; toolWait is the union of their intervals.
	tools    []string
	toolWait time.Duration
}

func (c call) class() string { return c.attempts[len(c.attempts)-1] }

// truths are written from the scenarios' scripts (traffic/README.md), never from what the analysis says.
var truths = map[string]truth{
	"retry503":       {calls: []call{{attempts: []string{"overload", "overload", ""}, failed: 200 * ms, tokens: 16}}},
	"stream":         {calls: []call{{attempts: []string{""}, ttft: 280 * ms, tokens: 20}}},
	"streamretry503": {calls: []call{{attempts: []string{"overload", ""}, failed: 100 * ms, ttft: 280 * ms, tokens: 20}}},
	"ratelimit429":   {calls: []call{{attempts: []string{"overload", ""}, failed: 40 * ms, tokens: 16}}},
	"exhausted504":   {calls: []call{{attempts: []string{"timeout", "timeout", "timeout"}, failed: 300 * ms}}},
	"timeout":        {calls: []call{{attempts: []string{"timeout", ""}, failed: 500 * ms, tokens: 16}}},
	"reset":          {calls: []call{{attempts: []string{"network", ""}, failed: 60 * ms, tokens: 16}}},
	"embeddings":     {calls: []call{{attempts: []string{""}}}, kind: rows.KindEmbeddings},
	"stallstream":    {calls: []call{{attempts: []string{"timeout"}, ttft: 180 * ms}}},
	"stallresume":    {calls: []call{{attempts: []string{""}, ttft: 180 * ms, tokens: 20}}},
	"abortstream":    {calls: []call{{attempts: []string{"cancelled"}, ttft: 180 * ms}}},
	"abortcall":      {calls: []call{{attempts: []string{"cancelled"}}}},
	"agent": {
		calls: []call{{attempts: []string{""}, tokens: 16}, {turn: 1, attempts: []string{"overload", "overload", ""}, failed: 200 * ms, tokens: 16}},
		tools: []string{""}, toolWait: 200 * ms,
	},
	"toolerror": {
		calls: []call{{attempts: []string{""}, tokens: 16}, {turn: 1, attempts: []string{""}, tokens: 16}, {turn: 2, attempts: []string{""}, tokens: 16}},
		tools: []string{"other", ""}, toolWait: 300 * ms,
	},
	"paralleltools": {
		calls: []call{{attempts: []string{""}, tokens: 16}, {turn: 1, attempts: []string{""}, tokens: 16}},
		tools: []string{"", ""}, toolWait: 300 * ms,
	},
}

// fixture is a recording and what the analysis makes of it.
type fixture struct {
	genai.Result
	truth    truth
	name     string
	scenario string
	log      []fakellm.LogEntry
	models   []*rows.Operation
	tools    []*rows.Operation
}

func load(t *testing.T, name string) *fixture {
	t.Helper()
	td, log := recorded.Load(t, name)
	var opt genai.Options
	trace := genai.Trace{Complete: true, Reason: rows.ReleaseRoot}
	var arena annotate.Arena
	for _, rs := range td.ResourceSpans().All() {
		resource := annotate.ResourceOf(rs.Resource())
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				trace.Spans = append(trace.Spans, arena.Span(span, resource, ss.Scope().Name(), func(key string) bool { return genai.Wanted(key, &opt) }))
				trace.Now = max(trace.Now, int64(span.EndTimestamp()))
			}
		}
	}
	f := &fixture{log: log, name: name, scenario: name[strings.LastIndexByte(name, '-')+1:]}
	var known bool
	if f.truth, known = truths[f.scenario]; !known {
		t.Fatalf("%s: nothing is written of what happens in scenario %q", name, f.scenario)
	}
	f.Result = genai.Analyze(trace, opt)
	for _, o := range f.Operations {
		switch {
		case o.Kind == rows.KindTool:
			f.tools = append(f.tools, o)
		case rows.IsModelKind(o.Kind):
			f.models = append(f.models, o)
		}
	}
	return f
}

// attempts are those of one operation, in order.
func (f *fixture) attempts(o *rows.Operation) []*rows.Attempt {
	var out []*rows.Attempt
	for _, a := range f.Attempts {
		if a.OperationID == o.OperationID {
			out = append(out, a)
		}
	}
	return out
}

// served are the server's entries of one call.
func (f *fixture) served(c call) []fakellm.LogEntry {
	var out []fakellm.LogEntry
	for _, e := range f.log {
		if e.Turn == c.turn {
			out = append(out, e)
		}
	}
	return out
}

// backoff is the server's time between the attempts of a call.
func backoff(served []fakellm.LogEntry) (sum time.Duration) {
	for i := 1; i < len(served); i++ {
		sum += served[i].Received().Sub(served[i-1].Completed())
	}
	return sum
}

// lostTries are the recordings with this many failed attempts outside of the call's span: the integration starts a new
// span with each try of a stream and never ends those of failed ones.
var lostTries = map[string]int{"node-vercel-streamretry503": 1}

// slack is how far a client's view may differ from the script, and slackMore what is added for a client's timeout,
// which ends when the client gets to run.
const (
	slack     = 60 * ms
	slackMore = 150 * ms
)

func near(got int64, want, slack time.Duration) bool {
	return (time.Duration(got) - want).Abs() <= slack
}

func TestRecordedAgainstTruth(t *testing.T) {
	for _, name := range recorded.Names(t) {
		t.Run(name, func(t *testing.T) {
			f := load(t, name)
			if recorded.Lost(name) {
				if len(f.models)+len(f.Requests)+len(f.Attempts)+len(f.Segments)+len(f.tools) != 0 {
					t.Fatalf("no call, yet %d requests, %d attempts", len(f.Requests), len(f.Attempts))
				}
				return
			}
			if len(f.models) != len(f.truth.calls) {
				t.Fatalf("%d model calls, there were %d", len(f.models), len(f.truth.calls))
			}
			if len(f.Requests) != 1 {
				t.Fatalf("%d requests, it was one", len(f.Requests))
			}
			for i, c := range f.truth.calls {
				f.requireCall(t, f.models[i], c)
				if partial := f.models[i].Attributes[genai.PartialKey] == genai.CallSpanMissing; partial != recorded.Partial(name) || partial != (len(f.Partial) > 0) {
					t.Errorf("partial is %v, which is wrong", partial)
				}
			}
			f.requireTools(t)
			f.requireRequest(t, f.Requests[0])
		})
	}
}

// requireCall holds what is said of a call to what is true of it.
func (f *fixture) requireCall(t *testing.T, o *rows.Operation, c call) {
	t.Helper()
	kind := f.truth.kind
	if kind == "" {
		kind = rows.KindChat
	}
	if o.Kind != kind {
		t.Errorf("kind %s, want %s", o.Kind, kind)
	}
	served := f.served(c)
	if len(served) != len(c.attempts) {
		t.Fatalf("the server saw %d attempts, the scenario has %d", len(served), len(c.attempts))
	}
	extra := slack
	if f.scenario == "timeout" {
		extra += slackMore
	}
	if n, short := lostTries[f.name]; short {
		// What the analysis cannot know: the spans that hold the failed tries together were never sent.
		if o.Attempts == nil || int(*o.Attempts) != len(c.attempts)-n || o.FailedAttemptNS != 0 {
			t.Errorf("attempts %v: %d are lost, as they were; take it off the list", o.Attempts, n)
		}
	} else if o.Attempts != nil {
		attempts := f.attempts(o)
		if int(*o.Attempts) != len(c.attempts) || len(attempts) != len(c.attempts) {
			t.Fatalf("%d attempts, there were %d", *o.Attempts, len(c.attempts))
		}
		for i, a := range attempts[:len(attempts)-1] {
			if a.ErrorClass != c.attempts[i] || a.Outcome != rows.OutcomeError {
				t.Errorf("attempt %d: %s %q, want %q", i+1, a.Outcome, a.ErrorClass, c.attempts[i])
			}
			if a.HTTPStatus != 0 && int(a.HTTPStatus) != served[i].Status {
				t.Errorf("attempt %d: status %d, the server sent %d", i+1, a.HTTPStatus, served[i].Status)
			}
		}
		if !near(o.FailedAttemptNS, c.failed, extra) {
			t.Errorf("failed attempts %s, want %s", time.Duration(o.FailedAttemptNS), c.failed)
		}
		if !near(o.BackoffNS, backoff(served), extra) {
			t.Errorf("backoff %s, the server says %s", time.Duration(o.BackoffNS), backoff(served))
		}
		if o.HiddenTotalNS == nil || *o.HiddenTotalNS != o.FailedAttemptNS+o.BackoffNS {
			t.Errorf("hidden time is not that of failed attempts and backoff")
		}
	} else if o.FailedAttemptNS+o.BackoffNS != 0 || o.HiddenTotalNS != nil || len(f.attempts(o)) != 0 {
		t.Errorf("attempts are unknown, yet failed %s, backoff %s", time.Duration(o.FailedAttemptNS), time.Duration(o.BackoffNS))
	}
	if streamed := c.ttft > 0; o.Stream != rows.StreamUnknown && (o.Stream == rows.StreamYes) != streamed {
		t.Errorf("stream %s, want %v", o.Stream, streamed)
	}
	if o.TTFTNS != nil && !near(*o.TTFTNS, c.ttft, slack) {
		t.Errorf("first token after %s, want %s", time.Duration(*o.TTFTNS), c.ttft)
	}
	if o.TTFTState == rows.TTFTSuspect || o.TTFTConflict {
		t.Errorf("first token: %s, conflict %v", o.TTFTState, o.TTFTConflict)
	}
	if o.OutputTokens != nil && *o.OutputTokens != c.tokens {
		t.Errorf("%d output tokens, want %d", *o.OutputTokens, c.tokens)
	}
	if in := int64(served[len(served)-1].InputTokens); o.InputTokens != nil && in > 0 && *o.InputTokens != in {
		t.Errorf("%d input tokens, the server says %d", *o.InputTokens, in)
	}
	if c.class() == "" && (o.Outcome != rows.OutcomeOK || o.ErrorClass != "") {
		t.Errorf("%s %q (%s), it went well", o.Outcome, o.ErrorClass, o.ErrorType)
	}
	if c.class() != "" && o.Outcome != rows.OutcomeOK && o.ErrorClass != c.class() && o.ErrorClass != rows.ClassOther { // some do not name the cause
		t.Errorf("class %q (%s), want %q", o.ErrorClass, o.ErrorType, c.class())
	}
}

func (f *fixture) requireTools(t *testing.T) {
	t.Helper()
	if len(f.tools) == 0 {
		return
	}
	if len(f.tools) != len(f.truth.tools) {
		t.Fatalf("%d tool calls, there were %d", len(f.tools), len(f.truth.tools))
	}
	for i, o := range f.tools {
		if o.Attempts != nil {
			t.Errorf("tool %d: nothing tells how often it was tried", i)
		}
		if f.truth.tools[i] == "" && o.Outcome != rows.OutcomeOK || f.truth.tools[i] != "" && o.Outcome != rows.OutcomeOK && o.ErrorClass != f.truth.tools[i] {
			t.Errorf("tool %d: %s %q (%s), want %q", i, o.Outcome, o.ErrorClass, o.ErrorType, f.truth.tools[i])
		}
	}
}

func (f *fixture) requireRequest(t *testing.T, q *rows.Request) {
	t.Helper()
	if q.Sum() != q.EndedAt-q.StartedAt {
		t.Errorf("the segments are %s, the request took %s", time.Duration(q.Sum()), time.Duration(q.EndedAt-q.StartedAt))
	}
	if len(f.tools) > 0 && !near(q.ToolNS, f.truth.toolWait, slack) {
		t.Errorf("tool wait %s, the union is %s", time.Duration(q.ToolNS), f.truth.toolWait)
	}
	if int(q.ToolCalls) != len(f.tools) {
		t.Errorf("%d tool calls, %d spans", q.ToolCalls, len(f.tools))
	}
	var failed, backoff int64
	for _, o := range f.models {
		failed += o.FailedAttemptNS
		backoff += o.BackoffNS
	}
	if q.FailedAttemptNS != failed || q.BackoffNS != backoff { // no calls overlap in any scenario
		t.Errorf("failed attempts %s and backoff %s, those of its calls %s and %s",
			time.Duration(q.FailedAttemptNS), time.Duration(q.BackoffNS), time.Duration(failed), time.Duration(backoff))
	}
}
