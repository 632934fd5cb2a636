package golden

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"driftline/detector/rollup"
	"driftline/exporter/genaiclickhouse"
	"driftline/internal/annotate"
	"driftline/internal/clock"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
	"driftline/processor/genaisegment"
	"driftline/schema"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// t0 is where hand-written spans start: fixed, so that golden files do not change from day
// to day. Retention is set long enough for it.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// storage is a migrated database with its exporter and rollup job, shared by the runs of
// one test. Each run has an hour and trace ids of its own, so that they do not touch.
type storage struct {
	db   string
	conn driver.Conn
	exp  exporter.Traces
	job  *rollup.Job
	runs int
	// pending is what processors have sent and the exporter not yet got.
	pending ptrace.Traces
}

// newStorage makes a storage whose exporter judges timestamps from now.
func newStorage(t *testing.T, now time.Time) *storage {
	t.Helper()
	e := enginetest.Shared(t)
	s := &storage{db: e.Database(t), conn: e.Conn(t), pending: ptrace.NewTraces()}
	days := map[string]int{}
	for _, key := range schema.TTLKeys() {
		days[key] = 10_000
	}
	require.NoError(t, schema.Up(t.Context(), s.conn, schema.Options{Database: s.db, TTLDays: days}, nil))
	var err error
	s.job, err = rollup.New(s.conn, rollup.Config{Database: s.db, HourEvery: time.Nanosecond})
	require.NoError(t, err)

	ef := genaiclickhouse.NewFactoryWithClock(clock.NewManual(now))
	cfg := ef.CreateDefaultConfig().(*genaiclickhouse.Config)
	cfg.Endpoint, cfg.Database = e.URL(t), s.db
	cfg.QueueConfig = configoptional.None[exporterhelper.QueueBatchConfig]()
	cfg.RetryConfig.Enabled = false
	require.NoError(t, cfg.Validate())
	s.exp, err = ef.CreateTraces(t.Context(), exportertest.NewNopSettings(ef.Type()), cfg)
	require.NoError(t, err)
	require.NoError(t, s.exp.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, s.exp.Shutdown(context.Background())) })
	return s
}

// store writes what processors have sent and rolls it up.
func (s *storage) store(t *testing.T, now time.Time) {
	t.Helper()
	if s.pending.SpanCount() > 0 {
		require.NoError(t, s.exp.ConsumeTraces(t.Context(), s.pending))
		s.pending = ptrace.NewTraces()
	}
	_, err := s.job.Run(t.Context(), now)
	require.NoError(t, err)
}

var rollups = []string{
	"rollup_requests_1m", "rollup_requests_1h", "rollup_operations_1m", "rollup_operations_1h", "rollup_attempts_1m", "rollup_attempts_1h",
}

// rig is a processor on a manual clock, in front of a storage.
type rig struct {
	*storage
	t     *testing.T
	clock *clock.Manual
	proc  processor.Traces
	// run is the second byte of the run's trace ids; base is where its hour starts.
	run  int
	base time.Time
	// sent is every batch that the processor sent, in order.
	sent []ptrace.Traces
}

// newRig makes a rig for hand-written spans, in an hour of its own.
func newRig(t *testing.T, s *storage) *rig {
	t.Helper()
	s.runs++
	return newRigAt(t, s, t0.Add(time.Duration(s.runs)*time.Hour))
}

func newRigAt(t *testing.T, s *storage, base time.Time) *rig {
	t.Helper()
	return newRigWith(t, s, base, func(*genaisegment.Config) {})
}

// newRigWith makes a rig whose processor has other settings than the defaults.
func newRigWith(t *testing.T, s *storage, base time.Time, change func(*genaisegment.Config)) *rig {
	t.Helper()
	r := &rig{storage: s, t: t, clock: clock.NewManual(base), run: s.runs, base: base}
	next, err := consumer.NewTraces(func(_ context.Context, td ptrace.Traces) error {
		batch := ptrace.NewTraces()
		td.CopyTo(batch)
		r.sent = append(r.sent, batch)
		td.ResourceSpans().MoveAndAppendTo(s.pending.ResourceSpans())
		return nil
	})
	require.NoError(t, err)
	pf := genaisegment.NewFactoryWithClock(r.clock)
	cfg := pf.CreateDefaultConfig().(*genaisegment.Config)
	change(cfg)
	require.NoError(t, cfg.Validate())
	r.proc, err = pf.CreateTraces(t.Context(), processortest.NewNopSettings(pf.Type()), cfg, next)
	require.NoError(t, err)
	require.NoError(t, r.proc.Start(t.Context(), componenttest.NewNopHost()))
	return r
}

// consume hands hand-written spans to the processor as a batch of its own, moved to the
// run's hour.
func (r *rig) consume(td ptrace.Traces) {
	r.t.Helper()
	batch := ptrace.NewTraces()
	td.CopyTo(batch)
	shift := func(at pcommon.Timestamp) pcommon.Timestamp { return at + pcommon.Timestamp(r.base.Sub(t0)) }
	for _, rs := range batch.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				id := span.TraceID()
				id[1] = byte(r.run)
				span.SetTraceID(id)
				span.SetStartTimestamp(shift(span.StartTimestamp()))
				span.SetEndTimestamp(shift(span.EndTimestamp()))
				for _, event := range span.Events().All() {
					event.SetTimestamp(shift(event.Timestamp()))
				}
			}
		}
	}
	require.NoError(r.t, r.proc.ConsumeTraces(r.t.Context(), batch))
}

// store writes what the processor has sent and rolls it up.
func (r *rig) store() {
	r.t.Helper()
	r.storage.store(r.t, r.clock.Now())
}

// view reads every row of a table's view into the contract's structs, by key.
func (s *storage) view(t *testing.T, table rows.Table) []rows.Row {
	t.Helper()
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
	result, err := s.conn.Query(t.Context(), "SELECT "+strings.Join(columns, ", ")+" FROM "+s.db+"."+string(table))
	require.NoError(t, err)
	defer result.Close()
	var out []rows.Row
	for result.Next() {
		row, err := rows.New(table)
		require.NoError(t, err)
		value := reflect.ValueOf(row).Elem()
		var into []any
		for _, f := range fields {
			into = append(into, value.FieldByIndex(f.Index).Addr().Interface())
		}
		require.NoError(t, result.Scan(into...))
		out = append(out, row)
	}
	require.NoError(t, result.Err())
	slices.SortFunc(out, func(x, y rows.Row) int { return strings.Compare(orderOf(x), orderOf(y)) })
	return out
}

// records reads a relation as columns by name, without those that say when it was stored.
func (s *storage) records(t *testing.T, query string) []map[string]any {
	t.Helper()
	result, err := s.conn.Query(t.Context(), query)
	require.NoError(t, err)
	defer result.Close()
	var out []map[string]any
	for result.Next() {
		var into []any
		for _, c := range result.ColumnTypes() {
			into = append(into, reflect.New(c.ScanType()).Interface())
		}
		require.NoError(t, result.Scan(into...))
		record := map[string]any{}
		for i, name := range result.Columns() {
			if name == "stored_at" || name == "ingested_at" {
				continue
			}
			record[name] = reflect.ValueOf(into[i]).Elem().Interface()
		}
		out = append(out, record)
	}
	require.NoError(t, result.Err())
	return out
}

// tombstones lists the ids of operations whose keys the processor took back, in order.
func tombstones(t *testing.T, r *rig) []string {
	t.Helper()
	var out []string
	for _, td := range r.sent {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					for _, event := range span.Events().All() {
						row, err := annotate.Decode(event)
						if errors.Is(err, annotate.ErrNotRow) {
							continue
						}
						require.NoError(t, err)
						if o, ok := row.(*rows.Operation); ok && o.Deleted {
							out = append(out, o.OperationID)
						}
					}
				}
			}
		}
	}
	return out
}
