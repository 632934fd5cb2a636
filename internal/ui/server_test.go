package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/internal/clock"
)

func handler(t *testing.T, o Options) http.Handler {
	t.Helper()
	if o.Source == nil {
		o.Source = newFixture()
	}
	o.Clock = clock.NewManual(now)
	h, err := New(o)
	require.NoError(t, err)
	return h
}

func get(h http.Handler, target string, change ...func(*http.Request)) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+target, nil)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b)
}

// counting is storage that says how many pages ask at once.
type counting struct {
	Source
	now, most atomic.Int32
}

func (c *counting) Overview(ctx context.Context, at time.Time, window time.Duration) (*Overview, error) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	runtime.Gosched()
	return c.Source.Overview(ctx, at, window)
}

func TestACrowdIsServedInTurns(t *testing.T) {
	c := &counting{Source: newFixture()}
	h := handler(t, Options{Source: c})
	var crowd sync.WaitGroup
	for range 200 {
		crowd.Go(func() {
			if got := get(h, "/").StatusCode; got != http.StatusOK {
				t.Errorf("status %d", got)
			}
		})
	}
	crowd.Wait()
	require.LessOrEqual(t, c.most.Load(), int32(pagesAtOnce))
}

func TestWhoWaitsTooLongIsToldSo(t *testing.T) {
	h := handler(t, Options{Source: &slow{}, QueryTimeout: 20 * time.Millisecond})
	var crowd sync.WaitGroup
	for range 20 {
		crowd.Go(func() {
			if got := get(h, "/").StatusCode; got != http.StatusServiceUnavailable {
				t.Errorf("status %d", got)
			}
		})
	}
	crowd.Wait()
}

func TestOptionsAreCheckedAllAtOnce(t *testing.T) {
	_, err := New(Options{QueryTimeout: -1, AllowedHosts: []string{"http://x"}})
	require.ErrorContains(t, err, "Source is missing")
	require.ErrorContains(t, err, "QueryTimeout")
	require.ErrorContains(t, err, "http://x")
}

func TestEveryAnswerHasTheHeaders(t *testing.T) {
	h := handler(t, Options{})
	for _, path := range []string{"/", "/alerts", "/alerts/" + surgeID, "/traces/" + traceA, "/runbooks", "/runbooks/p95_surge", "/healthz", "/readyz", "/metrics", "/static/style.css", "/nope", "/alerts/%3Cscript%3E", "/traces/zz"} {
		r := get(h, path)
		require.Equal(t, policy, r.Header.Get("Content-Security-Policy"), path)
		require.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-referrer", r.Header.Get("Referrer-Policy"), path)
		require.NotEmpty(t, r.Header.Get("Content-Type"), path)
	}
	require.NotContains(t, policy, "unsafe")
	require.NotContains(t, policy, "script-src")
}

func TestStatuses(t *testing.T) {
	h := handler(t, Options{})
	for target, want := range map[string]struct {
		status int
		text   string
	}{
		"/nope":                                 {404, "There is no such page"},
		"/alerts/unknownalert":                  {404, "There is no such alert"},
		"/alerts/%3Cscript%3E":                  {400, "A fingerprint is 1 to 128"},
		"/alerts/" + strings.Repeat("a", 129):   {400, "A fingerprint is 1 to 128"},
		"/traces/xyz":                           {400, "32 hex digits, such as"},
		"/traces/" + strings.ToUpper(traceA):    {200, "Legend and totals"},
		"/traces/" + traceOld:                   {404, "Nothing is stored about trace " + traceOld},
		"/traces?id=nonsense":                   {400, "32 hex digits"},
		"/static/":                              {404, ""},
		"/static/../server.go":                  {307, ""}, // cleaned by the mux
		"/metrics":                              {404, ""},
		"/alerts/" + evilID + "/more":           {404, "There is no such page"},
		"/traces?id=" + "%20" + traceA + "%20":  {303, ""},
		"/alerts/" + surgeID + "?refresh=off":   {200, "does not reload"},
		"/alerts/" + surgeID + "?refresh=off&x": {200, "does not reload"},
	} {
		r := get(h, target)
		require.Equal(t, want.status, r.StatusCode, target)
		require.Contains(t, body(t, r), want.text, target)
	}
	require.Contains(t, body(t, get(h, "/traces/"+traceA)), "sibling; 6 made, 2 configured")
	require.Equal(t, "/traces/"+traceA, get(h, "/traces?id="+traceA).Header.Get("Location"))
	r := get(h, "/", func(r *http.Request) { r.Method = http.MethodPost })
	require.Equal(t, http.StatusMethodNotAllowed, r.StatusCode)
	require.Equal(t, "GET, HEAD", r.Header.Get("Allow"))
}

func TestMetricsAreServed(t *testing.T) {
	h := handler(t, Options{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })})
	require.Equal(t, "up 1\n", body(t, get(h, "/metrics")))
}

func TestHostHeaderIsCheckedOnLoopback(t *testing.T) {
	h := handler(t, Options{AllowedHosts: []string{"driftline.example.com"}})
	local := func(ip string) func(*http.Request) {
		return func(r *http.Request) {
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(ip), Port: 8080}))
		}
	}
	host := func(s string) func(*http.Request) { return func(r *http.Request) { r.Host = s } }
	for name, want := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "127.0.0.1:8080": 200, "127.9.9.9": 200, "[::1]:8080": 200, "LOCALHOST": 200, "Driftline.Example.com:443": 200,
		"evil.example.com": 421, "evil.example.com:8080": 421, "127.0.0.1.evil.example.com": 421, "localhost.evil.example": 421, "192.168.1.4": 421, "": 421,
	} {
		require.Equal(t, want, get(h, "/healthz", local("127.0.0.1"), host(name)).StatusCode, "host %q on loopback", name)
		require.Equal(t, want, get(h, "/healthz", host(name)).StatusCode, "host %q on an unknown address", name)
		require.Equal(t, 200, get(h, "/healthz", local("10.0.0.5"), host(name)).StatusCode, "host %q elsewhere", name)
	}
}

func TestReadyzSaysWhyNot(t *testing.T) {
	f := newFixture()
	ready := errors.New("state not loaded yet")
	h := handler(t, Options{Source: f, Ready: func() error { return ready }})
	f.err = errors.New("connection refused")
	r := get(h, "/readyz")
	require.Equal(t, 503, r.StatusCode)
	text := body(t, r)
	require.Contains(t, text, "state not loaded yet")
	require.Contains(t, text, "connection refused")
	require.Equal(t, 200, get(h, "/healthz").StatusCode, "alive is not ready")
	ready, f.err = nil, nil
	require.Equal(t, 200, get(h, "/readyz").StatusCode)
}

func TestFailuresAreLoggedNotShown(t *testing.T) {
	f := newFixture()
	f.err = errors.New("password=secret at host")
	var log bytes.Buffer
	h := handler(t, Options{Source: f, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	r := get(h, "/")
	require.Equal(t, 500, r.StatusCode)
	text := body(t, r)
	require.NotContains(t, text, "secret")
	ref := regexp.MustCompile(`ref=([0-9a-f]{8})`).FindStringSubmatch(text)
	require.NotNil(t, ref, text)
	require.Contains(t, log.String(), ref[0])
	require.Contains(t, log.String(), "secret at host")

	f.err = fmt.Errorf("query: %w", context.DeadlineExceeded)
	r = get(h, "/")
	require.Equal(t, 503, r.StatusCode)
	require.Contains(t, body(t, r), "took longer than 10 s")
}

// Somebody who opens a page while detectd waits for ClickHouse reads what it waits for.
func TestAPageThatFailsWhileNotReadySaysWhatIsMissing(t *testing.T) {
	f := newFixture()
	f.err = errors.New("password=secret at host")
	ready := errors.New("waiting for ClickHouse at 127.0.0.1:9000: connection refused")
	h := handler(t, Options{Source: f, Ready: func() error { return ready }})
	r := get(h, "/")
	require.Equal(t, 503, r.StatusCode)
	text := body(t, r)
	require.Contains(t, text, "Waiting for ClickHouse at 127.0.0.1:9000: connection refused. ")
	require.NotContains(t, text, "secret")
	require.Regexp(t, `ref=[0-9a-f]{8}`, text)

	f.err = nil
	require.Equal(t, 200, get(h, "/").StatusCode, "what can be read is shown")
}

// slow is a Source that answers only when its context ends.
type slow struct{ fixture }

func (s *slow) Overview(ctx context.Context, _ time.Time, _ time.Duration) (*Overview, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestQueriesAreBounded(t *testing.T) {
	r := get(handler(t, Options{Source: &slow{}, QueryTimeout: time.Millisecond}), "/")
	require.Equal(t, 503, r.StatusCode)
}

func TestValuesAreEscaped(t *testing.T) {
	h := handler(t, Options{Version: evil})
	for _, path := range []string{"/", "/alerts", "/alerts/" + evilID, "/traces/" + traceA, "/" + evil} {
		text := body(t, get(h, strings.ReplaceAll(path, " ", "%20")))
		require.NotContains(t, text, "<script", path)
		require.NotContains(t, text, "javascript:", path)
	}
	require.Contains(t, body(t, get(h, "/alerts/"+evilID)), "&lt;script&gt;alert")
}

func TestUnknownIsNotZero(t *testing.T) {
	tbl := sliceTable("c", []Slice{{Service: "s", Kind: "chat", N: 200, User: newFixture().overview.Operations[1].User, UserSum: time.Hour}}, 50, true)
	byHead := map[string]string{}
	for i, head := range tbl.Head {
		byHead[head] = tbl.Rows[0][i].Text
	}
	require.Equal(t, unknown, byHead["Inference P95"])
	require.Equal(t, unknown, byHead["Retried"])
	require.Equal(t, unknown, byHead["Hidden time"])
	require.Equal(t, unknown, byHead["Deadline misses"])
	require.Equal(t, "0 %", byHead["504s"])
	require.Contains(t, byHead["Service and agent"], unknown)
}

func TestStatusStrip(t *testing.T) {
	level := func(o *Overview, ready error) map[string]string {
		out := map[string]string{}
		for _, s := range statusStrip(now, o, ready) {
			out[s.Label] = s.Level
		}
		return out
	}
	fresh := Pipeline{LastEnd: now.Add(-10 * time.Second), LastRollup: now.Add(-20 * time.Second)}
	require.Equal(t, map[string]string{"Data": "ok", "Pipeline": "ok", "Alerts": "ok", "Open requests": "ok"}, level(&Overview{Pipeline: fresh}, nil))
	require.Equal(t, "none", level(&Overview{}, nil)["Data"])
	require.Equal(t, "bad", level(&Overview{Pipeline: fresh}, errors.New("x"))["Pipeline"])
	stale := fresh
	stale.LastEnd = now.Add(-6 * time.Minute)
	require.Equal(t, "bad", level(&Overview{Pipeline: stale}, nil)["Data"])
	behind := fresh
	behind.LastRollup = now.Add(-5 * time.Minute)
	require.Equal(t, "bad", level(&Overview{Pipeline: behind}, nil)["Pipeline"])
	require.Equal(t, "warn", level(&Overview{Pipeline: fresh, Firing: []Alert{{Severity: "warning"}}}, nil)["Alerts"])
	require.Equal(t, "bad", level(&Overview{Pipeline: fresh, Firing: []Alert{{Severity: "critical"}}}, nil)["Alerts"])
}

func TestFormats(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 420 * time.Microsecond: "0.42 ms", 340 * time.Millisecond: "340 ms", 999900 * time.Microsecond: "1 s", 1234 * time.Millisecond: "1.23 s", 12340 * time.Millisecond: "12.3 s",
		59990 * time.Millisecond: "1 min", 192 * time.Second: "3 min 12 s", 2 * time.Hour: "2 h", 30 * time.Minute: "30 min", 50 * time.Hour: "2 d 2 h", -2 * time.Second: "-2 s", 9999 * time.Millisecond: "10 s",
	} {
		require.Equal(t, want, formatDuration(d), "%d ns", d)
	}
	require.Equal(t, "4.2×", formatValue(4.2, "ratio"))
	require.Equal(t, "1.2 s", formatValue(1200, "ms"))
	require.Equal(t, "12 %", formatValue(0.12, "share"))
	require.Equal(t, "12 %", formatValue(0.12, "1"))
	require.Equal(t, "0.5 tokens", formatValue(0.5, "tokens"))
	require.Equal(t, unknown, formatValue(math.NaN(), "ms"))
	require.Equal(t, "0 %", formatShare(0))
	require.Equal(t, "under 0.1 %", formatShare(0.0001))
	require.Equal(t, unknown, ratio(0, 0).Text)
	require.Equal(t, "2.1 s", formatBaseline(Alert{Unit: "ratio", Baseline: 2100}))
	require.Equal(t, unknown, formatBaseline(Alert{Unit: "ratio"}))
}

func TestFirst504NeedsTwoAdjoiningMinutes(t *testing.T) {
	at := func(i int, n, e uint64) Minute {
		return Minute{At: now.Truncate(time.Minute).Add(time.Duration(i) * time.Minute), Requests: n, Status504: e}
	}
	begin := now.Truncate(time.Minute)
	require.Zero(t, First504([]Minute{at(0, 100, 6), at(1, 100, 5), at(2, 100, 6)}, begin), "5 % is not over 5 %")
	require.Zero(t, First504([]Minute{at(0, 100, 6), at(2, 100, 6)}, begin), "a minute without data lies between")
	require.Zero(t, First504([]Minute{at(0, 0, 0), at(1, 0, 0)}, begin))
	require.Equal(t, begin.Add(4*time.Minute), First504([]Minute{at(0, 100, 9), at(2, 100, 6), at(3, 10, 1)}, begin))
	require.Zero(t, First504([]Minute{at(0, 10, 9), at(1, 10, 6)}, begin.Add(time.Hour)), "before the alert began")
}

func TestTrailLooksBackAndKnowsItsGaps(t *testing.T) {
	d := newFixture().details[surgeID]
	points := trail(d.Minutes, d.From, d.To)
	require.Len(t, points, 82)
	require.EqualValues(t, 90, points[0].N)
	require.EqualValues(t, 450, points[10].N)
	require.Equal(t, d.From.Add(time.Minute), points[0].At)
	require.True(t, math.IsNaN(points[36].P95), "five minutes without data")
	require.True(t, math.IsNaN(points[20].Share504))
	require.False(t, math.IsNaN(points[20].P95), "minutes before it have data")
	require.Greater(t, points[81].P95, 3*points[50].P95)
}

func TestLevelsFollowTheUnit(t *testing.T) {
	a := surge("firing", 1, now, 4)
	require.InDelta(t, 6300, levels(a)[0].Value, 1e-9)
	a.Baseline = 0
	require.Empty(t, levels(a))
	a.Unit, a.Threshold = "s", 5
	require.InDelta(t, 5000, levels(a)[0].Value, 1e-9)
	a.Unit = "share"
	require.Empty(t, levels(a))
}

func TestLead(t *testing.T) {
	d := newFixture().details[surgeID]
	require.Contains(t, lead(d), "before the 504 alert")
	require.Contains(t, lead(d), "computed by the rule")
	d.First504, d.Source504 = now.Add(-19*time.Minute), "alert"
	require.Contains(t, lead(d), "Fired 1 min after the 504 alert")
	require.Contains(t, lead(d), "stored")
	d.Transitions[1].Detection = "alert_504"
	require.Contains(t, lead(d), "the 504 alert itself")
	d.Transitions[1].Detection = "p95_surge"
	d.First504 = time.Time{}
	require.Contains(t, lead(d), "No 504 alert")
}

func TestEvidenceOfAnyShape(t *testing.T) {
	tbl, raw := evidenceTable(`{"b":{"c":[1,2.50]},"a":[{"x":true},{"x":null}],"big":12345678901234567890}`)
	require.Empty(t, raw)
	var got []string
	for _, r := range tbl.Rows {
		got = append(got, r[0].Text+"="+r[1].Text)
	}
	require.Equal(t, []string{"a[0].x=yes", "a[1].x=unknown", "b.c=1, 2.50", "big=12345678901234567890"}, got)
	_, raw = evidenceTable("not json")
	require.Equal(t, "not json", raw)
	tbl, _ = evidenceTable("[" + strings.Repeat(`{"a":1},`, 999) + `{"a":1}]`)
	require.Len(t, tbl.Rows, 200)
	require.NotEmpty(t, tbl.More)
}

// contrast is the ratio of WCAG 2 between two #rrggbb colours.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	lum := func(c string) float64 {
		var l float64
		for i, w := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(c[1+2*i:3+2*i], 16, 8)
			require.NoError(t, err)
			v := float64(n) / 255
			if v <= 0.04045 {
				v /= 12.92
			} else {
				v = math.Pow((v+0.055)/1.055, 2.4)
			}
			l += w * v
		}
		return l
	}
	x, y := lum(a), lum(b)
	return (math.Max(x, y) + 0.05) / (math.Min(x, y) + 0.05)
}

func TestColoursHaveContrast(t *testing.T) {
	css, err := staticFiles.ReadFile("static/style.css")
	require.NoError(t, err)
	light, dark, found := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	require.True(t, found)
	dark, _, _ = strings.Cut(dark, "* {")
	text := []string{"text", "dim", "link", "ok", "warn", "bad"}
	graphics := []string{"user", "agent", "spread", "focus"}
	for scheme, part := range map[string]string{"light": light, "dark": dark} {
		vars := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z_-]+): (#[0-9a-f]{6})`).FindAllStringSubmatch(part, -1) {
			vars[m[1]] = m[2]
		}
		for _, fg := range text {
			for _, bg := range []string{"bg", "panel", "warn-bg", "bad-bg"} {
				require.GreaterOrEqual(t, contrast(t, vars[fg], vars[bg]), 4.5, "%s: %s on %s", scheme, fg, bg)
			}
		}
		kinds := 0
		for name := range vars {
			if strings.HasPrefix(name, "k-") {
				graphics, kinds = append(graphics, name), kinds+1
			}
		}
		require.Equal(t, 10, kinds)
		for _, fg := range graphics {
			require.GreaterOrEqual(t, contrast(t, vars[fg], vars["bg"]), 3.0, "%s: %s", scheme, fg)
		}
	}
}

// A runbook is there for each detection, and its links lead to pages.
func TestRunbooks(t *testing.T) {
	h := handler(t, Options{})
	index := get(h, "/runbooks")
	require.Equal(t, 200, index.StatusCode)
	text := body(t, index)
	seen := 0
	for _, m := range regexp.MustCompile(`href="(/runbooks/[a-z0-9_]+)"`).FindAllStringSubmatch(text, -1) {
		r := get(h, m[1])
		require.Equal(t, 200, r.StatusCode, m[1])
		page := body(t, r)
		require.Contains(t, page, "What not to do", m[1])
		require.Contains(t, page, `<code class="language-sql">`, m[1])
		for _, to := range regexp.MustCompile(`href="(/runbooks/[^"]+)"`).FindAllStringSubmatch(page, -1) {
			require.Equal(t, 200, get(h, to[1]).StatusCode, "%s on %s", to[1], m[1])
		}
		require.NotContains(t, page, `.md"`, m[1])
		seen++
	}
	for name := range adviceFor {
		require.Contains(t, text, "/runbooks/"+name)
	}
	require.Equal(t, len(adviceFor), seen)
	for _, path := range []string{"/runbooks/nope", "/runbooks/README", "/runbooks/..%2fREADME"} {
		require.Equal(t, 404, get(h, path).StatusCode, path)
	}
}
