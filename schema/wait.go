package schema

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"driftline/internal/clock"
)

// WaitInterval is how often Wait looks.
const WaitInterval = time.Second

// Wait returns nil as soon as Check does. It goes on while the server is not reached or
// the database is not migrated, looking every WaitInterval of clk; a mismatch that waiting
// cannot mend (Permanent) is returned at once. When ctx ends, the error holds what was
// last seen.
func Wait(ctx context.Context, conn driver.Conn, o Options, clk clock.Clock) error {
	tick := make(chan struct{}, 1)
	stop := clk.Every(WaitInterval, func(time.Time) {
		select {
		case tick <- struct{}{}:
		default:
		}
	})
	defer stop()
	if err := o.Validate(); err != nil {
		return err
	}
	for {
		err := Check(ctx, conn, o)
		if err == nil || Permanent(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for the schema: %w; last seen: %w", context.Cause(ctx), err)
		case <-tick:
		}
	}
}
