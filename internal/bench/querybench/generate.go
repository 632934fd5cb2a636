package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"driftline/detector/store"
)

// shape is what the generated traffic looks like.
type shape struct {
	seed uint64
	// to is the end of the data; days and attempts say how much there is before it.
	to   time.Time
	days int
	// step is how much of the last day is stored at once.
	step     time.Duration
	attempts int
	// slices is the number of services x agents x (target, streaming); each agent has ten
	// of the last.
	slices int
}

const (
	targetsPerAgent = 10 // eight of chat (four models, streamed or not), two tools
	agentsPerCell   = 5  // of a service
	meanSteps       = 4.0
	maxSteps        = 20
	// meanAttempts is the mean of attempts per operation as drawn below.
	meanAttempts = 1.35
)

// from is the start of the last day.
func (s shape) from() time.Time { return s.to.AddDate(0, 0, -1) }

func (s shape) pairs() int { return max(s.slices/targetsPerAgent, 1) }
func (s shape) requestsPerDay() int {
	return int(float64(s.attempts) / float64(s.days) / s.stepMean() / meanAttempts)
}

// stepMean is the mean of min(1+floor(exponential), maxSteps), whose exponential is chosen
// so that it is near meanSteps.
func (s shape) stepMean() float64 {
	q := math.Exp(-1 / stepScale)
	return (1 - math.Pow(q, maxSteps)) / (1 - q)
}

const stepScale = meanSteps - 0.5

// u is a number in (0, 1) that depends on the seed, the day and the named keys alone.
func (s shape) u(keys ...string) string {
	return fmt.Sprintf("((cityHash64(%d, %s) %% 4294967291 + 0.5) / 4294967291)", s.seed, strings.Join(keys, ", "))
}

// normal is a standard normal number of the same kind.
func (s shape) normal(keys ...string) string {
	a, b := append([]string{"'n1'"}, keys...), append([]string{"'n2'"}, keys...)
	return fmt.Sprintf("(sqrt(-2 * log(%s)) * cos(6.283185307179586 * %s))", s.u(a...), s.u(b...))
}

// zipf draws a rank in [0, n) with a probability near 1/(rank+1).
func (s shape) zipf(n int, keys ...string) string {
	return fmt.Sprintf("toUInt32(least(floor(exp(%s * %.12g)) - 1, %d))", s.u(keys...), math.Log(float64(n+1)), n-1)
}

func service(pair int) string { return fmt.Sprintf("service-%02d", pair/agentsPerCell) }
func agent(pair int) string   { return fmt.Sprintf("agent-%03d", pair) }

func (s shape) services() (out []string) {
	for p := 0; p < s.pairs(); p += agentsPerCell {
		out = append(out, service(p))
	}
	return out
}

func (s shape) agents() (out []string) {
	for p := range s.pairs() {
		out = append(out, agent(p))
	}
	return out
}

// busiest is the slice with the most operations.
func (s shape) busiest() store.Slice {
	return store.Slice{Service: service(0), Agent: agent(0), Kind: "chat", Target: "model-0", Stream: "yes"}
}

func (s shape) busiestAgent() store.Slice {
	return store.Slice{Service: service(0), Agent: agent(0), Kind: "agent"}
}

// requests is the sub-query of the last day's requests.
func (s shape) requests() string {
	k := func(name string) []string { return []string{"'" + name + "'", "i"} }
	return fmt.Sprintf(`
SELECT number AS i,
    concat('00', lower(right(hex(MD5(concat('%d/', toString(i)))), 30))) AS trace,
    %s AS pair,
    concat('service-', leftPad(toString(intDiv(pair, %d)), 2, '0')) AS service,
    concat('agent-', leftPad(toString(pair), 3, '0')) AS agent_name,
    %s AS u_time,
    toInt64(%d) + toInt64(86400e9 * (u_time + 0.6 * sin(6.283185307179586 * u_time) / 6.283185307179586)) AS request_end,
    toUInt32(least(1 + floor(-%.4g * log(%s)), %d)) AS steps_n,
    exp(%s * 0.5) AS slowness,
    %s AS u_outcome
FROM numbers(%d)`, s.seed, s.zipf(s.pairs(), k("pair")...), agentsPerCell, s.u(k("time")...), s.from().UnixNano(),
		stepScale, s.u(k("steps")...), maxSteps, s.normal(k("slow")...), s.u(k("outcome")...), s.requestsPerDay())
}

// operations is the sub-query of the last day's operations.
func (s shape) operations() string {
	k := func(name string) []string { return []string{"'" + name + "'", "trace", "j"} }
	return fmt.Sprintf(`
SELECT *, arrayJoin(range(1, steps_n + 1)) AS j,
    concat(left(trace, 12), leftPad(toString(j), 4, '0')) AS op_id,
    %s AS what,
    what < 8 AS model_call,
    if(model_call, 'chat', 'tool') AS op_kind,
    if(model_call, concat('model-', toString(intDiv(what, 2))), concat('tool-', toString(what - 8))) AS op_target,
    if(model_call AND what %% 2 = 0, 'yes', 'no') AS op_stream,
    %s AS u_attempts,
    toUInt32(multiIf(u_attempts < 0.78, 1, u_attempts < 0.90, 2, u_attempts < 0.97, 3, 4)) AS attempts_n,
    %s AS u_tail,
    toInt64(1e9 * slowness * (0.4 + 0.3 * what) * exp(%s * 0.6) * if(u_tail < 0.02, pow(u_tail / 0.02, -0.5), 1)) AS last_ns,
    least(last_ns * 2, toInt64(30000000000)) AS failed_ns,
    toInt64(1e9 * (0.5 + %s)) AS pause_ns,
    (attempts_n - 1) * (failed_ns + pause_ns) AS hidden_ns,
    last_ns + hidden_ns AS user_ns,
    request_end - (steps_n - j) * toInt64(3000000000) - toInt64(1000000) AS op_end,
    %s AS u_error,
    u_error < 0.02 AS failed,
    multiIf(NOT failed, '', u_error < 0.008, 'timeout', u_error < 0.013, 'overload', u_error < 0.017, 'server', 'client') AS class,
    toUInt16(multiIf(NOT failed, 200, u_error < 0.005, 504, u_error < 0.013, 429, u_error < 0.017, 500, 400)) AS status,
    toInt64(if(model_call, 200 * exp(%s * 1.2), 0)) AS input_n,
    toInt64(if(model_call, 150 * exp(%s), 0)) AS output_n
FROM (%s)`, s.zipf(targetsPerAgent, k("what")...), s.u(k("attempts")...), s.u(k("tail")...), s.normal(k("last")...), s.u(k("pause")...),
		s.u(k("error")...), s.normal(k("input")...), s.normal(k("output")...), s.requests())
}

// facts are the columns that requests, operations and attempts share.
const facts = "service AS service_name, trace AS trace_id, toUInt64(1 + u_outcome * 3) AS revision, concat('1.', toString(intDiv(pair * 7 + toUInt32(request_end / 2592e11), 3))) AS service_version, " +
	"'production' AS environment, agent_name AS agent, multiIf(u_outcome < 0.1, 'high', u_outcome < 0.8, '', 'batch') AS priority, toFloat64(1) AS sample_weight, " +
	"map('team', concat('team-', toString(pair % 7))) AS attributes"

func at(ns string) string { return "fromUnixTimestamp64Nano(" + ns + ", 'UTC')" }

// inserts are the statements that store the last day's base rows.
func (s shape) inserts(database string) []string {
	into := func(table, columns, from string) string {
		return fmt.Sprintf("INSERT INTO %s.%s_base (%s) SELECT %s FROM (%s) SETTINGS max_block_size = 65536, min_insert_block_size_rows = 300000, min_insert_block_size_bytes = 0, max_threads = 2, max_insert_threads = 2",
			database, table, names(columns), columns, from)
	}
	ops := s.operations()
	ingested := func(ns string) string { return "toDateTime64(" + at(ns) + ", 3, 'UTC') + 2 AS ingested_at" }
	out := []string{
		into("operations", facts+`, op_kind AS kind, op_target AS name, `+at("op_end - user_ns")+` AS started_at, `+at("op_end")+` AS ended_at,
			if(failed, 'error', 'ok') AS outcome, class AS error_class, status AS http_status, user_ns AS user_time_ns, last_ns AS agent_time_ns,
			if(u_tail < 0.5, 'reported', 'derived') AS agent_time_source, hidden_ns AS hidden_path_ns, hidden_ns AS hidden_total_ns,
			toInt64(120000000000) AS budget_ns, user_ns > 120e9 AS deadline_missed, if(user_ns > 120e9, 'own', '') AS miss_cause, if(j = 1, hidden_ns, NULL) AS drift_ns,
			input_n AS input_tokens, output_n AS output_tokens, intDiv(input_n, 3) AS cached_tokens,
			(attempts_n - 1) * failed_ns AS failed_attempt_ns, (attempts_n - 1) * pause_ns AS backoff_ns,
			if(model_call, intDiv(last_ns, 3), 0) AS ttft_segment_ns, if(model_call, last_ns - intDiv(last_ns, 3), 0) AS generation_ns, if(model_call, 0, last_ns) AS tool_ns,
			op_id AS operation_id, left(trace, 16) AS request_id, op_target AS target, if(model_call, 'openai', '') AS provider,
			if(model_call, concat('https://llm-', toString(what), '.example/v1'), '') AS endpoint, if(model_call, concat('region-', toString(pair % 3)), '') AS region,
			'otel' AS dialect, op_stream AS stream, if(u_attempts > 0.3 AND u_attempts < 0.33, NULL, attempts_n) AS attempts, 'http_child' AS attempt_source, attempts_n AS leaf_attempts,
			if(model_call, last_ns, NULL) AS inference_time_ns, if(op_stream = 'yes', intDiv(last_ns, 3), NULL) AS ttft_ns, multiIf(op_stream != 'yes', 'not_applicable', u_tail > 0.98, 'missing', 'known') AS ttft_state,
			if(model_call AND output_n > 1, intDiv(last_ns * 2, output_n * 3), NULL) AS time_per_output_token_ns, toInt64(30000000000) AS timeout_ns, last_ns > 30e9 AS at_cap,
			'stop' AS finish_reason, true AS on_path, user_ns AS path_ns, j AS step_index, `+ingested("request_end"), ops),
		into("attempts", facts+`, op_kind AS kind, op_target AS name, `+at("attempt_end - attempt_ns")+` AS started_at, `+at("attempt_end")+` AS ended_at,
			if(final AND NOT failed, 'ok', 'error') AS outcome, if(final, class, if(u_pause % 2 = 0, 'timeout', 'overload')) AS error_class, if(final, status, 503) AS http_status,
			concat(op_id, '-', toString(n)) AS attempt_id, op_id AS operation_id, left(trace, 16) AS request_id, n AS ordinal, final AS last, true AS leaf,
			if(u_pause % 3 = 0, 'sdk', 'transport') AS layer, 'http_child' AS source, op_target AS target, if(model_call, 'openai', '') AS provider,
			if(model_call, concat('https://llm-', toString(what), '.example/v1'), '') AS endpoint, op_stream AS stream, attempt_ns AS duration_ns, if(n > 1, pause_ns, NULL) AS backoff_before_ns,
			toInt64(30000000000) AS timeout_ns, attempt_ns >= 30e9 AS at_cap, `+ingested("request_end"),
			"SELECT *, arrayJoin(range(1, attempts_n + 1)) AS n, n = attempts_n AS final, if(final, last_ns, failed_ns) AS attempt_ns, cityHash64(op_id, n) AS u_pause, op_end - (attempts_n - n) * (failed_ns + pause_ns) AS attempt_end FROM ("+ops+")"),
		into("requests", facts+`, 'agent' AS kind, concat('invoke ', agent_name) AS name, `+at("request_end - user_ns")+` AS started_at, `+at("request_end")+` AS ended_at,
			if(failed, 'error', 'ok') AS outcome, if(failed, 'timeout', '') AS error_class, toUInt16(if(failed, 504, 200)) AS http_status, user_ns AS user_time_ns,
			user_ns - hidden_ns AS agent_time_ns, 'derived' AS agent_time_source, hidden_ns AS hidden_path_ns, hidden_ns AS hidden_total_ns, toInt64(120000000000) AS budget_ns,
			user_ns > 120e9 AS deadline_missed, if(deadline_missed, if(u_outcome < 0.5, 'own', 'inherited'), '') AS miss_cause, hidden_ns AS drift_ns,
			steps_n * 300 AS input_tokens, steps_n * 200 AS output_tokens, steps_n * 90 AS cached_tokens, intDiv(hidden_ns, 2) AS failed_attempt_ns, hidden_ns - intDiv(hidden_ns, 2) AS backoff_ns,
			intDiv(user_ns - hidden_ns, 3) AS generation_ns, intDiv(user_ns - hidden_ns, 3) AS ttft_segment_ns, user_ns - hidden_ns - 2 * intDiv(user_ns - hidden_ns, 3) AS tool_ns,
			left(trace, 16) AS request_id, steps_n AS operations, steps_n AS steps, intDiv(steps_n, 3) AS tool_calls, retries_n + steps_n AS attempts, retries_n AS retries, steps_n AS decision_points,
			'root' AS release_reason, `+ingested("request_end"),
			fmt.Sprintf("SELECT *, toUInt32(least(floor(-0.35 * steps_n * log(%s)), 9)) AS retries_n, toInt64(retries_n * 4e9 * slowness) AS hidden_ns, hidden_ns + toInt64(3e9 * steps_n * slowness) AS user_ns, u_outcome < 0.004 AS failed FROM (%s)",
				s.u("'retries'", "trace"), s.requests())),
		into("segments", `service AS service_name, trace AS trace_id, toUInt64(1) AS revision, left(trace, 16) AS request_id, `+at("request_end")+` AS request_ended_at, index AS segment_index,
			['failed_attempt', 'backoff', 'ttft', 'generation', 'tool'][index + 1] AS kind, `+at("request_end - (5 - index) * toInt64(2000000000)")+` AS started_at, toInt64(2000000000) AS duration_ns, `+ingested("request_end"),
			"SELECT *, toUInt32(arrayJoin(range(5))) AS index FROM ("+s.requests()+")"),
	}
	return append(out,
		into("spans", `service AS service_name, trace AS trace_id, op_id AS span_id, left(trace, 16) AS parent_span_id, concat(op_kind, ' ', op_target) AS name, 'CLIENT' AS kind,
			`+at("op_end - user_ns")+` AS started_at, user_ns AS duration_ns, if(failed, 'ERROR', 'OK') AS status_code, map('gen_ai.request.model', op_target) AS attributes, `+ingested("request_end"), ops),
		into("open_requests", `service AS service_name, trace AS trace_id, toUInt64(1) AS revision, agent_name AS agent, `+at("observed")+` AS observed_at, `+at("request_end - 20000000000")+` AS started_at,
			`+at("observed")+` AS last_span_at, observed - request_end + toInt64(20000000000) AS age_ns, toUInt32(5) AS spans, toUInt32(2) AS operations, `+ingested("observed"),
			"SELECT *, (intDiv(request_end, toInt64(10000000000)) - toInt64(arrayJoin([0, 1]))) * toInt64(10000000000) AS observed FROM ("+s.requests()+") WHERE i % 2 = 0"))
}

// names takes the column names out of a list of "expression AS name".
func names(list string) string {
	var out []string
	depth, from := 0, 0
	quoted := false
	for i, c := range list + "," {
		switch {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth--
		case c == ',' && depth == 0:
			item := strings.TrimSpace(list[from:i])
			out = append(out, item[strings.LastIndex(item, " AS ")+4:])
			from = i + 1
		}
	}
	return strings.Join(out, ", ")
}
