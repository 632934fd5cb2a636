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
	"driftline/internal/engine/enginetest"
	"driftline/schema"
)

func main() {
	var o options
	flag.IntVar(&o.spans, "spans", 1_000_000, "spans that each exporter writes in a round")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds; the exporters take turns to be first")
	flag.IntVar(&o.workers, "workers", 2, "batches that are sent at once")
	flag.IntVar(&o.chunk, "chunk", 100_000, "spans that are made, outside the measured time, before they are sent")
	flag.IntVar(&o.contribBatch, "contrib-batch", 10_000, "spans in a batch of contrib's exporter")
	flag.StringVar(&o.contribCompress, "contrib-compress", "none", "compression of contrib's exporter")
	flag.IntVar(&o.batch, "batch", 10_000, "spans in a batch of genaiclickhouse")
	flag.StringVar(&o.compress, "compression", "none", "compression of genaiclickhouse")
	flag.StringVar(&o.only, "only", "", "run only the exporter of this name")
	flag.Uint64Var(&o.seed, "seed", 42, "seed of the spans")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of this process here")
	flag.BoolVar(&o.columns, "columns", false, "print the bytes of each column")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "exporterbench:", err)
		os.Exit(1)
	}
}

type options struct {
	spans, rounds, workers, chunk, contribBatch, batch int
	contribCompress, compress, only, profile           string
	seed                                               uint64
	columns                                            bool
}

// result is what one exporter did in one round.
type result struct {
	name       string
	spans      int
	rows       uint64
	bytes      uint64
	wall       time.Duration
	own, other time.Duration
	// all is the engine's processor time until merges had ended.
	all time.Duration
}

func (r result) spansPerSecond() float64 { return float64(r.spans) / r.wall.Seconds() }
func (r result) bytesPerSpan() float64   { return float64(r.bytes) / float64(r.spans) }

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "driftline-exporterbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := enginetest.Binary()
	if err != nil {
		return err
	}
	proc, err := engine.Start(ctx, engine.Command{
		Argv:   []string{binary, "--parent-pipe", "--data-dir=" + filepath.Join(dir, "data"), "--listen=" + engine.ListenPlaceholder},
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
	fmt.Printf("seed %d, %d spans a round, %d batches at once, GOMAXPROCS %d\n", o.seed, o.spans, o.workers, runtime.GOMAXPROCS(0))
	subjects := []subject{contrib(o.contribBatch, o.contribCompress), driftline(o.batch, o.compress)}
	best := map[string]result{}
	for round := range o.rounds {
		for i := range subjects {
			s := subjects[(i+round)%len(subjects)]
			if o.only != "" && s.name != o.only {
				continue
			}
			r, err := bench{o: o, s: s, conn: conn, endpoint: "http://" + proc.Addr(), pid: proc.PID(), database: fmt.Sprintf("%s_%d", s.name, round)}.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			per := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(r.spans) }
			fmt.Printf("round %d  %-20s %8.0f spans/s  %5.2f rows/span  %6.1f B/span  own %5.1f us/span  engine %5.1f us/span (%5.1f with merges)\n",
				round+1, r.name, r.spansPerSecond(), float64(r.rows)/float64(r.spans), r.bytesPerSpan(), per(r.own), per(r.other), per(r.all))
			if b, ok := best[s.name]; !ok || r.spansPerSecond() > b.spansPerSecond() {
				best[s.name] = r
			}
		}
	}
	if o.only == "" {
		peer, ours := best["clickhouseexporter"], best["genaiclickhouse"]
		fmt.Printf("RATIO exporter_spans_per_s=%.2f\n", ours.spansPerSecond()/peer.spansPerSecond())
		fmt.Printf("RATIO bytes_per_span=%.2f\n", ours.bytesPerSpan()/peer.bytesPerSpan())
	}
	return nil
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
	if err := schemaFor(ctx, b); err != nil {
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
		for spans < b.s.batchSpans && made+spans < n {
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

func schemaFor(ctx context.Context, b bench) error {
	if !b.s.findings {
		return nil // contrib's exporter makes its own
	}
	return schema.Up(ctx, b.conn, schema.Options{Database: b.database}, nil)
}

// weigh merges everything and takes the sums.
func (b bench) weigh(ctx context.Context, r *result, began time.Duration) error {
	rows, err := b.conn.Query(ctx, "SELECT name FROM system.tables WHERE database = ? AND engine LIKE '%MergeTree'", b.database)
	if err != nil {
		return err
	}
	defer rows.Close()
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		tables = append(tables, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, name := range tables {
		if err := b.conn.Exec(ctx, "OPTIMIZE TABLE "+b.database+"."+name+" FINAL"); err != nil {
			return err
		}
	}
	r.all = cpu(b.pid) - began
	if b.o.columns {
		if err := b.printColumns(ctx, r); err != nil {
			return err
		}
	}
	return b.conn.QueryRow(ctx, "SELECT sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND database = ?", b.database).Scan(&r.rows, &r.bytes)
}

func (b bench) printColumns(ctx context.Context, r *result) error {
	rows, err := b.conn.Query(ctx, "SELECT table, count() AS parts, sum(rows), sum(bytes_on_disk), sum(primary_key_bytes_in_memory), sum(secondary_indices_compressed_bytes), sum(marks_bytes) FROM system.parts WHERE active AND database = ? GROUP BY table ORDER BY 4 DESC", b.database)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		var parts, n, bytes, pk, skip, marks uint64
		if err := rows.Scan(&table, &parts, &n, &bytes, &pk, &skip, &marks); err != nil {
			return err
		}
		fmt.Printf("  %-24s parts %3d rows %9d  %7.2f B/span  %6.2f B/row (skip %d, marks %d)\n", table, parts, n, float64(bytes)/float64(r.spans), float64(bytes)/float64(n), skip, marks)
	}
	cols, err := b.conn.Query(ctx, "SELECT table, column, sum(column_data_compressed_bytes) AS c, sum(column_data_uncompressed_bytes) FROM system.parts_columns WHERE active AND database = ? GROUP BY table, column HAVING c > 0 ORDER BY c DESC LIMIT 45", b.database)
	if err != nil {
		return err
	}
	defer cols.Close()
	for cols.Next() {
		var table, column string
		var bytes, raw uint64
		if err := cols.Scan(&table, &column, &bytes, &raw); err != nil {
			return err
		}
		fmt.Printf("  %-24s %-26s %7.2f B/span (raw %.2f)\n", table, column, float64(bytes)/float64(r.spans), float64(raw)/float64(r.spans))
	}
	return cols.Err()
}
