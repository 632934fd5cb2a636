package fakellm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// request is what the server reads of a request: its shape, never its content.
type request struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages json.RawMessage `json:"messages"`
	Input    json.RawMessage `json:"input"`

	inputTokens int
	inputs      int
	turn        int
}

// answer shapes the bodies of one endpoint. Its stream methods return complete server-sent events.
type answer interface {
	// plain is the JSON body of an answer that is not streamed.
	plain(q request, st Step, id string, created int64) any
	// open, token and finish are the events before the first token, of token i, and after the last one.
	open(q request, st Step, id string, created int64) []byte
	token(q request, st Step, id string, created int64, i int) []byte
	finish(q request, st Step, id string, created int64) []byte
	// streams says whether the endpoint can stream at all.
	streams() bool
}

var errStopped = errors.New("attempt stopped by its script")

// attempt is one request on its way through its step.
type attempt struct {
	s     *Server
	w     http.ResponseWriter
	q     request
	st    Step
	entry LogEntry
	id    string
	ctx   context.Context
}

// handle returns the handler of one endpoint.
func (s *Server) handle(shape answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seq := s.log.begin()
		a := &attempt{s: s, w: w, id: fmt.Sprintf("fake-%06d", seq), entry: LogEntry{Seq: seq, Path: r.URL.Path, Outcome: OutcomeComplete}}
		// The entry is filed even when the handler panics to make net/http drop the connection.
		defer func() {
			a.entry.CompletedAt = s.now().UnixNano()
			s.log.end(a.entry)
		}()
		if err := a.read(r); err != nil {
			a.fail(http.StatusBadRequest, err.Error())
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			select {
			case <-s.closed:
				cancel()
			case <-ctx.Done():
			}
		}()
		a.ctx = ctx
		if err := a.play(shape); err != nil && !errors.Is(err, errStopped) {
			a.entry.Outcome = OutcomeClientGone
			select {
			case <-s.closed:
				a.entry.Outcome = OutcomeServerClosed
			default:
			}
			if a.entry.FirstByteAt == nil || a.q.Stream {
				panic(http.ErrAbortHandler) // else net/http would end the answer as if it were whole
			}
		}
	}
}

// read takes in the request and chooses its step.
func (a *attempt) read(r *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(a.w, r.Body, maxBodyBytes))
	a.entry.ReceivedAt = a.s.now().UnixNano()
	if err != nil {
		return fmt.Errorf("cannot read the request: %w", err)
	}
	if err := json.Unmarshal(body, &a.q); err != nil {
		return errors.New("the request body is not the JSON of an OpenAI request")
	}
	content := a.q.Messages
	if content == nil {
		content = a.q.Input
	}
	a.q.inputTokens = max(1, len(content)/4) // about four characters a token
	a.q.turn = turnOf(content)
	a.q.inputs = 1
	var list []json.RawMessage
	if json.Unmarshal(a.q.Input, &list) == nil {
		a.q.inputs = len(list)
	}
	a.q.Messages, a.q.Input = nil, nil

	e := &a.entry
	e.Model, e.Stream, e.InputTokens = a.q.Model, a.q.Stream, a.q.inputTokens
	e.TraceID, e.ParentSpanID = traceparent(r.Header)
	e.AttemptHeader = retryCount(r.Header)
	e.Script, e.Step, e.AttemptSeen, a.st, err = a.s.pick(r, e.Model, e.TraceID, a.q.turn, e.AttemptHeader)
	e.Turn = a.st.Turn
	return err
}

// turnOf counts the answers that a request repeats: a conversation's first call has none.
func turnOf(messages json.RawMessage) int {
	var list []struct {
		Role string `json:"role"`
		Type string `json:"type"`
	}
	if json.Unmarshal(messages, &list) != nil {
		return 0 // a text, or a list of texts
	}
	turns, answered := 0, false
	for _, m := range list {
		answer := m.Role == "assistant" || m.Type == "function_call"
		if answer && !answered { // one answer can be several items
			turns++
		}
		answered = answer
	}
	return turns
}

// play answers by the step. An error other than errStopped means that the wait or the connection ended first.
func (a *attempt) play(shape answer) error {
	stream := a.q.Stream && shape.streams()
	wait := a.st.HeaderDelay
	if a.st.Status == http.StatusOK && !stream {
		wait += a.st.FirstTokenDelay + time.Duration(a.st.Tokens-1)*a.st.TokenInterval
	}
	if err := a.s.sleep(a.ctx, wait); err != nil {
		return err
	}
	if a.st.Fault != FaultNone && (a.st.FaultAfter < 0 || !stream) {
		return a.fault()
	}
	if a.st.RetryAfter != "" {
		a.w.Header().Set("Retry-After", a.st.RetryAfter)
	}
	a.w.Header().Set("X-Request-Id", a.id)
	if a.st.Status != http.StatusOK {
		a.fail(a.st.Status, "scripted "+http.StatusText(a.st.Status))
		return nil
	}
	if stream {
		return a.stream(shape)
	}
	body, err := json.Marshal(shape.plain(a.q, a.st, a.id, a.s.now().Unix()))
	if err != nil {
		return err
	}
	a.entry.OutputTokens = a.st.Tokens
	return a.send("application/json", body)
}

func (a *attempt) stream(shape answer) error {
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	a.w.WriteHeader(http.StatusOK)
	a.entry.Status = http.StatusOK
	if err := a.flush(); err != nil {
		return err
	}
	a.markFirstByte()
	created := a.s.now().Unix()
	if err := a.write(shape.open(a.q, a.st, a.id, created)); err != nil {
		return err
	}
	for i := range a.st.Tokens {
		pause := a.st.TokenInterval
		if i == 0 {
			pause = a.st.FirstTokenDelay
		}
		if a.st.Fault != FaultNone && i >= a.st.FaultAfter {
			return a.fault()
		}
		if a.st.Pause > 0 && i == a.st.PauseAfter {
			pause += a.st.Pause
		}
		if err := a.s.sleep(a.ctx, pause); err != nil {
			return err
		}
		if err := a.write(shape.token(a.q, a.st, a.id, created, i)); err != nil {
			return err
		}
		if i == 0 {
			t := a.s.now().UnixNano()
			a.entry.FirstTokenAt = &t
		}
		a.entry.OutputTokens++
	}
	return a.write(shape.finish(a.q, a.st, a.id, created))
}

// fault lets the attempt stall until someone gives up, or resets its connection.
func (a *attempt) fault() error {
	if a.st.Fault == FaultStall {
		<-a.ctx.Done()
		return a.ctx.Err()
	}
	a.entry.Outcome = OutcomeReset
	conn, _, err := http.NewResponseController(a.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 and recorders cannot be hijacked; a dropped stream comes nearest
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // makes Close send RST instead of FIN
	}
	_ = conn.Close()
	return errStopped
}

// fail sends an error answer.
func (a *attempt) fail(status int, message string) {
	var buf bytes.Buffer
	rec := bodyWriter{a.w.Header(), &buf}
	writeError(rec, status, message)
	a.st.Status = status
	_ = a.send("application/json", buf.Bytes()) // a client that has gone needs no error answer
}

// send writes a whole answer with its length.
func (a *attempt) send(contentType string, body []byte) error {
	h := a.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	a.w.WriteHeader(a.st.Status)
	a.entry.Status = a.st.Status
	a.markFirstByte()
	if a.st.Status == http.StatusNoContent || a.st.Status == http.StatusNotModified {
		return nil
	}
	return a.write(body)
}

func (a *attempt) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if _, err := a.w.Write(b); err != nil {
		return err
	}
	return a.flush()
}

func (a *attempt) flush() error { return http.NewResponseController(a.w).Flush() }

func (a *attempt) markFirstByte() {
	t := a.s.now().UnixNano()
	a.entry.FirstByteAt = &t
}

// bodyWriter lets writeError fill a buffer.
type bodyWriter struct {
	h http.Header
	io.Writer
}

func (b bodyWriter) Header() http.Header { return b.h }
func (b bodyWriter) WriteHeader(int)     {}
