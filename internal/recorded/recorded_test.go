package recorded

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

var (
	sdks = []string{
		"node-otel", "node-otel-headers", "node-openllmetry", "node-openinference",
		"python-otel", "python-otel-latest", "python-openllmetry", "python-openinference",
	}
	frameworks = []string{"node-vercel", "node-vercel-legacy", "python-pydantic-ai", "python-langchain-openinference", "python-langchain-openllmetry"}
	scenarios  = []string{
		"retry503", "stream", "streamretry503", "ratelimit429", "exhausted504", "timeout", "reset", "embeddings", "agent",
		"stallstream", "stallresume", "abortstream", "abortcall", "toolerror", "paralleltools",
	}
)

func TestEverySDKHasEveryScenario(t *testing.T) {
	var want []string
	for _, sdk := range append(frameworks, sdks...) {
		for _, scenario := range scenarios {
			if strings.HasPrefix(sdk, "node-vercel") && scenario == "timeout" || sdk == "python-pydantic-ai" && scenario == "embeddings" {
				continue // a timeout ends the call, not an attempt; embeddings are no part of an agent
			}
			want = append(want, sdk+"-"+scenario)
		}
	}
	slices.Sort(want)
	require.Equal(t, want, Names(t))
}

func TestFixturesHoldNoContent(t *testing.T) {
	dir, err := folder()
	require.NoError(t, err)
	// What the traffic programs ask and the test server answers, and what would betray the recording machine.
	// A name as short as "root" would be found in innocent words.
	forbidden := []string{"synthetic", "tok0", "scripted", "REDACTED", "not-a-key", "/home/", "/root/", "/tmp/", "site-packages", "node_modules"}
	if host, err := os.Hostname(); err == nil && len(host) > 6 {
		forbidden = append(forbidden, host)
	}
	if u, err := user.Current(); err == nil && len(u.Username) > 6 {
		forbidden = append(forbidden, u.Username)
	}
	for _, name := range Names(t) {
		traces, _ := Load(t, name)
		require.Empty(t, Violations(traces), name)
		for _, file := range []string{name + ".json", name + RequestsSuffix} {
			data, err := os.ReadFile(filepath.Join(dir, file))
			require.NoError(t, err)
			for _, word := range forbidden {
				require.NotContains(t, string(data), word, file)
			}
		}
	}
}

func TestEachFixtureIsOneTraceThatTheServerSaw(t *testing.T) {
	for _, name := range Names(t) {
		traces, log := Load(t, name)
		require.NotEmpty(t, log, name)
		for _, s := range allSpans(traces) {
			require.Equal(t, log[0].TraceID, s.TraceID().String(), name)
		}
		for _, e := range log {
			require.Equal(t, log[0].TraceID, e.TraceID, name)
			if e.AttemptHeader == nil {
				require.Contains(t, name, "vercel", "the openai SDKs number their attempts")
				continue
			}
			require.Equal(t, *e.AttemptHeader, e.AttemptSeen, "%s: the SDK and the server count alike", name)
		}
	}
}

// TestRetriesAgreeWithTheServer checks the facts on which attempts are read from child HTTP spans: each attempt has
// exactly one, it is the one that called the server, and failed time and backoff are the same from both sides.
func TestRetriesAgreeWithTheServer(t *testing.T) {
	const (
		// near is the bar for failed time and backoff of a whole operation.
		near = 50 * time.Millisecond
		// tick covers clients whose clock starts spans at whole milliseconds.
		tick = 2 * time.Millisecond
	)
	for _, sdk := range sdks {
		traces, log := Load(t, sdk+"-retry503")
		require.Len(t, log, 3, sdk)
		http := map[string]ptrace.Span{}
		var roots int
		for _, s := range allSpans(traces) {
			if s.Name() == "POST" {
				http[s.SpanID().String()] = s
			}
			if s.ParentSpanID().IsEmpty() {
				roots++
			}
		}
		require.Len(t, http, 3, sdk)
		require.Equal(t, 1, roots, sdk)

		var spans []ptrace.Span
		for i, e := range log {
			s, ok := http[e.ParentSpanID]
			require.True(t, ok, "%s: the span of attempt %d is the parent that the server was told", sdk, i)
			require.Equal(t, ptrace.SpanKindClient, s.Kind(), sdk)
			require.False(t, s.StartTimestamp().AsTime().After(e.Received().Add(tick)), sdk)
			require.False(t, s.EndTimestamp().AsTime().Before(time.Unix(0, *e.FirstByteAt).Add(-tick)), sdk)
			require.Equal(t, []int{503, 503, 200}[i], e.Status, sdk)
			require.Equal(t, e.Status != 200, s.Status().Code() == ptrace.StatusCodeError, sdk)
			spans = append(spans, s)
		}
		var failed, backoff, serverFailed, serverBackoff time.Duration
		for i := range 2 {
			failed += spans[i].EndTimestamp().AsTime().Sub(spans[i].StartTimestamp().AsTime())
			backoff += spans[i+1].StartTimestamp().AsTime().Sub(spans[i].EndTimestamp().AsTime())
			serverFailed += log[i].Completed().Sub(log[i].Received())
			serverBackoff += log[i+1].Received().Sub(log[i].Completed())
		}
		require.InDelta(t, serverFailed, failed, float64(near), "%s: failed time, client %s and server %s", sdk, failed, serverFailed)
		require.InDelta(t, serverBackoff, backoff, float64(near), "%s: backoff, client %s and server %s", sdk, backoff, serverBackoff)
		require.Greater(t, backoff, 600*time.Millisecond, "%s: SDKs wait between attempts, outside of any span", sdk)
	}
}

func TestSanitizeRemovesContent(t *testing.T) {
	traces := ptrace.NewTraces()
	rs := traces.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "svc")
	rs.Resource().Attributes().PutStr("host.name", "somebody")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().Attributes().PutStr("x", "y")
	s := ss.Spans().AppendEmpty()
	s.SetName("chat a/b and then the whole prompt follows here")
	s.Status().SetMessage("the answer was: no")
	a := s.Attributes()
	a.PutStr("gen_ai.request.model", "gpt-4o-mini")
	a.PutInt("gen_ai.usage.input_tokens", 7)
	a.PutStr("gen_ai.prompt.0.content", "hello")
	a.PutStr("gen_ai.input.messages", "[]")
	a.PutStr("http.url", "http://h/v1?"+strings.Repeat("q", 200))
	a.PutStr("gen_ai.agent.name", "/home/somebody/agent")
	a.PutEmptyMap("error.type").PutStr("k", "v")
	a.PutEmptySlice("gen_ai.response.finish_reasons").AppendEmpty().SetStr("stop")
	e := s.Events().AppendEmpty()
	e.SetName("exception")
	e.Attributes().PutStr("exception.type", "ValueError")
	e.Attributes().PutStr("exception.message", "hello")
	s.Links().AppendEmpty().Attributes().PutStr("note", "hello")

	require.Len(t, Violations(traces), 11)
	require.Equal(t, []string{
		"error.type", "exception.message", "gen_ai.agent.name", "gen_ai.input.messages", "gen_ai.prompt.0.content",
		"host.name", "http.url", "note", "span.name", "status.message", "x",
	}, Sanitize(traces))
	require.Empty(t, Violations(traces))
	require.Equal(t, 3, a.Len())
	require.Equal(t, 1, e.Attributes().Len())
	require.Equal(t, "redacted", s.Name())
	require.Empty(t, Sanitize(traces), "a second pass finds nothing")
}

func allSpans(traces ptrace.Traces) []ptrace.Span {
	var spans []ptrace.Span
	visit(traces, func(map[string]bool, pcommon.Map) {}, func(s ptrace.Span) { spans = append(spans, s) })
	return spans
}
