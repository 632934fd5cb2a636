package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/rollup"
	"driftline/internal/engine"
	"driftline/schema"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == engineCommand {
		os.Exit(engine.Main(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// rollups dumps all rollup rows with their versions, by table.
func rollups(t *testing.T, d *db, database string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, table := range schema.Tables() {
		if !strings.HasPrefix(table.Name, "rollup_") {
			continue
		}
		rows, err := d.conn.Query(context.Background(), fmt.Sprintf("SELECT toString(tuple(%s)) FROM %s.%s FINAL", columnNames(table, "stored_at"), database, table.Name))
		require.NoError(t, err)
		for rows.Next() {
			var line string
			require.NoError(t, rows.Scan(&line))
			out[table.Name] = append(out[table.Name], line)
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
		slices.Sort(out[table.Name])
	}
	return out
}

// The benchmark copies a day's rollups to the days before. They are what the job itself
// makes of the copied base rows, versions and all.
func TestCopiedRollupsAreTheJobs(t *testing.T) {
	ctx := context.Background()
	d := &db{dir: t.TempDir()}
	require.NoError(t, d.startLarge(ctx))
	defer d.stop()
	s := shape{step: 12 * time.Hour, seed: 7, to: time.Now().UTC().Truncate(time.Hour), days: 3, attempts: 6000, slices: 40}
	require.NoError(t, d.build(ctx, s, large, t.Logf))
	n, err := d.number(ctx, "SELECT count() FROM "+large+".attempts")
	require.NoError(t, err)
	require.InEpsilon(t, s.attempts, n, 0.1)
	copied := rollups(t, d, large)
	for table := range copied {
		require.NotEmpty(t, copied[table], table)
		require.NoError(t, d.exec(ctx, "TRUNCATE TABLE "+large+"."+table))
	}
	job, err := rollup.New(d.conn, rollup.Config{Database: large})
	require.NoError(t, err)
	_, err = job.Rebuild(ctx, s.to)
	require.NoError(t, err)
	made := rollups(t, d, large)
	for table := range copied {
		require.Equal(t, made[table], copied[table], table)
	}

	require.NoError(t, d.cut(ctx, s, large, small, 2))
	same := "SELECT groupBitXor(cityHash64(trace_id, operation_id, revision)) FROM %s.operations WHERE ended_at >= toDateTime(%d)"
	l, err := d.number(ctx, fmt.Sprintf(same, large, s.from().Unix()))
	require.NoError(t, err)
	k, err := d.number(ctx, fmt.Sprintf(same, small, s.from().Unix()))
	require.NoError(t, err)
	require.Equal(t, l, k, "both datasets hold the same last day")
}
