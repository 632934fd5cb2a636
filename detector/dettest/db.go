package dettest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"driftline/internal/engine/enginetest"
	"driftline/schema"
)

// DB returns a connection and the name of an empty, migrated database. The
// package's TestMain must be enginetest.Main.
func DB(t testing.TB) (driver.Conn, string) {
	t.Helper()
	e := enginetest.Shared(t)
	if e.External() {
		db := e.Database(t) // dropped at the test's end
		migrate(t, e.Conn(t), db)
		return e.ConnTo(t, db), db
	}
	d := migrated.take(t, e)
	t.Cleanup(func() { migrated.giveBack(t, e, d) })
	return e.ConnTo(t, d.name), d.name
}

func migrate(t testing.TB, conn driver.Conn, db string) {
	t.Helper()
	if err := schema.Up(context.Background(), conn, schema.Options{Database: db}, nil); err != nil {
		t.Fatalf("migrate %s: %v", db, err)
	}
}

// migrated holds databases that tests have left as the migration made them but for rows:
// a migration takes the engine longer than most tests do.
var migrated pool

type pool struct {
	mu   sync.Mutex
	made int
	free []database
}

// database is a migrated one, with what it was made of.
type database struct{ name, made string }

func (p *pool) take(t testing.TB, e *enginetest.Engine) database {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		d := p.free[n-1]
		p.free = p.free[:n-1]
		return d
	}
	p.made++
	d := database{name: fmt.Sprint("pooled_", p.made)}
	conn := e.Conn(t)
	migrate(t, conn, d.name)
	var err error
	if d.made, err = made(conn, d.name); err != nil {
		t.Fatalf("look at %s: %v", d.name, err)
	}
	return d
}

// giveBack empties a database for the next test. One that is no longer what the migration
// made, or whose test failed, is left behind.
func (p *pool) giveBack(t testing.TB, e *enginetest.Engine, d database) {
	if t.Failed() || e.PID() == 0 {
		return
	}
	conn := e.Conn(t)
	if now, err := made(conn, d.name); err != nil || now != d.made {
		return
	}
	full, err := texts(conn, "SELECT DISTINCT table FROM system.parts WHERE database = '"+d.name+"' AND active AND table NOT LIKE 'schema_%'")
	if err != nil {
		t.Errorf("look at %s: %v", d.name, err)
		return
	}
	for _, table := range full {
		// Truncation forgets the tokens of inserts too.
		if err := conn.Exec(context.Background(), "TRUNCATE TABLE "+d.name+"."+table+" SYNC"); err != nil {
			t.Errorf("empty %s.%s: %v", d.name, table, err)
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, d)
}

// made is what a database consists of: its tables and views, the steps recorded in it and
// mutations that have not ended.
func made(conn driver.Conn, db string) (string, error) {
	var all []string
	for _, query := range []string{
		"SELECT create_table_query FROM system.tables WHERE database = '" + db + "' ORDER BY name",
		"SELECT toString(tuple(version, step, checksum)) FROM " + db + ".schema_migrations ORDER BY version, step, checksum",
		"SELECT concat(table, mutation_id) FROM system.mutations WHERE database = '" + db + "' AND NOT is_done ORDER BY table, mutation_id",
	} {
		part, err := texts(conn, query)
		if err != nil {
			return "", err
		}
		all = append(append(all, part...), "")
	}
	return strings.Join(all, "\n"), nil
}

// texts is the one column of a query's result.
func texts(conn driver.Conn, query string) ([]string, error) {
	rows, err := conn.Query(context.Background(), query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, rows.Err()
}
