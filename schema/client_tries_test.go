package schema

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClientTriesCountsPerKey joins requests of several traces by their key: tries are
// those that follow a failed one, within five minutes of its end. A repetition after
// success, a request that ran beside another one, and one long after are calls of their own.
func TestClientTriesCountsPerKey(t *testing.T) {
	ctx, conn, o := migrated(t)
	start := time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
	insert := func(key, trace string, from, to float64, outcome string, late bool) {
		t.Helper()
		at := func(s float64) string {
			return fmt.Sprintf("fromUnixTimestamp64Nano(%d)", start.Add(time.Duration(s*float64(time.Second))).UnixNano())
		}
		require.NoError(t, conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s.requests_base (service_name, trace_id, revision, request_id, request_key, started_at, ended_at, outcome, late_fragment, user_time_ns) VALUES ('shop', '%s', 1, 'r', '%s', %s, %s, '%s', %v, %d)",
			o.Database, trace, key, at(from), at(to), outcome, late, int64((to-from)*1e9))))
	}
	insert("retried", "a1", 0, 10, "error", false)
	insert("retried", "a2", 12, 20, "error", false)
	insert("retried", "a3", 24, 30, "ok", false)
	insert("retried", "a4", 40, 45, "ok", false) // asked again after success
	insert("hedged", "b1", 0, 10, "error", false)
	insert("hedged", "b2", 5, 9, "ok", false)
	insert("later", "c1", 0, 10, "error", false)
	insert("later", "c2", 900, 910, "ok", false)
	insert("fragment", "d1", 0, 10, "error", false)
	insert("fragment", "d2", 11, 12, "ok", true)
	insert("", "e1", 0, 10, "error", false)
	insert("", "e2", 11, 12, "ok", false)
	// A revision of a row counts once.
	insert("retried", "a1", 0, 10, "error", false)

	rows, err := conn.Query(ctx, "SELECT request_key, trace_id, call_index, ordinal, attempts, backoff_before_ns FROM "+o.Database+".client_tries ORDER BY request_key, started_at")
	require.NoError(t, err)
	defer rows.Close()
	var got []string
	for rows.Next() {
		var key, trace string
		var call, ordinal, attempts uint64
		var wait *int64
		require.NoError(t, rows.Scan(&key, &trace, &call, &ordinal, &attempts, &wait))
		line := fmt.Sprintf("%s %s: call %d, try %d of %d", key, trace, call, ordinal, attempts)
		if wait != nil {
			line += fmt.Sprintf(" after %s", time.Duration(*wait))
		}
		got = append(got, line)
	}
	require.NoError(t, rows.Err())
	require.Equal(t, []string{
		"fragment d1: call 1, try 1 of 1",
		"hedged b1: call 1, try 1 of 1",
		"hedged b2: call 2, try 1 of 1",
		"later c1: call 1, try 1 of 1",
		"later c2: call 2, try 1 of 1",
		"retried a1: call 1, try 1 of 3",
		"retried a2: call 1, try 2 of 3 after 2s",
		"retried a3: call 1, try 3 of 3 after 4s",
		"retried a4: call 2, try 1 of 1",
	}, got)
}
