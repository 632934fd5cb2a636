package schema

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// The lock is a table: CREATE TABLE without IF NOT EXISTS succeeds for one caller only.
// Its comment names the holder. On a cluster it locks the node that conn reaches, so
// migrations should go to one node; steps are idempotent should two run all the same.
const (
	lockTable = "schema_lock"
	// LockStale is the age, on the server's clock, after which a lock that was not renewed
	// counts as left behind by a migration that died.
	LockStale = time.Minute
	// LockWait is how long Up waits for another migration.
	LockWait = 5 * time.Minute
	// lockPoll is the time between two tries for the lock.
	lockPoll = 100 * time.Millisecond
)

// ClickHouse error codes that the lock understands.
const (
	codeTableExists  = 57
	codeUnknownTable = 60
)

type lock struct {
	conn    driver.Conn
	o       Options
	owner   string
	renewed time.Time
}

// acquire takes the lock or returns an *Error of kind ErrLocked after LockWait.
func acquire(ctx context.Context, conn driver.Conn, o Options, logger *slog.Logger) (*lock, error) {
	l := &lock{conn: conn, o: o, owner: lockOwner()}
	deadline := time.Now().Add(LockWait)
	for {
		err := conn.Exec(ctx, "CREATE TABLE "+o.all(lockTable)+" (held UInt8) ENGINE = MergeTree ORDER BY held COMMENT "+quote(l.owner))
		if err == nil {
			l.renewed = time.Now()
			return l, nil
		}
		if !hasCode(err, codeTableExists) {
			return nil, fmt.Errorf("take the migration lock %s: %w", o.all(lockTable), err)
		}
		holder, age, held, err := l.holder(ctx)
		if err != nil {
			return nil, err
		}
		if held && age >= LockStale {
			if err := l.breakStale(ctx, holder, age, logger); err != nil {
				return nil, err
			}
			continue
		}
		if time.Now().After(deadline) {
			return nil, &Error{ErrLocked,
				fmt.Sprintf("%s is held by %s, renewed %s ago, and was not free for %s", o.all(lockTable), holder, age, LockWait),
				"wait for that migration, or if it is dead and this repeats, DROP TABLE " + o.all(lockTable)}
		}
		timer := time.NewTimer(lockPoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("wait for the migration lock %s held by %s: %w", o.all(lockTable), holder, context.Cause(ctx))
		case <-timer.C:
		}
	}
}

// holder reads who holds the lock and how long ago it was taken or renewed.
func (l *lock) holder(ctx context.Context) (owner string, age time.Duration, held bool, err error) {
	rows, err := l.conn.Query(ctx, "SELECT comment, toInt64(dateDiff('second', metadata_modification_time, now())) FROM system.tables WHERE database = ? AND name = ?", l.o.Database, lockTable)
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

// breakStale moves a dead holder's lock aside. The new name comes from the holder, so of
// several callers that saw the same stale lock one succeeds, and a late one cannot move a
// fresh lock: the name it would use is taken until the fresh holder's release.
func (l *lock) breakStale(ctx context.Context, holder string, age time.Duration, logger *slog.Logger) error {
	aside := l.o.all(asideName(holder))
	err := l.conn.Exec(ctx, "RENAME TABLE "+l.o.all(lockTable)+" TO "+aside)
	switch {
	case err == nil:
		logger.Warn("broke a stale migration lock", "database", l.o.Database, "holder", holder, "age", age)
		return nil
	case hasCode(err, codeTableExists), hasCode(err, codeUnknownTable):
		return nil
	}
	return fmt.Errorf("break the stale migration lock of %s: %w", holder, err)
}

// asideName keeps only the random part of a holder's name, which is hex.
func asideName(holder string) string {
	id := holder[strings.LastIndexByte(holder, ' ')+1:]
	if _, err := hex.DecodeString(id); err != nil || id == "" {
		id = "unknown"
	}
	return lockTable + "_stale_" + id
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
		return &Error{ErrLocked, fmt.Sprintf("%s was taken over by %q while this migration stood still", l.o.all(lockTable), owner), "run the migration again"}
	}
	if err := l.conn.Exec(ctx, "ALTER TABLE "+l.o.all(lockTable)+" MODIFY COMMENT "+quote(l.owner)); err != nil {
		return fmt.Errorf("renew the migration lock: %w", err)
	}
	l.renewed = time.Now()
	return nil
}

// release frees the lock, even if the migration's context has ended, and sweeps stale
// locks that were moved aside.
func (l *lock) release(logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	owner, _, held, err := l.holder(ctx)
	if err == nil && held && owner == l.owner {
		err = l.conn.Exec(ctx, "DROP TABLE IF EXISTS "+l.o.all(lockTable)+" SYNC")
	}
	if err == nil {
		err = l.sweep(ctx)
	}
	if err != nil {
		logger.Warn("migration lock not released; it counts as stale after "+LockStale.String(), "database", l.o.Database, "error", err)
	}
}

// sweep drops locks that were moved aside over an hour ago, when no caller that saw them
// in place can still be about to move them.
func (l *lock) sweep(ctx context.Context) error {
	rows, err := l.conn.Query(ctx, "SELECT name FROM system.tables WHERE database = ? AND startsWith(name, ?) AND metadata_modification_time < now() - 3600", l.o.Database, lockTable+"_stale_")
	if err != nil {
		return err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, name := range names {
		if err := l.conn.Exec(ctx, "DROP TABLE IF EXISTS "+l.o.all(name)); err != nil {
			return err
		}
	}
	return nil
}

func lockOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	var id [8]byte
	_, _ = rand.Read(id[:])
	return fmt.Sprintf("%s pid %d id %s", host, os.Getpid(), hex.EncodeToString(id[:]))
}

// hasCode says whether err is the server's exception with this code.
func hasCode(err error, code int32) bool {
	var ex *clickhouse.Exception
	return errors.As(err, &ex) && ex.Code == code
}
