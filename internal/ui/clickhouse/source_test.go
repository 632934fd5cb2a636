package clickhouse_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/detector/rollup"
	"driftline/detector/store"
	"driftline/internal/clock"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
	"driftline/internal/ui"
	"driftline/internal/ui/clickhouse"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func ptr[T any](v T) *T { return &v }

const (
	fingerprint = "5eedf00d5eedf00d"
	hiddenTrace = "00000000000000000000000000000abc"
)

type world struct {
	now    time.Time
	source *clickhouse.Source
	conn   driver.Conn
	db     string
}

// newWorld stores an hour of one service: calls that are retried more and more and
// requests that end with 504 in the last minutes, one whole trace, and an alert.
func newWorld(t *testing.T) *world {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	w := &world{now: time.Now().UTC().Truncate(time.Minute), conn: conn, db: db}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var batch []rows.Row
	for m := -60; m < 0; m++ {
		for i := range 30 {
			end := w.now.Add(time.Duration(m)*time.Minute + time.Duration(i)*time.Second)
			trace := fmt.Sprintf("%032x", (m+100)*1000+i)
			attempts := uint32(1)
			if m > -20 && i%3 == 0 {
				attempts = 3
			}
			inference := int64(1e9 * math.Exp(rng.NormFloat64()*0.3))
			hidden := int64(attempts-1) * 5e9
			o := &rows.Operation{OperationID: "op" + trace[20:], Target: "m1", Stream: rows.StreamYes, Attempts: ptr(attempts), InferenceTimeNS: ptr(inference), TTFTState: rows.TTFTMissing}
			o.ServiceName, o.TraceID, o.Revision, o.Agent, o.Kind, o.Outcome, o.SampleWeight = "shop", trace, 1, "planner", rows.KindChat, rows.OutcomeOK, 1
			o.UserTimeNS, o.AgentTimeNS, o.AgentTimeSource, o.HiddenTotalNS, o.HiddenPathNS = inference+hidden, ptr(inference), rows.AgentTimeReported, ptr(hidden), ptr(hidden)
			o.FailedAttemptNS, o.InferenceSegmentNS = hidden, inference
			o.EndedAt, o.RequestID = end.UnixNano(), "rq"+trace[20:]
			o.StartedAt = o.EndedAt - o.UserTimeNS
			r := &rows.Request{RequestID: o.RequestID, Operations: 1, Steps: 1, Attempts: o.Attempts, Retries: ptr(attempts - 1)}
			r.ServiceName, r.TraceID, r.Revision, r.Agent, r.Kind, r.Name, r.Outcome, r.SampleWeight = "shop", trace, 1, "planner", rows.KindAgent, "handle", rows.OutcomeOK, 1
			r.UserTimeNS, r.AgentTimeNS, r.AgentTimeSource, r.HiddenPathNS, r.HiddenTotalNS = o.UserTimeNS, o.AgentTimeNS, o.AgentTimeSource, ptr(hidden), ptr(hidden)
			r.FailedAttemptNS, r.InferenceSegmentNS = hidden, inference
			r.EndedAt, r.StartedAt, r.ServiceVersion = o.EndedAt, o.StartedAt, "1.0"
			r.DeadlineMissed = ptr(false)
			if m > -25 {
				r.ServiceVersion = "1.1"
			}
			if m >= -5 && i < 6 {
				r.Outcome, r.ErrorClass, r.HTTPStatus = rows.OutcomeError, rows.ClassTimeout, 504
			}
			batch = append(batch, o, r)
		}
	}
	batch = append(batch, wholeTrace(w.now.Add(-12*time.Minute))...)
	open := &rows.OpenRequest{Agent: "planner", ObservedAt: w.now.Add(-10 * time.Second).UnixNano(), StartedAt: w.now.Add(-100 * time.Second).UnixNano(), LastSpanAt: w.now.UnixNano(), AgeNS: 90e9}
	open.ServiceName, open.TraceID, open.Revision = "shop", strings.Repeat("9", 32), 1
	batch = append(batch, open)
	require.NoError(t, dettest.Insert(ctx, conn, db, time.Now(), batch...))
	require.NoError(t, conn.Exec(ctx, "INSERT INTO "+db+".spans_base (service_name, trace_id, span_id, name, kind, started_at, duration_ns, status_code, attributes, ingested_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		"shop", hiddenTrace, "00f067aa0ba902b7", "invoke_agent planner", "SERVER", w.now.Add(-13*time.Minute), int64(20e9), "OK", map[string]string{"gen_ai.operation.name": "invoke_agent"}, w.now))
	job, err := rollup.New(conn, rollup.Config{Database: db})
	require.NoError(t, err)
	_, err = job.Run(ctx, time.Now())
	require.NoError(t, err)

	s, err := store.New(conn, db)
	require.NoError(t, err)
	alert := store.AlertRow{Fingerprint: fingerprint, Transition: 1, At: w.now.Add(-12 * time.Minute), Detection: "retry_bimodality", State: "pending", Severity: "warning",
		Slice: store.Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m1", Stream: "yes"}, StartedAt: w.now.Add(-15 * time.Minute), Value: 9, Threshold: 4, Baseline: 0.1, Unit: "s",
		Window: 30 * time.Minute, Samples: 800, Annotations: map[string]string{"summary": "Retries hide 10 s from the planner", "example_trace_ids": hiddenTrace}, Evidence: `{"auc":0.97}`}
	firing := alert
	firing.Transition, firing.At, firing.State, firing.FiredAt = 2, w.now.Add(-10*time.Minute), "firing", ptr(w.now.Add(-10*time.Minute))
	other := alert
	other.Fingerprint, other.Detection, other.Annotations, other.Evidence = "0ther", "p95_surge", nil, ""
	require.NoError(t, s.SaveAlerts(ctx, []store.AlertRow{alert, firing, other}))
	w.source, err = clickhouse.New(conn, db, func() time.Time { return w.now })
	require.NoError(t, err)
	return w
}

func wholeTrace(end time.Time) []rows.Row {
	began := end.Add(-20 * time.Second).UnixNano()
	r := &rows.Request{RequestID: "root", Operations: 1, Attempts: ptr(uint32(2)), Retries: ptr(uint32(1))}
	r.ServiceName, r.TraceID, r.Revision, r.Agent, r.Kind, r.Name, r.Outcome, r.SampleWeight = "shop", hiddenTrace, 1, "planner", rows.KindAgent, "whole", rows.OutcomeOK, 1
	r.StartedAt, r.EndedAt, r.UserTimeNS, r.HiddenPathNS = began, end.UnixNano(), 20e9, ptr(int64(11e9))
	o := &rows.Operation{OperationID: "op1", RequestID: "root", Target: "m1", Stream: rows.StreamYes, Attempts: ptr(uint32(2)), AttemptSource: rows.SourceHTTPChild, LeafAttempts: ptr(uint32(4)), MaxRetries: ptr(uint32(1)), TTFTState: rows.TTFTKnown, TTFTNS: ptr(int64(1e9)), OnPath: true}
	o.ServiceName, o.TraceID, o.Revision, o.Agent, o.Kind, o.Outcome, o.SampleWeight = "shop", hiddenTrace, 1, "planner", rows.KindChat, rows.OutcomeOK, 1
	o.StartedAt, o.EndedAt, o.UserTimeNS, o.HiddenTotalNS = began, end.UnixNano(), 20e9, ptr(int64(11e9))
	out := []rows.Row{r, o}
	at := began
	for i, g := range []struct {
		kind string
		ns   int64
	}{{rows.SegmentFailedAttempt, 10e9}, {rows.SegmentBackoff, 1e9}, {rows.SegmentTTFT, 1e9}, {rows.SegmentGeneration, 8e9}} {
		s := &rows.Segment{RequestID: "root", RequestEndedAt: end.UnixNano(), SegmentIndex: uint32(i), OperationID: "op1", Kind: g.kind, StartedAt: at, DurationNS: g.ns}
		s.ServiceName, s.TraceID, s.Revision = "shop", hiddenTrace, 1
		out, at = append(out, s), at+g.ns
	}
	for i := range 2 {
		a := &rows.Attempt{AttemptID: fmt.Sprint("at", i), OperationID: "op1", RequestID: "root", Ordinal: uint32(i + 1), Layer: rows.LayerSDK, Source: rows.SourceHTTPChild, DurationNS: 9e9}
		a.ServiceName, a.TraceID, a.Revision, a.Kind, a.Outcome, a.SampleWeight, a.EndedAt, a.StartedAt = "shop", hiddenTrace, 1, rows.KindChat, rows.OutcomeOK, 1, end.UnixNano(), began
		out = append(out, a)
	}
	return out
}

func TestSourceOnRealTables(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	require.NoError(t, w.source.Ping(ctx))

	t.Run("overview", func(t *testing.T) {
		o, err := w.source.Overview(ctx, w.now, 30*time.Minute)
		require.NoError(t, err)
		require.WithinDuration(t, w.now, o.Pipeline.LastEnd, time.Minute)
		require.Equal(t, w.now, o.Pipeline.LastRollup)
		require.WithinDuration(t, time.Now(), o.Pipeline.LastIngested, time.Minute)
		require.EqualValues(t, 1, o.Pipeline.Open)
		require.Equal(t, 90*time.Second, o.Pipeline.OldestOpen)
		require.Len(t, o.Firing, 1)
		require.Equal(t, 1, o.Pending)
		require.Len(t, o.Transitions, 3)
		require.Equal(t, "firing", o.Transitions[0].State)
		require.Len(t, o.Operations, 1)
		c := o.Operations[0]
		require.EqualValues(t, 30*30+1, c.N)
		require.EqualValues(t, 30*30+1, c.AttemptsKnown)
		require.EqualValues(t, 19*10+1, c.Retried)
		require.Equal(t, 19*10*10*time.Second+11*time.Second, c.Hidden)
		require.EqualValues(t, 30*30, c.Inference.N())
		require.Len(t, o.Requests, 1)
		require.EqualValues(t, 30, o.Requests[0].Status504)
		require.EqualValues(t, 30*30, o.Requests[0].DeadlineKnown)
	})
	t.Run("alerts", func(t *testing.T) {
		list, err := w.source.Alerts(ctx, 10)
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, fingerprint, list[0].Fingerprint)
		require.Equal(t, uint32(2), list[0].Transition)
	})
	t.Run("alert", func(t *testing.T) {
		d, err := w.source.Alert(ctx, w.now, fingerprint)
		require.NoError(t, err)
		require.Len(t, d.Transitions, 2)
		require.Equal(t, "firing", d.Current().State)
		require.Equal(t, w.now.Add(-40*time.Minute), d.EvidenceFrom)
		require.Equal(t, w.now.Add(-10*time.Minute), d.EvidenceTo)
		require.Len(t, d.Retries, 3)
		require.Equal(t, []string{"0", "1", "2+"}, []string{d.Retries[0].Retries, d.Retries[1].Retries, d.Retries[2].Retries})
		require.EqualValues(t, 9*10, d.Retries[2].User.N())
		require.EqualValues(t, 9*10, d.Retries[2].AgentReported)
		user, _ := d.Retries[2].User.Quantile(0.5)
		agent, _ := d.Retries[2].AgentTime.Quantile(0.5)
		require.Greater(t, user, agent+9000)
		require.Equal(t, "inference time", d.Series)
		require.Len(t, d.Minutes, 60)
		require.Equal(t, "computed", d.Source504)
		require.Equal(t, w.now.Add(-3*time.Minute), d.First504)
		require.Len(t, d.Examples, 5)
		require.Equal(t, hiddenTrace, d.Examples[0].TraceID)
		require.True(t, d.Examples[0].Named)
		require.Len(t, d.Examples[0].Segments, 4)
		require.False(t, d.Examples[1].Named)
		require.Equal(t, 10*time.Second, *d.Examples[1].Hidden)
		require.Len(t, d.Versions, 2)
		require.Equal(t, "1.1", d.Versions[1].Version)
		_, err = w.source.Alert(ctx, w.now, "unknown' OR 1=1 --")
		require.ErrorIs(t, err, ui.ErrNotFound)
	})
	t.Run("trace", func(t *testing.T) {
		tr, err := w.source.Trace(ctx, hiddenTrace)
		require.NoError(t, err)
		require.Equal(t, []int{1, 1, 2, 4, 1}, []int{len(tr.Requests), len(tr.Operations), len(tr.Attempts), len(tr.Segments), len(tr.Spans)})
		require.EqualValues(t, 4, *tr.Operations[0].LeafAttempts)
		require.EqualValues(t, 1, *tr.Operations[0].MaxRetries)
		require.Nil(t, tr.Requests[0].AgentTime)
		require.Nil(t, tr.Requests[0].DeadlineMissed)
		require.Equal(t, 11*time.Second, *tr.Requests[0].HiddenPath)
		_, err = w.source.Trace(ctx, strings.Repeat("0", 32))
		require.ErrorIs(t, err, ui.ErrNotFound)
	})
	// C61: from the alert's evidence link, as it is sent, to a trace's page, by links alone.
	t.Run("C61 the evidence link leads to the trace", func(t *testing.T) {
		h, err := ui.New(ui.Options{Source: w.source, Clock: clock.NewManual(w.now), Version: "test"})
		require.NoError(t, err)
		server := httptest.NewServer(h)
		defer server.Close()
		get := func(url string) string {
			r, err := server.Client().Get(url)
			require.NoError(t, err)
			defer r.Body.Close()
			b, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.Equal(t, 200, r.StatusCode, "%s: %s", url, b)
			return string(b)
		}
		evidence := server.URL + "/alerts/" + fingerprint // what detector.Config.EvidenceURL makes
		links := regexp.MustCompile(`href="([^"]*/traces/[0-9a-f]{32})"`).FindAllStringSubmatch(get(evidence), -1)
		require.NotEmpty(t, links, "the alert's page links its traces")
		page, err := url.Parse(evidence)
		require.NoError(t, err)
		target, err := page.Parse(links[0][1])
		require.NoError(t, err)
		require.Equal(t, "/traces/"+hiddenTrace, target.Path, "the trace that the alert names comes first")
		trace := get(target.String())
		require.Contains(t, trace, "00f067aa0ba902b7", "its span")
		require.Contains(t, trace, hiddenTrace)
		for _, l := range links[1:] {
			if other := l[1][len(l[1])-32:]; other != hiddenTrace {
				require.NotContains(t, trace, other, "no other trace's")
			}
		}
	})
	t.Run("pages", func(t *testing.T) {
		h, err := ui.New(ui.Options{Source: w.source, Clock: clock.NewManual(w.now), Version: "test"})
		require.NoError(t, err)
		server := httptest.NewServer(h)
		defer server.Close()
		for path, want := range map[string][]string{
			"/":                         {"Retries hide 10 s from the planner", "1 firing", "oldest for 1 min 30 s", "chat m1"},
			"/alerts":                   {fingerprint, "pending"},
			"/alerts/" + fingerprint:    {"Fired 7 min before the 504 alert", "Retried twice or more", hiddenTrace, "appeared", "auc"},
			"/traces/" + hiddenTrace:    {"The segments sum to 20 s of 20 s user time.", "invoke_agent planner", "failed attempt"},
			"/readyz":                   {"ready"},
			"/alerts/0ther?refresh=off": {"has not fired"},
		} {
			r, err := server.Client().Get(server.URL + path)
			require.NoError(t, err)
			b, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			_ = r.Body.Close()
			require.Equal(t, 200, r.StatusCode, "%s: %s", path, b)
			for _, s := range want {
				require.Contains(t, string(b), s, path)
			}
		}
	})
}

func TestEmptyDatabaseIsNotAnError(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	s, err := clickhouse.New(conn, db, time.Now)
	require.NoError(t, err)
	o, err := s.Overview(ctx, time.Now(), 30*time.Minute)
	require.NoError(t, err)
	require.True(t, o.Pipeline.LastEnd.IsZero())
	require.True(t, o.Pipeline.LastRollup.IsZero())
	require.Empty(t, o.Operations)
	list, err := s.Alerts(ctx, 10)
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestPingFailsWithoutTables(t *testing.T) {
	conn, _ := dettest.DB(t)
	s, err := clickhouse.New(conn, "no_such_database", time.Now)
	require.NoError(t, err)
	require.Error(t, s.Ping(context.Background()))
	_, err = clickhouse.New(conn, "bad; DROP", time.Now)
	require.Error(t, err)
}
