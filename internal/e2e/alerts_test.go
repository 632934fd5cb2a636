package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/internal/alertmanagertest"
)

type received struct{ labels, annotations map[string]string }

// inbox is a webhook that keeps the first firing alert of each kind.
type inbox struct {
	mu     sync.Mutex
	alerts map[string]received
	keys   map[string]int
	wrong  []string
}

func (b *inbox) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var body struct {
		Version, Status string
		Alerts          []struct {
			Status              string
			Labels, Annotations map[string]string
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Version != "4" || len(body.Alerts) != 1 {
		b.wrong = append(b.wrong, fmt.Sprintf("%v: %+v", err, body))
		return
	}
	b.keys[r.Header.Get("Idempotency-Key")]++
	a := body.Alerts[0]
	if _, known := b.alerts[a.Labels["alertname"]]; !known && a.Status == "firing" {
		b.alerts[a.Labels["alertname"]] = received{a.Labels, a.Annotations}
	}
}

var (
	traceIDs = regexp.MustCompile(`^[0-9a-f]{32}( [0-9a-f]{32})*$`)
	numbers  = regexp.MustCompile(`Window \d\d:\d\d to \d\d:\d\d UTC \(\d+m\), \d+ samples, value [\d.]+ \S+, threshold [\d.]+ \S+, baseline [\d.]+ \S+\.`)
)

// What a person and a router need, in what receivers get.
func (r received) check(t *testing.T, name string) {
	t.Helper()
	require.Equal(t, name, r.labels["alertname"])
	require.Equal(t, "checkout-assistant", r.labels["service"])
	require.Equal(t, "checkout", r.labels["agent"])
	require.Contains(t, []string{"warning", "critical"}, r.labels["severity"])
	require.NotEmpty(t, r.annotations["summary"])
	require.Regexp(t, numbers, r.annotations["description"])
	for _, key := range []string{"cause", "do_first", "do_not"} {
		require.NotEmpty(t, r.annotations[key], key)
	}
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/alerts/[0-9a-f]{16}$`, r.annotations["evidence_url"])
	require.Regexp(t, traceIDs, r.annotations["trace_ids"])
}

// demoTimeout is far longer than a demo of an hour takes on a busy machine.
const demoTimeout = 15 * time.Minute

func TestAlertsReachAlertmanagerAndWebhook(t *testing.T) {
	t.Parallel()
	am := alertmanagertest.Start(t)
	hook := &inbox{alerts: map[string]received{}, keys: map[string]int{}}
	server := httptest.NewServer(hook)
	t.Cleanup(server.Close)
	seed := rand.Uint64() % 1_000_000
	t.Logf("seed %d", seed)
	demo := start(t, nil, detectd, "demo", "--headless", "--scenario", "incident", "--history", "60m", "--play", "10m", "--seed", fmt.Sprint(seed),
		"--ui-listen", "127.0.0.1:0", "--alertmanager", am.URL, "--webhook", server.URL+"/hook", "--output", "json")
	// Alertmanager forgets what has ended, so it is asked all along.
	inAlertmanager := map[string]received{}
	look := func() error {
		alerts, err := am.Alerts(t.Context())
		for _, a := range alerts {
			inAlertmanager[a.Labels["alertname"]] = received{a.Labels, a.Annotations}
		}
		return err
	}
	for deadline := time.Now().Add(demoTimeout); demo.running(); {
		require.NoError(t, look())
		require.True(t, time.Now().Before(deadline), "the demo still runs after %s", demoTimeout)
		select {
		case <-demo.done:
		case <-time.After(200 * time.Millisecond):
		}
	}
	code, _ := demo.wait(stopGrace)
	// Ten minutes end before the 504 rule can fire: no lead, which is exit code 1; an error of another kind is not.
	if code != 0 {
		require.Contains(t, demo.stderr.String(), "the 504 rule did not fire")
	}
	// A critical alert, for missed deadlines, keeps later warnings of its agent from being sent.
	fired, sent := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(demo.stdout.String()) {
		var l struct{ Detection, State, Muted string }
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		if l.State == "firing" {
			fired[l.Detection] = true
			sent[l.Detection] = sent[l.Detection] || l.Muted == ""
		}
	}
	for _, name := range []string{"retry_bimodality", "deadline_drift", "p95_spread"} {
		require.True(t, fired[name], "%s has not fired: %v", name, fired)
	}

	for name, was := range sent {
		if !was {
			delete(sent, name)
		}
	}
	require.True(t, sent["retry_bimodality"], "what comes first is sent: %v", sent)
	require.Greater(t, len(sent), 1)
	eventually(t, 60*time.Second, func() error {
		err := look()
		for name := range sent {
			if _, known := inAlertmanager[name]; !known {
				return fmt.Errorf("Alertmanager was never asked while it held %s, which was sent (last error: %v)", name, err)
			}
		}
		return nil
	})
	hook.mu.Lock()
	defer hook.mu.Unlock()
	require.Empty(t, hook.wrong)
	for name := range sent {
		require.Contains(t, hook.alerts, name)
		require.Contains(t, inAlertmanager, name)
		hook.alerts[name].check(t, name)
		inAlertmanager[name].check(t, name)
	}
	require.NotContains(t, hook.keys, "", "each delivery has an Idempotency-Key")
}
