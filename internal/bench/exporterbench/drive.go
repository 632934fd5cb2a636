package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/clickhouseexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/exporter/genaiclickhouse"
	"driftline/schema"
)

// subject is one exporter under test.
type subject struct {
	name string
	// findings says that it gets spans with what genaisegment found.
	findings bool
	factory  exporter.Factory
	config   map[string]any
	// prepare makes the tables, unless the exporter does.
	prepare func(ctx context.Context, conn driver.Conn, database string) error
}

const (
	nameContrib         = "clickhouseexporter"
	nameDriftline       = "genaiclickhouse"
	nameContribFindings = "clickhouseexporter with findings"
)

func contrib(o options) subject {
	return subject{
		name: nameContrib, factory: clickhouseexporter.NewFactory(), config: map[string]any{"compress": o.compress},
		prepare: func(context.Context, driver.Conn, string) error { return nil },
	}
}

// contribWithFindings gets the spans that genaiclickhouse gets.
func contribWithFindings(o options) subject {
	s := contrib(o)
	s.name, s.findings = nameContribFindings, true
	return s
}

func driftline(o options) subject {
	return subject{
		name: nameDriftline, findings: true, factory: genaiclickhouse.NewFactory(), config: map[string]any{"compression": o.compress},
		prepare: func(ctx context.Context, conn driver.Conn, database string) error {
			return schema.Up(ctx, conn, schema.Options{Database: database}, nil)
		},
	}
}

// start starts the exporter without its queue, so that a push has ended when it returns.
func (s subject) start(ctx context.Context, endpoint, database string) (exporter.Traces, error) {
	settings := map[string]any{
		"endpoint": endpoint, "database": database, "username": "default", "timeout": "120s",
		"sending_queue": map[string]any{"enabled": false}, "retry_on_failure": map[string]any{"enabled": false},
	}
	for k, v := range s.config {
		settings[k] = v
	}
	cfg := s.factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(settings).Unmarshal(cfg); err != nil {
		return nil, fmt.Errorf("settings of %s: %w", s.name, err)
	}
	exp, err := s.factory.CreateTraces(ctx, exporter.Settings{
		ID: component.NewID(s.factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings(),
	}, cfg)
	if err != nil {
		return nil, err
	}
	return exp, exp.Start(ctx, componenttest.NewNopHost())
}

// push sends batches over `workers` goroutines and returns when all are acknowledged.
func push(ctx context.Context, exp exporter.Traces, batches []ptrace.Traces, workers int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan ptrace.Traces)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for td := range next {
				if err := exp.ConsumeTraces(ctx, td); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, td := range batches {
		next <- td
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}

// cpu is the processor time that a process has used.
func cpu(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * (time.Second / 100)
}
