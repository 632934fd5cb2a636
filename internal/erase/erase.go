package erase

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"driftline/detector/rollup"
	"driftline/internal/identity"
	"driftline/schema"
)

// Options say whose requests go.
type Options struct {
	Schema schema.Options
	Kind   identity.Kind
	Hash   int64
	// DryRun only counts.
	DryRun bool
	// Now is the present instant.
	Now time.Time
	// Logger hears of progress; nil is silence.
	Logger *slog.Logger
	// step, if any, is told what was done, for tests.
	step func(what string) error
}

// Table counts the rows of one table, with all their revisions.
type Table struct {
	Name string `json:"table"`
	// Rows were found, Left are there afterwards; after a dry run that is all.
	Rows uint64 `json:"rows"`
	Left uint64 `json:"left"`
}

// Report says what was found and what became of it.
type Report struct {
	// Requests state the user or tenant, Along state nobody and are of their traces alone.
	Requests uint64 `json:"requests"`
	Along    uint64 `json:"along"`
	// Traces have such requests; SharedTraces of them also have requests of somebody else.
	Traces       uint64 `json:"traces"`
	SharedTraces uint64 `json:"shared_traces"`
	// Tables are those that name a trace.
	Tables []Table `json:"tables"`
	// Kept counts the rows of shared traces that name no request, which stay.
	Kept []Table `json:"kept,omitempty"`
}

// Left is how many rows of all tables are there afterwards.
func (r Report) Left() uint64 {
	n := uint64(0)
	for _, t := range r.Tables {
		n += t.Left
	}
	return n
}

// ErrCluster says that the tables are not those of the cluster that was named, if any was.
var ErrCluster = errors.New("the tables are elsewhere")

// Run erases, or with DryRun counts. On a cluster it is done on all replicas when it returns.
// Rows that come meanwhile may be left: see Report.Left. Errors are those of schema.Locked,
// ErrCluster and the server's own. After one the report says how far it came; run it again.
func Run(ctx context.Context, conn driver.Conn, o Options) (Report, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Schema.Database == "" {
		o.Schema.Database = schema.DefaultDatabase
	}
	if err := o.Schema.Validate(); err != nil {
		return Report{}, err
	}
	e := &erasure{Options: o, conn: conn, tables: tables()}
	if err := e.checkCluster(ctx); err != nil {
		return Report{}, err
	}
	if err := schema.Check(ctx, conn, o.Schema); err != nil {
		return Report{}, err
	}
	if o.DryRun {
		return e.run(ctx)
	}
	var r Report
	err := schema.Locked(ctx, conn, o.Schema, o.Logger, func(ctx context.Context) (err error) {
		r, err = e.run(ctx)
		return err
	})
	return r, err
}

type erasure struct {
	Options
	conn   driver.Conn
	tables []table
}

// table is a base table that names traces.
type table struct {
	name string
	// byRequest says that its rows also name their request, rolledUp that rollups are made of it.
	byRequest, rolledUp bool
}

const requestsTable = "requests_base"

// tables lists the base tables that name traces, that of requests last.
func tables() []table {
	var out []table
	for _, t := range schema.Tables() {
		has := func(name string) bool {
			return slices.ContainsFunc(t.Columns, func(c schema.Column) bool { return c.Name == name })
		}
		if has("trace_id") {
			out = append(out, table{t.Name, has("request_id"), slices.Contains(rollup.BaseTables(), t.Name)})
		}
	}
	slices.SortStableFunc(out, func(a, b table) int {
		last := map[bool]int{true: 1}
		return last[a.name == requestsTable] - last[b.name == requestsTable]
	})
	return out
}

// checkCluster holds that the tables are of the cluster that was named: by another name, or
// none, rows would be deleted on some servers alone. No tables are left to schema.Check.
func (e *erasure) checkCluster(ctx context.Context) error {
	var engine string
	err := e.conn.QueryRow(ctx, "SELECT engine_full FROM system.tables WHERE database = @db AND name = @name", clickhouse.Named("db", e.Schema.Database), clickhouse.Named("name", requestsTable)).Scan(&engine)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s.%s: %w", e.Schema.Database, requestsTable, err)
	}
	switch of := clusterOf(engine); {
	case of == e.Schema.Cluster:
		return nil
	case of == "":
		return fmt.Errorf("%w: on one node, not on cluster %s", ErrCluster, e.Schema.Cluster)
	default:
		return fmt.Errorf("%w: on cluster %s", ErrCluster, of)
	}
}

// distributed is how a server shows the engine of a table over a cluster.
var distributed = regexp.MustCompile("^Distributed\\(['`\"]?([^'`\",]+)")

// clusterOf is the cluster's name in a table's engine; empty if the table is on one node.
func clusterOf(engine string) string {
	if m := distributed.FindStringSubmatch(engine); m != nil {
		return m[1]
	}
	return ""
}

func (e *erasure) run(ctx context.Context) (Report, error) {
	r := Report{}
	for _, t := range e.tables {
		r.Tables = append(r.Tables, Table{Name: t.name})
		if !t.byRequest {
			r.Kept = append(r.Kept, Table{Name: t.name})
		}
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_query_size": statementBytes}))
	traces, err := e.traces(ctx)
	if err != nil {
		return r, err
	}
	for done := range slices.Chunk(traces, tracesAtOnce) {
		found, err := e.look(ctx, done, &r)
		if err != nil {
			return r, err
		}
		for _, p := range found.parts() {
			if err := e.erase(ctx, p, &r); err != nil {
				return r, err
			}
		}
		if err := e.keep(ctx, found.shared, &r); err != nil {
			return r, err
		}
		e.Logger.Info("erasing", "traces", r.Traces, "of", len(traces), "dry_run", e.DryRun)
	}
	if e.DryRun {
		return r, nil
	}
	return r, rollup.SettlePlaces(ctx, e.conn, e.Schema.Database)
}

// rowsOf are a part's rows of a table.
type rowsOf struct {
	table      table
	where      string
	args       []any
	n          uint64
	partitions []string
	// sum is where the report adds them up.
	sum *Table
}

// erase counts and deletes one part in all tables. While rows of other tables are left, since
// they came meanwhile, those of requests stay, or the next run would not find what is left.
func (e *erasure) erase(ctx context.Context, p part, r *Report) error {
	var all []rowsOf
	for i, t := range e.tables {
		f := rowsOf{table: t, sum: &r.Tables[i]}
		if f.where, f.args = p.of(t, e.Kind, e.Hash); f.where == "" {
			continue
		}
		if err := e.count(ctx, &f); err != nil {
			return err
		}
		f.sum.Rows += f.n
		all = append(all, f)
	}
	if e.DryRun {
		for _, f := range all {
			f.sum.Left += f.n
		}
		return nil
	}
	for _, f := range all {
		if !f.table.rolledUp || f.n == 0 {
			continue
		}
		if err := rollup.HoldPlaces(ctx, e.conn, e.Schema.Database, f.table.name, f.where, f.args, newRun(), e.Now); err != nil {
			return err
		}
		if err := e.told("held places in " + f.table.name); err != nil {
			return err
		}
	}
	left := uint64(0)
	for _, requests := range []bool{false, true} {
		these := slices.DeleteFunc(slices.Clone(all), func(f rowsOf) bool { return (f.table.name == requestsTable) != requests })
		if left == 0 {
			if err := e.delete(ctx, these); err != nil {
				return err
			}
		}
		for _, f := range these {
			if err := e.count(ctx, &f); err != nil {
				return err
			}
			f.sum.Left += f.n
			left += f.n
		}
	}
	return nil
}

func (e *erasure) delete(ctx context.Context, all []rowsOf) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(e.settings()))
	for _, f := range all {
		for _, partition := range f.partitions {
			// Each is done when it returns, on a cluster on all replicas.
			sql := e.Schema.AlterRows(f.table.name) + " DELETE IN PARTITION ID '" + partition + "' WHERE " + f.where + " SETTINGS mutations_sync = 2"
			if err := e.conn.Exec(ctx, sql, f.args...); err != nil {
				return fmt.Errorf("delete from %s: %w", f.table.name, err)
			}
			if err := e.told("deleted from " + f.table.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// MaxStatement is how long one deletion may take on the server.
const MaxStatement = 2 * time.Hour

func (e *erasure) settings() clickhouse.Settings {
	seconds := int(MaxStatement.Seconds())
	s := clickhouse.Settings{"max_query_size": statementBytes, "max_execution_time": seconds}
	if e.Schema.Cluster != "" {
		s["distributed_ddl_task_timeout"] = seconds
	}
	return s
}

func (e *erasure) told(what string) error {
	if e.step == nil {
		return nil
	}
	return e.step(what)
}

// newRun is a name that no other placeholder has; it says nothing of whom it is about.
func newRun() string {
	var id [8]byte
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}
