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

// beyond moves a rank that falls on a whole number to the next one, for any number of
// values below a billion.
const beyond = 1e-11

// quantile is the SQL of the q-quantile in milliseconds of the histogram columns
// <metric>_buckets and <metric>_counts summed over a group. The definition is
// sorted[min(int(n*q), n-1)], as in the detectors; an empty histogram gives NULL. The
// aggregate takes the first value at which n*q values are reached, which differs where n*q
// is whole.
func quantile(metric string, q float64) string {
	return bucketValue(fmt.Sprintf("quantileExactWeightedArrayOrNull(%.12g)(%s_buckets, %s_counts)", q+beyond, metric, metric))
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
