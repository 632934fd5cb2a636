package dashboards

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/stretchr/testify/require"

	"driftline/detector/stats"
	"driftline/internal/engine/enginetest"
	"driftline/schema"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func TestCommittedJSONIsCurrent(t *testing.T) {
	files, err := Files()
	require.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("json", name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "dashboards/json/%s is stale: run go generate ./dashboards", name)
	}
}

func panels(t *testing.T) []dashboard.Panel {
	t.Helper()
	built, err := OnCall()
	require.NoError(t, err)
	var out []dashboard.Panel
	for _, p := range built.Panels {
		if p.Panel != nil {
			out = append(out, *p.Panel)
		}
		if p.RowPanel != nil {
			out = append(out, p.RowPanel.Panels...)
		}
	}
	return out
}

func queries(t *testing.T) []PanelQuery {
	t.Helper()
	out, err := Queries()
	require.NoError(t, err)
	require.Greater(t, len(out), 20)
	return out
}

func TestEveryPanelSaysWhatItShows(t *testing.T) {
	ids := map[uint32]bool{}
	all := panels(t)
	require.Greater(t, len(all), 10)
	for _, p := range all {
		require.NotEmpty(t, *p.Title)
		require.NotEmpty(t, *p.Description, *p.Title)
		require.Equal(t, "${datasource}", *p.Datasource.Uid, *p.Title)
		require.NotEmpty(t, *p.FieldConfig.Defaults.Unit, *p.Title)
		require.NotEmpty(t, p.Targets, *p.Title)
		require.False(t, ids[*p.Id], "panel id %d stands twice", *p.Id)
		ids[*p.Id] = true
	}
}

// expand fills a query in for one service and its agent.
func expand(t *testing.T, sql string, from, to time.Time) string {
	t.Helper()
	text, err := Expand(sql, View{From: from, To: to, Services: []string{"shop"}, Agents: []string{"planner"}})
	require.NoError(t, err)
	return text
}

// spans are ranges of every tier.
var spans = []time.Duration{5 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}

func migrated(t *testing.T) driver.Conn {
	t.Helper()
	e := enginetest.Shared(t)
	db := e.Database(t)
	conn := e.ConnTo(t, db)
	require.NoError(t, schema.Up(context.Background(), conn, schema.Options{Database: db}, slog.New(slog.DiscardHandler)))
	return conn
}

// C55: the plugin's own queries broke when a table changed.
func TestC55EveryQueryRunsOnTheEmptyTables(t *testing.T) {
	conn := migrated(t)
	now := time.Now().UTC()
	for _, span := range spans {
		for _, q := range queries(t) {
			rows, err := conn.Query(context.Background(), expand(t, q.SQL, now.Add(-span), now))
			require.NoError(t, err, "%s:\n%s", q.Name, q.SQL)
			for rows.Next() {
			}
			require.NoError(t, rows.Err(), q.Name)
			require.NoError(t, rows.Close())
		}
	}
}

func TestUnknownMacroIsAnError(t *testing.T) {
	for _, sql := range []string{"SELECT $__unknown(minute)", "SELECT ${other}", "SELECT '$agent'"} {
		_, err := Expand(sql, View{})
		require.Error(t, err, sql)
	}
}

func TestQuantilesEqualTheDetectors(t *testing.T) {
	conn := migrated(t)
	ctx := context.Background()
	now := time.Now().UTC().Truncate(time.Minute)
	// Numbers of values for which a rank is whole, and others.
	for agent, n := range []int{1, 2, 20, 99, 100, 1000, 1003} {
		var all stats.Hist
		for part := range 2 {
			var h stats.Hist
			for i := 1; i <= (n+part)/2; i++ {
				ms := float64(i*(part+1)) * 1.7
				require.True(t, h.Add(ms))
				require.True(t, all.Add(ms))
			}
			require.NoError(t, conn.Exec(ctx, `INSERT INTO rollup_operations_1m_base
			(service_name, minute, agent, kind, target, stream, retries, n, user_time_n, user_time_buckets, user_time_counts, version)
			VALUES (?, ?, ?, 'chat', ?, 'yes', '0', 500, 500, ?, ?, 1)`,
				"shop", now.Add(-5*time.Minute), fmt.Sprint(agent), fmt.Sprintf("model-%d", part), h.Index, h.Count))
		}
		for _, q := range []float64{0.16, 0.5, 0.84, 0.95} {
			sql := "SELECT assumeNotNull(" + quantile("user_time", q) + ") FROM rollup_operations_1m WHERE " + filters
			sql, err := Expand(sql, View{From: now.Add(-time.Hour), To: now, Services: []string{"shop"}, Agents: []string{fmt.Sprint(agent)}})
			require.NoError(t, err)
			var got float64
			require.NoError(t, conn.QueryRow(ctx, sql).Scan(&got))
			want, err := all.Quantile(q)
			require.NoError(t, err)
			require.InEpsilon(t, want, got, 1e-9, "%g of %d", q, n)
		}
	}
	var none *float64
	require.NoError(t, conn.QueryRow(ctx, "SELECT "+quantile("user_time", 0.5)+" FROM rollup_operations_1m WHERE agent = 'none'").Scan(&none))
	require.Nil(t, none, "of nothing there is no quantile")
}

func TestPanelsReadOnlyTheTimeRange(t *testing.T) {
	for _, q := range queries(t) {
		if q.Name == "Alerts firing" {
			continue
		}
		// Each table read has the condition.
		reads := regexp.MustCompile(`FROM (\w+)`).FindAllString(q.SQL, -1)
		bounded := regexp.MustCompile(`FROM \w+\s+WHERE \$__timeFilter\((minute|at|ended_at)\)`).FindAllString(q.SQL, -1)
		require.NotEmpty(t, reads, q.Name)
		require.Len(t, bounded, len(reads), "%s: filter the raw sort-key column of every table", q.Name)
	}
}

func TestJSONIsOneGrafanaReads(t *testing.T) {
	text, err := os.ReadFile("json/oncall.json")
	require.NoError(t, err)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(text, &doc))
	require.Equal(t, OnCallUID, doc["uid"])
	require.Equal(t, false, doc["editable"])
}
