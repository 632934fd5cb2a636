package schema

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// MinServerVersion is the oldest ClickHouse release the templates are written for.
const MinServerVersion = "24.8"

// Applied is one recorded step.
type Applied struct {
	Version   uint32
	Number    uint32
	Name      string
	Checksum  string
	AppliedAt time.Time
	AppliedBy string
}

// Status is what a database says of itself next to what this binary knows.
type Status struct {
	Database      string
	ServerVersion string
	// Current is the highest version whose steps are all applied; 0 is none.
	Current uint32
	// Known is this binary's Version.
	Known uint32
	// Applied lists recorded steps in order; Pending those of this binary not recorded.
	Applied []Applied
	Pending []Step
	// Missing names tables and views of applied steps that are not in the database.
	Missing []string
	// Problem is nil or the *Error that Check would return.
	Problem error
}

// ReadStatus reads the state of o.Database. Its error is about options or the connection;
// a mismatch is in Status.Problem.
func ReadStatus(ctx context.Context, conn driver.Conn, o Options) (Status, error) {
	return readStatus(ctx, conn, o, Version)
}

// readStatus is ReadStatus of a binary whose newest version is known.
func readStatus(ctx context.Context, conn driver.Conn, o Options, known uint32) (Status, error) {
	steps, err := stepsUpTo(o, known)
	if err != nil {
		return Status{}, err
	}
	o = o.withDefaults()
	o.last = known
	st := Status{Database: o.Database, Known: known}
	if st.ServerVersion, err = serverVersion(ctx, conn); err != nil {
		return st, err
	}
	if err := minServerVersion(st.ServerVersion); err != nil {
		st.Problem = err
		st.Pending = steps
		return st, nil
	}
	have, err := readFound(ctx, conn, o.Database)
	if err != nil {
		return st, err
	}
	if have[migrationsTable] != nil {
		if st.Applied, err = readApplied(ctx, conn, o); err != nil {
			return st, err
		}
	}
	st.compare(steps)
	if Permanent(st.Problem) {
		return st, nil
	}
	st.compareObjects(o, steps, have)
	return st, nil
}

// Check returns nil if o.Database is exactly at Version, and otherwise an *Error of kind
// ErrNotMigrated, ErrMissing, ErrNewer, ErrChecksum, ErrColumns or ErrServerTooOld, or the connection's error.
func Check(ctx context.Context, conn driver.Conn, o Options) error {
	st, err := ReadStatus(ctx, conn, o)
	if err != nil {
		return err
	}
	return st.Problem
}

// compare fills Current, Pending and Problem.
func (s *Status) compare(steps []Step) {
	type id struct{ version, number uint32 }
	applied := make(map[id]Applied, len(s.Applied))
	for _, a := range s.Applied {
		applied[id{a.Version, a.Number}] = a
	}
	known := make(map[id]bool, len(steps))
	complete := map[uint32]bool{}
	for _, step := range steps {
		known[id{step.Version, step.Number}] = true
		if _, seen := complete[step.Version]; !seen {
			complete[step.Version] = true
		}
		a, ok := applied[id{step.Version, step.Number}]
		if !ok {
			complete[step.Version] = false
			s.Pending = append(s.Pending, step)
			continue
		}
		if s.Problem == nil && (a.Checksum != step.Checksum || a.Name != step.Name) {
			s.Problem = &Error{ErrChecksum,
				fmt.Sprintf("database %s: step %d.%d (%s) was applied with checksum %.12s, this binary has %s with %.12s", s.Database, a.Version, a.Number, a.Name, a.Checksum, step.Name, step.Checksum),
				"run the driftline release that applied it, or restore the table and its row in schema_migrations from a backup"}
		}
	}
	for v := uint32(1); complete[v]; v++ {
		s.Current = v
	}
	for _, a := range s.Applied {
		if !known[id{a.Version, a.Number}] {
			s.Current = max(s.Current, a.Version)
			s.Problem = &Error{ErrNewer,
				fmt.Sprintf("database %s has schema step %d.%d (%s), this binary knows versions up to %d", s.Database, a.Version, a.Number, a.Name, s.Known),
				"upgrade this binary to the release that migrated the database, or point it at another database"}
			return
		}
	}
	if s.Problem == nil && len(s.Pending) > 0 {
		first := s.Pending[0]
		s.Problem = &Error{ErrNotMigrated,
			fmt.Sprintf("database %s lacks %d of %d schema steps, the first is %d.%d (%s)", s.Database, len(s.Pending), len(steps), first.Version, first.Number, first.Name),
			"run `detectd migrate up` against it"}
	}
}

// readApplied returns recorded steps in order.
func readApplied(ctx context.Context, conn driver.Conn, o Options) ([]Applied, error) {
	rows, err := conn.Query(ctx, "SELECT version, step, name, checksum, applied_at, applied_by FROM "+o.all(migrationsTable)+" FINAL ORDER BY version, step")
	if err != nil {
		return nil, fmt.Errorf("read %s.%s: %w", o.Database, migrationsTable, err)
	}
	defer rows.Close()
	var out []Applied
	for rows.Next() {
		var a Applied
		if err := rows.Scan(&a.Version, &a.Number, &a.Name, &a.Checksum, &a.AppliedAt, &a.AppliedBy); err != nil {
			return nil, fmt.Errorf("read %s.%s: %w", o.Database, migrationsTable, err)
		}
		out = append(out, a)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read %s.%s: %w", o.Database, migrationsTable, err)
	}
	return out, nil
}

func serverVersion(ctx context.Context, conn driver.Conn) (string, error) {
	var v string
	if err := conn.QueryRow(ctx, "SELECT version()").Scan(&v); err != nil {
		return "", fmt.Errorf("ask the server for its version: %w", err)
	}
	return v, nil
}

// minServerVersion compares year and number of a release such as 24.8.4.13.
func minServerVersion(version string) error {
	if have, ok := release(version); ok {
		if want, _ := release(MinServerVersion); have[0] > want[0] || have[0] == want[0] && have[1] >= want[1] {
			return nil
		}
	}
	return &Error{ErrServerTooOld,
		fmt.Sprintf("the server is ClickHouse %q, driftline needs %s or newer", version, MinServerVersion),
		"upgrade the server or use another one"}
}

func release(version string) (r [2]int, ok bool) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return r, false
	}
	for i := range r {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return r, false
		}
		r[i] = n
	}
	return r, true
}
