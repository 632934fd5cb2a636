package dashboards

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/internal/engine/enginetest"
)

// readRows runs a statement and says how many rows the engine read from tables.
func readRows(t *testing.T, db, sql string) int {
	t.Helper()
	url := enginetest.Shared(t).URL(t) + "/?database=" + db
	resp, err := http.Post(url, "text/plain", strings.NewReader(sql+" FORMAT Null"))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode, sql)
	var s struct {
		Rows int `json:"read_rows,string"`
	}
	require.NoError(t, json.Unmarshal([]byte(resp.Header.Get("X-ClickHouse-Summary")), &s))
	return s.Rows
}

// C59: a filter on something that looks like the time column but is not the sort key read
// all of a table. Of a million rows over 30 days, an hour reads few granules, and a range
// of any length one tier alone.
func TestC59PanelsReadFewGranules(t *testing.T) {
	ctx := context.Background()
	conn := migrated(t)
	var db string
	require.NoError(t, conn.QueryRow(ctx, "SELECT currentDatabase()").Scan(&db))
	now := time.Now().UTC().Truncate(time.Hour)
	const total = 1_000_000
	seconds := int(30 * 24 * time.Hour / time.Second)
	for table, columns := range map[string]string{
		"requests_base":             "trace_id, revision, ended_at, agent) SELECT 'shop', toString(number), 1",
		"rollup_requests_1m_base":   "retries, n, minute, agent) SELECT 'shop', toString(number % 3), 1",
		"rollup_operations_1m_base": "target, n, minute, agent) SELECT 'shop', toString(number % 3), 1",
		"rollup_endpoints_1m_base":  "endpoint, n, minute, region) SELECT 'shop', toString(number % 3), 1",
	} {
		at := "toDateTime(" + now.Format("'2006-01-02 15:04:05'") + ") - intDiv(number * " + strconv.Itoa(seconds) + ", " + strconv.Itoa(total) + ")"
		require.NoError(t, conn.Exec(ctx, "INSERT INTO "+table+" (service_name, "+columns+", "+at+", 'planner' FROM numbers("+strconv.Itoa(total)+
			") SETTINGS max_block_size = 20000, min_insert_block_size_rows = 20000, min_insert_block_size_bytes = 0, max_insert_threads = 1"), table)
	}
	const granule, partsAnHour = 8192, 2
	for _, q := range queries(t) {
		sql := expand(t, q.SQL, now.Add(-time.Hour), now)
		require.LessOrEqual(t, readRows(t, db, sql), 2*granule*partsAnHour, "%s reads too much for an hour:\n%s", q.Name, sql)
		// Beyond the range of minutes nothing of them is read.
		sql = expand(t, q.SQL, now.Add(-30*24*time.Hour), now)
		require.LessOrEqual(t, readRows(t, db, sql), 2*granule*partsAnHour, "%s reads minutes for a month:\n%s", q.Name, sql)
	}
}
