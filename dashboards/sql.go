package dashboards

import (
	"fmt"

	"driftline/detector/stats"
)

// filters keeps a panel to the chosen time range, services and agents. It filters
// the raw sort-key column, so that only the parts needed are read.
const filters = "$__timeFilter(minute) AND service_name IN (${service:singlequote}) AND agent IN (${agent:singlequote})"

// modelCalls keeps to calls whose inference time is known.
const modelCalls = "kind NOT IN ('agent', 'workflow', 'tool')"

// quantile is the SQL of the q-quantile in milliseconds of the histogram columns
// <metric>_buckets and <metric>_counts summed over a group. The definition is
// sorted[min(int(n*q), n-1)], as in the detectors; an empty histogram gives NULL.
func quantile(metric string, q float64) string {
	merged := fmt.Sprintf("sumMap(%s_buckets, %s_counts)", metric, metric)
	rank := fmt.Sprintf("least(toUInt64(arraySum(%s.2) * %g), arraySum(%s.2) - 1)", merged, q, merged)
	index := fmt.Sprintf("arrayFirstIndex(c -> c > %s, arrayCumSum(%s.2))", rank, merged)
	return fmt.Sprintf("if(empty(%s.1), NULL, %s)", merged, bucketValue(fmt.Sprintf("%s.1[%s]", merged, index)))
}

// robustSD is the SQL of half the distance between the 16 % and 84 % quantiles, which
// for normal data is the standard deviation and which one outlier cannot move.
func robustSD(metric string) string {
	return fmt.Sprintf("(%s - %s) / 2", quantile(metric, 0.84), quantile(metric, 0.16))
}

// share is the SQL of sum(a) / sum(b), NULL where nothing was counted.
func share(a, b string) string {
	return fmt.Sprintf("sum(%s) / nullIf(sum(%s), 0)", a, b)
}

// bucketValue is the SQL of a histogram bucket's value in milliseconds:
// 2 * gamma^index / (gamma + 1), written as 0.98 * exp(index * ln(gamma)).
func bucketValue(index string) string {
	return fmt.Sprintf("(1 - %g) * exp(%s * %.17g)", stats.RelativeError, index, stats.LnGamma)
}
