package rollup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/internal/rows"
)

// folded is what is left of counts when a cell keeps the busiest few: name to count, and
// how many were taken together.
func folded(n map[string]int, keep int) (map[string]int, int) {
	names := []string{}
	for name := range n {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) })
	out, over := map[string]int{}, 0
	for i, name := range names {
		if i >= keep {
			out[Other] += n[name]
			over += n[name]
			continue
		}
		out[name] += n[name]
	}
	return out, over
}

// Versions beyond those a cell keeps go to other, the busiest stay, and an update that
// changes who is busiest leaves nothing of the former order behind.
func TestCellsKeepTheBusiestValues(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	now := time.Now().UTC()
	start := now.Truncate(time.Hour).Add(-2 * time.Hour)
	j := job(t, conn, Config{Database: db})
	g := dettest.NewTraffic(t, start, 3)
	version := map[int]string{}
	for round := range 2 {
		var batch []rows.Row
		for id := range 400 {
			if round == 1 && g.Rand.IntN(3) > 0 {
				continue
			}
			// Square numbers make some versions much busier than others.
			v := g.Rand.IntN(40)
			version[id] = fmt.Sprintf("1.%02d", v*v/40)
			if round == 1 {
				version[id] = fmt.Sprintf("2.%02d", g.Rand.IntN(6))
			}
			o := &rows.Operation{OperationID: fmt.Sprint("o", id)}
			o.ServiceName, o.TraceID, o.Revision, o.Kind, o.Outcome, o.SampleWeight = "shop", fmt.Sprint("t", id), uint64(round+1), rows.KindChat, rows.OutcomeOK, 1
			o.EndedAt, o.ServiceVersion, o.TTFTState = start.Add(time.Duration(id%2)*time.Minute).UnixNano(), version[id], rows.TTFTNotApplicable
			batch = append(batch, o)
		}
		require.NoError(t, dettest.Insert(ctx, conn, db, now, batch...))
		now = now.Add(time.Second)
		_, err := j.Run(ctx, now)
		require.NoError(t, err)

		counts := []map[string]int{{}, {}}
		for id, v := range version {
			counts[id%2][v]++
		}
		var want []string
		hour := map[string]int{}
		for minute := range 2 {
			require.Greater(t, len(counts[minute]), keepVersions, "the test needs more versions than are kept")
			n, over := folded(counts[minute], keepVersions)
			for name, c := range n {
				hour[name] += c
				want = append(want, fmt.Sprintf("%d %s %d %d", minute, name, c, map[bool]int{true: over}[name == Other]))
			}
		}
		slices.Sort(want)
		require.Equal(t, want, lines(t, conn, "SELECT concat(toString(toMinute(minute)), ' ', service_version, ' ', toString(n), ' ', toString(overflow)) FROM "+db+".rollup_versions_1m"))
		// An hour keeps the busiest of what its minutes kept.
		n, _ := folded(hour, keepVersions)
		require.Equal(t, []string{fmt.Sprint(len(version))}, lines(t, conn, "SELECT toString(sum(n)) FROM "+db+".rollup_versions_1h"))
		require.Equal(t, []string{fmt.Sprint(len(n))}, lines(t, conn, "SELECT toString(count()) FROM "+db+".rollup_versions_1h"))
		for name, c := range n {
			if name != Other {
				require.Equal(t, []string{fmt.Sprint(c)}, lines(t, conn, "SELECT toString(n) FROM "+db+".rollup_versions_1h WHERE service_version = '"+name+"'"), name)
			}
		}
	}
	first := stored(t, conn, db)
	_, err := job(t, conn, Config{Database: db}).Rebuild(ctx, now)
	require.NoError(t, err)
	require.Equal(t, first, stored(t, conn, db), "another replica folds the same")
}
