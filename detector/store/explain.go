package store

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// maxMissed bounds the requests that an explanation is taken from, the latest first.
const maxMissed = 50

// aloneShare is the part of a budget from which a single call is named as what spent it.
const aloneShare = 0.8

// Spender is what one kind of call took of requests that missed their deadline.
type Spender struct {
	Slice
	// Requests counts those that had such a call, Of all that were looked at.
	Requests, Of uint64
	Calls        uint64
	// TookNS sums the calls' time, LongestShare is the largest part that one of them took of
	// its request's budget, or of its time where no budget is known, and LongestAttempts how
	// many tries that one had; 0 is unknown.
	TookNS          int64
	LongestShare    float64
	LongestAttempts uint32
	// Alone counts requests of which one such call, by a single try as far as is known, took
	// aloneShare or more.
	Alone uint64
	// Before counts calls that had ended when a call of the victim began; BeforeNS sums how
	// long they took.
	Before   uint64
	BeforeNS int64
	// Attempts sums known tries, Known counts the calls that know theirs, Fallbacks those that
	// took over from another route. Uncovered counts calls whose timeout was more than the
	// deadline left.
	Attempts, Known, Fallbacks, Uncovered uint64
	// BudgetNS is the median budget of the requests, 0 when unknown.
	BudgetNS int64
}

// Spenders tells what took the time of an agent's requests that missed their deadline and
// ended in [from, to), by kind of call, the most time first. Where victim is a slice of
// operations, Before is about what ended before its first call that failed by an inherited
// budget in the same request.
func (s *Store) Spenders(ctx context.Context, agent, victim Slice, from, to time.Time) ([]Spender, error) {
	// Requests of which operations are asked for; agent's kind is not known where the victim gives it.
	sql := "WITH missed AS (SELECT trace_id, request_id, toUnixTimestamp64Nano(started_at) AS began, if(ifNull(budget_ns, 0) > 0, assumeNotNull(budget_ns), user_time_ns) AS budget, ifNull(budget_ns, 0) AS stated FROM " + s.db +
		".requests WHERE service_name = @service AND " + endedBetween + " AND agent = @agent AND deadline_missed AND NOT late_fragment ORDER BY ended_at DESC, trace_id LIMIT @most), " +
		"(SELECT min(began) FROM missed) AS since, " +
		"calls AS (SELECT service_name, agent, kind, target, stream, trace_id, request_id, toUnixTimestamp64Nano(started_at) AS s, toUnixTimestamp64Nano(ended_at) AS e, user_time_ns, attempts, fallback_of, timeout_ns, " +
		"ifNull(toUnixTimestamp64Nano(deadline_at) - toUnixTimestamp64Nano(started_at), 0) AS remains, " +
		"service_name = @vservice AND agent = @vagent AND kind = @vkind AND target = @vtarget AND stream = @vstream AND miss_cause = 'inherited' AND outcome != 'ok' AS hit FROM " + s.db +
		".operations WHERE ended_at >= toDateTime(intDiv(since, 1000000000), 'UTC') AND ended_at < toDateTime(@to + 60, 'UTC') AND trace_id IN (SELECT trace_id FROM missed) AND NOT late_fragment), " +
		"joined AS (SELECT calls.*, budget, stated, minIf(s, hit) OVER (PARTITION BY trace_id, request_id) AS victim_began FROM calls INNER JOIN missed ON calls.trace_id = missed.trace_id AND calls.request_id = missed.request_id) " +
		"SELECT service_name, agent, kind, target, stream, uniqExact(trace_id, request_id), (SELECT count() FROM missed), count(), sum(user_time_ns) AS total, max(user_time_ns / greatest(budget, 1)), " +
		"toUInt32(argMax(ifNull(attempts, 0), user_time_ns / greatest(budget, 1))), countIf(victim_began > 0 AND NOT hit AND e <= victim_began), sumIf(user_time_ns, victim_began > 0 AND NOT hit AND e <= victim_began), " +
		"sum(toUInt64(ifNull(attempts, 0))), count(attempts), countIf(fallback_of != ''), countIf(ifNull(timeout_ns, 0) > remains AND remains > 0), toInt64(quantileExact(stated)), " +
		"uniqExactIf((trace_id, request_id), user_time_ns >= @alone * budget AND ifNull(attempts, 1) <= 1) " +
		"FROM joined GROUP BY service_name, agent, kind, target, stream ORDER BY total DESC, service_name, agent, kind, target, stream LIMIT 20"
	args := append(between(from, to), clickhouse.Named("service", agent.Service), clickhouse.Named("agent", agent.Agent), clickhouse.Named("most", maxMissed), clickhouse.Named("alone", aloneShare),
		clickhouse.Named("vservice", victim.Service), clickhouse.Named("vagent", victim.Agent), clickhouse.Named("vkind", victim.Kind), clickhouse.Named("vtarget", victim.Target), clickhouse.Named("vstream", victim.Stream))
	return query(ctx, s, "what took the time of missed requests", sql, args, func(p *Spender) []any {
		return []any{&p.Service, &p.Agent, &p.Kind, &p.Target, &p.Stream, &p.Requests, &p.Of, &p.Calls, &p.TookNS, &p.LongestShare, &p.LongestAttempts, &p.Before, &p.BeforeNS,
			&p.Attempts, &p.Known, &p.Fallbacks, &p.Uncovered, &p.BudgetNS, &p.Alone}
	}, nil)
}

// Misses counts an agent's requests with a known deadline that are alike in length.
type Misses struct {
	// Steps is the step-count stratum, Tokens one of input tokens: unknown, 0-4k, 4k-16k or 16k+.
	Steps, Tokens string
	// ToolErrors says that at least one tool call failed.
	ToolErrors    bool
	Known, Missed uint64
}

// MissTable counts misses of requests that ended in [from, to) by length, tokens and tool errors.
func (s *Store) MissTable(ctx context.Context, slice Slice, from, to time.Time) ([]Misses, error) {
	where, args := Slice{Service: slice.Service, Agent: slice.Agent, Kind: slice.Kind}.where()
	sql := "SELECT multiIf(steps = 0, '0', steps <= 3, '1-3', steps <= 7, '4-7', steps <= 14, '8-14', '15+') AS length, " +
		"multiIf(isNull(input_tokens), 'unknown', input_tokens < 4000, '0-4k', input_tokens < 16000, '4k-16k', '16k+') AS read, tool_errors > 0 AS errors, count(), countIf(deadline_missed) FROM " + s.db +
		".requests WHERE " + where + " AND " + endedBetween + " AND NOT late_fragment AND isNotNull(deadline_missed) GROUP BY length, read, errors ORDER BY length, read, errors"
	return query(ctx, s, "misses by length and tool errors", sql, append(args, between(from, to)...), func(m *Misses) []any {
		return []any{&m.Steps, &m.Tokens, &m.ToolErrors, &m.Known, &m.Missed}
	}, nil)
}
