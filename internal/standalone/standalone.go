package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"driftline/internal/chconn"
	"driftline/internal/chdb"
	"driftline/internal/clock"
	"driftline/internal/daemon"
	"driftline/internal/engine"
	"driftline/internal/identity"
	"driftline/schema"
)

// Options are the settings of an all-in-one driftline.
type Options struct {
	// DataDir is the folder that holds everything which survives a restart.
	DataDir string
	// Engine are the argv that starts the embedded engine, without its flags.
	Engine []string
	// Library is the path of libchdb.so; empty searches for it.
	Library string
	// EngineMemoryBytes bounds the engine's memory; 0 is the engine's default.
	EngineMemoryBytes int64
	// EnginePassword is asked of the engine's clients; empty asks for none.
	EnginePassword string
	// EngineListen is the engine's address; port 0 takes a free one.
	EngineListen string
	// Schema sets retention; Database is where the tables live.
	Schema schema.Options
	// Collector are the addresses and further settings of the collector inside.
	Collector CollectorOptions
	// Daemon are the settings of detections, alerts and UI.
	Daemon daemon.Options
	// EngineLog takes the engine's own log; nil discards it.
	EngineLog io.Writer
	Logger    *slog.Logger
}

// minEngineMemory is less than the engine needs to read its own tables.
const minEngineMemory = 128 << 20

// Validate reports every wrong setting of the folder and the addresses, by flag. Schema
// and Daemon have a Validate of their own.
func (o Options) Validate() error {
	var errs []error
	if o.DataDir == "" {
		errs = append(errs, errors.New("--data: is empty; name a folder"))
	}
	if o.EngineMemoryBytes != 0 && o.EngineMemoryBytes < minEngineMemory {
		errs = append(errs, fmt.Errorf("--engine-memory-mib: %d is too little; want %d or more, or 0 for the default", o.EngineMemoryBytes>>20, minEngineMemory>>20))
	}
	return errors.Join(append(errs,
		daemon.CheckAddress("--engine-listen", o.EngineListen, true),
		daemon.CheckAddress("--otlp-grpc", o.Collector.OTLPGRPC, false),
		daemon.CheckAddress("--otlp-http", o.Collector.OTLPHTTP, false),
	)...)
}

// engineFlags are the engine's own flags in its messages, and ours that set them.
var engineFlags = strings.NewReplacer("--data-dir", "--data", "--listen", "--engine-listen")

// Info says where a running driftline listens.
type Info struct {
	OTLPGRPC, OTLPHTTP, UI string
	// ClickHouse is the engine's endpoint.
	ClickHouse string
	// EnginePID is the engine's process id at the time of the call.
	EnginePID int
}

// Storage is a supervised engine with driftline's tables in it.
type Storage struct {
	Supervisor *engine.Supervisor
	Target     chconn.Target
}

// StartStorage starts the embedded engine over dir and applies the schema.
func StartStorage(ctx context.Context, o Options) (*Storage, error) {
	dir := filepath.Join(o.DataDir, "engine")
	if err := os.MkdirAll(o.DataDir, 0o750); err != nil {
		return nil, fmt.Errorf("data folder: %w; give --data a folder that this user may write to", err)
	}
	// The engine looks too, but from here the message comes without a child around it.
	library, err := chdb.Locate(o.Library)
	if err != nil {
		return nil, err
	}
	if err := chdb.CheckFile(library); err != nil {
		return nil, err
	}
	argv := append(append([]string(nil), o.Engine...), "--parent-pipe", "--data-dir="+dir, "--listen={listen}", "--libchdb="+library)
	if o.EngineMemoryBytes > 0 {
		argv = append(argv, "--max-memory-bytes="+strconv.FormatInt(o.EngineMemoryBytes, 10))
	}
	sup, err := engine.Supervise(context.WithoutCancel(ctx), engine.SupervisorOptions{
		Argv: argv, Env: []string{engine.EnvPassword + "=" + o.EnginePassword}, Password: o.EnginePassword, Listen: o.EngineListen, Log: o.EngineLog, Logger: o.Logger.With("part", "engine"),
	})
	if err != nil {
		return nil, errors.New(engineFlags.Replace(err.Error()))
	}
	database := o.Schema.Database
	if database == "" {
		database = schema.DefaultDatabase
	}
	target, err := chconn.Parse(sup.DSN(database), database)
	if err == nil {
		err = migrate(ctx, target, o)
	}
	if err != nil {
		sup.Stop()
		return nil, err
	}
	return &Storage{Supervisor: sup, Target: target}, nil
}

// checkPorts says which ports are taken, all at once, before anything is done to the folder:
// there is no way back from a migration to the binary that ran before.
func checkPorts(ctx context.Context, o Options) error {
	try := func(addr string) error {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return l.Close()
	}
	var errs []error
	if err := errors.Join(try(o.Collector.OTLPGRPC), try(o.Collector.OTLPHTTP)); err != nil {
		errs = append(errs, explainStart(err, o.Collector))
	}
	if err := try(o.Daemon.UIListen); err != nil {
		errs = append(errs, fmt.Errorf("the UI cannot listen on %q: %w; stop the program that holds the port, or choose another with --ui-listen", o.Daemon.UIListen, err))
	}
	return errors.Join(errs...)
}

func migrate(ctx context.Context, target chconn.Target, o Options) error {
	conn, err := target.Open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return schema.Up(ctx, conn, o.Schema, o.Logger.With("part", "schema"))
}

// Run starts everything, calls ready once spans are taken and the UI is up, and runs
// until ctx ends or a part fails for good. It stops in the order that loses nothing:
// detections first, then the collector drains into the engine, then the engine.
func Run(ctx context.Context, o Options, ready func(Info)) (err error) {
	if err := checkPorts(ctx, o); err != nil {
		return err
	}
	storage, err := StartStorage(ctx, o)
	if err != nil {
		return err
	}
	defer storage.Supervisor.Stop()

	co := o.Collector
	co.ClickHouse = "http://" + storage.Supervisor.Addr()
	co.Database = storage.Target.Database()
	co.Password = o.EnginePassword
	if co.IdentityKey == "" {
		co.IdentityKey = os.Getenv(identity.EnvKey)
	}
	co.Logger = o.Logger
	collector, err := StartCollector(ctx, co)
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, collector.Shutdown())
		}
	}()

	d := o.Daemon
	d.Target, d.Schema, d.Logger = storage.Target, o.Schema, o.Logger
	d.Gatherers = append(d.Gatherers, collector.Metrics)
	d.EngineStatus = storage.Supervisor.Status
	if d.Clock == nil {
		d.Clock = clock.System()
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		ended <- daemon.Run(ctx, d, func(ui string) {
			ready(Info{
				OTLPGRPC: co.OTLPGRPC, OTLPHTTP: co.OTLPHTTP, UI: ui,
				ClickHouse: storage.Supervisor.Addr(), EnginePID: storage.Supervisor.Status().PID,
			})
		})
	}()
	select {
	case err = <-ended:
		return err
	case err = <-collector.Done():
		stopped = true
		cancel()
		<-ended
		if err == nil {
			err = errors.New("the collector stopped by itself")
		}
		return err
	}
}
