package schema

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Requests that were stored before version 6 know neither user nor tenant, which is not the
// same as a hash of 0.
func TestUpgradeFromVersion5LeavesUsersOfOldRequestsUnknown(t *testing.T) {
	ctx, conn, o := fresh(t)
	require.NoError(t, up(ctx, conn, o, 5, nil))
	for _, table := range tablesUpTo(5) {
		if table.Name == "requests_base" {
			fill(t, conn, o.Database, table, 50)
		}
	}
	var columns []string
	for _, c := range engineColumns(t, conn, o.Database, "requests") {
		columns = append(columns, c.Name)
	}
	before := contents(t, conn, o.Database, "requests", columns)
	require.ErrorContains(t, Check(ctx, conn, o), "the first is 6.1")

	// Up may run again, and then does nothing.
	for range 2 {
		require.NoError(t, Up(ctx, conn, o, nil))
		require.NoError(t, Check(ctx, conn, o))
		require.Equal(t, before, contents(t, conn, o.Database, "requests", columns))
	}
	require.EqualValues(t, 50, count(t, conn, "SELECT count() FROM "+o.Database+".requests WHERE user_hash IS NULL AND tenant_hash IS NULL"))
	require.NoError(t, conn.Exec(ctx, "INSERT INTO "+o.Database+".requests_base (service_name, trace_id, request_id, ended_at, user_hash, tenant_hash) VALUES ('s', 't', 'r', now64(9), -9223372036854775808, 0)"))
	require.EqualValues(t, 1, count(t, conn, "SELECT count() FROM "+o.Database+".requests WHERE user_hash = toInt64(-9223372036854775808) AND tenant_hash = 0"))
}
