package main

import (
	"context"
	"time"
)

// weigh merges everything and takes the sizes.
func (b bench) weigh(ctx context.Context, r *result, began time.Duration) error {
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
