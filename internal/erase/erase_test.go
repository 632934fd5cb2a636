package erase

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/detector/rollup"
	"driftline/internal/engine/enginetest"
	"driftline/internal/identity"
	"driftline/internal/rows"
	"driftline/schema"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

const (
	acme  = int64(-77)
	other = int64(78)
)

func ptr[T any](v T) *T { return &v }

// traceOf makes the rows of all tables of one trace whose requests are for these tenants; 0
// is nobody stated.
func traceOf(id string, end time.Time, revision uint64, tenants ...int64) []rows.Row {
	var out []rows.Row
	c := rows.Common{ServiceName: "shop", TraceID: fmt.Sprintf("%032s", id), Revision: revision}
	for i, tenant := range tenants {
		request := fmt.Sprint("r", i)
		f := rows.Facts{Agent: "planner", Kind: rows.KindAgent, Outcome: rows.OutcomeOK, StartedAt: end.UnixNano() - 3e9, EndedAt: end.UnixNano(), SampleWeight: 1}
		r := &rows.Request{Common: c, Facts: f, RequestID: request, Operations: 1, Attempts: ptr(uint32(2)), Retries: ptr(uint32(1)), ReleaseReason: rows.ReleaseRoot}
		r.UserTimeNS = 3e9
		if tenant != 0 {
			r.TenantHash = ptr(tenant)
		}
		f.Kind = rows.KindTool
		o := &rows.Operation{Common: c, Facts: f, OperationID: "o" + request, RequestID: request, Target: "search", Stream: rows.StreamNo, Attempts: ptr(uint32(2))}
		out = append(out, r, o)
		for n := range uint32(2) {
			out = append(out, &rows.Attempt{Common: c, Facts: f, AttemptID: fmt.Sprint("a", n, request), OperationID: "o" + request, RequestID: request, Ordinal: n + 1, Target: "search", DurationNS: 1e9})
		}
		out = append(out, &rows.Segment{Common: c, RequestID: request, RequestEndedAt: end.UnixNano(), Kind: rows.SegmentTool, StartedAt: end.UnixNano() - 3e9, DurationNS: 3e9})
	}
	return append(out, &rows.OpenRequest{Common: c, Agent: "planner", ObservedAt: end.UnixNano() - 1e9, StartedAt: end.UnixNano() - 3e9, LastSpanAt: end.UnixNano() - 2e9, AgeNS: 2e9, Spans: 2})
}

type world struct {
	t    *testing.T
	conn driver.Conn
	db   string
	now  time.Time
	job  *rollup.Job
}

func newWorld(t *testing.T, now time.Time) *world {
	conn, db := dettest.DB(t)
	w := &world{t: t, conn: conn, db: db, now: now}
	w.newJob()
	return w
}

func (w *world) newJob() {
	var err error
	w.job, err = rollup.New(w.conn, rollup.Config{Database: w.db, HourEvery: time.Nanosecond})
	require.NoError(w.t, err)
}

func (w *world) insert(all ...rows.Row) {
	w.t.Helper()
	byRevision := map[uint64][]rows.Row{} // an INSERT keeps a key's last revision alone
	for _, r := range all {
		byRevision[r.Head().Revision] = append(byRevision[r.Head().Revision], r)
	}
	for _, revision := range slices.Sorted(maps.Keys(byRevision)) {
		require.NoError(w.t, dettest.Insert(w.t.Context(), w.conn, w.db, w.now, byRevision[revision]...))
	}
	for _, r := range all { // each trace has a span
		if q, ok := r.(*rows.OpenRequest); ok {
			require.NoError(w.t, w.conn.Exec(w.t.Context(), "INSERT INTO "+w.db+".spans_base (service_name, trace_id, span_id, name, started_at, ingested_at) VALUES (?, ?, 's', 'x', ?, ?)",
				q.ServiceName, q.TraceID, time.Unix(0, q.StartedAt).UTC(), w.now))
		}
	}
}

// rollUp runs the job as often as it takes; the coarser tiers run once an instant.
func (w *world) rollUp() {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	_, err := w.job.Run(w.t.Context(), w.now)
	require.NoError(w.t, err)
}

func (w *world) erase(dry bool, step func(string) error) (Report, error) {
	return Run(w.t.Context(), w.conn, Options{Schema: schema.Options{Database: w.db}, Kind: identity.Tenant, Hash: acme, DryRun: dry, Now: w.now, step: step})
}

func (w *world) lines(sql string) []string {
	w.t.Helper()
	rs, err := w.conn.Query(context.Background(), sql)
	require.NoError(w.t, err, sql)
	defer rs.Close()
	out := []string{}
	for rs.Next() {
		var line string
		require.NoError(w.t, rs.Scan(&line))
		out = append(out, line)
	}
	require.NoError(w.t, rs.Err())
	slices.Sort(out)
	return out
}

// seen is all that readers see: each view's rows, but for when they were stored.
func (w *world) seen(only ...string) map[string][]string {
	w.t.Helper()
	out := map[string][]string{}
	for _, table := range schema.Tables() {
		view := strings.TrimSuffix(table.Name, "_base")
		if view == "alerts" || view == "detector_state" || len(only) > 0 && !slices.Contains(only, view) {
			continue
		}
		columns := w.lines("SELECT name FROM system.columns WHERE database = '" + w.db + "' AND table = '" + view + "' AND name NOT IN ('stored_at', 'ingested_at')")
		out[view] = w.lines("SELECT toString(tuple(" + strings.Join(columns, ", ") + ")) FROM " + w.db + "." + view)
	}
	return out
}

// same holds that two worlds show the same, and tells only where they do not.
func same(t *testing.T, want, got map[string][]string, why ...any) {
	t.Helper()
	require.Len(t, got, len(want))
	for view := range want {
		require.Equal(t, want[view], got[view], "%s: %s", view, fmt.Sprint(why...))
	}
}

// base lists what every base table holds of traces: rows with all revisions.
func (w *world) base() map[string][]string {
	out := map[string][]string{}
	for _, t := range tables() {
		out[t.name] = w.lines("SELECT toString(tuple(* EXCEPT (stored_at, ingested_at))) FROM " + w.db + "." + t.name + " WHERE trace_id != ''")
	}
	return out
}

// story is some traffic of 7 n minutes: what is erased of it and what is not.
func story(at time.Time, n int) (gone, kept []rows.Row) {
	for i := range n { // three in five traces are acme's
		end := at.Add(-time.Duration(i) * 7 * time.Minute)
		id := fmt.Sprint("a", i)
		switch i % 5 {
		case 0, 1:
			gone = append(gone, traceOf(id, end, 1, acme)...)
			gone = append(gone, traceOf(id, end, 7, acme)...) // and a later revision
		case 2: // a request of the trace states nobody
			gone = append(gone, traceOf(id, end, 1, acme, 0)...)
		case 3:
			kept = append(kept, traceOf(id, end, 3, other)...)
		case 4:
			kept = append(kept, traceOf(id, end, 1, 0)...)
		}
	}
	return gone, kept
}

func TestErasesOneTenantAndNothingElse(t *testing.T) {
	now := time.Now().UTC()
	at := now.Truncate(24 * time.Hour).Add(-90 * time.Minute) // over midnight, within the rollups' reach
	gone, kept := story(at, 30)
	w, without := newWorld(t, now), newWorld(t, now)
	w.insert(slices.Concat(gone, kept)...)
	without.insert(kept...)
	w.rollUp()
	without.rollUp()
	require.NotEqual(t, without.seen(), w.seen())
	before := w.base()

	dry, err := w.erase(true, func(string) error { return errors.New("a dry run does something") })
	require.NoError(t, err)
	same(t, before, w.base(), "a dry run changes nothing")
	require.Equal(t, []uint64{18, 6, 18, 0}, []uint64{dry.Requests, dry.Along, dry.Traces, dry.SharedTraces})
	for _, table := range dry.Tables {
		require.Equal(t, len(before[table.Name])-len(without.base()[table.Name]), int(table.Rows), table.Name)
		require.Equal(t, table.Rows, table.Left, table.Name)
	}
	require.Len(t, dry.Tables, 6)
	require.Equal(t, requestsTable, dry.Tables[5].Name)

	got, err := w.erase(false, nil)
	require.NoError(t, err)
	require.Zero(t, got.Left())
	for i := range dry.Tables {
		require.Equal(t, dry.Tables[i].Rows, got.Tables[i].Rows)
	}
	same(t, without.base(), w.base(), "rows of others are as they were, and no other is left")
	w.rollUp()
	same(t, without.seen(), w.seen(), "rollups follow")

	// A second run finds nothing and does nothing.
	again, err := w.erase(false, func(what string) error { return errors.New(what) })
	require.NoError(t, err)
	require.Zero(t, again.Traces)
	same(t, without.base(), w.base())

	// Rows of the erased minutes that come later count at once, whatever had been there.
	late := traceOf("late", at, 1, other)
	w.insert(late...)
	without.insert(late...)
	w.rollUp()
	without.rollUp()
	same(t, without.seen(), w.seen())

	// A replica, or one that starts anew, sees the same.
	w.newJob()
	_, err = w.job.Rebuild(t.Context(), w.now)
	require.NoError(t, err)
	same(t, without.seen(), w.seen())

	// What is erased and arrives again is found again.
	w.insert(traceOf("a0", at, 9, acme)...)
	w.rollUp()
	require.NotEqual(t, without.seen(), w.seen())
	_, err = w.erase(false, nil)
	require.NoError(t, err)
	w.rollUp()
	same(t, without.seen(), w.seen())
}

func TestOfATraceWithRequestsOfOthersOnlyTheRequestsGo(t *testing.T) {
	now := time.Now().UTC()
	at := now.Add(-2 * time.Hour)
	w := newWorld(t, now)
	shared := traceOf("shared", at, 2, acme, other, 0, acme)
	// A request that said acme before its root came.
	was := traceOf("was", at, 1, acme)
	is := traceOf("was", at, 2, other)
	w.insert(slices.Concat(shared, was, is)...)
	w.rollUp()
	r, err := w.erase(false, nil)
	require.NoError(t, err)
	require.Zero(t, r.Left())
	require.Equal(t, []uint64{2, 0, 2, 2}, []uint64{r.Requests, r.Along, r.Traces, r.SharedTraces})
	require.Equal(t, []Table{{"open_requests_base", 3, 3}, {"spans_base", 2, 2}}, slices.SortedFunc(slices.Values(r.Kept), func(a, b Table) int { return strings.Compare(a.Name, b.Name) }))
	w.rollUp()

	want := newWorld(t, now)
	want.insert(slices.Concat(traceOf("shared", at, 2, other, 0), is)...)
	want.rollUp()
	for _, table := range []string{"requests", "operations", "attempts", "segments"} {
		require.Len(t, w.seen(table)[table], len(want.seen(table)[table]), table)
	}
	require.Empty(t, w.lines("SELECT trace_id FROM "+w.db+".requests_base WHERE tenant_hash = -77"))
	require.Len(t, w.lines("SELECT trace_id FROM "+w.db+".requests_base WHERE trace_id != ''"), 3)
	require.Len(t, w.lines("SELECT trace_id FROM "+w.db+".operations_base WHERE trace_id != ''"), 4, "of the request that is another's, both revisions stay")
	for _, name := range []string{"rollup_requests_1m", "rollup_operations_1h", "rollup_attempts_1m"} {
		require.Equal(t, want.seen(name), w.seen(name))
	}
	again, err := w.erase(true, nil)
	require.NoError(t, err)
	require.Zero(t, again.Traces)
}

// Wherever a run ends, and whenever rollups are computed meanwhile, the next one makes it
// right: the rest is erased, and no cell stands that only what is gone made greater.
func TestARunThatEndsAnywhereIsDoneAgain(t *testing.T) {
	now := time.Now().UTC()
	at := now.Add(-3 * time.Hour)
	gone, kept := story(at, 5)
	late := traceOf("late", at, 1, other)
	without := newWorld(t, now)
	without.insert(slices.Concat(kept, late)...)
	without.rollUp()
	want := without.seen()

	var steps []string
	end := func(t *testing.T, n int) {
		w := newWorld(t, now)
		w.insert(slices.Concat(gone, kept)...)
		w.rollUp()
		stop := errors.New("killed")
		count := 0
		_, err := w.erase(false, func(what string) error {
			count++
			switch n {
			case 0: // it goes to its end, and a detector runs beside it all the time
				steps = append(steps, what)
				w.rollUp()
			case count:
				w.rollUp()
				return stop
			}
			return nil
		})
		if n > 0 {
			require.ErrorIs(t, err, stop)
			_, err = w.erase(false, nil)
		}
		require.NoError(t, err)
		w.insert(late...)
		w.rollUp()
		same(t, want, w.seen(), fmt.Sprintf("ended at step %d of %v", n, steps))
	}
	for n := 0; n == 0 || n <= len(steps); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) { end(t, n) })
	}
	require.Greater(t, len(steps), 8)
}

// Of a trace whose requests lie in two days, one may be gone when a run ends.
func TestARunThatEndsBetweenTwoDaysIsDoneAgain(t *testing.T) {
	now := time.Now().UTC()
	midnight := now.Truncate(24 * time.Hour)
	for _, order := range [][]int64{{acme, 0}, {0, acme}} {
		w := newWorld(t, now)
		w.insert(slices.Concat(traceOf("m", midnight.Add(-time.Minute), 1, order[0]), traceOf("m", midnight.Add(-25*time.Hour), 1, order[1]))...)
		stop := errors.New("killed")
		_, err := w.erase(false, func(what string) error {
			if what == "deleted from "+requestsTable {
				return stop
			}
			return nil
		})
		require.ErrorIs(t, err, stop)
		r, err := w.erase(false, nil)
		require.NoError(t, err)
		require.EqualValues(t, 1, r.Requests)
		require.Zero(t, r.Left())
		for name, lines := range w.base() {
			require.Empty(t, lines, name)
		}
	}
}

// Rows that come while others are deleted are left, and the next run finds them.
func TestWhatComesMeanwhileIsFoundByTheNextRun(t *testing.T) {
	now := time.Now().UTC()
	at := now.Add(-2 * time.Hour)
	gone, kept := story(at, 5)
	w, without := newWorld(t, now), newWorld(t, now)
	w.insert(slices.Concat(gone, kept)...)
	without.insert(kept...)
	w.rollUp()
	without.rollUp()
	newer := slices.DeleteFunc(traceOf("a0", at, 9, acme), func(r rows.Row) bool { _, is := r.(*rows.Operation); return !is })
	require.Len(t, newer, 1)
	r, err := w.erase(false, func(what string) error {
		if what == "deleted from operations_base" {
			w.insert(newer...)
			w.rollUp()
		}
		return nil
	})
	require.NoError(t, err)
	for _, table := range r.Tables {
		switch table.Name {
		case "operations_base":
			require.EqualValues(t, 1, table.Left)
		case requestsTable:
			require.NotZero(t, table.Left, "by them the operation is found")
		default:
			require.Zero(t, table.Left, table.Name)
		}
	}
	r, err = w.erase(false, nil)
	require.NoError(t, err)
	require.Zero(t, r.Left())
	same(t, without.base(), w.base())
	w.rollUp()
	same(t, without.seen(), w.seen())
}

// A revision that comes after places were held weighs more than what they were held for.
func TestPlacesHaveRoomForWhatComesMeanwhile(t *testing.T) {
	now := time.Now().UTC()
	at := now.Add(-2 * time.Hour)
	w, without := newWorld(t, now), newWorld(t, now)
	w.insert(traceOf("a", at, 1<<15-2, acme)...) // each weighs one less than a place
	w.rollUp()
	came := false
	_, err := w.erase(false, func(what string) error {
		if !came && what == "held places in operations_base" {
			came = true
			w.insert(traceOf("a", at, 1<<15+50, acme)...)
			w.rollUp()
		}
		return nil
	})
	require.NoError(t, err)
	require.True(t, came)
	for _, w := range []*world{w, without} {
		w.insert(slices.Concat(traceOf("late", at, 1, other), traceOf("later", at, 1, other))...)
		w.rollUp()
	}
	same(t, without.seen(), w.seen())
}

// A request that once said who it was for and now says nobody is of nobody else.
func TestWhatNoLongerSaysWhomItWasForGoesToo(t *testing.T) {
	now := time.Now().UTC()
	at := now.Add(-2 * time.Hour)
	w := newWorld(t, now)
	w.insert(slices.Concat(traceOf("a", at, 1, acme), traceOf("a", at, 2, 0))...)
	r, err := w.erase(false, nil)
	require.NoError(t, err)
	require.Equal(t, []uint64{0, 1, 1, 0, 0}, []uint64{r.Requests, r.Along, r.Traces, r.SharedTraces, r.Left()})
	for name, lines := range w.base() {
		require.Empty(t, lines, name)
	}
}

func TestMinutesThatAreNotComputedAgainKeepTheirCounts(t *testing.T) {
	now := time.Now().UTC()
	w := newWorld(t, now)
	w.insert(traceOf("old", now.Add(-12*24*time.Hour), 1, acme)...)
	w.rollUp()
	before := w.seen("rollup_requests_1m", "rollup_operations_1h")
	require.NotEmpty(t, before["rollup_requests_1m"])
	w.now = now.Add(2 * 24 * time.Hour)
	r, err := w.erase(false, nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Requests)
	require.Zero(t, r.Left())
	for _, table := range tables() {
		require.Empty(t, w.lines("SELECT trace_id FROM "+w.db+"."+table.name), "%s has no placeholders of minutes that nobody computes", table.name)
	}
	w.rollUp()
	require.Equal(t, before, w.seen("rollup_requests_1m", "rollup_operations_1h"))
}

func TestTablesOnOneNodeAreNotThoseOfACluster(t *testing.T) {
	w := newWorld(t, time.Now().UTC())
	_, err := Run(t.Context(), w.conn, Options{Schema: schema.Options{Database: w.db, Cluster: "eu"}, Kind: identity.User, Hash: acme, Now: w.now})
	require.ErrorIs(t, err, ErrCluster)
	require.ErrorContains(t, err, "on one node, not on cluster eu")
	for engine, want := range map[string]string{
		"Distributed('eu-1', 'driftline', 'requests_base_local', cityHash64(trace_id))": "eu-1",
		"Distributed(eu, driftline, requests_base_local)":                               "eu",
		"ReplacingMergeTree(revision) PARTITION BY toDate(ended_at)":                    "",
	} {
		require.Equal(t, want, clusterOf(engine), engine)
	}
}

// Other users of the same engine, by the same id.
func TestAUserAndATenantOfOneIDAreTwo(t *testing.T) {
	now := time.Now().UTC()
	w := newWorld(t, now)
	w.insert(traceOf("x", now.Add(-time.Hour), 1, acme)...)
	r, err := Run(t.Context(), w.conn, Options{Schema: schema.Options{Database: w.db}, Kind: identity.User, Hash: acme, Now: now})
	require.NoError(t, err)
	require.Zero(t, r.Traces)
}

func TestStatementsForAClusterAreSQLToTheEngine(t *testing.T) {
	conn, db := dettest.DB(t)
	o := schema.Options{Database: db, Cluster: "eu-1"}
	for _, table := range tables() {
		sql := o.AlterRows(table.name)
		require.Contains(t, sql, "_local ON CLUSTER `eu-1`")
		rs, err := conn.Query(t.Context(), "EXPLAIN AST "+sql+" DELETE IN PARTITION ID '20260102' WHERE (trace_id, request_id) IN [('a', 'b')] SETTINGS mutations_sync = 2")
		require.NoError(t, err)
		require.NoError(t, rs.Close())
	}
	require.Contains(t, o.AlterRows("spans_base"), "spans_base_v5_local")
}

// More than one statement holds, of whole traces and of single requests.
func TestErasesMoreThanAStatementHolds(t *testing.T) {
	now := time.Now().UTC()
	w := newWorld(t, now)
	insert := func(sql string) {
		require.NoError(t, w.conn.Exec(t.Context(), "INSERT INTO "+w.db+".requests_base (service_name, trace_id, request_id, ended_at, ingested_at, revision, tenant_hash) SELECT 'shop', "+sql))
	}
	at := fmt.Sprintf("toDateTime(%d), toDateTime(%d), 1", now.Add(-time.Hour).Unix(), now.Unix())
	insert(fmt.Sprintf("leftPad(toString(number), 32, '0'), 'r', %s, %d FROM numbers(%d)", at, acme, tracesAtOnce+100))
	insert(fmt.Sprintf("'shared', leftPad(toString(number), 16, '0'), %s, if(number = 0, %d, %d) FROM numbers(%d)", at, other, acme, requestsAtOnce+100))
	r, err := w.erase(false, nil)
	require.NoError(t, err)
	require.Zero(t, r.Left())
	require.EqualValues(t, tracesAtOnce+requestsAtOnce+199, r.Requests)
	require.Equal(t, []string{strings.Repeat("0", 16)}, w.lines("SELECT request_id FROM "+w.db+".requests_base WHERE trace_id != ''"))
}
