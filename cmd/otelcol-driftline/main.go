// Command otelcol-driftline is a collector with driftline's components in it:
// OTLP in, findings into ClickHouse, and on to other backends where wanted.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/otelcol"

	"driftline/internal/version"
)

func main() {
	if err := command().ExecuteContext(context.Background()); err != nil {
		os.Exit(1) // cobra has printed the error
	}
}

func command() *cobra.Command {
	cmd := otelcol.NewCommand(settings())
	cmd.Short = "OpenTelemetry Collector with driftline's GenAI components"
	cmd.Example = `  otelcol-driftline --config otelcol-config.yaml
  otelcol-driftline validate --config otelcol-config.yaml
  otelcol-driftline components`
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	return cmd
}

func settings() otelcol.CollectorSettings {
	return otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{
			Command:     "otelcol-driftline",
			Description: "OpenTelemetry Collector with driftline's GenAI components",
			Version:     version.Version,
		},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{
				envprovider.NewFactory(), fileprovider.NewFactory(), yamlprovider.NewFactory(),
			},
			DefaultScheme: "env",
		}},
	}
}
