package daemon

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/store"
	"driftline/internal/api"
	"driftline/internal/chconn"
	"driftline/internal/clock"
	"driftline/internal/engine/enginetest"
	"driftline/schema"
)

// Every answer of the real server is as its OpenAPI document says, and every resource of
// the document answers.
func TestTheAPIIsAsItsDocumentSays(t *testing.T) {
	e := enginetest.Shared(t)
	ctx, conn, db := context.Background(), e.Conn(t), e.Database(t)
	require.NoError(t, schema.Up(ctx, conn, schema.Options{Database: db}, nil))
	target, err := chconn.Parse(e.DSNFor(db), db)
	require.NoError(t, err)
	clk := clock.NewManual(time.Now())
	d, err := New(ctx, Options{Target: target, Schema: schema.Options{Database: db}, UIListen: "127.0.0.1:0",
		Detector: detector.DefaultConfig(), Clock: clk, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer d.Close(ctx)
	d.Serve()

	now := clk.Now()
	fired := now.Add(-time.Minute)
	row := store.AlertRow{Fingerprint: "00f1ab", Transition: 1, At: now.Add(-2 * time.Minute), Detection: detector.P95Surge, State: detector.Pending, Severity: detector.Warning,
		Slice: store.Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "yes"}, StartedAt: now.Add(-5 * time.Minute), Value: 3.5, Threshold: 3, Baseline: 1, Unit: "1",
		Window: 5 * time.Minute, Samples: 99, Labels: map[string]string{"alertname": "p95_surge"}, Annotations: map[string]string{"summary": "s", "muted": "inhibited by x"}, Evidence: `{"numbers":{"a":1}}`, Version: 1}
	firing := row
	firing.Transition, firing.State, firing.At, firing.FiredAt = 2, detector.Firing, fired, &fired
	require.NoError(t, d.Store.SaveAlerts(ctx, []store.AlertRow{row, firing}))
	_, err = d.Engine.Evaluate(ctx, now)
	require.NoError(t, err)

	doc, err := openapi3.NewLoader().LoadFromData(api.Document)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(ctx))
	ask := func(method, path string) (*http.Response, []byte) {
		req, err := http.NewRequest(method, d.URL+path, nil)
		require.NoError(t, err)
		r, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return r, body
	}
	// check asks for a resource and compares the answer with the document.
	check := func(resource, path string, want int) map[string]any {
		r, body := ask(http.MethodGet, "/api/v1"+path)
		require.Equal(t, want, r.StatusCode, "%s: %s", path, body)
		require.Equal(t, "application/json", r.Header.Get("Content-Type"))
		require.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"))
		item := doc.Paths.Find(resource)
		require.NotNil(t, item, resource)
		answer := item.Get.Responses.Status(want)
		require.NotNil(t, answer, "%s does not say that it answers %d", resource, want)
		var got any
		require.NoError(t, json.Unmarshal(body, &got))
		schema := answer.Value.Content["application/json"].Schema.Value
		require.NoError(t, schema.VisitJSON(got, openapi3.VisitAsResponse(), openapi3.MultiErrors()), "%s: %s", path, body)
		return got.(map[string]any)
	}
	seen := map[string]bool{}
	for _, c := range []struct {
		resource, path string
		status         int
	}{
		{"/alerts", "/alerts", 200}, {"/alerts", "/alerts?state=firing&service=shop&detection=p95_surge&limit=1", 200}, {"/alerts", "/alerts?state=odd", 400}, {"/alerts", "/alerts?limit=0", 400}, {"/alerts", "/alerts?limit=1001", 400},
		{"/alerts", "/alerts?detection=none", 400}, {"/detections", "/detections", 200}, {"/evaluations", "/evaluations", 200}, {"/evaluations", "/evaluations?detection=pipeline_health&limit=3", 200}, {"/evaluations", "/evaluations?limit=x", 400},
		{"/slices", "/slices", 200}, {"/slices", "/slices?service=shop", 200}, {"/slices", "/slices?limit=-1", 400}, {"/evidence/{fingerprint}", "/evidence/00f1ab", 200}, {"/evidence/{fingerprint}", "/evidence/00dead", 404},
		{"/evidence/{fingerprint}", "/evidence/Not-Hex", 400}, {"/openapi.json", "/openapi.json", 200},
	} {
		check(c.resource, c.path, c.status)
		seen[c.resource] = true
	}
	for path := range doc.Paths.Map() {
		require.True(t, seen[path], "%s of the document was not asked for", path)
	}
	alerts := check("/alerts", "/alerts", 200)["alerts"].([]any)
	require.Len(t, alerts, 1)
	require.Equal(t, "firing", alerts[0].(map[string]any)["state"])
	require.Equal(t, "inhibited by x", alerts[0].(map[string]any)["muted"])
	require.Empty(t, check("/alerts", "/alerts?state=resolved", 200)["alerts"])
	require.Len(t, check("/evidence/{fingerprint}", "/evidence/00f1ab", 200)["transitions"], 2)
	require.Len(t, check("/detections", "/detections", 200)["detections"], len(detector.Detections()))

	r, body := ask(http.MethodGet, "/api/v1/nothing")
	require.Equal(t, http.StatusNotFound, r.StatusCode, string(body))
	r, _ = ask(http.MethodPost, "/api/v1/alerts")
	require.Equal(t, http.StatusMethodNotAllowed, r.StatusCode)
	req, err := http.NewRequest(http.MethodGet, d.URL+"/api/v1/alerts", nil)
	require.NoError(t, err)
	req.Host = "rebound.example.com"
	foreign, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, foreign.Body.Close())
	require.Equal(t, http.StatusMisdirectedRequest, foreign.StatusCode, "the same guard as the pages'")

	// A round that fails is an evaluation too, and the page shows it.
	require.NoError(t, conn.Exec(ctx, "DROP TABLE "+db+".rollup_requests_1m_base SYNC"))
	clk.Advance(2 * time.Minute) // a new minute, which is read
	_, err = d.Engine.Evaluate(ctx, clk.Now())
	require.Error(t, err)
	last := check("/evaluations", "/evaluations?limit=1", 200)["evaluations"].([]any)
	require.NotEmpty(t, last[0].(map[string]any)["error"])
	_, body = ask(http.MethodGet, "/evaluations")
	require.Contains(t, string(body), "the round failed")
	r, _ = ask(http.MethodGet, "/evaluations/nope")
	require.Equal(t, http.StatusNotFound, r.StatusCode)
	require.False(t, strings.Contains(string(body), "<script"))
}
