package main

import (
	"context"
	"time"
)

// weigh merges everything and takes the sizes.
func (b bench) weigh(ctx context.Context, r *result, began time.Duration) error {
	pushed := cpu(b.pid) - began
	if b.s.name == nameDriftline {
		var err error
		if r.fresh, err = b.viewCost(ctx); err != nil {
			return err
		}
		began = cpu(b.pid) - pushed // the queries are no part of what the rows cost
	}
	tables, err := b.tables(ctx, "SELECT name, toUInt64(0), toUInt64(0) FROM system.tables WHERE database = ? AND engine LIKE '%MergeTree'")
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := b.conn.Exec(ctx, "OPTIMIZE TABLE "+b.database+"."+t.name+" FINAL"); err != nil {
			return err
		}
	}
	r.all = cpu(b.pid) - began
	if b.s.name == nameDriftline {
		if r.merged, err = b.viewCost(ctx); err != nil {
			return err
		}
	}
	r.tables, err = b.tables(ctx, "SELECT table, sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND database = ? AND table != 'schema_migrations' GROUP BY table ORDER BY table")
	return err
}

func (b bench) tables(ctx context.Context, sql string) ([]tableSize, error) {
	rows, err := b.conn.Query(ctx, sql, b.database)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []tableSize
	for rows.Next() {
		var t tableSize
		if err := rows.Scan(&t.name, &t.rows, &t.bytes); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, rows.Err()
}
