package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// A trace is asked for by its id alone, which no table is sorted by. Its rows are found with
// one look at the requests and operations of the last days, where nearly all that is asked
// for lies, or else at all of them; then all tables are read in the days around it.

const (
	// recently is where a trace is looked for first.
	recently = 48 * time.Hour
	// aroundTrace is how far a trace's rows may lie from its requests and operations.
	aroundTrace = 24 * time.Hour
)

// always is a time within which all rows lie; base tables take none before 1970.
var always = [2]int64{0, 1<<32 - 1}

// ofTrace bounds a read to a trace whose rows have their time in this column.
func ofTrace(column string) string {
	return "trace_id = @trace AND " + column + " >= toDateTime(@from, 'UTC') AND " + column + " <= toDateTime(@to, 'UTC')"
}

func (s *Store) ofTraceArgs(ctx context.Context, traceID string) ([]any, error) {
	bounds, ok := s.found.get(traceID)
	if !ok {
		var err error
		if bounds, ok, err = s.locate(ctx, traceID, fmt.Sprintf("now() - INTERVAL %d HOUR", int(recently.Hours()))); err == nil && !ok {
			bounds, ok, err = s.locate(ctx, traceID, "toDateTime(0, 'UTC')")
		}
		switch {
		case err != nil:
			return nil, err
		case ok:
			s.found.put(traceID, bounds)
		default:
			bounds = always // it may have spans or attempts alone
		}
	}
	return []any{clickhouse.Named("trace", traceID), clickhouse.Named("from", bounds[0]), clickhouse.Named("to", bounds[1])}, nil
}

// locate asks for the days that a trace's requests and operations since an instant lie in.
func (s *Store) locate(ctx context.Context, traceID, since string) (bounds [2]int64, ok bool, err error) {
	type found struct {
		rows   uint64
		lo, hi int64
	}
	ends := func(table string) string {
		return "SELECT ended_at FROM " + s.db + "." + table + " WHERE trace_id = @trace AND ended_at >= " + since
	}
	got, err := query(ctx, s, "when a trace was", "SELECT count(), toInt64(toUnixTimestamp(min(ended_at))), toInt64(toUnixTimestamp(max(ended_at))) FROM ("+
		ends("requests_base")+" UNION ALL "+ends("operations_base")+")", []any{clickhouse.Named("trace", traceID)},
		func(f *found) []any { return []any{&f.rows, &f.lo, &f.hi} }, nil)
	if err != nil || len(got) == 0 || got[0].rows == 0 {
		return bounds, false, err
	}
	around := int64(aroundTrace.Seconds())
	return [2]int64{max(got[0].lo-around, always[0]), min(got[0].hi+around, always[1])}, true, nil
}

// maxFound bounds what is remembered.
const maxFound = 256

// traceTimes remembers bounds of traces. It is safe for concurrent use.
type traceTimes struct {
	mu sync.Mutex
	of map[string][2]int64
}

func (t *traceTimes) get(traceID string) ([2]int64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, ok := t.of[traceID]
	return b, ok
}

func (t *traceTimes) put(traceID string, bounds [2]int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil || len(t.of) >= maxFound {
		t.of = map[string][2]int64{}
	}
	t.of[traceID] = bounds
}
