package main

import (
	"context"
	"fmt"
	"time"

	"driftline/detector/stats"
)

// dense is the dataset of busy slices.
const dense = "dense"

// denseHours is what a baseline of a day and the window that is judged need, and more.
const denseHours = 26

// buildDense makes minutes of operations of as many slices as s has, each with 0.5 to 50 calls a
// minute, most of them few, unless they are there: 15 million calls a day for 1,000 slices. Such
// traffic is too much to make row by row, so the rollup is drawn, and nothing else is.
func (d *db) buildDense(ctx context.Context, s shape, progress func(string, ...any)) error {
	if err := d.startLarge(ctx); err != nil {
		return err
	}
	defer d.stop()
	if err := d.migrate(ctx, dense); err != nil {
		return err
	}
	began := time.Now()
	for hour := s.to.Add(-denseHours * time.Hour); hour.Before(s.to); hour = hour.Add(time.Hour) {
		there, err := d.number(ctx, fmt.Sprintf("SELECT count() FROM %s.rollup_operations_1m_base WHERE minute >= toDateTime(%d, 'UTC') AND minute < toDateTime(%d, 'UTC')", dense, hour.Unix(), hour.Add(time.Hour).Unix()))
		if err != nil {
			return err
		}
		if there > 0 {
			continue
		}
		if err := d.exec(ctx, s.denseHour(hour)); err != nil {
			return err
		}
		progress("made the dense hour of %s after %.1f s", hour.Format(time.TimeOnly), time.Since(began).Seconds())
	}
	return nil
}

// denseHour draws an hour of cells.
func (s shape) denseHour(hour time.Time) string {
	values := func(name string, median float64) string {
		n := s.normal("'"+name+"'", "i", "at", "r", "j")
		return fmt.Sprintf("arrayMap(j -> %s, range(toUInt32(part)))", stats.SQLBucketExpr(fmt.Sprintf("%g * exp(0.8 * %s)", median, n)))
	}
	cells := fmt.Sprintf(`SELECT number %% %d AS i, toUInt32(%d + 60 * intDiv(number, %d)) AS at, 0.5 * pow(100, (i %% 97) / 96) AS rate,
    toUInt64(greatest(0, round(rate + sqrt(rate) * %s))) AS drawn, arrayJoin([0, 1]) AS r, if(r = 0, drawn - intDiv(drawn, 40), intDiv(drawn, 40)) AS part FROM numbers(%d)`,
		s.slices, hour.Unix(), s.slices, s.normal("'cell'", "i", "at"), 60*s.slices)
	drawn := fmt.Sprintf("SELECT *, %s AS t, arraySort(arrayDistinct(t)) AS tb, arrayMap(x -> countEqual(t, x), tb) AS tc, %s AS f, arraySort(arrayDistinct(f)) AS fb, arrayMap(x -> countEqual(f, x), fb) AS fc, "+
		"%s AS p, arraySort(arrayDistinct(p)) AS pb, arrayMap(x -> countEqual(p, x), pb) AS pc FROM (%s) WHERE part > 0", values("time", 2000), values("ttft", 400), values("token", 15), cells)
	columns := `concat('service-', toString(intDiv(i, 50))) AS service_name, concat('agent-', toString(intDiv(i, 5))) AS agent, 'chat' AS kind, concat('model-', toString(i % 5)) AS target, 'yes' AS stream,
    toDateTime(at, 'UTC') AS minute, toString(r) AS retries, part AS n, part * 1000 AS weight_milli, part AS ok, part * (r + 1) AS attempts, part * (r + 1) AS leaf_attempts, part AS deadline_known,
    part * 900 AS input_tokens, part * 200 AS output_tokens`
	for _, m := range []struct{ name, of, mean string }{{"user_time", "t", "2000000000"}, {"agent_time", "t", "2000000000"}, {"inference_time", "t", "2000000000"}, {"ttft", "f", "400000000"}, {"time_per_output_token", "p", "15000000"}} {
		columns += fmt.Sprintf(", part AS %s_n, toInt64(part * %s) AS %s_sum_ns, %sb AS %s_buckets, %sc AS %s_counts", m.name, m.mean, m.name, m.of, m.name, m.of, m.name)
	}
	columns += ", toUInt64(1) AS version"
	return fmt.Sprintf("INSERT INTO %s.rollup_operations_1m_base (%s) SELECT %s FROM (%s)", dense, names(columns), columns, drawn)
}
