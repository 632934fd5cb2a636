package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"
)

// The embedded engine gives a statement 512 MiB. A table of many columns takes a buffer for
// each column's stream when it writes a part, so that without max_compress_block_size an
// INSERT of this many rows took nearly 300 MB for them alone.
func TestAnInsertIntoAWideRollupTakesLittleMemory(t *testing.T) {
	const rows, most = 50_000, 160_000_000
	_, conn, o := fresh(t)
	require.NoError(t, Up(background(), conn, o, nil))
	ctx := clickhouse.Context(background(), clickhouse.WithSettings(clickhouse.Settings{"max_memory_usage": most}))
	wide := 0
	for _, table := range Tables() {
		if !strings.HasPrefix(table.Name, "rollup_") || len(table.Columns) < 55 {
			continue
		}
		wide++
		var names, values []string
		for _, c := range table.Columns {
			names, values = append(names, c.Name), append(values, sample(c))
			if c.Name == "minute" {
				values[len(values)-1] = "toStartOfHour(now())"
			}
		}
		require.NoError(t, conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s.%s (%s) SELECT %s FROM numbers(%d) SETTINGS max_block_size = %d",
			o.Database, table.Name, strings.Join(names, ", "), strings.Join(values, ", "), rows, rows)), table.Name)
		require.EqualValues(t, rows, count(t, conn, "SELECT count() FROM "+o.Database+"."+table.Name))
	}
	require.Equal(t, 4, wide)
}
