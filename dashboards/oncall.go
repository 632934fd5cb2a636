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
		sql := fmt.Sprintf("SELECT DISTINCT %s FROM rollup_operations_1h WHERE $__timeFilter(minute) OR minute >= now() - INTERVAL 1 DAY ORDER BY 1", column)
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
FROM rollup_requests_1m
WHERE `+filters)).
		WithPanel(number("Request P95", "User time of requests, 95 % quantile over the range.", unitMilliseconds, 60000, 120000, `
SELECT `+quantile("user_time", 0.95)+` AS p95
FROM rollup_requests_1m
WHERE `+filters)).
		WithPanel(number("Deadline misses", "Requests that ended after their deadline, of those with a known deadline.", unitShare, 0.02, 0.1, `
SELECT `+share("deadline_missed", "deadline_known")+` AS missed
FROM rollup_requests_1m
WHERE `+filters))
}

func driftRow(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	return b.WithRow(dashboard.NewRowBuilder("What retries hide")).
		WithPanel(lines("User time P95 by retries", "Operations. Lines that part while agent time stays together are hidden retries.", unitMilliseconds, half, `
SELECT minute AS time, concat('retries ', retries) AS series, `+quantile("user_time", 0.95)+` AS p95
FROM rollup_operations_1m
WHERE `+filters+` AND kind NOT IN ('agent', 'workflow')
GROUP BY minute, retries
ORDER BY minute`)).
		WithPanel(lines("Agent time P95 by retries", "What the agent believes the same operations took.", unitMilliseconds, half, `
SELECT minute AS time, concat('retries ', retries) AS series, `+quantile("agent_time", 0.95)+` AS p95
FROM rollup_operations_1m
WHERE `+filters+` AND kind NOT IN ('agent', 'workflow')
GROUP BY minute, retries
ORDER BY minute`)).
		WithPanel(lines("Deadline drift", "Perceived minus true remaining time at decision points of requests.", unitMilliseconds, third, `
SELECT minute AS time, `+quantile("drift", 0.5)+` AS median, `+quantile("drift", 0.95)+` AS p95
FROM rollup_requests_1m
WHERE `+filters+`
GROUP BY minute
ORDER BY minute`)).
		WithPanel(stacked("Attempts by ordinal", "First tries and retries per minute.", unitCount, third, `
SELECT minute AS time, concat('attempt ', ordinal_bucket) AS series, sum(n) AS attempts
FROM rollup_attempts_1m
WHERE `+filters+`
GROUP BY minute, ordinal_bucket
ORDER BY minute`)).
		WithPanel(lines("Amplification", "Leaf attempts per operation, over operations whose attempts are known.", unitCount, third, `
SELECT minute AS time, sum(leaf_attempts) / nullIf(sum(n) - sum(attempts_unknown), 0) AS amplification
FROM rollup_operations_1m
WHERE `+filters+`
GROUP BY minute
ORDER BY minute`))
}

func spreadRow(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	return b.WithRow(dashboard.NewRowBuilder("Is latency about to become errors")).
		WithPanel(lines("Inference time P95", "Last attempts of model calls, less known queue and connect time.", unitMilliseconds, third, `
SELECT minute AS time, target AS series, `+quantile("inference_time", 0.95)+` AS p95
FROM rollup_operations_1m
WHERE `+filters+` AND kind NOT IN ('agent', 'workflow', 'tool')
GROUP BY minute, target
ORDER BY minute`)).
		WithPanel(lines("Spread of inference time", "Half the distance between the 16 % and 84 % quantiles: moves before errors do.", unitMilliseconds, third, `
SELECT minute AS time, target AS series, `+robustSD("inference_time")+` AS spread
FROM rollup_operations_1m
WHERE `+filters+` AND kind NOT IN ('agent', 'workflow', 'tool')
GROUP BY minute, target
ORDER BY minute`)).
		WithPanel(lines("504 share", "Requests that ended with HTTP 504, per minute.", unitShare, third, `
SELECT minute AS time, service_name AS series, `+share("status_504", "n")+` AS share_504
FROM rollup_requests_1m
WHERE `+filters+`
GROUP BY minute, service_name
ORDER BY minute`)).
		WithPanel(lines("Time to first token", "Streamed model calls; suspect values are left out and counted.", unitMilliseconds, half, `
SELECT minute AS time, `+quantile("ttft", 0.5)+` AS p50, `+quantile("ttft", 0.95)+` AS p95
FROM rollup_operations_1m
WHERE `+filters+`
GROUP BY minute
ORDER BY minute`)).
		WithPanel(lines("Time per output token", "Generation time per token after the first.", unitMilliseconds, half, `
SELECT minute AS time, `+quantile("time_per_output_token", 0.5)+` AS p50, `+quantile("time_per_output_token", 0.95)+` AS p95
FROM rollup_operations_1m
WHERE `+filters+`
GROUP BY minute
ORDER BY minute`))
}

func timeRow(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	sums := ""
	for _, kind := range []string{"failed_attempt", "backoff", "queue", "connect", "ttft_segment", "generation", "inference_segment", "tool", "agent", "unattributed"} {
		sums += fmt.Sprintf(", sum(%s_sum_ns) / nullIf(sum(n), 0) / 1e6 AS \"%s\"", kind, strings.TrimSuffix(kind, "_segment")+" time")
	}
	classes := ""
	for _, class := range []string{"timeout", "overload", "server", "client", "network", "cancelled", "other"} {
		classes += fmt.Sprintf(", sum(errors_%s) AS \"%s\"", class, class)
	}
	return b.WithRow(dashboard.NewRowBuilder("Where the time goes")).
		WithPanel(stacked("Time per request by segment", "Mean critical-path time per request; the segments add up to the wall clock.", unitMilliseconds, half, `
SELECT minute AS time`+sums+`
FROM rollup_requests_1m
WHERE `+filters+`
GROUP BY minute
ORDER BY minute`)).
		WithPanel(stacked("Failed operations by class", "408, 504, 524 and client timeouts are timeout; 429, 503 and 529 are overload.", unitCount, half, `
SELECT minute AS time`+classes+`
FROM rollup_operations_1m
WHERE `+filters+`
GROUP BY minute
ORDER BY minute`))
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
		WithPanel(rowsTable("Requests with the most hidden time", "Open one of these traces first.", `
SELECT ended_at, service_name, agent, trace_id, user_time_ns / 1e6 AS user_time_ms, hidden_path_ns / 1e6 AS hidden_ms,
       drift_ns / 1e6 AS drift_ms, attempts, operations, outcome, error_class
FROM requests
WHERE $__timeFilter(ended_at) AND service_name IN (${service:singlequote}) AND agent IN (${agent:singlequote})
ORDER BY hidden_path_ns DESC NULLS LAST
LIMIT 20`))
}
