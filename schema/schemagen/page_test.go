package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"driftline/schema"
)

func TestThePageIsCurrent(t *testing.T) {
	want, err := page("../../internal/rows/rows.go")
	require.NoError(t, err)
	got, err := os.ReadFile("../../docs/schema.md")
	require.NoError(t, err)
	require.Equal(t, want, string(got), "docs/schema.md is not what the DDL says: run `go generate ./schema`")
}

func TestEveryTableAndColumnIsOnThePage(t *testing.T) {
	text, err := page("../../internal/rows/rows.go")
	require.NoError(t, err)
	for _, table := range schema.Tables() {
		require.NotEmpty(t, about[table.Name], "%s is not explained", table.Name)
		_, section, ok := strings.Cut(text, "\n## "+table.Name+"\n")
		require.True(t, ok, "%s has no section", table.Name)
		section, _, _ = strings.Cut(section, "\n## ")
		for _, c := range table.Columns {
			require.Contains(t, section, "| `"+c.Name+"` |")
		}
	}
}
