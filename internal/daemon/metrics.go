package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
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
	gatherers := prometheus.Gatherers{registry}
	for _, page := range o.ExtraMetrics {
		gatherers = append(gatherers, scraped(page, o.Logger))
	}
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

// scraped reads another part's page on loopback when ours is read.
func scraped(page string, logger *slog.Logger) prometheus.Gatherer {
	client := &http.Client{Timeout: 3 * time.Second}
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		resp, err := client.Get(page)
		if err != nil {
			logger.Warn("metrics of a part cannot be read", "page", page, "error", err)
			return nil, nil
		}
		defer resp.Body.Close()
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(resp.Body)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", page, err)
		}
		out := make([]*dto.MetricFamily, 0, len(families))
		for name, family := range families {
			if name == "target_info" || ownedByProcess(name) {
				continue // the process and its runtime are told by our own registry
			}
			out = append(out, family)
		}
		return out, nil
	})
}

func ownedByProcess(name string) bool {
	for _, prefix := range []string{"go_", "process_", "promhttp_"} {
		if len(name) > len(prefix) && name[:len(prefix)] == prefix {
			return true
		}
	}
	return false
}
