package standalone

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.uber.org/zap"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/service/telemetry"
)

// The collector inside has no metrics listener of its own: what its parts record is
// read on detectd's page, under the names that a collector gives it.

// chatty are the scopes whose metrics a collector leaves out by default too: one series
// for each peer of its servers and clients.
var chatty = []string{
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc",
}

// collectorMeter returns a meter provider whose metrics registry gathers.
func collectorMeter() (*sdkmetric.MeterProvider, *prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	reader, err := otelprom.New(otelprom.WithRegisterer(registry),
		otelprom.WithoutUnits(), otelprom.WithoutCounterSuffixes(), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("the collector's metrics: %w", err)
	}
	options := []sdkmetric.Option{sdkmetric.WithReader(reader)}
	for _, scope := range chatty {
		in := sdkmetric.Instrument{Name: "*"}
		in.Scope.Name = scope
		options = append(options, sdkmetric.WithView(sdkmetric.NewView(in, sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}})))
	}
	return sdkmetric.NewMeterProvider(options...), registry, nil
}

// telemetryConfig has no settings: detectd decides where logs and metrics go.
type telemetryConfig struct{}

// telemetryFactory gives the collector's parts our meter provider and logger.
func telemetryFactory(provider *sdkmetric.MeterProvider, logger *zap.Logger) telemetry.Factory {
	return telemetry.NewFactory(
		func() component.Config { return &telemetryConfig{} },
		telemetry.WithCreateLogger(func(context.Context, telemetry.LoggerSettings, component.Config) (*zap.Logger, component.ShutdownFunc, error) {
			return logger, nil, nil
		}),
		telemetry.WithCreateMeterProvider(func(context.Context, telemetry.MeterSettings, component.Config) (telemetry.MeterProvider, error) {
			return provider, nil
		}),
	)
}
