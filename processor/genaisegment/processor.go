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

	mu     sync.Mutex // guards what follows
	buffer *assemble.Buffer[original]
	passed int64
	// stripped counts spans that claimed to be handled before and were not believed.
	stripped int64
	// abandoned are spans still in the buffer that a shutdown had no time for.
	abandoned int64

	background context.Context
	cancel     context.CancelFunc
	stop       func()
}

func newProcessor(set processor.Settings, cfg *Config, next consumer.Traces, c clock.Clock) (*segments, error) {
	builder, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, fmt.Errorf("make the processor's own metrics: %w", err)
	}
	p := &segments{cfg: cfg, options: cfg.options(), clock: c, telemetry: builder}
	p.background, p.cancel = context.WithCancel(context.Background())
	// The memory that the user grants is shared by the buffer and what waits for a
	// next component that fails.
	forRetries := cfg.maxBytes() / 4
	p.out = newOutbox(next, forRetries, set.Logger)
	p.buffer = assemble.New[original](assemble.Settings{
		CheckpointInterval: cfg.CheckpointInterval,
		Linger:             cfg.Linger,
		TraceTimeout:       cfg.TraceTimeout,
		AttemptWait:        cfg.AttemptWait,
		Remember:           cfg.Remember,
		MaxTraces:          cfg.MaxTraces,
		MaxSpans:           cfg.MaxSpans,
		MaxBytes:           cfg.maxBytes() - forRetries,
		MaxSpansPerTrace:   cfg.MaxSpansPerTrace,
		MaxForgotten:       forgottenPerTrace * cfg.MaxTraces,
		MaxLabelValues:     cfg.MaxLabelValues,
		CheckpointSpans:    cfg.CheckpointSpans,
		Analyze:            func(t genai.Trace) genai.Result { return genai.Analyze(t, p.options) },
		IsGenAI:            genai.IsGenAI,
		OnLate: func(age time.Duration) {
			builder.ProcessorGenaisegmentLateSpanAge.Record(context.Background(), age.Seconds())
		},
	})
	if err := p.observe(); err != nil {
		return nil, fmt.Errorf("register the processor's own metrics: %w", err)
	}
	return p, nil
}

// forgottenPerTrace is how many ids of forgotten traces are known for each trace that
// the buffer can hold: an id costs a fortieth of an empty trace.
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
	p.mu.Lock()
	releases := p.buffer.Tick(now)
	p.out.begin(spansOf(releases))
	p.mu.Unlock()
	p.send(p.background, releases, now)
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
	p.mu.Lock()
	marked, releases := p.take(td, now)
	n := marked.SpanCount()
	p.passed += int64(n)
	p.out.begin(spansOf(releases) + int64(n))
	p.mu.Unlock()
	// The receiver's context ends with this call and speaks for its spans only.
	if n > 0 {
		p.out.deliver(p.background, batch{td: marked, spans: int64(n)}, now)
	}
	p.send(p.background, releases, now)
	return nil
}

// take moves td's spans into the buffer. Spans that a driftline processor has handled
// already are returned as they are, if annotations are trusted. If not, marks and rows
// are taken off, since anybody could write them; checkpoint spans are returned empty.
func (p *segments) take(td ptrace.Traces, now time.Time) (ptrace.Traces, []assemble.Release[original]) {
	marked := newWriter()
	var releases []assemble.Release[original]
	wanted := func(key string) bool { return genai.Wanted(key, &p.options) }
	var sizer ptrace.ProtoMarshaler
	for _, rs := range td.ResourceSpans().All() {
		resource := annotate.ResourceOf(rs.Resource())
		group := newGroup(rs)
		for _, ss := range rs.ScopeSpans().All() {
			scope := newScope(group, ss)
			for _, span := range ss.Spans().All() {
				o := original{scope: scope, span: ptrace.NewSpan()}
				if !p.cfg.TrustAnnotations && annotate.Strip(span) {
					p.stripped++
				}
				already := annotate.IsMarked(span)
				size := heapPerByte*sizer.SpanSize(span) + heapPerSpan
				span.MoveTo(o.span)
				if already {
					marked.add(o)
					continue
				}
				domain := annotate.SpanOf(o.span, resource, scope.scope.Name(), wanted)
				releases = append(releases, p.buffer.Add(domain, o, size, now)...)
			}
		}
	}
	return marked.td, releases
}

// Decoded spans take more memory than their bytes on the wire.
const (
	heapPerByte = 2
	heapPerSpan = 512
)

func (p *segments) send(ctx context.Context, releases []assemble.Release[original], now time.Time) {
	for b := range batches(releases, now) {
		p.out.deliver(ctx, b, now)
	}
}

// Shutdown sends everything that is held, until ctx ends. What could not be sent is
// counted as dropped.
func (p *segments) Shutdown(ctx context.Context) error {
	defer p.telemetry.Shutdown()
	defer p.cancel()
	// A call of the next component that hangs must not outlive ctx.
	defer context.AfterFunc(ctx, p.cancel)()
	if p.stop != nil {
		p.stop()
	}
	now := p.clock.Now()
	next, done := iter.Pull(p.buffer.Drain(now))
	defer done()
	p.out.retryAll(ctx, now)
	for ctx.Err() == nil {
		p.mu.Lock()
		releases := pull(next, drainTraces)
		p.out.begin(spansOf(releases))
		p.mu.Unlock()
		if len(releases) == 0 {
			break
		}
		p.send(ctx, releases, now)
	}
	p.mu.Lock()
	p.abandoned = p.buffer.Stats().Held
	p.mu.Unlock()
	return p.out.close(ctx, now, p.abandoned)
}

// drainTraces is how many traces are released between two looks at the deadline.
const drainTraces = 256

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
