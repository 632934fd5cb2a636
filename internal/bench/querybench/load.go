package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"driftline/detector"
	"driftline/detector/replay"
	"driftline/detector/store"
	"driftline/internal/bench/report"
)

// loadRounds is how many rounds are measured after the first, which loads the baseline.
const loadRounds = 10

// asked is what one kind of read took, over all of a load.
type asked struct {
	queries     int
	rows        int
	total, most time.Duration
	engine      time.Duration
}

// watched is a store that notes what its reads take.
type watched struct {
	detector.Store
	d    *db
	kind map[string]*asked
}

func note[T any](w *watched, name string, read func() ([]T, error)) ([]T, error) {
	cpu, began := w.d.cpu(), time.Now()
	got, err := read()
	took := time.Since(began)
	a := w.kind[name]
	if a == nil {
		a = &asked{}
		w.kind[name] = a
	}
	a.queries, a.rows, a.total, a.most = a.queries+1, a.rows+len(got), a.total+took, max(a.most, took)
	a.engine += w.d.cpu() - cpu
	return got, err
}

func (w *watched) OperationCells(ctx context.Context, from, to time.Time) ([]store.OperationCell, error) {
	return note(w, "OperationCells", func() ([]store.OperationCell, error) { return w.Store.OperationCells(ctx, from, to) })
}

func (w *watched) RequestCells(ctx context.Context, from, to time.Time) ([]store.RequestCell, error) {
	return note(w, "RequestCells", func() ([]store.RequestCell, error) { return w.Store.RequestCells(ctx, from, to) })
}

func (w *watched) AttemptCells(ctx context.Context, from, to time.Time) ([]store.AttemptCell, error) {
	return note(w, "AttemptCells", func() ([]store.AttemptCell, error) { return w.Store.AttemptCells(ctx, from, to) })
}

func (w *watched) OperationHistory(ctx context.Context, from, to time.Time) ([]store.OperationMinute, error) {
	return note(w, "OperationHistory", func() ([]store.OperationMinute, error) { return w.Store.OperationHistory(ctx, from, to) })
}

func (w *watched) RequestHistory(ctx context.Context, from, to time.Time) ([]store.RequestMinute, error) {
	return note(w, "RequestHistory", func() ([]store.RequestMinute, error) { return w.Store.RequestHistory(ctx, from, to) })
}

func (w *watched) AttemptHistory(ctx context.Context, from, to time.Time, block time.Duration) ([]store.AttemptBlock, error) {
	return note(w, "AttemptHistory", func() ([]store.AttemptBlock, error) { return w.Store.AttemptHistory(ctx, from, to, block) })
}

func (w *watched) OperationHours(ctx context.Context, hours []time.Time) ([]store.OperationHour, error) {
	return note(w, "OperationHours", func() ([]store.OperationHour, error) { return w.Store.OperationHours(ctx, hours) })
}

func (w *watched) OperationWork(ctx context.Context, from, to time.Time, width time.Duration) ([]store.Work, error) {
	return note(w, workName("OperationWork", width), func() ([]store.Work, error) { return w.Store.OperationWork(ctx, from, to, width) })
}

func (w *watched) RequestWork(ctx context.Context, from, to time.Time, width time.Duration) ([]store.Work, error) {
	return note(w, workName("RequestWork", width), func() ([]store.Work, error) { return w.Store.RequestWork(ctx, from, to, width) })
}

func (w *watched) Budgets(ctx context.Context, from, to time.Time) ([]store.Budget, error) {
	return note(w, "Budgets", func() ([]store.Budget, error) { return w.Store.Budgets(ctx, from, to) })
}

func (w *watched) OpenRequests(ctx context.Context, at time.Time) ([]store.OpenRequest, error) {
	return note(w, "OpenRequests", func() ([]store.OpenRequest, error) { return w.Store.OpenRequests(ctx, at) })
}

func workName(name string, width time.Duration) string {
	if width == time.Minute {
		return name + ", minutes"
	}
	return name + ", blocks"
}

// loaded is what a start and the rounds after it took.
type loaded struct {
	database string
	slices   int
	// took and own are the first round's time and this process's CPU time, engine the
	// engine's; rounds are the times of those after it.
	took, own, engine time.Duration
	rounds            []time.Duration
	heap              uint64
	peak, enginePeak  uint64
	kind              map[string]*asked
	dropped           bool
}

// measureLoad writes down what a start of the detector on a dataset takes.
func measureLoad(ctx context.Context, d *db, s shape, database string, o options, out io.Writer, progress func(string, ...any)) error {
	l, err := d.load(ctx, s, database, progress)
	if err != nil {
		return err
	}
	renderLoad(out, l, s)
	return nil
}

// load starts a detector on a dataset with cold caches, as detectd does, and runs some rounds.
// The engine is left running.
func (d *db) load(ctx context.Context, s shape, database string, progress func(string, ...any)) (loaded, error) {
	l := loaded{database: database, kind: map[string]*asked{}}
	if err := d.start(ctx); err != nil {
		return l, err
	}
	conn, err := d.connTo(database)
	if err != nil {
		return l, err
	}
	defer conn.Close()
	st, err := store.New(conn, database)
	if err != nil {
		return l, err
	}
	if l.dropped, err = d.dropCaches(ctx); err != nil {
		return l, err
	}
	w := &watched{Store: st, d: d, kind: map[string]*asked{}}
	cfg := detector.DefaultConfig()
	cfg.MaxSlices = s.slices
	runtime.GC()
	empty := heap()
	began, cpu, own := time.Now(), d.cpu(), selfCPU()
	_, err = replay.Run(ctx, replay.Options{Config: cfg, From: s.to.Add(-loadRounds * cfg.Interval), To: s.to, Round: func(_ time.Time, r detector.Round) {
		took := time.Since(began)
		if l.took == 0 {
			l.took, l.own, l.engine = took, selfCPU()-own, d.cpu()-cpu
			for name, a := range w.kind {
				kept := *a
				l.kind[name] = &kept
			}
			l.slices = judged(r)
			l.peak, l.enginePeak = peak("self"), peak(strconv.Itoa(d.proc.PID()))
			runtime.GC()
			l.heap = heap() - empty
		} else {
			l.rounds = append(l.rounds, took)
		}
		progress("round of %s took %.2f s", r.Watermark.Format(time.TimeOnly), took.Seconds())
		began = time.Now()
	}}, w)
	slices.Sort(l.rounds)
	return l, err
}

// judged counts the slices of calls that a round has verdicts of; it also has some of agents and
// services as a whole.
func judged(r detector.Round) int {
	seen := map[detector.Slice]bool{}
	for i := range r.Verdicts {
		if s := r.Verdicts[i].Slice; s.Target != "" {
			seen[s] = true
		}
	}
	return len(seen)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// selfCPU is the user and system time of this process so far.
func selfCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is a process's largest resident set in bytes, 0 where the system does not say.
func peak(pid string) uint64 {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// renderLoad writes the figures for people; docs/benchmarks.md quotes them.
func renderLoad(out io.Writer, l loaded, s shape) {
	var rows [][]string
	names := make([]string, 0, len(l.kind))
	for name := range l.kind {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return int(l.kind[b].total - l.kind[a].total) })
	var sum asked
	for _, name := range names {
		a := l.kind[name]
		rows = append(rows, []string{name, fmt.Sprint(a.queries), fmt.Sprintf("%.1f", float64(a.rows)/1000), fmt.Sprintf("%.1f", a.total.Seconds()),
			fmt.Sprintf("%.1f", a.engine.Seconds()), fmt.Sprintf("%.0f", ms(a.total)/float64(a.queries)), fmt.Sprintf("%.0f", ms(a.most))})
		sum.queries, sum.rows, sum.total = sum.queries+a.queries, sum.rows+a.rows, sum.total+a.total
	}
	const mib = 1 << 20
	fmt.Fprintf(out, "%s, %d slices: the first round took %.1f s (CPU %.1f s of detectd, %.1f s of the engine), of which %.1f s were %d queries with %d thousand rows; %d slices of calls had verdicts.\n",
		l.database, s.slices, l.took.Seconds(), l.own.Seconds(), l.engine.Seconds(), sum.total.Seconds(), sum.queries, sum.rows/1000, l.slices)
	fmt.Fprintf(out, "The next %d rounds took %.2f s (median) and %.2f s (longest). Heap %.0f MiB, peak resident %.0f MiB of detectd and %.0f MiB of the engine; caches dropped: %v.\n\n",
		len(l.rounds), l.rounds[len(l.rounds)/2].Seconds(), l.rounds[len(l.rounds)-1].Seconds(), float64(l.heap)/mib, float64(l.peak)/mib, float64(l.enginePeak)/mib, l.dropped)
	fmt.Fprint(out, report.Table([]string{"Read", "Queries", "Rows (thousand)", "Time (s)", "Engine CPU (s)", "A query (ms)", "Longest (ms)"}, rows))
}
