package rollup

import (
	"fmt"
	"slices"
	"strings"

	"driftline/detector/stats"
)

// The statements below name tables and columns from this package alone; every value is a
// bound parameter. @services and @cells are the work: for each service the starts of its
// cells in Unix seconds; @lo and @hi bound them, which lets ClickHouse skip partitions.

const finalSettings = " SETTINGS do_not_merge_across_partitions_select_final = 1"

// given names the work once, since a statement needs it in several places and a parameter
// stands as text in each.
const given = "WITH arrayZip(@services, @cells) AS given_work "

// cellsOf is the work as rows.
const cellsOf = "SELECT tupleElement(work, 1), toDateTime(arrayJoin(tupleElement(work, 2)), 'UTC') FROM (SELECT arrayJoin(given_work) AS work)"

// minuteFilter bounds a read of a base table to dirty minutes. Both its parts name the
// table's sort key as it stands, so that only their granules are read.
const minuteFilter = "ended_at >= toDateTime(@lo, 'UTC') AND ended_at < toDateTime(@hi, 'UTC') AND (service_name, toStartOfMinute(ended_at)) IN (" + cellsOf + ")"

// agg is one aggregate of a cell: how it is made from source rows and how several cells
// of it become one.
type agg struct {
	name, expr string
	// of is what a source row adds to a sum, if it counts at all: see [level.counted].
	of   string
	hist bool
}

// level is one step of aggregation: rows of a source to cells of a table.
type level struct {
	// target is the table written, without database; from is what is read, with it, and
	// without FINAL when it is a sub-query.
	target, from, filter string
	// cell is the time of a source row's cell.
	cell string
	// with are names that expressions use, as "expression AS name".
	with []string
	dims []column
	aggs []agg
	// pack makes a packed number of x, an element of a hist's array; empty where it is one.
	pack string
	// counted is which source rows the sums are of; empty means all.
	counted string
	// newest and rows are aggregates over the source rows of a group, of which versions are
	// made: the newest stored_at in seconds, and the base rows and their revisions.
	newest, rows string
	// keep is how many different values of the dims in fold a service's cell may have.
	keep int
	fold []string
}

// minuteLevel aggregates base rows to minutes.
func (t table) minuteLevel(db string) level {
	with := []string{"NOT deleted AND NOT late_fragment AS whole_row"}
	aggs := []agg{{name: "n", expr: "countIf(NOT deleted)"}}
	if t.late {
		aggs = append(aggs, agg{name: "late_fragments", expr: "countIf(NOT deleted AND late_fragment)"})
	}
	if t.overflow {
		aggs = append(aggs, agg{name: "overflow", expr: "0"})
	}
	for _, s := range t.sums {
		aggs = append(aggs, agg{name: s.name, expr: fmt.Sprintf("sumIf(%s, whole_row)", s.expr), of: s.expr})
	}
	for _, h := range t.hists {
		known := "known_" + h.name
		with = append(with, fmt.Sprintf("whole_row AND ifNull(%s >= 0, false) AS %s", h.expr, known))
		aggs = append(aggs,
			agg{name: h.name + "_n", expr: "countIf(" + known + ")", of: known},
			agg{name: h.name + "_sum_ns", expr: fmt.Sprintf("sumIf(assumeNotNull(%s), %s)", h.expr, known), of: fmt.Sprintf("if(%s, assumeNotNull(%s), 0)", known, h.expr)},
			agg{name: h.name, expr: fmt.Sprintf("groupArrayIf(toUInt64(assumeNotNull(%s)), %s)", h.expr, known), hist: true})
	}
	return level{
		target: t.name + "_1m_base", from: db + "." + t.base + " FINAL", filter: minuteFilter, cell: "toStartOfMinute(ended_at)", with: with,
		dims: t.dims, aggs: aggs, newest: "toUnixTimestamp(max(stored_at))", rows: minuteRows, counted: "whole_row", pack: packed(stats.SQLBucketExpr("x / 1e6"), "1"),
		keep: t.keep, fold: t.fold,
	}
}

// tierLevel aggregates a finer tier's cells.
func (t tier) level(db string) level {
	return t.levelFrom(db+"."+t.source+"_base FINAL", "minute >= toDateTime(@lo, 'UTC') AND minute < toDateTime(@hi, 'UTC') AND (service_name, "+t.cell()+") IN ("+cellsOf+")")
}

// levelFrom is the same from any rows like those of the source.
func (t tier) levelFrom(from, filter string) level {
	aggs := []agg{}
	for _, m := range t.scalars {
		aggs = append(aggs, agg{name: m, expr: "sum(" + m + ")", of: m})
	}
	for _, h := range t.hists {
		aggs = append(aggs, agg{name: h, expr: fmt.Sprintf("groupArrayArray(arrayMap((b, c) -> %s, %s_buckets, %s_counts))", packed("b", "c"), h, h), hist: true})
	}
	// Every cell of one source time carries the version of all its base rows, which must be
	// counted once; that of emptied cells counts too.
	per := "if(row_number() OVER (PARTITION BY service_name, minute ORDER BY version DESC) = 1, " + rowsOfVersion + ", 0) AS source_rows"
	rows := "SELECT *, " + per + " FROM " + from
	if filter != "" {
		rows += " WHERE " + filter
	}
	return level{
		target: t.name + "_base", from: "(" + rows + ")", cell: t.cell(), dims: t.dims, aggs: aggs,
		newest: "max(" + newestOfVersion + ")", rows: "sum(source_rows)",
		keep: t.keep, fold: t.fold,
	}
}

// While a histogram is put together it is an array of numbers, each a bucket above its
// count, which takes a tenth of the time of sums in maps. All histograms of a cell are one
// array of such arrays, so that what is done to each is planned once. bucketShift leaves a count 40 bits;
// with bucketOffset no bucket is 0.
const (
	bucketShift  = 40
	bucketOffset = 32769
)

func packed(bucket, count string) string {
	return fmt.Sprintf("bitOr(bitShiftLeft(toUInt64(toInt64(%s) + %d), %d), toUInt64(%s))", bucket, bucketOffset, bucketShift, count)
}

// ends is the flags of a sorted array of packed numbers that are set where a bucket ends.
func ends(array string) string {
	return fmt.Sprintf("arrayMap((x, y) -> bitShiftRight(x, %d) != bitShiftRight(y, %d), %s, arrayShiftLeft(%s, 1, toUInt64(0)))", bucketShift, bucketShift, array, array)
}

// unpacked is the two columns of such an array and its ends: the buckets, and by how much
// the sum of counts has grown at the end of each.
func unpacked(array, ends string) (buckets, counts string) {
	buckets = fmt.Sprintf("arrayMap(x -> toInt16(toInt64(bitShiftRight(x, %d)) - %d), arrayFilter((x, e) -> e, %s, %s))", bucketShift, bucketOffset, array, ends)
	sums := fmt.Sprintf("arrayFilter((s, e) -> e, arrayCumSum(arrayMap(x -> bitAnd(x, %d), %s)), %s)", 1<<bucketShift-1, array, ends)
	return buckets, fmt.Sprintf("arrayPopFront(arrayDifference(arrayPushFront(%s, toUInt64(0))))", sums)
}

func (l level) where() string {
	if l.filter == "" {
		return ""
	}
	return " WHERE " + l.filter
}

// versions gives each cell's version before anything is written. Tombstones and emptied
// cells count for it, and for nothing else.
func (l level) versions() string {
	return given + "SELECT service_name, toInt64(toUnixTimestamp(" + l.cell + ")) AS cell, " + version(l.newest, l.rows) + " FROM " + l.from + l.where() +
		" GROUP BY service_name, cell ORDER BY service_name, cell" + finalSettings
}

// prefixed renders names with "dim_" before each: a dimension must not be taken for the
// source's column of that name, which it may be made from.
func prefixed(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = "dim_" + n
	}
	return strings.Join(out, ", ")
}

func (l level) dimNames() []string {
	out := make([]string, len(l.dims))
	for i, d := range l.dims {
		out[i] = d.name
	}
	return out
}

// cells is the sub-query of the cells as they must be, with what their versions are made
// of. Both come from one read, so they always belong together. The sums are one array all
// the way, counts first, since the server's planning of a statement grows with columns times sub-queries.
func (l level) cells() string {
	dims := l.dimNames()
	inner := []string{"service_name", l.cell + " AS cell"}
	for _, d := range l.dims {
		inner = append(inner, d.expr+" AS dim_"+d.name)
	}
	var plain, sums, hists []string
	over := 0
	for _, a := range l.aggs {
		if a.hist {
			hists = append(hists, a.expr)
			continue
		}
		if a.of != "" {
			sums = append(sums, "toInt64("+a.of+")")
		} else {
			plain = append(plain, "toInt64("+a.expr+")")
		}
		if a.name == "overflow" {
			over = len(plain) + len(sums)
		}
	}
	if len(hists) > 0 {
		inner = append(inner, "["+strings.Join(hists, ", ")+"] AS hists")
	}
	each := l.sumEach(sums)
	if len(plain) > 0 {
		each = "arrayConcat([" + strings.Join(plain, ", ") + "], " + each + ")"
	}
	inner = append(inner, each+" AS sums", l.newest+" AS newest", l.rows+" AS versioned")
	with := ""
	if len(l.with) > 0 {
		with = "WITH " + strings.Join(l.with, ", ") + " "
	}
	groups := "service_name, cell, " + prefixed(dims)
	sql := with + "SELECT " + strings.Join(inner, ", ") + " FROM " + l.from + l.where() + " GROUP BY " + groups
	// The busiest values stay, of equally busy ones the first by name: base rows alone
	// decide, so every replica folds the same.
	fold := prefixed(l.fold)
	sql = "SELECT *, max(newest) OVER (PARTITION BY service_name, cell) AS cell_newest, sum(versioned) OVER (PARTITION BY service_name, cell) AS cell_rows, " +
		"sum(sums[1]) OVER (PARTITION BY service_name, cell, " + fold + ") AS fold_n FROM (" + sql + ")"
	sql = fmt.Sprintf("SELECT *, dense_rank() OVER (PARTITION BY service_name, cell ORDER BY fold_n DESC, %s) > %d AS folded FROM (%s)", fold, l.keep, sql)
	outer := []string{"service_name", "cell"}
	for _, d := range dims {
		if slices.Contains(l.fold, d) {
			outer = append(outer, fmt.Sprintf("if(r.folded, '%s', toString(r.dim_%s)) AS dim_%s", Other, d, d))
		} else {
			outer = append(outer, "r.dim_"+d+" AS dim_"+d)
		}
	}
	outer = append(outer, "sumForEach(r.sums) AS cell_sums")
	if over > 0 {
		outer = append(outer, fmt.Sprintf("sum(if(r.folded, r.sums[1], r.sums[%d])) AS cell_overflow", over))
	}
	if len(hists) > 0 {
		h := "h"
		if l.pack != "" {
			h = "arrayMap(x -> " + l.pack + ", h)"
		}
		buckets, counts := unpacked("h", "e")
		outer = append(outer, "arrayMap(h -> arraySort("+h+"), groupArrayArrayForEach(r.hists)) AS cell_hists", "arrayMap(h -> "+ends("h")+", cell_hists) AS cell_ends",
			"arrayMap((h, e) -> "+buckets+", cell_hists, cell_ends) AS cell_buckets", "arrayMap((h, e) -> "+counts+", cell_hists, cell_ends) AS cell_counts")
	}
	outer = append(outer, "any(r.cell_newest) AS cell_newest", "any(r.cell_rows) AS cell_rows")
	return "SELECT " + strings.Join(outer, ", ") + " FROM (" + sql + ") AS r GROUP BY " + groups
}

// sumEach is the array of the sums of several expressions, as one aggregate function.
func (l level) sumEach(of []string) string {
	array := "[" + strings.Join(of, ", ") + "]"
	if l.counted == "" {
		return "sumForEach(" + array + ")"
	}
	return "sumForEachIf(" + array + ", " + l.counted + ")"
}

// columns lists the target's columns as select fills them.
func (l level) columns() string {
	out := append([]string{"service_name", "minute"}, l.dimNames()...)
	for _, a := range l.aggs {
		if a.hist {
			out = append(out, a.name+"_buckets", a.name+"_counts")
		} else {
			out = append(out, a.name)
		}
	}
	return list(append(out, "version"))
}

// selected is the query of the cells that have rows, with the target's columns by name.
func (l level) selected() string {
	out := []string{"service_name", "cell AS minute"}
	for _, d := range l.dims {
		out = append(out, "dim_"+d.name+" AS "+d.name)
	}
	at, hist := 0, 0
	for _, a := range l.aggs {
		switch {
		case a.hist:
			hist++
			out = append(out, fmt.Sprintf("cell_buckets[%d] AS %s_buckets, cell_counts[%d] AS %s_counts", hist, a.name, hist, a.name))
			continue
		case a.name == "overflow":
			out = append(out, "cell_overflow AS overflow")
		default:
			out = append(out, fmt.Sprintf("cell_sums[%d] AS %s", at+1, a.name))
		}
		at++
	}
	return "SELECT " + list(append(out, version("cell_newest", "cell_rows")+" AS version")) + " FROM (" + l.cells() + ") WHERE cell_sums[1] > 0"
}

// insert writes the cells that have rows.
func (l level) insert(db string) string {
	return "INSERT INTO " + db + "." + l.target + " (" + l.columns() + ") " + given + l.selected() + finalSettings
}

// zero writes n = 0 over cells that the source no longer has. Insert wrote every cell that
// there is with a version not below the one that was asked for before it, so what is below
// is gone; and a cell that a newer run wrote is not below. @versions has, for each service,
// the versions of @cells.
func (l level) zero(db string) string {
	dims := list(append([]string{"service_name", "minute"}, l.dimNames()...))
	have := "SELECT " + dims + ", version FROM " + db + "." + l.target + " FINAL WHERE n > 0 AND minute >= toDateTime(@lo, 'UTC') AND minute < toDateTime(@hi, 'UTC') AND (service_name, minute) IN (" + cellsOf + ")"
	versions := "SELECT tupleElement(work, 1) AS service_name, toDateTime(tupleElement(cell, 1), 'UTC') AS minute, toUInt64(tupleElement(cell, 2)) AS new_version FROM " +
		"(SELECT arrayJoin(arrayZip(given_work, @versions)) AS both, tupleElement(both, 1) AS work, arrayJoin(arrayZip(tupleElement(work, 2), tupleElement(both, 2))) AS cell)"
	return "INSERT INTO " + db + "." + l.target + " (" + dims + ", version) " + given + "SELECT " + dims + ", new_version FROM (" + have + ") AS have INNER JOIN (" + versions +
		") AS versions USING (service_name, minute) WHERE version < new_version" + finalSettings
}

// marks is what tells a cell's new rows from those of the last run. Neither the newest nor the
// count does so alone: after the clock went back a new row is not the newest, and a merge may
// meanwhile have dropped an old one.
const marks = "max(stored_at), count(), sum(toUnixTimestamp64Milli(stored_at))"

// partSlack is how much older than @since a part must be, in seconds, to be left alone.
const partSlack = 600

// youngParts leaves out the parts that were written before @since, which hold nothing new: to
// look for new rows in the indexes of all parts would cost the more the more days are kept.
// A part is written after its rows got their stored_at, from the same clock, and its name is
// never used again. That old parts are left out, and not that young ones are named, makes it
// no matter when the two lists are taken: a part that came or was merged meanwhile is read. A
// table whose rows lie under another name is read whole.
func youngParts(db, table string) string {
	return fmt.Sprintf(" AND _part NOT IN (SELECT name FROM system.parts WHERE database = '%s' AND table IN ('%s', '%s_local') AND "+
		"toInt64(toUnixTimestamp(modification_time)) < least(intDiv(toInt64(@since), 1000), toInt64(toUnixTimestamp(now()))) - %d)", db, table, table, partSlack)
}

// canPrune asks for what youngParts reads; an error says that it may not be read.
const canPrune = "SELECT count() FROM system.parts WHERE database = ''"

// dirty lists the (service, minute) pairs of a base table that got rows after @since. Days
// before @oldest are not even looked into.
func dirty(db, base, parts string) string {
	return "SELECT service_name, toInt64(toUnixTimestamp(toStartOfMinute(ended_at))) AS cell, " + marks + " FROM " + db + "." + base +
		" WHERE stored_at > fromUnixTimestamp64Milli(toInt64(@since)) AND ended_at >= toDateTime(@oldest, 'UTC')" + parts + " GROUP BY service_name, cell ORDER BY service_name, cell"
}

// tooOld counts the pairs before @oldest that got rows after @since.
func tooOld(db, base, parts string) string {
	return "SELECT uniqExact(service_name, toStartOfMinute(ended_at)), max(stored_at) FROM " + db + "." + base +
		" WHERE stored_at > fromUnixTimestamp64Milli(toInt64(@since)) AND ended_at < toDateTime(@oldest, 'UTC')" + parts
}

// dirty lists the tier's cells whose source was written after @since. Cells that began
// before @oldest have lost source rows to the retention and stay as they are.
func (t tier) dirty(db, parts string) string {
	return "SELECT service_name, toInt64(toUnixTimestamp(" + t.cell() + ")) AS at, " + marks + " FROM " + db + "." + t.source +
		"_base WHERE stored_at > fromUnixTimestamp64Milli(toInt64(@since)) AND minute >= toDateTime(@oldest, 'UTC')" + parts + " GROUP BY service_name, at ORDER BY service_name, at"
}
