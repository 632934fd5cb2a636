package rollup

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/internal/rows"
)

// After an upgrade the new tables are empty and the old ones full. What the job fills in
// is what it would have written at the time, beyond the age of the 1m tables by hours and
// days alone; live work goes on meanwhile, and each run does a bounded part.
func TestNewTablesAreFilledAfterAnUpgrade(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	now := time.Now().UTC().Truncate(24 * time.Hour).Add(13 * time.Hour)
	const maxAge = 26 * time.Hour
	g := dettest.NewTraffic(t, now.Add(-55*time.Hour), 3)
	var batch []rows.Row
	for id := range 150 {
		if id == 75 {
			g.Start = now.Add(-5 * time.Hour)
		}
		batch = append(batch, g.Row(id))
	}
	require.NoError(t, dettest.Insert(ctx, conn, db, now, batch...))
	old := job(t, conn, Config{Database: db, MaxAge: 200 * time.Hour})
	st, err := old.Run(ctx, now)
	require.NoError(t, err)
	require.Zero(t, st.Backfilled, "a first run has done everything")

	want := stored(t, conn, db)
	for _, l := range levels(db) {
		if since(l.target) >= secondVersion {
			require.NoError(t, conn.Exec(ctx, "TRUNCATE TABLE "+db+"."+l.target))
		}
	}
	require.NoError(t, conn.Exec(ctx, "DELETE FROM "+db+".detector_state_base WHERE key = '"+backfillKey+"'"))

	upgraded := job(t, conn, Config{Database: db, MaxAge: maxAge, BackfillRows: 40})
	runs, left := 0, time.Duration(0)
	for {
		now = now.Add(time.Second)
		if runs == 1 {
			live := g.Row(0)
			live.Head().ServiceName, live.Head().TraceID, live.Head().Deleted = "live", "live", false
			live.(*rows.Operation).EndedAt = now.UnixNano()
			require.NoError(t, dettest.Insert(ctx, conn, db, now, live))
		}
		st, err = upgraded.Run(ctx, now)
		require.NoError(t, err)
		if runs++; st.BackfillLeft == 0 {
			break
		}
		if runs == 2 {
			require.Equal(t, 1, st.DirtyMinutes, "live work goes on")
		}
		require.Positive(t, st.Backfilled)
		require.True(t, left == 0 || st.BackfillLeft < left, "each run gets further")
		left = st.BackfillLeft
		if runs == 3 { // a restart goes on where it was
			upgraded = job(t, conn, Config{Database: db, MaxAge: maxAge, BackfillRows: 40})
		}
	}
	require.Greater(t, runs, 3, "a run does a part")
	st, err = upgraded.Run(ctx, now.Add(time.Second))
	require.NoError(t, err)
	require.Zero(t, st.Backfilled)

	got := stored(t, conn, db)
	for target, all := range got {
		got[target] = slices.DeleteFunc(all, func(line string) bool { return strings.HasPrefix(line, "('live'") })
	}
	for _, l := range levels(db) {
		if strings.HasSuffix(l.target, "_1m_base") || strings.HasSuffix(l.target, "_10m_base") {
			continue
		}
		require.ElementsMatch(t, want[l.target], got[l.target], l.target)
	}
	for _, l := range levels(db) {
		if !strings.HasSuffix(l.target, "_1m_base") || since(l.target) < secondVersion {
			continue
		}
		require.NotEmpty(t, got[l.target], l.target)
		require.Subset(t, want[l.target], got[l.target], l.target)
	}
}

func since(target string) uint32 {
	for _, t := range tables {
		if t.name+"_1m_base" == target {
			return t.since
		}
	}
	for _, t := range tiers() {
		if t.name+"_base" == target {
			return t.since
		}
	}
	return 0
}
