package rollup

import (
	"fmt"
	"strings"

	"driftline/detector/stats"
)

// The statements below name tables and columns from this package alone; every
// value is a bound parameter: @service, @minutes (Unix seconds), @versions, and
// @lo and @hi, which let ClickHouse skip partitions.

const finalSettings = " SETTINGS do_not_merge_across_partitions_select_final = 1"

// countBits is how many low bits of a version count the rows aggregated; the high
// bits are the newest stored_at in milliseconds.
const countBits = 20

func versionExpr(newest, rows string) string {
	return fmt.Sprintf("toUInt64(toUnixTimestamp64Milli(%s)) * %d + least(toUInt64(%s), %d)",
		newest, 1<<countBits, rows, 1<<countBits-1)
}

// pairFilter bounds a read of a base table to the dirty minutes of a service. The
// expression on the sort key lets ClickHouse skip granules.
func pairFilter(timeColumn string) string {
	return "service_name = @service AND " + timeColumn + " >= toDateTime(@lo, 'UTC') AND " + timeColumn + " < toDateTime(@hi, 'UTC')" +
		" AND toUnixTimestamp(toStartOfMinute(" + timeColumn + ")) IN @minutes"
}

func (t table) dimExprs(cell string) []string {
	out := []string{"service_name", cell + " AS cell"}
	for _, d := range t.dims {
		out = append(out, d.expr+" AS dim_"+d.name)
	}
	return out
}

func prefixed(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = "dim_" + n
	}
	return strings.Join(out, ", ")
}

// versions1m gives each dirty minute's version before anything is written.
func (t table) versions1m(db string) string {
	return "SELECT toUnixTimestamp(toStartOfMinute(ended_at)) AS cell, " + versionExpr("max(stored_at)", "count()") +
		" FROM " + db + "." + t.base + " FINAL WHERE " + pairFilter("ended_at") + " GROUP BY cell ORDER BY cell" + finalSettings
}

// insert1m aggregates the dirty minutes and writes their cells. Content and
// version come from one read, so they always belong together. Tombstones count
// for the version and for nothing else.
func (t table) insert1m(db string) string {
	live := "NOT deleted"
	whole := "NOT deleted AND NOT late_fragment"
	aggs := []string{"countIf(" + live + ") AS agg_n"}
	if t.hasLate() {
		aggs = append(aggs, "countIf("+live+" AND late_fragment) AS agg_late")
	}
	for _, s := range t.sums {
		aggs = append(aggs, fmt.Sprintf("sumIf(%s, %s) AS agg_%s", s.expr, whole, s.name))
	}
	out := []string{"agg_n"}
	if t.hasLate() {
		out = append(out, "agg_late")
	}
	for _, s := range t.sums {
		out = append(out, "agg_"+s.name)
	}
	for _, h := range t.hists {
		known := fmt.Sprintf("(%s AND ifNull((%s) >= 0, false))", whole, h.expr)
		ms := "ifNull((" + h.expr + ") / 1e6, 0)"
		aggs = append(aggs,
			fmt.Sprintf("countIf(%s) AS agg_%s_n", known, h.name),
			fmt.Sprintf("sumIf(ifNull(%s, 0), %s) AS agg_%s_sum", h.expr, known, h.name),
			fmt.Sprintf("sumMapIf([%s], [toUInt64(1)], %s) AS agg_%s_hist", stats.SQLBucketExpr(ms), known, h.name))
		out = append(out, "agg_"+h.name+"_n", "agg_"+h.name+"_sum", "agg_"+h.name+"_hist.1", "agg_"+h.name+"_hist.2")
	}
	cells := "SELECT " + strings.Join(t.dimExprs("toStartOfMinute(ended_at)"), ", ") + ", " + strings.Join(aggs, ", ") +
		", max(stored_at) AS newest, count() AS versioned FROM " + db + "." + t.base + " FINAL WHERE " + pairFilter("ended_at") +
		" GROUP BY service_name, cell, " + prefixed(t.dimNames())
	versioned := "SELECT *, max(newest) OVER (PARTITION BY cell) AS cell_newest, sum(versioned) OVER (PARTITION BY cell) AS cell_rows FROM (" + cells + ")"
	return "INSERT INTO " + db + "." + t.name + "_1m_base (service_name, minute, " + list(t.dimNames()) + ", " + list(t.measureNames()) +
		", version) SELECT service_name, cell, " + prefixed(t.dimNames()) + ", " + strings.Join(out, ", ") + ", " +
		versionExpr("cell_newest", "cell_rows") + " FROM (" + versioned + ") WHERE agg_n > 0" + finalSettings
}

// zero1m writes n = 0 over cells that the base rows no longer have. It looks for
// them after the insert: a cell absent then is absent for good, and one that a
// newer run wrote has a higher version and stays.
func (t table) zero1m(db string) string {
	dims := append([]string{"minute"}, t.dimNames()...)
	fresh := "SELECT " + strings.Join(t.dimExprs("toStartOfMinute(ended_at)")[1:], ", ") + " FROM " + db + "." + t.base +
		" FINAL WHERE NOT deleted AND " + pairFilter("ended_at")
	return t.zero(db, "_1m_base", dims, "toUnixTimestamp(minute) IN @minutes AND minute >= toDateTime(@lo, 'UTC') AND minute < toDateTime(@hi, 'UTC')", fresh)
}

func (t table) zero(db, tier string, dims []string, where, fresh string) string {
	version := "transform(toUnixTimestamp(minute), @minutes, @versions, toUInt64(0))"
	if tier == "_1h_base" {
		version = "transform(toUnixTimestamp(minute), @hours, @versions, toUInt64(0))"
	}
	return "INSERT INTO " + db + "." + t.name + tier + " (service_name, " + list(dims) + ", version) SELECT service_name, " + list(dims) +
		", " + version + " AS new_version FROM " + db + "." + t.name + tier + " FINAL WHERE service_name = @service AND " + where +
		" AND n > 0 AND version <= new_version AND (" + list(dims) + ") NOT IN (" + fresh + ")" + finalSettings
}

// hourFilter bounds a read of the 1m table to the touched hours of a service.
const hourFilter = "service_name = @service AND minute >= toDateTime(@lo, 'UTC') AND minute < toDateTime(@hi, 'UTC') AND toUnixTimestamp(toStartOfHour(minute)) IN @hours"

// hourVersion is the version of an hour's cells: the newest of its minutes and the
// rows behind all of them.
func hourVersion(per string) string {
	return fmt.Sprintf("%s * %d + least(%s, %d)", "max(bitShiftRight(version, 20))"+per, 1<<countBits,
		"sum(minute_rows)"+per, 1<<countBits-1)
}

// minuteRows counts a minute's base rows once, though each of its cells has them.
const minuteRows = "if(row_number() OVER (PARTITION BY minute ORDER BY version DESC) = 1, bitAnd(version, 1048575), 0) AS minute_rows"

func (t table) minutes(db string) string {
	return "SELECT *, " + minuteRows + " FROM " + db + "." + t.name + "_1m_base FINAL WHERE " + hourFilter
}

func (t table) versions1h(db string) string {
	return "SELECT toUnixTimestamp(toStartOfHour(minute)) AS cell, " + hourVersion("") + " FROM (" + t.minutes(db) +
		") GROUP BY cell ORDER BY cell" + finalSettings
}

func (t table) insert1h(db string) string {
	aggs := []string{}
	out := []string{}
	for _, m := range t.measureNames() {
		if strings.HasSuffix(m, "_buckets") || strings.HasSuffix(m, "_counts") {
			continue
		}
		aggs = append(aggs, "sum("+m+") AS agg_"+m)
	}
	for _, h := range t.hists {
		aggs = append(aggs, fmt.Sprintf("sumMap(%s_buckets, %s_counts) AS agg_%s_hist", h.name, h.name, h.name))
	}
	for _, m := range t.measureNames() {
		switch {
		case strings.HasSuffix(m, "_buckets"):
			out = append(out, "agg_"+strings.TrimSuffix(m, "_buckets")+"_hist.1")
		case strings.HasSuffix(m, "_counts"):
			out = append(out, "agg_"+strings.TrimSuffix(m, "_counts")+"_hist.2")
		default:
			out = append(out, "agg_"+m)
		}
	}
	cells := "SELECT service_name, toStartOfHour(minute) AS cell, " + list(t.dimNames()) + ", " + strings.Join(aggs, ", ") +
		", max(bitShiftRight(version, 20)) AS newest, sum(minute_rows) AS versioned FROM (" + t.minutes(db) +
		") GROUP BY service_name, cell, " + list(t.dimNames())
	versioned := "SELECT *, max(newest) OVER (PARTITION BY cell) AS cell_newest, sum(versioned) OVER (PARTITION BY cell) AS cell_rows FROM (" + cells + ")"
	return "INSERT INTO " + db + "." + t.name + "_1h_base (service_name, minute, " + list(t.dimNames()) + ", " + list(t.measureNames()) +
		", version) SELECT service_name, cell, " + list(t.dimNames()) + ", " + strings.Join(out, ", ") +
		fmt.Sprintf(", toUInt64(cell_newest * %d + least(cell_rows, %d))", 1<<countBits, 1<<countBits-1) +
		" FROM (" + versioned + ") WHERE agg_n > 0" + finalSettings
}

func (t table) zero1h(db string) string {
	dims := append([]string{"minute"}, t.dimNames()...)
	fresh := "SELECT toStartOfHour(minute) AS cell, " + list(t.dimNames()) + " FROM " + db + "." + t.name +
		"_1m_base FINAL WHERE n > 0 AND " + hourFilter
	return t.zero(db, "_1h_base", dims, "toUnixTimestamp(minute) IN @hours AND minute >= toDateTime(@lo, 'UTC') AND minute < toDateTime(@hi, 'UTC')", fresh)
}

// dirtyHours lists the hours whose minutes were written after @since. Hours that
// began before @oldest have lost minutes to the retention and stay as they are.
func (t table) dirtyHours(db string) string {
	return "SELECT service_name, toInt64(toUnixTimestamp(toStartOfHour(minute))) AS cell, max(stored_at), count() FROM " + db + "." + t.name +
		"_1m_base WHERE stored_at > fromUnixTimestamp64Milli(toInt64(@since)) AND minute >= toDateTime(@oldest, 'UTC') GROUP BY service_name, cell ORDER BY service_name, cell"
}

// dirty lists the pairs that got rows after @since.
func (t table) dirty(db string) string {
	return "SELECT service_name, toInt64(toUnixTimestamp(toStartOfMinute(ended_at))) AS cell, max(stored_at), count() FROM " +
		db + "." + t.base + " WHERE stored_at > fromUnixTimestamp64Milli(toInt64(@since)) GROUP BY service_name, cell ORDER BY service_name, cell"
}
