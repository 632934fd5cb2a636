package demo

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"

	"go.uber.org/zap"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/clock"
	"driftline/internal/zapslog"
	"driftline/processor/genaisegment"
)

// pipeline is the collector's branch, processor and exporter, on a manual clock. All
// but the writing of one batch happens on the caller's goroutine.
type pipeline struct {
	processor processor.Traces
	exporter  exporter.Traces
	pending   ptrace.Traces
	// flushSpans is how many spans make a batch for the exporter.
	flushSpans int
	sent       int
	// writing gets the outcome of the batch that is being written; nil if none is.
	writing chan error
}

// newPipeline builds the components from their real factories. The exporter writes at
// once, without its queue, so that a flush has ended when it returns.
func newPipeline(ctx context.Context, clk clock.Clock, endpoint, database string, flushSpans int, logger *slog.Logger) (*pipeline, error) {
	p := &pipeline{pending: ptrace.NewTraces(), flushSpans: flushSpans}
	telemetry := componenttest.NewNopTelemetrySettings()
	telemetry.Logger = zap.New(zapslog.Core(logger))

	ef := genaiclickhouse.NewFactoryWithClock(clk)
	ecfg := ef.CreateDefaultConfig()
	err := confmap.NewFromStringMap(map[string]any{
		"endpoint": endpoint, "database": database, "username": "default",
		"sending_queue": map[string]any{"enabled": false},
	}).Unmarshal(ecfg)
	if err != nil {
		return nil, fmt.Errorf("exporter settings: %w", err)
	}
	p.exporter, err = ef.CreateTraces(ctx, exporter.Settings{
		ID: component.NewID(ef.Type()), TelemetrySettings: telemetry,
	}, ecfg)
	if err != nil {
		return nil, err
	}

	next, err := consumer.NewTraces(func(ctx context.Context, td ptrace.Traces) error {
		td.ResourceSpans().MoveAndAppendTo(p.pending.ResourceSpans())
		return nil
	})
	if err != nil {
		return nil, err
	}
	pf := genaisegment.NewFactoryWithClock(clk)
	p.processor, err = pf.CreateTraces(ctx, processor.Settings{
		ID: component.NewID(pf.Type()), TelemetrySettings: telemetry,
	}, pf.CreateDefaultConfig(), next)
	if err != nil {
		return nil, err
	}
	host := componenttest.NewNopHost()
	if err := p.exporter.Start(ctx, host); err != nil {
		return nil, err
	}
	return p, p.processor.Start(ctx, host)
}

// consume takes one batch as an SDK would export it.
func (p *pipeline) consume(ctx context.Context, td ptrace.Traces) error {
	return p.processor.ConsumeTraces(ctx, td)
}

// flush hands what the processor released to the exporter if it is a batch's worth, or
// in any case when all is set. With all it returns when everything is stored; otherwise
// the batch is written while the caller goes on, one at a time.
func (p *pipeline) flush(ctx context.Context, all bool) error {
	n := p.pending.SpanCount()
	if n > 0 && (all || n >= p.flushSpans) {
		if err := p.written(); err != nil {
			return err
		}
		batch, done := p.pending, make(chan error, 1)
		p.pending, p.writing = ptrace.NewTraces(), done
		p.sent += n
		go func() {
			err := p.exporter.ConsumeTraces(ctx, batch)
			if err != nil {
				err = fmt.Errorf("store %d spans: %w", n, err)
			}
			done <- err
		}()
	}
	if all {
		return p.written()
	}
	return nil
}

// written waits for the batch that is being written, if one is.
func (p *pipeline) written() error {
	if p.writing == nil {
		return nil
	}
	err := <-p.writing
	p.writing = nil
	return err
}

// shutdown drains the processor and writes the rest.
func (p *pipeline) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := p.processor.Shutdown(ctx); err != nil {
		return err
	}
	if err := p.flush(ctx, true); err != nil {
		return err
	}
	return p.exporter.Shutdown(ctx)
}
