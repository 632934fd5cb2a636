package store

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// AttemptMinute counts one agent's attempts on a target in one minute, by how they ended.
type AttemptMinute struct {
	Kind, Target string
	// Class and Status are those of failed attempts; empty and 0 otherwise or unknown.
	Class  string
	Status uint16
	At     time.Time
	Failed bool
	N      uint64
}

// AttemptMinutes counts an agent's attempts that ended in [from, to).
func (s *Store) AttemptMinutes(ctx context.Context, service, agent string, from, to time.Time) ([]AttemptMinute, error) {
	sql := "SELECT kind, target, if(outcome = 'error', error_class, ''), if(outcome = 'error', http_status, 0), toStartOfMinute(ended_at) AS m, outcome = 'error', count() FROM " + s.db +
		".attempts WHERE service_name = @service AND agent = @agent AND " + endedBetween + " GROUP BY ALL ORDER BY 5, 1, 2, 6, 3, 4 LIMIT 20000"
	args := append(between(from, to), clickhouse.Named("service", service), clickhouse.Named("agent", agent))
	return query(ctx, s, "attempts by minute", sql, args, func(a *AttemptMinute) []any {
		return []any{&a.Kind, &a.Target, &a.Class, &a.Status, &a.At, &a.Failed, &a.N}
	}, func(a *AttemptMinute) { a.At = a.At.UTC() })
}

// Setting is a value of something that a deployment may change, and when it was seen.
type Setting struct {
	// Name is service.version, a configured attribute, or "timeout of" and a target.
	Name, Value string
	First, Last time.Time
	N           uint64
}

// Settings lists what a service's requests and calls that ended in [from, to) say of its
// version, of configured attributes that name a configuration or a build, and of the
// timeouts of their calls, in milliseconds. A name with more than 20 values, as of a timeout that
// follows what is left of a budget, tells of no deployment and is left out.
func (s *Store) Settings(ctx context.Context, service string, from, to time.Time) ([]Setting, error) {
	seen := "min(ended_at) AS first, max(ended_at) AS last, count() AS n FROM " + s.db
	of := " WHERE service_name = @service AND " + endedBetween
	sql := "SELECT name, value, first, last, n FROM (SELECT *, count() OVER (PARTITION BY name) AS values FROM (" +
		"SELECT 'service.version' AS name, toString(service_version) AS value, " + seen + ".requests" + of + " AND service_version != '' GROUP BY value" +
		" UNION ALL SELECT toString(k) AS name, attributes[k] AS value, " + seen + ".requests ARRAY JOIN mapKeys(attributes) AS k" + of +
		" AND match(k, '(?i)config|version|hash|flag|deploy|revision|build|commit|release') GROUP BY name, value" +
		" UNION ALL SELECT concat('timeout of ', kind, ' ', target) AS name, concat(toString(intDiv(timeout_ns, 1000000)), ' ms') AS value, " + seen + ".operations" + of +
		" AND timeout_ns > 0 GROUP BY name, value)) WHERE values <= 20 ORDER BY name, first, value LIMIT 500"
	got, err := query(ctx, s, "settings", sql, append(between(from, to), clickhouse.Named("service", service)), func(v *Setting) []any {
		return []any{&v.Name, &v.Value, &v.First, &v.Last, &v.N}
	}, func(v *Setting) { v.First, v.Last = v.First.UTC(), v.Last.UTC() })
	if err != nil {
		return nil, fmt.Errorf("service %q: %w", service, err)
	}
	return got, nil
}

// NormalExample finds the trace of a slice in [from, to) that went well, without hidden time,
// and took nearest to so many nanoseconds; not ok if there is none.
func (s *Store) NormalExample(ctx context.Context, slice Slice, from, to time.Time, nearNS int64) (Example, bool, error) {
	where, args := slice.where()
	view := "operations"
	if slice.IsRequest() {
		view = "requests"
	}
	sql := "SELECT trace_id, request_id, user_time_ns FROM " + s.db + "." + view + " WHERE " + where + " AND " + endedBetween +
		" AND NOT late_fragment AND outcome = 'ok' AND ifNull(hidden_total_ns, 0) = 0 ORDER BY abs(user_time_ns - @near), trace_id LIMIT 1"
	args = append(append(args, between(from, to)...), clickhouse.Named("near", nearNS))
	got, err := query(ctx, s, "a normal trace", sql, args, func(e *Example) []any { return []any{&e.TraceID, &e.RequestID, &e.UserNS} }, nil)
	if err != nil || len(got) == 0 {
		return Example{}, false, err
	}
	return got[0], true, nil
}

// Coverage says how much of a slice's window is there.
type Coverage struct {
	// Minutes counts those with work, N the work, Late the late fragments left out of it.
	Minutes, N, Late uint64
	// Hit counts the agent's requests with work in the slice that shows the finding, of
	// Requests that ended in the window.
	Hit, Requests uint64
}

// Coverage reads it for [from, to). What shows the finding is as in Examples, and where the
// order compares, what is beyond aboveNS.
func (s *Store) Coverage(ctx context.Context, slice Slice, from, to time.Time, order ExampleOrder, aboveNS int64) (Coverage, error) {
	where, args := slice.where()
	view := "operations"
	if slice.IsRequest() {
		view = "requests"
	}
	id := "uniqExact(trace_id, request_id)"
	sql := "SELECT * FROM (SELECT uniqExactIf(minute, n > late_fragments), toUInt64(sum(n - late_fragments)), toUInt64(sum(late_fragments)) FROM " + s.db + "." + table(slice) + " WHERE " + where + " AND " + minuteBetween +
		") AS cells, (SELECT " + id + " FROM " + s.db + "." + view + " WHERE " + where + " AND " + endedBetween + " AND NOT late_fragment AND " + order.found() +
		") AS hit, (SELECT " + id + " FROM " + s.db + ".requests WHERE service_name = @service AND agent = @agent AND " + endedBetween + " AND NOT late_fragment) AS requests"
	args = append(append(args, between(from, to)...), clickhouse.Named("above", aboveNS))
	got, err := query(ctx, s, "what a window holds", sql, args, func(c *Coverage) []any { return []any{&c.Minutes, &c.N, &c.Late, &c.Hit, &c.Requests} }, nil)
	if err != nil || len(got) == 0 {
		return Coverage{}, err
	}
	got[0].Hit = min(got[0].Hit, got[0].Requests) // requests that end later are not counted among them
	return got[0], nil
}

// ConfiguredRetries compares the tries of a slice's operations with what their callers state.
type ConfiguredRetries struct {
	// N counts operations, Known those that state how many retries they allow and know their
	// tries, Over those of them that made more.
	N, Known, Over uint64
	// Allowed is the median number of retries stated, Most the most tries of one operation that
	// made more than it allowed.
	Allowed, Most uint32
}

// ConfiguredRetries reads that of a slice's operations that ended in [from, to). A try counts
// whichever layer made it.
func (s *Store) ConfiguredRetries(ctx context.Context, slice Slice, from, to time.Time) (ConfiguredRetries, error) {
	where, args := slice.where()
	sql := "SELECT count(), countIf(known), countIf(over), toUInt32(ifNull(quantileExact(max_retries), 0)), maxIf(made, over) FROM (" +
		"SELECT max_retries, toUInt32(greatest(ifNull(attempts, 0), ifNull(leaf_attempts, 0))) AS made, isNotNull(max_retries) AND made > 0 AS known, known AND made > ifNull(max_retries, 0) + 1 AS over FROM " +
		s.db + ".operations WHERE " + where + " AND " + endedBetween + " AND NOT late_fragment)"
	got, err := query(ctx, s, "configured retries", sql, append(args, between(from, to)...), func(r *ConfiguredRetries) []any {
		return []any{&r.N, &r.Known, &r.Over, &r.Allowed, &r.Most}
	}, nil)
	if err != nil || len(got) == 0 {
		return ConfiguredRetries{}, err
	}
	return got[0], nil
}
