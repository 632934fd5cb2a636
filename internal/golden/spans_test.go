package golden

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// trace builds the spans of one trace by hand. Times are seconds after t0.
type trace struct {
	id      byte
	service string
	td      ptrace.Traces
}

func newTrace(id byte) *trace { return &trace{id: id, service: "shop", td: ptrace.NewTraces()} }

// in names the service of the spans that follow.
func (b *trace) in(service string) *trace {
	b.service = service
	return b
}

type attrs map[string]any

func at(seconds float64) pcommon.Timestamp {
	return pcommon.NewTimestampFromTime(t0.Add(time.Duration(seconds * 1e9).Round(time.Microsecond)))
}

// span adds a span; parent 0 is none. Each is in a resource of its own, so that any
// split into batches is possible.
func (b *trace) span(id, parent byte, name string, kind ptrace.SpanKind, from, to float64, a attrs) ptrace.Span {
	rs := b.td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", b.service)
	rs.Resource().Attributes().PutStr("service.version", "1.2.0")
	rs.Resource().Attributes().PutStr("deployment.environment.name", "test")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("by.hand")
	s := ss.Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{0: 0xd1, 15: b.id})
	s.SetSpanID(pcommon.SpanID{7: id})
	if parent > 0 {
		s.SetParentSpanID(pcommon.SpanID{7: parent})
	}
	s.SetName(name)
	s.SetKind(kind)
	s.SetStartTimestamp(at(from))
	s.SetEndTimestamp(at(to))
	for k, v := range a {
		if err := s.Attributes().PutEmpty(k).FromRaw(v); err != nil {
			panic(err)
		}
	}
	return s
}

func with(a attrs, more attrs) attrs {
	out := attrs{}
	for k, v := range a {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

func fail(s ptrace.Span) ptrace.Span {
	s.Status().SetCode(ptrace.StatusCodeError)
	s.Status().SetMessage(secret)
	return s
}

func event(s ptrace.Span, name string, when float64, a attrs) {
	e := s.Events().AppendEmpty()
	e.SetName(name)
	e.SetTimestamp(at(when))
	if err := e.Attributes().FromRaw(a); err != nil {
		panic(err)
	}
}

// secret stands for a prompt, a completion or a credential: it must come out nowhere but
// on the span that brought it.
const secret = "s3cret-content"

func (b *trace) agent(id, parent byte, from, to float64, a attrs) ptrace.Span {
	return b.span(id, parent, "invoke_agent planner", ptrace.SpanKindInternal, from, to, with(attrs{
		"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "planner",
	}, a))
}

func (b *trace) chat(id, parent byte, from, to float64, a attrs) ptrace.Span {
	return b.span(id, parent, "chat m1", ptrace.SpanKindClient, from, to, with(attrs{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1", "gen_ai.provider.name": "p1",
		"gen_ai.input.messages": secret, "gen_ai.prompt.0.content": secret,
	}, a))
}

func (b *trace) tool(id, parent byte, from, to float64, a attrs) ptrace.Span {
	return b.span(id, parent, "execute_tool lookup", ptrace.SpanKindInternal, from, to, with(attrs{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup", "gen_ai.tool.call.arguments": secret,
	}, a))
}

func (b *trace) post(id, parent byte, from, to float64, status int) ptrace.Span {
	a := attrs{
		"http.request.method": "POST", "server.address": "api.example", "server.port": 443,
		"url.full": "https://api.example/v1/chat?key=" + secret, "http.request.header.authorization": []any{secret},
	}
	if status > 0 {
		a["http.response.status_code"] = status
	}
	s := b.span(id, parent, "POST", ptrace.SpanKindClient, from, to, a)
	if status >= 400 {
		fail(s)
	}
	return s
}
