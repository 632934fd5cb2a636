package rollup

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Tables that a schema version brings are empty after the upgrade. Each run after it fills
// some of what the base tables and the older rollups still hold, from now backwards, since
// the newest is asked for first; live work goes on as before.

// backfillKey is the progress's key in detector_state.
const backfillKey = "rollup/backfill"

// backfilling is the progress of filling the tables of a schema version.
type backfilling struct {
	Version uint32 `json:"version"`
	// Before is the hour before which all is still to be done, in Unix seconds. BaseOldest and
	// Oldest are where the base tables and the older rollups begin.
	Before     int64 `json:"before"`
	BaseOldest int64 `json:"base_oldest"`
	Oldest     int64 `json:"oldest"`
}

func (b backfilling) done() bool { return b.Before <= b.Oldest }

// maxBackfillWindows bounds a run's steps where there is little in each.
const maxBackfillWindows = 24

// backfill does a bounded part of what is left to fill.
func (j *Job) backfill(ctx context.Context, now time.Time, st *Stats) error {
	if j.backfilled {
		return nil
	}
	var b backfilling
	have, err := j.loadState(ctx, backfillKey, &b)
	if err != nil {
		return err
	}
	if !have || b.Version < secondVersion {
		if b, err = j.startBackfill(ctx, now); err != nil {
			return err
		}
	}
	rows := uint64(0)
	for windows := 0; !b.done() && windows < maxBackfillWindows && (windows == 0 || rows < j.cfg.BackfillRows); windows++ {
		from := b.Before - 3600
		if b.Before <= b.BaseOldest { // only hours are left, of which there are few a day
			from = from / 86400 * 86400
		}
		n, err := j.fill(ctx, from, b.Before, now.Add(-j.cfg.MaxAge))
		if err != nil {
			return fmt.Errorf("fill new rollups from %s on: %w", time.Unix(from, 0).UTC().Format(time.RFC3339), err)
		}
		rows += n
		b.Before = from
		st.Backfilled++
	}
	if b.done() {
		j.backfilled = true
	} else {
		st.BackfillLeft = time.Duration(b.Before-b.Oldest) * time.Second
	}
	// The version grows with what is done, so that a slower replica's progress is not taken
	// for the newer one.
	return j.saveState(ctx, backfillKey, b, int64(b.Version)<<40-b.Before)
}

// startBackfill finds out what there is to fill.
func (j *Job) startBackfill(ctx context.Context, now time.Time) (backfilling, error) {
	b := backfilling{Version: secondVersion, Before: now.Unix()/3600*3600 + 3600}
	if j.fresh {
		b.Oldest, b.BaseOldest = b.Before, b.Before // the first run ever has rolled up everything
		return b, nil
	}
	b.Oldest, b.BaseOldest = b.Before, b.Before
	oldest := func(table, column string) (int64, error) {
		rows, err := j.conn.Query(ctx, "SELECT toInt64(toUnixTimestamp(toStartOfHour(min("+column+")))), count() FROM "+j.cfg.Database+"."+table)
		if err != nil {
			return 0, fmt.Errorf("find the oldest rows of %s: %w", table, err)
		}
		defer rows.Close()
		at := b.Before
		for rows.Next() {
			var first int64
			var n uint64
			if err := rows.Scan(&first, &n); err != nil {
				return 0, fmt.Errorf("find the oldest rows of %s: %w", table, err)
			}
			if n > 0 {
				at = min(at, first)
			}
		}
		return at, rows.Err()
	}
	for _, t := range tables {
		if t.since < secondVersion {
			continue
		}
		at, err := oldest(t.base, "ended_at")
		if err != nil {
			return b, err
		}
		b.BaseOldest = min(b.BaseOldest, at)
	}
	b.Oldest = b.BaseOldest
	for _, t := range tiers() {
		if t.since < secondVersion || t.sourceSince >= secondVersion {
			continue
		}
		at, err := oldest(t.source+"_base", "minute")
		if err != nil {
			return b, err
		}
		b.Oldest = min(b.Oldest, at)
	}
	b.Oldest = b.Oldest / 86400 * 86400 // days are computed with their first hour
	return b, nil
}

// fill computes the new tables' cells in [from, to), whole hours of one day, and returns how many rows it
// read. minutesFrom is where the 1m tables begin to be whole.
func (j *Job) fill(ctx context.Context, from, to int64, minutesFrom time.Time) (uint64, error) {
	var total uint64
	minutes := from >= minutesFrom.Unix()
	for _, base := range bases() {
		var levels []level
		for _, t := range tables {
			if t.base != base || t.since < secondVersion {
				continue
			}
			if minutes {
				levels = append(levels, t.minuteLevel(j.cfg.Database)) // their hours follow as live work
			} else {
				// The same by way of minutes that are not stored, as their table would drop them.
				levels = append(levels, t.hourly().levelFrom("("+t.minuteLevel(j.cfg.Database).selected()+")", ""))
			}
		}
		if len(levels) == 0 {
			continue
		}
		w, n, err := j.within(ctx, base, "ended_at", "toStartOfMinute(ended_at)", from, to)
		if err != nil {
			return total, err
		}
		total += n
		for c := range w.chunks(time.Minute) {
			if minutes {
				err = j.write(ctx, levels, c)
			} else {
				for _, l := range levels {
					if err == nil {
						err = j.conn.Exec(ctx, l.insert(j.cfg.Database), c.args()...)
					}
				}
			}
			if err != nil {
				return total, err
			}
		}
	}
	for _, t := range tiers() {
		if t.since < secondVersion || t.width == tenMinutes && !minutes {
			continue
		}
		lo, hi := from, to
		switch {
		case t.width == day:
			if from%86400 != 0 {
				continue // with the day's first hour, by which the others are there
			}
			hi = from + 86400
		case t.sourceSince >= secondVersion:
			continue
		}
		w, n, err := j.within(ctx, t.source+"_base", "minute", t.cell(), lo, hi)
		if err != nil {
			return total, err
		}
		total += n
		for c := range w.chunks(t.width) {
			if err := j.write(ctx, []level{t.level(j.cfg.Database)}, c); err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// within lists the cells that a table has rows of in [from, to), and the number of rows.
func (j *Job) within(ctx context.Context, table, column, cell string, from, to int64) (work, uint64, error) {
	rows, err := j.conn.Query(ctx, "SELECT service_name, toInt64(toUnixTimestamp("+cell+")) AS cell, count() FROM "+j.cfg.Database+"."+table+" WHERE "+column+
		" >= toDateTime(@from, 'UTC') AND "+column+" < toDateTime(@to, 'UTC') GROUP BY service_name, cell ORDER BY service_name, cell",
		clickhouse.Named("from", from), clickhouse.Named("to", to))
	if err != nil {
		return nil, 0, fmt.Errorf("list the cells of %s: %w", table, err)
	}
	defer rows.Close()
	w, total := work{}, uint64(0)
	for rows.Next() {
		var service string
		var at int64
		var n uint64
		if err := rows.Scan(&service, &at, &n); err != nil {
			return nil, 0, fmt.Errorf("list the cells of %s: %w", table, err)
		}
		w[service], total = append(w[service], item{at, n}), total+n
	}
	return w, total, rows.Err()
}

// RollUpDays computes the 1d tables of the UTC days that meet [from, to) anew from the 1h
// tables, as is needed where hours came by another way than the job.
func (j *Job) RollUpDays(ctx context.Context, from, to time.Time) error {
	lo := from.Unix() / 86400 * 86400
	for _, t := range tiers() {
		if t.width != day {
			continue
		}
		w, _, err := j.within(ctx, t.source+"_base", "minute", t.cell(), lo, to.Unix())
		if err != nil {
			return err
		}
		for c := range w.chunks(day) {
			if err := j.write(ctx, []level{t.level(j.cfg.Database)}, c); err != nil {
				return fmt.Errorf("roll up %d days of %s: %w", c.cells, t.name, err)
			}
		}
	}
	return nil
}
