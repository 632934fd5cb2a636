package golden

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/fakellm"
	"driftline/internal/genai"
	"driftline/internal/recorded"
	"driftline/internal/rows"
)

// dialect says what an SDK's instrumentation tells, and what it does not.
type dialect struct {
	name string
	// streamed and plain are the stream flags of its streamed and other calls; they are
	// unknown where it flags nothing and gives no first token.
	streamed, plain string
	// embeddings says whether it writes a span for them.
	embeddings bool
	// errorTypes are by scenario: what it calls the first attempt's failure.
	resetType, timeoutType string
}

var dialects = map[string]dialect{
	"node-otel":            {name: "otel", streamed: "unknown", plain: "unknown", embeddings: true, resetType: "ECONNRESET"},
	"node-otel-headers":    {name: "otel", streamed: "unknown", plain: "unknown", embeddings: true, resetType: "ECONNRESET"},
	"node-openllmetry":     {name: "openllmetry", streamed: "unknown", plain: "unknown", resetType: "ECONNRESET"},
	"node-openinference":   {name: "openinference", streamed: "unknown", plain: "unknown", embeddings: true, resetType: "ECONNRESET"},
	"python-otel":          {name: "otel", streamed: "unknown", plain: "unknown", embeddings: true, resetType: "httpx.ReadError", timeoutType: "httpx.ReadTimeout"},
	"python-otel-latest":   {name: "otel", streamed: "unknown", plain: "unknown", embeddings: true, resetType: "ReadError", timeoutType: "ReadTimeout"},
	"python-openllmetry":   {name: "openllmetry", streamed: "yes", plain: "no", embeddings: true, resetType: "httpx.ReadError", timeoutType: "httpx.ReadTimeout"},
	"python-openinference": {name: "openinference", streamed: "yes", plain: "unknown", embeddings: true, resetType: "httpx.ReadError", timeoutType: "httpx.ReadTimeout"},
}

// near is how far two sides may differ in failed time and backoff.
const near = 50 * time.Millisecond

// fixture is a recording that went through the pipeline.
type fixture struct {
	*found
	dialect
	log []fakellm.LogEntry
}

func (f *fixture) call(t *testing.T) *rows.Operation {
	t.Helper()
	require.Len(t, f.requests, 1)
	require.Len(t, f.operations, 1)
	return f.operations[0]
}

// TestRecorded sends what real SDKs wrote through the pipeline and compares the rows with
// the request log of the server that they called.
func TestRecorded(t *testing.T) {
	names := recorded.Names(t)
	byTrace := map[string]string{}
	var last time.Time
	for _, name := range names {
		_, log := recorded.Load(t, name)
		byTrace[log[0].TraceID] = name
		for _, e := range log {
			last = later(last, e.Completed())
		}
	}
	require.Len(t, byTrace, len(names))

	s := newStorage(t, last.Add(time.Hour))
	r := newRigAt(t, s, last)
	for _, name := range names {
		td, _ := recorded.Load(t, name)
		addContent(td)
		require.NoError(t, r.proc.ConsumeTraces(t.Context(), td))
	}
	r.clock.Advance(11 * time.Minute) // past the timeout of traces without a root
	r.store()

	fixtures := map[string]*fixture{}
	for _, name := range names {
		sdk := name[:strings.LastIndexByte(name, '-')]
		_, log := recorded.Load(t, name)
		fixtures[name] = &fixture{found: &found{}, dialect: dialects[sdk], log: log}
	}
	for _, table := range rows.Tables {
		for _, row := range s.view(t, table) {
			name, known := byTrace[row.Head().TraceID]
			require.True(t, known)
			fixtures[name].add(row)
		}
	}
	for _, name := range names {
		scenario := name[strings.LastIndexByte(name, '-')+1:]
		t.Run(name, func(t *testing.T) {
			f := fixtures[name]
			f.requireLaws(t)
			// The others' values are checked where they are made, in internal/genai.
			if check, known := recordedChecks[scenario]; known && f.name != "" {
				check(t, f)
			}
			for _, o := range f.operations {
				if recorded.Partial(name) {
					require.Equal(t, [4]string{"", "", "", genai.CallSpanMissing}, [4]string{o.Dialect, o.Target, o.Provider, o.Attributes[genai.PartialKey]}, "HTTP spans say none of it")
					require.True(t, o.Incomplete)
					continue
				}
				if rows.IsModelKind(o.Kind) && f.name != "" {
					require.Equal(t, f.name, o.Dialect)
				}
				if f.name != "" && o.Kind != rows.KindTool {
					require.Equal(t, "openai", strings.ToLower(o.Provider))
				}
			}
			for _, q := range f.requests {
				require.Equal(t, name == "node-vercel-streamretry503" || recorded.Partial(name), q.Incomplete, "a failed try's span is never ended, its HTTP span is an orphan")
				if !strings.HasSuffix(name, "-abortcall") { // a cancelled agent ends before its call has noticed
					require.Zero(t, q.SkewedSpans)
				}
				if recorded.Partial(name) {
					require.Equal(t, rows.ReleaseTimeout, q.ReleaseReason, "its root never came")
				} else {
					require.Equal(t, rows.ReleaseRoot, q.ReleaseReason)
				}
			}
		})
	}
	t.Run("no content", func(t *testing.T) { s.requireNoContent(t) })
}

// addContent puts back, on each span, what recordings leave out: content under the keys
// that instrumentations write it to.
func addContent(td ptrace.Traces) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				for _, key := range []string{
					"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.prompt.0.content", "gen_ai.completion.0.content",
					"gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "llm.input_messages.0.message.content", "input.value", "output.value",
					"traceloop.entity.input", "traceloop.entity.output", "http.request.header.authorization", "url.query", "error.message", "db.query.text",
				} {
					span.Attributes().PutStr(key, secret)
				}
				if span.Status().Code() == ptrace.StatusCodeError {
					span.Status().SetMessage(secret)
				}
				event := span.Events().AppendEmpty()
				event.SetName("gen_ai.user.message")
				event.SetTimestamp(span.StartTimestamp())
				event.Attributes().PutStr("content", secret)
				for _, e := range span.Events().All() {
					if e.Name() == "exception" {
						e.Attributes().PutStr("exception.message", secret)
						e.Attributes().PutStr("exception.stacktrace", secret)
					}
				}
			}
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

var recordedChecks = map[string]func(*testing.T, *fixture){
	"retry503": func(t *testing.T, f *fixture) {
		o := f.call(t)
		requireAttempts(t, f, o, f.attempts, "overload", "overload", "")
		requireServerTimes(t, f, o)
		require.Equal(t, rows.OutcomeOK, o.Outcome)
		require.Equal(t, f.plain, o.Stream)
		require.Nil(t, o.TTFTNS)
	},
	"ratelimit429": func(t *testing.T, f *fixture) {
		o := f.call(t)
		requireAttempts(t, f, o, f.attempts, "overload", "")
		requireServerTimes(t, f, o)
		require.Equal(t, uint16(429), f.attempts[0].HTTPStatus)
		require.Equal(t, rows.OutcomeOK, o.Outcome)
		require.GreaterOrEqual(t, *f.attempts[1].BackoffBeforeNS, int64(time.Second), "the server asked for a second")
	},
	"streamretry503": func(t *testing.T, f *fixture) {
		o := f.call(t)
		requireAttempts(t, f, o, f.attempts, "overload", "")
		requireStream(t, f, o)
	},
	"stream": func(t *testing.T, f *fixture) {
		o := f.call(t)
		requireAttempts(t, f, o, f.attempts, "")
		requireStream(t, f, o)
	},
	"exhausted504": func(t *testing.T, f *fixture) {
		o := f.call(t)
		requireAttempts(t, f, o, f.attempts, "timeout", "timeout", "timeout")
		for _, head := range []rows.Facts{o.Facts, f.requests[0].Facts, f.attempts[2].Facts} {
			require.Equal(t, rows.OutcomeError, head.Outcome)
			require.Equal(t, rows.ClassTimeout, head.ErrorClass, "a 504 is a timeout, whatever the SDK calls it")
			require.Equal(t, uint16(504), head.HTTPStatus)
			require.True(t, head.Censored)
		}
	},
	"timeout": func(t *testing.T, f *fixture) {
		o := f.call(t)
		requireAttempts(t, f, o, f.attempts, "timeout", "")
		require.Equal(t, f.timeoutType, f.attempts[0].ErrorType)
		require.Zero(t, f.attempts[0].HTTPStatus, "no answer came")
		require.True(t, f.attempts[0].Censored)
		require.InDelta(t, 700*time.Millisecond, f.attempts[0].DurationNS, float64(250*time.Millisecond), "the client's timeout of 500 ms, and its delay")
		require.Equal(t, rows.OutcomeOK, o.Outcome)
	},
	"reset": func(t *testing.T, f *fixture) {
		o := f.call(t)
		requireAttempts(t, f, o, f.attempts, "network", "")
		require.Equal(t, f.resetType, f.attempts[0].ErrorType)
		require.Zero(t, f.attempts[0].HTTPStatus)
		require.Equal(t, rows.OutcomeOK, o.Outcome)
	},
	"embeddings": func(t *testing.T, f *fixture) {
		if !f.embeddings {
			require.Empty(t, f.requests)
			require.Empty(t, f.operations)
			return
		}
		o := f.call(t)
		requireAttempts(t, f, o, f.attempts, "")
		require.Equal(t, rows.KindEmbeddings, o.Kind)
		require.Equal(t, "text-embedding-3-small", o.Target)
		require.Equal(t, rows.StreamNo, o.Stream)
		require.Equal(t, rows.TTFTNotApplicable, o.TTFTState)
		require.Nil(t, o.OutputTokens)
	},
	"agent": func(t *testing.T, f *fixture) {
		require.Len(t, f.requests, 1)
		q := f.requests[0]
		require.Equal(t, rows.KindAgent, q.Kind)
		require.Equal(t, "helper", q.Agent)
		require.Equal(t, []uint32{3, 2, 1, 0, 1}, []uint32{q.Operations, q.Steps, q.ToolCalls, q.ToolErrors, q.AttemptsUnknown})
		require.Equal(t, uint32(4), *q.Attempts)
		require.Equal(t, uint32(2), *q.Retries)
		require.Equal(t, []int64{74, 32}, []int64{*q.InputTokens, *q.OutputTokens})
		require.Len(t, f.operations, 3)
		first, tool, second := f.operations[0], f.operations[1], f.operations[2]
		require.Equal(t, []uint32{0, 1, 2}, []uint32{first.StepIndex, tool.StepIndex, second.StepIndex})
		require.Equal(t, rows.KindTool, tool.Kind)
		require.Equal(t, "lookup", tool.Target)
		require.Nil(t, tool.Attempts, "nothing tells how often a tool was tried")
		require.Equal(t, rows.StreamNo, tool.Stream)
		requireAttempts(t, f, first, of(f.attempts, first), "")
		requireAttempts(t, f, second, of(f.attempts, second), "overload", "overload", "")
		for _, o := range f.operations {
			require.Equal(t, q.RequestID, o.RequestID)
			require.Equal(t, "helper", o.Agent)
		}
	},
}

func of(attempts []*rows.Attempt, o *rows.Operation) []*rows.Attempt {
	var out []*rows.Attempt
	for _, a := range attempts {
		if a.OperationID == o.OperationID {
			out = append(out, a)
		}
	}
	return out
}

// requireAttempts checks a call's attempts against the server's log: their number,
// classes and evidence, and what it says of time against its attempts.
func requireAttempts(t *testing.T, f *fixture, o *rows.Operation, attempts []*rows.Attempt, classes ...string) {
	t.Helper()
	require.NotNil(t, o.Attempts)
	require.Equal(t, uint32(len(classes)), *o.Attempts)
	require.Equal(t, uint32(len(classes)), *o.LeafAttempts)
	require.Equal(t, rows.SourceHTTPChild, o.AttemptSource)
	require.Len(t, attempts, len(classes))
	entries := f.log
	if len(f.operations) > 1 { // the log is of the whole agent: take what came during this call
		entries = nil
		for _, e := range f.log {
			if e.ReceivedAt >= o.StartedAt && e.ReceivedAt <= o.EndedAt {
				entries = append(entries, e)
			}
		}
	}
	require.Len(t, entries, len(classes), "the server saw as many")
	var failed, backoff int64
	for i, a := range attempts {
		require.Equal(t, classes[i], a.ErrorClass, "attempt %d", i+1)
		require.Equal(t, classes[i] != "", a.Outcome == rows.OutcomeError, "attempt %d", i+1)
		require.Equal(t, uint32(i+1), a.Ordinal)
		require.Equal(t, i == len(attempts)-1, a.Last)
		require.Equal(t, rows.LayerSDK, a.Layer)
		require.Equal(t, rows.SourceHTTPChild, a.Source)
		require.Equal(t, uint16(entries[i].Status), statusSeen(a, entries[i]))
		require.Equal(t, entries[i].ParentSpanID, a.AttemptID, "the span that the server was told")
		require.Equal(t, o.Stream, a.Stream)
		if i > 0 {
			failed += attempts[i-1].DurationNS
			backoff += *a.BackoffBeforeNS
		}
	}
	require.Equal(t, failed, o.FailedAttemptNS, "failed time is that of the attempts but the last")
	require.Equal(t, backoff, o.BackoffNS)
	require.Equal(t, failed+backoff, *o.HiddenTotalNS)
}

// requireServerTimes compares failed time and backoff with the server's log. It is for
// the recordings whose spans agree with it themselves: on a busy machine a client's clock
// also counts the time in which it did not run.
func requireServerTimes(t *testing.T, f *fixture, o *rows.Operation) {
	t.Helper()
	var failed, backoff int64
	for i, e := range f.log[1:] {
		failed += f.log[i].CompletedAt - f.log[i].ReceivedAt
		backoff += e.ReceivedAt - f.log[i].CompletedAt
	}
	require.InDelta(t, failed, o.FailedAttemptNS, float64(near), "failed time")
	require.InDelta(t, backoff, o.BackoffNS, float64(near), "backoff")
}

// statusSeen is the status that the client noted, but that of the server where no
// client can have seen any.
func statusSeen(a *rows.Attempt, e fakellm.LogEntry) uint16 {
	if a.HTTPStatus == 0 && e.Outcome != fakellm.OutcomeComplete {
		return uint16(e.Status)
	}
	return a.HTTPStatus
}

// requireStream checks a streamed call: what its dialect tells of the stream, and a first
// token only where it tells one, near the server's own.
func requireStream(t *testing.T, f *fixture, o *rows.Operation) {
	t.Helper()
	require.Equal(t, rows.OutcomeOK, o.Outcome)
	require.Equal(t, f.streamed, o.Stream)
	require.False(t, o.TTFTConflict)
	if f.streamed != rows.StreamYes {
		require.Equal(t, rows.TTFTMissing, o.TTFTState)
		require.Nil(t, o.TTFTNS)
		require.Nil(t, o.FirstChunkNS)
		require.Nil(t, o.TimePerOutputTokenNS)
		require.Zero(t, o.TTFTSegmentNS+o.GenerationNS)
		return
	}
	last := f.log[len(f.log)-1]
	require.Equal(t, rows.TTFTKnown, o.TTFTState)
	require.InDelta(t, *last.FirstTokenAt-last.ReceivedAt, *o.TTFTNS, float64(near), "from the last attempt's start")
	require.InDelta(t, *last.FirstTokenAt-f.log[0].ReceivedAt, *o.FirstChunkNS, float64(near), "from the call's start")
	require.Equal(t, *o.TTFTNS, o.TTFTSegmentNS)
	perToken := float64(last.CompletedAt-*last.FirstTokenAt) / float64(last.OutputTokens-1)
	require.LessOrEqual(t, math.Abs(perToken-float64(*o.TimePerOutputTokenNS)), 5e6)
}
