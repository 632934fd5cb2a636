package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplaceLeavesTheRestAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "docs", "page.md")
	require.NoError(t, Replace(path, "one", "first\n"))
	require.NoError(t, Replace(path, "two", "second"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	page := "# Title\n\nwords by hand\n\n" + string(text) + "\nlast words\n"
	require.NoError(t, os.WriteFile(path, []byte(page), 0o600))

	require.NoError(t, Replace(path, "one", "fresh\n\n| a |\n"))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "# Title\n\nwords by hand\n\n<!-- begin one: generated, do not edit -->\nfresh\n\n| a |\n<!-- end one -->\n\n"+
		"<!-- begin two: generated, do not edit -->\nsecond\n<!-- end two -->\n\nlast words\n", string(got))
}

func TestReplaceRefusesBrokenSections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	begin, end := markers("one")
	for _, broken := range []string{begin + "\nno end\n", begin + "\n" + end + "\n" + begin + "\n" + end} {
		require.NoError(t, os.WriteFile(path, []byte(broken), 0o600))
		require.Error(t, Replace(path, "one", "x"))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, broken, string(got))
	}
	require.Error(t, Replace(path, "no spaces", "x"))
}

func TestTable(t *testing.T) {
	require.Equal(t, "| name | rows | time (ms) |\n| --- | ---: | ---: |\n| a\\|b | 1 | 2.5 |\n",
		Table([]string{"name", "#rows", "time (ms)"}, [][]string{{"a|b", "1", "2.5"}}))
}
