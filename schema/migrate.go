package schema

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

const migrationsTable = "schema_migrations"

// bootstrap is what must be there before steps can be recorded. schema_migrations is one
// table for the whole cluster, so its path has no shard and its replica name holds both.
func (o Options) bootstrap() []string {
	engine := "ReplacingMergeTree(applied_at)"
	if o.Cluster != "" {
		engine = "ReplicatedReplacingMergeTree(" + quote("/clickhouse/tables/all/{database}/{table}") + ", " + quote("{shard}-{replica}") + ", applied_at)"
	}
	return []string{
		"CREATE DATABASE IF NOT EXISTS " + o.Database + o.onCluster(),
		"CREATE TABLE IF NOT EXISTS " + o.all(migrationsTable) + o.onCluster() + `
(
    version UInt32,
    step UInt32,
    name String,
    checksum String,
    applied_by String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ` + engine + `
ORDER BY (version, step)`,
	}
}

// record is the statement that notes a step as applied, with bound values.
func (o Options) record() string {
	return "INSERT INTO " + o.all(migrationsTable) + " (version, step, name, checksum, applied_by) VALUES (?, ?, ?, ?, ?)"
}

// Up brings o.Database to Version. Steps that are recorded are left alone (on a cluster
// their idempotent statements run again, so that a node that joined later gets its
// tables), and retention that differs from o.TTLDays is altered. Any number of callers may
// run at once: one holds the lock and the others wait, up to LockWait.
//
// conn must not name o.Database as its default database, which may not exist yet. Errors
// are those of Check, except ErrNotMigrated, plus ErrLocked and the server's own.
func Up(ctx context.Context, conn driver.Conn, o Options, logger *slog.Logger) error {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	st, err := ReadStatus(ctx, conn, o)
	if err != nil {
		return err
	}
	if Permanent(st.Problem) {
		return st.Problem
	}
	o = o.withDefaults()
	for _, statement := range o.bootstrap() {
		if err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("prepare database %s: %w", o.Database, err)
		}
	}
	l, err := acquire(ctx, conn, o, logger)
	if err != nil {
		return err
	}
	defer l.release(logger)

	// Another caller may have migrated while this one waited for the lock.
	if st, err = ReadStatus(ctx, conn, o); err != nil {
		return err
	}
	if Permanent(st.Problem) {
		return st.Problem
	}
	if err := o.apply(ctx, conn, st, l, logger); err != nil {
		return err
	}
	return o.alterTTLs(ctx, conn, l, logger)
}

func (o Options) apply(ctx context.Context, conn driver.Conn, st Status, l *lock, logger *slog.Logger) error {
	todo := st.Pending
	if o.Cluster != "" {
		all, err := Steps(o)
		if err != nil {
			return err
		}
		todo = all
	}
	pending := map[[2]uint32]bool{}
	for _, step := range st.Pending {
		pending[[2]uint32{step.Version, step.Number}] = true
	}
	for _, step := range todo {
		if err := l.renew(ctx); err != nil {
			return err
		}
		for _, statement := range step.Statements {
			if err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("schema step %d.%d (%s) in database %s: %w", step.Version, step.Number, step.Name, o.Database, err)
			}
		}
		if !pending[[2]uint32{step.Version, step.Number}] {
			continue
		}
		if err := conn.Exec(ctx, o.record(), step.Version, step.Number, step.Name, step.Checksum, o.AppliedBy); err != nil {
			return fmt.Errorf("record schema step %d.%d (%s) in database %s: %w", step.Version, step.Number, step.Name, o.Database, err)
		}
		logger.Info("schema step applied", "database", o.Database, "version", step.Version, "step", step.Number, "name", step.Name)
	}
	return nil
}

// DryRun returns the statements that Up would run now, without running any. With a nil
// conn it is the whole schema, as for an empty server.
func DryRun(ctx context.Context, conn driver.Conn, o Options) ([]string, error) {
	pending, err := Steps(o)
	if err != nil {
		return nil, err
	}
	var alters []string
	fresh := true
	if conn != nil {
		st, err := ReadStatus(ctx, conn, o)
		if err != nil {
			return nil, err
		}
		if Permanent(st.Problem) {
			return nil, st.Problem
		}
		pending = st.Pending
		fresh = len(st.Applied) == 0
		changes, err := o.withDefaults().ttlChanges(ctx, conn)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			alters = append(alters, c.statement)
		}
	}
	o = o.withDefaults()
	var out []string
	if fresh {
		out = append(out, o.bootstrap()...)
	}
	for _, step := range pending {
		out = append(out, step.Statements...)
		out = append(out, fmt.Sprintf("INSERT INTO %s (version, step, name, checksum, applied_by) VALUES (%d, %d, %s, %s, %s)",
			o.all(migrationsTable), step.Version, step.Number, quote(step.Name), quote(step.Checksum), quote(o.AppliedBy)))
	}
	return append(out, alters...), nil
}

// Script joins statements into a text that clickhouse-client runs as it is.
func Script(statements []string) string {
	if len(statements) == 0 {
		return ""
	}
	return strings.Join(statements, ";\n\n") + ";\n"
}
