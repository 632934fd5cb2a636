package notify

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/internal/alertmanagertest"
)

func file(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// receiver answers with status, repeating what it was sent, as careless proxies do.
func receiver(t *testing.T, status *int) (*httptest.Server, *[]*http.Request) {
	var got []*http.Request
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r)
		w.WriteHeader(*status)
		_, _ = io.WriteString(w, "denied "+r.RequestURI+" "+r.Header.Get("Authorization"))
	}))
	t.Cleanup(s.Close)
	return s, &got
}

func TestSecretsAreSentAndNeverShown(t *testing.T) {
	status := http.StatusUnauthorized
	s, got := receiver(t, &status)
	ca := file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	token := file(t, "t0ken-of-ops\n")
	pair := file(t, "ops:pa55word")
	for name, access := range map[string]Access{"bearer": {BearerFile: token, CAFile: ca}, "basic": {BasicFile: pair, CAFile: ca}} {
		*got = nil
		am, err := NewAlertmanager(s.URL, access)
		require.NoError(t, err)
		hook, err := NewWebhook(strings.Replace(s.URL, "https://", "https://us3r:w0rd@", 1)+"/hooks/0123456789abcdef0123?key=qu3ry", "", access)
		require.NoError(t, err)
		for _, n := range []detector.Notifier{am, hook} {
			err = n.Notify(context.Background(), []detector.Alert{sample()})
			var how *detector.DeliveryError
			require.ErrorAs(t, err, &how)
			require.Equal(t, "4xx", how.Reason)
			require.Empty(t, how.Refused, "a wrong password is not the alert's fault")
			for _, text := range []string{err.Error(), n.Name()} {
				for _, secret := range []string{"t0ken", "pa55word", "us3r", "w0rd", "qu3ry", "0123456789abcdef", "b3BzOnBh"} {
					require.NotContains(t, text, secret, name)
				}
			}
			require.ErrorContains(t, err, "401")
		}
		want := map[string]string{"bearer": "Bearer t0ken-of-ops", "basic": "Basic b3BzOnBhNTV3b3Jk"}[name]
		require.Equal(t, want, (*got)[0].Header.Get("Authorization"))
	}
	// A token that was replaced is used from the next delivery on.
	*got, status = nil, http.StatusOK
	am, err := NewAlertmanager(s.URL, Access{BearerFile: token, CAFile: ca})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(token, []byte("next"), 0o600))
	require.NoError(t, am.Notify(context.Background(), []detector.Alert{sample()}))
	require.Equal(t, "Bearer next", (*got)[0].Header.Get("Authorization"))
}

func TestReasonsOfFailure(t *testing.T) {
	reason := func(url string, a Access) string {
		n, err := NewWebhook(url, "", a)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		var how *detector.DeliveryError
		require.ErrorAs(t, n.Notify(ctx, []detector.Alert{sample()}), &how)
		return how.Reason
	}
	status := http.StatusInternalServerError
	s, _ := receiver(t, &status)
	require.Equal(t, "tls", reason(s.URL, Access{}), "signed by nobody we trust")
	ca := Access{CAFile: file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))}
	require.Equal(t, "5xx", reason(s.URL, ca))
	status = http.StatusFound
	require.Equal(t, "3xx", reason(s.URL, ca), "a redirect is not followed")
	require.Equal(t, "refused", reason("http://127.0.0.1:1", Access{}))
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server see that the peer has gone
		<-r.Context().Done()
	}))
	defer silent.Close()
	require.Equal(t, "timeout", reason(silent.URL, Access{}))
}

func TestAccessMistakesAreNamed(t *testing.T) {
	for want, a := range map[string]Access{
		"choose one":             {BearerFile: file(t, "x"), BasicFile: file(t, "a:b")},
		"want one line":          {BearerFile: file(t, "\n")},
		"want user:password":     {BasicFile: file(t, "only")},
		"no PEM certificate":     {CAFile: file(t, "x")},
		"no such file":           {CAFile: "/nonexistent/ca.pem"},
		"read the bearer token:": {BearerFile: "/nonexistent/token"},
	} {
		require.ErrorContains(t, a.Validate(), want)
		_, err := NewAlertmanager("http://127.0.0.1:9093", a)
		require.ErrorContains(t, err, want)
	}
}

// One alert that a real Alertmanager refuses does not hold up the others.
func TestARefusedAlertHoldsUpNoOther(t *testing.T) {
	am := alertmanagertest.Start(t)
	n, err := NewAlertmanager(am.URL, Access{})
	require.NoError(t, err)
	good, bad, more := sample(), sample(), sample()
	bad.Fingerprint, bad.Labels = "00bad", map[string]string{"": "no name"}
	more.Fingerprint, more.Labels = "00more", map[string]string{"alertname": "more"}
	err = n.Notify(context.Background(), []detector.Alert{good, bad, more})
	var how *detector.DeliveryError
	require.ErrorAs(t, err, &how)
	require.Equal(t, []string{good.Key(), more.Key()}, how.Taken)
	require.Equal(t, []string{bad.Key()}, how.Refused)
	got, err := am.Alerts(context.Background())
	require.NoError(t, err)
	require.Len(t, got, 2)
}

func TestSlackMessages(t *testing.T) {
	var got []slackBody
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var b slackBody
		if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
			t.Error(err)
		}
		got = append(got, b)
	}))
	defer s.Close()
	t.Setenv("DRIFTLINE_TEST_SLACK", s.URL+"/services/T0/B0/s3cret-s3cret-s3cret\n")
	url, err := Secret("env:DRIFTLINE_TEST_SLACK")
	require.NoError(t, err)
	n, err := NewSlack(url)
	require.NoError(t, err)
	require.NotContains(t, n.Name(), "s3cret")
	a := sample()
	a.Severity = "critical"
	a.Annotations = map[string]string{"summary": "Retries hide latency: " + strings.Repeat("é", 200), "description": "P95 <12 s> & more " + strings.Repeat("x", 4000), "cause": "tool <!channel> search answers 503",
		"do_first": "look", "do_not": "retry", "evidence_url": "http://127.0.0.1/alerts/00f1ab?a=1&b=2"}
	repeat := a
	repeat.Resend = true
	require.NoError(t, n.Notify(context.Background(), []detector.Alert{a, repeat, resolved(a)}))
	require.Len(t, got, 2)
	require.LessOrEqual(t, len([]rune(got[0].Blocks[0].Text.Text)), 150)
	require.Equal(t, "plain_text", got[0].Blocks[0].Text.Type)
	all, err := json.Marshal(got[0])
	require.NoError(t, err)
	for _, b := range got[0].Blocks {
		if b.Text != nil {
			require.LessOrEqual(t, len([]rune(b.Text.Text)), 3000)
		}
	}
	for _, want := range []string{":rotating_light:", "firing, critical", "&lt;!channel&gt;", "*First:* look", "*Not:* retry", "<http://127.0.0.1/alerts/00f1ab?a=1&amp;b=2|Evidence>", a.Key()} {
		encoded, _ := json.Marshal(want)
		require.Contains(t, string(all), strings.Trim(string(encoded), `"`))
	}
	require.NotContains(t, string(all), "<!channel>")
	require.Contains(t, got[1].Text, "[resolved]")
	require.NotContains(t, got[1].Text, "*First:*")
}

func TestSecretsAreKeptElsewhere(t *testing.T) {
	got, err := Secret("file:" + file(t, " https://h/x \n"))
	require.NoError(t, err)
	require.Equal(t, "https://h/x", got)
	_, err = Secret("https://hooks.example.com/s3cret")
	require.ErrorContains(t, err, "want env:NAME or file:PATH")
	require.NotContains(t, err.Error(), "s3cret")
	_, err = Secret("env:DRIFTLINE_TEST_NOT_SET")
	require.ErrorContains(t, err, "is empty")
	_, err = Secret("file:/nonexistent/x")
	require.True(t, errors.Is(err, os.ErrNotExist))
}
