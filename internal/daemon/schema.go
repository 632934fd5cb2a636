package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

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
	conn   driver.Conn
	o      schema.Options
	logger *slog.Logger

	mu    sync.Mutex
	found error
}

// problem is what the last look found wrong; it does not block.
func (w *schemaWatch) problem() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found
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
