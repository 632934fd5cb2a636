package genaisegment

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"driftline/internal/clock"
	"driftline/processor/genaisegment/internal/metadata"
)

// NewFactory returns the processor's factory.
func NewFactory() processor.Factory { return NewFactoryWithClock(clock.System()) }

// NewFactoryWithClock returns a factory whose processors take their time from c. With
// a manual clock all work happens on the goroutine that consumes or advances.
func NewFactoryWithClock(c clock.Clock) processor.Factory {
	r := newRegistry()
	return processor.NewFactory(
		metadata.Type,
		createDefaultConfig,
		processor.WithTraces(func(_ context.Context, set processor.Settings, cfg component.Config, next consumer.Traces) (processor.Traces, error) {
			p, err := newProcessor(set, cfg.(*Config), next, c)
			if err != nil {
				return nil, err
			}
			r.add(p)
			return p, nil
		}, metadata.TracesStability),
		processor.WithLogs(func(_ context.Context, set processor.Settings, cfg component.Config, next consumer.Logs) (processor.Logs, error) {
			return newHeartbeats(set, cfg.(*Config), next, c, r)
		}, metadata.LogsStability),
	)
}
