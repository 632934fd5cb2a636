package schema

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What stands in short in a base table reads as what the columns say that it follows from,
// and what is stored in full reads as it is.
func TestViewsPutBackWhatIsStoredInShort(t *testing.T) {
	ctx, conn, o := migrated(t)
	hour := time.Now().UTC().Truncate(time.Hour)
	at := func(s int) string {
		return fmt.Sprintf("toDateTime64('%s', 9, 'UTC')", hour.Add(time.Duration(s)*time.Second).Format(time.DateTime))
	}
	end, started := at(10), at(1)
	long, short := hour.Format("2006-01-02 15:04:")+"01.000000000", hour.Format("2006-01-02 15:04:")+"09.999993000"
	insert := func(table, columns, values string) {
		t.Helper()
		require.NoError(t, conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s.%s_base (service_name, ended_at, %s) SELECT 'short', %s, %s SETTINGS optimize_on_insert = 0", o.Database, table, columns, end, values)))
	}
	read := func(view, columns, key string) (out string) {
		t.Helper()
		require.NoError(t, conn.QueryRow(ctx, fmt.Sprintf("SELECT toString(tuple(%s)) FROM %s.%s WHERE service_name = 'short' AND trace_id = '%s'", columns, o.Database, view, key)).Scan(&out))
		return out
	}
	old := "toDateTime64(0, 9, 'UTC')"

	const lengths = "started_at, user_time_ns, hidden_total_ns, agent_time_ns, path_ns, tool_ns, inference_time_ns, inference_segment_ns, ttft_ns, first_chunk_ns, ttft_segment_ns, generation_ns, output_tokens, time_per_output_token_ns"
	insert("operations", "trace_id, "+lengths, "'plain', "+started+", 7000, 30, 6, 5, 4, 3000, 2, 1000, 9, 8, 7, 11, 6")
	require.Equal(t, "('"+long+"',7000,30,6,5,4,3000,2,1000,9,8,7,11,6)", read("operations", lengths, "plain"))
	insert("operations", "trace_id, "+lengths, "'short', "+old+", 7000, 30, -1, -1, -1, -1, -1, 1000, -1, -1, -1, 11, -1")
	require.Equal(t, "('"+short+"',7000,30,7000,7000,7000,7000,7000,1000,1000,1000,6000,11,600)", read("operations", lengths, "short"))
	insert("operations", "trace_id, "+lengths, "'retried', "+old+", 7000, 30, -2, 0, -2, 3000, -1, 1000, NULL, 0, -1, 1, -1")
	require.Equal(t, "('"+short+"',7000,30,6970,0,6970,3000,3000,1000,NULL,0,2000,1,0)", read("operations", lengths, "retried"))
	insert("operations", "trace_id, "+lengths, "'unknown', "+started+", 7000, NULL, NULL, 0, 0, NULL, 0, NULL, NULL, 0, 0, NULL, NULL")
	require.Equal(t, "('"+long+"',7000,NULL,NULL,0,0,NULL,0,NULL,NULL,0,0,NULL,NULL)", read("operations", lengths, "unknown"))

	const ofRequest = "started_at, user_time_ns, hidden_total_ns, agent_time_ns"
	insert("requests", "trace_id, "+ofRequest, "'plain', "+started+", 7000, 30, 6")
	require.Equal(t, "('"+long+"',7000,30,6)", read("requests", ofRequest, "plain"))
	insert("requests", "trace_id, "+ofRequest, "'short', "+old+", 7000, 30, -1")
	require.Equal(t, "('"+short+"',7000,30,7000)", read("requests", ofRequest, "short"))
	insert("requests", "trace_id, "+ofRequest, "'retried', "+old+", 7000, 30, -2")
	require.Equal(t, "('"+short+"',7000,30,6970)", read("requests", ofRequest, "retried"))

	const ofAttempt = "started_at, duration_ns, remaining_ns"
	insert("attempts", "trace_id, "+ofAttempt, "'plain', "+started+", 7000, -5")
	require.Equal(t, "('"+long+"',7000,-5)", read("attempts", ofAttempt, "plain"))
	insert("attempts", "trace_id, "+ofAttempt, "'short', "+old+", 7000, toUnixTimestamp64Nano("+end+") - 9000")
	require.Equal(t, "('"+short+"',7000,-2000)", read("attempts", ofAttempt, "short"))
	insert("attempts", "trace_id, "+ofAttempt, "'skewed', "+started+", 7000, toUnixTimestamp64Nano("+started+") + 12")
	require.Equal(t, "('"+long+"',7000,12)", read("attempts", ofAttempt, "skewed"))
	insert("attempts", "trace_id, "+ofAttempt, "'unknown', "+started+", 7000, NULL")
	require.Equal(t, "('"+long+"',7000,NULL)", read("attempts", ofAttempt, "unknown"))

	// The views' types are what they were, whatever stands beneath.
	for _, name := range []string{"operations", "requests", "attempts"} {
		var types = map[string]string{}
		for _, c := range engineColumns(t, conn, o.Database, name+"_base") {
			types[c.Name] = c.Type
		}
		for _, c := range engineColumns(t, conn, o.Database, name) {
			require.Equal(t, types[c.Name], c.Type, "%s.%s", name, c.Name)
		}
	}
}
