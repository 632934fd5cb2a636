package schema

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// recordEvery is how many applied steps are recorded with one insert. A migration that dies
// before applies as many again, which does no harm.
const recordEvery = 10

// record is the statement that notes steps as applied.
func (o Options) record(steps ...Step) string {
	rows := make([]string, 0, len(steps))
	for _, step := range steps {
		rows = append(rows, fmt.Sprintf("(%d, %d, %s, %s, %s)", step.Version, step.Number, quote(step.Name), quote(step.Checksum), quote(o.AppliedBy)))
	}
	return "INSERT INTO " + o.all(migrationsTable) + " (version, step, name, checksum, applied_by) VALUES " + strings.Join(rows, ", ")
}

// Up brings o.Database to Version. Steps that are recorded are left alone, except those of
// tables and views that are gone, which run again, and all of them on a cluster, so that a
// node that joined later gets its tables. Retention that differs from o.TTLDays is altered.
// Any number of callers may run at once: one holds the lock and the others wait, up to
// LockWait.
//
// conn must not name o.Database as its default database, which may not exist yet. Errors
// are those of Check, except ErrNotMigrated and ErrMissing, plus ErrLocked and the
// server's own.
func Up(ctx context.Context, conn driver.Conn, o Options, logger *slog.Logger) error {
	return up(ctx, conn, o, Version, logger)
}

// up is Up of a binary whose newest version is known.
func up(ctx context.Context, conn driver.Conn, o Options, known uint32, logger *slog.Logger) error {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	st, err := readStatus(ctx, conn, o, known)
	if err != nil {
		return err
	}
	if Permanent(st.Problem) {
		return st.Problem
	}
	o = o.withDefaults()
	o.last = known
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
	if st, err = readStatus(ctx, conn, o, known); err != nil {
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
	steps, err := stepsUpTo(o, st.Known)
	if err != nil {
		return err
	}
	if len(st.Missing) > 0 {
		logger.Warn("tables or views are gone and are created again, tables empty", "database", o.Database, "missing", st.Missing)
	}
	var done []Step
	record := func() error {
		if len(done) == 0 {
			return nil
		}
		if err := conn.Exec(ctx, o.record(done...)); err != nil {
			last := done[len(done)-1]
			return fmt.Errorf("record schema steps up to %d.%d (%s) in database %s: %w", last.Version, last.Number, last.Name, o.Database, err)
		}
		done = done[:0]
		return nil
	}
	for _, step := range steps {
		pending := slices.ContainsFunc(st.Pending, func(p Step) bool { return p.Version == step.Version && p.Number == step.Number })
		if !pending && o.Cluster == "" && !step.restores(st.Missing) {
			continue
		}
		if err := l.renew(ctx); err != nil {
			return err
		}
		if err := o.run(ctx, conn, step, l, logger); err != nil {
			err = fmt.Errorf("schema step %d.%d (%s) in database %s: %w", step.Version, step.Number, step.Name, o.Database, err)
			return errors.Join(err, record())
		}
		if !pending {
			continue
		}
		logger.Info("schema step applied", "database", o.Database, "version", step.Version, "step", step.Number, "name", step.Name)
		if done = append(done, step); len(done) == recordEvery {
			if err := record(); err != nil {
				return err
			}
		}
	}
	return record()
}

func (o Options) run(ctx context.Context, conn driver.Conn, step Step, l *lock, logger *slog.Logger) error {
	if step.of.rebuilds != "" {
		return o.rebuild(ctx, conn, step, l, logger)
	}
	for _, statement := range step.Statements {
		if err := conn.Exec(ctx, statement); err != nil {
			return err
		}
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
	var again []Step
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
		again = slices.DeleteFunc(slices.Clone(pending), func(step Step) bool { return !step.restores(st.Missing) })
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
	for _, step := range again {
		out = append(out, step.Statements...)
	}
	for _, step := range pending {
		out = append(out, step.Statements...)
		if step.of.rebuilds == "" || conn == nil {
			continue
		}
		statements, err := o.planRebuild(ctx, conn, step)
		if err != nil {
			return nil, err
		}
		out = append(out, statements...)
	}
	if len(pending) > 0 {
		out = append(out, o.record(pending...))
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
