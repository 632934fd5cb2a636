package genaiclickhouse

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"driftline/exporter/genaiclickhouse/internal/metadata"
	"driftline/internal/clock"
)

// NewFactory makes the exporter's factory, on the machine's clock.
func NewFactory() exporter.Factory { return NewFactoryWithClock(clock.System()) }

// NewFactoryWithClock makes a factory whose exporters take `ingested_at` and the notion
// of "now" in their checks of timestamps from clk.
func NewFactoryWithClock(clk clock.Clock) exporter.Factory {
	return exporter.NewFactory(metadata.Type, createDefaultConfig,
		exporter.WithTraces(func(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Traces, error) {
			return createTraces(ctx, set, cfg.(*Config), clk)
		}, metadata.TracesStability))
}

func createTraces(ctx context.Context, set exporter.Settings, cfg *Config, clk clock.Clock) (exporter.Traces, error) {
	e, err := newExporter(set, cfg, clk)
	if err != nil {
		return nil, err
	}
	return exporterhelper.NewTraces(ctx, set, cfg, e.deliver,
		exporterhelper.WithCapabilities(consumer.Capabilities{MutatesData: false}),
		exporterhelper.WithTimeout(cfg.TimeoutConfig),
		exporterhelper.WithRetry(cfg.RetryConfig),
		exporterhelper.WithQueue(cfg.QueueConfig),
		exporterhelper.WithStart(e.start),
		exporterhelper.WithShutdown(e.shutdown),
	)
}
