package rollup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/detector/stats"
)

// lines renders a query's one column, sorted.
func lines(t *testing.T, conn driver.Conn, query string) []string {
	t.Helper()
	rs, err := conn.Query(context.Background(), query)
	require.NoError(t, err, query)
	defer rs.Close()
	out := []string{}
	for rs.Next() {
		var line string
		require.NoError(t, rs.Scan(&line))
		out = append(out, line)
	}
	require.NoError(t, rs.Err())
	slices.Sort(out)
	return out
}

// content is all that a rollup's readers see of it.
func content(t *testing.T, conn driver.Conn, db string, l level) []string {
	columns := strings.TrimSuffix(l.columns(), ", version")
	return lines(t, conn, fmt.Sprintf("SELECT toString(tuple(%s)) FROM %s.%s", columns, db, strings.TrimSuffix(l.target, "_base")))
}

// stored is all of a rollup, with versions and zeros, but when it was written.
func stored(t *testing.T, conn driver.Conn, db string) map[string][]string {
	out := map[string][]string{}
	for _, l := range levels(db) {
		out[l.target] = lines(t, conn, fmt.Sprintf("SELECT toString(tuple(%s)) FROM %s.%s FINAL", l.columns(), db, l.target))
	}
	return out
}

// plain is what a rollup must hold, by one simple query: minutes from the view of the base
// rows, coarser tiers from their source's view. It folds nothing.
func plain(t *testing.T, conn driver.Conn, db string, l level) []string {
	from, where := strings.TrimSuffix(strings.TrimSuffix(l.from, " FINAL"), "_base"), ""
	if strings.HasPrefix(l.from, "(") {
		for _, tr := range tiers() {
			if tr.name+"_base" == l.target {
				from = db + "." + tr.source
			}
		}
	}
	// The views have no tombstones, and so no column for them.
	live := strings.NewReplacer("NOT deleted AND ", "", "NOT deleted", "true")
	with := ""
	if len(l.with) > 0 {
		with = "WITH " + live.Replace(strings.Join(l.with, ", ")) + " "
	}
	exprs := []string{"service_name", l.cell}
	for _, d := range l.dims {
		exprs = append(exprs, "any("+d.expr+")")
	}
	for _, a := range l.aggs {
		e := live.Replace(a.expr)
		if a.hist {
			// As a map of sums, which is what the job's arithmetic comes to.
			e = fmt.Sprintf("sumMap(%s_buckets, %s_counts)", a.name, a.name)
			if len(l.with) > 0 {
				for _, tb := range tables {
					for _, h := range tb.hists {
						if tb.name+"_1m_base" == l.target && h.name == a.name {
							e = fmt.Sprintf("sumMapIf([%s], [toUInt64(1)], known_%s)", stats.SQLBucketExpr("assumeNotNull("+h.expr+") / 1e6"), h.name)
						}
					}
				}
			}
			exprs = append(exprs, e+".1", e+".2")
		} else {
			exprs = append(exprs, e)
		}
	}
	groups := []string{"service_name", l.cell}
	for _, d := range l.dims {
		groups = append(groups, d.expr)
	}
	return lines(t, conn, fmt.Sprintf("%sSELECT toString(tuple(%s)) FROM %s%s GROUP BY %s", with, strings.Join(exprs, ", "), from, where, strings.Join(groups, ", ")))
}

func job(t *testing.T, conn driver.Conn, cfg Config) *Job {
	t.Helper()
	cfg.HourEvery = time.Nanosecond
	j, err := New(conn, cfg)
	require.NoError(t, err)
	return j
}

// Revisions that move rows from cell to cell, tombstones and duplicates, in any order, end
// in what one look at the base rows gives, in every table.
func TestEveryRollupFollowsItsBaseRows(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	now := time.Now().UTC()
	g := dettest.NewTraffic(t, now.Truncate(24*time.Hour).Add(-25*time.Hour), 3) // over midnight
	j := job(t, conn, Config{Database: db})
	for _, batch := range g.Mess(150, 3) {
		require.NoError(t, dettest.Insert(ctx, conn, db, now, batch...))
		now = now.Add(time.Second) // the coarser tiers run once an instant
		_, err := j.Run(ctx, now)
		require.NoError(t, err)
	}
	for _, l := range levels(db) {
		want := plain(t, conn, db, l)
		require.NotEmpty(t, want, l.target)
		require.Equal(t, want, content(t, conn, db, l), l.target)
	}

	// Another replica writes the same rows, with the same versions.
	first := stored(t, conn, db)
	_, err := job(t, conn, Config{Database: db}).Rebuild(ctx, now)
	require.NoError(t, err)
	require.Equal(t, first, stored(t, conn, db))

	// One that has nothing, and sees only the end, does so too, but for what it never had to
	// take back.
	seen := map[string][]string{}
	for _, l := range levels(db) {
		seen[l.target] = content(t, conn, db, l)
		require.NoError(t, conn.Exec(ctx, "TRUNCATE TABLE "+db+"."+l.target))
	}
	_, err = job(t, conn, Config{Database: db}).Rebuild(ctx, now)
	require.NoError(t, err)
	second := stored(t, conn, db)
	for _, l := range levels(db) {
		require.Equal(t, seen[l.target], content(t, conn, db, l), l.target)
		if strings.HasSuffix(l.target, "_1m_base") {
			require.Subset(t, first[l.target], second[l.target], l.target)
		}
	}
}
