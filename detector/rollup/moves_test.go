package rollup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/internal/rows"
)

func ref[T any](v T) *T { return &v }

// lines renders a query's one column, sorted.
func lines(t *testing.T, conn driver.Conn, query string) []string {
	t.Helper()
	rs, err := conn.Query(context.Background(), query)
	require.NoError(t, err, query)
	defer rs.Close()
	out := []string{}
	for rs.Next() {
		var line string
		require.NoError(t, rs.Scan(&line))
		out = append(out, line)
	}
	require.NoError(t, rs.Err())
	slices.Sort(out)
	return out
}

// content is all that a rollup's readers see of it.
func content(t *testing.T, conn driver.Conn, db string, l level) []string {
	columns := strings.TrimSuffix(l.columns(), ", version")
	return lines(t, conn, fmt.Sprintf("SELECT toString(tuple(%s)) FROM %s.%s", columns, db, strings.TrimSuffix(l.target, "_base")))
}

// stored is all of a rollup, with versions and zeros, but when it was written.
func stored(t *testing.T, conn driver.Conn, db string) map[string][]string {
	out := map[string][]string{}
	for _, l := range levels(db) {
		out[l.target] = lines(t, conn, fmt.Sprintf("SELECT toString(tuple(%s)) FROM %s.%s FINAL", l.columns(), db, l.target))
	}
	return out
}

// plain is what a rollup must hold, by one simple query: minutes from the view of the base
// rows, coarser tiers from their source's view. It folds nothing.
func plain(t *testing.T, conn driver.Conn, db string, l level) []string {
	from, where := strings.TrimSuffix(strings.TrimSuffix(l.from, " FINAL"), "_base"), ""
	if strings.HasPrefix(l.from, "(") {
		for _, tr := range tiers() {
			if tr.name+"_base" == l.target {
				from = db + "." + tr.source
			}
		}
	}
	// The views have no tombstones, and so no column for them.
	live := strings.NewReplacer("NOT deleted AND ", "", "NOT deleted", "true")
	with := ""
	if len(l.with) > 0 {
		with = "WITH " + live.Replace(strings.Join(l.with, ", ")) + " "
	}
	exprs := []string{"service_name", l.cell}
	for _, d := range l.dims {
		exprs = append(exprs, "any("+d.expr+")")
	}
	for _, a := range l.aggs {
		e := live.Replace(a.expr)
		if a.hist {
			exprs = append(exprs, e+".1", e+".2")
		} else {
			exprs = append(exprs, e)
		}
	}
	groups := []string{"service_name", l.cell}
	for _, d := range l.dims {
		groups = append(groups, d.expr)
	}
	return lines(t, conn, fmt.Sprintf("%sSELECT toString(tuple(%s)) FROM %s%s GROUP BY %s", with, strings.Join(exprs, ", "), from, where, strings.Join(groups, ", ")))
}

// traffic makes random rows and later revisions of them.
type traffic struct {
	rng   *rand.Rand
	start time.Time
	// names is how many different values each label takes.
	names int
	facts map[string]*rows.Facts
	rev   map[string]uint64
}

func (g *traffic) pick(prefix string) string { return fmt.Sprint(prefix, g.rng.IntN(g.names)) }

func (g *traffic) maybe(v int64) *int64 {
	if g.rng.IntN(4) == 0 {
		return nil
	}
	return &v
}

// fill sets what an operation, a request or an attempt of this key may have in any
// revision; its service and end are those of the key.
func (g *traffic) fill(key string, c *rows.Common, f *rows.Facts) {
	if g.facts[key] == nil {
		g.facts[key] = &rows.Facts{EndedAt: g.start.Add(time.Duration(g.rng.Int64N(int64(3 * time.Hour)))).UnixNano()}
	}
	g.rev[key]++
	c.ServiceName, c.TraceID, c.Revision, c.Deleted = "shop", "trace-"+key, g.rev[key], g.rng.IntN(12) == 0
	f.Agent, f.ServiceVersion, f.Priority, f.SampleWeight = g.pick("agent"), g.pick("1."), g.pick("p"), 1
	f.Kind = []string{rows.KindChat, rows.KindTool, rows.KindAgent}[g.rng.IntN(3)]
	f.EndedAt = g.facts[key].EndedAt
	f.StartedAt, f.LateFragment = f.EndedAt-1e9, g.rng.IntN(15) == 0
	f.Outcome = rows.OutcomeOK
	if g.rng.IntN(4) == 0 {
		f.Outcome, f.ErrorClass, f.HTTPStatus = rows.OutcomeError, []string{rows.ClassTimeout, rows.ClassOverload, "odd"}[g.rng.IntN(3)], 504
	}
}

func (g *traffic) latency() int64 { return int64(g.rng.ExpFloat64() * 2e9) }

func (g *traffic) row(id int) rows.Row {
	switch id % 3 {
	case 0:
		o := &rows.Operation{OperationID: "o", Target: g.pick("model"), Endpoint: g.pick("https://"), Region: g.pick("eu-"), Stream: rows.StreamYes, AtCap: g.rng.IntN(5) == 0}
		g.fill(fmt.Sprint("o", id), &o.Common, &o.Facts)
		o.UserTimeNS, o.InferenceTimeNS, o.AgentTimeNS = g.latency(), g.maybe(g.latency()), g.maybe(g.latency())
		o.TTFTState, o.TTFTNS, o.QueueNS = []string{rows.TTFTKnown, rows.TTFTMissing, rows.TTFTSuspect}[g.rng.IntN(3)], ref(g.latency()), g.latency()
		o.InputTokens, o.CachedTokens = g.maybe(int64(g.rng.IntN(100_000))), g.maybe(50)
		if a := g.rng.IntN(5); a > 0 {
			o.Attempts, o.LeafAttempts = ref(uint32(a)), ref(uint32(a))
		}
		if g.rng.IntN(2) == 0 {
			o.DeadlineMissed, o.MissCause = ref(true), []string{"own", "inherited"}[g.rng.IntN(2)]
		}
		return o
	case 1:
		r := &rows.Request{RequestID: "r", Steps: uint32(g.rng.IntN(20)), Retries: ref(uint32(g.rng.IntN(3)))}
		g.fill(fmt.Sprint("r", id), &r.Common, &r.Facts)
		r.UserTimeNS, r.DriftNS, r.DeadlineMissed = g.latency(), g.maybe(g.latency()-1e9), ref(g.rng.IntN(2) == 0)
		return r
	}
	a := &rows.Attempt{AttemptID: "a", Ordinal: uint32(1 + g.rng.IntN(4)), Layer: rows.LayerSDK, Target: g.pick("model"), Endpoint: g.pick("https://"), DurationNS: g.latency(), AtCap: g.rng.IntN(3) == 0}
	g.fill(fmt.Sprint("a", id), &a.Common, &a.Facts)
	return a
}

func newTraffic(t *testing.T, start time.Time, names int) *traffic {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &traffic{rng: rand.New(rand.NewPCG(seed, 7)), start: start, names: names, facts: map[string]*rows.Facts{}, rev: map[string]uint64{}}
}

func job(t *testing.T, conn driver.Conn, cfg Config) *Job {
	t.Helper()
	cfg.HourEvery = time.Nanosecond
	j, err := New(conn, cfg)
	require.NoError(t, err)
	return j
}

// Revisions that move rows from cell to cell, tombstones and duplicates, in any order, end
// in what one look at the base rows gives, in every table.
func TestEveryRollupFollowsItsBaseRows(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	now := time.Now().UTC()
	g := newTraffic(t, now.Truncate(24*time.Hour).Add(-25*time.Hour), 3) // over midnight
	j := job(t, conn, Config{Database: db})
	const keys, rounds = 150, 3
	var all []rows.Row
	for range rounds {
		for range keys {
			all = append(all, g.row(g.rng.IntN(keys)))
		}
	}
	g.rng.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	for batch := range slices.Chunk(all, keys) {
		require.NoError(t, dettest.Insert(ctx, conn, db, now, append(slices.Clone(batch), batch[:20]...)...))
		now = now.Add(time.Second) // the coarser tiers run once an instant
		_, err := j.Run(ctx, now)
		require.NoError(t, err)
	}
	for _, l := range levels(db) {
		want := plain(t, conn, db, l)
		require.NotEmpty(t, want, l.target)
		require.Equal(t, want, content(t, conn, db, l), l.target)
	}

	// Another replica writes the same rows, with the same versions.
	first := stored(t, conn, db)
	_, err := job(t, conn, Config{Database: db}).Rebuild(ctx, now)
	require.NoError(t, err)
	require.Equal(t, first, stored(t, conn, db))

	// One that has nothing, and sees only the end, does so too, but for what it never had to
	// take back.
	seen := map[string][]string{}
	for _, l := range levels(db) {
		seen[l.target] = content(t, conn, db, l)
		require.NoError(t, conn.Exec(ctx, "TRUNCATE TABLE "+db+"."+l.target))
	}
	_, err = job(t, conn, Config{Database: db}).Rebuild(ctx, now)
	require.NoError(t, err)
	second := stored(t, conn, db)
	for _, l := range levels(db) {
		require.Equal(t, seen[l.target], content(t, conn, db, l), l.target)
		if strings.HasSuffix(l.target, "_1m_base") {
			require.Subset(t, first[l.target], second[l.target], l.target)
		}
	}
}
