package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"driftline/detector"
	"driftline/detector/notify"
	"driftline/internal/chconn"
	"driftline/internal/clock"
	"driftline/internal/daemon"
	"driftline/internal/engine"
	"driftline/internal/settings"
	"driftline/internal/standalone"
	"driftline/schema"
)

// alerting holds the flags of detection, delivery and UI that serve and standalone share.
type alerting struct {
	ui, external            string
	allowedHosts            []string
	alertmanagers, webhooks []string
	slacks                  []string
	toAlertmanager, toHook  notify.Access
	shadow                  []string
	dashboard, runbook      string
	config                  string
}

func (a *alerting) flags(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&a.config, "config", "", "YAML file with the settings of detection; read again on SIGHUP")
	fs.StringVar(&a.ui, "ui-listen", "127.0.0.1:8686", "address of pages, /metrics, /healthz and /readyz")
	fs.StringVar(&a.external, "external-url", "", "URL under which people reach the UI, for links in alerts")
	fs.StringSliceVar(&a.allowedHosts, "allowed-host", nil, "further host names under which the UI is reached, such as a proxy's")
	fs.StringArrayVar(&a.alertmanagers, "alertmanager", nil, "URL of an Alertmanager, such as http://127.0.0.1:9093; may be repeated, one for each member of a cluster")
	fs.StringArrayVar(&a.webhooks, "webhook", nil, "URL that gets alerts in Alertmanager's webhook format; may be repeated")
	fs.StringArrayVar(&a.slacks, "slack-webhook", nil, "where the URL of a Slack-compatible incoming webhook is kept: env:NAME or file:PATH; may be repeated")
	for kind, to := range map[string]*notify.Access{"alertmanager": &a.toAlertmanager, "webhook": &a.toHook} {
		fs.StringVar(&to.BearerFile, kind+"-bearer-file", "", "file with a token that each --"+kind+" gets as bearer; read at each delivery")
		fs.StringVar(&to.BasicFile, kind+"-basic-file", "", "file with one line user:password for each --"+kind+"; read at each delivery")
		fs.StringVar(&to.CAFile, kind+"-ca-file", "", "PEM file of the authorities that sign the certificates of each --"+kind)
	}
	fs.StringSliceVar(&a.shadow, "shadow", nil, "detections that are stored and shown but never sent, such as p95_surge")
	fs.StringVar(&a.dashboard, "dashboard-url", "", "URL of the Grafana dashboard, for links in alerts")
	fs.StringVar(&a.runbook, "runbook-url", "", "URL of a runbook of your own, for links in alerts; #<detection> is added; default: the built-in pages")
}

// options are the daemon's settings as far as flags give them, and every mistake in them.
func (a *alerting) options(g *global) (daemon.Options, error) {
	logger, err := g.logger()
	cfg, wrong := a.detection()
	if wrong != nil {
		cfg = detector.DefaultConfig() // so that the flags' mistakes are said too
	}
	o := daemon.Options{
		UIListen: a.ui, ExternalURL: a.external, AllowedHosts: a.allowedHosts,
		Alertmanagers: a.alertmanagers, Webhooks: a.webhooks, SlackWebhooks: a.slacks, AlertmanagerAccess: a.toAlertmanager, WebhookAccess: a.toHook,
		Detector: cfg, Clock: clock.System(), Logger: logger,
	}
	if a.config != "" {
		o.Reload = a.detection
	}
	return o, usage(err, wrong, o.Validate())
}

// detection reads the settings of detection: the file, with the flags before it.
func (a *alerting) detection() (detector.Config, error) {
	cfg, err := settings.Load(a.config)
	if err != nil {
		return cfg, err
	}
	if a.dashboard != "" {
		cfg.DashboardURL = a.dashboard
	}
	if a.runbook != "" {
		cfg.RunbookURL = a.runbook
	}
	rules := []*detector.Rules{&cfg.Rules}
	for i := range cfg.Overrides {
		rules = append(rules, &cfg.Overrides[i].Rules)
	}
	for _, r := range rules {
		for _, name := range a.shadow {
			if r.Shadow == nil {
				r.Shadow = map[string]bool{}
			}
			r.Shadow[name] = true
		}
	}
	return cfg, nil
}

func newStandalone(g *global) *cobra.Command {
	a := &alerting{}
	s := &storage{}
	var o standalone.Options
	var memoryMiB, ownMemoryMiB int64
	c := &cobra.Command{
		Use:   "standalone",
		Short: "Run everything in one process: OTLP, storage, detection, UI",
		Long: `standalone takes OTLP, cuts spans into segments, stores them in an embedded ClickHouse engine
in a folder, detects and alerts. The engine is a child process that is restarted when it ends;
spans queue meanwhile.

The engine's endpoint asks for user default and a password: $DRIFTLINE_ENGINE_PASSWORD, or else one that is
made at the first start and kept in the file engine-password in the data folder.`,
		Example: `  detectd standalone --data ./driftline-data
  detectd standalone --data /var/lib/driftline --alertmanager http://127.0.0.1:9093
  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 your-agent
  curl -u "default:$(cat driftline-data/engine-password)" 'http://127.0.0.1:8123/?query=SELECT+1'   with --engine-listen 127.0.0.1:8123`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var errs [3]error
			if ownMemoryMiB < 64 || ownMemoryMiB > math.MaxInt64>>20 {
				errs[2] = fmt.Errorf("--memory-mib %d: want 64 or more", ownMemoryMiB)
			}
			o.Daemon, errs[0] = a.options(g)
			o.Logger = o.Daemon.Logger
			s.dsn = "http://127.0.0.1/" + schema.DefaultDatabase
			_, o.Schema, errs[1] = s.target()
			o.EngineMemoryBytes = min(max(memoryMiB, -1), math.MaxInt64>>20) << 20
			err := usage(errs[0], errs[1], errs[2], o.Validate())
			if err != nil {
				return err
			}
			if o.Engine, err = engineArgv(); err != nil {
				return err
			}
			o.EngineLog = os.Stderr
			var passwordSource string
			if o.EnginePassword, passwordSource, err = engine.Password(o.DataDir); err != nil {
				return err
			}
			if os.Getenv("GOMEMLIMIT") == "" {
				debug.SetMemoryLimit(ownMemoryMiB << 20)
			}
			return standalone.Run(c.Context(), o, func(i standalone.Info) {
				fmt.Fprintf(c.OutOrStdout(), "driftline is up\n  OTLP gRPC   %s\n  OTLP HTTP   http://%s\n  UI          %s\n  ClickHouse  http://%s\n  login       user default, password in %s\n  data        %s\n",
					i.OTLPGRPC, i.OTLPHTTP, i.UI, i.ClickHouse, passwordSource, o.DataDir)
			})
		},
	}
	a.flags(c)
	fs := c.Flags()
	fs.StringVar(&o.DataDir, "data", "driftline-data", "folder for all data; created if missing")
	fs.StringVar(&o.Library, "libchdb", "", "path of libchdb.so; found by itself by default")
	fs.StringVar(&o.Collector.OTLPGRPC, "otlp-grpc", "127.0.0.1:4317", "address of OTLP over gRPC")
	fs.StringVar(&o.Collector.OTLPHTTP, "otlp-http", "127.0.0.1:4318", "address of OTLP over HTTP")
	fs.StringVar(&o.EngineListen, "engine-listen", "127.0.0.1:0", "address of the engine's ClickHouse endpoint; port 0 takes a free one")
	fs.Int64Var(&memoryMiB, "engine-memory-mib", 1024, "memory limit of the engine in MiB")
	fs.Int64Var(&ownMemoryMiB, "memory-mib", 1024, "soft memory limit of this process in MiB, near which it collects garbage harder; GOMEMLIMIT goes before it")
	fs.StringToStringVar(&s.ttl, "ttl-days", nil, "retention in days by key, as in detectd migrate")
	return c
}

func newServe(g *global) *cobra.Command {
	a := &alerting{}
	s := &storage{}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Detect and alert on any ClickHouse that holds driftline's tables",
		Example: `  detectd serve --clickhouse clickhouse://user:password@host:9000/driftline --alertmanager http://alertmanager:9093
  ` + chconn.EnvDSN + `=http://host:8123/driftline detectd serve`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, wrong := a.options(g)
			var err error
			o.Target, o.Schema, err = s.target()
			if err := usage(wrong, err); err != nil {
				return err
			}
			return daemon.Run(c.Context(), o, func(url string) {
				fmt.Fprintf(c.OutOrStdout(), "detectd is up\n  UI          %s\n  ClickHouse  %s\n", url, o.Target.Address())
			})
		},
	}
	a.flags(c)
	s.flags(c)
	return c
}

// engineArgv starts this very program as the embedded engine.
func engineArgv() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's own file to start the engine: %w", err)
	}
	return []string{self, "engine"}, nil
}

func canListen(addr string) bool {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return false
	}
	return l.Close() == nil
}
