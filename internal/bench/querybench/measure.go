package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// result is what one query took on one dataset.
type result struct {
	cold, warm time.Duration
	// fastest is the fastest warm run of all took, which are in order of length.
	fastest time.Duration
	took    []time.Duration
	// cpu is the engine's processor time per warm run; it is counted in ticks of 10 ms over
	// all runs together.
	cpu         time.Duration
	rows, bytes uint64
	statements  int
}

// connTo opens a connection to one database, for the panels' unqualified table names.
func (d *db) connTo(database string) (driver.Conn, error) {
	return clickhouse.Open(&clickhouse.Options{
		Protocol: clickhouse.HTTP, Addr: []string{d.address}, Auth: clickhouse.Auth{Username: "default", Database: database},
		ReadTimeout: time.Hour, MaxOpenConns: 8, TransportFunc: d.read.wrap,
	})
}

// cold runs a query once after all caches were dropped.
func (d *db) cold(ctx context.Context, q query) (time.Duration, error) {
	if _, err := d.dropCaches(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := q.run(ctx); err != nil {
		return 0, fmt.Errorf("%s: %s: %w", q.group, q.name, err)
	}
	return time.Since(began), nil
}

// warm runs the same query of several datasets in turn, so that what else the machine does
// meets all of them, and takes medians.
func (d *db) warm(ctx context.Context, runs int, qs []query) ([]result, error) {
	out := make([]result, len(qs))
	for run := range runs + 1 { // the first warms up
		for i, q := range qs {
			d.read.take()
			cpu, began := d.cpu(), time.Now()
			if err := q.run(ctx); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", q.group, q.name, err)
			}
			if run == 0 {
				continue
			}
			out[i].took = append(out[i].took, time.Since(began))
			out[i].cpu += d.cpu() - cpu
			out[i].rows, out[i].bytes, out[i].statements = d.read.take()
		}
	}
	for i := range out {
		out[i].cpu /= time.Duration(runs)
		out[i].order()
	}
	return out, nil
}

func (r *result) order() {
	slices.Sort(r.took)
	r.warm, r.fastest = r.took[len(r.took)/2], r.took[0]
}

// with adds earlier runs of the same query to r.
func (r result) with(earlier result) result {
	n, m := time.Duration(len(r.took)), time.Duration(len(earlier.took))
	r.cpu = (n*r.cpu + m*earlier.cpu) / (n + m)
	r.took = append(r.took, earlier.took...)
	r.order()
	return r
}
