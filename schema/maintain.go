package schema

import (
	"context"
	"log/slog"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Locked does work on the tables of a migrated database while no migration runs, which could
// copy what the work deletes. Any number of callers may ask at once: one works and the others
// wait, up to LockWait. The context of work ends if the lock is lost. Errors are those of
// Check, ErrLocked and those of work.
func Locked(ctx context.Context, conn driver.Conn, o Options, logger *slog.Logger, work func(context.Context) error) error {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	o = o.withDefaults()
	l, err := acquire(ctx, conn, o, logger)
	if err != nil {
		return err
	}
	defer l.release(logger)
	if err := Check(ctx, conn, o); err != nil {
		return err
	}
	return l.during(ctx, work)
}

// AlterRows begins an ALTER of the rows of a base table: on a cluster that of each shard.
func (o Options) AlterRows(table string) string {
	o = o.withDefaults()
	return "ALTER TABLE " + o.local(table) + o.onCluster()
}
