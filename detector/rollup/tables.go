package rollup

import (
	"slices"
	"strings"
	"time"
)

// column is one output column with the SQL that fills it.
type column struct{ name, expr string }

// Other stands for the values of a dimension that a cell has no room for.
const Other = "other"

// table is one rollup of base rows and how its cells are computed.
type table struct {
	// name is the table's name without tier; base is what it aggregates.
	name, base string
	// dims are the cell's dimensions besides service and minute.
	dims []column
	// sums are integers; each expression is summed over whole rows.
	sums []column
	// hists are the measures; each expression gives nanoseconds or NULL.
	hists []column
	// late says that the table has the column late_fragments, overflow that it has that
	// column, which counts what fold took together.
	late, overflow bool
	// keep is how many different values of the dimensions in fold, taken together, a service
	// may have in one cell; the less busy ones become Other.
	keep int
	fold []string
	// since is the schema version that brought the table.
	since uint32
}

// tier is a coarser rollup, computed from the cells of a finer one.
type tier struct {
	// name and source are tables without "_base".
	name, source string
	// width is the length of a cell.
	width time.Duration
	// dims, scalars and hists are what it keeps of the source's columns; scalars are summed.
	dims           []column
	scalars, hists []string
	keep           int
	fold           []string
	// since is the schema version that brought the table, sourceSince its source.
	since, sourceSince uint32
}

// cell is the SQL of the cell that a source row belongs to.
func (t tier) cell() string {
	switch t.width {
	case day:
		return "toStartOfDay(minute)"
	case tenMinutes:
		return "toStartOfTenMinutes(minute)"
	}
	return "toStartOfHour(minute)"
}

const (
	day        = 24 * time.Hour
	tenMinutes = 10 * time.Minute
)

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

// One hostile row must not outweigh all others of its cell: a weight is at most a million,
// one that is no number or negative is none, and a count of tokens that no model could have
// made is left out.
const weight = "toUInt64(round(if(sample_weight > 0, least(sample_weight, 1e6), 0) * 1000))"

func believed(tokens string) string {
	return "if(ifNull(" + tokens + " BETWEEN 0 AND 1000000000, false), toUInt64(assumeNotNull(" + tokens + ")), 0)"
}

var deadlines = counts(
	"deadline_known", "isNotNull(deadline_missed)",
	"deadline_missed", "ifNull(deadline_missed, false)",
	"missed_own", "ifNull(deadline_missed, false) AND miss_cause = 'own'",
	"missed_inherited", "ifNull(deadline_missed, false) AND miss_cause = 'inherited'",
)

var tokens = counts(
	"input_tokens", believed("input_tokens"),
	"output_tokens", believed("output_tokens"),
	"cached_tokens", believed("cached_tokens"),
)

// What follows is stored in short where it follows from other columns, as the views of
// schema version 5 say; the job reads the tables beneath them.
const (
	agentTime     = "multiIf(agent_time_ns = -1, user_time_ns, agent_time_ns = -2, user_time_ns - hidden_total_ns, agent_time_ns)"
	inferenceTime = "if(inference_time_ns = -1, user_time_ns, inference_time_ns)"
	perToken      = "if(time_per_output_token_ns = -1, intDivOrZero(" + inferenceTime + " - ttft_ns, output_tokens - 1), time_per_output_token_ns)"
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

// tables are the rollups of base rows.
var tables = slices.Concat(sliceTables, dimensionTables)

// sliceTables have the slices that the detections judge.
var sliceTables = []table{
	{
		name: "rollup_operations", base: "operations_base", late: true, keep: 500, fold: []string{"agent", "target"},
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
		hists: counts("user_time", "user_time_ns", "agent_time", agentTime, "inference_time", inferenceTime,
			"ttft", "if(ttft_state = 'known', ttft_ns, NULL)",
			"time_per_output_token", "if(ttft_state = 'suspect', NULL, "+perToken+")", "drift", drift),
	},
	{
		name: "rollup_requests", base: "requests_base", late: true, keep: 200, fold: []string{"agent"},
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
		hists: counts("user_time", "user_time_ns", "agent_time", agentTime, "hidden_path", "hidden_path_ns", "drift", drift),
	},
	{
		name: "rollup_attempts", base: "attempts_base", keep: 500, fold: []string{"agent", "target", "endpoint"},
		dims: append(same("agent", "kind", "target", "endpoint", "layer"),
			column{"ordinal_bucket", "multiIf(ordinal <= 1, '1', ordinal = 2, '2', '3+')"},
			column{"error_class", "error_class"}, column{"at_cap", "at_cap"}),
		sums:  concat([]column{{"weight_milli", weight}}, counts("status_504", "http_status = 504", "leaf", "leaf")),
		hists: counts("duration", "duration_ns", "backoff", "backoff_before_ns"),
	},
}

// scalars lists the summed columns, in the order of the minute level.
func (t table) scalars() []string {
	out := []string{"n"}
	if t.late {
		out = append(out, "late_fragments")
	}
	if t.overflow {
		out = append(out, "overflow")
	}
	for _, s := range t.sums {
		out = append(out, s.name)
	}
	for _, h := range t.hists {
		out = append(out, h.name+"_n", h.name+"_sum_ns")
	}
	return out
}

// hourly is the table's 1h tier: the same columns.
func (t table) hourly() tier {
	h := tier{name: t.name + "_1h", source: t.name + "_1m", width: time.Hour, scalars: t.scalars(), keep: t.keep, fold: t.fold, since: t.since, sourceSince: t.since}
	for _, d := range t.dims {
		h.dims = append(h.dims, column{d.name, d.name})
	}
	for _, m := range t.hists {
		h.hists = append(h.hists, m.name)
	}
	return h
}

// bases lists the base tables in the order of their first rollup.
func bases() []string {
	var out []string
	for _, t := range tables {
		if !slices.Contains(out, t.base) {
			out = append(out, t.base)
		}
	}
	return out
}

// tiers lists the coarser rollups, each after its source.
func tiers() []tier {
	var out []tier
	for _, t := range tables {
		out = append(out, t.hourly())
	}
	for _, n := range narrows {
		out = append(out, n.tiers()...)
	}
	return out
}

func list(names []string) string { return strings.Join(names, ", ") }
