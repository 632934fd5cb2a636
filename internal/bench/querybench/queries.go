package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"driftline/dashboards"
	"driftline/detector"
	"driftline/detector/rollup"
	"driftline/detector/store"
	"driftline/internal/ui/clickhouse"
	"driftline/schema"
)

// query is one thing measured.
type query struct {
	group, name string
	// limit is the bar for its warm median; 0 is none.
	limit time.Duration
	run   func(ctx context.Context) error
}

// Groups of queries, in the order of the report.
const (
	groupDetector = "Detector"
	groupRounds   = "Rollup job"
	groupPages    = "Pages"
	groupWhole    = "Whole pages"
	groupPanels   = "Dashboard, 24 hours"
	groupMonth    = "Dashboard, 30 days"
	groupList     = "Lists over all retention"
)

const (
	queryLimit = 200 * time.Millisecond
	panelLimit = 500 * time.Millisecond
)

// some makes a query of a call whose result is not looked at, except that an empty one
// is an error: the benchmark must not measure the reading of nothing.
func some[T any](call func(ctx context.Context) ([]T, error)) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		got, err := call(ctx)
		if err == nil && len(got) == 0 {
			err = fmt.Errorf("no rows")
		}
		return err
	}
}

// detectorQueries are all reads of detector/store and detector/rollup, with the windows
// that the detector and the pages use.
func detectorQueries(ctx context.Context, conn driver.Conn, database string, s shape) ([]query, error) {
	st, err := store.New(conn, database)
	if err != nil {
		return nil, err
	}
	job, err := rollup.New(conn, rollup.Config{Database: database})
	if err != nil {
		return nil, err
	}
	eager, err := rollup.New(conn, rollup.Config{Database: database, HourEvery: time.Nanosecond})
	if err != nil {
		return nil, err
	}
	// A job's first run reads its overlap again, here the stored rows of the last day's end.
	for _, j := range []*rollup.Job{job, eager} {
		if _, err := j.Run(ctx, s.to); err != nil {
			return nil, err
		}
	}
	to := s.to
	ago := func(d time.Duration) time.Time { return to.Add(-d) }
	ops, reqs := s.busiest(), s.busiestAgent()
	var out []query
	add := func(group, name string, run func(ctx context.Context) error) {
		out = append(out, query{group: group, name: name, limit: queryLimit, run: run})
	}
	add(groupDetector, "OperationCells, two minutes", some(func(ctx context.Context) ([]store.OperationCell, error) {
		return st.OperationCells(ctx, ago(cellsRead), to)
	}))
	add(groupDetector, "RequestCells, two minutes", some(func(ctx context.Context) ([]store.RequestCell, error) {
		return st.RequestCells(ctx, ago(cellsRead), to)
	}))
	add(groupDetector, "OperationCells, 10 min, at a start", some(func(ctx context.Context) ([]store.OperationCell, error) {
		return st.OperationCells(ctx, ago(startRead), to)
	}))
	add(groupDetector, "OperationHistory, 20 min, at a start", some(func(ctx context.Context) ([]store.OperationMinute, error) {
		return st.OperationHistory(ctx, ago(historyRead), to)
	}))
	add(groupDetector, "RequestHistory, 20 min, at a start", some(func(ctx context.Context) ([]store.RequestMinute, error) {
		return st.RequestHistory(ctx, ago(historyRead), to)
	}))
	add(groupDetector, "AttemptCells, two minutes", some(func(ctx context.Context) ([]store.AttemptCell, error) {
		return st.AttemptCells(ctx, ago(cellsRead), to)
	}))
	add(groupDetector, "OperationWork, two minutes", some(func(ctx context.Context) ([]store.Work, error) {
		return st.OperationWork(ctx, ago(cellsRead), to, time.Minute)
	}))
	add(groupDetector, "RequestWork, two minutes", some(func(ctx context.Context) ([]store.Work, error) {
		return st.RequestWork(ctx, ago(cellsRead), to, time.Minute)
	}))
	add(groupDetector, "OperationWork, a block of 10 min", some(func(ctx context.Context) ([]store.Work, error) {
		return st.OperationWork(ctx, ago(blockRead), to, blockRead)
	}))
	add(groupDetector, "RequestWork, a block of 10 min", some(func(ctx context.Context) ([]store.Work, error) {
		return st.RequestWork(ctx, ago(blockRead), to, blockRead)
	}))
	add(groupDetector, "OpenRequests", func(ctx context.Context) error { _, err := st.OpenRequests(ctx, to); return err })
	add(groupDetector, "Budgets, 30 min", some(func(ctx context.Context) ([]store.Budget, error) { return st.Budgets(ctx, ago(30*time.Minute), to) }))
	add(groupDetector, "IngestLag, 10 min", func(ctx context.Context) error {
		_, n, err := st.IngestLag(ctx, ago(10*time.Minute), to)
		if err == nil && n == 0 {
			err = fmt.Errorf("no rows")
		}
		return err
	})
	add(groupDetector, "FirstMinute, 24 h", func(ctx context.Context) error { _, _, err := st.FirstMinute(ctx, ago(24*time.Hour), to); return err })
	add(groupDetector, "LoadState", func(ctx context.Context) error { _, _, err := st.LoadState(ctx, "engine"); return err })
	add(groupDetector, "Rollup round, nothing new", func(ctx context.Context) error { _, err := job.Run(ctx, to); return err })
	for _, o := range []struct {
		name  string
		order store.ExampleOrder
	}{{"hidden time", store.ByHidden}, {"user time", store.ByUserTime}, {"drift", store.ByDrift}, {"504", store.By504}} {
		add(groupDetector, "Examples of requests by "+o.name+", 30 min", func(ctx context.Context) error {
			_, err := st.Examples(ctx, reqs, ago(30*time.Minute), to, o.order, 5)
			return err
		})
	}
	add(groupDetector, "Examples of calls by user time, 30 min", some(func(ctx context.Context) ([]store.Example, error) {
		return st.Examples(ctx, ops, ago(30*time.Minute), to, store.ByUserTime, 5)
	}))
	add(groupDetector, "UsersHit by calls, 30 min", func(ctx context.Context) error {
		_, err := st.UsersHit(ctx, ops, ago(30*time.Minute), to, store.ByUserTime, int64(time.Second))
		return err
	})

	add(groupPages, "Newest, 24 h", func(ctx context.Context) error { _, err := st.Newest(ctx, ago(24*time.Hour), to); return err })
	add(groupPages, "AlertTransitions, 24 h", some(func(ctx context.Context) ([]store.AlertRow, error) {
		return st.AlertTransitions(ctx, ago(24*time.Hour), to, 5000)
	}))
	add(groupPages, "Calls, 30 min", some(func(ctx context.Context) ([]store.CallRow, error) { return st.Calls(ctx, ago(30*time.Minute), to, 101) }))
	add(groupPages, "Overview, 30 min", some(func(ctx context.Context) ([]store.OverviewRow, error) {
		return st.Overview(ctx, ago(30*time.Minute), to)
	}))
	add(groupPages, "Slices, 30 min", some(func(ctx context.Context) ([]store.Slice, error) { return st.Slices(ctx, ago(30*time.Minute), to, 1000) }))
	add(groupPages, "RetrySlices, 30 min", some(func(ctx context.Context) ([]store.RetrySlice, error) {
		return st.RetrySlices(ctx, ops, ago(30*time.Minute), to)
	}))
	add(groupPages, "Series, 6 h", some(func(ctx context.Context) ([]store.SeriesPoint, error) {
		return st.Series(ctx, ops, ago(6*time.Hour), to, time.Minute)
	}))
	add(groupPages, "UserMinutes, 6 h", some(func(ctx context.Context) ([]store.MinuteOf, error) {
		return st.UserMinutes(ctx, reqs, ago(6*time.Hour), to)
	}))
	add(groupPages, "ErrorMinutes, 6 h", some(func(ctx context.Context) ([]store.ErrorMinute, error) {
		return st.ErrorMinutes(ctx, reqs.Service, ago(6*time.Hour), to)
	}))
	add(groupPages, "Versions, 6 h", some(func(ctx context.Context) ([]store.VersionRow, error) {
		return st.Versions(ctx, reqs.Service, ago(6*time.Hour), to)
	}))

	found, err := st.Examples(ctx, reqs, ago(30*time.Minute), to, store.ByHidden, 1)
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("no trace to open: %v", err)
	}
	id := found[0].TraceID
	history, err := st.AlertTransitions(ctx, ago(24*time.Hour), to, 1)
	if err != nil || len(history) == 0 {
		return nil, fmt.Errorf("no alert to open: %v", err)
	}
	fingerprint := history[0].Fingerprint
	add(groupPages, "AlertHistory", some(func(ctx context.Context) ([]store.AlertRow, error) { return st.AlertHistory(ctx, fingerprint) }))
	add(groupPages, "Requests of a trace", some(func(ctx context.Context) ([]store.TraceRequest, error) { return st.Requests(ctx, id) }))
	add(groupPages, "Operations of a trace", some(func(ctx context.Context) ([]store.TraceOperation, error) { return st.Operations(ctx, id) }))
	add(groupPages, "Attempts of a trace", some(func(ctx context.Context) ([]store.TraceAttempt, error) { return st.Attempts(ctx, id) }))
	add(groupPages, "Segments of a trace", some(func(ctx context.Context) ([]store.TraceSegment, error) { return st.Segments(ctx, id) }))
	add(groupPages, "Spans of a trace", some(func(ctx context.Context) ([]store.Span, error) { return st.Spans(ctx, id) }))

	page, err := clickhouse.New(conn, database, func() time.Time { return to })
	if err != nil {
		return nil, err
	}
	whole := func(name string, run func(ctx context.Context) error) {
		out = append(out, query{group: groupWhole, name: name, run: run})
	}
	whole("Overview page", func(ctx context.Context) error { _, err := page.Overview(ctx, to, 30*time.Minute); return err })
	whole("Alert page", func(ctx context.Context) error { _, err := page.Alert(ctx, to, fingerprint); return err })
	whole("Trace page", func(ctx context.Context) error { _, err := page.Trace(ctx, id); return err })
	// Copies of a day have its trace ids with the number of days in front.
	oldest := s.days - 1
	if database == small {
		oldest = smallDays - 1
	}
	old := fmt.Sprintf("%02x%s", oldest, id[2:])
	whole("Trace page, trace of the oldest day", func(ctx context.Context) error { _, err := page.Trace(ctx, old); return err })
	now := to
	rounds := func(name string, run func(ctx context.Context) error) {
		out = append(out, query{group: groupRounds, name: name, run: run})
	}
	rounds("Rollup round with all tiers, nothing new", func(ctx context.Context) error {
		now = now.Add(time.Second)
		_, err := eager.Run(ctx, now)
		return err
	})
	round := 0
	rounds("Rollup round, a minute of new rows (with their insert)", func(ctx context.Context) error {
		round++
		for _, t := range schema.Tables() {
			if !slices.Contains([]string{"operations_base", "requests_base", "attempts_base"}, t.Name) {
				continue
			}
			// Further rows of the last minute, with ids of their own.
			sql := fmt.Sprintf("INSERT INTO %s.%s (%s) SELECT %s FROM %s.%s WHERE %s AND startsWith(trace_id, '00')", database, t.Name, columnNames(t, "stored_at"),
				strings.Replace(columnNames(t, "stored_at"), "trace_id", fmt.Sprintf("concat('f%d', substring(trace_id, 3))", round), 1), database, t.Name, window(t, s.to.Add(-time.Minute), s.to))
			if err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		st, err := job.Run(ctx, to)
		if err == nil && st.DirtyMinutes == 0 {
			err = fmt.Errorf("nothing to roll up")
		}
		return err
	})
	add(groupList, "Alerts, 400 d", some(func(ctx context.Context) ([]store.AlertRow, error) {
		return st.Alerts(ctx, ago(400*24*time.Hour), to, alertsListed)
	}))
	return out, nil
}

// alertsListed is how many alerts the page of alerts asks for.
const alertsListed = 501

// What the detector reads at once: in a round the cells of a minute or two, since it keeps
// those of the window it judges; at a start all of that window, and history.
const (
	cellsRead   = 2 * time.Minute
	startRead   = detector.MaxMinutesPerRead * time.Minute
	blockRead   = 10 * time.Minute
	historyRead = detector.MaxBlocksPerRead * blockRead
)

// panelQueries are the statements that opening the dashboard sends, for all services and
// agents.
func panelQueries(conn driver.Conn, database string, s shape, group string, span, limit time.Duration) ([]query, error) {
	panels, err := dashboards.Queries()
	if err != nil {
		return nil, err
	}
	view := dashboards.View{From: s.to.Add(-span), To: s.to, Services: s.services(), Agents: s.agents()}
	var out []query
	for _, p := range panels {
		sql, err := dashboards.Expand(p.SQL, view)
		if err != nil {
			return nil, err
		}
		out = append(out, query{group: group, name: p.Name, limit: limit, run: func(ctx context.Context) error {
			rows, err := conn.Query(ctx, sql)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() { // Grafana reads the answer to its end
			}
			return rows.Err()
		}})
	}
	return out, nil
}
