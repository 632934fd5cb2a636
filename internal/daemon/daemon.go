package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"driftline/detector"
	"driftline/detector/notify"
	"driftline/detector/rollup"
	"driftline/detector/store"
	"driftline/internal/api"
	"driftline/internal/chconn"
	"driftline/internal/clock"
	"driftline/internal/engine"
	"driftline/internal/ui"
	uiclickhouse "driftline/internal/ui/clickhouse"
	"driftline/internal/version"
	"driftline/schema"
)

// Options are the settings of a daemon.
type Options struct {
	// Target is the ClickHouse with the tables; Schema how they were made.
	Target chconn.Target
	Schema schema.Options
	// UIListen is the address of pages, metrics and health; AllowedHosts further names
	// under which the pages are reached.
	UIListen     string
	AllowedHosts []string
	// ExternalURL leads links in alerts; empty is the UI's own address.
	ExternalURL string
	// Alertmanagers and Webhooks are receivers' URLs.
	Alertmanagers, Webhooks []string
	// AlertmanagerAccess and WebhookAccess say how those are reached.
	AlertmanagerAccess, WebhookAccess notify.Access
	// SlackWebhooks say where the URLs of incoming webhooks are kept: env:NAME or file:PATH.
	SlackWebhooks []string
	// Notifiers are further receivers.
	Notifiers []detector.Notifier
	// Detector are the detections' settings.
	Detector detector.Config
	// Reload reads them again when the process gets SIGHUP; nil leaves that signal
	// alone.
	Reload func() (detector.Config, error)
	// RollupOverlap is how much of what was stored is read again in each round; 0 is the
	// default.
	RollupOverlap time.Duration
	// Gatherers are metrics of parts in this process to show along with our own.
	Gatherers []prometheus.Gatherer
	// EngineStatus is the embedded engine's state; nil without one.
	EngineStatus func() engine.Status
	Clock        clock.Clock
	Logger       *slog.Logger
	// AlertLog takes alerts; nil is Logger.
	AlertLog *slog.Logger
}

// Daemon is detection and UI ready to run.
type Daemon struct {
	// Engine is the detector, for callers that drive it themselves.
	Engine *detector.Engine
	// Store reads what the detector reads.
	Store *store.Store
	// URL is where the UI is.
	URL string

	conn     driver.Conn
	schema   *schemaWatch
	metrics  *metrics
	listener net.Listener
	server   *http.Server
	logger   *slog.Logger
}

// New connects, checks the schema or waits for its upgrade, and opens the UI's listener. A
// ClickHouse where nothing answers yet is waited for while the UI is up: /readyz says so, and
// rounds fail, which the detector alerts on in time. An unknown schema, a server that refuses
// or a port in use is an error that says what to do.
func New(ctx context.Context, o Options) (_ *Daemon, err error) {
	if err := o.Schema.Validate(); err != nil {
		return nil, err
	}
	d := &Daemon{logger: o.Logger}
	defer func() {
		if err != nil {
			d.Close(context.WithoutCancel(ctx))
		}
	}()
	if d.listener, err = listen(o.UIListen); err != nil {
		return nil, err
	}
	d.URL = strings.TrimRight(o.ExternalURL, "/")
	if d.URL == "" {
		d.URL = "http://" + d.listener.Addr().String()
	}
	if d.schema, err = connect(ctx, o); err != nil {
		return nil, err
	}
	d.conn = d.schema.conn
	if d.metrics, err = newMetrics(o); err != nil {
		return nil, err
	}
	if err := d.build(o); err != nil {
		return nil, err
	}
	return d, nil
}

// connect opens the database and says whether its schema was seen to be right.
func connect(ctx context.Context, o Options) (*schemaWatch, error) {
	w := &schemaWatch{target: o.Target, o: o.Schema, logger: o.Logger.With("part", "schema")}
	err := checkSchema(ctx, o)
	if err == nil {
		w.conn, err = o.Target.OpenDatabase(ctx)
	}
	if !chconn.Unreachable(err) {
		return w, err
	}
	o.Logger.Error("waiting for ClickHouse; nothing is detected until then", "error", err)
	w.unseen = err
	w.conn, err = o.Target.Later()
	return w, err
}

// checkSchema waits for the upgrade of a database of an earlier version, since that is one that
// is about to be upgraded; one that was never migrated is an error, since the address may be
// wrong.
func checkSchema(ctx context.Context, o Options) error {
	st, err := readSchema(ctx, o.Target, o.Schema)
	if err != nil {
		return err
	}
	if !errors.Is(st.Problem, schema.ErrNotMigrated) || st.Current == 0 {
		return st.Problem
	}
	o.Logger.Warn("waiting for the migration to this binary's schema; nothing is detected until then",
		"schema_version", st.Current, "want", st.Known, "error", st.Problem)
	conn, err := o.Target.Open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return schema.Wait(ctx, conn, o.Schema, o.Clock)
}

func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("the UI cannot listen on %q: %w; stop the program that holds the port, or choose another with --ui-listen", addr, err)
	}
	return l, nil
}

func (d *Daemon) build(o Options) error {
	st, err := store.New(d.conn, o.Target.Database())
	if err != nil {
		return err
	}
	d.Store = st
	job, err := rollup.New(d.conn, rollup.Config{Database: o.Target.Database(), Overlap: o.RollupOverlap, Logger: o.Logger.With("part", "rollup")})
	if err != nil {
		return err
	}
	notifiers, err := receivers(o, d.URL)
	if err != nil {
		return err
	}
	cfg := o.Detector
	cfg.EvidenceURL, cfg.RunbookPages = d.URL+"/alerts/", d.URL+"/runbooks/"
	d.Engine, err = detector.New(cfg, st, job, notifiers, o.Clock,
		detector.WithLogger(o.Logger.With("part", "detector")), detector.WithMeter(d.metrics.meter), detector.WithGate(d.schema.admit))
	if err != nil {
		return err
	}
	source, err := uiclickhouse.New(d.conn, o.Target.Database(), o.Clock.Now)
	if err != nil {
		return err
	}
	program := api.New(api.Options{Engine: d.Engine, Alerts: st, Clock: o.Clock, Logger: o.Logger.With("part", "api")})
	pages, err := ui.New(ui.Options{
		API: program, Evaluations: func(detection string) []ui.Evaluation { return evaluations(d.Engine, detection) },
		Source: source, Clock: o.Clock, Version: version.Version, AllowedHosts: o.AllowedHosts,
		Ready: func() error { return ready(d.Engine, d.schema, o) }, Metrics: d.metrics.handler, Logger: o.Logger.With("part", "ui"),
	})
	if err != nil {
		return err
	}
	d.server = ui.NewServer(pages)
	d.server.ErrorLog = slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn)
	return nil
}

// receivers makes a notifier for each configured one, and reports every bad URL.
func receivers(o Options, external string) ([]detector.Notifier, error) {
	if o.AlertLog == nil {
		o.AlertLog = o.Logger.With("part", "alert")
	}
	out := append([]detector.Notifier{notify.NewLog(o.AlertLog)}, o.Notifiers...)
	far, err := remotes(o, external)
	return append(out, far...), err
}

func remotes(o Options, external string) ([]detector.Notifier, error) {
	var out []detector.Notifier
	var errs []error
	for flag, a := range map[string]notify.Access{"alertmanager": o.AlertmanagerAccess, "webhook": o.WebhookAccess} {
		if err := a.Validate(); err != nil {
			return nil, fmt.Errorf("--%s-bearer-file, --%s-basic-file, --%s-ca-file: %w", flag, flag, flag, err)
		}
	}
	for _, u := range o.Alertmanagers {
		n, err := notify.NewAlertmanager(u, o.AlertmanagerAccess)
		if err != nil {
			errs = append(errs, fmt.Errorf("--alertmanager: %w", err))
			continue
		}
		out = append(out, n)
	}
	for _, u := range o.Webhooks {
		n, err := notify.NewWebhook(u, external, o.WebhookAccess)
		if err != nil {
			errs = append(errs, fmt.Errorf("--webhook: %w", err))
			continue
		}
		out = append(out, n)
	}
	for _, where := range o.SlackWebhooks {
		u, err := notify.Secret(where)
		if err == nil {
			var n *notify.Slack
			if n, err = notify.NewSlack(u); err == nil {
				out = append(out, n)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--slack-webhook: %w", err))
		}
	}
	return out, errors.Join(errs...)
}

// shownEvaluations bounds the page of evaluations.
const shownEvaluations = 400

// evaluations are the detector's last ones, as the pages show them.
func evaluations(e *detector.Engine, detection string) []ui.Evaluation {
	var out []ui.Evaluation
	for _, v := range e.Evaluations(detection, shownEvaluations) {
		out = append(out, ui.Evaluation{At: v.At, Watermark: v.Watermark, Detection: v.Detection, Took: v.Duration, Round: v.RoundDuration, Rows: v.RowsRead, Slices: v.Slices,
			Breaching: v.Levels[detector.Breach], Worst: v.Worst.Slice.String(), Service: v.Worst.Slice.Service, Level: string(v.Worst.Level), Reason: v.Worst.Reason,
			Value: v.Worst.Value, Threshold: v.Worst.Threshold, Unit: v.Worst.Unit, Samples: v.Worst.Samples, Error: v.Error})
	}
	return out
}

func ready(e *detector.Engine, s *schemaWatch, o Options) error {
	if o.EngineStatus != nil {
		if st := o.EngineStatus(); st.State != engine.StateReady {
			return fmt.Errorf("the embedded engine is %s since %s; last error: %s", st.State, st.Since.UTC().Format(time.RFC3339), st.LastError)
		}
	}
	if err := s.problem(); err != nil {
		return err
	}
	return e.Ready()
}

// Serve answers the UI until Close; it returns at once.
func (d *Daemon) Serve() {
	go func() {
		if err := d.server.Serve(d.listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			d.logger.Error("the UI stopped", "error", err)
		}
	}()
}

// Close stops the UI and closes the connection. It is safe on a half-made daemon.
func (d *Daemon) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if d.server != nil {
		if err := d.server.Shutdown(ctx); err != nil {
			_ = d.server.Close()
		}
	}
	if d.listener != nil {
		_ = d.listener.Close()
	}
	if d.metrics != nil {
		d.metrics.shutdown(ctx)
	}
	if d.conn != nil {
		_ = d.conn.Close()
	}
}

// Run serves and detects until ctx ends. It calls up with the UI's address once that
// answers.
func Run(ctx context.Context, o Options, up func(url string)) error {
	// The signal would end the process until it is taken, and a server that says nothing holds
	// the start up for seconds.
	var reloads chan os.Signal
	if o.Reload != nil {
		reloads = make(chan os.Signal, 1)
		signal.Notify(reloads, syscall.SIGHUP)
		defer signal.Stop(reloads)
	}
	d, err := New(ctx, o)
	if err != nil {
		return err
	}
	defer d.Close(context.WithoutCancel(ctx))
	d.Serve()
	up(d.URL)
	defer d.schema.run(ctx, o.Clock)()
	// A first round at once, so that a restart is not blind for an interval.
	if _, err := d.Engine.Evaluate(ctx, o.Clock.Now()); err != nil && ctx.Err() == nil {
		o.Logger.Error("the first evaluation failed; it is tried again in the next round", "error", err)
	}
	if o.Reload != nil {
		defer d.reloadOn(reloads, o.Reload)()
	}
	d.Engine.Run(ctx)
	return nil
}

// reloadOn takes the detections' settings again at each of the signals, also one that came
// before, until stop is called, after which no signal may come. Settings with mistakes change
// nothing.
func (d *Daemon) reloadOn(signals chan os.Signal, read func() (detector.Config, error)) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range signals {
			d.reload(read)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

func (d *Daemon) reload(read func() (detector.Config, error)) {
	cfg, err := read()
	if err == nil {
		err = d.Engine.Reconfigure(cfg)
	}
	if err != nil {
		d.logger.Error("the settings of detection have mistakes; those in effect stay", "error", err)
		return
	}
	d.logger.Info("the settings of detection were read again")
}
