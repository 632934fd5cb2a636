package genaisegment

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"driftline/internal/annotate"
	"driftline/internal/clock"
	"driftline/internal/rows"
	"driftline/processor/genaisegment/internal/metadata"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rig is a processor on a manual clock in front of a sink.
type rig struct {
	*segments
	clock *clock.Manual
	sink  *consumertest.TracesSink
}

func newRig(t *testing.T, change func(*Config)) *rig {
	sink := new(consumertest.TracesSink)
	return newRigTo(t, sink, sink, change)
}

func newRigTo(t *testing.T, next consumer.Traces, sink *consumertest.TracesSink, change func(*Config)) *rig {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	if change != nil {
		change(cfg)
	}
	require.NoError(t, cfg.Validate())
	c := clock.NewManual(began)
	p, err := NewFactoryWithClock(c).CreateTraces(t.Context(), processortest.NewNopSettings(metadata.Type), cfg, next)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	return &rig{segments: p.(*segments), clock: c, sink: sink}
}

func (r *rig) consume(t *testing.T, td ptrace.Traces) {
	t.Helper()
	require.NoError(t, r.ConsumeTraces(t.Context(), td))
}

// spans gives every span that came out, with its service.
func (r *rig) spans() []ptrace.Span {
	var out []ptrace.Span
	for _, td := range r.sink.AllTraces() {
		out = append(out, spansIn(td)...)
	}
	return out
}

func spansIn(td ptrace.Traces) []ptrace.Span {
	var out []ptrace.Span
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				out = append(out, span)
			}
		}
	}
	return out
}

// rowsOf decodes every row on spans; the latest of each key counts.
func rowsOf(t *testing.T, spans []ptrace.Span) map[rows.Key]rows.Row {
	t.Helper()
	out := map[rows.Key]rows.Row{}
	for _, span := range spans {
		for _, event := range span.Events().All() {
			row, err := annotate.Decode(event)
			if errors.Is(err, annotate.ErrNotRow) {
				continue
			}
			require.NoError(t, err)
			if before, known := out[row.Key()]; !known || before.Head().Revision < row.Head().Revision {
				out[row.Key()] = row
			}
		}
	}
	return out
}

func pick[R rows.Row](all map[rows.Key]rows.Row) []R {
	var out []R
	for _, row := range all {
		if r, ok := row.(R); ok && !row.Head().Deleted {
			out = append(out, r)
		}
	}
	return out
}

// ledger checks that received = sent + dropped + held.
func (r *rig) ledger(t *testing.T) counts {
	t.Helper()
	c := r.snapshot()
	dropped := int64(0)
	for _, n := range c.out.dropped {
		dropped += n
	}
	require.Equal(t, c.received, c.out.sent+dropped+c.held, "%+v", c)
	return c
}

// strip takes driftline's marks and rows off, which must leave the original.
func strip(span ptrace.Span) {
	span.Attributes().RemoveIf(func(key string, _ pcommon.Value) bool {
		switch key {
		case annotate.MarkGenAI, annotate.MarkOperationID, annotate.MarkAttemptOrdinal, annotate.MarkAttempts, annotate.MarkHiddenMS, annotate.MarkDriftMS:
			return true
		}
		return false
	})
	span.Events().RemoveIf(func(e ptrace.SpanEvent) bool { return strings.HasPrefix(e.Name(), rows.AttributePrefix) })
}

// builder writes test traces.
type builder struct {
	td    ptrace.Traces
	spans ptrace.SpanSlice
	trace byte
}

func newBuilder(trace byte) *builder {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.SetSchemaUrl("https://opentelemetry.io/schemas/1.37.0")
	rs.Resource().Attributes().PutStr("service.name", "shop")
	rs.Resource().Attributes().PutStr("service.version", "7")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("lib")
	ss.Scope().SetVersion("1")
	return &builder{td: td, spans: ss.Spans(), trace: trace}
}

func (b *builder) span(id, parent byte, name string, from, to time.Duration) ptrace.Span {
	s := b.spans.AppendEmpty()
	s.SetTraceID(pcommon.TraceID{b.trace, 15: 1})
	s.SetSpanID(pcommon.SpanID{id, 7: 1})
	if parent > 0 {
		s.SetParentSpanID(pcommon.SpanID{parent, 7: 1})
	}
	s.SetName(name)
	s.SetKind(ptrace.SpanKindClient)
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(began.Add(from)))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(began.Add(to)))
	return s
}

func (b *builder) agent(id byte, to time.Duration) ptrace.Span {
	s := b.span(id, 0, "invoke_agent planner", 0, to)
	s.SetKind(ptrace.SpanKindInternal)
	s.Attributes().PutStr("gen_ai.operation.name", "invoke_agent")
	s.Attributes().PutStr("gen_ai.agent.name", "planner")
	return s
}

func (b *builder) chat(id, parent byte, from, to time.Duration) ptrace.Span {
	s := b.span(id, parent, "chat m", from, to)
	s.Attributes().PutStr("gen_ai.operation.name", "chat")
	s.Attributes().PutStr("gen_ai.request.model", "m")
	s.Attributes().PutStr("gen_ai.provider.name", "p")
	s.Attributes().PutStr("gen_ai.input.messages", "secret prompt")
	return s
}

func (b *builder) http(id, parent byte, from, to time.Duration, status int64) ptrace.Span {
	s := b.span(id, parent, "POST", from, to)
	s.Attributes().PutStr("http.request.method", "POST")
	s.Attributes().PutStr("server.address", "api.example")
	s.Attributes().PutInt("http.response.status_code", status)
	if status >= 400 {
		s.Status().SetCode(ptrace.StatusCodeError)
	}
	return s
}

// retried is a request whose model call took three tries over HTTP.
func retried(trace byte) ptrace.Traces {
	b := newBuilder(trace)
	root := b.agent(1, 9*time.Second)
	root.Attributes().PutInt("driftline.request.budget_ms", 8000)
	b.chat(2, 1, time.Second, 8*time.Second)
	b.http(3, 2, time.Second, 3*time.Second, 503)
	b.http(4, 2, 4*time.Second, 5*time.Second, 503)
	b.http(5, 2, 6*time.Second, 8*time.Second, 200)
	return b.td
}

// failing is a next component that answers what it is told to.
type failing struct {
	*consumertest.TracesSink
	err     error
	mutates bool
}

func (f *failing) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: f.mutates}
}

func (f *failing) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	if f.err != nil {
		if f.mutates {
			td.ResourceSpans().RemoveIf(func(ptrace.ResourceSpans) bool { return true })
		}
		return f.err
	}
	return f.TracesSink.ConsumeTraces(ctx, td)
}

var _ component.Component = (*segments)(nil)
