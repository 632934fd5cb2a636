package rollup

import "strings"

// column is one output column with the SQL that fills it.
type column struct{ name, expr string }

// table is one rollup and how its cells are computed.
type table struct {
	// name is the table's name without tier; base is what it aggregates.
	name, base string
	// dims are the cell's dimensions besides service and minute.
	dims []column
	// sums are integers; each expression is summed over whole rows.
	sums []column
	// hists are the measures; each expression gives nanoseconds or NULL.
	hists []column
}

const retriesOfAttempts = "multiIf(isNull(attempts), 'unknown', attempts <= 1, '0', attempts = 2, '1', '2+')"
const retriesOfRequest = "multiIf(isNull(retries), 'unknown', retries = 0, '0', retries = 1, '1', '2+')"

func counts(pairs ...string) []column {
	out := make([]column, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, column{pairs[i], pairs[i+1]})
	}
	return out
}

func class(c string) []string { return []string{"errors_" + c, "error_class = '" + c + "'"} }

func outcomes() []column {
	pairs := []string{"ok", "outcome = 'ok'"}
	for _, c := range []string{"timeout", "overload", "server", "client", "network", "cancelled"} {
		pairs = append(pairs, class(c)...)
	}
	// What has no class of the contract is still an error, and is not lost.
	pairs = append(pairs, "errors_other",
		"outcome = 'error' AND error_class NOT IN ('timeout', 'overload', 'server', 'client', 'network', 'cancelled')")
	pairs = append(pairs, "status_504", "http_status = 504")
	return counts(pairs...)
}

const weight = "toUInt64(round(sample_weight * 1000))"

var deadlines = counts(
	"deadline_known", "isNotNull(deadline_missed)",
	"deadline_missed", "ifNull(deadline_missed, false)",
	"missed_own", "ifNull(deadline_missed, false) AND miss_cause = 'own'",
	"missed_inherited", "ifNull(deadline_missed, false) AND miss_cause = 'inherited'",
)

var tokens = counts(
	"input_tokens", "toUInt64(greatest(ifNull(input_tokens, 0), 0))",
	"output_tokens", "toUInt64(greatest(ifNull(output_tokens, 0), 0))",
	"cached_tokens", "toUInt64(greatest(ifNull(cached_tokens, 0), 0))",
)

// drift has no negative values: a planner told too little is not a danger. ClickHouse's
// greatest skips NULL, and a drift that is not known must not become one of zero.
const drift = "if(isNull(drift_ns), NULL, greatest(drift_ns, 0))"

func concat(parts ...[]column) []column {
	var out []column
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func same(names ...string) []column {
	out := make([]column, len(names))
	for i, n := range names {
		out[i] = column{n, n}
	}
	return out
}

var tables = []table{
	{
		name: "rollup_operations", base: "operations_base",
		dims: append(same("agent", "kind", "target", "stream"), column{"retries", retriesOfAttempts}),
		sums: concat(
			[]column{{"weight_milli", weight}}, outcomes(),
			counts("at_cap", "at_cap", "censored", "censored", "incomplete", "incomplete",
				"attempts", "ifNull(attempts, 0)", "leaf_attempts", "ifNull(leaf_attempts, 0)",
				"attempts_unknown", "isNull(attempts)"),
			deadlines,
			counts("ttft_missing", "ttft_state = 'missing'", "ttft_suspect", "ttft_state = 'suspect'",
				"ttft_conflicts", "ttft_conflict", "agent_time_reported", "agent_time_source = 'reported' AND isNotNull(agent_time_ns)"),
			tokens,
			counts("hidden_sum_ns", "ifNull(hidden_total_ns, 0)", "failed_attempt_sum_ns", "failed_attempt_ns",
				"backoff_sum_ns", "backoff_ns"),
		),
		hists: counts("user_time", "user_time_ns", "agent_time", "agent_time_ns", "inference_time", "inference_time_ns",
			"ttft", "if(ttft_state = 'known', ttft_ns, NULL)",
			"time_per_output_token", "if(ttft_state = 'suspect', NULL, time_per_output_token_ns)", "drift", drift),
	},
	{
		name: "rollup_requests", base: "requests_base",
		dims: []column{{"agent", "agent"}, {"kind", "kind"},
			{"steps_bucket", "multiIf(steps = 0, '0', steps <= 3, '1-3', steps <= 7, '4-7', steps <= 14, '8-14', '15+')"},
			{"retries", retriesOfRequest}},
		sums: concat(
			[]column{{"weight_milli", weight}}, outcomes(), same("censored", "incomplete"),
			same("operations", "steps", "tool_calls", "tool_errors"),
			counts("attempts", "ifNull(attempts, 0)"), same("attempts_unknown"),
			deadlines, same("decision_points"),
			counts("agent_time_reported", "agent_time_source = 'reported' AND isNotNull(agent_time_ns)"),
			tokens,
			counts("failed_attempt_sum_ns", "failed_attempt_ns", "backoff_sum_ns", "backoff_ns", "queue_sum_ns", "queue_ns",
				"connect_sum_ns", "connect_ns", "ttft_segment_sum_ns", "ttft_segment_ns", "generation_sum_ns", "generation_ns",
				"inference_segment_sum_ns", "inference_segment_ns", "tool_sum_ns", "tool_ns", "agent_sum_ns", "agent_ns",
				"unattributed_sum_ns", "unattributed_ns"),
		),
		hists: counts("user_time", "user_time_ns", "agent_time", "agent_time_ns", "hidden_path", "hidden_path_ns", "drift", drift),
	},
	{
		name: "rollup_attempts", base: "attempts_base",
		dims: append(same("agent", "kind", "target", "endpoint", "layer"),
			column{"ordinal_bucket", "multiIf(ordinal <= 1, '1', ordinal = 2, '2', '3+')"},
			column{"error_class", "error_class"}, column{"at_cap", "at_cap"}),
		sums:  concat([]column{{"weight_milli", weight}}, counts("status_504", "http_status = 504", "leaf", "leaf")),
		hists: counts("duration", "duration_ns", "backoff", "backoff_before_ns"),
	},
}

// hasLate says whether the rollup has the column late_fragments.
func (t table) hasLate() bool { return t.name != "rollup_attempts" }

// dimNames lists the cell's key columns after service_name and minute.
func (t table) dimNames() []string {
	out := make([]string, len(t.dims))
	for i, d := range t.dims {
		out[i] = d.name
	}
	return out
}

// measureNames lists the columns that are not dimensions, in INSERT order.
func (t table) measureNames() []string {
	out := []string{"n"}
	if t.hasLate() {
		out = append(out, "late_fragments")
	}
	for _, s := range t.sums {
		out = append(out, s.name)
	}
	for _, h := range t.hists {
		out = append(out, h.name+"_n", h.name+"_sum_ns", h.name+"_buckets", h.name+"_counts")
	}
	return out
}

func list(names []string) string { return strings.Join(names, ", ") }
