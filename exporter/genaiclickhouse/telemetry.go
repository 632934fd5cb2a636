package genaiclickhouse

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"driftline/exporter/genaiclickhouse/internal/metadata"
	"driftline/internal/rows"
)

// telemetry names what the exporter counts; metadata.yaml describes each metric.
type telemetry struct{ b *metadata.TelemetryBuilder }

func newTelemetry(set component.TelemetrySettings) (*telemetry, error) {
	b, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	return &telemetry{b}, nil
}

func (t *telemetry) shutdown() { t.b.Shutdown() }

func tableAttr(table rows.Table) attribute.KeyValue { return attribute.String("table", string(table)) }
func classAttr(class errorClass) attribute.KeyValue { return attribute.String("class", string(class)) }
func reasonAttr(reason string) attribute.KeyValue   { return attribute.String("reason", reason) }

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

func (t *telemetry) rowsWritten(ctx context.Context, table rows.Table, n int) {
	t.b.ExporterGenaiclickhouseRowsWritten.Add(ctx, int64(n), metric.WithAttributes(tableAttr(table)))
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

func (t *telemetry) insertError(ctx context.Context, code string, class errorClass) {
	t.b.ExporterGenaiclickhouseInsertErrors.Add(ctx, 1, metric.WithAttributes(attribute.String("code", code), classAttr(class)))
}

func (t *telemetry) sentBytes(n int) {
	t.b.ExporterGenaiclickhouseSentBytes.Add(context.Background(), int64(n))
}

func (t *telemetry) schemaVersion(ctx context.Context, v uint32) {
	t.b.ExporterGenaiclickhouseSchemaVersion.Record(ctx, int64(v))
}

func (t *telemetry) ready(ctx context.Context, ready bool) {
	n := int64(0)
	if ready {
		n = 1
	}
	t.b.ExporterGenaiclickhouseReady.Record(ctx, n)
}
