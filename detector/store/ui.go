package store

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Ping fails when the server cannot be reached or the tables cannot be read.
func (s *Store) Ping(ctx context.Context) error {
	_, err := query(ctx, s, "the alerts table", "SELECT count() FROM "+s.db+".alerts_base LIMIT 1", nil, func(n *uint64) []any { return []any{n} }, nil)
	return err
}

// CallRow sums up the calls of one target over all retries and streaming.
type CallRow struct {
	Slice
	N              uint64
	Status504      uint64
	RetriesKnown   uint64
	Retried        uint64
	DeadlineKnown  uint64
	DeadlineMissed uint64
	HiddenNS       int64
	User           Measure
	Inference      Measure
}

// Calls reads the operations in [from, to) by service, agent, kind and target,
// busiest first, at most limit.
func (s *Store) Calls(ctx context.Context, from, to time.Time, limit int) ([]CallRow, error) {
	sql := "SELECT service_name, agent, kind, target, toUInt64(sum(n - late_fragments)) AS total, sum(status_504), toUInt64(sumIf(n - late_fragments, retries != 'unknown')), " +
		"toUInt64(sumIf(n - late_fragments, retries IN ('1', '2+'))), sum(deadline_known), sum(deadline_missed), sum(hidden_sum_ns), " +
		summed("user_time") + ", " + summed("inference_time") + " FROM " + s.db + ".rollup_operations_1m WHERE " + minuteBetween +
		" GROUP BY service_name, agent, kind, target ORDER BY total DESC, service_name, agent, kind, target LIMIT @limit"
	return query(ctx, s, "calls", sql, append(between(from, to), clickhouse.Named("limit", limit)), func(r *CallRow) []any {
		d := []any{&r.Service, &r.Agent, &r.Kind, &r.Target, &r.N, &r.Status504, &r.RetriesKnown, &r.Retried, &r.DeadlineKnown, &r.DeadlineMissed, &r.HiddenNS}
		return append(append(d, r.User.dest()...), r.Inference.dest()...)
	}, nil)
}

// Newest says how fresh the stored data is. A zero time means that there is none in
// the bounds asked for.
type Newest struct {
	// Ended is the newest end of a request or operation, in event time.
	Ended time.Time
	// Ingested is the exporter's clock at the newest of them.
	Ingested time.Time
	// Rollup is the end of the newest minute that has been rolled up.
	Rollup time.Time
	// Open counts requests in the snapshots of the last minute that have not ended
	// since; OldestNS is the greatest age among them, in nanoseconds.
	Open     uint64
	OldestNS int64
}

// Newest reads how fresh the data since from is. Rows may lie up to an hour after
// now, since clocks differ.
func (s *Store) Newest(ctx context.Context, from, now time.Time) (Newest, error) {
	// The newest are mostly of the last hour, so all of the bounds is read only without them.
	recent := now.Add(-time.Hour)
	if recent.Before(from) {
		recent = from
	}
	var n Newest
	var err error
	for _, since := range []time.Time{recent, from} {
		if n.Ended.IsZero() {
			if n.Ended, n.Ingested, err = s.newestRows(ctx, since, now.Add(time.Hour)); err != nil {
				return n, err
			}
		}
		if n.Rollup.IsZero() {
			if n.Rollup, err = s.newestRollup(ctx, since, now.Add(time.Hour)); err != nil {
				return n, err
			}
		}
	}
	type open struct {
		n   uint64
		age int64
	}
	opened, err := query(ctx, s, "open requests", "SELECT uniqExact(trace_id), max(age_ns) FROM "+s.db+".open_requests WHERE observed_at >= toDateTime(@from, 'UTC') AND observed_at < toDateTime(@to, 'UTC') "+
		"AND trace_id NOT IN (SELECT trace_id FROM "+s.db+".requests WHERE ended_at >= toDateTime(@from, 'UTC'))", between(now.Add(-time.Minute), now.Add(time.Second)),
		func(o *open) []any { return []any{&o.n, &o.age} }, nil)
	if err != nil {
		return n, err
	}
	if len(opened) > 0 {
		n.Open, n.OldestNS = opened[0].n, opened[0].age
	}
	return n, nil
}

type newestMark struct {
	rows            uint64
	ended, ingested time.Time
}

func (s *Store) newestRows(ctx context.Context, from, to time.Time) (ended, ingested time.Time, err error) {
	base := func(table string) string {
		return "SELECT count() AS c, max(ended_at) AS e, max(ingested_at) AS i FROM " + s.db + "." + table + "_base WHERE " + endedBetween
	}
	got, err := query(ctx, s, "the newest rows", "SELECT sum(c), max(e), max(i) FROM ("+base("operations")+" UNION ALL "+base("requests")+")", between(from, to),
		func(m *newestMark) []any { return []any{&m.rows, &m.ended, &m.ingested} }, nil)
	if err != nil || len(got) == 0 || got[0].rows == 0 {
		return time.Time{}, time.Time{}, err
	}
	return got[0].ended.UTC(), got[0].ingested.UTC(), nil
}

func (s *Store) newestRollup(ctx context.Context, from, to time.Time) (time.Time, error) {
	minutes := func(view string) string {
		return "SELECT count() AS c, max(minute) AS m FROM " + s.db + "." + view + " WHERE " + minuteBetween
	}
	got, err := query(ctx, s, "the newest rollup", "SELECT sum(c), max(m) FROM ("+minutes("rollup_operations_1m")+" UNION ALL "+minutes("rollup_requests_1m")+")", between(from, to),
		func(m *newestMark) []any { return []any{&m.rows, &m.ended} }, nil)
	if err != nil || len(got) == 0 || got[0].rows == 0 {
		return time.Time{}, err
	}
	return got[0].ended.UTC().Add(time.Minute), nil
}

// MinuteOf is a slice's latencies in one minute.
type MinuteOf struct {
	At   time.Time
	Time Measure
}

// UserMinutes reads a slice's user time by minute in [from, to).
func (s *Store) UserMinutes(ctx context.Context, slice Slice, from, to time.Time) ([]MinuteOf, error) {
	where, args := slice.where()
	sql := "SELECT minute, " + summed("user_time") + " FROM " + s.db + "." + table(slice) + " WHERE " + where + " AND " + minuteBetween + " GROUP BY minute ORDER BY minute"
	return query(ctx, s, "user time by minute", sql, append(args, between(from, to)...), func(m *MinuteOf) []any {
		return append([]any{&m.At}, m.Time.dest()...)
	}, func(m *MinuteOf) { m.At = m.At.UTC() })
}

// ErrorMinute counts a service's requests in one minute.
type ErrorMinute struct {
	At           time.Time
	N, Status504 uint64
}

// ErrorMinutes counts a service's requests, and those that ended with HTTP 504, by
// minute in [from, to).
func (s *Store) ErrorMinutes(ctx context.Context, service string, from, to time.Time) ([]ErrorMinute, error) {
	sql := "SELECT minute, toUInt64(sum(n - late_fragments)), sum(status_504) FROM " + s.db + ".rollup_requests_1m WHERE service_name = @service AND " + minuteBetween +
		" GROUP BY minute ORDER BY minute"
	return query(ctx, s, "504s by minute", sql, append(between(from, to), clickhouse.Named("service", service)), func(m *ErrorMinute) []any {
		return []any{&m.At, &m.N, &m.Status504}
	}, func(m *ErrorMinute) { m.At = m.At.UTC() })
}

// VersionRow is a service version and when its requests ended.
type VersionRow struct {
	Version     string
	First, Last time.Time
	N           uint64
}

// Versions lists the versions of a service seen in [from, to), by first appearance. A
// version that is not reported is left out.
func (s *Store) Versions(ctx context.Context, service string, from, to time.Time) ([]VersionRow, error) {
	sql := "SELECT service_version, min(ended_at), max(ended_at), count() FROM " + s.db + ".requests WHERE service_name = @service AND service_version != '' AND " + endedBetween +
		" GROUP BY service_version ORDER BY min(ended_at), service_version LIMIT 50"
	got, err := query(ctx, s, "versions", sql, append(between(from, to), clickhouse.Named("service", service)), func(v *VersionRow) []any {
		return []any{&v.Version, &v.First, &v.Last, &v.N}
	}, func(v *VersionRow) { v.First, v.Last = v.First.UTC(), v.Last.UTC() })
	if err != nil {
		return nil, fmt.Errorf("service %q: %w", service, err)
	}
	return got, nil
}
