package ui

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"driftline/internal/clock"
)

// Options set up the pages. Source is required; every other zero value has a default.
type Options struct {
	Source Source
	// Clock tells what "now" is on the pages; default the machine's. In a replay it is
	// event time.
	Clock clock.Clock
	// Version is shown at the foot of each page.
	Version string
	// Ready fails, saying why, while detectd is not ready to judge (state not loaded,
	// engine restarting). It is called on each /readyz, overview and failed page, and must not block.
	Ready func() error
	// API serves /api/v1/; nil answers 404 there.
	API http.Handler
	// Evaluations lists what the detector judged lately; nil leaves that page out.
	Evaluations func(detection string) []Evaluation
	// Metrics serves /metrics; nil answers 404 there.
	Metrics http.Handler
	// AllowedHosts are host names, without port, that are accepted besides loopback
	// names on a loopback listener: a reverse proxy's public name.
	AllowedHosts []string
	// QueryTimeout bounds the queries of one page; default 10 s.
	QueryTimeout time.Duration
	// Refresh is how often pages reload themselves; default 30 s.
	Refresh time.Duration
	// Window is how far back the overview looks; default 30 minutes.
	Window time.Duration
	// MinSamples is how many values a percentile needs to be shown; default 50.
	MinSamples uint64
	// Logger gets failed pages with their cause; default none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.QueryTimeout == 0 {
		o.QueryTimeout = 10 * time.Second
	}
	if o.Refresh == 0 {
		o.Refresh = 30 * time.Second
	}
	if o.Window == 0 {
		o.Window = 30 * time.Minute
	}
	if o.MinSamples == 0 {
		o.MinSamples = 50
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	var errs []error
	if o.Source == nil {
		errs = append(errs, errors.New("ui: Source is missing"))
	}
	for name, d := range map[string]time.Duration{"QueryTimeout": o.QueryTimeout, "Refresh": o.Refresh, "Window": o.Window} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("ui: %s is %v: want 0 (default) or more", name, d))
		}
	}
	for _, h := range o.AllowedHosts {
		if h == "" || strings.ContainsAny(h, "/ ") {
			errs = append(errs, fmt.Errorf("ui: allowed host %q: want a bare host name such as driftline.example.com", h))
		}
	}
	return errors.Join(errs...)
}

type server struct {
	Options
	templates map[string]renderer
	runbooks  map[string]template.HTML
	// turns bounds how many pages are made at once. Each asks several queries; a crowd
	// that all asks at once would only make all of them, and detection, wait.
	turns chan struct{}
}

// pagesAtOnce is low because the embedded engine runs eight statements at once, and
// detection and intake need some of them.
const pagesAtOnce = 3

// New returns the pages, /healthz, /readyz, /metrics and /static/ as one handler. The
// error names every bad option at once.
func New(o Options) (http.Handler, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t, err := loadTemplates()
	if err != nil {
		return nil, err
	}
	books, err := loadRunbooks()
	if err != nil {
		return nil, err
	}
	s := &server{Options: o.withDefaults(), templates: t, runbooks: books, turns: make(chan struct{}, pagesAtOnce)}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", s.page(s.overview))
	mux.HandleFunc("/alerts", s.page(s.alerts))
	mux.HandleFunc("/alerts/{fingerprint}", s.page(s.alert))
	mux.HandleFunc("/traces", s.page(s.findTrace))
	mux.HandleFunc("/traces/{id}", s.page(s.trace))
	mux.HandleFunc("/runbooks", s.page(s.runbook))
	mux.HandleFunc("/runbooks/{detection}", s.page(s.runbook))
	mux.HandleFunc("/healthz", s.healthz)
	mux.HandleFunc("/readyz", s.readyz)
	if o.API != nil {
		mux.Handle("/api/v1/", o.API)
	}
	if o.Evaluations != nil {
		mux.HandleFunc("/evaluations", s.page(s.evaluations))
		mux.HandleFunc("/evaluations/{detection}", s.page(s.evaluations))
	}
	if o.Metrics != nil {
		mux.Handle("/metrics", o.Metrics)
	}
	mux.Handle("/static/", http.StripPrefix("/static/", static()))
	mux.HandleFunc("/", s.page(func(*http.Request) (*view, error) {
		return nil, &problem{http.StatusNotFound, "There is no such page", "Pages are: the overview at /, /alerts, /alerts/{fingerprint}, /traces/{trace id} and /runbooks."}
	}))
	return s.guard(mux), nil
}

// NewServer wraps h in an HTTP server with time limits, so that a slow or silent peer
// cannot hold a connection for ever.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
}

// policy allows the page its own style sheet and icon and nothing else: no script at all.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard refuses foreign Host headers and methods that could change something, and sets
// the headers that every answer has.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Cache-Control", "no-store")
		if !s.hostAllowed(r) {
			s.Logger.Warn("request refused: host not allowed", "host", clip(r.Host))
			plain(w, http.StatusMisdirectedRequest, "This address does not answer to the host name in the request.\nUse localhost or 127.0.0.1, or add the name to the UI's allowed hosts if a proxy stands in front.\n")
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			plain(w, http.StatusMethodNotAllowed, "These pages are read only: use GET.\n")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.QueryTimeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// hostAllowed guards against DNS rebinding: a page of another site that points its own
// name at 127.0.0.1 sends that name. It applies where the connection came in on a
// loopback address, or on an unknown one.
func (s *server) hostAllowed(r *http.Request) bool {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
			return true
		}
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return true
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	for _, allowed := range s.AllowedHosts {
		if strings.EqualFold(host, allowed) {
			return true
		}
	}
	return false
}

func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusOK, "alive\n")
}

func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	var why []string
	if err := s.Ready(); err != nil {
		why = append(why, "detector: "+err.Error())
	}
	if err := s.Source.Ping(r.Context()); err != nil {
		why = append(why, "storage: "+err.Error())
	}
	if len(why) > 0 {
		plain(w, http.StatusServiceUnavailable, "not ready\n"+strings.Join(why, "\n")+"\n")
		return
	}
	plain(w, http.StatusOK, "ready\n")
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// problem is an answer other than a page: what went wrong and what to do.
type problem struct {
	status      int
	title, help string
}

func (p *problem) Error() string { return p.title }

// redirect sends the reader to another page.
type redirect struct{ to string }

func (r *redirect) Error() string { return "redirect to " + r.to }

// page turns a function that builds a view into a handler. A page is rendered whole
// before its first byte is sent, so that a failure is a clear answer, never half a page.
func (s *server) page(build func(*http.Request) (*view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := s.inTurn(r, build)
		var to *redirect
		if errors.As(err, &to) {
			http.Redirect(w, r, to.to, http.StatusSeeOther)
			return
		}
		status := http.StatusOK
		if err != nil {
			v, status = s.failure(r, err)
		}
		body, err := s.render(r, v)
		if err != nil {
			v, status = s.failure(r, err)
			if body, err = s.render(r, v); err != nil {
				plain(w, http.StatusInternalServerError, "The page could not be drawn; detectd's log says why.\n")
				return
			}
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

// inTurn builds a view when a place is free. Waiting counts towards QueryTimeout.
func (s *server) inTurn(r *http.Request, build func(*http.Request) (*view, error)) (*view, error) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
		return build(r)
	case <-r.Context().Done():
		return nil, &problem{http.StatusServiceUnavailable, "Too many pages are asked for at once", fmt.Sprintf("Others were being made for %s. Try again.", formatDuration(s.QueryTimeout))}
	}
}

// failure makes the page for an error. The cause goes to the log under a short number
// that the page shows, since an error text may say more than a reader should see.
func (s *server) failure(r *http.Request, err error) (*view, int) {
	var p *problem
	if errors.As(err, &p) {
		return &view{name: "error", Title: p.title, Body: p.help}, p.status
	}
	var b [4]byte
	_, _ = rand.Read(b[:])
	ref := hex.EncodeToString(b[:])
	s.Logger.Error("page failed", "path", clip(r.URL.Path), "ref", ref, "error", err)
	help := "Storage could not be read. /readyz says whether it is reachable; detectd's log has the cause under ref=" + ref + "."
	status := http.StatusInternalServerError
	if errors.Is(err, context.DeadlineExceeded) {
		help = fmt.Sprintf("The queries of this page took longer than %s and were stopped. Try again; if it stays so, storage is overloaded. detectd's log has it under ref=%s.", formatDuration(s.QueryTimeout), ref)
		status = http.StatusServiceUnavailable
	}
	if why := s.Ready(); why != nil {
		help = sentence(why.Error()) + " This page is there when /readyz says ready; detectd's log has what failed under ref=" + ref + "."
		return &view{name: "error", Title: "driftline is not ready", Body: help}, http.StatusServiceUnavailable
	}
	return &view{name: "error", Title: "This page could not be made", Body: help}, status
}

// sentence begins a text with a capital letter and ends it with a full stop.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimRight(text[size:], ".") + "."
}

func clip(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

var (
	fingerprintForm = regexp.MustCompile(`^[A-Za-z0-9_.:=-]{1,128}$`)
	traceForm       = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

func badFingerprint() error {
	return &problem{http.StatusBadRequest, "This is not an alert's fingerprint", "A fingerprint is 1 to 128 letters, digits and . _ : = - signs, as in the links of /alerts."}
}

func badTrace() error {
	return &problem{http.StatusBadRequest, "This is not a trace id", "A trace id is 32 hex digits, such as 4bf92f3577b34da6a3ce929d0e0e4736."}
}
