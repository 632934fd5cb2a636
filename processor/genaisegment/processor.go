package genaisegment

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"

	"driftline/internal/annotate"
	"driftline/internal/assemble"
	"driftline/internal/clock"
	"driftline/internal/genai"
	"driftline/processor/genaisegment/internal/metadata"
)

// segments is the processor: a thin edge around the trace buffer.
type segments struct {
	cfg       *Config
	options   genai.Options
	clock     clock.Clock
	telemetry *metadata.TelemetryBuilder
	out       *outbox
	wanted    func(key string) bool
	isGenAI   func(*genai.Span) bool

	mu     sync.Mutex // guards what follows
	buffer *assemble.Buffer[original]
	passed int64
	// stripped counts spans that claimed to be handled before and were not believed.
	stripped int64
	// withoutIDs counts spans that belong to no trace.
	withoutIDs int64
	// abandoned are spans still in the buffer that a shutdown had no time for.
	abandoned int64

	background context.Context
	cancel     context.CancelFunc
	stop       func()
	leave      func() // takes the processor off the registry of its factory
}

func newProcessor(set processor.Settings, cfg *Config, next consumer.Traces, c clock.Clock) (*segments, error) {
	options, err := cfg.options()
	if err != nil {
		return nil, fmt.Errorf("read the dialects: %w", err)
	}
	builder, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, fmt.Errorf("make the processor's own metrics: %w", err)
	}
	p := &segments{cfg: cfg, options: options, clock: c, telemetry: builder}
	p.background, p.cancel = context.WithCancel(context.Background())
	// The memory that the user grants is shared by the buffer and what waits for a
	// next component that fails.
	forRetries := cfg.maxBytes() / 4
	p.out = newOutbox(next, forRetries, set.Logger)
	p.isGenAI = p.options.IsGenAI
	p.wanted = func(key string) bool { return genai.Wanted(key, &p.options) }
	p.buffer = assemble.New(assemble.Settings{
		CheckpointInterval: cfg.CheckpointInterval,
		Linger:             cfg.Linger,
		TraceTimeout:       cfg.TraceTimeout,
		AttemptWait:        cfg.AttemptWait,
		Remember:           cfg.Remember,
		MaxTraces:          cfg.MaxTraces,
		MaxRemembered:      cfg.MaxRememberedTraces,
		MaxSpans:           cfg.MaxSpans,
		MaxBytes:           cfg.maxBytes() - forRetries,
		MaxSpansPerTrace:   cfg.MaxSpansPerTrace,
		MaxForgotten:       forgottenPerTrace * cfg.MaxRememberedTraces,
		MaxLabelValues:     cfg.MaxLabelValues,
		CheckpointSpans:    cfg.CheckpointSpans,
		Analyze:            func(t genai.Trace) genai.Result { return genai.Analyze(t, p.options) },
		OnLate: func(age time.Duration) {
			builder.ProcessorGenaisegmentLateSpanAge.Record(context.Background(), age.Seconds())
		},
	}, &viewer{wanted: p.wanted})
	if err := p.observe(); err != nil {
		return nil, fmt.Errorf("register the processor's own metrics: %w", err)
	}
	return p, nil
}

// forgottenPerTrace is how many ids of forgotten traces are known for each trace that
// can be remembered: an id costs a hundredth of what a remembered trace does.
const forgottenPerTrace = 5

// Capabilities says that spans are changed.
func (*segments) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

// Start begins to look for due work.
func (p *segments) Start(context.Context, component.Host) error {
	p.stop = p.clock.Every(tick, p.tick)
	return nil
}

func (p *segments) tick(now time.Time) {
	p.out.retry(p.background, now)
	p.sendAll(p.background, now, func() ([]assemble.Release[original], bool) {
		return p.buffer.TickSome(now, releaseTraces)
	})
}

// releaseTraces is how many traces are released at a time, so that senders need not
// wait until all are.
const releaseTraces = 32

// sendAll sends what next gives, which is called under the lock, until it has no more.
// While some traces are written and sent, the next ones are being released.
func (p *segments) sendAll(ctx context.Context, now time.Time, next func() ([]assemble.Release[original], bool)) {
	take := func() ([]assemble.Release[original], bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		releases, more := next()
		p.out.begin(spansOf(releases))
		return releases, more
	}
	if ctx.Err() != nil {
		return
	}
	w := newWriter()
	put := func(releases []assemble.Release[original]) {
		for b := range w.batches(releases, now) {
			p.out.deliver(ctx, b, now)
		}
	}
	first, more := take()
	if !more {
		put(first)
	} else {
		ahead := make(chan []assemble.Release[original], 1)
		go func() {
			defer close(ahead)
			for more && ctx.Err() == nil {
				var releases []assemble.Release[original]
				releases, more = take()
				ahead <- releases
			}
		}()
		put(first)
		for releases := range ahead {
			put(releases)
		}
	}
	if b, any := w.cut(); any {
		p.out.deliver(ctx, b, now)
	}
}

// errBusy tells the sender to try again; it is not permanent.
var errBusy = errors.New("genaisegment: the next component does not take spans, and the memory for retries is half full; send again later")

// ConsumeTraces takes the spans into the buffer. It fails only when the next component
// fails and the memory for retries is half full; then nothing of td was taken.
func (p *segments) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	if p.out.refuse(td.SpanCount()) {
		return errBusy
	}
	now := p.clock.Now()
	t := p.take(td)
	var releases []assemble.Release[original]
	p.mu.Lock()
	p.stripped += t.stripped
	p.withoutIDs += t.withoutIDs
	p.passed += t.marked.spans
	for i := range t.arrivals {
		releases = append(releases, p.buffer.Add(t.arrivals[i], now)...)
	}
	p.out.begin(spansOf(releases) + t.marked.spans)
	p.mu.Unlock()
	// The receiver's context ends with this call and speaks for its spans only.
	if b, any := t.marked.cut(); any {
		p.out.deliver(p.background, b, now)
	}
	w := newWriter()
	for b := range w.batches(releases, now) {
		p.out.deliver(p.background, b, now)
	}
	if b, any := w.cut(); any {
		p.out.deliver(p.background, b, now)
	}
	return nil
}

// taken is what came in one call: spans for the buffer, and those that pass at once.
type taken struct {
	arrivals             []assemble.Arrival[original]
	marked               *writer
	stripped, withoutIDs int64
}

// take moves td's spans out of it. Spans that a driftline processor has handled already
// pass as they are, if annotations are trusted. If not, marks and rows are taken off,
// since anybody could write them; checkpoint spans pass empty.
func (p *segments) take(td ptrace.Traces) taken {
	t := taken{arrivals: make([]assemble.Arrival[original], 0, td.SpanCount()), marked: newWriter()}
	arena := arenas.Get().(*annotate.Arena)
	defer arenas.Put(arena)
	var lastGenAI pcommon.TraceID
	for _, rs := range td.ResourceSpans().All() {
		// The memory of a group is shared out among its spans.
		shared, first := annotate.ResourceHeapSize(rs), len(t.arrivals)
		group := newGroup(rs)
		for _, ss := range rs.ScopeSpans().All() {
			shared += annotate.ScopeHeapSize(ss)
			scope := newScope(group, ss)
			spans := ptrace.NewSpanSlice()
			ss.Spans().MoveAndAppendTo(spans) // they are ours from here on
			for _, span := range spans.All() {
				o := original{scope: scope, span: span}
				if !p.cfg.TrustAnnotations && annotate.Strip(span) {
					t.stripped++
				}
				if annotate.IsMarked(span) {
					t.marked.add(o)
					continue
				}
				if span.TraceID().IsEmpty() || span.SpanID().IsEmpty() {
					t.withoutIDs++ // all such spans together would look like one trace
					t.marked.add(o)
					continue
				}
				a := assemble.Arrival[original]{
					TraceID: span.TraceID(), Start: int64(span.StartTimestamp()), Root: span.ParentSpanID().IsEmpty(),
					Call: annotate.IsCall(span), Size: annotate.HeapSize(span), Payload: o,
				}
				// One GenAI span makes its trace, whose spans mostly come together.
				if a.GenAI = lastGenAI == a.TraceID && !lastGenAI.IsEmpty(); !a.GenAI {
					arena.Reset()
					seen := arena.Span(span, group.seen, scope.name, p.wanted)
					if a.GenAI = p.isGenAI(&seen); a.GenAI {
						lastGenAI = a.TraceID
					} else if a.Call {
						a.ModelCall = p.options.CallsModel(&seen)
					}
				}
				t.arrivals = append(t.arrivals, a)
			}
		}
		if n := len(t.arrivals) - first; n > 0 {
			for i := range t.arrivals[first:] {
				t.arrivals[first+i].Size += shared / n
			}
		}
	}
	return t
}

// arenas are for looking at spans that come, by several senders at once.
var arenas = sync.Pool{New: func() any { return &annotate.Arena{} }}

// viewer makes the domain's spans at their release.
type viewer struct {
	arena  annotate.Arena
	wanted func(key string) bool
}

func (v *viewer) Reset() { v.arena.Reset() }

func (v *viewer) View(o original) genai.Span {
	return v.arena.Span(o.span, o.scope.resource.seen, o.scope.name, v.wanted)
}

// Shutdown sends everything that is held, until ctx ends. What could not be sent is
// counted as dropped.
func (p *segments) Shutdown(ctx context.Context) error {
	defer p.telemetry.Shutdown()
	defer p.cancel()
	if p.leave != nil {
		p.leave()
	}
	// A call of the next component that hangs must not outlive ctx.
	defer context.AfterFunc(ctx, p.cancel)()
	if p.stop != nil {
		p.stop()
	}
	now := p.clock.Now()
	next, done := iter.Pull(p.buffer.Drain(now))
	defer done()
	p.out.retryAll(ctx, now)
	p.sendAll(ctx, now, func() ([]assemble.Release[original], bool) {
		releases := pull(next, releaseTraces)
		return releases, len(releases) > 0
	})
	p.mu.Lock()
	p.abandoned = p.buffer.Stats().Held
	p.mu.Unlock()
	return p.out.close(ctx, now, p.abandoned)
}

func pull(next func() (assemble.Release[original], bool), n int) []assemble.Release[original] {
	var out []assemble.Release[original]
	for len(out) < n {
		r, ok := next()
		if !ok {
			break
		}
		out = append(out, r)
	}
	return out
}

func spansOf(releases []assemble.Release[original]) int64 {
	n := 0
	for i := range releases {
		n += len(releases[i].Spans)
	}
	return int64(n)
}
