package rollup

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// A cell's version counts its base rows (version.go), so deleting some would take it down, and
// what is computed then would lose against what stands: late rows of the minute would never
// show. So those who delete put placeholders there: tombstones without ids, which weigh more
// than what goes.
//
//  1. HoldPlaces puts them beside the rows, with half their weight. The minutes are dirty then.
//  2. The rows are deleted.
//  3. SettlePlaces gives the placeholders their whole weight.
//
// With V the weight of a minute before, e that of what is deleted, and h > e that of the held
// places, no cell can have been computed with more than V+h, and from the third step on each is
// computed with V-e+2h or more, which is above. Where it stops in between, the next one that
// deletes settles what was held.
const (
	placeHeld    = 1<<15 - 1 // weighs 2^15: a revision counts as itself and 1
	placeSettled = 1<<16 - 1 // weighs 2^16
	placePrefix  = "deleted-"
	// placeSpare is for rows that come after places were held and are deleted with the others.
	placeSpare = 1 << 12
)

// keyOf is the column that ends a base table's sort key.
var keyOf = map[string]string{"operations_base": "operation_id", "requests_base": "request_id", "attempts_base": "attempt_id"}

// BaseTables lists the tables that rollups are made of.
func BaseTables() []string { return bases() }

// HoldPlaces puts placeholders into the minutes of a base table that have rows which are about
// to be deleted: those for which where holds. Minutes before now less MaxAge are not computed
// again and get none. run tells the placeholders of one call from those of all others.
func HoldPlaces(ctx context.Context, conn driver.Conn, db, base, where string, args []any, run string, now time.Time) error {
	key := keyOf[base]
	rows := fmt.Sprintf("SELECT service_name, toStartOfMinute(ended_at) AS at, max(least(revision, %d)) + 1 AS weight FROM %s.%s WHERE ended_at >= toDateTime(@oldest, 'UTC') AND (%s) GROUP BY service_name, at, trace_id, %s",
		maxRevision, db, base, where, key)
	places := fmt.Sprintf("SELECT service_name, at, intDiv(sum(weight) + %d, %d) + 1 AS places FROM (%s) GROUP BY service_name, at", placeSpare, placeHeld+1, rows)
	sql := fmt.Sprintf("INSERT INTO %s.%s (service_name, trace_id, %s, ended_at, ingested_at, revision, deleted) "+
		"SELECT service_name, '', concat('%s', @run, '-', toString(place)), at, at, %d, true FROM (%s) ARRAY JOIN range(places) AS place", db, base, key, placePrefix, placeHeld, places)
	args = append(append([]any{}, args...), clickhouse.Named("oldest", now.Add(-Config{}.withDefaults().MaxAge).Unix()), clickhouse.Named("run", run))
	if err := conn.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("hold the places of what is deleted from %s: %w", base, err)
	}
	return nil
}

// SettlePlaces settles all placeholders that were held. Nobody else may be deleting.
func SettlePlaces(ctx context.Context, conn driver.Conn, db string) error {
	for _, base := range bases() {
		key := strings.Join([]string{"service_name", "trace_id", keyOf[base], "ended_at"}, ", ")
		sql := fmt.Sprintf("INSERT INTO %s.%s (%s, ingested_at, revision, deleted) SELECT %s, ended_at, %d, true FROM %s.%s WHERE trace_id = '' AND deleted AND startsWith(%s, '%s') GROUP BY %s HAVING max(revision) = %d",
			db, base, key, key, placeSettled, db, base, keyOf[base], placePrefix, key, placeHeld)
		if err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("settle the places of what was deleted from %s: %w", base, err)
		}
	}
	return nil
}
