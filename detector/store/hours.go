package store

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// OperationHour is the latency of a slice's hour, over all retries.
type OperationHour struct {
	Slice
	Hour      time.Time
	Inference Measure
	// Call is the calls' own time; see [OperationCell.Call].
	Call Measure
}

// OperationHours reads the hours that start at the given times.
func (s *Store) OperationHours(ctx context.Context, hours []time.Time) ([]OperationHour, error) {
	starts := make([]int64, len(hours))
	for i, h := range hours {
		starts[i] = h.Unix()
	}
	sql := "SELECT service_name, agent, kind, target, stream, minute, " + columns("inference_time") + ", " + callTime + " FROM " + s.db + ".rollup_operations_1h WHERE minute IN (SELECT toDateTime(arrayJoin(@hours), 'UTC'))" +
		" ORDER BY service_name, agent, kind, target, stream, minute, retries"
	return folded(ctx, s, "hours of operations", sql, []any{clickhouse.Named("hours", starts)}, func(h *OperationHour) []any {
		return append(append([]any{&h.Service, &h.Agent, &h.Kind, &h.Target, &h.Stream, &h.Hour}, h.Inference.dest()...), h.Call.dest()...)
	}, func(h *OperationHour) { h.Hour = h.Hour.UTC() }, func(sum, h *OperationHour) bool {
		if sum.Slice != h.Slice || !sum.Hour.Equal(h.Hour) {
			return false
		}
		sum.Inference.Add(h.Inference)
		sum.Call.Add(h.Call)
		return true
	})
}
