package rollup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// found is what got rows since a cursor.
type found struct {
	pairs []pair
	marks []mark
}

// find asks for the cells that got rows since an instant, in Unix milliseconds.
func (j *Job) find(ctx context.Context, query, table string, since int64, oldest time.Time) (found, error) {
	var f found
	rows, err := j.conn.Query(ctx, query, clickhouse.Named("since", max(since, 0)), clickhouse.Named("oldest", oldest.Unix()))
	if err != nil {
		return f, fmt.Errorf("find what to roll up of %s: %w", table, err)
	}
	defer rows.Close()
	for rows.Next() {
		p := pair{table: table}
		var m mark
		if err := rows.Scan(&p.service, &p.at, &m.newest, &m.rows, &m.storedSum); err != nil {
			return f, fmt.Errorf("find what to roll up of %s: %w", table, err)
		}
		m.newest = m.newest.UTC()
		f.pairs, f.marks = append(f.pairs, p), append(f.marks, m)
	}
	return f, rows.Err()
}

// parts is the condition that leaves out parts without new rows.
func (j *Job) parts(table string) string {
	if !j.prunes {
		return ""
	}
	return youngParts(j.cfg.Database, table)
}

// mayPrune finds out whether system.parts may be read. Without it everything works and each
// run costs more.
func (j *Job) mayPrune(ctx context.Context) {
	var n uint64
	err := j.conn.QueryRow(ctx, canPrune).Scan(&n)
	j.prunes = err == nil
	if err != nil && ctx.Err() == nil {
		j.cfg.Logger.Warn("system.parts cannot be read, so each rollup looks for new rows in all parts: GRANT SELECT ON system.parts and SHOW TABLES to detectd's user", "error", err)
	}
}

// countTooOld counts what nobody rolls up, since its minutes are beyond MaxAge.
func (j *Job) countTooOld(ctx context.Context, from cursor, oldest time.Time, st *Stats) error {
	for _, base := range bases() {
		since, ok := j.oldSince[base]
		if !ok {
			since = from.StoredAtMS
		}
		var n uint64
		var newest time.Time
		err := j.conn.QueryRow(ctx, tooOld(j.cfg.Database, base, j.parts(base)), clickhouse.Named("since", since), clickhouse.Named("oldest", oldest.Unix())).Scan(&n, &newest)
		if err != nil {
			return fmt.Errorf("count what is too old to roll up of %s: %w", base, err)
		}
		st.TooOld += int(n)
		j.oldSince[base] = max(since, newest.UnixMilli())
	}
	return nil
}

// item is a cell to compute, by its start in Unix seconds, and how many rows of it were found.
type item struct {
	at   int64
	rows uint64
}

// work is the cells to compute by service, sorted by time.
type work map[string][]item

// sort tells what there is to do from what the last run has done, notes what was found in
// seen and moves newest on.
func (f found) sort(oldest time.Time, before, seen map[pair]mark, newest *int64, st *Stats) work {
	w := work{}
	for i, p := range f.pairs {
		seen[p] = f.marks[i]
		*newest = max(*newest, f.marks[i].newest.UnixMilli())
		switch {
		case p.at < oldest.Unix(): // the cell that the bound lies in
		case before[p] == f.marks[i]:
			st.Unchanged++
		default:
			w[p.service] = append(w[p.service], item{p.at, f.marks[i].rows})
		}
	}
	for _, cells := range w {
		slices.SortFunc(cells, func(a, b item) int { return cmp.Compare(a.at, b.at) })
	}
	return w
}

// chunk is what one statement computes.
type chunk struct {
	services []string
	// starts are the starts of each service's cells in Unix seconds, versions their versions.
	starts   [][]int64
	versions [][]uint64
	// lo and hi bound all of them, cells is their number, rows how many rows they have at least.
	lo, hi int64
	cells  int
	rows   uint64
}

// maxCells bounds a statement's text, of which the server reads up to 256 KiB, and maxRows
// its memory: a backlog must fit into an engine of 1 GiB.
const (
	maxCells = 4096
	maxRows  = 50_000
)

// maxDays bounds the partitions that one INSERT touches: the server refuses more than 100.
const maxDays = 30

// chunks cuts work into pieces that one statement may handle, the oldest first.
func (w work) chunks(width time.Duration) func(func(chunk) bool) {
	spans := map[int64]work{}
	for service, cells := range w {
		for _, i := range cells {
			span := i.at / (maxDays * 86400)
			if spans[span] == nil {
				spans[span] = work{}
			}
			spans[span][service] = append(spans[span][service], i)
		}
	}
	seconds := int64(width.Seconds())
	return func(yield func(chunk) bool) {
		for _, span := range slices.Sorted(maps.Keys(spans)) {
			var c chunk
			for _, service := range slices.Sorted(maps.Keys(spans[span])) {
				for _, i := range spans[span][service] {
					if c.cells == maxCells || c.cells > 0 && c.rows+i.rows > maxRows {
						if !yield(c) {
							return
						}
						c = chunk{}
					}
					c.add(service, i, seconds)
				}
			}
			if c.cells > 0 && !yield(c) {
				return
			}
		}
	}
}

func (c *chunk) add(service string, i item, width int64) {
	if c.cells == 0 {
		c.lo, c.hi = i.at, i.at+width
	}
	last := len(c.services) - 1
	if last < 0 || c.services[last] != service {
		c.services, c.starts = append(c.services, service), append(c.starts, nil)
		last++
	}
	c.starts[last] = append(c.starts[last], i.at)
	c.lo, c.hi, c.cells, c.rows = min(c.lo, i.at), max(c.hi, i.at+width), c.cells+1, c.rows+i.rows
}

func (c chunk) args() []any {
	return []any{
		clickhouse.Named("services", c.services), clickhouse.Named("cells", c.starts),
		clickhouse.Named("lo", c.lo), clickhouse.Named("hi", c.hi),
	}
}

// versions asks for the cells' versions; cells that have none, since their rows are gone,
// are left out of what it returns.
func (j *Job) versions(ctx context.Context, query string, c chunk) (chunk, error) {
	rows, err := j.conn.Query(ctx, query, c.args()...)
	if err != nil {
		return c, err
	}
	defer rows.Close()
	out := chunk{lo: c.lo, hi: c.hi}
	for rows.Next() {
		var service string
		var at int64
		var version uint64
		if err := rows.Scan(&service, &at, &version); err != nil {
			return c, err
		}
		last := len(out.services) - 1
		if last < 0 || out.services[last] != service {
			out.services, out.starts, out.versions = append(out.services, service), append(out.starts, nil), append(out.versions, nil)
			last++
		}
		out.starts[last], out.versions[last] = append(out.starts[last], at), append(out.versions[last], version)
		out.cells++
	}
	return out, rows.Err()
}

// waves lists the tiers in groups that can be computed side by side, each after the one
// that has its sources.
func waves() [][]tier {
	var out [][]tier
	depth := map[string]int{}
	for _, t := range tiers() {
		d := 0
		if n, ok := depth[t.source]; ok {
			d = n + 1
		}
		depth[t.name] = d
		if d == len(out) {
			out = append(out, nil)
		}
		out[d] = append(out[d], t)
	}
	return out
}
