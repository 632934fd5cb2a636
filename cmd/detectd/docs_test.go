package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// code is what pages set as code: spans, and lines that are indented or in fences.
	code    = regexp.MustCompile("(?m)`([^`\n]+)`|^ {4,}(.+)$|^([A-Za-z./].*)$")
	command = regexp.MustCompile(`(?:^|[ =/])detectd((?: +[a-z][a-z-]*)+)((?: .*)?)$`)
	flag    = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
)

// Commands and flags that pages tell people to type exist.
func TestCommandsOfThePagesExist(t *testing.T) {
	pages := []string{"../../README.md", "../../processor/genaisegment/README.md", "../../exporter/genaiclickhouse/README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/runbooks/*.md"} {
		more, err := filepath.Glob(pattern)
		require.NoError(t, err)
		pages = append(pages, more...)
	}
	seen := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		fenced := false
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			for _, m := range code.FindAllStringSubmatch(line, -1) {
				if m[3] != "" && !fenced {
					continue // prose
				}
				typed := m[1] + m[2] + m[3]
				m := command.FindStringSubmatch(typed)
				if m == nil {
					continue
				}
				words := strings.Fields(m[1])
				c, rest, err := newRoot().Find(words)
				require.NoError(t, err, "%s: %s", page, typed)
				require.Less(t, len(rest), len(words), "%s: %s", page, typed)
				seen[c.CommandPath()] = true
				for _, f := range flag.FindAllStringSubmatch(m[2], -1) {
					if f[1] == "help" {
						continue
					}
					if c.DisableFlagParsing { // it has its own flags and lists them itself
						_, usage, err := run(t, "", append(words, "--help")...)
						require.NoError(t, err)
						require.Contains(t, usage, "  -"+f[1]+" ", "%s: %s", page, typed)
						continue
					}
					require.NotNil(t, c.Flag(f[1]), "%s: --%s of %s", page, f[1], typed)
				}
			}
		}
	}
	for _, name := range []string{"detectd standalone", "detectd serve", "detectd migrate up", "detectd erase", "detectd replay", "detectd backtest", "detectd check"} {
		require.True(t, seen[name], "no page shows %s", name)
	}
}

// Every command explains itself, with an example where it takes flags of its own.
func TestEveryCommandHasHelp(t *testing.T) {
	help, _, err := run(t, "", "--help")
	require.NoError(t, err)
	for _, c := range newRoot().Commands() {
		require.Contains(t, help, "  "+c.Name()+" ")
		require.NotEmpty(t, c.Short, c.Name())
	}
	help, _, err = run(t, "", "erase", "--help")
	require.NoError(t, err)
	for _, want := range []string{"--tenant", "--user", "--dry-run", "--clickhouse", "--cluster", "--output", "DRIFTLINE_IDENTITY_KEY", "What stays:"} {
		require.Contains(t, help, want)
	}
}
