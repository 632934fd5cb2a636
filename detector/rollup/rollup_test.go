package rollup_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/detector/rollup"
	"driftline/detector/stats"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

var start = time.Now().UTC().Truncate(time.Hour).Add(-6 * time.Hour)

func ptr[T any](v T) *T { return &v }

func operation(id string, end time.Time, attempts *uint32, userNS int64) *rows.Operation {
	o := &rows.Operation{OperationID: id, Target: "m1", Stream: rows.StreamYes, Attempts: attempts}
	o.ServiceName, o.TraceID, o.Revision = "svc", "trace-"+id, 1
	o.Agent, o.Kind, o.Outcome, o.SampleWeight = "planner", rows.KindChat, rows.OutcomeOK, 1
	o.EndedAt, o.UserTimeNS = end.UnixNano(), userNS
	o.StartedAt = o.EndedAt - userNS
	o.TTFTState = rows.TTFTNotApplicable
	return o
}

func newJob(t *testing.T, conn driver.Conn, db string) *rollup.Job {
	t.Helper()
	j, err := rollup.New(conn, rollup.Config{Database: db, HourEvery: time.Nanosecond})
	require.NoError(t, err)
	return j
}

func run(t *testing.T, j *rollup.Job) rollup.Stats {
	t.Helper()
	st, err := j.Run(context.Background(), time.Now())
	require.NoError(t, err)
	return st
}

// dump renders a whole query's result, one line per row, for comparisons.
func dump(t *testing.T, conn driver.Conn, query string) []string {
	t.Helper()
	rs, err := conn.Query(context.Background(), query)
	require.NoError(t, err)
	defer rs.Close()
	var out []string
	for rs.Next() {
		var line string
		require.NoError(t, rs.Scan(&line))
		out = append(out, line)
	}
	require.NoError(t, rs.Err())
	return out
}

// base dumps all rollup rows with their versions and without stored_at.
func base(t *testing.T, conn driver.Conn, db string) []string {
	var out []string
	for _, name := range []string{"operations_1m", "operations_1h", "requests_1m", "requests_1h", "attempts_1m", "attempts_1h"} {
		lines := dump(t, conn, fmt.Sprintf("SELECT toString(tuple(* EXCEPT stored_at)) AS l FROM %s.rollup_%s_base FINAL ORDER BY l", db, name))
		for _, l := range lines {
			out = append(out, name+" "+l)
		}
	}
	return out
}

type cell struct {
	minute               int64
	kind, target, bucket string
}

type sums struct {
	n, late, ok, e504, timeout, suspect, ttftN, missed uint64
	user                                               *stats.Hist
	userNS                                             int64
}

func bucketOf(attempts *uint32) string {
	switch {
	case attempts == nil:
		return "unknown"
	case *attempts <= 1:
		return "0"
	case *attempts == 2:
		return "1"
	}
	return "2+"
}

// recompute is the rollup in Go, from the latest revisions.
func recompute(ops map[string]*rows.Operation) map[cell]*sums {
	out := map[cell]*sums{}
	for _, o := range ops {
		if o.Deleted {
			continue
		}
		k := cell{o.EndedAt / 6e10 * 60, o.Kind, o.Target, bucketOf(o.Attempts)}
		if out[k] == nil {
			out[k] = &sums{user: &stats.Hist{}}
		}
		s := out[k]
		s.n++
		if o.LateFragment {
			s.late++
			continue
		}
		if o.Outcome == rows.OutcomeOK {
			s.ok++
		}
		if o.HTTPStatus == 504 {
			s.e504++
		}
		if o.ErrorClass == rows.ClassTimeout {
			s.timeout++
		}
		if o.TTFTState == rows.TTFTSuspect {
			s.suspect++
		}
		if o.TTFTState == rows.TTFTKnown {
			s.ttftN++
		}
		if o.DeadlineMissed != nil && *o.DeadlineMissed {
			s.missed++
		}
		s.user.Add(float64(o.UserTimeNS) / 1e6)
		s.userNS += o.UserTimeNS
	}
	return out
}

func stored(t *testing.T, conn driver.Conn, view string) map[cell]*sums {
	rs, err := conn.Query(context.Background(), "SELECT toInt64(toUnixTimestamp(minute)), kind, target, retries, n, late_fragments, ok, status_504, errors_timeout, ttft_suspect, ttft_n, deadline_missed, user_time_buckets, user_time_counts, user_time_sum_ns, user_time_n FROM "+view)
	require.NoError(t, err)
	defer rs.Close()
	out := map[cell]*sums{}
	for rs.Next() {
		var k cell
		s := &sums{user: &stats.Hist{}}
		var n uint64
		require.NoError(t, rs.Scan(&k.minute, &k.kind, &k.target, &k.bucket, &s.n, &s.late, &s.ok, &s.e504, &s.timeout, &s.suspect, &s.ttftN, &s.missed, &s.user.Index, &s.user.Count, &s.userNS, &n))
		require.Equal(t, n, s.user.N())
		require.True(t, slices.IsSorted(s.user.Index))
		if len(s.user.Index) == 0 { // as in Go: nil, not empty, columns
			s.user = &stats.Hist{}
		}
		out[k] = s
	}
	require.NoError(t, rs.Err())
	return out
}

func TestRollupEqualsRecomputationInGo(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	job := newJob(t, conn, db)
	latest := map[string]*rows.Operation{}
	for round := range 4 {
		var batch []rows.Row
		for i := range 150 {
			id := fmt.Sprintf("%d-%d", round, i)
			// A third of the later rounds' rows revise earlier ones, some as tombstones.
			if round > 0 && i%3 == 0 {
				id = fmt.Sprintf("%d-%d", rng.IntN(round), rng.IntN(150))
			}
			end := start.Add(time.Duration(rng.Int64N(int64(3 * time.Minute))))
			var attempts *uint32
			if a := rng.IntN(5); a > 0 {
				attempts = ptr(uint32(a))
			}
			o := operation(id, end, attempts, int64(rng.ExpFloat64()*5e9))
			if old := latest[id]; old != nil {
				o.Revision, o.EndedAt = old.Revision+1, old.EndedAt // the key's minute is fixed
				o.Deleted = rng.IntN(4) == 0
			}
			o.Kind = []string{rows.KindChat, rows.KindTool}[rng.IntN(2)]
			o.LateFragment = rng.IntN(20) == 0
			o.TTFTState = []string{rows.TTFTKnown, rows.TTFTSuspect, rows.TTFTMissing}[rng.IntN(3)]
			o.TTFTNS = ptr(int64(rng.ExpFloat64() * 1e9))
			if rng.IntN(5) == 0 {
				o.Outcome, o.ErrorClass, o.HTTPStatus = rows.OutcomeError, rows.ClassTimeout, 504
			}
			o.DeadlineMissed = []*bool{nil, ptr(true), ptr(false)}[rng.IntN(3)]
			latest[id] = o
			batch = append(batch, o)
			if rng.IntN(10) == 0 { // delivered twice
				batch = append(batch, o)
			}
		}
		require.NoError(t, dettest.Insert(ctx, conn, db, time.Now(), batch...))
		st := run(t, job)
		require.Positive(t, st.DirtyMinutes)
		require.Equal(t, recompute(latest), stored(t, conn, db+".rollup_operations_1m"), "round %d", round)
	}
	hours := map[cell]*sums{}
	for k, s := range recompute(latest) {
		k.minute -= k.minute % 3600
		if hours[k] == nil {
			hours[k] = &sums{user: &stats.Hist{}}
		}
		h := hours[k]
		h.n, h.late, h.ok, h.e504, h.timeout = h.n+s.n, h.late+s.late, h.ok+s.ok, h.e504+s.e504, h.timeout+s.timeout
		h.suspect, h.ttftN, h.missed, h.userNS = h.suspect+s.suspect, h.ttftN+s.ttftN, h.missed+s.missed, h.userNS+s.userNS
		h.user.Merge(s.user)
	}
	require.Equal(t, hours, stored(t, conn, db+".rollup_operations_1h"))

	// A second replica from scratch, and a full recomputation, write the same rows.
	before := base(t, conn, db)
	_, err := newJob(t, conn, db).Rebuild(ctx, time.Now())
	require.NoError(t, err)
	require.Equal(t, before, base(t, conn, db))
	for _, table := range []string{"rollup_operations_1m", "rollup_operations_1h"} {
		require.NoError(t, conn.Exec(ctx, "TRUNCATE TABLE "+db+"."+table+"_base"))
	}
	_, err = newJob(t, conn, db).Rebuild(ctx, time.Now())
	require.NoError(t, err)
	require.Equal(t, recompute(latest), stored(t, conn, db+".rollup_operations_1m"))
}

func TestLateRevisionMovesCellAndTombstoneEmptiesIt(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	job := newJob(t, conn, db)
	insert := func(o *rows.Operation) {
		require.NoError(t, dettest.Insert(ctx, conn, db, time.Now(), o))
	}
	cells := func(tier string) []string {
		out := dump(t, conn, "SELECT concat(retries, '=', toString(n)) FROM "+db+".rollup_operations_"+tier)
		sort.Strings(out)
		return out
	}
	insert(operation("a", start, ptr(uint32(1)), 2e9))
	insert(operation("b", start, ptr(uint32(1)), 2e9))
	run(t, job)
	require.Equal(t, []string{"0=2"}, cells("1m"))

	revised := operation("a", start, ptr(uint32(3)), 9e9)
	revised.Revision = 2
	insert(revised)
	run(t, job)
	require.Equal(t, []string{"0=1", "2+=1"}, cells("1m"))
	require.Equal(t, []string{"0=1", "2+=1"}, cells("1h"))

	gone := operation("b", start, nil, 0)
	gone.Revision, gone.Deleted, gone.Agent, gone.Kind = 2, true, "", ""
	insert(gone)
	run(t, job)
	require.Equal(t, []string{"2+=1"}, cells("1m"))
	require.Equal(t, []string{"2+=1"}, cells("1h"))
	require.Equal(t, []string{"0"}, dump(t, conn, "SELECT toString(n) FROM "+db+".rollup_operations_1m_base FINAL WHERE retries = '0'"))

	gone = operation("a", start, nil, 0)
	gone.Revision, gone.Deleted = 3, true
	insert(gone)
	run(t, job)
	require.Empty(t, cells("1m"))
	require.Empty(t, cells("1h"))
}

func TestRunIsIdleWithoutNewRowsAndResumes(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	job := newJob(t, conn, db)
	require.Zero(t, run(t, job).DirtyMinutes)
	r := &rows.Request{RequestID: "r", Steps: 5, Operations: 9, Retries: ptr(uint32(1)), Attempts: ptr(uint32(10))}
	r.ServiceName, r.TraceID, r.Revision, r.Agent, r.Kind, r.Outcome = "it's", "t", 1, "planner", rows.KindAgent, rows.OutcomeOK
	r.EndedAt, r.UserTimeNS, r.SampleWeight, r.DriftNS, r.HiddenPathNS = start.UnixNano(), 20e9, 2.5, ptr(int64(-5)), ptr(int64(0))
	a := &rows.Attempt{AttemptID: "a1", Ordinal: 3, Layer: rows.LayerSDK, DurationNS: 1e9, BackoffBeforeNS: ptr(int64(5e8)), AtCap: true, Leaf: true}
	a.ServiceName, a.TraceID, a.Revision, a.Kind, a.ErrorClass, a.EndedAt, a.SampleWeight = "it's", "t", 1, rows.KindChat, rows.ClassOverload, start.UnixNano(), 2.5
	require.NoError(t, dettest.Insert(ctx, conn, db, time.Now(), r, a))
	st := run(t, job)
	require.Equal(t, 2, st.DirtyMinutes)
	require.Equal(t, 6, st.DirtyHours, "requests, priorities and attempts by hour, agents by ten minutes, hour and day")
	require.Equal(t, []int64{start.Unix()}, st.Touched["it's"])
	require.Equal(t, []string{"4-7 1 2500 1 [-32768] [-32768]"}, dump(t, conn, "SELECT concat(steps_bucket, ' ', retries, ' ', toString(weight_milli), ' ', toString(drift_n), ' ', toString(drift_buckets), ' ', toString(hidden_path_buckets)) FROM "+db+".rollup_requests_1m"))
	require.Equal(t, []string{"3+ overload true 1 500000000"}, dump(t, conn, "SELECT concat(ordinal_bucket, ' ', error_class, ' ', toString(at_cap), ' ', toString(leaf), ' ', toString(backoff_sum_ns)) FROM "+db+".rollup_attempts_1m"))
	st = run(t, job)
	require.Zero(t, st.DirtyMinutes)
	require.Zero(t, st.DirtyHours)
	require.Equal(t, 2, st.Unchanged)
	// A new process reads the overlap again once, and nothing before it.
	st = run(t, newJob(t, conn, db))
	require.Equal(t, 2, st.DirtyMinutes)
}

func TestHoursFollowMoreSlowly(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	// The overlap holds the whole test, so that a slow machine does not move it.
	job, err := rollup.New(conn, rollup.Config{Database: db, Overlap: time.Hour})
	require.NoError(t, err)
	now := time.Now()
	var hours []int
	for i, after := range []time.Duration{0, time.Minute, 6 * time.Minute, 12 * time.Minute} {
		if i < 3 {
			require.NoError(t, dettest.Insert(ctx, conn, db, now, operation(fmt.Sprint("o", i), start, ptr(uint32(1)), 1e9)))
		}
		st, err := job.Run(ctx, now.Add(after))
		require.NoError(t, err)
		hours = append(hours, st.DirtyHours)
	}
	require.Equal(t, []int{10, 0, 10, 0}, hours)
	require.Equal(t, []string{"3"}, dump(t, conn, "SELECT toString(n) FROM "+db+".rollup_operations_1h"))
}

func TestOldMinutesAreLeftAlone(t *testing.T) {
	conn, db := dettest.DB(t)
	old := operation("old", time.Now().Add(-14*24*time.Hour), ptr(uint32(1)), 1e9)
	require.NoError(t, dettest.Insert(context.Background(), conn, db, time.Now(), old))
	st := run(t, newJob(t, conn, db))
	require.Equal(t, 1, st.TooOld)
	require.Zero(t, st.DirtyMinutes)
}

func TestHistoryOverManyPartitions(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	var batch []rows.Row
	for d := range 12 {
		batch = append(batch, operation(fmt.Sprint("d", d), start.AddDate(0, 0, -d), ptr(uint32(1)), 1e9))
	}
	require.NoError(t, dettest.Insert(ctx, conn, db, time.Now(), batch...))
	st := run(t, newJob(t, conn, db))
	require.Equal(t, 12, st.DirtyMinutes)
	require.Len(t, stored(t, conn, db+".rollup_operations_1m"), 12)
}

func TestSQLBucketEqualsGo(t *testing.T) {
	conn, _ := dettest.DB(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	ns := []int64{0, 1, 999, 1000, 1001, 999_999, 1_000_000, 1_000_001, 3600e9, 1e18}
	for range 50_000 {
		ns = append(ns, int64(float64(uint64(1)<<rng.IntN(52))*(1+rng.Float64())))
	}
	checked := 0
	for chunk := range slices.Chunk(ns, 5000) {
		rs, err := conn.Query(context.Background(), "SELECT x, "+stats.SQLBucketExpr("x / 1e6")+" FROM (SELECT toInt64(arrayJoin(?)) AS x)", chunk)
		require.NoError(t, err)
		for rs.Next() {
			var x int64
			var got int16
			require.NoError(t, rs.Scan(&x, &got))
			require.Equal(t, stats.BucketIndex(float64(x)/1e6), got, "%d ns", x)
			checked++
		}
		require.NoError(t, rs.Err())
		require.NoError(t, rs.Close())
	}
	require.Equal(t, len(ns), checked)
}
