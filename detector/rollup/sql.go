package rollup

import (
	"fmt"
	"strings"

	"driftline/detector/stats"
)

// The statements below name tables and columns from this package alone; every value is a
// bound parameter. @services and @cells are the work: for each service the starts of its
// cells in Unix seconds; @lo and @hi bound them, which lets ClickHouse skip partitions.

const finalSettings = " SETTINGS do_not_merge_across_partitions_select_final = 1"

// countBits is how many low bits of a version add up the rows aggregated and their
// revisions; the high bits are the newest stored_at in milliseconds. Whatever changes a cell
// makes the one or the other greater, so two versions are equal only if the rows are.
const countBits = 20

const countMask = 1<<countBits - 1

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
	hist       bool
}

// level is one step of aggregation: rows of a source to cells of a table.
type level struct {
	// target is the table written, without database; from is what is read, with it, and
	// without FINAL when it is a sub-query.
	target, from, filter string
	// cell is the time of a source row's cell.
	cell string
	dims []column
	aggs []agg
	// newest and rows are aggregates over the source rows of a group, of which versions are
	// made: the newest stored_at in milliseconds, and the base rows and their revisions.
	newest, rows string
	// keep is how many different values of the dims in fold a service's cell may have: 0 is
	// any number. overflow says that the table counts what was folded.
	keep     int
	fold     []string
	overflow bool
}

// minuteLevel aggregates base rows to minutes.
func (t table) minuteLevel(db string) level {
	const live, whole = "NOT deleted", "NOT deleted AND NOT late_fragment"
	aggs := []agg{{name: "n", expr: "countIf(" + live + ")"}}
	if t.late {
		aggs = append(aggs, agg{name: "late_fragments", expr: "countIf(" + live + " AND late_fragment)"})
	}
	if t.overflow {
		aggs = append(aggs, agg{name: "overflow", expr: "toUInt64(0)"})
	}
	for _, s := range t.sums {
		aggs = append(aggs, agg{name: s.name, expr: fmt.Sprintf("sumIf(%s, %s)", s.expr, whole)})
	}
	for _, h := range t.hists {
		known := fmt.Sprintf("(%s AND ifNull((%s) >= 0, false))", whole, h.expr)
		ms := "ifNull((" + h.expr + ") / 1e6, 0)"
		aggs = append(aggs,
			agg{name: h.name + "_n", expr: fmt.Sprintf("countIf(%s)", known)},
			agg{name: h.name + "_sum_ns", expr: fmt.Sprintf("sumIf(ifNull(%s, 0), %s)", h.expr, known)},
			agg{name: h.name, expr: fmt.Sprintf("sumMapIf([%s], [toUInt64(1)], %s)", stats.SQLBucketExpr(ms), known), hist: true})
	}
	return level{
		target: t.name + "_1m_base", from: db + "." + t.base + " FINAL", filter: minuteFilter, cell: "toStartOfMinute(ended_at)",
		dims: t.dims, aggs: aggs, newest: "toUnixTimestamp64Milli(max(stored_at))", rows: "sum(revision + 1)",
		keep: t.keep, fold: t.fold, overflow: t.overflow,
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
		aggs = append(aggs, agg{name: m, expr: "sum(" + m + ")"})
	}
	for _, h := range t.hists {
		aggs = append(aggs, agg{name: h, expr: fmt.Sprintf("sumMap(%s_buckets, %s_counts)", h, h), hist: true})
	}
	// Every cell of one source time carries the version of all its base rows, which must be
	// counted once; that of emptied cells counts too.
	per := "if(row_number() OVER (PARTITION BY service_name, minute ORDER BY version DESC) = 1, bitAnd(version, " + fmt.Sprint(countMask) + "), 0) AS source_rows"
	rows := "SELECT *, " + per + " FROM " + from
	if filter != "" {
		rows += " WHERE " + filter
	}
	return level{
		target: t.name + "_base", from: "(" + rows + ")", cell: t.cell(), dims: t.dims, aggs: aggs,
		newest: fmt.Sprintf("max(bitShiftRight(version, %d))", countBits), rows: "sum(source_rows)",
		keep: t.keep, fold: t.fold, overflow: t.overflow,
	}
}

func (l level) where() string {
	if l.filter == "" {
		return ""
	}
	return " WHERE " + l.filter
}

func version(newest, rows string) string {
	return fmt.Sprintf("toUInt64(toUInt64(%s) * %d + least(toUInt64(%s), %d))", newest, 1<<countBits, rows, countMask)
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
// of. Both come from one read, so they always belong together.
func (l level) cells() string {
	dims := l.dimNames()
	inner := []string{"service_name", l.cell + " AS cell"}
	for _, d := range l.dims {
		inner = append(inner, d.expr+" AS dim_"+d.name)
	}
	for _, a := range l.aggs {
		inner = append(inner, a.expr+" AS agg_"+a.name)
	}
	inner = append(inner, l.newest+" AS newest", l.rows+" AS versioned")
	groups := "service_name, cell, " + prefixed(dims)
	sql := "SELECT " + strings.Join(inner, ", ") + " FROM " + l.from + l.where() + " GROUP BY " + groups
	window := []string{"*", "max(newest) OVER (PARTITION BY service_name, cell) AS cell_newest", "sum(versioned) OVER (PARTITION BY service_name, cell) AS cell_rows"}
	if l.keep == 0 {
		return "SELECT " + strings.Join(window, ", ") + " FROM (" + sql + ")"
	}
	// The busiest values stay, of equally busy ones the first by name: base rows alone
	// decide, so every replica folds the same.
	fold := prefixed(l.fold)
	window = append(window, "sum(agg_n) OVER (PARTITION BY service_name, cell, "+fold+") AS fold_n")
	sql = "SELECT " + strings.Join(window, ", ") + " FROM (" + sql + ")"
	sql = fmt.Sprintf("SELECT *, dense_rank() OVER (PARTITION BY service_name, cell ORDER BY fold_n DESC, %s) > %d AS folded FROM (%s)", fold, l.keep, sql)
	folded := map[string]bool{}
	for _, f := range l.fold {
		folded[f] = true
	}
	outer := []string{"service_name", "cell"}
	for _, d := range dims {
		if folded[d] {
			outer = append(outer, fmt.Sprintf("if(r.folded, '%s', toString(r.dim_%s)) AS dim_%s", Other, d, d))
		} else {
			outer = append(outer, "r.dim_"+d+" AS dim_"+d)
		}
	}
	for _, a := range l.aggs {
		switch {
		case a.name == "overflow":
			outer = append(outer, "sum(if(r.folded, r.agg_n, r.agg_overflow)) AS agg_overflow")
		case a.hist:
			outer = append(outer, fmt.Sprintf("sumMap(r.agg_%s.1, r.agg_%s.2) AS agg_%s", a.name, a.name, a.name))
		default:
			outer = append(outer, "sum(r.agg_"+a.name+") AS agg_"+a.name)
		}
	}
	outer = append(outer, "any(r.cell_newest) AS cell_newest", "any(r.cell_rows) AS cell_rows")
	return "SELECT " + strings.Join(outer, ", ") + " FROM (" + sql + ") AS r GROUP BY " + groups
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
	for _, a := range l.aggs {
		if a.hist {
			out = append(out, fmt.Sprintf("agg_%s.1 AS %s_buckets", a.name, a.name), fmt.Sprintf("agg_%s.2 AS %s_counts", a.name, a.name))
		} else {
			out = append(out, "agg_"+a.name+" AS "+a.name)
		}
	}
	return "SELECT " + list(append(out, version("cell_newest", "cell_rows")+" AS version")) + " FROM (" + l.cells() + ") WHERE agg_n > 0"
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

// dirty lists the (service, minute) pairs of a base table that got rows after @since.
func dirty(db, base string) string {
	return "SELECT service_name, toInt64(toUnixTimestamp(toStartOfMinute(ended_at))) AS cell, max(stored_at), count() FROM " +
		db + "." + base + " WHERE stored_at > fromUnixTimestamp64Milli(toInt64(@since)) GROUP BY service_name, cell ORDER BY service_name, cell"
}

// dirty lists the tier's cells whose source was written after @since. Cells that began
// before @oldest have lost source rows to the retention and stay as they are.
func (t tier) dirty(db string) string {
	return "SELECT service_name, toInt64(toUnixTimestamp(" + t.cell() + ")) AS at, max(stored_at), count() FROM " + db + "." + t.source +
		"_base WHERE stored_at > fromUnixTimestamp64Milli(toInt64(@since)) AND minute >= toDateTime(@oldest, 'UTC') GROUP BY service_name, at ORDER BY service_name, at"
}
