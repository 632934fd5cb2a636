package genaiclickhouse

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"driftline/internal/clock"
	"driftline/internal/rows"
	"driftline/schema"
)

// checkInterval is how often the schema is looked at while it is not right and no data
// comes in.
const checkInterval = 5 * time.Second

// genaiExporter writes batches. push may run on several goroutines at once.
type genaiExporter struct {
	cfg     *Config
	clk     clock.Clock
	log     *zap.Logger
	tel     *telemetry
	samples *sampler
	collect *collector
	conn    driver.Conn
	writer  writer
	host    component.Host
	stop    func()

	suspects suspects

	mu        sync.Mutex
	ready     bool
	condition condition
}

func newExporter(set exporter.Settings, cfg *Config, clk clock.Clock) (*genaiExporter, error) {
	tel, err := newTelemetry(set.TelemetrySettings, clk)
	if err != nil {
		return nil, err
	}
	return &genaiExporter{
		cfg: cfg, clk: clk, log: set.Logger, tel: tel, samples: newSampler(set.Logger, clk),
		collect: newCollector(cfg),
	}, nil
}

// start never fails for a ClickHouse that is down or not migrated: data waits in the queue.
func (e *genaiExporter) start(ctx context.Context, host component.Host) error {
	conn, err := e.cfg.open(ctx, e.tel.sentBytes)
	if err != nil {
		return err
	}
	e.conn, e.host = conn, host
	e.writer = e.cfg.writer(conn)
	running, cancel := context.WithCancel(context.Background())
	stop := e.clk.Every(checkInterval, func(time.Time) {
		ctx, done := context.WithTimeout(running, e.cfg.TimeoutConfig.Timeout)
		defer done()
		_ = e.checkSchema(ctx)
	})
	unwatch := e.watchPressure(running)
	e.stop = func() {
		cancel() // a check that waits for a silent server must not hold the shutdown up
		stop()
		unwatch()
	}
	return nil
}

func (e *genaiExporter) shutdown(context.Context) error {
	if e.stop != nil {
		e.stop()
	}
	e.tel.shutdown()
	if e.conn == nil {
		return nil
	}
	if err := e.conn.Close(); err != nil {
		return fmt.Errorf("close the connection to ClickHouse: %w", err)
	}
	return nil
}

// checkSchema returns nil once the schema was found right. From then on it is believed
// until an insert says otherwise, so a migration that only adds does not stop the intake.
func (e *genaiExporter) checkSchema(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ready {
		return nil
	}
	st, err := schema.ReadStatus(ctx, e.conn, schema.Options{Database: e.cfg.Database})
	if err == nil {
		e.tel.schemaVersion(ctx, st.Current)
		err = st.Problem
	}
	e.ready = err == nil
	e.tel.ready(ctx, e.ready)
	e.reportSchema(err)
	return err
}

// distrust makes the next push look at the schema again.
func (e *genaiExporter) distrust(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ready = false
	e.tel.ready(ctx, false)
}

// push writes one piece of a batch. The whole piece may be tried again after an error:
// tokens and keys make that harmless. judge says whether it will be, which is counted; an
// error that it finds permanent costs the rows of one table, and the others are written.
func (e *genaiExporter) push(ctx context.Context, td ptrace.Traces, judge func(error) errorClass) error {
	spans := int64(td.SpanCount())
	e.tel.spansReceived(ctx, spans)
	if err := e.checkSchema(ctx); err != nil {
		e.tel.spansRefused(ctx, spans, judge(err))
		return fmt.Errorf("genaiclickhouse: not ready: %w", err)
	}
	now := e.clk.Now()
	batch := e.collect.collect(td, now)
	defer e.collect.release(batch)
	left := batch.found()
	e.tel.rowsReceived(ctx, left)
	var lost error
	thin := batch.spans.Rows()
	for _, in := range batch.inserts() {
		if err := e.insert(ctx, &in); err != nil {
			f := describe(err)
			err = &insertError{in.table, fmt.Errorf("genaiclickhouse: insert %d rows into %s.%s (%s, code %d): %w", in.rows, e.cfg.Database, in.table, f.class, f.code, err)}
			class := judge(err)
			if class == classPermanent {
				// The rows of this table are lost. Those of the others are not to blame.
				e.tel.rowsRefused(ctx, map[rows.Table]int64{in.table: int64(in.rows)}, class)
				left[in.table] -= int64(in.rows)
				if in.table == tableSpans {
					e.tel.spansRefused(ctx, int64(in.rows), class)
					thin = 0
				}
				lost = err
				continue
			}
			e.tel.rowsRefused(ctx, left, class)
			e.tel.spansRefused(ctx, spans, class)
			if f.schema {
				e.distrust(ctx)
			}
			return err
		}
		left[in.table] -= int64(in.rows)
		e.tel.rowsWritten(ctx, in.table, in.rows, in.block.Size())
	}
	e.settle(ctx, batch, thin)
	return lost
}

func (e *genaiExporter) insert(ctx context.Context, in *insert) error {
	begin := time.Now()
	err := e.writer.send(ctx, in)
	outcome := "ok"
	if err != nil {
		f := describe(err)
		outcome = string(f.class)
		e.tel.insertError(ctx, f)
	}
	e.tel.insertDuration(ctx, time.Since(begin), in.table, outcome)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	return err
}

// settle counts what a written batch left out, once per batch however often it was tried,
// and the thin spans that were stored.
func (e *genaiExporter) settle(ctx context.Context, batch *collected, thin int) {
	e.tel.spansStored(ctx, thin)
	for reason, n := range batch.skipped {
		e.tel.spansSkipped(ctx, reason, n)
	}
	for i := range batch.bad {
		e.tel.rowDropped(ctx, &batch.bad[i])
		e.samples.log(&batch.bad[i])
	}
}
