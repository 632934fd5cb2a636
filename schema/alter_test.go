package schema

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const alterTemplate = `ADD COLUMN IF NOT EXISTS tenant LowCardinality(String) DEFAULT '' CODEC(ZSTD(1)) AFTER trace_id
ADD COLUMN IF NOT EXISTS cost Nullable(Float64)
MODIFY COLUMN span_id String CODEC(ZSTD(3))
ADD INDEX IF NOT EXISTS tenant_set tenant TYPE set(10) GRANULARITY 1
MODIFY SETTING non_replicated_deduplication_window = 2000, merge_with_ttl_timeout = 3600
`

func TestAlterChangesWhatThePackageStates(t *testing.T) {
	table := tablesUpTo(1)[5]
	require.Equal(t, "spans_base", table.Name)
	for range 2 { // each command is safe to repeat
		commands, err := parseCommands(alterTemplate)
		require.NoError(t, err)
		for _, c := range commands {
			require.NoError(t, c.apply(&table))
		}
	}
	require.Equal(t, Column{Name: "tenant", Type: "LowCardinality(String)", Default: "''", Codec: "ZSTD(1)"}, table.Columns[2])
	require.Equal(t, Column{Name: "cost", Type: "Nullable(Float64)"}, table.Columns[len(table.Columns)-1])
	require.Equal(t, Column{Name: "span_id", Type: "String", Codec: "ZSTD(3)"}, table.Columns[3])
	require.Equal(t, "ttl_only_drop_parts = 1, non_replicated_deduplication_window = 2000, merge_with_ttl_timeout = 3600", table.Settings)

	_, err := parseCommands("DELETE WHERE 1")
	require.ErrorContains(t, err, "safe to repeat")
	_, err = parseCommands("ADD COLUMN tenant String")
	require.ErrorContains(t, err, "safe to repeat", "without IF NOT EXISTS a second run fails")
	for _, bad := range []string{"MODIFY COLUMN nothing String", "ADD COLUMN IF NOT EXISTS x String AFTER nothing"} {
		commands, err := parseCommands(bad)
		require.NoError(t, err)
		require.ErrorContains(t, commands[0].apply(&table), "has no column nothing")
	}
}

func TestAlterGoesToTheLocalAndToTheDistributedTable(t *testing.T) {
	one, err := Options{}.withDefaults().alterStatements("spans_base", alterTemplate)
	require.NoError(t, err)
	require.Len(t, one, 1)
	require.Contains(t, one[0], "ALTER TABLE driftline.spans_base\n    ADD COLUMN")
	cluster, err := Options{Cluster: "main"}.withDefaults().alterStatements("spans_base", alterTemplate)
	require.NoError(t, err)
	require.Len(t, cluster, 2)
	// Version 5 built it anew, and on a cluster local tables then have a name with the version.
	require.Contains(t, cluster[0], "ALTER TABLE driftline.spans_base_v5_local ON CLUSTER `main`\n")
	require.Contains(t, cluster[0], "ADD INDEX")
	require.Contains(t, cluster[1], "ALTER TABLE driftline.spans_base ON CLUSTER `main`\n")
	require.Contains(t, cluster[1], "tenant LowCardinality(String)")
	require.NotContains(t, cluster[1], "INDEX")
	require.NotContains(t, cluster[1], "SETTING")
}

// The engine and the package must agree on what the commands do, and on doing them twice.
func TestAlterOnTheEngineGivesTheColumnsThatThePackageStates(t *testing.T) {
	ctx, conn, o := fresh(t)
	require.NoError(t, Up(ctx, conn, o, nil))
	statements, err := o.alterStatements("spans_base", alterTemplate)
	require.NoError(t, err)
	for range 2 {
		for _, statement := range statements {
			require.NoError(t, conn.Exec(ctx, statement))
		}
	}
	want := tablesUpTo(Version)[5]
	commands, err := parseCommands(alterTemplate)
	require.NoError(t, err)
	for _, c := range commands {
		require.NoError(t, c.apply(&want))
	}
	for i := range want.Columns {
		want.Columns[i].Codec = ""
	}
	require.Equal(t, want.Columns, engineColumns(t, conn, o.Database, "spans_base"))
}
