package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"driftline/internal/chconn"
	"driftline/internal/clock"
	"driftline/schema"
)

// schemaInterval is how often a running detectd looks whether the tables are still what it
// knows: someone may drop one or migrate further. schemaTimeout bounds one look.
const (
	schemaInterval = 30 * time.Second
	schemaTimeout  = 10 * time.Second
)

// schemaWatch remembers what the last look at the schema found.
type schemaWatch struct {
	target chconn.Target
	conn   driver.Conn
	o      schema.Options
	logger *slog.Logger

	mu    sync.Mutex
	found error
	// unseen is why the schema was never seen to be right; nil once it was.
	unseen error
}

// problem is what the last look found wrong; it does not block.
func (w *schemaWatch) problem() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unseen != nil {
		return w.unseen
	}
	return w.found
}

// admit is nil once the schema was seen to be right, and looks for it until then: a server
// that came up after this process may hold another version, or none.
func (w *schemaWatch) admit(ctx context.Context) error {
	w.mu.Lock()
	waits := w.unseen != nil
	w.mu.Unlock()
	if !waits {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	st, err := readSchema(ctx, w.target, w.o)
	if err == nil {
		err = st.Problem
	}
	w.mu.Lock()
	w.unseen = err
	w.mu.Unlock()
	if err == nil {
		w.logger.Info("ClickHouse answers, and its schema is right", "database", w.target.Database())
	}
	return err
}

// readSchema asks without choosing the database, since a server refuses to talk about one that
// is not there before anybody could say that it was never migrated.
func readSchema(ctx context.Context, t chconn.Target, o schema.Options) (schema.Status, error) {
	conn, err := t.Open(ctx)
	if err != nil {
		return schema.Status{}, err
	}
	defer conn.Close()
	return schema.ReadStatus(ctx, conn, o)
}

// look checks the schema now. A database that does not answer says nothing about the
// schema, and is reported elsewhere.
func (w *schemaWatch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	st, err := schema.ReadStatus(ctx, w.conn, w.o)
	if err != nil {
		return
	}
	w.mu.Lock()
	before := w.found
	w.found = st.Problem
	w.mu.Unlock()
	switch {
	case st.Problem == nil && before != nil:
		w.logger.Info("the schema is right again", "database", st.Database)
	case st.Problem != nil && fmt.Sprint(before) != fmt.Sprint(st.Problem):
		w.logger.Error("the schema is not what this binary knows; /readyz says so until it is", "error", st.Problem)
	}
}

// run looks every schemaInterval until stop is called.
func (w *schemaWatch) run(ctx context.Context, clk clock.Clock) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	end := clk.Every(schemaInterval, func(time.Time) { w.look(ctx) })
	return func() {
		cancel() // a look that waits for a silent server must not hold the end up
		end()
	}
}
