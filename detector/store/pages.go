package store

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"driftline/detector/stats"
)

// OverviewRow sums up an agent's requests.
type OverviewRow struct {
	Slice
	N              uint64
	OK             uint64
	Timeouts       uint64
	Status504      uint64
	DeadlineKnown  uint64
	DeadlineMissed uint64
	// RetriesKnown counts requests that know their retries, Retried those with any.
	RetriesKnown uint64
	Retried      uint64
	FailedNS     int64
	BackoffNS    int64
	User         Measure
	Drift        Measure
}

// Overview reads the agents that had requests in [from, to), busiest first.
func (s *Store) Overview(ctx context.Context, from, to time.Time) ([]OverviewRow, error) {
	sql := "SELECT service_name, agent, kind, toUInt64(sum(n - late_fragments)) AS total, sum(ok), sum(errors_timeout), sum(status_504), sum(deadline_known), sum(deadline_missed), " +
		"toUInt64(sumIf(n - late_fragments, retries != 'unknown')), toUInt64(sumIf(n - late_fragments, retries IN ('1', '2+'))), sum(failed_attempt_sum_ns), sum(backoff_sum_ns), " +
		summed("user_time") + ", " + summed("drift") + " FROM " + s.db + ".rollup_requests_1m WHERE " + minuteBetween +
		" GROUP BY service_name, agent, kind ORDER BY total DESC, service_name, agent, kind LIMIT 1000"
	return query(ctx, s, "the overview", sql, between(from, to), func(r *OverviewRow) []any {
		d := []any{&r.Service, &r.Agent, &r.Kind, &r.N, &r.OK, &r.Timeouts, &r.Status504, &r.DeadlineKnown, &r.DeadlineMissed,
			&r.RetriesKnown, &r.Retried, &r.FailedNS, &r.BackoffNS}
		return append(append(d, r.User.dest()...), r.Drift.dest()...)
	}, nil)
}

// RetrySlice is a slice's work with one number of retries.
type RetrySlice struct {
	// Retries is 0, 1, 2+ or unknown.
	Retries       string
	N             uint64
	AgentReported uint64
	FailedNS      int64
	BackoffNS     int64
	User          Measure
	Agent         Measure
}

func table(slice Slice) string {
	if slice.IsRequest() {
		return "rollup_requests_1m"
	}
	return "rollup_operations_1m"
}

// RetrySlices reads user and agent time by retries in [from, to).
func (s *Store) RetrySlices(ctx context.Context, slice Slice, from, to time.Time) ([]RetrySlice, error) {
	where, args := slice.where()
	sql := "SELECT retries, toUInt64(sum(n - late_fragments)), sum(agent_time_reported), sum(failed_attempt_sum_ns), sum(backoff_sum_ns), " + summed("user_time") + ", " + summed("agent_time") +
		" FROM " + s.db + "." + table(slice) + " WHERE " + where + " AND " + minuteBetween + " GROUP BY retries ORDER BY retries"
	return query(ctx, s, "retry slices", sql, append(args, between(from, to)...), func(r *RetrySlice) []any {
		d := []any{&r.Retries, &r.N, &r.AgentReported, &r.FailedNS, &r.BackoffNS}
		return append(append(d, r.User.dest()...), r.Agent.dest()...)
	}, nil)
}

// SeriesPoint is a slice over one step of time. Quantiles and spread are of
// inference time for operations and of user time for requests, in milliseconds;
// they are nil when there are too few values.
type SeriesPoint struct {
	At             time.Time
	N              uint64
	Status504      uint64
	RetriesKnown   uint64
	Retried        uint64
	DeadlineKnown  uint64
	DeadlineMissed uint64
	Time           Measure
	P50MS          *float64
	P95MS          *float64
	// SpreadMS is the robust standard deviation (interquartile range / 1.349).
	SpreadMS *float64
}

// Share504 is the share of work that ended with HTTP 504, 0 without work.
func (p SeriesPoint) Share504() float64 {
	if p.N == 0 {
		return 0
	}
	return float64(p.Status504) / float64(p.N)
}

// Series reads a slice in [from, to) by step, a whole number of minutes. Steps
// without rows are absent, since nothing is known of them.
func (s *Store) Series(ctx context.Context, slice Slice, from, to time.Time, step time.Duration) ([]SeriesPoint, error) {
	if step < time.Minute || step%time.Minute != 0 {
		return nil, fmt.Errorf("series step %v: want a whole number of minutes", step)
	}
	measure := "inference_time"
	if slice.IsRequest() {
		measure = "user_time"
	}
	where, args := slice.where()
	args = append(append(args, between(from, to)...), clickhouse.Named("step", int64(step.Minutes())))
	sql := "SELECT toStartOfInterval(minute, toIntervalMinute(@step)) AS at, toUInt64(sum(n - late_fragments)), sum(status_504), toUInt64(sumIf(n - late_fragments, retries != 'unknown')), " +
		"toUInt64(sumIf(n - late_fragments, retries IN ('1', '2+'))), sum(deadline_known), sum(deadline_missed), " + summed(measure) +
		" FROM " + s.db + "." + table(slice) + " WHERE " + where + " AND " + minuteBetween + " GROUP BY at ORDER BY at"
	return query(ctx, s, "series", sql, args, func(p *SeriesPoint) []any {
		return append([]any{&p.At, &p.N, &p.Status504, &p.RetriesKnown, &p.Retried, &p.DeadlineKnown, &p.DeadlineMissed}, p.Time.dest()...)
	}, func(p *SeriesPoint) {
		p.At = p.At.UTC()
		set := func(to **float64, v float64, err error) {
			if err == nil {
				*to = &v
			}
		}
		v, err := p.Time.Hist.Quantile(0.5)
		set(&p.P50MS, v, err)
		v, err = p.Time.Hist.Quantile(0.95)
		set(&p.P95MS, v, err)
		v, err = p.Time.Hist.RobustSD(stats.Linear)
		set(&p.SpreadMS, v, err)
	})
}

// Slices lists the slices with work in [from, to), operations and requests,
// busiest first, at most limit.
func (s *Store) Slices(ctx context.Context, from, to time.Time, limit int) ([]Slice, error) {
	sql := "SELECT service_name, agent, kind, target, stream FROM (SELECT service_name, agent, kind, target, stream, n FROM " + s.db + ".rollup_operations_1m WHERE " + minuteBetween +
		" UNION ALL SELECT service_name, agent, kind, '' AS target, '' AS stream, n FROM " + s.db + ".rollup_requests_1m WHERE " + minuteBetween +
		") GROUP BY service_name, agent, kind, target, stream ORDER BY sum(n) DESC, service_name, agent, kind, target, stream LIMIT @limit"
	return query(ctx, s, "slices", sql, append(between(from, to), clickhouse.Named("limit", limit)), func(v *Slice) []any {
		return []any{&v.Service, &v.Agent, &v.Kind, &v.Target, &v.Stream}
	}, nil)
}
