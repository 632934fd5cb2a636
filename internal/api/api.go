package api

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"driftline/detector"
	"driftline/detector/store"
	"driftline/internal/clock"
)

// Document is the OpenAPI 3 description of this API.
//
//go:embed openapi.json
var Document []byte

// Prefix is where the API is mounted.
const Prefix = "/api/v1/"

// Engine is what is asked of the detector; *detector.Engine is one.
type Engine interface {
	Evaluations(detection string, limit int) []detector.Evaluation
	Slices() []detector.SliceVerdict
	ShadowOf(detection string) bool
}

// AlertStore is what is asked of storage; *store.Store is one.
type AlertStore interface {
	Alerts(ctx context.Context, from, to time.Time, limit int) ([]store.AlertRow, error)
	AlertHistory(ctx context.Context, fingerprint string) ([]store.AlertRow, error)
}

// Options set up the API; all but Logger are required.
type Options struct {
	Engine Engine
	Alerts AlertStore
	Clock  clock.Clock
	Logger *slog.Logger
}

// retention is how far back alerts are looked for, ahead allows for clocks that differ.
const (
	retention = 400 * 24 * time.Hour
	ahead     = time.Hour
)

// Limits of a list.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

type server struct{ Options }

// New returns the handler for everything under Prefix.
func New(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := server{o}
	mux := http.NewServeMux()
	mux.HandleFunc(Prefix+"alerts", s.answer(s.alerts))
	mux.HandleFunc(Prefix+"detections", s.answer(s.detections))
	mux.HandleFunc(Prefix+"evaluations", s.answer(s.evaluations))
	mux.HandleFunc(Prefix+"slices", s.answer(s.slices))
	mux.HandleFunc(Prefix+"evidence/{fingerprint}", s.answer(s.evidence))
	mux.HandleFunc(Prefix+"openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(Document)
	})
	mux.HandleFunc(Prefix, s.answer(func(*http.Request) (any, error) {
		return nil, &problem{http.StatusNotFound, "not_found", "there is no such resource; " + Prefix + "openapi.json describes those that are"}
	}))
	return mux
}

// problem is an answer other than what was asked for.
type problem struct {
	status        int
	code, message string
}

func (p *problem) Error() string { return p.message }

type errorBody struct {
	Error errorText `json:"error"`
}

type errorText struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (s server) answer(build func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		body, err := build(r)
		if err != nil {
			var p *problem
			switch {
			case errors.As(err, &p):
			case errors.Is(err, store.ErrNotFound):
				p = &problem{http.StatusNotFound, "not_found", "no such alert is stored"}
			default:
				// The cause may say more than a reader should see.
				s.Logger.Error("an answer of the API failed", "path", r.URL.Path, "error", err)
				p = &problem{http.StatusServiceUnavailable, "storage", "storage could not be read; detectd's log says why"}
			}
			status, body = p.status, errorBody{errorText{p.code, p.message}}
		}
		text, err := json.Marshal(body)
		if err != nil {
			s.Logger.Error("an answer of the API cannot be written", "path", r.URL.Path, "error", err)
			status, text = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the answer cannot be written; detectd's log says why"}}`)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(append(text, '\n'))
	}
}

func limit(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit {
		return 0, &problem{http.StatusBadRequest, "bad_parameter", fmt.Sprintf("limit %q: want a number from 1 to %d", text, maxLimit)}
	}
	return n, nil
}

func detectionOf(r *http.Request) (string, error) {
	name := r.URL.Query().Get("detection")
	if name != "" && !slices.Contains(detector.Detections(), name) {
		return "", &problem{http.StatusBadRequest, "bad_parameter", fmt.Sprintf("detection %q: there is none of that name; %sdetections lists them", name, Prefix)}
	}
	return name, nil
}

func (s server) alerts(r *http.Request) (any, error) {
	n, err := limit(r)
	if err != nil {
		return nil, err
	}
	detection, err := detectionOf(r)
	if err != nil {
		return nil, err
	}
	state, service := r.URL.Query().Get("state"), r.URL.Query().Get("service")
	if state != "" && !slices.Contains([]string{detector.Pending, detector.Firing, detector.Resolved}, state) {
		return nil, &problem{http.StatusBadRequest, "bad_parameter", fmt.Sprintf("state %q: want pending, firing or resolved", state)}
	}
	now := s.Clock.Now()
	rows, err := s.Alerts.Alerts(r.Context(), now.Add(-retention), now.Add(ahead), 10*maxLimit)
	if err != nil {
		return nil, err
	}
	out := alertList{Alerts: []alert{}}
	for _, a := range rows {
		if state != "" && a.State != state || service != "" && a.Service != service || detection != "" && a.Detection != detection {
			continue
		}
		if len(out.Alerts) == n {
			out.More = true
			break
		}
		out.Alerts = append(out.Alerts, alertOf(a))
	}
	return out, nil
}

func (s server) detections(*http.Request) (any, error) {
	out := detectionList{Detections: []detection{}}
	for _, name := range detector.Detections() {
		title, _ := detector.Title(name)
		out.Detections = append(out.Detections, detection{name, title, s.Engine.ShadowOf(name), "/runbooks/" + name})
	}
	return out, nil
}

func (s server) evaluations(r *http.Request) (any, error) {
	n, err := limit(r)
	if err != nil {
		return nil, err
	}
	name, err := detectionOf(r)
	if err != nil {
		return nil, err
	}
	out := evaluationList{Evaluations: []evaluation{}}
	for _, e := range s.Engine.Evaluations(name, n) {
		out.Evaluations = append(out.Evaluations, evaluationOf(e))
	}
	return out, nil
}

func (s server) slices(r *http.Request) (any, error) {
	n, err := limit(r)
	if err != nil {
		return nil, err
	}
	service := r.URL.Query().Get("service")
	out := sliceList{Slices: []sliceOf{}}
	at := map[store.Slice]int{}
	for _, v := range s.Engine.Slices() {
		if service != "" && v.Service != service {
			continue
		}
		i, ok := at[v.Slice]
		if !ok {
			if len(out.Slices) == n {
				out.More = true
				continue
			}
			i = len(out.Slices)
			at[v.Slice] = i
			out.Slices = append(out.Slices, sliceOf{sliceName: nameOf(v.Slice), Verdicts: []verdict{}})
		}
		out.Slices[i].Verdicts = append(out.Slices[i].Verdicts, verdict{v.Detection, string(v.Level), v.Reason, time.Unix(v.From, 0).UTC(), time.Unix(v.To, 0).UTC(), v.Samples, finite(v.Value), finite(v.Threshold), finite(v.Baseline), v.Unit})
	}
	return out, nil
}

var fingerprintForm = regexp.MustCompile(`^[0-9a-f]{1,64}$`)

func (s server) evidence(r *http.Request) (any, error) {
	fp := r.PathValue("fingerprint")
	if !fingerprintForm.MatchString(fp) {
		return nil, &problem{http.StatusBadRequest, "bad_parameter", "fingerprint: want 1 to 64 hex digits, as /api/v1/alerts gives them"}
	}
	rows, err := s.Alerts.AlertHistory(r.Context(), fp)
	if err != nil {
		return nil, err
	}
	out := evidence{Fingerprint: fp, Transitions: []transition{}}
	for _, a := range rows {
		t := transition{alert: alertOf(a), Evidence: json.RawMessage(a.Evidence)}
		if !json.Valid(t.Evidence) {
			t.Evidence = json.RawMessage("{}")
		}
		out.Transitions = append(out.Transitions, t)
	}
	return out, nil
}
