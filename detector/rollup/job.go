package rollup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"
)

// Config sets up a [Job]. The zero value of a field means its default.
type Config struct {
	// Database holds driftline's tables; default "driftline".
	Database string
	// Overlap is read again at each run, because a row may become visible after
	// one with a later stored_at; default 15 s.
	Overlap time.Duration
	// MaxAge is how old a minute may be to be computed anew; older ones have lost
	// neighbours to the retention of the 1m tables, so their hours would shrink.
	// They are counted in Stats.TooOld. Default 13 days, under the 14 of the tables.
	MaxAge time.Duration
	// HourEvery is the least time between runs of the 1h tier, which nobody needs by
	// the minute; default 5 minutes.
	HourEvery time.Duration
}

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Validate reports every setting that cannot work.
func (c Config) Validate() error {
	var errs []error
	if !name.MatchString(c.Database) {
		errs = append(errs, fmt.Errorf("database %q: want letters, digits and underscores", c.Database))
	}
	if c.Overlap < 0 {
		errs = append(errs, fmt.Errorf("rollup overlap %v: want 0 or more", c.Overlap))
	}
	if c.HourEvery < 0 {
		errs = append(errs, fmt.Errorf("rollup hour_every %v: want 0 or more", c.HourEvery))
	}
	if c.MaxAge < time.Hour {
		errs = append(errs, fmt.Errorf("rollup max_age %v: want an hour or more", c.MaxAge))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Database == "" {
		c.Database = "driftline"
	}
	if c.Overlap == 0 {
		c.Overlap = 15 * time.Second
	}
	if c.MaxAge == 0 {
		c.MaxAge = 13 * 24 * time.Hour
	}
	if c.HourEvery == 0 {
		c.HourEvery = 5 * time.Minute
	}
	return c
}

// Stats says what one run did.
type Stats struct {
	// DirtyMinutes counts (table, service, minute) pairs computed anew.
	DirtyMinutes int
	// DirtyHours counts (table, service, hour) pairs computed anew.
	DirtyHours int
	// Unchanged counts pairs of the overlap that had nothing new.
	Unchanged int
	// TooOld counts pairs beyond MaxAge, which were left alone.
	TooOld int
	// Newest is the newest stored_at seen; zero while the base tables are empty.
	Newest time.Time
	// Touched lists the minutes computed anew, by service, in Unix seconds.
	Touched map[string][]int64
}

// Job recomputes rollups. It is for one goroutine; replicas each have their own.
type Job struct {
	conn  driver.Conn
	cfg   Config
	state *cursor
	// seen and seenHours are what the last run found in its overlap.
	seen      map[pair]mark
	seenHours map[pair]mark
	hoursAt   time.Time
}

type cursor struct {
	// StoredAtMS is the newest stored_at that has been rolled up, in Unix milliseconds.
	StoredAtMS int64 `json:"stored_at_ms"`
	// HourStoredAtMS is the same for the 1m rows that went into the 1h tier.
	HourStoredAtMS int64 `json:"hour_stored_at_ms"`
}

// pair is a cell of time of a service: a minute, or an hour in the 1h tier.
type pair struct {
	table   string
	service string
	at      int64
}

type mark struct {
	newest time.Time
	rows   uint64
}

// stateKey is the cursor's key in detector_state.
const stateKey = "rollup/cursor"

// maxMinutes bounds one statement: its parameter list, and with maxDays the
// partitions that one INSERT touches (ClickHouse refuses more than 100).
const (
	maxMinutes = 1440
	maxDays    = 30
)

// New makes a job on an open connection. It reads and writes nothing yet.
func New(conn driver.Conn, cfg Config) (*Job, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Job{conn: conn, cfg: cfg, seen: map[pair]mark{}, seenHours: map[pair]mark{}}, nil
}

// Run rolls up what was stored since the last run. After an error the cursor
// stays, so the next run does it again. now is the present instant in event
// time; it only decides what is older than MaxAge.
func (j *Job) Run(ctx context.Context, now time.Time) (Stats, error) {
	if j.state == nil {
		c, err := j.loadCursor(ctx)
		if err != nil {
			return Stats{}, err
		}
		j.state = &c
	}
	return j.run(ctx, now, *j.state)
}

// Rebuild rolls up everything anew, as if there had been no run before.
func (j *Job) Rebuild(ctx context.Context, now time.Time) (Stats, error) {
	j.seen, j.seenHours, j.hoursAt = map[pair]mark{}, map[pair]mark{}, time.Time{}
	return j.run(ctx, now, cursor{})
}

func (j *Job) run(ctx context.Context, now time.Time, from cursor) (Stats, error) {
	st := Stats{Touched: map[string][]int64{}}
	next := from
	oldest := now.Add(-j.cfg.MaxAge)
	seen := map[pair]mark{}
	group, groupCtx := parallelTiers(ctx)
	for _, t := range tables {
		work, err := j.work(ctx, t, t.dirty(j.cfg.Database), from.StoredAtMS, &next.StoredAtMS, oldest, j.seen, seen, &st)
		if err != nil {
			return st, errors.Join(err, group.Wait())
		}
		for _, service := range sortedKeys(work) {
			for chunk := range chunks(work[service]) {
				group.Go(func() error {
					if err := j.tier(groupCtx, service, chunk, 60, "minutes", t.versions1m, t.insert1m, t.zero1m); err != nil {
						return fmt.Errorf("roll up %d minutes of %s of service %q: %w", len(chunk), t.base, service, err)
					}
					return nil
				})
			}
			st.DirtyMinutes += len(work[service])
			st.Touched[service] = append(st.Touched[service], work[service]...)
		}
	}
	if err := group.Wait(); err != nil {
		return st, err
	}
	for service, minutes := range st.Touched {
		slices.Sort(minutes)
		st.Touched[service] = slices.Compact(minutes)
	}
	j.seen = seen
	if next.StoredAtMS > 0 {
		st.Newest = time.UnixMilli(next.StoredAtMS).UTC()
	}
	if j.hoursAt.IsZero() || now.Before(j.hoursAt) || now.Sub(j.hoursAt) >= j.cfg.HourEvery {
		if err := j.hours(ctx, from, &next, oldest, &st); err != nil {
			return st, err
		}
		j.hoursAt = now
	}
	if j.state == nil || next != *j.state {
		if err := j.saveCursor(ctx, next); err != nil {
			return st, err
		}
	}
	j.state = &next
	return st, nil
}

// parallelTiers runs the statements of different services and tables side by side: they
// write different cells, and most of their time is the server's planning of them.
func parallelTiers(ctx context.Context) (*errgroup.Group, context.Context) {
	const atOnce = 3
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	return group, ctx
}

// hours computes the hours whose minutes were written since the last time.
func (j *Job) hours(ctx context.Context, from cursor, next *cursor, oldest time.Time, st *Stats) error {
	seen := map[pair]mark{}
	group, groupCtx := parallelTiers(ctx)
	for _, t := range tables {
		var tooOld Stats // already counted by the minute
		work, err := j.work(ctx, t, t.dirtyHours(j.cfg.Database), from.HourStoredAtMS, &next.HourStoredAtMS, oldest, j.seenHours, seen, &tooOld)
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		for _, service := range sortedKeys(work) {
			for chunk := range chunks(work[service]) {
				group.Go(func() error {
					if err := j.tier(groupCtx, service, chunk, 3600, "hours", t.versions1h, t.insert1h, t.zero1h); err != nil {
						return fmt.Errorf("roll up %d hours of %s of service %q: %w", len(chunk), t.base, service, err)
					}
					return nil
				})
			}
			st.DirtyHours += len(work[service])
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	j.seenHours = seen
	return nil
}

// work finds the cells that got rows since a cursor and sorts out what there is to
// do. It notes what it found in seen and moves newest on.
func (j *Job) work(ctx context.Context, t table, query string, since int64, newest *int64, oldest time.Time, before, seen map[pair]mark, st *Stats) (map[string][]int64, error) {
	rows, err := j.conn.Query(ctx, query, clickhouse.Named("since", max(since-j.cfg.Overlap.Milliseconds(), 0)), clickhouse.Named("oldest", oldest.Unix()))
	if err != nil {
		return nil, fmt.Errorf("find what to roll up of %s: %w", t.base, err)
	}
	defer rows.Close()
	work := map[string][]int64{}
	for rows.Next() {
		p := pair{table: t.name}
		var m mark
		if err := rows.Scan(&p.service, &p.at, &m.newest, &m.rows); err != nil {
			return nil, fmt.Errorf("find what to roll up of %s: %w", t.base, err)
		}
		m.newest = m.newest.UTC()
		seen[p] = m
		*newest = max(*newest, m.newest.UnixMilli())
		switch {
		case p.at < oldest.Unix():
			st.TooOld++
		case before[p] == m:
			st.Unchanged++
		default:
			work[p.service] = append(work[p.service], p.at)
		}
	}
	for _, cells := range work {
		slices.Sort(cells)
	}
	return work, rows.Err()
}

// tier recomputes cells of one length: versions first, then the fresh cells, then
// zeros for the vanished. width is a cell's length in seconds.
func (j *Job) tier(ctx context.Context, service string, cells []int64, width int64, param string,
	versions, insert, zero func(db string) string) error {
	args := []any{
		clickhouse.Named("service", service), clickhouse.Named(param, cells),
		clickhouse.Named("lo", cells[0]), clickhouse.Named("hi", cells[len(cells)-1]+width),
	}
	at, vs, err := j.versions(ctx, versions(j.cfg.Database), args)
	if err != nil || len(at) == 0 {
		return err
	}
	if err := j.conn.Exec(ctx, insert(j.cfg.Database), args...); err != nil {
		return err
	}
	args[1] = clickhouse.Named(param, at)
	args = append(args, clickhouse.Named("versions", vs))
	return j.conn.Exec(ctx, zero(j.cfg.Database), args...)
}

func (j *Job) versions(ctx context.Context, query string, args []any) (at []int64, versions []uint64, err error) {
	rows, err := j.conn.Query(ctx, query, args...)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c uint32
		var v uint64
		if err := rows.Scan(&c, &v); err != nil {
			return nil, nil, err
		}
		at, versions = append(at, int64(c)), append(versions, v)
	}
	return at, versions, rows.Err()
}

// chunks cuts sorted cells into pieces that one statement may handle.
func chunks(cells []int64) func(func([]int64) bool) {
	return func(yield func([]int64) bool) {
		for from := 0; from < len(cells); {
			to := from + 1
			for to < len(cells) && to-from < maxMinutes && cells[to]-cells[from] < maxDays*86400 {
				to++
			}
			if !yield(cells[from:to]) {
				return
			}
			from = to
		}
	}
}

func sortedKeys(m map[string][]int64) []string {
	return slices.Sorted(maps.Keys(m))
}

func (j *Job) loadCursor(ctx context.Context) (cursor, error) {
	var c cursor
	rows, err := j.conn.Query(ctx, "SELECT state FROM "+j.cfg.Database+".detector_state WHERE key = @key", clickhouse.Named("key", stateKey))
	if err != nil {
		return c, fmt.Errorf("load the rollup cursor: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return c, fmt.Errorf("load the rollup cursor: %w", err)
		}
		if err := json.Unmarshal([]byte(s), &c); err != nil {
			return c, fmt.Errorf("rollup cursor %q in detector_state is not readable: delete the row to roll up anew: %w", s, err)
		}
	}
	return c, rows.Err()
}

func (j *Job) saveCursor(ctx context.Context, c cursor) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	err = j.conn.Exec(ctx, "INSERT INTO "+j.cfg.Database+".detector_state_base (key, state, version) SELECT @key, @state, @version",
		clickhouse.Named("key", stateKey), clickhouse.Named("state", string(text)), clickhouse.Named("version", max(c.StoredAtMS, c.HourStoredAtMS)))
	if err != nil {
		return fmt.Errorf("save the rollup cursor: %w", err)
	}
	return nil
}
