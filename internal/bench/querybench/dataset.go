package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/sync/errgroup"

	"driftline/detector/rollup"
	"driftline/schema"
)

// Retention as shipped, in days: how much of each table a dataset holds.
var kept = schema.DefaultTTLDays()

// retention keeps the engine from dropping the oldest rows while the benchmark runs.
func retention() map[string]int {
	out := map[string]int{}
	for key, days := range kept {
		out[key] = days + 30
	}
	return out
}

// eventTime is the column by which a table's rows are dated, and when they are shifted so
// are all its other times.
func eventTime(t schema.Table) string {
	switch {
	case strings.HasPrefix(t.Name, "rollup_"):
		return "minute"
	case t.Name == "segments_base":
		return "request_ended_at"
	case t.Name == "spans_base":
		return "started_at"
	case t.Name == "open_requests_base":
		return "observed_at"
	case t.Name == "alerts_base", t.Name == "detector_state_base":
		return ""
	}
	return "ended_at"
}

func (d *db) migrate(ctx context.Context, database string) error {
	if err := d.exec(ctx, "CREATE DATABASE IF NOT EXISTS "+database); err != nil {
		return err
	}
	return schema.Up(ctx, d.conn, schema.Options{Database: database, TTLDays: retention()}, slog.New(slog.DiscardHandler))
}

// upgrade brings kept data to the schema of this binary. New columns of kept rows are
// empty; a rollup that is new would be too, and its queries would measure nothing.
func (d *db) upgrade(ctx context.Context, s shape, dir string) error {
	if err := d.startLarge(ctx); err != nil {
		return err
	}
	defer d.stop()
	steps := func() (uint64, error) { return d.number(ctx, "SELECT count() FROM "+large+".schema_migrations") }
	before, err := steps()
	if err != nil {
		return err
	}
	for _, database := range []string{large, small} {
		if err := d.migrate(ctx, database); err != nil {
			return err
		}
		for _, t := range schema.Tables() {
			if !strings.HasPrefix(t.Name, "rollup_") {
				continue
			}
			n, err := d.number(ctx, "SELECT count() FROM "+database+"."+t.Name)
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("%s was made before %s was there: delete it", dir, t.Name)
			}
		}
		// A table that was rebuilt is in as many parts as it was copied in.
		if err := d.settle(ctx, s, database); err != nil {
			return err
		}
	}
	if after, err := steps(); err != nil || after == before {
		return err
	}
	return d.cutAgain(ctx, s)
}

// cutAgain makes the small dataset's tables of whole months anew: if they were rebuilt, each by
// itself, they are in fewer parts than the large one's.
func (d *db) cutAgain(ctx context.Context, s shape) error {
	for _, t := range schema.Tables() {
		if eventTime(t) == "" || strings.HasPrefix(t.PartitionBy, "toDate(") || !strings.HasPrefix(t.Name, "rollup_") {
			continue
		}
		if err := d.exec(ctx, "TRUNCATE TABLE "+small+"."+t.Name+" SYNC"); err != nil {
			return err
		}
		if err := d.cutParts(ctx, t, large, small, window(t, s.to.AddDate(0, 0, -smallDays), s.to)); err != nil {
			return err
		}
	}
	return nil
}

// build makes the large dataset: the last day hour by hour as it would have come, with the
// real job after each hour, and the days before as copies of it.
func (d *db) build(ctx context.Context, s shape, database string, progress func(string, ...any)) error {
	seed := database + "_seed"
	for _, name := range []string{seed, database} {
		if err := d.migrate(ctx, name); err != nil {
			return err
		}
	}
	began := time.Now()
	for _, sql := range s.inserts(seed) {
		if err := d.exec(ctx, sql); err != nil {
			return err
		}
	}
	progress("made the last day's rows in %.1f s", time.Since(began).Seconds())
	job, err := rollup.New(d.conn, rollup.Config{Database: database, HourEvery: time.Nanosecond})
	if err != nil {
		return err
	}
	var rollups time.Duration
	for hour := s.from(); hour.Before(s.to); hour = hour.Add(s.step) {
		for _, t := range schema.Tables() {
			if eventTime(t) == "" || strings.HasPrefix(t.Name, "rollup_") {
				continue
			}
			sql := fmt.Sprintf("INSERT INTO %s.%s (%s, stored_at) SELECT %s, toDateTime64(%d, 3) FROM %s.%s WHERE %s", database, t.Name, columnNames(t, "stored_at"), columnNames(t, "stored_at"),
				hour.Add(s.step).Unix(), seed, t.Name, window(t, hour, hour.Add(s.step)))
			if err := d.exec(ctx, sql); err != nil {
				return err
			}
		}
		at := time.Now()
		if _, err := job.Run(ctx, hour.Add(s.step)); err != nil {
			return err
		}
		rollups += time.Since(at)
	}
	if err := d.exec(ctx, "DROP DATABASE "+seed+" SYNC"); err != nil {
		return err
	}
	progress("stored them hour by hour in %.1f s, of which %.1f s for rollups", time.Since(began).Seconds(), rollups.Seconds())
	for k := 1; k < s.days; k++ {
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(2)
		for _, t := range schema.Tables() {
			if t.TTLKey == "" || eventTime(t) == "" || k >= kept[t.TTLKey] || strings.HasSuffix(t.Name, "_1d_base") {
				continue
			}
			group.Go(func() error { return d.exec(groupCtx, shifted(t, database, s, k)) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if k%5 == 0 || k == s.days-1 {
			progress("copied %d of %d days after %.1f s", k, s.days-1, time.Since(began).Seconds())
		}
	}
	// A job that starts looks at what was stored in the last hour, which must not be all of it.
	for _, t := range schema.Tables() {
		if strings.HasPrefix(t.Name, "rollup_") {
			sql := fmt.Sprintf("ALTER TABLE %s.%s UPDATE stored_at = stored_at - toIntervalHour(3) WHERE minute >= toDateTime(%d, 'UTC') SETTINGS mutations_sync = 1", database, t.Name, s.from().Unix())
			if err := d.exec(ctx, sql); err != nil {
				return err
			}
		}
	}
	// A day of cells is no day of rows: midnight lies in the middle of the copied hours.
	if err := job.RollUpDays(ctx, s.to.AddDate(0, 0, -s.days), s.to); err != nil {
		return err
	}
	if err := d.storeAlerts(ctx, s, database); err != nil {
		return err
	}
	return d.settle(ctx, s, database)
}

func columnNames(t schema.Table, except string) string {
	var out []string
	for _, c := range t.Columns {
		if c.Name != except {
			out = append(out, c.Name)
		}
	}
	return strings.Join(out, ", ")
}

func window(t schema.Table, from, to time.Time) string {
	column := eventTime(t)
	return fmt.Sprintf("%s >= toDateTime(%d, 'UTC') AND %s < toDateTime(%d, 'UTC')", column, from.Unix(), column, to.Unix())
}

// shifted copies the last day of a table k days back. With all its times, and the ones in
// its versions, shifted, a rollup's copy is what the job would have written of the copied
// base rows; a test compares the two.
func shifted(t schema.Table, database string, s shape, k int) string {
	var exprs []string
	for _, c := range t.Columns {
		switch {
		case strings.Contains(c.Type, "DateTime"):
			exprs = append(exprs, fmt.Sprintf("%s - toIntervalDay(%d)", c.Name, k))
		case c.Name == "version":
			// Its low bits are the seconds of the newest row; see detector/rollup.
			exprs = append(exprs, fmt.Sprintf("version - toUInt64(%d)", k*86_400))
		case strings.HasSuffix(c.Name, "_id"):
			exprs = append(exprs, fmt.Sprintf("if(%s = '', '', concat('%02x', substring(%s, 3)))", c.Name, k, c.Name))
		default:
			exprs = append(exprs, c.Name)
		}
	}
	return fmt.Sprintf("INSERT INTO %s.%s (%s) SELECT %s FROM %s.%s WHERE %s SETTINGS max_threads = 2, max_insert_threads = 1, min_insert_block_size_rows = 4000000, min_insert_block_size_bytes = 0, optimize_on_insert = 0",
		database, t.Name, columnNames(t, ""), strings.Join(exprs, ", "), database, t.Name, window(t, s.from(), s.to))
}

// settle merges the rollups' days before the last two, which the engine does by itself in
// the course of time, and the last day's as far as the engine wants to.
func (d *db) settle(ctx context.Context, s shape, database string) error {
	for _, t := range schema.Tables() {
		if !strings.HasPrefix(t.Name, "rollup_") || t.PartitionBy != "toDate(minute)" {
			continue
		}
		for k := 2; k <= s.days; k++ {
			day := s.to.AddDate(0, 0, -k).Format(time.DateOnly)
			if err := d.exec(ctx, fmt.Sprintf("OPTIMIZE TABLE %s.%s PARTITION '%s' FINAL SETTINGS optimize_skip_merged_partitions = 1", database, t.Name, day)); err != nil {
				return err
			}
		}
	}
	return nil
}

// cut makes the small dataset: the last days of the large one. Whole days are its very
// parts, so that both hold the same rows in the same state.
func (d *db) cut(ctx context.Context, s shape, large, small string, days int) error {
	if err := d.migrate(ctx, small); err != nil {
		return err
	}
	oldest := s.to.AddDate(0, 0, -days)
	for _, t := range schema.Tables() {
		if eventTime(t) == "" {
			continue
		}
		if !strings.HasPrefix(t.PartitionBy, "toDate(") {
			if err := d.cutParts(ctx, t, large, small, window(t, oldest, s.to)); err != nil {
				return err
			}
			continue
		}
		for day := oldest.Truncate(24 * time.Hour); day.Before(s.to); day = day.AddDate(0, 0, 1) {
			sql := fmt.Sprintf("ALTER TABLE %s.%s ATTACH PARTITION '%s' FROM %s.%s", small, t.Name, day.Format(time.DateOnly), large, t.Name)
			if day.Before(oldest) {
				sql = fmt.Sprintf("INSERT INTO %s.%s SELECT * FROM %s.%s WHERE %s", small, t.Name, large, t.Name, window(t, oldest, day.AddDate(0, 0, 1)))
			}
			if err := d.exec(ctx, sql); err != nil {
				return err
			}
		}
	}
	// The job's cursor, or it would roll up all of it anew.
	if err := d.exec(ctx, fmt.Sprintf("INSERT INTO %s.detector_state_base SELECT * FROM %s.detector_state_base", small, large)); err != nil {
		return err
	}
	s.days = days
	return d.storeAlerts(ctx, s, small)
}

// cutParts copies the rows of a window part by part: FINAL costs the more the more parts
// there are, so as one part the small dataset would be the faster one for that alone.
func (d *db) cutParts(ctx context.Context, t schema.Table, large, small, window string) error {
	// Merges would undo it; the engine is started anew before anything is measured.
	if err := d.exec(ctx, "SYSTEM STOP MERGES "+small+"."+t.Name); err != nil {
		return err
	}
	rows, err := d.conn.Query(ctx, "SELECT name FROM system.parts WHERE active AND database = @database AND table = @table ORDER BY min_block_number",
		clickhouse.Named("database", large), clickhouse.Named("table", t.Name))
	if err != nil {
		return err
	}
	defer rows.Close()
	var parts []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		parts = append(parts, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, part := range parts {
		if err := d.exec(ctx, fmt.Sprintf("INSERT INTO %s.%s SELECT * FROM %s.%s WHERE _part = '%s' AND %s", small, t.Name, large, t.Name, part, window)); err != nil {
			return err
		}
	}
	return nil
}

// storeAlerts stores sixty alerts a day with three transitions each.
func (d *db) storeAlerts(ctx context.Context, s shape, database string) error {
	return d.exec(ctx, fmt.Sprintf(`INSERT INTO %s.alerts_base (fingerprint, transition, at, detection, state, severity, service_name, agent, kind, target, stream, started_at, value, threshold, baseline, unit, window_ms, samples, annotations, evidence, version)
SELECT lower(hex(sipHash64(i))), t, fromUnixTimestamp64Milli(toInt64(%d - intDiv(i * 86400000, 60) + t * 300000), 'UTC'), 'retry_bimodality', ['pending', 'firing', 'resolved'][t], 'warning',
    'service-00', 'agent-000', 'chat', 'model-0', 'yes', fromUnixTimestamp64Milli(toInt64(%d - intDiv(i * 86400000, 60)), 'UTC'), 0.9, 0.7, 0.5, '1', 1800000, 900,
    map('summary', repeat('words ', 30), 'example_trace_ids', concat('00', lower(right(hex(MD5(concat('%d/', toString(i)))), 30)))), concat('{"auc":', repeat('0.97,', 50), '}'), t
FROM (SELECT number AS i, arrayJoin([1, 2, 3]) AS t FROM numbers(%d))`, database, s.to.UnixMilli()-1_200_000, s.to.UnixMilli()-1_200_000, s.seed, 60*s.days))
}
