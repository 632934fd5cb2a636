package main

import (
	"errors"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/healthcheckextension"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/debugexporter"
	"go.opentelemetry.io/collector/exporter/nopexporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/zpagesextension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/nopreceiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"

	"driftline/exporter/genaiclickhouse"
	"driftline/processor/genaisegment"
)

// factories lists what the distribution holds. builder-config.yaml lists the same for
// those who build their own; a test compares the two.
func factories() (otelcol.Factories, error) {
	f := otelcol.Factories{Telemetry: otelconftelemetry.NewFactory()}
	var errs [4]error
	f.Extensions, errs[0] = otelcol.MakeFactoryMap[extension.Factory](
		filestorage.NewFactory(),
		healthcheckextension.NewFactory(),
		zpagesextension.NewFactory(),
	)
	f.Receivers, errs[1] = otelcol.MakeFactoryMap[receiver.Factory](
		nopreceiver.NewFactory(),
		otlpreceiver.NewFactory(),
	)
	f.Processors, errs[2] = otelcol.MakeFactoryMap[processor.Factory](
		batchprocessor.NewFactory(),
		genaisegment.NewFactory(),
		memorylimiterprocessor.NewFactory(),
	)
	f.Exporters, errs[3] = otelcol.MakeFactoryMap[exporter.Factory](
		debugexporter.NewFactory(),
		genaiclickhouse.NewFactory(),
		nopexporter.NewFactory(),
		otlpexporter.NewFactory(),
	)
	return f, errors.Join(errs[:]...)
}
