// Package dettest gives the detector's tests a migrated database on a real engine
// and puts rows into its base tables.
package dettest

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"driftline/internal/rows"
)

// Insert writes rows of any tables to their base tables, one INSERT per table. The
// engine sets stored_at; ingestedAt stands for the exporter's clock.
func Insert(ctx context.Context, conn driver.Conn, db string, ingestedAt time.Time, all ...rows.Row) error {
	byTable := map[rows.Table][]rows.Row{}
	for _, r := range all {
		byTable[r.Table()] = append(byTable[r.Table()], r)
	}
	for _, table := range rows.Tables {
		if len(byTable[table]) == 0 {
			continue
		}
		fields := rows.Fields(table)
		names := make([]string, 0, len(fields)+1)
		for _, f := range fields {
			names = append(names, f.Column)
		}
		names = append(names, "ingested_at")
		batch, err := conn.PrepareBatch(ctx, fmt.Sprintf("INSERT INTO %s.%s_base (%s)", db, table, strings.Join(names, ", ")))
		if err != nil {
			return fmt.Errorf("prepare %s: %w", table, err)
		}
		for _, r := range byTable[table] {
			v := reflect.ValueOf(r).Elem()
			values := make([]any, 0, len(names))
			for _, f := range fields {
				values = append(values, value(v.FieldByIndex(f.Index), f.Time))
			}
			if err := batch.Append(append(values, ingestedAt)...); err != nil {
				return fmt.Errorf("append to %s: %w", table, err)
			}
		}
		if err := batch.Send(); err != nil {
			return fmt.Errorf("send %s: %w", table, err)
		}
	}
	return nil
}

func value(v reflect.Value, instant bool) any {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		if !instant {
			return v.Interface()
		}
		return value(v.Elem(), true)
	}
	if instant {
		return time.Unix(0, v.Int()).UTC()
	}
	if v.Kind() == reflect.Map && v.IsNil() {
		return map[string]string{}
	}
	return v.Interface()
}
