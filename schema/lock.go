package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

const (
	lockTable = "schema_lock"
	// LockStale is the age, on the server's clock, after which a lock that was not renewed
	// counts as left behind by a migration that died. One whose process is seen to be dead
	// on this machine counts at once.
	LockStale = time.Minute
	// LockWait is how long Up waits for another migration.
	LockWait = 5 * time.Minute
	// lockPoll is the time between two tries for the lock.
	lockPoll = 250 * time.Millisecond
)

// ClickHouse error codes that the lock understands.
const (
	codeTableExists      = 57
	codeUnknownTable     = 60
	codeSupportDisabled  = 344
	codeKeeperException  = 999
	codeUnknownStorage   = 56
	keeperNodeExistsText = "Node exists"
)

// statement is a text with the values bound to its question marks.
type statement struct {
	text string
	args []any
}

// mechanism is how a lock is kept: the statements that take, read, renew, break and free
// it. Each is one statement, so that the server decides between callers.
type mechanism struct {
	// name is what an operator would look for, such as driftline.schema_lock.
	name string
	// remove is what an operator runs to free a lock by hand.
	remove string
	// take succeeds for one caller only; isHeld tells that another was first.
	take   func(owner string) statement
	isHeld func(error) bool
	// holder selects the owner and the seconds since the last renewal, on the server's
	// clock; no row if the lock is free.
	holder statement
	renew  func(owner string) statement
	// breakStale frees the lock if owner still holds it; isBroken tells that another caller
	// has done so already.
	breakStale func(owner string) statement
	isBroken   func(error) bool
	release    func(owner string) statement
	// sweep, if any, clears what breaking left behind.
	sweep func(context.Context, driver.Conn) error
}

type lock struct {
	conn    driver.Conn
	o       Options
	how     mechanism
	owner   string
	renewed time.Time
}

// acquire takes the lock or returns an *Error of kind ErrLocked after LockWait.
func acquire(ctx context.Context, conn driver.Conn, o Options, logger *slog.Logger) (*lock, error) {
	how := o.tableLock()
	if o.Cluster != "" {
		var err error
		if how, err = o.clusterLock(ctx, conn, logger); err != nil {
			return nil, err
		}
	}
	return acquireBy(ctx, conn, o, how, logger)
}

func acquireBy(ctx context.Context, conn driver.Conn, o Options, how mechanism, logger *slog.Logger) (*lock, error) {
	l := &lock{conn: conn, o: o, how: how, owner: newOwner()}
	deadline := time.Now().Add(LockWait)
	last := ""
	// fail tells a wait that ended from a statement that failed, whichever notices first.
	fail := func(err error) error {
		if last != "" && ctx.Err() != nil {
			return fmt.Errorf("wait for the migration lock %s held by %s: %w", how.name, last, context.Cause(ctx))
		}
		return err
	}
	for {
		err := l.exec(ctx, how.take(l.owner))
		if err == nil {
			l.renewed = time.Now()
			return l, nil
		}
		if !how.isHeld(err) {
			return nil, fail(fmt.Errorf("take the migration lock %s: %w", how.name, err))
		}
		holder, age, held, err := l.holder(ctx)
		if err != nil {
			return nil, fail(err)
		}
		last = cmp.Or(holder, last)
		if held && (age >= LockStale || ownerIsDead(holder)) {
			if err := l.breakStale(ctx, holder, age, logger); err != nil {
				return nil, err
			}
			continue
		}
		if time.Now().After(deadline) {
			return nil, &Error{ErrLocked,
				fmt.Sprintf("%s is held by %s, renewed %s ago, and was not free for %s", how.name, holder, age, LockWait),
				"wait for that migration, or if it is dead and this repeats, " + how.remove}
		}
		timer := time.NewTimer(lockPoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fail(ctx.Err())
		case <-timer.C:
		}
	}
}

func (l *lock) exec(ctx context.Context, s statement) error {
	return l.conn.Exec(ctx, s.text, s.args...)
}

// holder reads who holds the lock and how long ago it was taken or renewed.
func (l *lock) holder(ctx context.Context) (owner string, age time.Duration, held bool, err error) {
	rows, err := l.conn.Query(ctx, l.how.holder.text, l.how.holder.args...)
	if err != nil {
		return "", 0, false, fmt.Errorf("read the migration lock: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var seconds int64
		if err := rows.Scan(&owner, &seconds); err != nil {
			return "", 0, false, fmt.Errorf("read the migration lock: %w", err)
		}
		age, held = time.Duration(seconds)*time.Second, true
	}
	if err := rows.Err(); err != nil {
		return "", 0, false, fmt.Errorf("read the migration lock: %w", err)
	}
	return owner, age, held, nil
}

func (l *lock) breakStale(ctx context.Context, holder string, age time.Duration, logger *slog.Logger) error {
	err := l.exec(ctx, l.how.breakStale(holder))
	switch {
	case err == nil:
		logger.Warn("broke a stale migration lock", "database", l.o.Database, "holder", holder, "age", age)
		return nil
	case l.how.isBroken(err):
		return nil
	}
	return fmt.Errorf("break the stale migration lock of %s: %w", holder, err)
}

// renew shows that the holder lives. It fails if the lock was taken away.
func (l *lock) renew(ctx context.Context) error {
	if time.Since(l.renewed) < LockStale/4 {
		return nil
	}
	owner, _, held, err := l.holder(ctx)
	if err != nil {
		return err
	}
	if !held || owner != l.owner {
		return &Error{ErrLocked, fmt.Sprintf("%s was taken over by %q while this migration stood still", l.how.name, owner), "run the migration again"}
	}
	if err := l.exec(ctx, l.how.renew(l.owner)); err != nil {
		return fmt.Errorf("renew the migration lock: %w", err)
	}
	l.renewed = time.Now()
	return nil
}

// during does long work and renews the lock meanwhile. If that fails, the work is called off.
func (l *lock) during(ctx context.Context, work func(context.Context) error) error {
	if err := l.renew(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	tick := time.NewTicker(LockStale / 8)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if err := l.renew(ctx); err != nil {
				cancel(err)
				<-done
				return err
			}
		}
	}
}

// release frees the lock, even if the migration's context has ended.
func (l *lock) release(logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	owner, _, held, err := l.holder(ctx)
	if err == nil && held && owner == l.owner {
		err = l.exec(ctx, l.how.release(l.owner))
	}
	if err == nil && l.how.sweep != nil {
		err = l.how.sweep(ctx, l.conn)
	}
	if err != nil {
		logger.Warn("migration lock not released; it counts as stale after "+LockStale.String(), "database", l.o.Database, "error", err)
	}
}

// hasCode says whether err is the server's exception with this code.
func hasCode(err error, code int32) bool {
	var ex *clickhouse.Exception
	return errors.As(err, &ex) && ex.Code == code
}
