package notify

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
)

// Whatever a receiver answers, a delivery ends in time, says why it failed in few words, and
// what was not taken is sent again.
func TestReceiversInTrouble(t *testing.T) {
	endless := func(w http.ResponseWriter) {
		line := strings.Repeat("x", 1<<16)
		for {
			if _, err := io.WriteString(w, line); err != nil {
				return // the other end has read enough
			}
		}
	}
	hijacked := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		// reason is empty where the alert is taken.
		reason, says string
		refused      bool
	}{
		"nothing":              {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "", "", false},
		"a huge body":          {func(w http.ResponseWriter, _ *http.Request) { endless(w) }, "", "", false},
		"a huge body with 500": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); endless(w) }, "5xx", "500 Internal Server Error: xxx", false},
		"a huge body with 400": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400); endless(w) }, "4xx", "400 Bad Request: xxx", true},
		"too many requests": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(429)
		}, "4xx", "429", false},
		"closed without an answer":   {hijacked(""), "connection", "EOF", false},
		"closed in the status line":  {hijacked("HTTP/1.1 20"), "connection", "malformed HTTP status", false},
		"closed in the headers":      {hijacked("HTTP/1.1 200 OK\r\nContent-Le"), "connection", "malformed", false},
		"closed in the body":         {hijacked("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), "", "", false},
		"something that is not HTTP": {hijacked("SSH-2.0-OpenSSH_9.2\r\n"), "connection", "malformed HTTP", false},
		"a huge header":              {hijacked("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 11<<20)), "connection", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(c.answer)
			defer s.Close()
			am, err := NewAlertmanager(s.URL, Access{})
			require.NoError(t, err)
			hook, err := NewWebhook(s.URL, "", Access{})
			require.NoError(t, err)
			for _, n := range []detector.Notifier{am, hook} {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				err := n.Notify(ctx, []detector.Alert{sample()})
				require.NoError(t, ctx.Err(), "in time")
				cancel()
				if c.reason == "" {
					require.NoError(t, err)
					continue
				}
				var how *detector.DeliveryError
				require.ErrorAs(t, err, &how)
				require.Equal(t, c.reason, how.Reason, fmt.Sprint(err))
				require.ErrorContains(t, err, c.says)
				require.Less(t, len(err.Error()), 1000)
				require.Empty(t, how.Taken)
				require.Equal(t, c.refused, len(how.Refused) == 1)
			}
		})
	}
}
