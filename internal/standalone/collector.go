package standalone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"gopkg.in/yaml.v3"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/version"
	"driftline/internal/zapslog"
	"driftline/processor/genaisegment"
)

// CollectorOptions are the settings of the collector that runs inside detectd.
type CollectorOptions struct {
	// OTLPGRPC and OTLPHTTP are the addresses of the OTLP receiver.
	OTLPGRPC, OTLPHTTP string
	// ClickHouse is where the exporter writes, such as http://127.0.0.1:8123; Database
	// the database there.
	ClickHouse, Database string
	// Password is that of the user "default" there.
	Password string
	// IdentityKey is the key under which users and tenants are hashed; empty leaves them
	// unknown.
	IdentityKey string
	// Processor and Exporter are further settings of the two components, merged over
	// the defaults as in a collector's YAML.
	Processor, Exporter map[string]any
	Logger              *slog.Logger
}

// config is the collector's configuration as a person would write it in YAML.
func (o CollectorOptions) config() (string, error) {
	exporterConfig := map[string]any{
		"endpoint": o.ClickHouse,
		"database": o.Database,
		"username": "default",
	}
	if o.Password != "" {
		// A dollar sign would begin a reference in the configuration.
		exporterConfig["password"] = strings.ReplaceAll(o.Password, "$", "$$")
	}
	for k, v := range o.Exporter {
		exporterConfig[k] = v
	}
	processorConfig := map[string]any{}
	if o.IdentityKey != "" {
		processorConfig["identity_key"] = strings.ReplaceAll(o.IdentityKey, "$", "$$")
	}
	for k, v := range o.Processor {
		processorConfig[k] = v
	}
	doc := map[string]any{
		"receivers": map[string]any{"otlp": map[string]any{"protocols": map[string]any{
			"grpc": map[string]any{"endpoint": o.OTLPGRPC},
			"http": map[string]any{"endpoint": o.OTLPHTTP},
		}}},
		"processors": map[string]any{"genaisegment": processorConfig},
		"exporters":  map[string]any{"genaiclickhouse": exporterConfig},
		"service": map[string]any{
			"pipelines": map[string]any{"traces": map[string]any{
				"receivers":  []string{"otlp"},
				"processors": []string{"genaisegment"},
				"exporters":  []string{"genaiclickhouse"},
			}},
		},
	}
	text, err := yaml.Marshal(doc)
	return string(text), err
}

func factories(t telemetry.Factory) (otelcol.Factories, error) {
	var f otelcol.Factories
	var err, all error
	f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	all = errors.Join(all, err)
	f.Processors, err = otelcol.MakeFactoryMap[processor.Factory](genaisegment.NewFactory())
	all = errors.Join(all, err)
	f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](genaiclickhouse.NewFactory())
	all = errors.Join(all, err)
	f.Telemetry = t
	return f, all
}

// Collector is a running collector: OTLP in, rows out.
type Collector struct {
	// Metrics gathers what the collector's parts record of themselves.
	Metrics prometheus.Gatherer

	col  *otelcol.Collector
	done chan error
}

// StartCollector starts the collector and waits until it takes spans. An address in
// use or a wrong setting is returned as an error that names it.
func StartCollector(ctx context.Context, o CollectorOptions) (*Collector, error) {
	text, err := o.config()
	if err != nil {
		return nil, err
	}
	provider, registry, err := collectorMeter()
	if err != nil {
		return nil, err
	}
	logger := zap.New(zapslog.Core(o.Logger))
	col, err := otelcol.NewCollector(otelcol.CollectorSettings{
		Factories:               func() (otelcol.Factories, error) { return factories(telemetryFactory(provider, logger)) },
		BuildInfo:               component.BuildInfo{Command: "detectd", Description: "driftline standalone", Version: version.Version},
		DisableGracefulShutdown: true,
		SkipSettingGRPCLogger:   true,
		LoggingOptions: []zap.Option{zap.WrapCore(func(zapcore.Core) zapcore.Core {
			return zapslog.Core(o.Logger)
		})},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{"yaml:" + text},
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("build the collector: %w", err)
	}
	c := &Collector{Metrics: registry, col: col, done: make(chan error, 1)}
	go func() { c.done <- col.Run(context.WithoutCancel(ctx)) }()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for col.GetState() != otelcol.StateRunning {
		select {
		case err := <-c.done:
			return nil, explainStart(err, o)
		case <-ctx.Done():
			c.Shutdown()
			return nil, ctx.Err()
		case <-poll.C:
		}
	}
	return c, nil
}

// explainStart adds what to do to an error of the collector's start.
func explainStart(err error, o CollectorOptions) error {
	if err == nil {
		return errors.New("the collector stopped while starting, without an error")
	}
	if strings.Contains(err.Error(), "address already in use") {
		return fmt.Errorf("the OTLP receiver cannot listen on %s (gRPC) and %s (HTTP): %w; stop the program that holds the port, or choose others with --otlp-grpc and --otlp-http",
			o.OTLPGRPC, o.OTLPHTTP, err)
	}
	return fmt.Errorf("start the collector: %w", err)
}

// Done is closed with the reason when the collector ends by itself.
func (c *Collector) Done() <-chan error { return c.done }

// Shutdown drains the pipeline and stops. It returns when the collector has ended.
func (c *Collector) Shutdown() error {
	c.col.Shutdown()
	return <-c.done
}
