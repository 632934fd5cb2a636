package detector_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/dettest"
	"driftline/detector/memory"
	"driftline/detector/rollup"
	"driftline/detector/store"
	"driftline/internal/clock"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
	"driftline/internal/ui"
	uiclickhouse "driftline/internal/ui/clickhouse"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// TestIncidentOnTheRealEngine plays history and an incident through the base tables,
// the rollups and the store, restarts the detector in the middle, and lets its
// notifier fail for a while.
func TestIncidentOnTheRealEngine(t *testing.T) {
	const quiet, restart, length = 110, 116, 135
	ctx := context.Background()
	conn, db := dettest.DB(t)
	st, err := store.New(conn, db)
	require.NoError(t, err)
	g := seeded(t)
	start := time.Now().UTC().Truncate(time.Minute).Add(-length*time.Minute - time.Hour)
	sink := &collect{name: "sink", fail: errors.New("receiver is down")}
	other := &collect{name: "other"}
	source, err := uiclickhouse.New(conn, db, time.Now)
	require.NoError(t, err)
	handler, err := ui.New(ui.Options{Source: source})
	require.NoError(t, err)
	pages := httptest.NewServer(handler)
	defer pages.Close()
	cfg := detector.DefaultConfig()
	cfg.ExplainTimeout = time.Minute // what is said is tested here, not how soon
	cfg.EvidenceURL, cfg.RunbookPages, cfg.DashboardURL = pages.URL+"/alerts/", pages.URL+"/runbooks/", "https://grafana.example.com/d/driftline"
	build := func() *detector.Engine {
		job, err := rollup.New(conn, rollup.Config{Database: db})
		require.NoError(t, err)
		e, err := detector.New(cfg, st, job, []detector.Notifier{sink, other}, clock.NewManual(start))
		require.NoError(t, err)
		require.ErrorContains(t, e.Ready(), "first evaluation")
		return e
	}
	// insert stores minutes [from, to) at once, as of the end of the last.
	insert := func(from, to int, c conditions) {
		var all []rows.Row
		for m := from; m < to; m++ {
			reqs, ops := g.minute(start.Add(time.Duration(m)*time.Minute), c)
			for _, o := range ops {
				all = append(all, o)
			}
			for i, r := range reqs {
				if user := int64(i % 10); user < 8 {
					r.UserHash = &user
				}
				all = append(all, r)
			}
		}
		for some := range slices.Chunk(all, 10_000) { // a statement has 512 MiB of memory
			require.NoError(t, dettest.Insert(ctx, conn, db, start.Add(time.Duration(to)*time.Minute), some...))
		}
	}
	insert(0, quiet-12, healthy)
	for m := quiet - 12; m < quiet; m++ {
		insert(m, m+1, healthy)
	}
	e := build()
	var changes []detector.Alert
	for m := quiet; m < length; m++ {
		if m == restart {
			e = build()
		}
		if m == restart+4 {
			sink.fail = nil
		}
		insert(m, m+1, incident(m-quiet))
		for _, after := range []time.Duration{95 * time.Second, 125 * time.Second} {
			r, err := e.Evaluate(ctx, start.Add(time.Duration(m)*time.Minute+after))
			if sink.fail != nil && err != nil {
				require.ErrorContains(t, err, "receiver is down")
			} else {
				require.NoError(t, err)
			}
			require.NoError(t, e.Ready(), "a receiver that is down does not keep the engine from judging")
			changes = append(changes, r.Changes...)
		}
	}
	fired := map[string]time.Time{}
	for _, c := range changes {
		t.Logf("%s %s %s %s %s", c.At.Sub(start), c.Detection, c.State, c.Slice, c.Evidence.Reason)
		if _, ok := fired[c.Detection]; c.State == detector.Firing && !ok {
			fired[c.Detection] = c.FiredAt
		}
	}
	late := fired[detector.Alert504]
	require.False(t, late.IsZero())
	for _, d := range []string{detector.RetryBimodality, detector.DeadlineDrift, detector.P95Spread, detector.P95Surge} {
		require.False(t, fired[d].IsZero(), d)
		require.True(t, fired[d].Before(late), d)
	}
	// C63: each transition was sent once to each, although one was down and the
	// process was replaced; firing alerts were repeated well inside their end.
	for _, c := range []*collect{sink, other} {
		seen := map[string]bool{}
		for _, a := range c.news() {
			require.False(t, seen[a.Key()], "%s got %s twice", c.name, a.Key())
			seen[a.Key()] = true
			require.False(t, a.Shadow)
		}
		require.GreaterOrEqual(t, len(seen), 4)
	}
	require.Len(t, sink.news(), len(other.news()))
	require.Greater(t, len(other.got), len(other.news()))

	stored, err := st.AlertTransitions(ctx, start, time.Now(), 1000)
	require.NoError(t, err)
	require.Len(t, stored, len(changes))
	for _, a := range stored {
		var ev detector.Evidence
		require.NoError(t, json.Unmarshal([]byte(a.Evidence), &ev))
		if a.State == detector.Firing && a.Detection != detector.Alert504 {
			require.NotEmpty(t, ev.TraceIDs, a.Detection)
			spans, err := st.Operations(ctx, ev.TraceIDs[0])
			require.NoError(t, err)
			require.NotEmpty(t, spans)
		}
		// C69: who, how much, over which window, against what, what first.
		for _, key := range []string{"summary", "description", "cause", "do_first", "do_not", "value", "unit", "threshold", "baseline", "window", "samples",
			"evidence_url", "runbook_url", "dashboard_url"} {
			require.NotEmpty(t, a.Annotations[key], "%s of %s", key, a.Detection)
		}
		require.True(t, strings.Contains(a.Annotations["summary"], "planner"))
		if a.State != detector.Firing {
			continue
		}
		for _, key := range []string{"trace_ids", "normal_trace_id", "requests_hit", "differs", "completeness", "changes"} {
			require.NotEmpty(t, a.Annotations[key], "%s of %s", key, a.Detection)
		}
		require.Len(t, strings.Fields(a.Annotations["trace_ids"]), 3)
		require.Regexp(t, `^[0-8] of 8 users \(\d+\.\d %\); [78]\d\.\d % of requests state a user$`, a.Annotations["users_hit"])
		require.Regexp(t, `^(\d+) of (\d+) minutes have data, \d+ % of the usual number of requests, .*\d+ late fragments left out$`, a.Annotations["completeness"])
		// Links lead somewhere.
		links := []string{a.Annotations["evidence_url"], a.Annotations["runbook_url"]}
		for _, id := range append(strings.Fields(a.Annotations["trace_ids"]), a.Annotations["normal_trace_id"]) {
			links = append(links, pages.URL+"/traces/"+id)
		}
		for _, link := range links {
			r, err := http.Get(link)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, r.StatusCode, link)
			require.NoError(t, r.Body.Close())
		}
		t.Logf("%s %s: %s | hit %s | %s | %s", a.Detection, a.Slice, a.Annotations["cause"], a.Annotations["requests_hit"], a.Annotations["completeness"], a.Annotations["differs"])
	}
}

// failing breaks reads on demand.
type failing struct {
	*memory.Store
	err error
}

func (f *failing) Run(ctx context.Context, now time.Time) (rollup.Stats, error) {
	if f.err != nil {
		return rollup.Stats{}, f.err
	}
	return f.Store.Run(ctx, now)
}

func (f *failing) OperationCells(ctx context.Context, from, to time.Time) ([]store.OperationCell, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.Store.OperationCells(ctx, from, to)
}

// C62: a store away for 40 s is no alert; for 10 minutes it is one.
func TestBlindnessIsItsOwnAlert(t *testing.T) {
	ctx := context.Background()
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	st, sink := &failing{Store: memory.New()}, &collect{name: "sink"}
	e, err := detector.New(detector.DefaultConfig(), st, st, []detector.Notifier{sink}, clock.NewManual(start))
	require.NoError(t, err)
	at := start
	round := func() error {
		at = at.Add(30 * time.Second)
		_, err := e.Evaluate(ctx, at)
		return err
	}
	require.NoError(t, round())
	st.err = errors.New("connection refused")
	require.ErrorContains(t, round(), "connection refused")
	require.Error(t, round())
	require.Empty(t, sink.got)
	require.NoError(t, e.Ready(), "two failed rounds")
	require.Error(t, round())
	require.ErrorContains(t, e.Ready(), "the last 3 evaluations failed, the first of them at 2026-03-02T00:01:00Z: connection refused")
	for range 30 {
		require.Error(t, round())
	}
	require.Len(t, sink.news(), 1)
	require.Equal(t, detector.PipelineHealth, sink.news()[0].Detection)
	st.err = nil
	for range 14 {
		require.NoError(t, round())
		require.NoError(t, e.Ready())
	}
	require.Len(t, sink.news(), 2)
	require.Equal(t, detector.Resolved, sink.news()[1].State)
	require.NotEmpty(t, st.Alerts(), "what could not be stored is stored later")
}

// A service that falls silent is a pipeline alert, and other alerts stay.
func TestSilenceOfAService(t *testing.T) {
	g := seeded(t)
	ctx := context.Background()
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	st, sink := memory.New(), &collect{name: "sink"}
	e, err := detector.New(detector.DefaultConfig(), st, st, []detector.Notifier{sink}, clock.NewManual(start))
	require.NoError(t, err)
	const quiet = 100
	for m := range quiet + 40 {
		now := start.Add(time.Duration(m) * time.Minute)
		switch {
		case m < quiet:
			g.into(st, now, healthy)
		case m < quiet+5:
			g.into(st, now, incident(m-quiet))
		}
		if m < 80 {
			continue
		}
		_, err := e.Evaluate(ctx, now.Add(time.Minute+35*time.Second))
		require.NoError(t, err)
	}
	silent, firing := 0, 0
	for _, a := range sink.news() {
		require.Equal(t, detector.Firing, a.State, "%s resolved by silence", a.Detection)
		if a.Detection == detector.PipelineHealth {
			silent++
			require.Equal(t, "no_data", a.Evidence.Reason)
		} else {
			firing++
		}
	}
	require.Equal(t, 1, silent)
	require.Positive(t, firing)
}
