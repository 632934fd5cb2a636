package genaiclickhouse

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"driftline/exporter/genaiclickhouse/internal/metadata"
	"driftline/internal/clock"
	"driftline/internal/rows"
	"driftline/schema"
)

// telemetry names what the exporter counts; metadata.yaml describes each metric.
type telemetry struct {
	b   *metadata.TelemetryBuilder
	clk clock.Clock
	// parts is the last count of parts.
	parts gauge
	// batches counts acknowledged INSERTs per table; lastInsert is the instant of the last,
	// in Unix nanoseconds, 0 for none.
	batches    map[rows.Table]*atomic.Int64
	lastInsert atomic.Int64
}

func newTelemetry(set component.TelemetrySettings, clk clock.Clock) (*telemetry, error) {
	b, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	t := &telemetry{b: b, clk: clk, batches: map[rows.Table]*atomic.Int64{}}
	for _, table := range writeOrder {
		t.batches[table] = &atomic.Int64{}
	}
	return t, errors.Join(
		b.RegisterExporterGenaiclickhouseLastInsertAgeCallback(t.observeLastInsert),
		b.RegisterExporterGenaiclickhousePartsPressureCallback(t.observePressure),
		b.RegisterExporterGenaiclickhousePartsPerPartitionCallback(t.observeParts),
	)
}

func (t *telemetry) shutdown() { t.b.Shutdown() }

func tableAttr(table rows.Table) attribute.KeyValue { return attribute.String("table", string(table)) }
func classAttr(class errorClass) attribute.KeyValue { return attribute.String("class", string(class)) }
func reasonAttr(reason string) attribute.KeyValue   { return attribute.String("reason", reason) }

// codeAttrs name a failure by number, for those who look it up, and by word.
func codeAttrs(f failure) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("code", strconv.Itoa(int(f.code))), attribute.String("error", f.name)}
}

func (t *telemetry) spansReceived(ctx context.Context, n int64) {
	t.b.ExporterGenaiclickhouseSpansReceived.Add(ctx, n)
}

func (t *telemetry) spansStored(ctx context.Context, n int) {
	t.b.ExporterGenaiclickhouseSpansStored.Add(ctx, int64(n))
}

func (t *telemetry) spansSkipped(ctx context.Context, reason string, n int64) {
	t.b.ExporterGenaiclickhouseSpansSkipped.Add(ctx, n, metric.WithAttributes(reasonAttr(reason)))
}

func (t *telemetry) spansRefused(ctx context.Context, n int64, class errorClass) {
	t.b.ExporterGenaiclickhouseSpansRefused.Add(ctx, n, metric.WithAttributes(classAttr(class)))
}

func (t *telemetry) rowsReceived(ctx context.Context, found map[rows.Table]int64) {
	for table, n := range found {
		t.b.ExporterGenaiclickhouseRowsReceived.Add(ctx, n, metric.WithAttributes(tableAttr(table)))
	}
}

// rowsWritten counts one acknowledged INSERT with its rows and their size in bytes before
// compression.
func (t *telemetry) rowsWritten(ctx context.Context, table rows.Table, n, size int) {
	to := metric.WithAttributes(tableAttr(table))
	t.b.ExporterGenaiclickhouseRowsWritten.Add(ctx, int64(n), to)
	t.b.ExporterGenaiclickhouseWrittenBytes.Add(ctx, int64(size), to)
	t.batches[table].Add(1)
	t.lastInsert.Store(t.clk.Now().UnixNano())
}

// storedBatches is how many INSERTs into a table ClickHouse has acknowledged.
func (t *telemetry) storedBatches(table rows.Table) int64 {
	if n := t.batches[table]; n != nil {
		return n.Load()
	}
	return 0
}

func (t *telemetry) rowsRefused(ctx context.Context, left map[rows.Table]int64, class errorClass) {
	for table, n := range left {
		if n > 0 {
			t.b.ExporterGenaiclickhouseRowsRefused.Add(ctx, n, metric.WithAttributes(tableAttr(table), classAttr(class)))
		}
	}
}

func (t *telemetry) rowDropped(ctx context.Context, b *badRow) {
	t.b.ExporterGenaiclickhouseRowsDropped.Add(ctx, 1, metric.WithAttributes(tableAttr(b.table), reasonAttr(b.reason)))
}

func (t *telemetry) insertDuration(ctx context.Context, d time.Duration, table rows.Table, outcome string) {
	t.b.ExporterGenaiclickhouseInsertDuration.Record(ctx, d.Seconds(), metric.WithAttributes(tableAttr(table), attribute.String("outcome", outcome)))
}

func (t *telemetry) insertError(ctx context.Context, f failure) {
	t.b.ExporterGenaiclickhouseInsertErrors.Add(ctx, 1, metric.WithAttributes(append(codeAttrs(f), classAttr(f.class))...))
}

// retry counts a batch that is handed back to be tried again.
func (t *telemetry) retry(ctx context.Context, f failure) {
	t.b.ExporterGenaiclickhouseRetries.Add(ctx, 1, metric.WithAttributes(codeAttrs(f)...))
}

func (t *telemetry) sentBytes(n int) {
	t.b.ExporterGenaiclickhouseSentBytes.Add(context.Background(), int64(n))
}

// schemaVersion shows the version found beside the one that this exporter writes.
func (t *telemetry) schemaVersion(ctx context.Context, found uint32) {
	t.b.ExporterGenaiclickhouseSchemaVersion.Record(ctx, int64(found))
	t.b.ExporterGenaiclickhouseSchemaVersionWanted.Record(ctx, schema.Version)
}

func (t *telemetry) ready(ctx context.Context, ready bool) {
	n := int64(0)
	if ready {
		n = 1
	}
	t.b.ExporterGenaiclickhouseReady.Record(ctx, n)
}

func (t *telemetry) observeLastInsert(_ context.Context, o metric.Float64Observer) error {
	if last := t.lastInsert.Load(); last != 0 {
		// A clock that was set back makes no negative age.
		o.Observe(max(0, t.clk.Now().Sub(time.Unix(0, last)).Seconds()))
	}
	return nil
}

func (t *telemetry) observePressure(_ context.Context, o metric.Float64Observer) error {
	for _, p := range t.parts.get(t.clk.Now()) {
		for limit, at := range map[string]uint64{"delay": p.delayAt, "throw": p.throwAt} {
			if at > 0 { // 0 turns the limit off
				o.Observe(float64(p.parts)/float64(at), metric.WithAttributes(tableAttr(p.table), attribute.String("limit", limit)))
			}
		}
	}
	return nil
}

func (t *telemetry) observeParts(_ context.Context, o metric.Int64Observer) error {
	for _, p := range t.parts.get(t.clk.Now()) {
		o.Observe(int64(p.parts), metric.WithAttributes(tableAttr(p.table)))
	}
	return nil
}
