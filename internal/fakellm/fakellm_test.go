package fakellm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// harness is a server on loopback whose clock moves only when an attempt sleeps.
type harness struct {
	*Server
	url string

	mu  sync.Mutex
	now time.Time
	log bytes.Buffer
}

func start(t *testing.T) *harness {
	t.Helper()
	h := &harness{now: time.Unix(1_700_000_000, 0)}
	h.Server = New(Options{
		Now: func() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.now },
		Sleep: func(ctx context.Context, d time.Duration) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.now = h.now.Add(d)
			return ctx.Err()
		},
		Log: &h.log,
	})
	web := httptest.NewServer(h.Server)
	h.url = web.URL
	t.Cleanup(func() { h.Close(); web.Close() })
	return h
}

// post sends one attempt; headers are pairs.
func (h *harness) post(ctx context.Context, path, body string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return http.DefaultClient.Do(r)
}

func (h *harness) status(t *testing.T, body string, headers ...string) int {
	t.Helper()
	resp, err := h.post(t.Context(), "/v1/chat/completions", body, headers...)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	return resp.StatusCode
}

func (h *harness) entries(t *testing.T) []LogEntry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, h.WaitIdle(ctx))
	return h.Log()
}

const plainBody = `{"model":"m","messages":[{"role":"user","content":"secret words"}]}`

func TestStepFollowsTheClientsOrdinal(t *testing.T) {
	h := start(t)
	script := []string{HeaderScript, "503@120ms,503@80ms,200@50ms;tokens=3;gap=10ms"}
	trace := []string{"traceparent", "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	want := []int{503, 503, 200}
	for i, status := range want {
		headers := append(append([]string{"x-stainless-retry-count", string(rune('0' + i))}, script...), trace...)
		require.Equal(t, status, h.status(t, plainBody, headers...))
	}
	log := h.entries(t)
	require.Len(t, log, 3)
	took := []time.Duration{120 * time.Millisecond, 80 * time.Millisecond, 70 * time.Millisecond}
	for i, e := range log {
		require.Equal(t, int64(i+1), e.Seq)
		require.Equal(t, want[i], e.Status)
		require.Equal(t, i, *e.AttemptHeader)
		require.Equal(t, i, e.AttemptSeen)
		require.Equal(t, i, e.Step)
		require.Equal(t, OutcomeComplete, e.Outcome)
		require.Equal(t, "0af7651916cd43dd8448eb211c80319c", e.TraceID)
		require.Equal(t, "b7ad6b7169203331", e.ParentSpanID)
		require.Equal(t, took[i], e.Completed().Sub(e.Received()))
		require.Equal(t, e.CompletedAt, *e.FirstByteAt, "a plain answer is sent at once")
		require.Nil(t, e.FirstTokenAt, "only a stream has a first token")
	}

	// A new first try of the same client starts over, though nothing else tells the two calls apart.
	require.Equal(t, 503, h.status(t, plainBody, append([]string{"x-stainless-retry-count", "0"}, script...)...))
}

func TestStepFollowsOwnCountWithoutAnOrdinal(t *testing.T) {
	h := start(t)
	require.NoError(t, h.SetScript("m", mustParse(t, "429;retry-after=7,200")))
	resp, err := h.post(t.Context(), "/v1/chat/completions", plainBody)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, "7", resp.Header.Get("Retry-After"))

	// Another trace is another call; so is another X-Fakellm-Call.
	require.Equal(t, 429, h.status(t, plainBody, "traceparent", "00-00000000000000000000000000000001-0000000000000001-01"))
	require.Equal(t, 429, h.status(t, plainBody, HeaderCall, "second"))
	require.Equal(t, 200, h.status(t, plainBody))
	require.Equal(t, 429, h.status(t, plainBody), "the call was over after its last step")
	for _, e := range h.entries(t) {
		require.Nil(t, e.AttemptHeader)
		require.Equal(t, "m", e.Script)
	}
}

func TestStream(t *testing.T) {
	h := start(t)
	resp, err := h.post(t.Context(), "/v1/chat/completions",
		`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}`, HeaderScript, "200@50ms;ttft=300ms;gap=20ms;tokens=4")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	var text string
	var usage map[string]any
	last := ""
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			require.Empty(t, lines.Text())
			continue
		}
		last = data
		var chunk struct {
			Choices []struct {
				Delta struct{ Content string }
			}
			Usage map[string]any
		}
		if data != "[DONE]" {
			require.NoError(t, json.Unmarshal([]byte(data), &chunk))
			if len(chunk.Choices) > 0 {
				text += chunk.Choices[0].Delta.Content
			}
			usage = chunk.Usage
		}
	}
	require.NoError(t, lines.Err())
	require.Equal(t, "[DONE]", last)
	require.Equal(t, "tok0 tok1 tok2 tok3 ", text)
	require.EqualValues(t, 4, usage["completion_tokens"])

	e := h.entries(t)[0]
	require.True(t, e.Stream)
	require.Equal(t, 4, e.OutputTokens)
	require.Equal(t, int64(50e6), *e.FirstByteAt-e.ReceivedAt)
	require.Equal(t, int64(350e6), *e.FirstTokenAt-e.ReceivedAt)
	require.Equal(t, int64(410e6), e.CompletedAt-e.ReceivedAt)
}

func TestResetBreaksTheConnection(t *testing.T) {
	h := start(t)
	_, err := h.post(t.Context(), "/v1/chat/completions", plainBody, HeaderScript, "reset")
	require.Error(t, err)

	resp, err := h.post(t.Context(), "/v1/chat/completions", `{"model":"m","stream":true}`, HeaderScript, "200;tokens=9;reset-after=2")
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err)

	log := h.entries(t)
	require.Len(t, log, 2)
	require.Equal(t, OutcomeReset, log[0].Outcome)
	require.Zero(t, log[0].Status)
	require.Nil(t, log[0].FirstByteAt)
	require.Equal(t, OutcomeReset, log[1].Outcome)
	require.Equal(t, 2, log[1].OutputTokens)
}

func TestStallEndsWithTheClientOrTheServer(t *testing.T) {
	h := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := h.post(ctx, "/v1/chat/completions", `{"model":"m","stream":true}`, HeaderScript, "200;stall-after=1")
	require.NoError(t, err)
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "tok0")
	cancel()
	resp.Body.Close()
	require.Equal(t, OutcomeClientGone, h.entries(t)[0].Outcome)

	failed := make(chan error, 1)
	go func() {
		_, err := h.post(context.WithoutCancel(t.Context()), "/v1/chat/completions", plainBody, HeaderScript, "stall")
		failed <- err
	}()
	require.Eventually(t, func() bool { return !isClosed(h.Server.log.idleChan()) }, 10*time.Second, time.Millisecond)
	h.Close()
	require.Error(t, <-failed)
	require.Equal(t, OutcomeServerClosed, h.entries(t)[1].Outcome)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestToolCallResponsesAndEmbeddings(t *testing.T) {
	h := start(t)
	decode := func(path, body string, headers ...string) map[string]any {
		resp, err := h.post(t.Context(), path, body, headers...)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, 200, resp.StatusCode)
		var v map[string]any
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&v))
		return v
	}
	chat := decode("/v1/chat/completions", plainBody, HeaderScript, "200;tool=lookup")
	choice := chat["choices"].([]any)[0].(map[string]any)
	require.Equal(t, "tool_calls", choice["finish_reason"])
	call := choice["message"].(map[string]any)["tool_calls"].([]any)[0].(map[string]any)
	require.Equal(t, "lookup", call["function"].(map[string]any)["name"])

	responses := decode("/v1/responses", `{"model":"m","input":"x"}`)
	require.Equal(t, "completed", responses["status"])

	embeddings := decode("/v1/embeddings", `{"model":"e","input":["a","b","c"]}`)
	require.Len(t, embeddings["data"], 3)
}

func TestAdminEndpointsAndContentFreeLog(t *testing.T) {
	h := start(t)
	resp, err := h.post(t.Context(), "/_script", `{"key":"m","script":"504"}`)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
	require.Equal(t, 504, h.status(t, plainBody))

	resp, err = h.post(t.Context(), "/_script", `{"key":"m","script":"9,200;speed=2"}`)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.Contains(t, string(text), "script step 1")
	require.Contains(t, string(text), "script step 2")

	require.Equal(t, 400, h.status(t, `not json`))
	require.Equal(t, 400, h.status(t, plainBody, HeaderScript, "nonsense"))

	get, err := http.Get(h.url + "/_log?wait=10s")
	require.NoError(t, err)
	defer get.Body.Close()
	served, err := io.ReadAll(get.Body)
	require.NoError(t, err)
	require.Equal(t, h.log.String(), string(served), "the log file and GET /_log agree")
	require.Equal(t, 3, strings.Count(string(served), "\n"))
	require.NotContains(t, string(served), "secret")
	require.NoError(t, h.LogError())
}

func TestParseScript(t *testing.T) {
	script := mustParse(t, " 503@1.5s , stall, 200;ttft=1s;gap=2ms;tokens=5;retry-after=3;tool=x,200;reset-after=0")
	require.Equal(t, Step{Status: 503, HeaderDelay: 1500 * time.Millisecond, Tokens: defaultTokens, FaultAfter: -1}, script[0])
	require.Equal(t, FaultStall, script[1].Fault)
	require.Equal(t, Step{Status: 200, FirstTokenDelay: time.Second, TokenInterval: 2 * time.Millisecond, Tokens: 5, FaultAfter: -1, RetryAfter: "3", Tools: []string{"x"}}, script[2])
	require.Equal(t, 0, script[3].FaultAfter)
	require.Equal(t, script[3], script.At(99))

	for _, bad := range []string{"", " ", "200,,200", "99", "600", "200@-1s", "200@2h", "200;ttft", "200;tokens=0", "200;gap=fast", "200;pause=1s", "200;pause-after=3", "200;tool=a+", "200|", "|200", strings.Repeat("200,", maxSteps) + "200"} {
		_, err := ParseScript(bad)
		require.Error(t, err, "script %q", bad)
	}
}

func TestTurnsFollowTheConversation(t *testing.T) {
	script := mustParse(t, "200;tool=a+b|503,200|504")
	require.Equal(t, []string{"a", "b"}, script.ForTurn(0).At(0).Tools)
	require.Len(t, script.ForTurn(1), 2)
	require.Equal(t, 504, script.ForTurn(2).At(5).Status)
	require.Equal(t, script.ForTurn(2), script.ForTurn(7), "later calls get the last turn again")

	h := start(t)
	const (
		asked    = `{"role":"user","content":"secret"}`
		answered = `,{"role":"assistant","tool_calls":[]},{"role":"tool","content":"x"},{"role":"tool","content":"y"}`
	)
	body := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	inline := []string{HeaderScript, "200;tool=a+b|503,200|504"}
	for i, want := range []int{200, 503, 200, 504} {
		turn := []int{0, 1, 1, 2}[i]
		require.Equal(t, want, h.status(t, body(asked+strings.Repeat(answered, turn)), inline...), "attempt %d", i)
		e := h.entries(t)[i]
		require.Equal(t, turn, e.Turn)
		require.Equal(t, []int{0, 0, 1, 0}[i], e.Step)
	}
	// The Responses API repeats each call of an answer as an item of its own.
	require.Equal(t, 1, turnOf(json.RawMessage(`[{"role":"user"},{"type":"function_call"},{"type":"function_call"},{"type":"function_call_output"}]`)))
	require.Zero(t, turnOf(json.RawMessage(`["a","b"]`)))
	require.Zero(t, turnOf(nil))
}

func TestStreamPausesAndGoesOn(t *testing.T) {
	h := start(t)
	resp, err := h.post(t.Context(), "/v1/chat/completions", `{"model":"m","stream":true}`, HeaderScript, "200;ttft=100ms;gap=10ms;tokens=6;pause=400ms;pause-after=4")
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	e := h.entries(t)[0]
	require.Equal(t, 6, e.OutputTokens)
	require.Equal(t, int64(100e6), *e.FirstTokenAt-e.ReceivedAt)
	require.Equal(t, int64(550e6), e.CompletedAt-e.ReceivedAt)
}

func TestToolsAreAskedForAtOnce(t *testing.T) {
	h := start(t)
	resp, err := h.post(t.Context(), "/v1/chat/completions", `{"model":"m","stream":true}`, HeaderScript, "200;tokens=3;tool=a+b")
	require.NoError(t, err)
	defer resp.Body.Close()
	names, arguments := map[int]string{}, map[int]string{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: {")
		if !ok {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					ToolCalls []struct {
						Index    int
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
		}
		require.NoError(t, json.Unmarshal([]byte("{"+data), &chunk))
		for _, call := range chunk.Choices[0].Delta.ToolCalls {
			names[call.Index] += call.Function.Name
			arguments[call.Index] += call.Function.Arguments
		}
	}
	require.NoError(t, lines.Err())
	require.Equal(t, map[int]string{0: "a", 1: "b"}, names)
	require.JSONEq(t, "{}", arguments[0])
	require.JSONEq(t, "{}", arguments[1])
}

func mustParse(t *testing.T, text string) Script {
	t.Helper()
	s, err := ParseScript(text)
	require.NoError(t, err)
	return s
}
