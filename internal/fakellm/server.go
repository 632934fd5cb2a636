package fakellm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// HeaderScript names a registered script or carries an inline one, for one request.
	HeaderScript = "X-Fakellm-Script"
	// HeaderCall groups the attempts of one logical call when several run at once in one trace with one script.
	HeaderCall = "X-Fakellm-Call"

	headerRetryCount = "X-Stainless-Retry-Count"

	maxBodyBytes = 8 << 20
	maxScripts   = 10_000
	maxCalls     = 100_000
	maxIdleWait  = time.Minute
)

// Options are the parts of a Server that a caller may replace. The zero value is a server on the real clock without a log file.
type Options struct {
	// Now tells the time; time.Now when nil.
	Now func() time.Time
	// Sleep waits for d or until ctx is done, whose error it then returns; a real timer when nil.
	Sleep func(ctx context.Context, d time.Duration) error
	// Log receives each finished attempt as one JSON line; nothing when nil. Writes are never concurrent.
	Log io.Writer
	// Scripts are registered from the start, by key. A request uses the script whose key is its model.
	Scripts map[string]Script
}

// Server answers OpenAI-shaped requests by script. It is an http.Handler and safe for concurrent use.
//
// A request's script is the one its X-Fakellm-Script header names or contains, else the one registered under its
// model, else DefaultScript. The turn is chosen by the answers that the request repeats, the step by the client's own retry ordinal when it sends one, else by
// counting the attempts of the call; a call is then over once its last step was served.
type Server struct {
	now    func() time.Time
	sleep  func(context.Context, time.Duration) error
	log    *requestLog
	mux    *http.ServeMux
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	scripts map[string]Script
	seen    map[callKey]int
}

type callKey struct {
	script, call, trace, model, path string
	turn                             int
}

// New makes a server. Close it to end attempts that are still waiting.
func New(o Options) *Server {
	s := &Server{
		now: o.Now, sleep: o.Sleep, log: newRequestLog(o.Log), mux: http.NewServeMux(), closed: make(chan struct{}),
		scripts: map[string]Script{}, seen: map[callKey]int{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.sleep == nil {
		s.sleep = sleepTimer
	}
	for key, script := range o.Scripts {
		s.scripts[key] = script
	}
	s.mux.HandleFunc("POST /v1/chat/completions", s.handle(chatAnswer{}))
	s.mux.HandleFunc("POST /v1/responses", s.handle(responsesAnswer{}))
	s.mux.HandleFunc("POST /v1/embeddings", s.handle(embeddingsAnswer{}))
	s.mux.HandleFunc("POST /_script", s.postScript)
	s.mux.HandleFunc("GET /_log", s.getLog)
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close ends every waiting attempt. It may be called more than once.
func (s *Server) Close() { s.once.Do(func() { close(s.closed) }) }

// SetScript registers a script under a key, which is a model name or what X-Fakellm-Script names.
// It fails when the key is empty, the script has no step, or too many keys are registered.
func (s *Server) SetScript(key string, script Script) error {
	if key == "" || len(script) == 0 {
		return errors.New("a script needs a key and at least one step")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.scripts[key]; !known && len(s.scripts) >= maxScripts {
		return fmt.Errorf("%d scripts are registered already, which is the most this server keeps", maxScripts)
	}
	s.scripts[key] = script
	return nil
}

// Log returns the finished attempts in the order in which they ended.
func (s *Server) Log() []LogEntry { return s.log.snapshot() }

// LogError returns the first failure to write to Options.Log, if any.
func (s *Server) LogError() error { return s.log.err() }

// WaitIdle returns once no attempt is in flight, so that Log holds every attempt whose answer a client has seen;
// or with ctx's error.
func (s *Server) WaitIdle(ctx context.Context) error {
	select {
	case <-s.log.idleChan():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("attempts are still in flight: %w", ctx.Err())
	}
}

// postScript registers {"key": …, "script": …} with the script in compact notation.
func (s *Server) postScript(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Key    string `json:"key"`
		Script string `json:"script"`
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil {
		writeError(w, http.StatusBadRequest, `body is not {"key": …, "script": …}: `+err.Error())
		return
	}
	script, err := ParseScript(body.Script)
	if err == nil {
		err = s.SetScript(body.Key, script)
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// getLog writes the log as JSON lines. ?wait=5s first waits that long for attempts in flight; ?trace_id= selects one trace.
func (s *Server) getLog(w http.ResponseWriter, r *http.Request) {
	if text := r.URL.Query().Get("wait"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d > maxIdleWait {
			writeError(w, http.StatusBadRequest, fmt.Sprintf("wait=%q is not a duration from 0 to %s", text, maxIdleWait))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), d)
		defer cancel()
		if err := s.WaitIdle(ctx); err != nil {
			writeError(w, http.StatusConflict, err.Error())
			return
		}
	}
	trace := r.URL.Query().Get("trace_id")
	w.Header().Set("Content-Type", "application/jsonl")
	enc := json.NewEncoder(w)
	for _, e := range s.log.snapshot() {
		if trace != "" && e.TraceID != trace {
			continue
		}
		if err := enc.Encode(e); err != nil {
			return // the reader has gone
		}
	}
}

// pick chooses the script and step of an attempt and counts it. turn is the call's place in its conversation, header the
// client's ordinal, or nil.
func (s *Server) pick(r *http.Request, model, trace string, turn int, header *int) (key string, step, seen int, st Step, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, script := "default", DefaultScript()
	if h := r.Header.Get(HeaderScript); h != "" {
		key = h
		if known, ok := s.scripts[h]; ok {
			script = known
		} else if script, err = ParseScript(h); err != nil {
			return "", 0, 0, Step{}, fmt.Errorf("header %s is no registered script and no inline one: %w", HeaderScript, err)
		}
	} else if known, ok := s.scripts[model]; ok {
		key, script = model, known
	}

	script = script.ForTurn(turn)
	call := callKey{script: key, call: r.Header.Get(HeaderCall), trace: trace, model: model, path: r.URL.Path, turn: turn}
	if header != nil && *header == 0 {
		delete(s.seen, call) // a first try starts a new call
	}
	seen = s.seen[call]
	step = seen
	if header != nil {
		step = *header
	}
	step = min(step, len(script)-1)
	if len(s.seen) >= maxCalls {
		clear(s.seen) // a server left running for days forgets; open calls then restart their count
	}
	if header == nil && step == len(script)-1 {
		delete(s.seen, call)
	} else {
		s.seen[call] = seen + 1
	}
	return key, step, seen, script[step], nil
}

func retryCount(h http.Header) *int {
	n, err := strconv.Atoi(h.Get(headerRetryCount))
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

// traceparent returns the ids of a W3C traceparent header, or empty strings.
func traceparent(h http.Header) (traceID, parentID string) {
	parts := strings.Split(h.Get("Traceparent"), "-")
	if len(parts) < 4 || len(parts[1]) != 32 || len(parts[2]) != 16 {
		return "", ""
	}
	return strings.ToLower(parts[1]), strings.ToLower(parts[2])
}

func sleepTimer(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeError answers with an error in OpenAI's shape.
func writeError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"message": message, "type": strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_"), "code": status, "param": nil,
	}})
}
