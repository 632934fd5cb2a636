package erase

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"

	"driftline/internal/identity"
)

// Bounds of a statement's text. Each deletion writes the parts of a day anew, so few with many
// ids are quicker than many with few; but on a cluster a statement must go into a node of Keeper,
// which holds 1 MB.
const (
	tracesAtOnce   = 20_000 // of 35 bytes
	requestsAtOnce = 10_000
	statementBytes = 2 << 20 // the server reads 256 KiB unless told otherwise
)

// columnOf is the column of requests that has the hashes.
func columnOf(kind identity.Kind) string {
	if kind == identity.Tenant {
		return "tenant_hash"
	}
	return "user_hash"
}

// traces lists the traces of which any revision of a request has the hash, the oldest first.
func (e *erasure) traces(ctx context.Context) ([]string, error) {
	sql := fmt.Sprintf("SELECT trace_id FROM %s.%s WHERE %s = @hash GROUP BY trace_id ORDER BY min(ended_at), trace_id", e.Schema.Database, requestsTable, columnOf(e.Kind))
	rows, err := e.conn.Query(ctx, sql, clickhouse.Named("hash", e.Hash))
	if err != nil {
		return nil, fmt.Errorf("find the traces of a %s: %w", e.Kind, err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("find the traces of a %s: %w", e.Kind, err)
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

// found is what is to go of some traces.
type found struct {
	// whole go as a whole; of shared, the requests own, and of the requests stale, which are
	// somebody else's since, the revisions that have the hash.
	whole, shared []string
	own, stale    []clickhouse.GroupSet
}

func pair(trace, request string) clickhouse.GroupSet {
	return clickhouse.GroupSet{Value: []any{trace, request}}
}

// look finds out what goes of the traces, and adds it to r.
func (e *erasure) look(ctx context.Context, traces []string, r *Report) (found, error) {
	type request struct {
		id      string
		own     bool
		other   bool
		stale   bool
		deleted bool
	}
	column := columnOf(e.Kind)
	// The last revision of each key decides, as in the views; FINAL would read all columns of the
	// sort key to no use.
	sql := fmt.Sprintf("SELECT trace_id, request_id, ifNull(tupleElement(last, 1) = @hash, false), isNotNull(tupleElement(last, 1)), tupleElement(last, 2), some FROM ("+
		"SELECT trace_id, request_id, argMax((%s, deleted), (revision, stored_at)) AS last, countIf(%s = @hash) > 0 AS some FROM %s.%s WHERE trace_id IN @traces "+
		"GROUP BY service_name, toStartOfMinute(ended_at), trace_id, request_id) ORDER BY trace_id, request_id", column, column, e.Schema.Database, requestsTable)
	rows, err := e.conn.Query(ctx, sql, clickhouse.Named("hash", e.Hash), clickhouse.Named("traces", traces))
	if err != nil {
		return found{}, fmt.Errorf("find the requests of a %s: %w", e.Kind, err)
	}
	defer rows.Close()
	of := map[string][]request{}
	for rows.Next() {
		var trace string
		var q request
		var stated bool
		if err := rows.Scan(&trace, &q.id, &q.own, &stated, &q.deleted, &q.stale); err != nil {
			return found{}, fmt.Errorf("find the requests of a %s: %w", e.Kind, err)
		}
		q.other, q.stale = stated && !q.own && !q.deleted, q.stale && !q.own
		of[trace] = append(of[trace], q)
	}
	var f found
	for _, trace := range traces {
		if of[trace] == nil {
			continue // gone meanwhile
		}
		r.Traces++
		shared := slices.ContainsFunc(of[trace], func(q request) bool { return q.other })
		if shared {
			r.SharedTraces++
			f.shared = append(f.shared, trace)
		} else {
			f.whole = append(f.whole, trace)
		}
		for _, q := range of[trace] {
			switch {
			case q.own && !q.deleted:
				r.Requests++
			case !q.own && !q.deleted && !shared:
				r.Along++
			}
			if shared && q.own {
				f.own = append(f.own, pair(trace, q.id))
			} else if shared && q.stale {
				f.stale = append(f.stale, pair(trace, q.id))
			}
		}
	}
	return f, rows.Err()
}

// part is what one statement deletes: one of these.
type part struct {
	// whole are traces; nobody are the same traces' requests without the hash.
	whole, nobody []string
	own, stale    []clickhouse.GroupSet
}

// parts are in the order in which they are deleted. By requests with the hash a trace is found,
// so they go last; of those of a trace that go together, not all need lie in one day.
func (f found) parts() []part {
	var out []part
	if len(f.whole) > 0 {
		out = append(out, part{nobody: f.whole}, part{whole: f.whole})
	}
	for own := range slices.Chunk(f.own, requestsAtOnce) {
		out = append(out, part{own: own})
	}
	for stale := range slices.Chunk(f.stale, requestsAtOnce) {
		out = append(out, part{stale: stale})
	}
	return out
}

// of is the condition of the part's rows of a table; empty if it has none.
func (p part) of(t table, kind identity.Kind, hash int64) (string, []any) {
	requests, column, named := t.name == requestsTable, columnOf(kind), clickhouse.Named("hash", hash)
	switch {
	case p.nobody != nil && requests:
		return "trace_id IN @traces AND ifNull(" + column + " != @hash, true)", []any{clickhouse.Named("traces", p.nobody), named}
	case p.whole != nil && requests:
		return "trace_id IN @traces AND " + column + " = @hash", []any{clickhouse.Named("traces", p.whole), named}
	case p.whole != nil:
		return "trace_id IN @traces", []any{clickhouse.Named("traces", p.whole)}
	case p.own != nil && t.byRequest:
		return "(trace_id, request_id) IN (@requests)", []any{clickhouse.Named("requests", p.own)}
	case p.stale != nil && requests:
		return "(trace_id, request_id) IN (@requests) AND " + column + " = @hash", []any{clickhouse.Named("requests", p.stale), named}
	}
	return "", nil
}

// count counts rows and lists the partitions that they are in.
func (e *erasure) count(ctx context.Context, f *rowsOf) error {
	failed := func(err error) error { return fmt.Errorf("count rows of %s: %w", f.table.name, err) }
	sql := "SELECT _partition_id, count() FROM " + e.Schema.Database + "." + f.table.name + " WHERE " + f.where + " GROUP BY _partition_id ORDER BY _partition_id"
	rows, err := e.conn.Query(ctx, sql, f.args...)
	if err != nil {
		return failed(err)
	}
	defer rows.Close()
	f.n, f.partitions = 0, nil
	for rows.Next() {
		var id string
		var n uint64
		if err := rows.Scan(&id, &n); err != nil {
			return failed(err)
		}
		if strings.Trim(id, "0123456789") != "" { // days; it becomes part of a statement
			return failed(fmt.Errorf("partition %q is no day", id))
		}
		f.n, f.partitions = f.n+n, append(f.partitions, id)
	}
	if err := rows.Err(); err != nil {
		return failed(err)
	}
	return nil
}

// keep counts what stays of shared traces.
func (e *erasure) keep(ctx context.Context, shared []string, r *Report) error {
	if len(shared) == 0 {
		return nil
	}
	for i := range r.Kept {
		f := rowsOf{table: table{name: r.Kept[i].Name}, where: "trace_id IN @traces", args: []any{clickhouse.Named("traces", shared)}}
		if err := e.count(ctx, &f); err != nil {
			return err
		}
		r.Kept[i].Rows, r.Kept[i].Left = r.Kept[i].Rows+f.n, r.Kept[i].Left+f.n
	}
	return nil
}
