package daemon

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"driftline/internal/engine"
)

// metrics is detectd's own telemetry, read through the OpenTelemetry SDK, and the pages
// of the parts that run beside it, as one Prometheus page.
type metrics struct {
	meter    metric.Meter
	provider *sdkmetric.MeterProvider
	handler  http.Handler
}

func newMetrics(o Options) (*metrics, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := otelprom.New(otelprom.WithRegisterer(registry))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	m := &metrics{provider: provider, meter: provider.Meter("driftline/detectd")}
	if o.EngineStatus != nil {
		if err := engineMetrics(m.meter, o.EngineStatus); err != nil {
			return nil, err
		}
	}
	gatherers := append(prometheus.Gatherers{registry}, o.Gatherers...)
	m.handler = promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return m, nil
}

func (m *metrics) shutdown(ctx context.Context) { _ = m.provider.Shutdown(ctx) }

// engineMetrics shows the embedded engine's state.
func engineMetrics(meter metric.Meter, status func() engine.Status) error {
	_, err := meter.Int64ObservableCounter("driftline.engine.restarts",
		metric.WithDescription("Starts of the embedded engine after the first."), metric.WithUnit("{restart}"),
		metric.WithInt64Callback(func(_ context.Context, obs metric.Int64Observer) error {
			obs.Observe(int64(status().Restarts))
			return nil
		}))
	if err != nil {
		return err
	}
	_, err = meter.Int64ObservableGauge("driftline.engine.up",
		metric.WithDescription("1 while the embedded engine accepts requests."), metric.WithUnit("1"),
		metric.WithInt64Callback(func(_ context.Context, obs metric.Int64Observer) error {
			up := int64(0)
			if status().State == engine.StateReady {
				up = 1
			}
			obs.Observe(up)
			return nil
		}))
	return err
}
