package dashboards

import (
	"fmt"
	"strings"
	"time"
)

// A panel reads the tier that fits the chosen range: what is drawn has some hundred points,
// and a month in minutes would be millions of cells.
const (
	minutesUpTo    = 6 * time.Hour
	tenMinutesUpTo = 72 * time.Hour
	hoursUpTo      = 10 * 24 * time.Hour
)

// source is one table of a family with the expressions that differ between them.
type source struct {
	table string
	// columns maps a name that panels use to the table's expression for it; a name that is
	// not in it is the table's own.
	columns map[string]string
}

// family is a rollup in all its tiers.
type family struct{ minutes, tenMinutes, hours, days source }

// composite work is made of other operations, which are counted for themselves.
var composite = map[string]string{"composite": "kind IN ('agent', 'workflow')"}

// The families that panels read. Minutes are those of the slices; from ten minutes on there
// are narrow tables.
var (
	retriesFamily = family{source{"rollup_operations_1m", composite}, source{table: "rollup_retries_10m"}, source{table: "rollup_retries_1h"}, source{table: "rollup_retries_1d"}}
	targetsFamily = family{source{table: "rollup_operations_1m"}, source{table: "rollup_targets_10m"}, source{table: "rollup_targets_1h"}, source{table: "rollup_targets_1d"}}
	agentsFamily  = family{source{table: "rollup_requests_1m"}, source{table: "rollup_agents_10m"}, source{table: "rollup_agents_1h"}, source{table: "rollup_agents_1d"}}
)

// span is the length of the chosen range in seconds.
const span = "toInt64(toUnixTimestamp($__toTime) - toUnixTimestamp($__fromTime))"

// from is the sub-query of the columns from the tier that fits the range. The conditions on
// the range are constants to the server, which therefore reads one table alone. extra is a
// further condition on the columns; it may be empty.
func (f family) from(extra string, columns ...string) string {
	bounds := []time.Duration{0, minutesUpTo, tenMinutesUpTo, hoursUpTo, 0}
	var parts []string
	for i, s := range []source{f.minutes, f.tenMinutes, f.hours, f.days} {
		list := []string{"minute"}
		for _, c := range columns {
			if e, ok := s.columns[c]; ok {
				c = e + " AS " + c
			}
			list = append(list, c)
		}
		var fits []string
		if lo := bounds[i]; lo > 0 {
			fits = append(fits, fmt.Sprintf("%s > %d", span, int(lo.Seconds())))
		}
		if hi := bounds[i+1]; hi > 0 {
			fits = append(fits, fmt.Sprintf("%s <= %d", span, int(hi.Seconds())))
		}
		where := filters + " AND " + strings.Join(fits, " AND ")
		if extra != "" {
			condition := extra
			for name, e := range s.columns {
				condition = strings.ReplaceAll(condition, name, "("+e+")")
			}
			where += " AND " + condition
		}
		parts = append(parts, fmt.Sprintf("    SELECT %s FROM %s WHERE %s", strings.Join(list, ", "), s.table, where))
	}
	return "(\n" + strings.Join(parts, "\n    UNION ALL\n") + "\n)"
}

// lastDay is the sub-query of the columns of a dimension's rollup over the range, or over
// its last day if it is longer: tables of a comparison need no more.
func lastDay(rollup string, columns ...string) string {
	list := strings.Join(columns, ", ")
	return fmt.Sprintf(`(
    SELECT %s FROM %s_1m WHERE $__timeFilter(minute) AND service_name IN (${service:singlequote}) AND %s <= %d
    UNION ALL
    SELECT %s FROM %s_1h WHERE $__timeFilter(minute) AND minute >= $__toTime - INTERVAL 1 DAY AND service_name IN (${service:singlequote}) AND %s > %d
)`, list, rollup, span, int(minutesUpTo.Seconds()), list, rollup, span, int(minutesUpTo.Seconds()))
}

// histogram are the columns of a measure.
func histogram(metrics ...string) []string {
	var out []string
	for _, m := range metrics {
		out = append(out, m+"_buckets", m+"_counts")
	}
	return out
}
