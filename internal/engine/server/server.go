//go:build linux || darwin

package server

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"driftline/internal/chdb"
)

// Options configure a [Server]. Zero values take the defaults named with each field.
type Options struct {
	// DataDir is the engine's folder; it must exist and be writable.
	DataDir string
	// User and Password are asked of every client when Password is not empty. User defaults to "default".
	User, Password string
	// MaxConcurrent is how many statements run at once; default 8.
	MaxConcurrent int
	// MaxQueued is how many more may wait for their turn; default 64.
	MaxQueued int
	// QueueTimeout is how long one may wait; default 10 s.
	QueueTimeout time.Duration
	// MaxMemoryBytes bounds the whole engine; default 1 GiB.
	MaxMemoryBytes int64
	// MaxQueryMemoryBytes bounds one statement unless its own max_memory_usage says otherwise; default half of MaxMemoryBytes.
	// It also bounds results in formats that cannot be streamed, such as JSON, which are held whole.
	MaxQueryMemoryBytes int64
	// MaxQueryTime bounds one statement unless its own max_execution_time says otherwise; default 5 minutes.
	MaxQueryTime time.Duration
	// StallTimeout is how long a client may neither send nor take a byte of its statement; default 15 s.
	StallTimeout time.Duration
	// Logger takes what an operator should know; default slog.Default().
	Logger *slog.Logger
}

// Stats are the endpoint's counters since it started.
type Stats struct {
	Running, Queued                           int64
	Statements, Failed, Saturated, Cancelled  uint64
	InsertedRows, InsertedBytes, InsertsAcked uint64
}

// Server is the HTTP handler in front of one engine.
type Server struct {
	opt     Options
	lib     *chdb.Library
	connect []string
	slots   chan struct{}
	// timezone and name are asked of the engine once.
	timezone, name string

	// anchor keeps the engine up between requests, and cancels statements.
	anchorMu sync.Mutex
	anchor   *chdb.Conn

	runningMu sync.Mutex
	running   map[string]*entry

	queued                                    atomic.Int64
	statements, failed, saturated, cancelled  atomic.Uint64
	insertedRows, insertedBytes, insertsAcked atomic.Uint64
}

// New boots the engine of lib in the data folder. Close shuts it down.
func New(lib *chdb.Library, opt Options) (*Server, error) {
	setDefault(&opt.User, "default")
	setDefault(&opt.MaxConcurrent, 8)
	setDefault(&opt.MaxQueued, 64)
	setDefault(&opt.QueueTimeout, 10*time.Second)
	setDefault(&opt.MaxMemoryBytes, 1<<30)
	setDefault(&opt.MaxQueryMemoryBytes, opt.MaxMemoryBytes/2)
	setDefault(&opt.MaxQueryTime, 5*time.Minute)
	setDefault(&opt.StallTimeout, 15*time.Second)
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	s := &Server{opt: opt, lib: lib, slots: make(chan struct{}, opt.MaxConcurrent), running: map[string]*entry{}}
	s.connect = []string{
		"--path=" + opt.DataDir,
		"--max_server_memory_usage=" + strconv.FormatInt(opt.MaxMemoryBytes, 10),
		"--mark_cache_size=" + strconv.FormatInt(opt.MaxMemoryBytes/16, 10),
		"--max_memory_usage=" + strconv.FormatInt(opt.MaxQueryMemoryBytes, 10),
		"--max_execution_time=" + strconv.FormatFloat(opt.MaxQueryTime.Seconds(), 'f', -1, 64),
		// An acknowledged insert is stored, not queued in memory.
		"--async_insert=0",
	}
	var err error
	if s.anchor, err = lib.Connect(s.connect...); err != nil {
		return nil, damagedFolder(opt.DataDir, err)
	}
	r, err := s.anchor.Query("SELECT timezone()", "TSVRaw", nil)
	if err != nil {
		s.anchor.Close()
		return nil, damagedFolder(opt.DataDir, fmt.Errorf("ask for its time zone: %w", err))
	}
	s.timezone = strings.TrimSpace(string(r.Bytes()))
	r.Destroy()
	s.name, _ = os.Hostname()
	return s, nil
}

// damagedFolder says what to do about a folder over which the engine does not start.
func damagedFolder(dir string, err error) error {
	parent := filepath.Dir(dir)
	return fmt.Errorf("the engine does not start over the data folder %s: %w: if a line above or this one names a file, restore it from a copy or move it out of the folder; otherwise move it aside as a whole (mv %s %s.damaged) and start with empty tables", parent, err, parent, parent)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Close shuts the engine down. No request may be running.
func (s *Server) Close() {
	s.anchorMu.Lock()
	defer s.anchorMu.Unlock()
	if s.anchor != nil {
		s.anchor.Close()
		s.anchor = nil
	}
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	return Stats{
		Running: int64(len(s.slots)), Queued: s.queued.Load(), Statements: s.statements.Load(), Failed: s.failed.Load(),
		Saturated: s.saturated.Load(), Cancelled: s.cancelled.Load(), InsertedRows: s.insertedRows.Load(),
		InsertedBytes: s.insertedBytes.Load(), InsertsAcked: s.insertsAcked.Load(),
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-ClickHouse-Server-Display-Name", s.name)
	h.Set("X-ClickHouse-Timezone", s.timezone)
	if s.opt.Password == "" && !isLoopbackHost(r.Host) {
		// A web page whose own name was pointed at this machine sends that name, and no Origin with a GET.
		http.Error(w, "the host name in the request is not this machine's loopback: use 127.0.0.1 or localhost, or set a password", http.StatusMisdirectedRequest)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(origin, r.Host) {
		// Without this, any web page open in a browser on this machine could run SQL here.
		http.Error(w, "requests from web pages ("+origin+") are refused", http.StatusForbidden)
		return
	}
	switch r.URL.Path {
	case "/ping", "/replicas_status":
		_, _ = w.Write([]byte("Ok.\n"))
		return
	case "/", "/query":
	default:
		http.Error(w, "There is no handle "+r.URL.Path+"; use / for queries and /ping for checks", http.StatusNotFound)
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		h.Set("Allow", "GET, HEAD, POST")
		http.Error(w, "use GET or POST", http.StatusMethodNotAllowed)
		return
	}
	q := r.URL.Query()
	if e := s.authenticate(r, q); e != nil {
		if e.Code == codeRequiredPassword {
			h.Set("WWW-Authenticate", `Basic realm="driftline engine"`)
		}
		writeException(w, e)
		return
	}
	if r.ContentLength == 0 && q.Get("query") == "" && r.Method != http.MethodPost {
		_, _ = w.Write([]byte("Ok.\n"))
		return
	}
	s.answer(w, r, q)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, q url.Values) {
	begun := time.Now()
	s.statements.Add(1)
	control := http.NewResponseController(w)
	r.Body = &stallReader{r.Body, control, s.opt.StallTimeout, begun.Add(s.opt.MaxQueryTime)}
	w = &stallWriter{w, control, s.opt.StallTimeout}
	req, err := parse(r)
	if err != nil {
		s.failed.Add(1)
		writeException(w, asException(err))
		return
	}
	if req.release != nil {
		defer req.release()
	}
	w.Header().Set("X-ClickHouse-Query-Id", req.queryID)
	rep := newReply(w, req, acceptedEncoding(r, q), begun)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	err = s.execute(ctx, cancel, req, rep)
	if err == nil {
		return
	}
	s.failed.Add(1)
	e := asException(err)
	if ctx.Err() != nil {
		s.cancelled.Add(1)
		// Whatever the engine said of a statement that was ended, the reason is the one it was ended for.
		if r.Context().Err() == nil {
			e = asException(context.Cause(ctx))
		}
	} else if statusOf(e.Code) >= http.StatusInternalServerError {
		s.opt.Logger.Warn("statement failed", "query_id", req.queryID, "kind", req.statement.keyword, "code", e.Code, "error", e.Name)
	}
	rep.fail(e)
}

func (s *Server) execute(ctx context.Context, cancel context.CancelCauseFunc, req *request, rep *reply) error {
	kill, err := parseKill(&req.statement, req.params)
	if err != nil {
		return err
	}
	if kill != nil {
		return s.runKill(ctx, kill, req, rep)
	}
	unregister, err := s.register(req, cancel)
	if err != nil {
		return err
	}
	defer unregister()
	return s.admit(ctx, func() error { return s.run(ctx, req, rep) })
}

// admit runs f when its turn comes.
func (s *Server) admit(ctx context.Context, f func() error) error {
	select {
	case s.slots <- struct{}{}:
	default:
		if s.queued.Add(1) > int64(s.opt.MaxQueued) {
			s.queued.Add(-1)
			s.saturated.Add(1)
			return saturated("%d statements are running and %d wait, the most allowed", s.opt.MaxConcurrent, s.opt.MaxQueued)
		}
		timer := time.NewTimer(s.opt.QueueTimeout)
		defer timer.Stop()
		var err error
		select {
		case s.slots <- struct{}{}:
		case <-timer.C:
			s.saturated.Add(1)
			err = saturated("waited %s for one of %d running statements to end", s.opt.QueueTimeout, s.opt.MaxConcurrent)
		case <-ctx.Done():
			err = &chdb.Error{Code: codeQueryCancelled, Name: "QUERY_WAS_CANCELLED", Message: "The statement was cancelled while it waited for its turn: the client went away, or KILL QUERY named it."}
		}
		s.queued.Add(-1)
		if err != nil {
			return err
		}
	}
	defer func() { <-s.slots }()
	return f()
}

func saturated(format string, args ...any) error {
	return &chdb.Error{Code: codeTooManyQueries, Name: "TOO_MANY_SIMULTANEOUS_QUERIES", Message: "The embedded engine is saturated: " + fmt.Sprintf(format, args...) + ". Retry later."}
}

func (s *Server) authenticate(r *http.Request, q url.Values) *chdb.Error {
	if s.opt.Password == "" {
		return nil
	}
	user, password, given := r.Header.Get("X-ClickHouse-User"), r.Header.Get("X-ClickHouse-Key"), true
	if user == "" && password == "" {
		if u, p, ok := r.BasicAuth(); ok {
			user, password = u, p
		} else if q.Has("user") || q.Has("password") {
			user, password = q.Get("user"), q.Get("password")
		} else {
			given = false
		}
	}
	if !given {
		return &chdb.Error{Code: codeRequiredPassword, Name: "REQUIRED_PASSWORD", Message: "This engine asks for a user and a password."}
	}
	if user == "" {
		user = "default"
	}
	okUser := subtle.ConstantTimeCompare([]byte(user), []byte(s.opt.User))
	okPassword := subtle.ConstantTimeCompare([]byte(password), []byte(s.opt.Password))
	if okUser&okPassword == 1 {
		return nil
	}
	return &chdb.Error{Code: codeAuthFailed, Name: "AUTHENTICATION_FAILED", Message: "Authentication failed: password is incorrect, or there is no user with such name."}
}

func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host == host && isLoopbackHost(host)
}

func isLoopbackHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

var errClientGone = errors.New("the client went away")
