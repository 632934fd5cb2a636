package rollup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"driftline/schema"
)

// levels lists how every rollup table is computed.
func levels(db string) []level {
	var out []level
	for _, t := range tables {
		out = append(out, t.minuteLevel(db))
	}
	for _, t := range tiers() {
		out = append(out, t.level(db))
	}
	return out
}

func TestEveryColumnIsWritten(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range levels("db") {
		var want []string
		for _, c := range schema.Columns(l.target) {
			if c.Name != "stored_at" {
				want = append(want, c.Name)
			}
		}
		got := []string{"service_name", "minute", "version"}
		got = append(got, l.dimNames()...)
		for _, a := range l.aggs {
			if a.hist {
				got = append(got, a.name+"_buckets", a.name+"_counts")
			} else {
				got = append(got, a.name)
			}
		}
		require.ElementsMatch(t, want, got, l.target)
		require.Equal(t, "n", l.aggs[0].name, "%s: zero and fold look at n", l.target)
		seen[l.target] = true
	}
	for _, table := range schema.Tables() {
		if len(table.Name) > 7 && table.Name[:7] == "rollup_" {
			require.True(t, seen[table.Name], "nothing writes %s", table.Name)
		}
	}
}

func TestFoldedDimensionsExist(t *testing.T) {
	for _, l := range levels("db") {
		require.Positive(t, l.keep, "%s has no bound", l.target)
		require.NotEmpty(t, l.fold, l.target)
		require.Subset(t, l.dimNames(), l.fold, l.target)
	}
}
