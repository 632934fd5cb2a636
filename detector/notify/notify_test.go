package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/internal/alertmanagertest"
)

func sample() detector.Alert {
	now := time.Now().UTC().Truncate(time.Millisecond)
	return detector.Alert{
		Fingerprint: "00f1ab", Transition: 2, Detection: detector.RetryBimodality, State: detector.Firing, Severity: "warning",
		Labels:      map[string]string{"alertname": detector.RetryBimodality, "severity": "warning", "service": "shop"},
		Annotations: map[string]string{"summary": "Retries hide latency", "description": "12 s", "evidence_url": "http://127.0.0.1/alerts/00f1ab"},
		At:          now, StartsAt: now.Add(-2 * time.Minute), FiredAt: now, EndsAt: now.Add(10 * time.Minute),
	}
}

func resolved(a detector.Alert) detector.Alert {
	a.State, a.Transition = detector.Resolved, a.Transition+1
	a.ResolvedAt = time.Now().UTC()
	a.EndsAt = a.ResolvedAt
	return a
}

func TestRealAlertmanagerTakesAndClearsAnAlert(t *testing.T) {
	am := alertmanagertest.Start(t)
	n, err := NewAlertmanager(am.URL+"/", Access{})
	require.NoError(t, err)
	ctx := context.Background()
	a := sample()
	require.NoError(t, n.Notify(ctx, []detector.Alert{a}))
	require.NoError(t, n.Notify(ctx, []detector.Alert{a}), "a repeat is no second alert")
	got, err := am.Alerts(ctx)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, a.Labels, got[0].Labels)
	require.Equal(t, a.Annotations, got[0].Annotations)
	require.Equal(t, a.StartsAt, got[0].StartsAt.UTC())
	require.Equal(t, a.Annotations["evidence_url"], got[0].GeneratorURL)
	require.NoError(t, n.Notify(ctx, []detector.Alert{resolved(a)}))
	require.Eventually(t, func() bool {
		got, err := am.Alerts(ctx)
		return err == nil && len(got) == 0
	}, 10*time.Second, 50*time.Millisecond)
}

func TestAlertmanagersRefusalIsSaid(t *testing.T) {
	am := alertmanagertest.Start(t)
	n, err := NewAlertmanager(am.URL, Access{})
	require.NoError(t, err)
	a := sample()
	a.Labels = map[string]string{"": "no name"}
	require.ErrorContains(t, n.Notify(context.Background(), []detector.Alert{a}), "400")
}

func TestWebhookBodyAndIdempotencyKey(t *testing.T) {
	type seen struct {
		key  string
		body webhookBody
	}
	var got []seen
	status := http.StatusOK
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b webhookBody
		if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
			t.Error(err)
		}
		got = append(got, seen{r.Header.Get("Idempotency-Key"), b})
		w.WriteHeader(status)
	}))
	defer receiver.Close()
	n, err := NewWebhook(receiver.URL+"/secret-token", "http://127.0.0.1:8686", Access{})
	require.NoError(t, err)
	require.NotContains(t, n.Name(), "secret")
	a := sample()
	repeat := a
	repeat.Resend = true
	require.NoError(t, n.Notify(context.Background(), []detector.Alert{a, repeat, resolved(a)}))
	require.Len(t, got, 2)
	require.Equal(t, "00f1ab-2", got[0].key)
	require.Equal(t, "00f1ab-3", got[1].key)
	require.Equal(t, "4", got[0].body.Version)
	require.Equal(t, "firing", got[0].body.Status)
	require.Equal(t, "resolved", got[1].body.Alerts[0].Status)
	require.True(t, got[0].body.Alerts[0].EndsAt.IsZero())

	status = http.StatusServiceUnavailable
	err = n.Notify(context.Background(), []detector.Alert{a})
	require.ErrorContains(t, err, "503")
	require.NotContains(t, err.Error(), "secret")
}

func TestUnreachableReceiverShowsNoSecret(t *testing.T) {
	n, err := NewWebhook("http://127.0.0.1:1/secret-token?key=secret", "", Access{})
	require.NoError(t, err)
	err = n.Notify(context.Background(), []detector.Alert{sample()})
	require.ErrorContains(t, err, "http://127.0.0.1:1")
	require.NotContains(t, err.Error(), "secret")
}

func TestURLsAreChecked(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:9093", "ftp://x", "http://"} {
		_, err := NewAlertmanager(bad, Access{})
		require.Error(t, err, bad)
		_, err = NewWebhook(bad, "", Access{})
		require.Error(t, err, bad)
	}
	one, _ := NewWebhook("http://h/a", "", Access{})
	two, _ := NewWebhook("http://h/b", "", Access{})
	require.NotEqual(t, one.Name(), two.Name())
}

func TestLogLevelsFollowSeverity(t *testing.T) {
	var out bytes.Buffer
	l := NewLog(slog.New(slog.NewTextHandler(&out, nil)))
	critical := sample()
	critical.Severity = "critical"
	repeat := sample()
	repeat.Resend = true
	require.NoError(t, l.Notify(context.Background(), []detector.Alert{sample(), repeat, critical, resolved(sample())}))
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	require.Len(t, lines, 3)
	require.Contains(t, string(lines[0]), "level=WARN")
	require.Contains(t, string(lines[1]), "level=ERROR")
	require.Contains(t, string(lines[2]), "level=INFO")
}
