package rollup

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"
)

// A part that was written well before the job looks back is left out, and no other. Parts of a test
// are all young, so the statement is asked with another idea of what is old.
func TestPartsWithoutNewRowsAreLeftOut(t *testing.T) {
	s := newServer(t)
	s.insert(0, call("a", s.clock, 1, 1))
	ctx := context.Background()
	found := func(query string, since time.Time) int {
		t.Helper()
		rows, err := s.conn.Query(ctx, query, clickhouse.Named("since", since.UnixMilli()), clickhouse.Named("oldest", int64(0)))
		require.NoError(t, err)
		defer rows.Close()
		n := 0
		for rows.Next() {
			n++
		}
		require.NoError(t, rows.Err())
		return n
	}
	const base = "operations_base"
	query := dirty(s.db, base, youngParts(s.db, base))
	require.Equal(t, 1, found(query, s.clock.Add(-time.Second)))
	require.Equal(t, 1, found(query, s.clock.Add(-time.Hour)))
	strict := strings.Replace(query, ") - 600)", ") + 600)", 1)
	require.NotEqual(t, query, strict)
	require.Equal(t, 0, found(strict, s.clock.Add(-time.Second)))
	require.Equal(t, 1, found(strict, s.clock.Add(-time.Hour)), "it is younger than an hour")
	s.exec("OPTIMIZE TABLE " + s.db + "." + base + " FINAL")
	require.Equal(t, 1, found(query, s.clock.Add(-time.Second)), "a merged part is as young as its merge")
}
