package storagetest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/annotate"
	"driftline/internal/clock"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
	"driftline/schema"
)

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		os.Exit(childMain())
	}
	enginetest.Main(m)
}

var ctx = context.Background()

// start is the instant at which the tests' clock stands: today, so that no retention applies.
var start = time.Now().UTC().Truncate(24 * time.Hour).Add(12*time.Hour + 34*time.Second)

// rig is one exporter on one database.
type rig struct {
	t    *testing.T
	db   string
	conn driver.Conn
	clk  *clock.Manual
	// clock, if not nil, is what new exporters get instead of clk.
	clock clock.Clock
	tel   *componenttest.Telemetry
	logs  *observer.ObservedLogs
	exp   exporter.Traces
	// spoiled says that the tables are no longer as the migration made them.
	spoiled bool
}

func newRigOn(t *testing.T, conn driver.Conn, db string) *rig {
	return &rig{t: t, db: db, conn: conn, clk: clock.NewManual(start), tel: componenttest.NewTelemetry()}
}

type option func(*genaiclickhouse.Config)

// newRig takes a migrated, empty database and starts an exporter without queue, so that a
// push returns its own error.
func newRig(t *testing.T, options ...option) *rig {
	e := enginetest.Shared(t)
	r := newRigOn(t, e.Conn(t), migrated.take(t, e))
	t.Cleanup(func() { migrated.giveBack(r, e) })
	r.exp = r.newExporter(e.URL(t), componenttest.NewNopHost(), options...)
	return r
}

// migrated holds databases that a test has left as they were but for rows: a migration
// takes longer than most tests.
var migrated pool

type pool struct {
	mu   sync.Mutex
	made int
	free []string
}

func (p *pool) take(t *testing.T, e *enginetest.Engine) string {
	t.Helper()
	if e.External() {
		db := e.Database(t) // dropped at the test's end
		require.NoError(t, schema.Up(ctx, e.Conn(t), schema.Options{Database: db}, nil))
		return db
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		db := p.free[n-1]
		p.free = p.free[:n-1]
		return db
	}
	p.made++
	db := fmt.Sprint("pooled_", p.made)
	require.NoError(t, schema.Up(ctx, e.Conn(t), schema.Options{Database: db}, nil))
	return db
}

func (p *pool) giveBack(r *rig, e *enginetest.Engine) {
	if e.External() || r.spoiled || r.t.Failed() {
		return
	}
	// Truncation forgets tokens too.
	for _, table := range append([]rows.Table{"spans"}, rows.Tables...) {
		require.NoError(r.t, r.conn.Exec(ctx, "TRUNCATE TABLE "+r.db+"."+string(table)+"_base"))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, r.db)
}

// newBareRig starts one on a database that is not migrated.
func newBareRig(t *testing.T, options ...option) *rig {
	e := enginetest.Shared(t)
	r := newRigOn(t, e.Conn(t), e.Database(t))
	r.exp = r.newExporter(e.URL(t), componenttest.NewNopHost(), options...)
	return r
}

func noQueue(c *genaiclickhouse.Config) {
	c.QueueConfig = configoptional.None[exporterhelper.QueueBatchConfig]()
	c.RetryConfig.Enabled = false
}

func (r *rig) newExporter(endpoint string, host component.Host, options ...option) exporter.Traces {
	r.t.Helper()
	exp, err := r.tryExporter(endpoint, host, options...)
	require.NoError(r.t, err)
	return exp
}

// tryExporter returns the error of the exporter's start.
func (r *rig) tryExporter(endpoint string, host component.Host, options ...option) (exporter.Traces, error) {
	r.t.Helper()
	var clk clock.Clock = r.clk
	if r.clock != nil {
		clk = r.clock
	}
	factory := genaiclickhouse.NewFactoryWithClock(clk)
	cfg := factory.CreateDefaultConfig().(*genaiclickhouse.Config)
	cfg.Endpoint, cfg.Database = endpoint, r.db
	noQueue(cfg)
	for _, o := range options {
		o(cfg)
	}
	require.NoError(r.t, cfg.Validate())
	set := exportertest.NewNopSettings(factory.Type())
	set.ID = component.NewID(factory.Type()) // a persistent queue is found again by it
	set.TelemetrySettings = r.tel.NewTelemetrySettings()
	var core zapcore.Core
	core, r.logs = observer.New(zap.DebugLevel)
	set.Logger = zap.New(core)
	exp, err := factory.CreateTraces(ctx, set, cfg)
	require.NoError(r.t, err)
	err = exp.Start(ctx, host)
	once := &shutdownOnce{Traces: exp}
	r.t.Cleanup(func() { require.NoError(r.t, once.Shutdown(ctx)) })
	return once, err
}

// shutdownOnce lets a test shut an exporter down before its cleanup does.
type shutdownOnce struct {
	exporter.Traces
	once sync.Once
	err  error
}

func (s *shutdownOnce) Shutdown(ctx context.Context) error {
	s.once.Do(func() { s.err = s.Traces.Shutdown(ctx) })
	return s.err
}

func (r *rig) count(query string) (n uint64) {
	r.t.Helper()
	require.NoError(r.t, r.conn.QueryRow(ctx, strings.ReplaceAll(query, "{db}", r.db)).Scan(&n))
	return n
}

// sums adds a counter's points by its attributes' values, joined by "/".
func (r *rig) sums(name string) map[string]int64 {
	out := map[string]int64{}
	m, err := r.tel.GetMetric("otelcol_exporter_genaiclickhouse_" + name)
	if err != nil {
		return out
	}
	for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
		var key []string
		for _, kv := range p.Attributes.ToSlice() {
			key = append(key, kv.Value.String())
		}
		out[strings.Join(key, "/")] += p.Value
	}
	return out
}

// where adds the points of a counter that carry all of the attributes, given as "key=value".
func (r *rig) where(name string, attributes ...string) (n int64) {
	m, err := r.tel.GetMetric("otelcol_exporter_genaiclickhouse_" + name)
	if err != nil {
		return 0
	}
	for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
		there := true
		for _, a := range attributes {
			key, want, _ := strings.Cut(a, "=")
			got, ok := p.Attributes.Value(attribute.Key(key))
			there = there && ok && got.String() == want
		}
		if there {
			n += p.Value
		}
	}
	return n
}

func total(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

// requireLedger checks that every span and every row is accounted for.
func (r *rig) requireLedger() {
	r.t.Helper()
	require.Equal(r.t, total(r.sums("spans_received")),
		total(r.sums("spans_stored"))+total(r.sums("spans_skipped"))+total(r.sums("spans_refused")), "spans")
	require.Equal(r.t, total(r.sums("rows_received")),
		total(r.sums("rows_written"))+total(r.sums("rows_dropped"))+total(r.sums("rows_refused")), "rows")
}

// traces puts each row on a marked span of its own, in the row's trace.
func traces(list ...rows.Row) ptrace.Traces {
	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty()
	spans.Resource().Attributes().PutStr("service.name", "carrier")
	scope := spans.ScopeSpans().AppendEmpty()
	for i, row := range list {
		span := scope.Spans().AppendEmpty()
		span.SetName("carrier span")
		span.SetSpanID(pcommon.SpanID{1, byte(i >> 16), byte(i >> 8), byte(i)})
		span.SetTraceID(pcommon.TraceID{2})
		span.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
		span.SetEndTimestamp(pcommon.NewTimestampFromTime(start.Add(time.Second)))
		span.Attributes().PutBool(annotate.MarkGenAI, true)
		annotate.Encode(row, span.Events().AppendEmpty())
	}
	return td
}

func newSeed(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// randomRow fills every field: optional ones are nil a third of the time, instants lie
// within the last day.
func randomRow(rng *rand.Rand, table rows.Table) rows.Row {
	row, err := rows.New(table)
	if err != nil {
		panic(err)
	}
	value := reflect.ValueOf(row).Elem()
	for _, f := range rows.Fields(table) {
		field := value.FieldByIndex(f.Index)
		if f.Type.Kind() == reflect.Pointer {
			if rng.IntN(3) == 0 {
				continue
			}
			field.Set(reflect.New(f.Type.Elem()))
			field = field.Elem()
		}
		switch {
		case f.Time:
			field.SetInt(start.UnixNano() - rng.Int64N(int64(11*time.Hour)))
		case f.Column == "deleted":
		case f.Column == "trace_id":
			field.SetString(fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64()))
		case keyColumns[f.Column] && f.Column != "service_name" && field.Kind() == reflect.String:
			field.SetString(fmt.Sprintf("%016x", rng.Uint64()))
		case field.Kind() == reflect.String:
			field.SetString([]string{"", "a", "gpt-x", "quote'd \\ \"", "ünï\nx", fmt.Sprint("v", rng.IntN(1000))}[rng.IntN(6)])
		case field.Kind() == reflect.Bool:
			field.SetBool(rng.IntN(2) == 0)
		case field.CanInt():
			field.SetInt(rng.Int64() >> rng.IntN(63) * int64(1-2*rng.IntN(2)))
			if v := field.Int(); v == -1 || v == -2 {
				field.SetInt(-3) // no length of time; the exporter sets such rows aside
			}
			if f.Column == "remaining_ns" {
				field.SetInt(field.Int() % 1e17) // years; the exporter takes more than twelve for twelve
			}
		case field.CanUint():
			field.SetUint(rng.Uint64() >> (64 - field.Type().Bits()) >> 1)
		case field.CanFloat():
			field.SetFloat(rng.ExpFloat64())
		case field.Kind() == reflect.Map:
			if n := rng.IntN(3); n > 0 {
				m := map[string]string{}
				for range n {
					m[fmt.Sprint("key", rng.IntN(5))] = fmt.Sprint("value ", rng.IntN(100))
				}
				field.Set(reflect.ValueOf(m))
			}
		}
	}
	if rng.IntN(2) == 0 {
		follow(rng, row)
	}
	return row
}

// follow makes columns follow from others, as they do in most real rows: the exporter stores
// those in short, and the views must put them back.
func follow(rng *rand.Rand, row rows.Row) {
	length := rng.Int64N(int64(time.Minute))
	switch r := row.(type) {
	case *rows.Operation:
		r.UserTimeNS, r.StartedAt = length, r.EndedAt-length
		same := func() *int64 { v := length; return &v }
		if rng.IntN(2) == 0 {
			r.PathNS, r.AgentTimeNS, r.ToolNS = length, same(), length
		}
		if rng.IntN(2) == 0 {
			r.InferenceTimeNS, r.InferenceSegmentNS = same(), length
		}
		if rng.IntN(2) == 0 {
			hidden := rng.Int64N(length + 1)
			left := length - hidden
			r.HiddenTotalNS, r.AgentTimeNS, r.ToolNS = &hidden, &left, left
		}
		if rng.IntN(2) == 0 {
			first, whole, tokens := rng.Int64N(length+1), same(), 2+rng.Int64N(1000)
			chunk, each := first, (length-first)/(tokens-1)
			r.InferenceTimeNS, r.TTFTNS, r.FirstChunkNS, r.TTFTSegmentNS, r.GenerationNS = whole, &first, &chunk, first, length-first
			r.OutputTokens, r.TimePerOutputTokenNS = &tokens, &each
		}
	case *rows.Request:
		hidden := rng.Int64N(length + 1)
		agent := length - hidden*int64(rng.IntN(2))
		r.UserTimeNS, r.StartedAt, r.HiddenTotalNS, r.AgentTimeNS = length, r.EndedAt-length, &hidden, &agent
	case *rows.Attempt:
		r.DurationNS, r.StartedAt = length, r.EndedAt-length
	}
}

// readBack reads every row of a table's view into the contract's structs, by key.
func (r *rig) readBack(table rows.Table) map[rows.Key]rows.Row {
	r.t.Helper()
	var fields []rows.Field
	var columns []string
	for _, f := range rows.Fields(table) {
		if f.Column == "deleted" {
			continue // the view shows rows that are not
		}
		fields = append(fields, f)
		if f.Time {
			columns = append(columns, "toUnixTimestamp64Nano("+f.Column+")")
			continue
		}
		columns = append(columns, f.Column)
	}
	result, err := r.conn.Query(ctx, "SELECT "+strings.Join(columns, ", ")+" FROM "+r.db+"."+string(table))
	require.NoError(r.t, err)
	defer result.Close()
	out := map[rows.Key]rows.Row{}
	for result.Next() {
		row, err := rows.New(table)
		require.NoError(r.t, err)
		value := reflect.ValueOf(row).Elem()
		var into []any
		for _, f := range fields {
			into = append(into, value.FieldByIndex(f.Index).Addr().Interface())
		}
		require.NoError(r.t, result.Scan(into...))
		for _, f := range fields {
			if field := value.FieldByIndex(f.Index); field.Kind() == reflect.Map && field.Len() == 0 {
				field.SetZero()
			}
		}
		require.NotContains(r.t, out, row.Key(), "the view shows a key twice")
		out[row.Key()] = row
	}
	require.NoError(r.t, result.Err())
	return out
}

// latest is what a view must show of list: per key the highest revision, no tombstones.
func latest(list []rows.Row) map[rows.Key]rows.Row {
	out := map[rows.Key]rows.Row{}
	for _, row := range list {
		if old := out[row.Key()]; old == nil || row.Head().Revision > old.Head().Revision {
			out[row.Key()] = row
		}
	}
	maps.DeleteFunc(out, func(_ rows.Key, row rows.Row) bool { return row.Head().Deleted })
	return out
}

func shuffled[T any](rng *rand.Rand, list []T) []T {
	out := slices.Clone(list)
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
