package genaiclickhouse

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"go.uber.org/zap"

	"driftline/internal/rows"
)

const (
	// pressureInterval is how often the parts are counted.
	pressureInterval = time.Minute
	// pressureTimeout bounds the query; the count is worth no more.
	pressureTimeout = 10 * time.Second
	// pressureFresh is how long a count is shown. An old one would hide that there is none.
	pressureFresh = 3 * pressureInterval
)

// pressure is how near a table's fullest partition is to the numbers of parts at which
// ClickHouse delays and refuses inserts.
type pressure struct {
	table            rows.Table
	parts            uint64
	delayAt, throwAt uint64
}

// pressureQuery reads counters that ClickHouse holds in memory. A table's own settings
// precede the server's. On a cluster it sees the node that the exporter is connected to.
const pressureQuery = `SELECT table, most,
    if(own_delay > 0, own_delay, (SELECT toUInt64OrZero(value) FROM system.merge_tree_settings WHERE name = 'parts_to_delay_insert')) AS delay_at,
    if(own_throw > 0, own_throw, (SELECT toUInt64OrZero(value) FROM system.merge_tree_settings WHERE name = 'parts_to_throw_insert')) AS throw_at
FROM
(
    SELECT table, max(parts) AS most
    FROM (SELECT table, partition_id, count() AS parts FROM system.parts WHERE active AND database = ? GROUP BY table, partition_id)
    GROUP BY table
) AS counted
INNER JOIN
(
    SELECT name AS table,
        toUInt64OrZero(extract(engine_full, 'parts_to_delay_insert = (\\d+)')) AS own_delay,
        toUInt64OrZero(extract(engine_full, 'parts_to_throw_insert = (\\d+)')) AS own_throw
    FROM system.tables
    WHERE database = ?
) AS limits USING (table)`

func readPressure(ctx context.Context, conn driver.Conn, database string) ([]pressure, error) {
	result, err := conn.Query(ctx, pressureQuery, database, database)
	if err != nil {
		return nil, fmt.Errorf("count the parts of %s: %w", database, err)
	}
	defer result.Close()
	var out []pressure
	for result.Next() {
		var name string
		var p pressure
		if err := result.Scan(&name, &p.parts, &p.delayAt, &p.throwAt); err != nil {
			return nil, fmt.Errorf("count the parts of %s: %w", database, err)
		}
		name, _ = strings.CutSuffix(name, "_local")
		name, base := strings.CutSuffix(name, "_base")
		if p.table = rows.Table(name); base && written[p.table] {
			out = append(out, p)
		}
	}
	if err := result.Err(); err != nil {
		return nil, fmt.Errorf("count the parts of %s: %w", database, err)
	}
	return out, nil
}

// written are the tables that this exporter writes.
var written = func() map[rows.Table]bool {
	out := map[rows.Table]bool{}
	for _, table := range writeOrder {
		out[table] = true
	}
	return out
}()

// gauge holds the last count.
type gauge struct {
	mu   sync.Mutex
	at   time.Time
	last []pressure
}

func (g *gauge) set(at time.Time, last []pressure) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at, g.last = at, last
}

func (g *gauge) get(now time.Time) []pressure {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.at) > pressureFresh {
		return nil
	}
	return g.last
}

// watchPressure counts parts until stop is called. It fails silently but for one line in
// the log: the count is no part of the work.
func (e *genaiExporter) watchPressure(running context.Context) (stop func()) {
	told := false
	return e.clk.Every(pressureInterval, func(now time.Time) {
		ctx, done := context.WithTimeout(running, pressureTimeout)
		defer done()
		last, err := readPressure(ctx, e.conn, e.cfg.Database)
		if err != nil {
			if !told && running.Err() == nil {
				e.log.Warn("the number of parts is not known, and its metrics are missing", zap.Error(explain(err)))
			}
			told = true
			return
		}
		told = false
		e.tel.parts.set(now, last)
	})
}
