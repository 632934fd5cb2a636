package store

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// OperationCell is one cell of rollup_operations_1m.
type OperationCell struct {
	Slice
	Minute time.Time
	// Retries is 0, 1, 2+ or unknown.
	Retries         string
	N               uint64
	Late            uint64
	OK              uint64
	Timeouts        uint64
	Overloads       uint64
	ClientErrors    uint64
	Cancelled       uint64
	Status504       uint64
	AtCap           uint64
	Censored        uint64
	Attempts        uint64
	LeafAttempts    uint64
	AttemptsUnknown uint64
	DeadlineKnown   uint64
	DeadlineMissed  uint64
	AgentReported   uint64
	HiddenNS        int64
	FailedNS        int64
	BackoffNS       int64
	// Tokens are sums over the operations that state them.
	InputTokens  uint64
	OutputTokens uint64
	CachedTokens uint64
	User         Measure
	Agent        Measure
	Inference    Measure
	TTFT         Measure
	// PerToken is the time per output token.
	PerToken Measure
}

// Call is how long calls took by themselves, without what retries hid: the agent time of
// work that was tried again, and the user time of all other work, where the two are one and
// agent time is often not known.
func (c *OperationCell) Call() Measure {
	if c.Retries == "1" || c.Retries == "2+" {
		return c.Agent
	}
	return c.User
}

// callTime is [OperationCell.Call] of a cell.
var callTime = func() string {
	of := func(column string) string {
		return "if(retries IN ('1', '2+'), agent_time_" + column + ", user_time_" + column + ")"
	}
	return of("n") + ", " + of("sum_ns") + ", toString(" + of("buckets") + "), toString(" + of("counts") + ")"
}()

// OperationCells reads the cells of all slices with minutes in [from, to).
func (s *Store) OperationCells(ctx context.Context, from, to time.Time) ([]OperationCell, error) {
	sql := "SELECT service_name, agent, kind, target, stream, minute, retries, n, late_fragments, ok, errors_timeout, errors_overload, errors_client, errors_cancelled, status_504, at_cap, censored, " +
		"attempts, leaf_attempts, attempts_unknown, deadline_known, deadline_missed, agent_time_reported, hidden_sum_ns, failed_attempt_sum_ns, backoff_sum_ns, input_tokens, output_tokens, cached_tokens, " +
		columns("user_time") + ", " + columns("agent_time") + ", " + columns("inference_time") + ", " + columns("ttft") + ", " + columns("time_per_output_token") +
		" FROM " + s.db + ".rollup_operations_1m WHERE " + minuteBetween + " ORDER BY service_name, agent, kind, target, stream, minute, retries"
	return query(ctx, s, "operations by minute", sql, between(from, to), func(c *OperationCell) []any {
		d := []any{&c.Service, &c.Slice.Agent, &c.Kind, &c.Target, &c.Stream, &c.Minute, &c.Retries, &c.N, &c.Late, &c.OK, &c.Timeouts, &c.Overloads,
			&c.ClientErrors, &c.Cancelled, &c.Status504, &c.AtCap, &c.Censored, &c.Attempts, &c.LeafAttempts, &c.AttemptsUnknown, &c.DeadlineKnown, &c.DeadlineMissed, &c.AgentReported,
			&c.HiddenNS, &c.FailedNS, &c.BackoffNS, &c.InputTokens, &c.OutputTokens, &c.CachedTokens}
		d = append(d, c.User.dest()...)
		d = append(d, c.Agent.dest()...)
		d = append(d, c.Inference.dest()...)
		d = append(d, c.TTFT.dest()...)
		return append(d, c.PerToken.dest()...)
	}, func(c *OperationCell) { c.Minute = c.Minute.UTC() })
}

// AttemptCell sums up the tries of one layer at one endpoint in a minute, late fragments left
// out. Its slice has no Stream: attempts are not rolled up by it.
type AttemptCell struct {
	Slice
	Minute   time.Time
	Endpoint string
	Layer    string
	// N counts tries, Leaf those with none below them, Extra those after the first.
	N, Leaf, Extra uint64
	// Failed counts tries that failed; Timeouts, by class or by length, and Overloads are
	// among them.
	Failed, Timeouts, Overloads uint64
	// Cut are the lengths of leaf tries that a timeout or a cancellation ended, CutAtCap how
	// many of them ended at their declared timeout.
	Cut      Measure
	CutAtCap uint64
}

// cutTries are tries that were ended before they were done. A cell of the rollup in which some
// tries have others below them counts as a whole: the two are not told apart there.
const cutTries = "leaf > 0 AND (error_class IN ('timeout', 'cancelled') OR at_cap)"

// AttemptCells reads the tries of all slices with minutes in [from, to).
func (s *Store) AttemptCells(ctx context.Context, from, to time.Time) ([]AttemptCell, error) {
	sql := "SELECT service_name, agent, kind, target, minute, endpoint, layer, sum(duration_n), sum(leaf), sumIf(duration_n, ordinal_bucket != '1'), sumIf(duration_n, error_class != ''), " +
		"sumIf(duration_n, error_class = 'timeout' OR at_cap), sumIf(duration_n, error_class = 'overload'), sumIf(duration_n, " + cutTries + "), sumIf(duration_sum_ns, " + cutTries + "), " +
		"toString((sumMapIf(duration_buckets, duration_counts, " + cutTries + ") AS cut).1), toString(cut.2), sumIf(duration_n, leaf > 0 AND at_cap)" +
		" FROM " + s.db + ".rollup_attempts_1m WHERE " + minuteBetween + " GROUP BY service_name, agent, kind, target, minute, endpoint, layer HAVING sum(duration_n) > 0" +
		" ORDER BY service_name, agent, kind, target, minute, endpoint, layer"
	return query(ctx, s, "attempts by minute", sql, between(from, to), func(c *AttemptCell) []any {
		d := []any{&c.Service, &c.Slice.Agent, &c.Kind, &c.Target, &c.Minute, &c.Endpoint, &c.Layer, &c.N, &c.Leaf, &c.Extra, &c.Failed, &c.Timeouts, &c.Overloads}
		return append(append(d, c.Cut.dest()...), &c.CutAtCap)
	}, func(c *AttemptCell) { c.Minute = c.Minute.UTC() })
}

// AttemptBlock is what baselines need of the tries in one block of time, by layer.
type AttemptBlock struct {
	Slice
	At    time.Time
	Layer string
	// They count tries as those of AttemptCell do, Cut as its Cut.
	N, Leaf, Extra, Failed, Cut uint64
}

// AttemptHistory reads the blocks of so many minutes in [from, to) for baselines.
func (s *Store) AttemptHistory(ctx context.Context, from, to time.Time, block time.Duration) ([]AttemptBlock, error) {
	sql := "SELECT service_name, agent, kind, target, toStartOfInterval(minute, toIntervalMinute(@block)) AS at, layer, sum(duration_n), sum(leaf), sumIf(duration_n, ordinal_bucket != '1'), sumIf(duration_n, error_class != ''), sumIf(duration_n, " + cutTries + ")" +
		" FROM " + s.db + ".rollup_attempts_1m WHERE " + minuteBetween + " GROUP BY service_name, agent, kind, target, at, layer HAVING sum(duration_n) > 0" +
		" ORDER BY service_name, agent, kind, target, at, layer"
	args := append(between(from, to), clickhouse.Named("block", int64(block/time.Minute)))
	return query(ctx, s, "history of attempts", sql, args, func(c *AttemptBlock) []any {
		return []any{&c.Service, &c.Slice.Agent, &c.Kind, &c.Target, &c.At, &c.Layer, &c.N, &c.Leaf, &c.Extra, &c.Failed, &c.Cut}
	}, func(c *AttemptBlock) { c.At = c.At.UTC() })
}

// RequestCell is one cell of rollup_requests_1m.
type RequestCell struct {
	Slice
	Minute time.Time
	// Steps is the step-count stratum: 0, 1-3, 4-7, 8-14 or 15+.
	Steps           string
	Retries         string
	N               uint64
	Late            uint64
	OK              uint64
	Timeouts        uint64
	Status504       uint64
	Censored        uint64
	Operations      uint64
	ToolCalls       uint64
	ToolErrors      uint64
	Attempts        uint64
	AttemptsUnknown uint64
	DeadlineKnown   uint64
	DeadlineMissed  uint64
	DecisionPoints  uint64
	AgentReported   uint64
	FailedNS        int64
	BackoffNS       int64
	User            Measure
	Agent           Measure
	Hidden          Measure
	Drift           Measure
}

// RequestCells reads the cells of all agents with minutes in [from, to).
func (s *Store) RequestCells(ctx context.Context, from, to time.Time) ([]RequestCell, error) {
	sql := "SELECT service_name, agent, kind, minute, steps_bucket, retries, n, late_fragments, ok, errors_timeout, status_504, censored, operations, tool_calls, tool_errors, " +
		"attempts, attempts_unknown, deadline_known, deadline_missed, decision_points, agent_time_reported, failed_attempt_sum_ns, backoff_sum_ns, " +
		columns("user_time") + ", " + columns("agent_time") + ", " + columns("hidden_path") + ", " + columns("drift") +
		" FROM " + s.db + ".rollup_requests_1m WHERE " + minuteBetween + " ORDER BY service_name, agent, kind, minute, steps_bucket, retries"
	return query(ctx, s, "requests by minute", sql, between(from, to), func(c *RequestCell) []any {
		d := []any{&c.Service, &c.Slice.Agent, &c.Kind, &c.Minute, &c.Steps, &c.Retries, &c.N, &c.Late, &c.OK, &c.Timeouts, &c.Status504, &c.Censored,
			&c.Operations, &c.ToolCalls, &c.ToolErrors, &c.Attempts, &c.AttemptsUnknown, &c.DeadlineKnown, &c.DeadlineMissed, &c.DecisionPoints,
			&c.AgentReported, &c.FailedNS, &c.BackoffNS}
		d = append(d, c.User.dest()...)
		d = append(d, c.Agent.dest()...)
		d = append(d, c.Hidden.dest()...)
		return append(d, c.Drift.dest()...)
	}, func(c *RequestCell) { c.Minute = c.Minute.UTC() })
}

// OperationMinute is what baselines need of a slice's minute, over all retries.
type OperationMinute struct {
	Slice
	Minute time.Time
	N      uint64
	// Known counts operations whose attempts are known, Retried those among them
	// with more than one.
	Known   uint64
	Retried uint64
	// LeafAttempts are those of the known. FirstTimeouts are operations that ended with
	// their first attempt's timeout, Exhausted those that failed after more than one.
	LeafAttempts  uint64
	FirstTimeouts uint64
	Exhausted     uint64
	// Cut are operations that a timeout or a cancellation ended.
	Cut            uint64
	DeadlineKnown  uint64
	DeadlineMissed uint64
	InputTokens    uint64
	OutputTokens   uint64
	CachedTokens   uint64
	Inference      Measure
	TTFT           Measure
	PerToken       Measure
	// Call is the calls' own time; see [OperationCell.Call].
	Call Measure
}

// exhausted counts failures that more attempts might have mended: all but the caller's own.
const exhausted = "errors_timeout + errors_overload + errors_server + errors_network + errors_cancelled + errors_other"

// OperationHistory reads minutes in [from, to) for baselines, in the order of time and then
// slices: that of the table, so that nothing has to be sorted.
func (s *Store) OperationHistory(ctx context.Context, from, to time.Time) ([]OperationMinute, error) {
	sql := "SELECT service_name, agent, kind, target, stream, minute, toUInt64(n - late_fragments), toUInt64(if(retries = 'unknown', 0, n - late_fragments)), toUInt64(if(retries IN ('1', '2+'), n - late_fragments, 0)), " +
		"leaf_attempts, if(retries = '0', greatest(errors_timeout, at_cap), 0), if(retries IN ('1', '2+'), " + exhausted + ", 0), greatest(errors_timeout + errors_cancelled, at_cap), " +
		"deadline_known, deadline_missed, input_tokens, output_tokens, cached_tokens, " +
		columns("inference_time") + ", " + columns("ttft") + ", " + columns("time_per_output_token") + ", " + callTime + " FROM " + s.db + ".rollup_operations_1m WHERE " + minuteBetween +
		" ORDER BY minute, service_name, agent, kind, target, stream, retries"
	return folded(ctx, s, "history of operations", sql, between(from, to), func(c *OperationMinute) []any {
		d := append([]any{&c.Service, &c.Agent, &c.Kind, &c.Target, &c.Stream, &c.Minute, &c.N, &c.Known, &c.Retried, &c.LeafAttempts, &c.FirstTimeouts, &c.Exhausted, &c.Cut, &c.DeadlineKnown, &c.DeadlineMissed,
			&c.InputTokens, &c.OutputTokens, &c.CachedTokens}, c.Inference.dest()...)
		d = append(d, c.TTFT.dest()...)
		d = append(d, c.PerToken.dest()...)
		return append(d, c.Call.dest()...)
	}, func(c *OperationMinute) { c.Minute = c.Minute.UTC() }, func(sum, c *OperationMinute) bool {
		if sum.Slice != c.Slice || !sum.Minute.Equal(c.Minute) {
			return false
		}
		sum.N, sum.Known, sum.Retried = sum.N+c.N, sum.Known+c.Known, sum.Retried+c.Retried
		sum.LeafAttempts, sum.FirstTimeouts = sum.LeafAttempts+c.LeafAttempts, sum.FirstTimeouts+c.FirstTimeouts
		sum.Exhausted, sum.Cut = sum.Exhausted+c.Exhausted, sum.Cut+c.Cut
		sum.DeadlineKnown, sum.DeadlineMissed = sum.DeadlineKnown+c.DeadlineKnown, sum.DeadlineMissed+c.DeadlineMissed
		sum.InputTokens, sum.OutputTokens, sum.CachedTokens = sum.InputTokens+c.InputTokens, sum.OutputTokens+c.OutputTokens, sum.CachedTokens+c.CachedTokens
		sum.Inference.Add(c.Inference)
		sum.TTFT.Add(c.TTFT)
		sum.PerToken.Add(c.PerToken)
		sum.Call.Add(c.Call)
		return true
	})
}

// RequestMinute is what baselines need of an agent's minute, by step stratum.
type RequestMinute struct {
	Slice
	Minute          time.Time
	Steps           string
	N               uint64
	Operations      uint64
	Attempts        uint64
	AttemptsUnknown uint64
	DeadlineKnown   uint64
	DeadlineMissed  uint64
	Hidden          Measure
	Drift           Measure
}

// RequestHistory reads minutes in [from, to) for baselines, in the order of time, slices and
// steps.
func (s *Store) RequestHistory(ctx context.Context, from, to time.Time) ([]RequestMinute, error) {
	sql := "SELECT service_name, agent, kind, minute, steps_bucket, toUInt64(n - late_fragments), operations, attempts, attempts_unknown, deadline_known, deadline_missed, " +
		columns("hidden_path") + ", " + columns("drift") + " FROM " + s.db + ".rollup_requests_1m WHERE " + minuteBetween +
		" ORDER BY minute, service_name, agent, kind, steps_bucket, retries"
	return folded(ctx, s, "history of requests", sql, between(from, to), func(c *RequestMinute) []any {
		d := []any{&c.Service, &c.Slice.Agent, &c.Kind, &c.Minute, &c.Steps, &c.N, &c.Operations, &c.Attempts, &c.AttemptsUnknown, &c.DeadlineKnown, &c.DeadlineMissed}
		d = append(d, c.Hidden.dest()...)
		return append(d, c.Drift.dest()...)
	}, func(c *RequestMinute) { c.Minute = c.Minute.UTC() }, func(sum, c *RequestMinute) bool {
		if sum.Slice != c.Slice || !sum.Minute.Equal(c.Minute) || sum.Steps != c.Steps {
			return false
		}
		sum.N, sum.Operations = sum.N+c.N, sum.Operations+c.Operations
		sum.Attempts, sum.AttemptsUnknown = sum.Attempts+c.Attempts, sum.AttemptsUnknown+c.AttemptsUnknown
		sum.DeadlineKnown, sum.DeadlineMissed = sum.DeadlineKnown+c.DeadlineKnown, sum.DeadlineMissed+c.DeadlineMissed
		sum.Hidden.Add(c.Hidden)
		sum.Drift.Add(c.Drift)
		return true
	})
}

// Budget sums up the declared time budgets of an agent's requests.
type Budget struct {
	Slice
	// N counts requests, Known those with a budget.
	N, Known uint64
	// MedianNS is the median budget in nanoseconds.
	MedianNS int64
}

// Budgets reads the budgets of requests that ended in [from, to).
func (s *Store) Budgets(ctx context.Context, from, to time.Time) ([]Budget, error) {
	sql := "SELECT service_name, agent, kind, count(), count(budget_ns), toInt64(ifNull(quantileExact(budget_ns), 0)) FROM " + s.db + ".requests WHERE " + endedBetween +
		" AND NOT late_fragment GROUP BY service_name, agent, kind HAVING count(budget_ns) > 0 ORDER BY service_name, agent, kind"
	return query(ctx, s, "budgets", sql, between(from, to), func(b *Budget) []any {
		return []any{&b.Service, &b.Agent, &b.Kind, &b.N, &b.Known, &b.MedianNS}
	}, nil)
}

// Timeouts sums up the declared timeouts of a slice's operations.
type Timeouts struct {
	// N counts operations, Known those with a timeout.
	N, Known uint64
	// MedianNS is the median timeout in nanoseconds.
	MedianNS int64
}

// Timeouts reads the timeouts of a slice's operations that ended in [from, to).
func (s *Store) Timeouts(ctx context.Context, slice Slice, from, to time.Time) (Timeouts, error) {
	where, args := slice.where()
	sql := "SELECT count(), count(timeout_ns), toInt64(ifNull(quantileExact(timeout_ns), 0)) FROM " + s.db + ".operations WHERE " + where + " AND " + endedBetween + " AND NOT late_fragment"
	got, err := query(ctx, s, "declared timeouts", sql, append(args, between(from, to)...), func(t *Timeouts) []any { return []any{&t.N, &t.Known, &t.MedianNS} }, nil)
	if err != nil || len(got) == 0 {
		return Timeouts{}, err
	}
	return got[0], nil
}

// IngestLag is how long after its end a request is stored: the 95th percentile over
// requests that ended in [from, to), by the exporter's clock, and how many there
// were. Only requests released because their root came count: others are late by
// the processor's own wait. Negative lags, from clocks that disagree, count as zero.
func (s *Store) IngestLag(ctx context.Context, from, to time.Time) (time.Duration, uint64, error) {
	type lag struct {
		ms int64
		n  uint64
	}
	sql := "SELECT toInt64(ifNotFinite(quantileExact(0.95)(greatest(dateDiff('millisecond', ended_at, ingested_at), 0)), 0)), count() FROM " + s.db + ".requests WHERE " + endedBetween + " AND release_reason = 'root' AND NOT late_fragment"
	got, err := query(ctx, s, "the ingest lag", sql, between(from, to), func(l *lag) []any { return []any{&l.ms, &l.n} }, nil)
	if err != nil || len(got) == 0 {
		return 0, 0, err
	}
	return time.Duration(got[0].ms) * time.Millisecond, got[0].n, nil
}

// FirstMinute is the oldest minute at or after from that has operations or
// requests, and false when there is none.
func (s *Store) FirstMinute(ctx context.Context, from, to time.Time) (time.Time, bool, error) {
	type first struct {
		at time.Time
		n  uint64
	}
	of := func(suffix string, from, to time.Time) (first, error) {
		minutes := func(rollup string) string {
			return "SELECT minute FROM " + s.db + "." + rollup + suffix + " WHERE n > 0 AND " + minuteBetween
		}
		got, err := query(ctx, s, "the first minute", "SELECT min(minute), count() FROM ("+minutes("rollup_operations_1m")+" UNION ALL "+minutes("rollup_requests_1m")+")", between(from, to),
			func(f *first) []any { return []any{&f.at, &f.n} }, nil)
		if err != nil || len(got) == 0 {
			return first{}, err
		}
		return got[0], nil
	}
	// The tables' rows are fewer to read than the views', which put revisions together; only
	// a minute that was emptied since makes them differ.
	f, err := of("_base", from, to)
	if err != nil || f.n == 0 {
		return time.Time{}, false, err
	}
	sure, err := of("", f.at, f.at.Add(time.Minute))
	if err == nil && sure.n == 0 {
		f, err = of("", f.at, to)
	}
	if err != nil || f.n == 0 {
		return time.Time{}, false, err
	}
	return f.at.UTC(), true, nil
}
