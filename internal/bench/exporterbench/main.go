package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/engine"
)

// engineCommand makes this program the engine's process.
const engineCommand = "engine-process"

func main() {
	if len(os.Args) > 1 && os.Args[1] == engineCommand {
		os.Exit(engine.Main(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	}
	var o options
	flag.IntVar(&o.spans, "spans", 1_000_000, "spans that each exporter writes in a round")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds, of which the median counts; the exporters take turns to be first")
	flag.IntVar(&o.workers, "workers", 2, "batches that are sent at once")
	flag.IntVar(&o.chunk, "chunk", 90_000, "spans that are made, outside the measured time, before they are sent")
	flag.IntVar(&o.batch, "batch", 15_000, "spans in a batch, of both exporters")
	flag.StringVar(&o.compress, "compression", "none", "compression of inserts, of both exporters: none or lz4")
	flag.StringVar(&o.only, "only", "", "run only the exporter of this name")
	flag.Uint64Var(&o.seed, "seed", 42, "seed of the spans")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of this process here")
	flag.StringVar(&o.out, "out", "", "write the tables into this page; default: only print them")
	flag.StringVar(&o.capacity, "capacity", "", "write what follows for the size of a cluster into this page")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "exporterbench:", err)
		os.Exit(1)
	}
}

type options struct {
	spans, rounds, workers, chunk, batch   int
	compress, only, profile, out, capacity string
	seed                                   uint64
}

// result is what one exporter did in one round.
type result struct {
	name  string
	spans int
	wall  time.Duration
	// own is the processor time of this process, and other the engine's, while spans were
	// sent; all is the engine's until everything was merged.
	own, other, all time.Duration
	// fresh and merged are the cost of the view over operations before and after merges; zero
	// for an exporter that has no views.
	fresh, merged viewCost
	// tables are the sizes after merges, without the one that notes migrations.
	tables []tableSize
}

// tableSize is a table after merges.
type tableSize struct {
	name        string
	rows, bytes uint64
}

func (r result) rows() (n uint64) {
	for _, t := range r.tables {
		n += t.rows
	}
	return n
}

func (r result) bytes() (n uint64) {
	for _, t := range r.tables {
		n += t.bytes
	}
	return n
}

func (r result) rowsPerSpan() float64 { return float64(r.rows()) / float64(r.spans) }

// perSpan is a processor time in microseconds per span.
func (r result) perSpan(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(r.spans) }

func (r result) spansPerSecond() float64 { return float64(r.spans) / r.wall.Seconds() }
func (r result) bytesPerSpan() float64   { return float64(r.bytes()) / float64(r.spans) }

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "driftline-exporterbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	proc, err := engine.Start(ctx, engine.Command{
		Argv:   []string{self, engineCommand, "--parent-pipe", "--data-dir=" + filepath.Join(dir, "data"), "--listen=" + engine.ListenPlaceholder},
		Listen: "127.0.0.1:0", Log: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer proc.Stop(30 * time.Second)
	opt, err := clickhouse.ParseDSN("http://default@" + proc.Addr() + "/default")
	if err != nil {
		return err
	}
	opt.ReadTimeout = 10 * time.Minute
	conn, err := clickhouse.Open(opt)
	if err != nil {
		return err
	}
	defer conn.Close()
	if o.profile != "" {
		f, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	fmt.Printf("seed %d, %d spans a round in batches of %d, %d at once, %d processors\n", o.seed, o.spans, o.batch, o.workers, runtime.GOMAXPROCS(0))
	all := map[string][]result{}
	measure := func(round int, s subject) error {
		if o.only != "" && s.name != o.only {
			return nil
		}
		b := bench{o: o, s: s, conn: conn, endpoint: "http://" + proc.Addr(), pid: proc.PID(), database: fmt.Sprintf("round_%d", round)}
		r, err := b.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("round %d  %-32s %8.0f spans/s  %5.2f rows/span  %6.1f B/span  own %5.1f us/span  engine %5.1f us/span (%5.1f with merges)\n",
			round+1, r.name, r.spansPerSecond(), r.rowsPerSpan(), r.bytesPerSpan(), r.perSpan(r.own), r.perSpan(r.other), r.perSpan(r.all))
		all[s.name] = append(all[s.name], r)
		return nil
	}
	subjects := []subject{contrib(o), driftline(o)}
	for round := range o.rounds {
		for i := range subjects {
			if err := measure(round, subjects[(i+round)%len(subjects)]); err != nil {
				return err
			}
		}
	}
	// Once more, so that it can be seen what contrib's exporter would store of findings.
	if err := measure(o.rounds, contribWithFindings(o)); err != nil {
		return err
	}
	if o.only != "" {
		return nil
	}
	return render(o, all)
}

type bench struct {
	o                  options
	s                  subject
	conn               driver.Conn
	endpoint, database string
	pid                int
}

// start is when the first request of the spans begins: yesterday, so that no retention has
// ended yet.
var start = time.Now().UTC().Truncate(24 * time.Hour).Add(-15 * time.Hour)

func (b bench) run(ctx context.Context) (result, error) {
	r := result{name: b.s.name}
	if err := b.s.prepare(ctx, b.conn, b.database); err != nil {
		return r, err
	}
	defer func() { _ = b.conn.Exec(ctx, "DROP DATABASE "+b.database+" SYNC") }()
	exp, err := b.s.start(ctx, b.endpoint, b.database)
	if err != nil {
		return r, err
	}
	seg, err := newSegmented(ctx, start)
	if err != nil {
		return r, err
	}
	c := newCorpus(b.o.seed, start, 250*time.Millisecond)
	began := cpu(b.pid)
	for r.spans < b.o.spans {
		batches, n, err := b.chunk(ctx, c, seg, min(b.o.chunk, b.o.spans-r.spans))
		if err != nil {
			return r, err
		}
		runtime.GC()
		own, other, at := cpu(os.Getpid()), cpu(b.pid), time.Now()
		if err := push(ctx, exp, batches, b.o.workers); err != nil {
			return r, err
		}
		r.wall += time.Since(at)
		r.own += cpu(os.Getpid()) - own
		r.other += cpu(b.pid) - other
		r.spans += n
	}
	if err := exp.Shutdown(ctx); err != nil {
		return r, err
	}
	if err := seg.proc.Shutdown(ctx); err != nil {
		return r, err
	}
	return r, b.weigh(ctx, &r, began)
}

// chunk makes n spans or a few more, since traces are whole, cut into batches.
func (b bench) chunk(ctx context.Context, c *corpus, seg *segmented, n int) ([]ptrace.Traces, int, error) {
	var out []ptrace.Traces
	made := 0
	for made < n {
		td, spans := ptrace.NewTraces(), 0
		var ended time.Time
		for spans < b.o.batch && made+spans < n {
			before := td.ResourceSpans().Len()
			if at := c.trace(td); at.After(ended) {
				ended = at
			}
			for _, ss := range td.ResourceSpans().At(before).ScopeSpans().All() {
				spans += ss.Spans().Len()
			}
		}
		made += spans
		if b.s.findings {
			var err error
			if td, err = seg.take(ctx, td, ended); err != nil {
				return nil, 0, err
			}
		}
		out = append(out, td)
	}
	return out, made, nil
}
