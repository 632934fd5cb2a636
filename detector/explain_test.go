package detector

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/detector/rollup"
	"driftline/detector/store"
	"driftline/internal/clock"
	"driftline/internal/rows"
)

// Every detection can say all that an alert is to say, of each kind of slice that it judges. The
// real store answers: five requests a minute, one of them slow, in every way that a detection
// looks for, and four that went well.
func TestEveryDetectionIsExplained(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	st, err := store.New(conn, db)
	require.NoError(t, err)
	end := time.Now().UTC().Truncate(time.Minute)
	from := end.Add(-5 * time.Minute)
	call := Slice{Service: "shop", Agent: "planner", Kind: rows.KindChat, Target: "m1", Stream: rows.StreamNo}
	request := Slice{Service: "shop", Agent: "planner", Kind: rows.KindAgent}
	var all []rows.Row
	for i := range 25 {
		all = append(all, explained(i, from.Add(time.Duration(i)*12*time.Second+time.Second))...)
	}
	require.NoError(t, dettest.Insert(ctx, conn, db, time.Now(), all...))
	job, err := rollup.New(conn, rollup.Config{Database: db})
	require.NoError(t, err)
	_, err = job.Run(ctx, time.Now())
	require.NoError(t, err)

	var log strings.Builder
	cfg := DefaultConfig()
	cfg.ExplainTimeout = time.Minute
	cfg.EvidenceURL, cfg.RunbookPages, cfg.DashboardURL = "https://d.example.com/alerts/", "https://d.example.com/runbooks/", "https://g.example.com/d"
	explain := func(detection string, s Slice) map[string]string {
		e, err := New(cfg, st, job, nil, clock.NewManual(end), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, err)
		e.book, e.loaded = newBook(), true
		for _, s := range []Slice{call, request} { // of which requests take 2 s and up to 3
			e.works.kept[s] = keptBaseline{WorkBaseline: WorkBaseline{Blocks: 3, N: 900, P95MS: 3000, OKMS: 2020}}
		}
		e.baselines.opCache[call] = OperationBaseline{Blocks: 3, P50MS: 2020, P95MS: 3000, TTFT: LevelBaseline{Blocks: 3, P95MS: 900}, PerToken: LevelBaseline{Blocks: 3, P95MS: 50}}
		v := Verdict{Detection: detection, Slice: s, Level: Breach, Severity: Warning, From: from, To: end, Samples: 25, Value: 0.2, Threshold: 0.1, Baseline: 0.02, Unit: "1", Text: "it is so", Cause: "a reason"}
		e.explainer([]Verdict{v}).explain(ctx, &v)
		return cfg.annotations(v, "f00")
	}
	check := func(detection string, s Slice) {
		t.Run(fmt.Sprint(detection, " of ", s), func(t *testing.T) {
			log.Reset()
			a := explain(detection, s)
			require.Empty(t, log.String(), "nothing fails")
			order, ok := ExampleOrder(detection, s)
			require.True(t, ok)
			shown := []int{0, 5, 10, 15, 20}
			if some := shownBy[order]; some != nil {
				shown = some
			}
			require.Equal(t, fmt.Sprintf("%.1f %% (%d of 25 requests)", 4*float64(len(shown)), len(shown)), a["requests_hit"])
			require.Len(t, strings.Fields(a["trace_ids"]), 3)
			for _, id := range strings.Fields(a["trace_ids"]) {
				n, err := strconv.ParseInt(id, 16, 64)
				require.NoError(t, err)
				require.Contains(t, shown, int(n)-1)
			}
			require.Equal(t, fmt.Sprintf("%032x", 20), a["normal_trace_id"], "19 ms over 2 s is nearest to what is usual, and not the fastest")
			require.Contains(t, a["completeness"], "5 of 5 minutes have data")
			for _, key := range []string{"summary", "description", "value", "unit", "window", "baseline", "threshold", "samples", "cause", "differs", "changes", "do_first", "do_not", "runbook_url", "evidence_url", "dashboard_url"} {
				require.NotEmpty(t, a[key], key)
			}
		})
	}
	t.Run(PipelineHealth, func(t *testing.T) {
		log.Reset()
		a := explain(PipelineHealth, Slice{Service: "shop"})
		require.Empty(t, log.String())
		require.Equal(t, "0 of 5 minutes have data", a["completeness"])
		require.Contains(t, a["changes"], "none seen")
		a = explain(PipelineHealth, Slice{Service: ownService})
		require.NotContains(t, a, "changes", "its store is away")
	})
	said := map[string]bool{Alert504: true, PipelineHealth: true}
	for _, d := range operationDetections {
		check(d.name, call)
		said[d.name] = true
	}
	for _, d := range requestDetections {
		check(d.name, request)
		said[d.name] = true
	}
	for _, d := range workDetections {
		if d.operations {
			check(d.name, call)
		}
		if d.requests {
			check(d.name, request)
		}
		said[d.name] = true
	}
	check(Alert504, request)
	for _, name := range Detections() {
		require.True(t, said[name], name)
	}
}

// shownBy are the requests of explained that show a finding, where not all bad ones do.
var shownBy = map[store.ExampleOrder][]int{
	store.ByFirstTimeout: {0, 10, 20}, store.ByOverrun: {5, 10, 15}, store.ByFirstToken: {0, 5, 10, 15}, store.ByTokenTime: {5, 10, 15, 20}, store.ByLeft: {0, 5, 20},
}

// explained are a request of a trace and its calls, which succeed in 2 s; every fifth fails in
// every way there is.
func explained(i int, end time.Time) []rows.Row {
	ptr := func(ns int64) *int64 { return &ns }
	bad := i%5 == 0
	took, hidden, left, status, outcome, cause := int64(2e9)+int64(i)*1e6, int64(0), int64(60e9), uint16(200), rows.OutcomeOK, ""
	if bad {
		took, hidden, left, status, outcome, cause = 40e9, 20e9, 1e9, 504, rows.OutcomeError, rows.MissInherited
	}
	in := func(o store.ExampleOrder) bool { return slices.Contains(shownBy[o], i) }
	began, ttft, token := end.UnixNano()-took, int64(500e6), int64(20e6)
	if bad && !in(store.ByLeft) {
		left = 50e9
	}
	if in(store.ByFirstToken) {
		ttft = 10e9
	}
	if in(store.ByTokenTime) {
		token = 400e6
	}
	f := rows.Facts{Agent: "planner", Kind: rows.KindChat, Outcome: outcome, HTTPStatus: status, StartedAt: began, EndedAt: end.UnixNano(), SampleWeight: 1, ServiceVersion: "1.4"}
	common := rows.Common{ServiceName: "shop", TraceID: fmt.Sprintf("%032x", i+1), Revision: 1}
	times := rows.Times{UserTimeNS: took, HiddenTotalNS: ptr(hidden), DeadlineMissed: &bad, MissCause: cause, DriftNS: ptr(hidden), DeadlineAt: ptr(began + left)}
	call := func(id string, f rows.Facts, tries uint32) *rows.Operation {
		return &rows.Operation{Common: common, Facts: f, Times: times, OperationID: id, RequestID: "r", Target: "m1", Stream: rows.StreamNo, Attempts: &tries,
			TTFTState: rows.TTFTKnown, TTFTNS: ptr(ttft), TimePerOutputTokenNS: ptr(token)}
	}
	r := &rows.Request{Common: common, Facts: f, Times: times, RequestID: "r", ReleaseReason: rows.ReleaseRoot}
	r.Kind = rows.KindAgent
	all := []rows.Row{r, call("failed", f, 3)}
	// More calls of the same request: one dies at its first timeout, one runs on past its own.
	if f.ErrorClass = rows.ClassTimeout; in(store.ByFirstTimeout) {
		all = append(all, call("first", f, 1))
	}
	if f.Outcome, f.HTTPStatus, f.ErrorClass = rows.OutcomeOK, 200, ""; in(store.ByOverrun) {
		late := call("late", f, 1)
		late.HiddenTotalNS, late.TimeoutNS = ptr(0), ptr(5e9)
		all = append(all, late)
	}
	return all
}
