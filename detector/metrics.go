package detector

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

type metrics struct {
	evaluations   metric.Int64Counter
	duration      metric.Float64Histogram
	verdicts      metric.Int64Counter
	firing        metric.Int64Gauge
	notifications metric.Int64Counter
	lag           metric.Float64Gauge
	delay         metric.Float64Gauge
	dirty         metric.Int64Counter
	tooOld        metric.Int64Counter
	clockJumps    metric.Int64Counter
	backfill      metric.Float64Gauge
	dropped       metric.Int64Counter
	outbox        metric.Int64Gauge
	muted         metric.Int64Counter
}

func newMetrics(m metric.Meter) (*metrics, error) {
	var errs [14]error
	out := &metrics{}
	out.evaluations, errs[0] = m.Int64Counter("driftline.detector.evaluations", metric.WithUnit("{evaluation}"), metric.WithDescription("Rounds, by result."))
	out.duration, errs[1] = m.Float64Histogram("driftline.detector.evaluation.duration", metric.WithUnit("s"), metric.WithDescription("How long a round took."))
	out.verdicts, errs[2] = m.Int64Counter("driftline.detector.verdicts", metric.WithUnit("{verdict}"), metric.WithDescription("Verdicts, by detection and level."))
	out.firing, errs[3] = m.Int64Gauge("driftline.detector.alerts.firing", metric.WithUnit("{alert}"), metric.WithDescription("Alerts that fire now, by detection, shadow ones included."))
	out.notifications, errs[4] = m.Int64Counter("driftline.detector.notifications", metric.WithUnit("{notification}"), metric.WithDescription("Alerts given to notifiers, by notifier, result (ok, error, dropped) and reason: timeout, refused, dns, tls, connection, 3xx, 4xx, 5xx, config, error."))
	out.lag, errs[5] = m.Float64Gauge("driftline.detector.ingest.lag", metric.WithUnit("s"), metric.WithDescription("P95 of the time from a request's end to its arrival at the exporter."))
	out.delay, errs[6] = m.Float64Gauge("driftline.detector.watermark.lag", metric.WithUnit("s"), metric.WithDescription("How far the judged minute lies behind now."))
	out.dirty, errs[7] = m.Int64Counter("driftline.detector.rollup.dirty_minutes", metric.WithUnit("{minute}"), metric.WithDescription("Minutes rolled up anew, by table and service."))
	out.tooOld, errs[8] = m.Int64Counter("driftline.detector.rollup.too_old", metric.WithUnit("{minute}"), metric.WithDescription("Minutes with new rows that are too old to be rolled up."))
	out.dropped, errs[9] = m.Int64Counter("driftline.detector.slices.dropped", metric.WithUnit("{slice}"), metric.WithDescription("Slices not judged because there are more than max_slices."))
	out.outbox, errs[10] = m.Int64Gauge("driftline.detector.outbox", metric.WithUnit("{notification}"), metric.WithDescription("Notifications that a notifier has not taken yet."))
	out.clockJumps, errs[11] = m.Int64Counter("driftline.detector.rollup.clock_jumps", metric.WithUnit("{jump}"), metric.WithDescription("Times that ClickHouse's clock was found before what it had stored."))
	out.backfill, errs[12] = m.Float64Gauge("driftline.detector.rollup.backfill_left", metric.WithUnit("s"), metric.WithDescription("How much of the past is left to fill in rollups that came with an upgrade."))
	out.muted, errs[13] = m.Int64Counter("driftline.detector.muted", metric.WithUnit("{finding}"), metric.WithDescription("Findings kept back, by reason: alerts not sent because they are inhibited or fall into planned maintenance, and verdicts about services whose data does not come."))
	return out, errors.Join(errs[:]...)
}

func (m *metrics) round(ctx context.Context, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.evaluations.Add(ctx, 1, metric.WithAttributes(attribute.String("result", result)))
	m.duration.Record(ctx, took.Seconds())
}

func (m *metrics) judged(ctx context.Context, vs []Verdict) {
	type key struct{ detection, level string }
	counts := map[key]int64{}
	for _, v := range vs {
		counts[key{v.Detection, string(v.Level)}]++
	}
	for k, n := range counts {
		m.verdicts.Add(ctx, n, metric.WithAttributes(attribute.String("detection", k.detection), attribute.String("verdict", k.level)))
	}
}

func (m *metrics) state(ctx context.Context, b *book) {
	counts := map[string]int64{Alert504: 0}
	for _, d := range shadowable {
		counts[d] = 0
	}
	for _, t := range b.Tracks {
		if t.Alert.State == Firing {
			counts[t.Alert.Detection]++
		}
	}
	for d, n := range counts {
		m.firing.Record(ctx, n, metric.WithAttributes(attribute.String("detection", d)))
	}
	m.outbox.Record(ctx, int64(len(b.Outbox)))
}

func (m *metrics) mutedBy(ctx context.Context, reason string, n int) {
	if n > 0 {
		m.muted.Add(ctx, int64(n), metric.WithAttributes(attribute.String("reason", reason)))
	}
}

func (m *metrics) sent(ctx context.Context, notifier, result, reason string, n int) {
	if n == 0 {
		return
	}
	m.notifications.Add(ctx, int64(n), metric.WithAttributes(attribute.String("notifier", notifier), attribute.String("result", result), attribute.String("reason", reason)))
}
