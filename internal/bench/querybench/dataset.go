package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"driftline/detector/rollup"
	"driftline/schema"
)

// Retention as shipped decides how much of each table a dataset holds.
const (
	minuteDays = 14
	spanDays   = 7
	openDays   = 3
)

// retention keeps the engine from dropping generated days while they are made; what is over
// the shipped retention is dropped by build.
var retention = map[string]int{
	schema.TTLRequests: 60, schema.TTLOperations: 60, schema.TTLAttempts: 60, schema.TTLSegments: 60,
	schema.TTLOpenRequests: 60, schema.TTLSpans: 60, schema.TTLRollup1m: 60,
}

// build makes a dataset: day after day its base rows and then, as it would have been done
// at the time, the real job's rollups.
func (d *db) build(ctx context.Context, s shape, database string, progress func(string, ...any)) error {
	if err := d.exec(ctx, "CREATE DATABASE IF NOT EXISTS "+database); err != nil {
		return err
	}
	if err := schema.Up(ctx, d.conn, schema.Options{Database: database, TTLDays: retention}, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	job, err := rollup.New(d.conn, rollup.Config{Database: database, HourEvery: time.Nanosecond})
	if err != nil {
		return err
	}
	for day := s.days - 1; day >= 0; day-- {
		end := s.to.AddDate(0, 0, -day)
		began := time.Now()
		if err := d.generate(ctx, s, database, end, day < spanDays, day < openDays); err != nil {
			return err
		}
		generated := time.Since(began)
		st, err := job.Run(ctx, end)
		if err != nil {
			return err
		}
		progress("day %d of %d: rows %.1f s, rollups %.1f s (%d minutes, %d hours)", s.days-day, s.days, generated.Seconds(), (time.Since(began) - generated).Seconds(), st.DirtyMinutes, st.DirtyHours)
	}
	return d.storeAlerts(ctx, s, database)
}

// storeAlerts stores sixty alerts a day with three transitions each.
func (d *db) storeAlerts(ctx context.Context, s shape, database string) error {
	return d.exec(ctx, fmt.Sprintf(`INSERT INTO %s.alerts_base (fingerprint, transition, at, detection, state, severity, service_name, agent, kind, target, stream, started_at, value, threshold, baseline, unit, window_ms, samples, annotations, evidence, version)
SELECT lower(hex(sipHash64(i))), t, fromUnixTimestamp64Milli(toInt64(%d - intDiv(i * 86400000, 60) + t * 300000), 'UTC'), 'retry_bimodality', ['pending', 'firing', 'resolved'][t], 'warning',
    'service-00', 'agent-000', 'chat', 'model-0', 'yes', fromUnixTimestamp64Milli(toInt64(%d - intDiv(i * 86400000, 60)), 'UTC'), 0.9, 0.7, 0.5, '1', 1800000, 900,
    map('summary', repeat('words ', 30), 'example_trace_ids', lower(hex(MD5(toString(i))))), concat('{"auc":', repeat('0.97,', 50), '}'), t
FROM (SELECT number AS i, arrayJoin([1, 2, 3]) AS t FROM numbers(%d))`, database, s.to.UnixMilli()-1_200_000, s.to.UnixMilli()-1_200_000, 60*s.days))
}
