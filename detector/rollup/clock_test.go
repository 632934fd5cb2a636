package rollup

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/internal/rows"
)

// server is a database whose clock is ours: what it stores in base tables bears our time, and
// a job asks us for the time.
type server struct {
	t     *testing.T
	conn  driver.Conn
	db    string
	clock time.Time
	warns strings.Builder
}

func newServer(t *testing.T) *server {
	conn, db := dettest.DB(t)
	s := &server{t: t, conn: conn, db: db, clock: time.Now().UTC().Truncate(time.Millisecond)}
	s.exec("CREATE DATABASE " + db + "_stage")
	t.Cleanup(func() { s.exec("DROP DATABASE " + db + "_stage SYNC") })
	for _, base := range bases() {
		s.exec("CREATE TABLE " + db + "_stage." + base + " AS " + db + "." + base)
	}
	return s
}

func (s *server) exec(sql string, args ...any) {
	s.t.Helper()
	require.NoError(s.t, s.conn.Exec(context.Background(), sql, args...), sql)
}

// insert stores rows at the server's clock, or up to spread before it.
func (s *server) insert(spread time.Duration, all ...rows.Row) {
	s.t.Helper()
	require.NoError(s.t, dettest.Insert(context.Background(), s.conn, s.db+"_stage", s.clock, all...))
	for _, base := range bases() {
		s.exec("INSERT INTO "+s.db+"."+base+" SELECT * REPLACE (fromUnixTimestamp64Milli(toInt64(@clock) - toInt64(rand() % @spread)) AS stored_at) FROM "+s.db+"_stage."+base,
			clickhouse.Named("clock", s.clock.UnixMilli()), clickhouse.Named("spread", spread.Milliseconds()+1))
		s.exec("TRUNCATE TABLE " + s.db + "_stage." + base)
	}
}

func (s *server) job() *Job {
	j := job(s.t, s.conn, Config{Database: s.db, Logger: slog.New(slog.NewTextHandler(&s.warns, nil))})
	j.serverClock = func(context.Context) (int64, error) { return s.clock.UnixMilli(), nil }
	return j
}

func (s *server) run(j *Job) Stats {
	s.t.Helper()
	st, err := j.Run(context.Background(), time.Now())
	require.NoError(s.t, err)
	return st
}

// requireTrue compares every rollup with one look at the base rows.
func (s *server) requireTrue(what string) {
	s.t.Helper()
	for _, l := range levels(s.db) {
		require.Equal(s.t, plain(s.t, s.conn, s.db, l), content(s.t, s.conn, s.db, l), "%s: %s", what, l.target)
	}
}

func (s *server) slices(tier string) []string {
	s.t.Helper()
	return lines(s.t, s.conn, "SELECT concat(retries, '=', toString(n)) FROM "+s.db+".rollup_operations_"+tier)
}

func call(id string, end time.Time, revision uint64, attempts uint32) *rows.Operation {
	o := &rows.Operation{OperationID: id, Target: "m1", Stream: rows.StreamYes, Attempts: &attempts}
	o.ServiceName, o.TraceID, o.Revision, o.Kind, o.Outcome, o.SampleWeight = "svc", "t-"+id, revision, rows.KindChat, rows.OutcomeOK, 1
	o.EndedAt, o.UserTimeNS, o.TTFTState = end.UnixNano(), 2e9, rows.TTFTNotApplicable
	return o
}

// Whatever is stored after the server's clock went back is rolled up, new rows and revisions
// alike, while it lies before the cursor and once it has passed it; a warning names the jump.
func TestServersClockMayGoBack(t *testing.T) {
	s := newServer(t)
	at := s.clock.Truncate(time.Hour).Add(-2 * time.Hour)
	j := s.job()
	s.insert(0, call("a", at, 1, 1))
	s.run(j)
	require.Equal(t, []string{"0=1"}, s.slices("1m"))

	top := s.clock
	s.clock = top.Add(-5 * time.Second)
	s.insert(0, call("a", at, 2, 3))
	require.True(t, s.run(j).ClockJumped)
	for _, tier := range []string{"1m", "1h"} {
		require.Equal(t, []string{"2+=1"}, s.slices(tier), "a revision stored earlier than what it replaces leaves its old slice")
	}

	for i, back := range []time.Duration{time.Minute, 26 * time.Hour} {
		s.clock = top.Add(-back)
		s.insert(0, call(fmt.Sprint("b", i), at, 1, 1))
		require.False(t, s.run(j).ClockJumped, "it is the same jump until the clock has passed the cursor")
		for _, tier := range []string{"1m", "1h"} {
			require.Equal(t, []string{fmt.Sprintf("0=%d", i+1), "2+=1"}, s.slices(tier), "%v back", back)
		}
		require.Positive(t, s.run(j).Unchanged)
	}

	// The coarser tiers have cursors of their own, which may be ahead as well.
	s.clock = time.Now()
	for name := range j.state.Tiers {
		j.state.Tiers[name] = s.clock.Add(time.Minute).UnixMilli()
	}
	s.insert(0, call("c", at, 1, 1))
	s.run(j)
	require.Equal(t, []string{"0=3", "2+=1"}, s.slices("1h"))

	// Rollups are stored at the engine's true time, so their cursors go back to that.
	for name := range j.state.Tiers {
		j.state.Tiers[name] = time.Now().UnixMilli()
	}
	s.clock = top.Add(3 * time.Minute)
	s.insert(0, call("c", at, 2, 2), call("d", at, 1, 2))
	require.False(t, s.run(j).ClockJumped)
	require.False(t, j.clockBack)
	require.Equal(t, []string{"0=2", "1=2", "2+=1"}, s.slices("1h"))

	// A new process finds its cursor ahead of the clock too.
	s.clock = s.clock.Add(-time.Hour)
	s.insert(0, call("e", at, 1, 1))
	j = s.job()
	require.True(t, s.run(j).ClockJumped)
	s.requireTrue("after a restart")
	require.Equal(t, 2, strings.Count(s.warns.String(), "level=WARN"), "one warning a jump: %s", s.warns.String())
}

// However the clock goes back and forth while revisions come in any order, rollups end as one
// look at the views has it, and a replica that begins anew changes nothing.
func TestRollupsAreTrueWhateverTheClockDoes(t *testing.T) {
	ctx := context.Background()
	s := newServer(t)
	g := dettest.NewTraffic(t, s.clock.Truncate(24*time.Hour).Add(-25*time.Hour), 2)
	j := s.job()
	for _, batch := range g.Mess(60, 4) {
		jump := []time.Duration{5 * time.Second, time.Minute, 3 * time.Hour}[g.Rand.IntN(3)]
		s.clock = s.clock.Add(time.Duration(g.Rand.Int64N(2*int64(jump))) - jump)
		s.insert(3*time.Second, batch...)
		s.run(j)
	}
	s.requireTrue("at the end")
	first := stored(t, s.conn, s.db)
	_, err := s.job().Rebuild(ctx, time.Now())
	require.NoError(t, err)
	require.Equal(t, first, stored(t, s.conn, s.db), "another replica writes the same rows")
}

// Rollups from before an upgrade have versions of another form. Minutes, hours and days of
// which a part is computed anew after it replace them.
func TestVersionsOfTheOldFormAreReplaced(t *testing.T) {
	s := newServer(t)
	at := s.clock.Truncate(24 * time.Hour).Add(-20 * time.Hour)
	j := s.job()
	s.insert(0, call("a", at, 1, 1), call("b", at.Add(time.Minute), 1, 1), call("c", at.Add(time.Hour), 7, 1))
	s.run(j)
	for _, l := range levels(s.db) {
		copied := s.db + "_stage." + l.target
		s.exec("CREATE TABLE " + copied + " AS " + s.db + "." + l.target)
		s.exec("INSERT INTO " + copied + " SELECT * REPLACE (toUInt64(toUnixTimestamp64Milli(stored_at)) * 1048576 + n * 2 AS version) FROM " + s.db + "." + l.target + " FINAL")
		s.exec("TRUNCATE TABLE " + s.db + "." + l.target)
		s.exec("INSERT INTO " + s.db + "." + l.target + " SELECT * FROM " + copied)
	}
	s.requireTrue("before")
	for i, o := range []*rows.Operation{call("a", at, 2, 2), call("b", at.Add(time.Minute), 2, 3), call("a", at, 3, 3)} {
		s.clock = s.clock.Add(time.Second - 10*time.Second*time.Duration(i))
		s.insert(0, o)
		s.run(j)
		s.requireTrue(fmt.Sprint("revision ", i))
	}
	newForm := "SELECT DISTINCT toString(version >= 9223372036854775808) FROM " + s.db + ".rollup_operations_"
	require.Equal(t, []string{"0", "1"}, lines(t, s.conn, newForm+"1h_base FINAL"), "the hour of c was left alone")
	require.Equal(t, []string{"1"}, lines(t, s.conn, strings.Replace(newForm, "operations_", "retries_1d_base FINAL", 1)))
}

// One row of a collector that lies has little effect on its cell: not on its sums, and not on
// whether the other rows' revisions are followed.
func TestOneHostileRowDoesLittle(t *testing.T) {
	s := newServer(t)
	at := s.clock.Truncate(time.Hour).Add(-2 * time.Hour)
	j := s.job()
	good := call("good", at, 1, 1)
	good.SampleWeight, good.InputTokens, good.OutputTokens = 2.5, new(int64), new(int64)
	*good.InputTokens, *good.OutputTokens = 100, 1e9
	all := []rows.Row{good}
	for i, w := range []float64{-3, math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
		o := call(fmt.Sprint("bad", i), at, math.MaxUint64-uint64(i), 1)
		tokens := []int64{-1, 1e9 + 1, math.MaxInt64, math.MinInt64, -5}[i]
		o.SampleWeight, o.InputTokens, o.OutputTokens, o.CachedTokens = w, &tokens, &tokens, &tokens
		all = append(all, o)
	}
	s.insert(0, all...)
	s.run(j)
	require.Equal(t, []string{"6 2000002500 100 1000000000 0"}, lines(t, s.conn, "SELECT concat(toString(n), ' ', toString(weight_milli), ' ', toString(input_tokens), ' ', toString(output_tokens), ' ', toString(cached_tokens)) FROM "+s.db+".rollup_operations_1m"))
	s.clock = s.clock.Add(-3 * time.Second)
	s.insert(0, call("good", at, 2, 2))
	s.run(j)
	require.Equal(t, []string{"0=5", "1=1"}, s.slices("1m"))
	require.Equal(t, []string{"0=5", "1=1"}, s.slices("1h"))
}

// How far back a run reads depends on how long nobody has looked.
func TestReadsFromBeforeTheCursor(t *testing.T) {
	const cursor = int64(1_800_000_000_000)
	overlap := 45 * time.Second
	back := func(l look) time.Duration { return time.Duration(cursor-l.since(cursor, overlap)) * time.Millisecond }
	recent := look{now: cursor + 500, last: time.Now()}
	require.GreaterOrEqual(t, back(recent), overlap)
	require.Less(t, back(recent), 2*overlap)
	recent.now = cursor - 900
	require.Less(t, back(recent), 2*overlap, "within the slack")
	require.GreaterOrEqual(t, back(look{now: cursor + 500, last: time.Now().Add(-5 * time.Minute)}), overlap+5*time.Minute, "a clock may have gone back and passed the cursor unseen")
	require.GreaterOrEqual(t, back(look{now: cursor + 600_000}), overlap+10*time.Minute, "after a restart")
	require.Less(t, back(look{now: cursor + 86_400_000}), lookBack+2*overlap, "an hour bounds it")
	require.Equal(t, 7*24*time.Hour+lookBack, back(look{now: cursor - 7*86_400_000, last: time.Now()}), "a jump may have any length")
}
