package dashboards

import (
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// OnCallUID is the fixed uid of the on-call dashboard.
const OnCallUID = "driftline-oncall"

// OnCall builds the dashboard an on-call engineer opens from an alert: is latency
// about to become errors, what do retries hide, and where does the time go.
func OnCall() (dashboard.Dashboard, error) {
	b := dashboard.NewDashboardBuilder("driftline: on-call").
		Uid(OnCallUID).
		Description("Is LLM latency about to become errors? What do retries hide? Where does the time go?").
		Tags([]string{"driftline", "genai"}).
		Timezone("utc").
		Refresh("30s").
		Time("now-3h", "now").
		Readonly().
		Tooltip(dashboard.DashboardCursorSyncCrosshair)
	for _, v := range variables() {
		b = b.WithVariable(v)
	}
	b = nowRow(b)
	b = driftRow(b)
	b = spreadRow(b)
	b = timeRow(b)
	b = whereRow(b)
	b = evidenceRow(b)
	built, err := b.Build()
	if err != nil {
		return built, err
	}
	// Links and shared views name a panel by its id, so each has its own for good.
	for i := range built.Panels {
		id := uint32(i + 1)
		if p := built.Panels[i].Panel; p != nil {
			p.Id = &id
		}
		if r := built.Panels[i].RowPanel; r != nil {
			r.Id = id
		}
	}
	return built, nil
}

func variables() []cog.Builder[dashboard.VariableModel] {
	list := func(name, label, column string) cog.Builder[dashboard.VariableModel] {
		sql := fmt.Sprintf("SELECT DISTINCT %s FROM rollup_retries_1d WHERE $__timeFilter(minute) OR minute >= now() - INTERVAL 2 DAY ORDER BY 1", column)
		return dashboard.NewQueryVariableBuilder(name).
			Label(label).
			Datasource(datasource()).
			Query(dashboard.StringOrMap{String: cog.ToPtr(sql)}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
			Sort(dashboard.VariableSortAlphabeticalAsc).
			Multi(true).
			IncludeAll(true)
	}
	return []cog.Builder[dashboard.VariableModel]{
		dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type(PluginType),
		list("service", "Service", "service_name"),
		list("agent", "Agent", "agent"),
	}
}

func nowRow(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	return b.WithRow(dashboard.NewRowBuilder("Now")).
		WithPanel(number("Alerts firing", "Early warnings and pages that are firing now, shadow rules left out.", unitCount, 1, 3, `
SELECT count() AS firing
FROM
(
    SELECT fingerprint, argMax(state, transition) AS last_state
    FROM alerts
    WHERE NOT shadow
    GROUP BY fingerprint
)
WHERE last_state = 'firing'`)).
		WithPanel(number("504 share", "Requests that ended with HTTP 504, of all that ended in the range. The classic alert fires at 5 %.", unitShare, 0.01, 0.05, `
SELECT `+share("status_504", "n")+` AS share_504
FROM `+agentsFamily.from("", "n", "status_504"))).
		WithPanel(number("Request P95", "User time of requests, 95 % quantile over the range.", unitMilliseconds, 60000, 120000, `
SELECT `+quantile("user_time", 0.95)+` AS p95
FROM `+agentsFamily.from("", histogram("user_time")...))).
		WithPanel(number("Deadline misses", "Requests that ended after their deadline, of those with a known deadline.", unitShare, 0.02, 0.1, `
SELECT `+share("deadline_missed", "deadline_known")+` AS missed
FROM `+agentsFamily.from("", "deadline_known", "deadline_missed")))
}

func driftRow(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	return b.WithRow(dashboard.NewRowBuilder("What retries hide")).
		WithPanel(lines("User time P95 by retries", "Operations. Lines that part while agent time stays together are hidden retries.", unitMilliseconds, half, `
SELECT minute AS time, concat('retries ', retries) AS series, `+quantile("user_time", 0.95)+` AS p95
FROM `+retriesFamily.from("NOT composite", append(histogram("user_time"), "retries")...)+`
GROUP BY minute, retries
ORDER BY minute`)).
		WithPanel(lines("Agent time P95 by retries", "What the agent believes the same operations took.", unitMilliseconds, half, `
SELECT minute AS time, concat('retries ', retries) AS series, `+quantile("agent_time", 0.95)+` AS p95
FROM `+retriesFamily.from("NOT composite", append(histogram("agent_time"), "retries")...)+`
GROUP BY minute, retries
ORDER BY minute`)).
		WithPanel(lines("Deadline drift", "Perceived minus true remaining time at decision points of requests.", unitMilliseconds, third, `
SELECT minute AS time, `+quantile("drift", 0.5)+` AS median, `+quantile("drift", 0.95)+` AS p95
FROM `+agentsFamily.from("", histogram("drift")...)+`
GROUP BY minute
ORDER BY minute`)).
		WithPanel(stacked("Attempts by ordinal", "First tries and retries of operations whose attempts are known.", unitCount, third, `
SELECT minute AS time, sumIf(n - late_fragments, retries != 'unknown') AS "attempt 1", sumIf(n - late_fragments, retries IN ('1', '2+')) AS "attempt 2",
       sumIf(attempts, retries = '2+') - 2 * sumIf(n - late_fragments, retries = '2+') AS "attempt 3 and up"
FROM `+retriesFamily.from("", "n", "late_fragments", "attempts", "retries")+`
GROUP BY minute
ORDER BY minute`)).
		WithPanel(lines("Amplification", "Leaf attempts per operation, over operations whose attempts are known.", unitCount, third, `
SELECT minute AS time, sum(leaf_attempts) / nullIf(sum(n) - sum(attempts_unknown), 0) AS amplification
FROM `+retriesFamily.from("", "n", "leaf_attempts", "attempts_unknown")+`
GROUP BY minute
ORDER BY minute`))
}

func spreadRow(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	return b.WithRow(dashboard.NewRowBuilder("Is latency about to become errors")).
		WithPanel(lines("Inference time P95", "Last attempts of model calls, less known queue and connect time.", unitMilliseconds, third, `
SELECT minute AS time, target AS series, `+quantile("inference_time", 0.95)+` AS p95
FROM `+targetsFamily.from(modelCalls, append(histogram("inference_time"), "target")...)+`
GROUP BY minute, target
ORDER BY minute`)).
		WithPanel(lines("Spread of inference time", "Half the distance between the 16 % and 84 % quantiles: moves before errors do.", unitMilliseconds, third, `
SELECT minute AS time, target AS series, `+robustSD("inference_time")+` AS spread
FROM `+targetsFamily.from(modelCalls, append(histogram("inference_time"), "target")...)+`
GROUP BY minute, target
ORDER BY minute`)).
		WithPanel(lines("504 share", "Requests that ended with HTTP 504, per minute.", unitShare, third, `
SELECT minute AS time, service_name AS series, `+share("status_504", "n")+` AS share_504
FROM `+agentsFamily.from("", "service_name", "n", "status_504")+`
GROUP BY minute, service_name
ORDER BY minute`)).
		WithPanel(lines("Time to first token", "Streamed model calls; suspect values are left out and counted.", unitMilliseconds, half, `
SELECT minute AS time, `+quantile("ttft", 0.5)+` AS p50, `+quantile("ttft", 0.95)+` AS p95
FROM `+targetsFamily.from("", histogram("ttft")...)+`
GROUP BY minute
ORDER BY minute`)).
		WithPanel(lines("Time per output token", "Generation time per token after the first.", unitMilliseconds, half, `
SELECT minute AS time, `+quantile("time_per_output_token", 0.5)+` AS p50, `+quantile("time_per_output_token", 0.95)+` AS p95
FROM `+targetsFamily.from("", histogram("time_per_output_token")...)+`
GROUP BY minute
ORDER BY minute`))
}

func timeRow(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	sums := ""
	var kinds, errors []string
	for _, kind := range []string{"failed_attempt", "backoff", "queue", "connect", "ttft_segment", "generation", "inference_segment", "tool", "agent", "unattributed"} {
		sums += fmt.Sprintf(", sum(%s_sum_ns) / nullIf(sum(n), 0) / 1e6 AS \"%s\"", kind, strings.TrimSuffix(kind, "_segment")+" time")
		kinds = append(kinds, kind+"_sum_ns")
	}
	classes := ""
	for _, class := range []string{"timeout", "overload", "server", "client", "network", "cancelled", "other"} {
		classes += fmt.Sprintf(", sum(errors_%s) AS \"%s\"", class, class)
		errors = append(errors, "errors_"+class)
	}
	return b.WithRow(dashboard.NewRowBuilder("Where the time goes")).
		WithPanel(stacked("Time per request by segment", "Mean critical-path time per request; the segments add up to the wall clock.", unitMilliseconds, half, `
SELECT minute AS time`+sums+`
FROM `+agentsFamily.from("", append(kinds, "n")...)+`
GROUP BY minute
ORDER BY minute`)).
		WithPanel(stacked("Failed operations by class", "408, 504, 524 and client timeouts are timeout; 429, 503 and 529 are overload.", unitCount, half, `
SELECT minute AS time`+classes+`
FROM `+retriesFamily.from("", errors...)+`
GROUP BY minute
ORDER BY minute`))
}

// whereRow compares what on-call can act on: an endpoint to route around, a version to roll back.
func whereRow(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	errors := "1 - " + share("ok", "n - late_fragments")
	return b.WithRow(dashboard.NewRowBuilder("Is it one endpoint, version or priority")).
		WithPanel(rowsTable("By endpoint and region", "Calls over the range, or over its last day if it is longer. Slowest first; other is all beyond fifty of a service.", `
SELECT endpoint, region, sum(n) AS calls, `+errors+` AS error_share, sum(status_504) AS "504s", `+quantile("inference_time", 0.5)+` AS inference_p50_ms,
       `+quantile("inference_time", 0.95)+` AS inference_p95_ms, `+quantile("ttft", 0.95)+` AS ttft_p95_ms
FROM `+lastDay("rollup_endpoints", append(histogram("inference_time", "ttft"), "endpoint", "region", "n", "late_fragments", "ok", "status_504")...)+`
WHERE endpoint != ''
GROUP BY endpoint, region
ORDER BY inference_p95_ms DESC NULLS LAST
LIMIT 50`)).
		WithPanel(rowsTable("By service version", "Operations over the range, or over its last day if it is longer. The most used first.", `
SELECT service_name, service_version, kind, sum(n) AS operations, `+errors+` AS error_share, sum(status_504) AS "504s", `+share("deadline_missed", "deadline_known")+` AS missed_share,
       `+quantile("user_time", 0.95)+` AS user_p95_ms, `+quantile("inference_time", 0.95)+` AS inference_p95_ms
FROM `+lastDay("rollup_versions", append(histogram("user_time", "inference_time"), "service_name", "service_version", "kind", "n", "late_fragments", "ok", "status_504", "deadline_known", "deadline_missed")...)+`
GROUP BY service_name, service_version, kind
ORDER BY operations DESC
LIMIT 100`)).
		WithPanel(rowsTable("By input tokens", "Streamed model calls over the range, or over its last day if it is longer: a longer prompt waits longer for its first token, which is no incident.", `
SELECT target, input_bucket, sum(n) AS calls, `+share("cached_tokens", "input_tokens")+` AS cached_share, `+quantile("ttft", 0.5)+` AS ttft_p50_ms, `+quantile("ttft", 0.95)+` AS ttft_p95_ms,
       `+quantile("prefill", 0.95)+` AS prefill_p95_ms
FROM `+lastDay("rollup_inputs", append(histogram("ttft", "prefill"), "target", "input_bucket", "n", "cached_tokens", "input_tokens")...)+`
WHERE notEmpty(ttft_buckets)
GROUP BY target, input_bucket
ORDER BY target, min(toUInt64OrZero(splitByChar('-', input_bucket)[1]))
LIMIT 100`)).
		WithPanel(rowsTable("By priority", "Requests over the range, or over its last day if it is longer.", `
SELECT priority, sum(n) AS requests, `+errors+` AS error_share, `+share("deadline_missed", "deadline_known")+` AS missed_share, sum(missed_inherited) AS missed_inherited,
       `+quantile("user_time", 0.95)+` AS user_p95_ms
FROM `+lastDay("rollup_priorities", append(histogram("user_time"), "priority", "n", "late_fragments", "ok", "deadline_known", "deadline_missed", "missed_inherited")...)+`
GROUP BY priority
ORDER BY requests DESC`))
}

func evidenceRow(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	return b.WithRow(dashboard.NewRowBuilder("Evidence")).
		WithPanel(rowsTable("Alert transitions", "Newest first.", `
SELECT at, detection, state, severity, service_name, agent, kind, target, value, threshold, baseline, unit, samples,
       annotations['summary'] AS summary, annotations['evidence_url'] AS evidence
FROM alerts
WHERE $__timeFilter(at) AND service_name IN (${service:singlequote})
ORDER BY at DESC
LIMIT 100`)).
		WithPanel(rowsTable("Requests with the most hidden time", "Open one of these traces first. Of a range over six hours, its last six.", `
SELECT ended_at, service_name, agent, trace_id, user_time_ns / 1e6 AS user_time_ms, hidden_path_ns / 1e6 AS hidden_ms,
       drift_ns / 1e6 AS drift_ms, attempts, operations, outcome, error_class
FROM requests
WHERE $__timeFilter(ended_at) AND ended_at >= $__toTime - INTERVAL 6 HOUR AND service_name IN (${service:singlequote}) AND agent IN (${agent:singlequote})
ORDER BY hidden_path_ns DESC NULLS LAST
LIMIT 20`))
}
