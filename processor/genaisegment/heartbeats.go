package genaisegment

import (
	"context"
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"driftline/internal/annotate"
	"driftline/internal/assemble"
	"driftline/internal/clock"
	"driftline/internal/genai"
	"driftline/processor/genaisegment/internal/metadata"
)

// Heartbeats are log records that say that a span runs. Two forms are read: those of
// OpenTelemetry's partial span processors (for Java, Python and .NET), whose body is the
// span, and an application's own, whose ids and attributes are the span's.
const (
	partialEvent = "partial.event"     // heartbeat, or stop when the span has ended
	partialBody  = "partial.body.type" // json/v1; else base64 of protobuf
	ownEvent     = "driftline.heartbeat"
	ownStop      = "driftline.heartbeat.stop"
	// startedAt is when the span of an application's own heartbeat began; else it is taken to
	// have begun when the first heartbeat was sent.
	startedAt = "driftline.started_at_unix_ms"
	// maxHeartbeat bounds the body that is read, in bytes.
	maxHeartbeat = 1 << 20
)

// What became of a heartbeat.
const (
	beatUsed       = "used"
	beatIgnored    = "ignored"
	beatUnreadable = "unreadable"
)

// registry tells a logs pipeline which processors of traces pipelines have its
// configuration: a component that is named in several pipelines is made once for each.
type registry struct {
	mu     sync.Mutex
	traces map[*Config][]*segments
}

func newRegistry() *registry { return &registry{traces: map[*Config][]*segments{}} }

func (r *registry) add(p *segments) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.traces[p.cfg] = append(r.traces[p.cfg], p)
	p.leave = func() { r.remove(p) }
}

func (r *registry) remove(p *segments) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var left []*segments
	for _, other := range r.traces[p.cfg] {
		if other != p {
			left = append(left, other)
		}
	}
	if r.traces[p.cfg] = left; len(left) == 0 {
		delete(r.traces, p.cfg)
	}
}

func (r *registry) of(cfg *Config) []*segments {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.traces[cfg]
}

// heartbeats is the processor in a logs pipeline. Logs pass as they are; heartbeats among
// them are told to the processor of the same name in the traces pipelines.
type heartbeats struct {
	cfg       *Config
	registry  *registry
	next      consumer.Logs
	clock     clock.Clock
	logger    *zap.Logger
	telemetry *metadata.TelemetryBuilder
}

func newHeartbeats(set processor.Settings, cfg *Config, next consumer.Logs, c clock.Clock, r *registry) (*heartbeats, error) {
	builder, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, fmt.Errorf("make the processor's own metrics: %w", err)
	}
	return &heartbeats{cfg: cfg, registry: r, next: next, clock: c, logger: set.Logger, telemetry: builder}, nil
}

// Capabilities says that logs are not changed.
func (*heartbeats) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// Start warns when nobody listens: every pipeline's components are made before any starts.
func (h *heartbeats) Start(context.Context, component.Host) error {
	if len(h.registry.of(h.cfg)) == 0 {
		h.logger.Warn("Heartbeats have no effect: no traces pipeline names this processor. Name it in one too.")
	}
	return nil
}

// Shutdown has nothing to wait for.
func (h *heartbeats) Shutdown(context.Context) error {
	h.telemetry.Shutdown()
	return nil
}

// ConsumeLogs reads the heartbeats in ld and passes ld on.
func (h *heartbeats) ConsumeLogs(ctx context.Context, ld plog.Logs) error {
	if to := h.registry.of(h.cfg); len(to) > 0 {
		h.read(ctx, ld, to)
	}
	return h.next.ConsumeLogs(ctx, ld)
}

func (h *heartbeats) read(ctx context.Context, ld plog.Logs, to []*segments) {
	now := h.clock.Now()
	outcomes := map[string]int64{}
	for _, rl := range ld.ResourceLogs().All() {
		for _, sl := range rl.ScopeLogs().All() {
			for _, record := range sl.LogRecords().All() {
				beat, is := readBeat(record, rl.Resource(), now)
				if !is {
					continue
				}
				switch {
				case beat.span == (ptrace.Span{}) || beat.span.TraceID().IsEmpty() || beat.span.SpanID().IsEmpty():
					outcomes[beatUnreadable]++
				case tell(to, beat, now):
					outcomes[beatUsed]++
				default:
					outcomes[beatIgnored]++
				}
			}
		}
	}
	for outcome, n := range outcomes {
		h.telemetry.ProcessorGenaisegmentHeartbeats.Add(ctx, n, metric.WithAttributes(attribute.String("outcome", outcome)))
	}
}

// tell gives the heartbeat to the processor that knows its trace, else to the first.
func tell(to []*segments, b beat, now time.Time) bool {
	for _, p := range to {
		if p.beat(b, now, true) {
			return true
		}
	}
	return to[0].beat(b, now, false)
}

// beat is a heartbeat as its log record shows it. The span is the zero value if the record
// cannot be read.
type beat struct {
	span     ptrace.Span
	resource pcommon.Resource
	scope    string
	at       int64
	stop     bool
	// own says that an application sent it of its own accord, so that it is of GenAI work.
	own bool
}

// readBeat reads a record if it is a heartbeat.
func readBeat(record plog.LogRecord, resource pcommon.Resource, now time.Time) (beat, bool) {
	b := beat{resource: resource, at: now.UnixNano()}
	// A clock that was not set, is ahead or counts in another unit says nothing: a heartbeat from
	// the future would hide that no more come.
	for _, sent := range []pcommon.Timestamp{record.ObservedTimestamp(), record.Timestamp()} {
		if at := int64(sent); at >= genai.OldestInstant && at <= now.UnixNano() {
			b.at = at
		}
	}
	kind := record.EventName()
	if v, ok := record.Attributes().Get("event.name"); ok && kind == "" {
		kind = v.AsString()
	}
	switch kind {
	case ownEvent, ownStop:
		b.own, b.stop = true, kind == ownStop
		b.span = spanOfRecord(record, b.at)
		return b, true
	}
	v, ok := record.Attributes().Get(partialEvent)
	if !ok {
		return b, false
	}
	if b.stop = v.AsString() == "stop"; !b.stop && v.AsString() != "heartbeat" {
		return b, false
	}
	b.readBody(record)
	return b, true
}

// spanOfRecord makes the span of an application's own heartbeat.
func spanOfRecord(record plog.LogRecord, at int64) ptrace.Span {
	span := ptrace.NewSpan()
	span.SetTraceID(record.TraceID())
	span.SetSpanID(record.SpanID())
	span.SetStartTimestamp(pcommon.Timestamp(at))
	if v, ok := record.Attributes().Get(startedAt); ok && v.Type() == pcommon.ValueTypeInt && v.Int() >= genai.OldestInstant/1e6 && v.Int() <= at/1e6 {
		span.SetStartTimestamp(pcommon.NewTimestampFromTime(time.UnixMilli(v.Int())))
	}
	record.Attributes().CopyTo(span.Attributes())
	return span
}

// readBody reads the span in the body of a partial span processor's record.
func (b *beat) readBody(record plog.LogRecord) {
	if record.Body().Type() != pcommon.ValueTypeStr || len(record.Body().Str()) > maxHeartbeat {
		return
	}
	var td ptrace.Traces
	var err error
	if v, ok := record.Attributes().Get(partialBody); ok && v.AsString() != "proto" {
		var decode ptrace.JSONUnmarshaler
		td, err = decode.UnmarshalTraces([]byte(record.Body().Str()))
	} else {
		var data []byte
		if data, err = base64.StdEncoding.DecodeString(record.Body().Str()); err == nil {
			var decode ptrace.ProtoUnmarshaler
			td, err = decode.UnmarshalTraces(data)
		}
	}
	if err != nil {
		return
	}
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if rs.Resource().Attributes().Len() > 0 {
					b.resource = rs.Resource()
				}
				b.span, b.scope = span, ss.Scope().Name()
				return
			}
		}
	}
}

// beat takes a heartbeat; with known only if its trace is open here.
func (p *segments) beat(b beat, now time.Time, known bool) bool {
	arena := arenas.Get().(*annotate.Arena)
	arena.Reset()
	span := arena.Span(b.span, annotate.ResourceOf(b.resource), b.scope, p.wanted)
	a := assemble.Beat{TraceID: b.span.TraceID(), Span: span, At: b.at, GenAI: b.own || p.isGenAI(&span), Stop: b.stop}
	p.mu.Lock()
	if known && !p.buffer.Knows(a.TraceID) {
		p.mu.Unlock()
		arenas.Put(arena)
		return false
	}
	used, releases := p.buffer.Beat(a, now)
	p.out.begin(spansOf(releases))
	p.mu.Unlock()
	arenas.Put(arena)
	w := newWriter()
	for b := range w.batches(releases, now) {
		p.out.deliver(p.background, b, now)
	}
	if b, any := w.cut(); any {
		p.out.deliver(p.background, b, now)
	}
	return used
}
