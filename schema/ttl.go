package schema

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

type ttlChange struct {
	table, statement string
	from, to         int
}

var ttlInDDL = regexp.MustCompile(`TTL\s+(.+?)\s*\+\s*toIntervalDay\((\d+)\)`)

// ttlChanges compares the retention of existing tables with o's.
func (o Options) ttlChanges(ctx context.Context, conn driver.Conn) ([]ttlChange, error) {
	rows, err := conn.Query(ctx, "SELECT name, create_table_query FROM system.tables WHERE database = ? AND engine LIKE '%MergeTree'", o.Database)
	if err != nil {
		return nil, fmt.Errorf("read retention of the tables in %s: %w", o.Database, err)
	}
	defer rows.Close()
	ddl := map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, fmt.Errorf("read retention of the tables in %s: %w", o.Database, err)
		}
		ddl[o.Database+"."+name] = text
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read retention of the tables in %s: %w", o.Database, err)
	}
	var out []ttlChange
	for version := uint32(1); version <= Version; version++ {
		for _, obj := range versions[version] {
			m := ttlInDDL.FindStringSubmatch(ddl[o.local(obj.name)])
			if obj.ttl == "" || m == nil {
				continue
			}
			have, err := strconv.Atoi(m[2])
			if err != nil || have == o.TTLDays[obj.ttl] {
				continue
			}
			out = append(out, ttlChange{
				table: o.local(obj.name), from: have, to: o.TTLDays[obj.ttl],
				statement: fmt.Sprintf("ALTER TABLE %s%s MODIFY TTL %s + toIntervalDay(%d)", o.local(obj.name), o.onCluster(), m[1], o.TTLDays[obj.ttl]),
			})
		}
	}
	return out, nil
}

func (o Options) alterTTLs(ctx context.Context, conn driver.Conn, l *lock, logger *slog.Logger) error {
	changes, err := o.ttlChanges(ctx, conn)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if err := l.renew(ctx); err != nil {
			return err
		}
		if err := conn.Exec(ctx, c.statement); err != nil {
			return fmt.Errorf("change retention of %s from %d to %d days: %w", c.table, c.from, c.to, err)
		}
		logger.Info("retention changed", "table", c.table, "from_days", c.from, "to_days", c.to)
	}
	return nil
}
