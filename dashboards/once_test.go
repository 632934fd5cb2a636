package dashboards

import (
	"context"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/detector/rollup"
	driftrows "driftline/internal/rows"
)

// tableRead finds driftline's tables, which the test puts their database before.
var tableRead = regexp.MustCompile(`FROM (\w+)`)

func answer(t *testing.T, conn driver.Conn, db, sql string) []string {
	t.Helper()
	sql = tableRead.ReplaceAllString(sql, "FROM "+db+".$1")
	rows, err := conn.Query(context.Background(), "SELECT toString(tuple(*)) FROM ("+sql+")")
	require.NoError(t, err, sql)
	defer rows.Close()
	out := []string{}
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		out = append(out, line)
	}
	require.NoError(t, rows.Err())
	slices.Sort(out)
	return out
}

// Batches that come twice, revisions in any order, rows that move from slice to slice and
// tombstones change no panel: it shows each key's last revision alone, in every tier.
func TestEveryPanelCountsOncePerKey(t *testing.T) {
	ctx := context.Background()
	now := time.Now().UTC()
	g := dettest.NewTraffic(t, now.Add(-4*time.Hour), 2)
	messy, messyDB := dettest.DB(t)
	job, err := rollup.New(messy, rollup.Config{Database: messyDB, HourEvery: time.Nanosecond})
	require.NoError(t, err)
	for i, batch := range g.Mess(240, 3) {
		require.NoError(t, dettest.Insert(ctx, messy, messyDB, now, batch...))
		_, err = job.Run(ctx, now.Add(time.Duration(i)*time.Second))
		require.NoError(t, err)
	}
	clean, cleanDB := dettest.DB(t)
	require.NoError(t, dettest.Insert(ctx, clean, cleanDB, now, g.Latest()...))
	job, err = rollup.New(clean, rollup.Config{Database: cleanDB})
	require.NoError(t, err)
	_, err = job.Run(ctx, now)
	require.NoError(t, err)
	shown := 0
	for i, span := range spans {
		if i == 2 {
			continue // hours, of which days are sums
		}
		for _, q := range queries(t) {
			sql, err := Expand(q.SQL, View{From: now.Add(-span), To: now, Services: []string{"shop"}, Agents: []string{"agent0", "agent1"}})
			require.NoError(t, err)
			want := answer(t, clean, cleanDB, sql)
			require.Equal(t, want, answer(t, messy, messyDB, sql), "%s over %v", q.Name, span)
			if len(want) > 0 && i == 0 {
				shown++
			}
		}
	}
	require.Greater(t, shown, 20, "most panels show something")
}

// C49: a repeated insert must not count twice in what is aggregated either.
func TestC49RepeatedInsertCountsOnce(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	now := time.Now().UTC()
	g := dettest.NewTraffic(t, now.Add(-4*time.Hour), 1)
	var batch []driftrows.Row
	for id := range 300 { // a hundred of each table
		row := g.Row(id)
		row.Head().Deleted = false
		batch = append(batch, row)
	}
	job, err := rollup.New(conn, rollup.Config{Database: db, HourEvery: time.Nanosecond})
	require.NoError(t, err)
	for i := range 2 {
		require.NoError(t, dettest.Insert(ctx, conn, db, now, batch...))
		_, err = job.Run(ctx, now.Add(time.Duration(i)*time.Second))
		require.NoError(t, err)
	}
	for _, table := range []string{"operations", "requests", "attempts"} {
		want := []string{"(100)"}
		require.Equal(t, want, answer(t, conn, db, "SELECT count() FROM "+table), table)
		for _, tier := range []string{"1m", "1h"} {
			require.Equal(t, want, answer(t, conn, db, "SELECT sum(n) FROM rollup_"+table+"_"+tier), "%s %s", table, tier)
		}
	}
	for _, rollup := range []string{"endpoints_1m", "inputs_1h", "versions_1m", "retries_10m", "retries_1d", "targets_1h"} {
		require.Equal(t, []string{"(100)"}, answer(t, conn, db, "SELECT sum(n) FROM rollup_"+rollup), rollup)
	}
}
