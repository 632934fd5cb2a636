package genaisegment

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/nopexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/nopreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

const collectorConfig = `
receivers: {nop: }
processors: {genaisegment: , genaisegment/other: }
exporters: {nop: }
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [nop], processors: [genaisegment], exporters: [nop]}
    logs: {receivers: [nop], processors: [%], exporters: [nop]}
`

// A collector gives the components of its traces and logs pipelines that have one name one
// configuration, by which they find each other.
func TestPipelinesOfOneCollectorFindEachOther(t *testing.T) {
	for name, alone := range map[string]int{"genaisegment": 0, "genaisegment/other": 1} {
		core, seen := observer.New(zap.WarnLevel)
		col, err := otelcol.NewCollector(otelcol.CollectorSettings{
			BuildInfo: component.NewDefaultBuildInfo(),
			Factories: func() (f otelcol.Factories, err error) {
				f.Telemetry = otelconftelemetry.NewFactory()
				if f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](nopreceiver.NewFactory()); err != nil {
					return f, err
				}
				if f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](nopexporter.NewFactory()); err != nil {
					return f, err
				}
				f.Processors, err = otelcol.MakeFactoryMap[processor.Factory](NewFactory())
				return f, err
			},
			DisableGracefulShutdown: true,
			LoggingOptions:          []zap.Option{zap.WrapCore(func(zapcore.Core) zapcore.Core { return core })},
			ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
				URIs:              []string{"yaml:" + strings.Replace(collectorConfig, "%", name, 1)},
				ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
			}},
		})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- col.Run(context.WithoutCancel(t.Context())) }()
		require.Eventually(t, func() bool { return col.GetState() == otelcol.StateRunning }, 20*time.Second, 5*time.Millisecond)
		col.Shutdown()
		require.NoError(t, <-done)
		require.Len(t, seen.FilterMessageSnippet("no traces pipeline names this processor").All(), alone, name)
	}
}
