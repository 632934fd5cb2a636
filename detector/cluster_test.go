package detector_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/notify"
	"driftline/internal/alertmanagertest"
	"driftline/internal/clock"
)

// One of two Alertmanagers is away, or answers that it cannot: the other shows the alert in the
// round in which it fires, and the first shows it once it is back. Both show its end.
func TestOneOfTwoAlertmanagersIsInTrouble(t *testing.T) {
	const begin, length = 90, 8
	for _, status := range []int{0, http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		name := "dead"
		if status > 0 {
			name = http.StatusText(status)
		}
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			well, late := alertmanagertest.Start(t), alertmanagertest.Start(t)
			base, err := url.Parse(late.URL)
			require.NoError(t, err)
			var trouble atomic.Bool
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case !trouble.Load():
					(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(base) }}).ServeHTTP(w, r)
				case status == 0:
					panic(http.ErrAbortHandler) // the connection ends without an answer
				default:
					w.WriteHeader(status)
				}
			}))
			defer front.Close()
			var to []detector.Notifier
			for _, u := range []string{front.URL, well.URL} {
				n, err := notify.NewAlertmanager(u, notify.Access{})
				require.NoError(t, err)
				to = append(to, n)
			}
			start := time.Now().UTC().Truncate(time.Minute).Add(-(begin + length + 22) * time.Minute)
			st := drifting(start, begin, length)
			cfg := detector.DefaultConfig()
			cfg.EndsAfter = 40 * time.Minute // Alertmanager has the wall clock, by which all of this is over
			e, err := detector.New(cfg, st, st, to, clock.NewManual(start))
			require.NoError(t, err)
			shown := func(am *alertmanagertest.Alertmanager) int {
				all, err := am.Alerts(ctx)
				require.NoError(t, err)
				return len(all)
			}
			fired := 0
			trouble.Store(true)
			for m := begin; m < begin+10; m++ {
				r, err := e.Evaluate(ctx, start.Add(time.Duration(m+1)*time.Minute+35*time.Second))
				for _, c := range r.Changes {
					if c.State == detector.Firing {
						fired = m
					}
				}
				if fired == 0 {
					continue
				}
				require.Equal(t, 1, shown(well), "in the round in which it fires")
				if trouble.Load() {
					require.Zero(t, shown(late))
					if m == fired {
						require.ErrorContains(t, err, front.URL)
					}
				}
				trouble.Store(m < fired+3)
			}
			require.NotZero(t, fired)
			require.Equal(t, 1, shown(late), "once it is back")
			for m := begin + 10; m < begin+length+20; m++ {
				_, err := e.Evaluate(ctx, start.Add(time.Duration(m+1)*time.Minute+35*time.Second))
				require.NoError(t, err)
			}
			require.Zero(t, shown(well), "it ended, and did not lapse")
			require.Zero(t, shown(late))
		})
	}
}
