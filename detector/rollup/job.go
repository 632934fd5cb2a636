package rollup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// Overlap is read again at each run, because a row may become visible after one with a
	// later stored_at, by as much as its INSERT takes; default 45 s, above the 30 s after
	// which the exporter gives an INSERT up.
	Overlap time.Duration
	// MaxAge is how old a minute may be to be computed anew; older ones have lost
	// neighbours to the retention of the 1m tables, so their hours would shrink.
	// They are counted in Stats.TooOld. Default 13 days, under the 14 of the tables.
	MaxAge time.Duration
	// HourEvery is the least time between runs of the coarser tiers, which nobody needs
	// by the minute; default 5 minutes.
	HourEvery time.Duration
	// BackfillRows is about how many rows a run reads to fill tables that came with an
	// upgrade, besides its live work; default 200,000. At least an hour of data is filled.
	BackfillRows uint64
	// Logger gets a warning when the server's clock was set back; default slog.Default().
	Logger *slog.Logger
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
		c.Overlap = 45 * time.Second
	}
	if c.MaxAge == 0 {
		c.MaxAge = 13 * day
	}
	if c.HourEvery == 0 {
		c.HourEvery = 5 * time.Minute
	}
	if c.BackfillRows == 0 {
		c.BackfillRows = 200_000
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Stats says what one run did.
type Stats struct {
	// DirtyMinutes counts (base table, service, minute) triples computed anew.
	DirtyMinutes int
	// DirtyHours counts (table, service, cell) triples of the coarser tiers computed anew.
	DirtyHours int
	// Unchanged counts triples of the overlap that had nothing new.
	Unchanged int
	// TooOld counts triples beyond MaxAge, which were left alone. It is counted with the
	// coarser tiers.
	TooOld int
	// Newest is the newest stored_at seen; zero while the base tables are empty.
	Newest time.Time
	// Touched lists the minutes computed anew, by service, in Unix seconds.
	Touched map[string][]int64
	// Backfilled counts the steps in which tables that came with an upgrade were filled, and
	// BackfillLeft is how much of the past is left to fill; both are 0 when that is done.
	Backfilled   int
	BackfillLeft time.Duration
	// ClockJumped says that this run found the server's clock set back: before the newest
	// stored_at, where it was not in the run before.
	ClockJumped bool
}

// Job recomputes rollups. It is for one goroutine; replicas each have their own.
type Job struct {
	conn  driver.Conn
	cfg   Config
	state *cursor
	// seen and seenTiers are what the last run found in its overlap.
	seen      map[pair]mark
	seenTiers map[pair]mark
	// oldSince is the newest stored_at of the rows counted in TooOld, by base table.
	oldSince map[string]int64
	tiersAt  time.Time
	// minutesRead and tiersRead are when the last runs began to read, by the monotonic clock.
	minutesRead, tiersRead time.Time
	// serverClock reads the server's clock in Unix milliseconds; clockBack says that the last
	// run found it before the cursor.
	serverClock func(context.Context) (int64, error)
	clockBack   bool
	// fresh says that no run had ever been before this job's first; backfilled that nothing is
	// left to fill.
	fresh, backfilled bool
	// prunes says that system.parts may be read; asked that it is known.
	prunes, asked bool
}

// pair is a cell of time of a service in a table.
type pair struct {
	table   string
	service string
	at      int64
}

// mark tells rows that have been rolled up from such as are new: see marks.
type mark struct {
	newest    time.Time
	rows      uint64
	storedSum int64
}

// New makes a job on an open connection. It reads and writes nothing yet.
func New(conn driver.Conn, cfg Config) (*Job, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	j := &Job{conn: conn, cfg: cfg, seen: map[pair]mark{}, seenTiers: map[pair]mark{}, oldSince: map[string]int64{}}
	j.serverClock = j.readServerClock
	return j, nil
}

// Run rolls up what was stored since the last run. After an error the cursor
// stays, so the next run does it again. now is the present instant in event
// time; it only decides what is older than MaxAge.
func (j *Job) Run(ctx context.Context, now time.Time) (Stats, error) {
	if j.state == nil {
		c, have, err := j.loadCursor(ctx)
		if err != nil {
			return Stats{}, err
		}
		j.state, j.fresh = &c, !have
	}
	st, err := j.run(ctx, now, *j.state)
	if err != nil {
		return st, err
	}
	if err := j.backfill(ctx, now, &st); err != nil {
		if ctx.Err() != nil {
			return st, err
		}
		// The past can wait; what is judged now must not.
		j.cfg.Logger.Warn("new rollups were not filled further; the next run tries again", "error", err)
	}
	return st, nil
}

// Rebuild rolls up everything anew, as if there had been no run before.
func (j *Job) Rebuild(ctx context.Context, now time.Time) (Stats, error) {
	j.seen, j.seenTiers, j.tiersAt = map[pair]mark{}, map[pair]mark{}, time.Time{}
	return j.run(ctx, now, cursor{})
}

func (j *Job) run(ctx context.Context, now time.Time, from cursor) (Stats, error) {
	st := Stats{Touched: map[string][]int64{}}
	if !j.asked {
		j.mayPrune(ctx)
		j.asked = ctx.Err() == nil
	}
	next := from.clone()
	oldest := now.Add(-j.cfg.MaxAge)
	started := time.Now()
	clock, err := j.serverClock(ctx)
	if err != nil {
		return st, err
	}
	j.watchClock(clock, from, &st)
	if err := j.minutes(ctx, from, &next, look{clock, j.minutesRead}, oldest, &st); err != nil {
		return st, err
	}
	j.minutesRead = started
	if next.StoredAtMS > 0 {
		st.Newest = time.UnixMilli(next.StoredAtMS).UTC()
	}
	if j.tiersAt.IsZero() || now.Before(j.tiersAt) || now.Sub(j.tiersAt) >= j.cfg.HourEvery {
		if err := j.tiers(ctx, from, &next, look{clock, j.tiersRead}, oldest, &st); err != nil {
			return st, err
		}
		if err := j.countTooOld(ctx, from, oldest, &st); err != nil {
			return st, err
		}
		j.tiersAt, j.tiersRead = now, started
	}
	if j.state == nil || !next.equal(*j.state) {
		if err := j.saveCursor(ctx, next); err != nil {
			return st, err
		}
	}
	j.state = &next
	return st, nil
}

// parallel runs statements that write different cells or tables side by side.
func parallel(ctx context.Context) (*errgroup.Group, context.Context) {
	const atOnce = 2
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	return group, ctx
}

// minutes computes the minutes whose base rows were written since the last run.
func (j *Job) minutes(ctx context.Context, from cursor, next *cursor, at look, oldest time.Time, st *Stats) error {
	seen := map[pair]mark{}
	group, groupCtx := parallel(ctx)
	for _, base := range bases() {
		found, err := j.find(ctx, dirty(j.cfg.Database, base, j.parts(base)), base, at.since(from.StoredAtMS, j.cfg.Overlap), oldest)
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		work := found.sort(oldest, j.seen, seen, &next.StoredAtMS, st)
		for service, minutes := range work {
			st.DirtyMinutes += len(minutes)
			for _, i := range minutes {
				st.Touched[service] = append(st.Touched[service], i.at)
			}
		}
		for c := range work.chunks(time.Minute) {
			group.Go(func() error { return j.rollUpMinutes(groupCtx, base, c) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for service, minutes := range st.Touched {
		slices.Sort(minutes)
		st.Touched[service] = slices.Compact(minutes)
	}
	j.seen = seen
	return nil
}

// rollUpMinutes computes minutes in every rollup of a base table.
func (j *Job) rollUpMinutes(ctx context.Context, base string, c chunk) error {
	var levels []level
	for _, t := range tables {
		if t.base == base {
			levels = append(levels, t.minuteLevel(j.cfg.Database))
		}
	}
	if err := j.write(ctx, levels, c); err != nil {
		return fmt.Errorf("roll up %d minutes of %s of %d services: %w", c.cells, base, len(c.services), err)
	}
	return nil
}

// tiers computes the coarser cells whose sources were written since the last time, the
// finer tiers first.
func (j *Job) tiers(ctx context.Context, from cursor, next *cursor, at look, oldest time.Time, st *Stats) error {
	seen := map[pair]mark{}
	for _, wave := range waves() {
		group, groupCtx := parallel(ctx)
		for _, t := range wave {
			newest := from.tier(t.name)
			var minutes Stats // what is unchanged was counted by the minute
			oldest := oldest
			if t.width == day { // hours are kept for longer, so a day is whole that began before
				oldest = oldest.Add(-day)
			}
			found, err := j.find(ctx, t.dirty(j.cfg.Database, j.parts(t.source+"_base")), t.name, at.since(newest, j.cfg.Overlap), oldest)
			if err != nil {
				return errors.Join(err, group.Wait())
			}
			work := found.sort(oldest, j.seenTiers, seen, &newest, &minutes)
			next.Tiers[t.name] = newest
			for _, cells := range work {
				st.DirtyHours += len(cells)
			}
			for c := range work.chunks(t.width) {
				group.Go(func() error {
					if err := j.write(groupCtx, []level{t.level(j.cfg.Database)}, c); err != nil {
						return fmt.Errorf("roll up %d cells of %s of %d services: %w", c.cells, t.name, len(c.services), err)
					}
					return nil
				})
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	j.seenTiers = seen
	return nil
}

// write recomputes cells of tables that aggregate the same rows: versions first, then for
// each table the fresh cells and zeros for the vanished.
func (j *Job) write(ctx context.Context, levels []level, c chunk) error {
	c, err := j.versions(ctx, levels[0].versions(), c)
	if err != nil || c.cells == 0 {
		return err
	}
	for _, l := range levels {
		if err := j.conn.Exec(ctx, l.insert(j.cfg.Database), c.args()...); err != nil {
			return err
		}
		if err := j.conn.Exec(ctx, l.zero(j.cfg.Database), append(c.args(), clickhouse.Named("versions", c.versions))...); err != nil {
			return err
		}
	}
	return nil
}
