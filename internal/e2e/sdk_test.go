package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/fakellm"
)

const (
	// stored is the bar for the time from a root's end to its rows.
	stored = 15 * time.Second
	// near is the bar for failed time and backoff against the server's own log.
	near = 50 * time.Millisecond
)

// traffic runs one of the SDK programs and returns the trace of each scenario.
func traffic(ctx context.Context, language, baseURL, otlp, dialect string, scenarios ...string) (map[string]string, error) {
	// The first run installs packages.
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(repository, "traffic", language, "run.sh"), "--base-url", baseURL, "--otlp", otlp,
		"--scenario", strings.Join(scenarios, ","), "--dialect", dialect)
	cmd.Env = environment()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", language, dialect, err, stdout.String(), stderr.String())
	}
	out := map[string]string{}
	for line := range strings.Lines(stdout.String()) {
		var l struct {
			Scenario string
			TraceID  string `json:"trace_id"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return nil, fmt.Errorf("%s %s wrote %q: %w", language, dialect, line, err)
		}
		out[l.Scenario] = l.TraceID
	}
	return out, nil
}

// Real SDKs with real instrumentation and real retries, through the one-command pipeline.
func TestRealSDKs(t *testing.T) {
	llm := fakellm.New(fakellm.Options{})
	server := httptest.NewServer(llm)
	t.Cleanup(func() { llm.Close(); server.Close() })
	in := startStandalone(t, t.TempDir())
	conn := connect(t, in.clickhouse)
	base := server.URL + "/v1"
	cases := []struct {
		language, dialect string
		// ttft is whether the spans tell the first token of a stream.
		ttft bool
	}{
		{"python", "pydantic-ai", true},
		{"node", "vercel", true},
		{"python", "otel", false},
		{"python", "otel-latest", false},
		{"python", "openllmetry", true},
		{"python", "openinference", true},
		{"node", "otel", false},
		{"node", "otel-headers", false},
		{"node", "openllmetry", false},
		{"node", "openinference", false},
	}
	// The programs mostly wait: one of each language at a time.
	traces := make([]map[string]string, len(cases))
	errs := make([]error, len(cases))
	var running sync.WaitGroup
	for _, language := range []string{"python", "node"} {
		running.Go(func() {
			for i, c := range cases {
				if c.language != language {
					continue
				}
				scenarios := []string{"retry503", "agent", "stream"}
				switch c.dialect {
				case "openinference":
					scenarios = append(scenarios, "embeddings") // its texts are sent even where content is switched off
				case "vercel":
					scenarios = scenarios[1:] // it waits for six seconds in each call that is tried three times
				}
				traces[i], errs[i] = traffic(t.Context(), language, base, in.otlp, c.dialect, scenarios...)
			}
		})
	}
	running.Wait()
	for i, c := range cases {
		t.Run(c.language+"-"+c.dialect, func(t *testing.T) {
			require.NoError(t, errs[i])
			r := reader{t, conn, llm}
			for scenario, check := range map[string]func(trace string) error{
				"retry503": r.retry503, "agent": r.agent, "stream": func(trace string) error { return r.stream(trace, c.ttft) },
			} {
				if traces[i][scenario] == "" {
					continue // not run with this dialect
				}
				// Only a client that was kept from running can be off by so much against the server: such a run is repeated.
				err := check(traces[i][scenario])
				for try := 0; err != nil && try < 3; try++ {
					t.Logf("%s: %v; once more", scenario, err)
					again, failed := traffic(t.Context(), c.language, base, in.otlp, c.dialect, scenario)
					require.NoError(t, failed)
					err = check(again[scenario])
				}
				require.NoError(t, err, scenario)
			}
		})
	}
	t.Run("no content is stored", func(t *testing.T) {
		td := contentSpans()
		require.NoError(t, sendSpans(t.Context(), in.otlp, td))
		trace := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).TraceID().String()
		r := reader{t, conn, llm}
		r.await(trace)
		eventually(t, stored, func() error { return want(t, conn, 1, "SELECT count() FROM spans WHERE trace_id = ?", trace) })
		tables := dump(t, conn, in.clickhouse)
		require.NotEmpty(t, tables["requests_base"])
		require.NotEmpty(t, tables["spans_base"])
		for table, content := range tables {
			for _, word := range []string{marker, "synthetic prompt", "synthetic one", "synthetic two", "synthetic result", "tok0", "tok1"} {
				require.NotContains(t, content, word, "%s holds content", table)
			}
		}
		for _, word := range []string{marker, "synthetic prompt", "tok0"} {
			require.NotContains(t, in.stderr.String(), word, "the log holds content")
		}
	})
}

// reader reads one trace's rows and holds them against the server's log.
type reader struct {
	t    *testing.T
	conn driver.Conn
	llm  *fakellm.Server
}

func want(t *testing.T, conn driver.Conn, n uint64, query string, args ...any) error {
	if got := scalar[uint64](t, conn, query, args...); got != n {
		return fmt.Errorf("%d, want %d: %s %v", got, n, query, args)
	}
	return nil
}

type requestRow struct {
	id, kind, name          string
	ended                   time.Time
	user                    int64
	attempts, retries       *uint32
	operations, tools       uint32
	failed, backoff, tool   int64
	hiddenPath, hiddenTotal *int64
	columnSum               int64
}

// await waits for the one request of a trace, and requires that it and all else was stored in time.
func (r reader) await(trace string) requestRow {
	r.t.Helper()
	eventually(r.t, stored+5*time.Second, func() error {
		return want(r.t, r.conn, 1, "SELECT count() FROM requests WHERE trace_id = ?", trace)
	})
	var q requestRow
	require.NoError(r.t, r.conn.QueryRow(r.t.Context(), `SELECT request_id, kind, name, ended_at, user_time_ns, attempts, retries, operations, tool_calls,
		failed_attempt_ns, backoff_ns, tool_ns, hidden_path_ns, hidden_total_ns,
		failed_attempt_ns + backoff_ns + queue_ns + connect_ns + ttft_segment_ns + generation_ns + inference_segment_ns + tool_ns + agent_ns + unattributed_ns
		FROM requests WHERE trace_id = ?`, trace).Scan(&q.id, &q.kind, &q.name, &q.ended, &q.user, &q.attempts, &q.retries, &q.operations, &q.tools,
		&q.failed, &q.backoff, &q.tool, &q.hiddenPath, &q.hiddenTotal, &q.columnSum))
	require.Equal(r.t, q.user, q.columnSum, "a request's segments partition its wall clock")
	eventually(r.t, stored, func() error {
		if sum := scalar[int64](r.t, r.conn, "SELECT sum(duration_ns) FROM segments WHERE trace_id = ? AND request_id = ?", trace, q.id); sum != q.user {
			return fmt.Errorf("the segments of %s are %d ns, the request %d", trace, sum, q.user)
		}
		return nil
	})
	var latest time.Time
	for _, table := range []string{"requests_base", "operations_base", "attempts_base", "segments_base"} {
		if at := scalar[time.Time](r.t, r.conn, "SELECT max(stored_at) FROM "+table+" WHERE trace_id = ?", trace); at.After(latest) {
			latest = at
		}
	}
	r.t.Logf("%s: stored %.2f s after the root's end", q.name, latest.Sub(q.ended).Seconds())
	require.Less(r.t, latest.Sub(q.ended), stored)
	return q
}

type attemptRow struct {
	ordinal  uint32
	source   string
	status   uint16
	duration int64
	backoff  *int64
}

func (r reader) attempts(trace, operation string) []attemptRow {
	r.t.Helper()
	rows, err := r.conn.Query(r.t.Context(), `SELECT ordinal, source, http_status, duration_ns, backoff_before_ns FROM attempts
		WHERE trace_id = ? AND operation_id = ? ORDER BY ordinal`, trace, operation)
	require.NoError(r.t, err)
	defer rows.Close()
	var out []attemptRow
	for rows.Next() {
		var a attemptRow
		require.NoError(r.t, rows.Scan(&a.ordinal, &a.source, &a.status, &a.duration, &a.backoff))
		out = append(out, a)
	}
	require.NoError(r.t, rows.Err())
	return out
}

// server returns the log of the server's last n attempts in a trace.
func (r reader) server(trace string, n int) []fakellm.LogEntry {
	r.t.Helper()
	var out []fakellm.LogEntry
	for _, e := range r.llm.Log() {
		if e.TraceID == trace {
			out = append(out, e)
		}
	}
	require.GreaterOrEqual(r.t, len(out), n)
	return out[len(out)-n:]
}

// retried holds an operation answered 503, 503, 200 against the server's log, and returns its failed time and backoff.
func (r reader) retried(trace string) (opFailed, opBackoff int64, timing error) {
	r.t.Helper()
	const source = "http_child"
	var id, how string
	var n *uint32
	var hidden int64
	var failed, backoff time.Duration
	eventually(r.t, stored, func() error {
		return want(r.t, r.conn, 1, "SELECT count() FROM operations WHERE trace_id = ? AND attempts = 3", trace)
	})
	require.NoError(r.t, r.conn.QueryRow(r.t.Context(), `SELECT operation_id, attempts, attempt_source, failed_attempt_ns, backoff_ns, ifNull(hidden_total_ns, -1)
		FROM operations WHERE trace_id = ? AND kind = 'chat' AND attempts = 3`, trace).Scan(&id, &n, &how, &opFailed, &opBackoff, &hidden))
	require.Equal(r.t, source, how)
	attempts := r.attempts(trace, id)
	require.Len(r.t, attempts, 3)
	log := r.server(trace, 3)
	var serverFailed, serverBackoff time.Duration
	for i, a := range attempts {
		require.EqualValues(r.t, i+1, a.ordinal)
		require.Equal(r.t, source, a.source)
		require.EqualValues(r.t, log[i].Status, a.status)
		require.Equal(r.t, i == 0, a.backoff == nil, "only the first attempt has no backoff before it")
		if i > 0 {
			backoff += time.Duration(*a.backoff)
			serverBackoff += log[i].Received().Sub(log[i-1].Completed())
		}
		if i < 2 {
			failed += time.Duration(a.duration)
			serverFailed += log[i].Completed().Sub(log[i].Received())
		}
	}
	r.t.Logf("failed %s (server %s, off by %s), backoff %s (server %s, off by %s)", failed, serverFailed, failed-serverFailed, backoff, serverBackoff, backoff-serverBackoff)
	require.Equal(r.t, opFailed+opBackoff, hidden)
	// The operation's failed time also has the SDK's own work before the first attempt's span.
	return opFailed, opBackoff, errors.Join(
		agree("failed attempts", failed, serverFailed, near), agree("backoff between attempts", backoff, serverBackoff, near),
		agree("the operation's failed time", time.Duration(opFailed), serverFailed, near), agree("the operation's backoff", time.Duration(opBackoff), serverBackoff, near))
}

// agree says if a time differs from the server's by more than the bar.
func agree(what string, got, server, bar time.Duration) error {
	if (got - server).Abs() > bar {
		return fmt.Errorf("%s: %s, the server says %s", what, got, server)
	}
	return nil
}

func (r reader) retry503(trace string) error {
	r.t.Helper()
	q := r.await(trace)
	failed, backoff, timing := r.retried(trace)
	require.NotNil(r.t, q.attempts)
	require.EqualValues(r.t, 3, *q.attempts)
	require.EqualValues(r.t, 2, *q.retries)
	require.Equal(r.t, failed, q.failed)
	require.Equal(r.t, backoff, q.backoff)
	require.EqualValues(r.t, failed+backoff, *q.hiddenPath)
	return timing
}

func (r reader) stream(trace string, ttftKnown bool) error {
	r.t.Helper()
	q := r.await(trace)
	var stream, state string
	var ttft *int64
	var generation int64
	require.NoError(r.t, r.conn.QueryRow(r.t.Context(), "SELECT stream, ttft_state, ttft_ns, generation_ns FROM operations WHERE trace_id = ? AND kind = 'chat'", trace).
		Scan(&stream, &state, &ttft, &generation))
	log := r.server(trace, 1)[0]
	r.t.Logf("stream %s, ttft %s, generation %s, user time %s (server %s)", stream, state, time.Duration(generation), time.Duration(q.user), log.Completed().Sub(log.Received()))
	if !ttftKnown {
		require.Nil(r.t, ttft, "no span tells the first token")
		require.Equal(r.t, "missing", state)
		require.Zero(r.t, generation)
		return nil
	}
	require.Equal(r.t, "yes", stream)
	require.Equal(r.t, "known", state)
	first := time.Unix(0, *log.FirstTokenAt)
	return errors.Join(agree("first token", time.Duration(*ttft), first.Sub(log.Received()), 2*near), agree("generation", time.Duration(generation), log.Completed().Sub(first), 2*near))
}

func (r reader) agent(trace string) error {
	r.t.Helper()
	q := r.await(trace)
	require.Equal(r.t, "agent", q.kind)
	require.Contains(r.t, []string{"invoke_agent helper", "invoke_agent gpt-4o-mini"}, q.name)
	failed, backoff, timing := r.retried(trace)
	require.EqualValues(r.t, 1, q.tools)
	require.EqualValues(r.t, 2, *q.retries)
	require.EqualValues(r.t, failed+backoff, *q.hiddenPath)
	require.EqualValues(r.t, failed+backoff, *q.hiddenTotal)
	kinds := list[string](r.t, r.conn, "SELECT kind FROM operations WHERE trace_id = ? AND kind IN ('chat', 'tool') ORDER BY started_at", trace)
	require.Equal(r.t, []string{"chat", "tool", "chat"}, kinds)
	return errors.Join(timing, agree("the tool's 200 ms", time.Duration(q.tool), 200*time.Millisecond, 2*near))
}

// marker is a word that occurs in content only.
const marker = "xyzzyplugh"

// contentSpans is a call whose spans carry content in all places that instrumentations are known to use.
func contentSpans() ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "talkative")
	span := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetTraceID(pcommon.TraceID{0xc0, 1})
	span.SetSpanID(pcommon.SpanID{0xc0, 1})
	span.SetName("chat gpt-4o-mini")
	span.SetKind(ptrace.SpanKindClient)
	now := time.Now()
	span.SetStartTimestamp(pcommon.NewTimestampFromTime(now.Add(-time.Second)))
	span.SetEndTimestamp(pcommon.NewTimestampFromTime(now))
	span.Status().SetCode(ptrace.StatusCodeError)
	span.Status().SetMessage("bad answer: " + marker)
	a := span.Attributes()
	a.PutStr("gen_ai.operation.name", "chat")
	a.PutStr("gen_ai.request.model", "gpt-4o-mini")
	for _, key := range []string{
		"gen_ai.prompt", "gen_ai.completion", "gen_ai.prompt.0.content", "gen_ai.completion.0.content", "gen_ai.input.messages", "gen_ai.output.messages",
		"gen_ai.system_instructions", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.tool.definitions", "input.value", "output.value",
		"llm.input_messages.0.message.content", "llm.output_messages.0.message.content", "llm.prompts", "llm.invocation_parameters", "traceloop.entity.input",
		"traceloop.entity.output", "ai.prompt", "ai.response.text", "ai.prompt.messages", "embedding.embeddings.0.embedding.text", "http.request.body", "retrieval.documents.0.document.content",
		"exception.message", "url.query",
	} {
		a.PutStr(key, "secret "+marker)
	}
	a.PutStr("url.full", "https://api.example.com/v1/chat?q="+marker)
	for _, name := range []string{"gen_ai.content.prompt", "gen_ai.content.completion", "gen_ai.user.message", "gen_ai.choice", "exception", "gen_ai.client.inference.operation.details"} {
		e := span.Events().AppendEmpty()
		e.SetName(name)
		e.SetTimestamp(span.EndTimestamp())
		for _, key := range []string{"content", "message", "gen_ai.prompt", "gen_ai.completion", "gen_ai.input.messages", "exception.message", "exception.stacktrace"} {
			e.Attributes().PutStr(key, "secret "+marker)
		}
	}
	return td
}
