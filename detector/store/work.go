package store

import (
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"driftline/detector/stats"
)

// Work is what rows say of one slice's limits, load and misses in one stretch of time, by
// end time. The rollups do not hold it, since it compares columns of a row with each other.
// Late fragments are not in it.
type Work struct {
	Slice
	// At is where the stretch begins.
	At time.Time
	N  uint64
	OK uint64
	// Limited counts work with a known limit: the declared timeout of its try, or else what
	// its deadline left when it began. Past counts those that used more than half of it.
	Limited, Past uint64
	// LimitNS is the median limit in nanoseconds.
	LimitNS int64
	// Lost counts requests that were given up because no span came any more.
	Lost uint64
	// Declared counts calls with a declared timeout. Overran counts those among them that
	// went on for over 1.5 times it, and a second, and still succeeded; OverranNS sums how
	// long they took. DeclaredNS is the median timeout.
	Declared, Overran uint64
	OverranNS         int64
	DeclaredNS        int64
	// Left is what deadlines left when calls began, not below zero. Uncovered counts calls
	// whose declared timeout was more than that, of Capped that have both.
	Left              Measure
	Capped, Uncovered uint64
	// Known and Missed count deadlines; Inherited and Own count failed work that missed its
	// deadline because of what ran before it, and by itself.
	Known, Missed  uint64
	Inherited, Own uint64
	// OKNS sums how long the last tries of what succeeded took, P95NS is their 95th percentile.
	OKNS, P95NS int64
	// BusyNS sums what work occupied a server for: without queue and backoff. BusySquared
	// sums its squares in seconds squared. QueueNS sums the known time in queues.
	BusyNS, QueueNS int64
	BusySquared     float64
	// Most is the largest number in service at one instant, of those that ended in the
	// stretch. It is known of stretches of more than a minute, else 0.
	Most uint64
}

// Add merges o into w. Medians and percentiles are those of the larger part.
func (w *Work) Add(o Work) {
	if o.Limited > w.Limited || w.LimitNS == 0 {
		w.LimitNS = o.LimitNS
	}
	if o.Declared > w.Declared || w.DeclaredNS == 0 {
		w.DeclaredNS = o.DeclaredNS
	}
	if o.OK > w.OK || w.P95NS == 0 {
		w.P95NS = o.P95NS
	}
	w.Most = max(w.Most, o.Most)
	w.N, w.OK = w.N+o.N, w.OK+o.OK
	w.Limited, w.Past, w.Lost = w.Limited+o.Limited, w.Past+o.Past, w.Lost+o.Lost
	w.Declared, w.Overran, w.OverranNS = w.Declared+o.Declared, w.Overran+o.Overran, w.OverranNS+o.OverranNS
	w.Left.Add(o.Left)
	w.Capped, w.Uncovered = w.Capped+o.Capped, w.Uncovered+o.Uncovered
	w.Known, w.Missed, w.Inherited, w.Own = w.Known+o.Known, w.Missed+o.Missed, w.Inherited+o.Inherited, w.Own+o.Own
	w.OKNS, w.BusyNS, w.QueueNS, w.BusySquared = w.OKNS+o.OKNS, w.BusyNS+o.BusyNS, w.QueueNS+o.QueueNS, w.BusySquared+o.BusySquared
}

// workFacts are the columns that the aggregates below read. left is NULL without a deadline.
const workFacts = "toDateTime(intDiv(toUnixTimestamp(toDateTime(ended_at, 'UTC')), @width) * @width, 'UTC') AS cell, outcome = 'ok' AS good, user_time_ns AS took, " +
	"toUnixTimestamp64Nano(deadline_at) - toUnixTimestamp64Nano(started_at) AS until, " +
	"ifNull(deadline_missed, false) AS missed, isNotNull(deadline_missed) AS told, miss_cause, queue_ns, toUnixTimestamp64Nano(started_at) + queue_ns AS began, toUnixTimestamp64Nano(ended_at) AS done"

var workSums = "count() AS n, countIf(good), countIf(limited) AS with_limit, countIf(limited AND (used > bound / 2 OR gone)), " +
	"toInt64(ifNotFinite(quantileIf(0.5)(bound, limited), 0)), countIf(gone), " +
	"countIf(cap > 0), countIf(over), sumIf(try, over), toInt64(ifNotFinite(quantileIf(0.5)(cap, cap > 0), 0)), " +
	"countIf(isNotNull(until)), sumIf(remains, isNotNull(until)), toString((sumMapIf([bucket], [toUInt64(1)], isNotNull(until)) AS left_map).1), toString(left_map.2), " +
	"countIf(cap > 0 AND isNotNull(until)), countIf(cap > 0 AND isNotNull(until) AND cap > remains), " +
	"countIf(told), countIf(missed), countIf(missed AND NOT good AND miss_cause = 'inherited'), countIf(missed AND NOT good AND miss_cause = 'own'), " +
	"sumIf(try, good), toInt64(ifNotFinite(quantileIf(0.95)(try, good), 0)), sum(busy), sum(queue_ns), sum(pow(busy / 1e9, 2))"

var workDerived = "greatest(ifNull(until, 0), 0) AS remains, " + stats.SQLBucketExpr("remains / 1e6") + " AS bucket"

func (w *Work) dest() []any {
	return slices.Concat([]any{&w.N, &w.OK, &w.Limited, &w.Past, &w.LimitNS, &w.Lost, &w.Declared, &w.Overran, &w.OverranNS, &w.DeclaredNS}, w.Left.dest(),
		[]any{&w.Capped, &w.Uncovered, &w.Known, &w.Missed, &w.Inherited, &w.Own, &w.OKNS, &w.P95NS, &w.BusyNS, &w.QueueNS, &w.BusySquared, &w.Most})
}

// most is the aggregate of what ran at once. One minute holds too little of long work.
func most(width time.Duration) string {
	if width <= time.Minute {
		return ", toUInt64(0)"
	}
	return ", toUInt64(maxIntersections(began, done))"
}

func widthArgs(from, to time.Time, width time.Duration) []any {
	return append(between(from, to), clickhouse.Named("width", int64(width.Seconds())))
}

// OperationWork sums up calls that ended in [from, to), in stretches of width, whole
// minutes that divide the day.
func (s *Store) OperationWork(ctx context.Context, from, to time.Time, width time.Duration) ([]Work, error) {
	facts := "SELECT service_name, agent, kind, target, stream, " + workFacts + ", " + lastTry + " AS try, " +
		"greatest(user_time_ns - backoff_ns - queue_ns, 0) AS busy, greatest(ifNull(timeout_ns, 0), 0) AS cap, false AS gone FROM " + s.db + ".operations WHERE " + endedBetween + " AND NOT late_fragment"
	facts = "SELECT *, " + workDerived + ", if(cap > 0, cap, remains) AS bound, cap > 0 OR isNotNull(until) AS limited, if(cap > 0, try, took) AS used, good AND cap > 0 AND try > 1.5 * cap AND try > cap + 1000000000 AS over FROM (" + facts + ")"
	sql := "SELECT service_name, agent, kind, target, stream, cell, " + workSums + most(width) + " FROM (" + facts + ") GROUP BY service_name, agent, kind, target, stream, cell ORDER BY cell, service_name, agent, kind, target, stream"
	return query(ctx, s, "limits and load of operations", sql, widthArgs(from, to, width), func(w *Work) []any {
		return append([]any{&w.Service, &w.Agent, &w.Kind, &w.Target, &w.Stream, &w.At}, w.dest()...)
	}, func(w *Work) { w.At = w.At.UTC() })
}

// RequestWork is the same of requests. Their limit is the deadline; nothing of them is tried
// again or declared a timeout, so Declared and what goes with it are zero.
func (s *Store) RequestWork(ctx context.Context, from, to time.Time, width time.Duration) ([]Work, error) {
	facts := "SELECT service_name, agent, kind, " + workFacts + ", user_time_ns AS try, greatest(user_time_ns - queue_ns, 0) AS busy, toInt64(0) AS cap, release_reason = 'timeout' AS gone FROM " +
		s.db + ".requests WHERE " + endedBetween + " AND NOT late_fragment"
	facts = "SELECT *, " + workDerived + ", remains AS bound, isNotNull(until) AS limited, took AS used, false AS over FROM (" + facts + ")"
	sql := "SELECT service_name, agent, kind, cell, " + workSums + most(width) + " FROM (" + facts + ") GROUP BY service_name, agent, kind, cell ORDER BY cell, service_name, agent, kind"
	return query(ctx, s, "limits and load of requests", sql, widthArgs(from, to, width), func(w *Work) []any {
		return append([]any{&w.Service, &w.Slice.Agent, &w.Kind, &w.At}, w.dest()...)
	}, func(w *Work) { w.At = w.At.UTC() })
}

// OpenRequest is a request that was still open when it was last looked at.
type OpenRequest struct {
	Service, Agent, TraceID string
	// Age is since its receipt, Silence since its last span, both as of the instant asked for.
	Age, Silence time.Duration
	// Lived is from its start to its last span, in which Spans came.
	Lived time.Duration
	Spans uint32
	// Budget is from its receipt to its deadline; 0 when none is known.
	Budget time.Duration
	// Open counts the open requests of its service and agent, it among them.
	Open uint64
}

// oldestPerAgent bounds how many open requests are read of each agent, the oldest first.
const oldestPerAgent = 20

// OpenRequests lists the oldest requests of each agent that were open at an instant: those
// whose snapshot is among the last of their service. A snapshot that was followed by none,
// though others of its service were, is of a request that has ended. Requests whose agent is
// not known are left out.
func (s *Store) OpenRequests(ctx context.Context, at time.Time) ([]OpenRequest, error) {
	const last, apart = 60, 25 // seconds: snapshots come each 10 s, of several collectors not at once
	seen := "SELECT service_name, trace_id, max(observed_at) AS seen, argMax(agent, observed_at) AS who, argMax(age_ns, observed_at) AS age, " +
		"argMax(toUnixTimestamp64Nano(last_span_at), observed_at) AS spoke, argMax(toUnixTimestamp64Nano(started_at), observed_at) AS began, argMax(spans, observed_at) AS parts, " +
		"argMax(ifNull(toUnixTimestamp64Nano(deadline_at), 0), observed_at) AS due FROM " + s.db + ".open_requests WHERE observed_at >= toDateTime(@from, 'UTC') AND observed_at < toDateTime(@to, 'UTC') GROUP BY service_name, trace_id"
	open := "SELECT *, max(seen) OVER (PARTITION BY service_name) AS newest FROM (" + seen + ")"
	sql := "SELECT service_name, who, trace_id, toInt64(@to * 1000000000 - toUnixTimestamp64Nano(seen) + age) AS total, toInt64(@to * 1000000000 - spoke), toInt64(spoke - began), parts, " +
		"if(due > 0, toInt64(due - toUnixTimestamp64Nano(seen) + age), 0), count() OVER (PARTITION BY service_name, who) FROM (" + open +
		") WHERE seen >= newest - toIntervalSecond(@apart) AND who != '' ORDER BY total DESC, trace_id LIMIT @most BY service_name, who"
	args := append(between(at.Add(-last*time.Second), at), clickhouse.Named("apart", apart), clickhouse.Named("most", oldestPerAgent))
	return query(ctx, s, "open requests", sql, args, func(o *OpenRequest) []any {
		return []any{&o.Service, &o.Agent, &o.TraceID, (*int64)(&o.Age), (*int64)(&o.Silence), (*int64)(&o.Lived), &o.Spans, (*int64)(&o.Budget), &o.Open}
	}, nil)
}
