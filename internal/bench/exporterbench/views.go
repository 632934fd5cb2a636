package main

import (
	"context"
	"slices"
	"time"
)

// viewCost is what it costs a reader that the view hides older revisions and tombstones.
type viewCost struct {
	view, base time.Duration
}

// viewRuns is how often each query runs; the median counts.
const viewRuns = 9

// viewCost reads all operations through the view and, as if nothing had ever been revised,
// from the base table without FINAL, in turns.
func (b bench) viewCost(ctx context.Context) (viewCost, error) {
	ask := func(table string) (time.Duration, error) {
		at := time.Now()
		rows, err := b.conn.Query(ctx, "SELECT target, count(), quantile(0.95)(user_time_ns), countIf(outcome = 'error') FROM "+b.database+"."+table+" GROUP BY target ORDER BY target")
		if err != nil {
			return 0, err
		}
		defer rows.Close()
		for rows.Next() {
		}
		return time.Since(at), rows.Err()
	}
	var views, bases []time.Duration
	for range viewRuns {
		view, err := ask("operations")
		if err != nil {
			return viewCost{}, err
		}
		base, err := ask("operations_base")
		if err != nil {
			return viewCost{}, err
		}
		views, bases = append(views, view), append(bases, base)
	}
	slices.Sort(views)
	slices.Sort(bases)
	return viewCost{views[viewRuns/2], bases[viewRuns/2]}, nil
}
