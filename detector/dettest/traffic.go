package dettest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"driftline/internal/rows"
)

// Traffic makes random rows and later revisions of them.
type Traffic struct {
	Rand *rand.Rand
	// Start is the earliest end of a new key's rows; they end in the three hours after it.
	Start time.Time
	// names is how many different values each label takes.
	names  int
	ends   map[string]int64
	latest map[string]rows.Row
}

// NewTraffic makes a source of rows with labels of so many names each, and logs its seed.
func NewTraffic(t testing.TB, start time.Time, names int) *Traffic {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &Traffic{Rand: rand.New(rand.NewPCG(seed, 7)), Start: start, names: names, ends: map[string]int64{}, latest: map[string]rows.Row{}}
}

// Latest lists each key's last revision, without tombstones, in a fixed order.
func (g *Traffic) Latest() []rows.Row {
	var keys []string
	for key, row := range g.latest {
		if !row.Head().Deleted {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	out := make([]rows.Row, len(keys))
	for i, key := range keys {
		out[i] = g.latest[key]
	}
	return out
}

// Row makes a further revision of the row with this number, which is an operation, a
// request or an attempt. All but its key and its end may differ from the one before.
func (g *Traffic) Row(id int) rows.Row {
	key := fmt.Sprint([]string{"o", "r", "a"}[id%3], id)
	row := g.row(key, id)
	g.latest[key] = row
	return row
}

func (g *Traffic) row(key string, id int) rows.Row {
	switch id % 3 {
	case 0:
		o := &rows.Operation{OperationID: "o", RequestID: "r", Target: g.pick("model"), Endpoint: g.pick("https://"), Region: g.pick("eu-"), Stream: rows.StreamYes, AtCap: g.Rand.IntN(5) == 0}
		g.fill(key, &o.Common, &o.Facts)
		o.UserTimeNS, o.InferenceTimeNS, o.AgentTimeNS, o.HiddenTotalNS = g.latency(), g.maybe(g.latency()), g.maybe(g.latency()), g.maybe(g.latency())
		o.TTFTState, o.TTFTNS, o.QueueNS = []string{rows.TTFTKnown, rows.TTFTMissing, rows.TTFTSuspect}[g.Rand.IntN(3)], ref(g.latency()), g.latency()
		o.InputTokens, o.CachedTokens = g.maybe(int64(g.Rand.IntN(100_000))), g.maybe(50)
		if a := g.Rand.IntN(5); a > 0 {
			o.Attempts, o.LeafAttempts = ref(uint32(a)), ref(uint32(a))
		}
		if g.Rand.IntN(2) == 0 {
			o.DeadlineMissed, o.MissCause = ref(true), []string{"own", "inherited"}[g.Rand.IntN(2)]
		}
		return o
	case 1:
		r := &rows.Request{RequestID: "r", Steps: uint32(g.Rand.IntN(20)), Retries: ref(uint32(g.Rand.IntN(3))), ReleaseReason: rows.ReleaseRoot}
		g.fill(key, &r.Common, &r.Facts)
		r.UserTimeNS, r.DriftNS, r.DeadlineMissed = g.latency(), g.maybe(g.latency()-1e9), ref(g.Rand.IntN(2) == 0)
		r.HiddenPathNS, r.HiddenTotalNS, r.BudgetNS, r.FailedAttemptNS = g.maybe(g.latency()), g.maybe(g.latency()), g.maybe(60e9), g.latency()
		return r
	}
	a := &rows.Attempt{AttemptID: "a", OperationID: "o", RequestID: "r", Ordinal: uint32(1 + g.Rand.IntN(4)), Layer: rows.LayerSDK, Target: g.pick("model"), Endpoint: g.pick("https://"), DurationNS: g.latency(), AtCap: g.Rand.IntN(3) == 0}
	g.fill(key, &a.Common, &a.Facts)
	return a
}

func (g *Traffic) fill(key string, c *rows.Common, f *rows.Facts) {
	if g.ends[key] == 0 {
		g.ends[key] = g.Start.Add(time.Duration(g.Rand.Int64N(int64(3 * time.Hour)))).UnixNano()
	}
	c.ServiceName, c.TraceID, c.Revision, c.Deleted = "shop", "trace-"+key, 1, g.Rand.IntN(12) == 0
	if before := g.latest[key]; before != nil {
		c.Revision = before.Head().Revision + 1
	}
	f.Agent, f.ServiceVersion, f.Priority, f.SampleWeight = g.pick("agent"), g.pick("1."), g.pick("p"), 1
	f.Kind = []string{rows.KindChat, rows.KindTool, rows.KindAgent}[g.Rand.IntN(3)]
	f.EndedAt = g.ends[key]
	f.StartedAt, f.LateFragment = f.EndedAt-1e9, g.Rand.IntN(15) == 0
	f.Outcome = rows.OutcomeOK
	if g.Rand.IntN(4) == 0 {
		f.Outcome, f.ErrorClass, f.HTTPStatus = rows.OutcomeError, []string{rows.ClassTimeout, rows.ClassOverload, "odd"}[g.Rand.IntN(3)], 504
	}
}

func (g *Traffic) pick(prefix string) string { return fmt.Sprint(prefix, g.Rand.IntN(g.names)) }

func (g *Traffic) maybe(v int64) *int64 {
	if g.Rand.IntN(4) == 0 {
		return nil
	}
	return &v
}

func (g *Traffic) latency() int64 { return int64(g.Rand.ExpFloat64() * 2e9) }

func ref[T any](v T) *T { return &v }

// Mess is a story of so many rows, in batches: revisions of them in random order, tombstones,
// rows that move from cell to cell, and batches that come twice.
func (g *Traffic) Mess(keys, batches int) [][]rows.Row {
	var all []rows.Row
	for range batches {
		for range keys {
			all = append(all, g.Row(g.Rand.IntN(keys)))
		}
	}
	g.Rand.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	var out [][]rows.Row
	for batch := range slices.Chunk(all, keys) {
		out = append(out, append(slices.Clone(batch), batch[:keys/5]...))
	}
	return append(out, out[0])
}
