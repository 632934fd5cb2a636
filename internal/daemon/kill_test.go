package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/dettest"
	"driftline/detector/rollup"
	"driftline/detector/store"
	"driftline/internal/alertmanagertest"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
)

// The life that is told: requests of one agent, whose planners believe from minute begin on,
// for length minutes, in half a minute too much.
const (
	begin  = 50
	length = 5
	over   = 5
	// perMinute is how many requests end in each minute.
	perMinute = 40
)

func ptr[T any](v T) *T { return &v }

func drifting(start time.Time) []rows.Row {
	var out []rows.Row
	for m := range begin + length + over {
		for i := range perMinute {
			end := start.Add(time.Duration(m)*time.Minute + time.Duration(i)*time.Minute/perMinute)
			drift := int64(i) * 1e6
			if m >= begin && m < begin+length && i%2 == 0 {
				drift = 30e9
			}
			r := &rows.Request{RequestID: "r", Operations: 4, Steps: 2, Attempts: ptr(uint32(4)), Retries: ptr(uint32(0)), DecisionPoints: 2, ReleaseReason: rows.ReleaseRoot}
			r.ServiceName, r.TraceID, r.Revision, r.Agent, r.Kind, r.Outcome, r.SampleWeight = "shop", fmt.Sprintf("%032x", len(out)+1), 1, "planner", rows.KindAgent, rows.OutcomeOK, 1
			r.EndedAt, r.StartedAt, r.UserTimeNS = end.UnixNano(), end.UnixNano()-40e9, 40e9
			r.HiddenPathNS, r.HiddenTotalNS, r.DriftNS, r.BudgetNS, r.DeadlineMissed = ptr(drift), ptr(drift), ptr(drift), ptr(int64(120e9)), ptr(false)
			out = append(out, r)
		}
	}
	return out
}

// Where a detector's process can be cut: what it writes, and what that says of the alert.
const (
	saveAlert   = "alert stored as "
	saveOutbox  = "state stored, with an outbox, while "
	saveState   = "state stored, with nothing to send, while "
	sendAlerts  = "sent to Alertmanager: "
	sendWebhook = "sent to the webhook: "
)

// point is a write, and whether it has its effect before the process that makes it is killed.
type point struct {
	write string
	after bool
}

// crossing stands between a detector's processes and the world: it sees each write, and kills
// the process before or after one of a given name has its effect.
type crossing struct {
	mu sync.Mutex
	// next are the points at which processes are still to be killed, in order.
	next []point
	proc *process
	// got are the keys that the webhook got, with what was said; atKill is how many of them there
	// were at each kill, and seen counts writes by name.
	got    []string
	atKill []int
	seen   map[string]int
}

// pass lets a write through and says whether its answer may be given.
func (c *crossing) pass(name string, effect func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[name]++
	if len(c.next) == 0 || c.next[0].write != name {
		effect()
		return
	}
	after := c.next[0].after
	c.next = c.next[1:]
	if after {
		effect()
	}
	c.atKill = append(c.atKill, len(c.got))
	c.proc.kill()
}

func (c *crossing) kills() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.atKill)
}

// front is a reverse proxy to base; name names the writes among its requests.
func (c *crossing) front(t *testing.T, base string, name func(r *http.Request, body []byte) string) string {
	u, err := url.Parse(base)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }, ErrorHandler: func(http.ResponseWriter, *http.Request, error) {}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // it was killed
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		effect := func() { proxy.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context()))) }
		if write := name(r, body); write != "" {
			c.pass(write, effect)
			return
		}
		effect()
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// storeWrite names what a request to the store writes about alerts.
func storeWrite(r *http.Request, body []byte) string {
	switch query := r.URL.Query().Get("query"); {
	case strings.HasPrefix(query, "INSERT INTO") && strings.Contains(query, "alerts_base"):
		for _, state := range []string{detector.Pending, detector.Firing, detector.Resolved} {
			if bytes.Contains(body, []byte(state)) {
				return saveAlert + state
			}
		}
	case strings.HasPrefix(query, "INSERT INTO") && strings.Contains(query, "detector_state_base") && bytes.Contains(body, []byte("engine/book")):
		at := bytes.IndexByte(body, '{')
		var book struct {
			Tracks map[string]struct{ Alert detector.Alert }
			Outbox []struct{ Alert detector.Alert }
		}
		if at < 0 || json.NewDecoder(bytes.NewReader(body[at:])).Decode(&book) != nil {
			return "a state that cannot be read"
		}
		for _, track := range book.Tracks {
			if len(book.Outbox) > 0 {
				return saveOutbox + track.Alert.State
			}
			return saveState + track.Alert.State
		}
	}
	return ""
}

func alertmanagerWrite(r *http.Request, body []byte) string {
	var alerts []struct{ StartsAt, EndsAt time.Time }
	if r.Method != http.MethodPost || json.Unmarshal(body, &alerts) != nil || len(alerts) == 0 {
		return ""
	}
	if alerts[0].EndsAt.Before(time.Now()) {
		return sendAlerts + detector.Resolved
	}
	return sendAlerts + detector.Firing
}

// webhook is a receiver that keeps what it got.
func (c *crossing) webhook(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Status string }
		if json.NewDecoder(r.Body).Decode(&body) != nil {
			return
		}
		c.pass(sendWebhook+body.Status, func() { c.got = append(c.got, body.Status+" "+r.Header.Get("Idempotency-Key")) })
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// settle makes what is stored look as though that had been done hours ago, and rolled up by a
// detector that ran until now: processes have nothing to roll up again when they start.
func settle(t *testing.T, conn driver.Conn, db string) {
	ctx := context.Background()
	found, err := conn.Query(ctx, "SELECT table FROM system.columns WHERE database = @db AND name = 'stored_at' AND (table = 'requests_base' OR table LIKE 'rollup%base')", clickhouse.Named("db", db))
	require.NoError(t, err)
	defer found.Close()
	for found.Next() {
		var table string
		require.NoError(t, found.Scan(&table))
		require.NoError(t, conn.Exec(ctx, "ALTER TABLE "+db+"."+table+" UPDATE stored_at = stored_at - INTERVAL 5 HOUR WHERE 1 SETTINGS mutations_sync = 2"))
	}
	require.NoError(t, found.Err())
	require.NoError(t, conn.Exec(ctx, "INSERT INTO "+db+".detector_state_base (key, state, version) SELECT key, "+
		`replaceRegexpAll(state, '\\d{13}', toString(toUnixTimestamp64Milli(now64(3)))), toUnixTimestamp64Milli(now64(3)) FROM `+db+".detector_state WHERE key = 'rollup/cursor'"))
}

// Processes that are killed by SIGKILL at the steps of an alert's life, before or after a step
// has its effect, lose no alert; each repeats at most one notification, with the key it
// had; and Alertmanager shows one.
func TestKilledProcessesLoseNothing(t *testing.T) {
	points := []point{
		{saveState + detector.Pending, false}, {saveState + detector.Pending, true},
		{saveAlert + detector.Firing, false}, {saveOutbox + detector.Firing, false}, {saveOutbox + detector.Firing, true},
		{sendAlerts + detector.Firing, true}, {sendWebhook + detector.Firing, true}, {saveState + detector.Firing, true},
		{saveOutbox + detector.Resolved, false}, {saveOutbox + detector.Resolved, true},
		{sendAlerts + detector.Resolved, true}, {sendWebhook + detector.Resolved, true}, {saveState + detector.Resolved, true},
	}
	// All of it has ended just before now, so that Alertmanager, which goes by its own clock,
	// sees the end as an end.
	start := time.Now().UTC().Truncate(time.Minute).Add(-(begin + length + over + 1) * time.Minute)
	e := enginetest.Shared(t)
	conn, db := dettest.DB(t)
	ctx := context.Background()
	require.NoError(t, dettest.Insert(ctx, conn, db, start, drifting(start)...))
	st, err := store.New(conn, db)
	require.NoError(t, err)
	job, err := rollup.New(conn, rollup.Config{Database: db})
	require.NoError(t, err)
	_, err = job.Run(ctx, start.Add((begin+length+over)*time.Minute))
	require.NoError(t, err)
	settle(t, conn, db)
	u, err := url.Parse(e.DSNFor(db))
	require.NoError(t, err)

	am := alertmanagertest.Start(t)
	c := &crossing{next: points, seen: map[string]int{}}
	front, err := url.Parse(c.front(t, "http://"+u.Host, storeWrite))
	require.NoError(t, err)
	u.Host = front.Host
	s := setup{DSN: u.String(), Database: db, Alertmanager: c.front(t, am.URL, alertmanagerWrite), Webhook: c.webhook(t)}
	c.proc = startProcess(t, s)
	firing, ended := false, false
	for m := begin; m < begin+length+over; m++ {
		at, kills := start.Add(time.Duration(m+1)*time.Minute+35*time.Second), c.kills()
		for !c.proc.round(t, at) {
			require.Greater(t, c.kills(), kills, "it ended by itself: %s", c.proc.log)
			kills = c.kills()
			c.proc = startProcess(t, s) // whose first round is at once
		}
		shown, err := am.Alerts(ctx)
		require.NoError(t, err)
		require.LessOrEqual(t, len(shown), 1)
		firing = firing || len(shown) == 1
		ended = firing && len(shown) == 0
		if m == begin+length-1 {
			require.Len(t, shown, 1, "while it fires")
		}
	}
	c.proc.kill()
	require.Empty(t, c.next, "all points were come to; writes: %v", c.seen)
	require.True(t, firing && ended, "Alertmanager shows the alert, and its end")
	history, err := st.Alerts(ctx, start, start.Add(24*time.Hour), 10)
	require.NoError(t, err)
	require.Len(t, history, 1)
	require.Equal(t, detector.Resolved, history[0].State)
	require.NotNil(t, history[0].FiredAt)

	require.Len(t, c.atKill, len(points))
	keys := map[string]bool{}
	for _, k := range c.got {
		keys[k] = true
	}
	require.Len(t, keys, 2, "one key for its beginning and one for its end: %v", c.got)
	for i, from := range c.atKill {
		to := len(c.got)
		if i+1 < len(c.atKill) {
			to = c.atKill[i+1]
		}
		repeated := 0
		for _, k := range c.got[from:to] {
			if slices.Contains(c.got[:from], k) {
				repeated++
			}
		}
		require.LessOrEqual(t, repeated, 1, "killed at %v", points[i])
	}
	require.Greater(t, len(c.got), 2, "a death between sending and noting it must repeat, or it would lose")
	t.Logf("%d kills; the webhook got %v", len(points), c.got)
}
