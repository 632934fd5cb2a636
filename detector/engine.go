package detector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"driftline/detector/rollup"
	"driftline/detector/store"
	"driftline/internal/clock"
)

// Store is what the engine reads and keeps; *store.Store is one.
type Store interface {
	OperationCells(ctx context.Context, from, to time.Time) ([]store.OperationCell, error)
	RequestCells(ctx context.Context, from, to time.Time) ([]store.RequestCell, error)
	AttemptCells(ctx context.Context, from, to time.Time) ([]store.AttemptCell, error)
	AttemptHistory(ctx context.Context, from, to time.Time, block time.Duration) ([]store.AttemptBlock, error)
	Timeouts(ctx context.Context, s Slice, from, to time.Time) (store.Timeouts, error)
	OperationHistory(ctx context.Context, from, to time.Time) ([]store.OperationMinute, error)
	OperationHours(ctx context.Context, hours []time.Time) ([]store.OperationHour, error)
	RequestHistory(ctx context.Context, from, to time.Time) ([]store.RequestMinute, error)
	Budgets(ctx context.Context, from, to time.Time) ([]store.Budget, error)
	IngestLag(ctx context.Context, from, to time.Time) (time.Duration, uint64, error)
	OperationWork(ctx context.Context, from, to time.Time, width time.Duration) ([]store.Work, error)
	RequestWork(ctx context.Context, from, to time.Time, width time.Duration) ([]store.Work, error)
	OpenRequests(ctx context.Context, at time.Time) ([]store.OpenRequest, error)
	Spenders(ctx context.Context, agent, victim Slice, from, to time.Time) ([]store.Spender, error)
	MissTable(ctx context.Context, s Slice, from, to time.Time) ([]store.Misses, error)
	Examples(ctx context.Context, s Slice, from, to time.Time, order store.ExampleOrder, limit int) ([]store.Example, error)
	SaveAlerts(ctx context.Context, alerts []store.AlertRow) error
	LoadState(ctx context.Context, key string) (string, bool, error)
	SaveState(ctx context.Context, key, state string, version uint64) error
}

// Roller brings the rollups up to date; *rollup.Job is one.
type Roller interface {
	Run(ctx context.Context, now time.Time) (rollup.Stats, error)
}

// stateKey is the engine's key in detector_state.
const stateKey = "engine/book"

// Engine runs rounds in event time.
type Engine struct {
	cfg       Config
	store     Store
	roller    Roller
	notifiers []Notifier
	clock     clock.Clock
	log       *slog.Logger
	metrics   *metrics
	// planned is the maintenance of cfg.
	planned plan
	// gate is asked before each round.
	gate func(context.Context) error
	// tries is by notifier.
	tries map[string]*tries
	// history is what the last rounds judged; shadows is cfg.Shadow for readers that do not
	// wait for a round.
	history history
	shadows atomic.Pointer[map[string]bool]

	mu sync.Mutex
	// book is nil before it is read, or one to alert from until then: see early.
	book      *book
	loaded    bool
	peers     peers
	baselines *Baselines
	cells     cells
	works     *works
	// near and far are the windows of the slice that is judged, verdicts is how many a round has.
	near, far operationRoom
	verdicts  int
	// lag is the ingest lag last measured.
	lag time.Duration
	// took is how long each detection has judged in this round.
	took    map[string]time.Duration
	seasons seasons
	lastOK  time.Time
	unsaved []store.AlertRow
	ready   atomic.Bool
	failing atomic.Pointer[failing]
	// again wakes Run after a change of the interval.
	again chan struct{}
}

// failing is a run of rounds that failed one after the other.
type failing struct {
	rounds int
	since  time.Time
	last   error
}

// failingRounds is how many rounds in a row must fail before the engine says that it does
// not judge: a single one is tried again and loses nothing.
const failingRounds = 3

// Option changes how an engine is made.
type Option func(*Engine) error

// WithLogger sets where the engine logs; by default it does not.
func WithLogger(l *slog.Logger) Option { return func(e *Engine) error { e.log = l; return nil } }

// WithMeter sets where the engine's metrics go; by default nowhere.
func WithMeter(m metric.Meter) Option {
	return func(e *Engine) (err error) { e.metrics, err = newMetrics(m); return err }
}

// WithGate sets what must be nil for a round to read or write anything; its error is the
// round's, as when the store refuses queries.
func WithGate(f func(context.Context) error) Option {
	return func(e *Engine) error { e.gate = f; return nil }
}

// New makes an engine. It reports all mistakes of the configuration at once, and
// two notifiers of one name. It reads nothing before the first round.
func New(cfg Config, st Store, roller Roller, notifiers []Notifier, clk clock.Clock, opts ...Option) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, n := range notifiers {
		if names[n.Name()] {
			return nil, fmt.Errorf("two notifiers are named %q: give each a name of its own", n.Name())
		}
		names[n.Name()] = true
	}
	e := &Engine{cfg: cfg, store: st, roller: roller, notifiers: notifiers, clock: clk, log: slog.New(slog.DiscardHandler), baselines: NewBaselines(cfg), cells: newCells(), works: newWorks(cfg.BlockLength), seasons: newSeasons(cfg.SeasonDays), tries: map[string]*tries{}, took: map[string]time.Duration{}, again: make(chan struct{}, 1), peers: newPeers(), gate: func(context.Context) error { return nil }}
	if err := WithMeter(noop.NewMeterProvider().Meter("driftline"))(e); err != nil {
		return nil, err
	}
	for _, o := range opts {
		if err := o(e); err != nil {
			return nil, err
		}
	}
	e.planned = e.planOf(cfg)
	e.shadows.Store(&cfg.Shadow)
	return e, nil
}

// Ready is nil while the engine judges. Otherwise it says why it does not: the first round
// is not done, or the last rounds failed one after the other. It does not block.
func (e *Engine) Ready() error {
	if !e.ready.Load() {
		return errors.New("the first evaluation has not finished")
	}
	if f := e.failing.Load(); f != nil && f.rounds >= failingRounds {
		return fmt.Errorf("the last %d evaluations failed, the first of them at %s: %w", f.rounds, f.since.UTC().Format(time.RFC3339), f.last)
	}
	return nil
}

// Run evaluates each interval until ctx ends, and returns after the last round.
func (e *Engine) Run(ctx context.Context) {
	for ctx.Err() == nil {
		e.mu.Lock()
		interval := e.cfg.Interval
		e.mu.Unlock()
		stop := e.clock.Every(interval, func(now time.Time) {
			if ctx.Err() != nil {
				return
			}
			if _, err := e.Evaluate(ctx, now); err != nil && ctx.Err() == nil {
				e.log.Error("evaluation failed; it is tried again in the next round", "error", err)
			}
		})
		select {
		case <-ctx.Done():
		case <-e.again:
		}
		stop()
	}
}

// Reconfigure takes other settings from the next round on. Alerts, votes and what waits
// to be sent stay as they are. It reports all mistakes at once and then changes nothing.
func (e *Engine) Reconfigure(cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.cfg
	cfg.EvidenceURL, cfg.RunbookPages = old.EvidenceURL, old.RunbookPages
	e.cfg = cfg
	e.planned = e.planOf(cfg)
	e.shadows.Store(&cfg.Shadow)
	if cfg.BaselineWindow != old.BaselineWindow || cfg.BlockLength != old.BlockLength {
		e.baselines, e.works = NewBaselines(cfg), newWorks(cfg.BlockLength) // their blocks are read again in the next round
	} else {
		e.baselines.reconfigure(cfg)
		clear(e.works.kept)
	}
	if cfg.SeasonDays != old.SeasonDays {
		e.seasons = newSeasons(cfg.SeasonDays)
	}
	if e.book != nil {
		e.baselines.SetIncidents(e.book.excluded())
		e.unmute()
	}
	if cfg.Interval != old.Interval {
		select {
		case e.again <- struct{}{}:
		default:
		}
	}
	return nil
}

func (e *Engine) planOf(cfg Config) plan {
	p, err := cfg.planned()
	if err != nil {
		e.log.Error("planned maintenance is not readable", "error", err)
	}
	return p
}

// unmute sends what fires in shadow and is no longer to be there. What was sent goes on
// being sent until it resolves: receivers must hear of that.
func (e *Engine) unmute() {
	for _, fp := range e.book.fingerprints() {
		t := e.book.Tracks[fp]
		if a := &t.Alert; a.State == Firing && a.Shadow && a.Detection != Alert504 && !e.cfg.For(a.Slice).Shadow[a.Detection] {
			a.Shadow = false
		}
	}
	e.book.mark(e.planned)
	e.post(e.clock.Now())
}

// post puts what receivers are to be told into the outbox.
func (e *Engine) post(now time.Time) (posted int) {
	for _, a := range e.book.due(now) {
		e.book.post(e.ends(*a, now), e.names())
		posted++
	}
	return posted
}

// Round is what one evaluation found.
type Round struct {
	// Watermark is the end of the windows judged.
	Watermark time.Time
	Verdicts  []Verdict
	// Changes are the alerts that changed state or severity, pending ones included.
	Changes []Alert
	Rollup  rollup.Stats
}

// Evaluate runs one round as of now. After an error nothing is lost: what could
// not be read, stored or sent is tried again in the next round.
func (e *Engine) Evaluate(ctx context.Context, now time.Time) (Round, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	started := time.Now()
	e.took, e.cells.rows, e.works.rows = map[string]time.Duration{}, 0, 0
	if e.lastOK.IsZero() {
		e.lastOK = now
	}
	round, err := e.evaluate(ctx, now)
	e.history.add(summarise(now, round, e.took, time.Since(started), e.cells.rows+e.works.rows, err), round.Verdicts)
	if err == nil {
		e.lastOK = now
		e.ready.Store(true)
		e.failing.Store(nil)
		// A receiver that is away is no blindness: its alerts wait in the outbox.
		err = e.notify(ctx, now)
	} else {
		next := &failing{rounds: 1, since: now, last: err}
		if before := e.failing.Load(); before != nil {
			next.rounds, next.since = before.rounds+1, before.since
		}
		e.failing.Store(next)
		err = errors.Join(err, e.blind(ctx, now, &round))
	}
	e.metrics.round(ctx, time.Since(started), err)
	if e.book != nil {
		e.metrics.state(ctx, e.book)
	}
	return round, err
}

func (e *Engine) evaluate(ctx context.Context, now time.Time) (Round, error) {
	var round Round
	if err := e.gate(ctx); err != nil {
		return round, err
	}
	if err := e.load(ctx, now); err != nil {
		return round, err
	}
	st, err := e.roller.Run(ctx, now)
	round.Rollup = st
	e.metrics.dirty.Add(ctx, int64(st.DirtyMinutes))
	e.metrics.tooOld.Add(ctx, int64(st.TooOld))
	e.metrics.backfill.Record(ctx, st.BackfillLeft.Seconds())
	if st.ClockJumped {
		e.metrics.clockJumps.Add(ctx, 1)
	}
	// Also after an error: what was computed before it was stored.
	for _, minutes := range st.Touched {
		e.cells.forget(minutes)
		e.works.forget(minutes)
	}
	if err != nil {
		return round, err
	}
	delay, err := e.delay(ctx, now)
	if err != nil {
		return round, err
	}
	w := now.Add(-delay).Truncate(time.Minute)
	round.Watermark = w
	e.metrics.delay.Record(ctx, now.Sub(w).Seconds())
	for _, minutes := range st.Touched {
		e.baselines.Forget(w, minutes)
	}
	if err := e.loadBaselines(ctx, w); err != nil {
		return round, err
	}
	if err := e.seasons.read(ctx, e.store, w); err != nil {
		return round, err
	}
	if round.Verdicts, err = e.judge(ctx, w); err != nil {
		return round, err
	}
	e.metrics.judged(ctx, round.Verdicts)
	if away := now.Sub(e.lastOK); away > e.cfg.EndsAfter {
		e.book.rest(away)
	}
	dirty := e.live(ctx, now, append(round.Verdicts, seeing(w)), true, &round)
	if err := e.persist(ctx, now, dirty); err != nil {
		return round, err
	}
	e.meet(ctx, now)
	return round, nil
}

// live moves the alerts on and reports whether the book changed. Where the round sees nothing no
// alert expires: that is for slices without traffic.
func (e *Engine) live(ctx context.Context, now time.Time, verdicts []Verdict, sees bool, round *Round) bool {
	var changes []*Alert
	dirty := false
	verdicts, muted := e.book.audible(e.cfg, verdicts)
	e.metrics.mutedBy(ctx, mutedPipeline, muted)
	x := e.explainer(verdicts)
	for _, v := range verdicts {
		x.explain(ctx, &v)
		change, d := e.book.observe(e.cfg, v, now)
		dirty = dirty || d
		if change != nil {
			changes = append(changes, change)
		}
	}
	if sees {
		expired, d := e.book.expire(e.cfg, now)
		changes, dirty = append(changes, expired...), dirty || d
	}
	marked := e.book.mark(e.planned)
	for _, c := range changes {
		if t := e.book.Tracks[c.Fingerprint]; t != nil && t.Alert.Transition == c.Transition {
			c.Muted, c.MutedBy = t.Alert.Muted, t.Alert.MutedBy
		}
		round.Changes = append(round.Changes, *c)
		e.keep(c)
		e.log.Info("alert "+c.State, "alert", c.Key(), "detection", c.Detection, "slice", c.Slice.String(), "service", c.Slice.Service, "severity", c.Severity, "shadow", c.Shadow)
	}
	for _, c := range marked {
		e.keep(c)
		if c.Muted != "" {
			e.metrics.mutedBy(ctx, c.Muted, 1)
			e.log.Info("alert kept and not sent", "alert", c.Key(), "detection", c.Detection, "reason", c.Muted, "by", c.MutedBy)
		}
		dirty = true
	}
	if e.post(now) > 0 {
		dirty = true
	}
	if dirty {
		e.baselines.SetIncidents(e.book.excluded())
	}
	return dirty
}

// keep has an alert's present state stored at the end of the round.
func (e *Engine) keep(a *Alert) {
	row, err := a.row(0)
	if err != nil {
		e.log.Error("an alert cannot be stored", "alert", a.Key(), "error", err)
		return
	}
	e.unsaved = append(e.unsaved, row)
}

// ends sets when receivers may forget an alert.
func (e *Engine) ends(a Alert, now time.Time) Alert {
	if a.State == Resolved {
		a.EndsAt = a.ResolvedAt
	} else {
		a.EndsAt = now.Add(e.cfg.EndsAfter)
	}
	return a
}

func (e *Engine) names() []string {
	out := make([]string, len(e.notifiers))
	for i, n := range e.notifiers {
		out[i] = n.Name()
	}
	return out
}

// Active lists the alerts that are pending or firing, for pages.
func (e *Engine) Active() []Alert {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Alert
	if e.book == nil {
		return nil
	}
	for _, fp := range e.book.fingerprints() {
		if a := e.book.Tracks[fp].Alert; a.State == Pending || a.State == Firing {
			out = append(out, a)
		}
	}
	return out
}
