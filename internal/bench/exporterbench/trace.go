package main

import (
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// writer writes the spans of one trace.
type writer struct {
	c            *corpus
	s            *service
	genai, http  ptrace.SpanSlice
	trace        pcommon.TraceID
	conversation string
}

func (w *writer) span(to ptrace.SpanSlice, parent pcommon.SpanID, name string, kind ptrace.SpanKind) ptrace.Span {
	s := to.AppendEmpty()
	s.SetTraceID(w.trace)
	s.SetSpanID(w.c.spanID())
	s.SetParentSpanID(parent)
	s.SetName(name)
	s.SetKind(kind)
	s.SetFlags(0x101)
	return s
}

func times(s ptrace.Span, from, to time.Time) {
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(from))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(to))
}

// request is an agent's task: 1 to 8 steps, each a model call, all but the last with a tool.
func (w *writer) request(at time.Time) time.Time {
	c := w.c
	root := w.span(w.genai, pcommon.SpanID{}, "invoke_agent "+w.s.agent, ptrace.SpanKindServer)
	a := root.Attributes()
	a.PutStr("gen_ai.operation.name", "invoke_agent")
	a.PutStr("gen_ai.provider.name", models[w.s.model].provider)
	a.PutStr("gen_ai.agent.name", w.s.agent)
	a.PutStr("gen_ai.agent.id", "agent_"+w.s.agent)
	a.PutStr("gen_ai.conversation.id", w.conversation)
	a.PutStr("user.id", c.hex(8))
	a.PutInt("request.budget_ms", 120_000)
	id, begin := root.SpanID(), at
	at = at.Add(c.lognormal(2*time.Millisecond, 0.4))
	input := 400 + c.rng.IntN(3000)
	for step, steps := 0, 1+c.rng.IntN(8); step < steps; step++ {
		at = w.chat(id, at, step, steps, &input)
		if step < steps-1 {
			at = w.tool(id, at)
		}
	}
	times(root, begin, at.Add(c.lognormal(time.Millisecond, 0.4)))
	return at
}

func (w *writer) chat(parent pcommon.SpanID, at time.Time, step, steps int, input *int) time.Time {
	c, m := w.c, models[(w.s.model+step*step)%len(models)]
	s := w.span(w.genai, parent, "chat "+m.name, ptrace.SpanKindClient)
	begin := at
	at = w.calls(s.SpanID(), at.Add(c.lognormal(300*time.Microsecond, 0.3)), m.server, "/v1/chat/completions", func() time.Duration { return c.lognormal(1800*time.Millisecond, 0.7) })
	output := int(20 + c.lognormal(180, 1))
	a := s.Attributes()
	a.PutStr("gen_ai.operation.name", "chat")
	a.PutStr("gen_ai.provider.name", m.provider)
	a.PutStr("gen_ai.request.model", m.name)
	a.PutStr("gen_ai.response.model", m.name)
	a.PutStr("gen_ai.response.id", "chatcmpl-"+c.hex(15))
	a.PutStr("gen_ai.conversation.id", w.conversation)
	a.PutStr("gen_ai.agent.name", w.s.agent)
	a.PutDouble("gen_ai.request.temperature", 0.2)
	a.PutDouble("gen_ai.request.top_p", 0.95)
	a.PutInt("gen_ai.request.max_tokens", 4096)
	a.PutStr("gen_ai.output.type", "text")
	a.PutInt("gen_ai.usage.input_tokens", int64(*input))
	a.PutInt("gen_ai.usage.output_tokens", int64(output))
	a.PutInt("gen_ai.usage.cache_read.input_tokens", int64(*input/128*128*c.rng.IntN(2)))
	reason := "tool_calls"
	if step == steps-1 {
		reason = "stop"
		a.PutBool("gen_ai.request.stream", true)
		a.PutDouble("gen_ai.response.time_to_first_chunk", at.Sub(begin).Seconds()*(0.1+0.3*c.rng.Float64()))
	}
	a.PutEmptySlice("gen_ai.response.finish_reasons").AppendEmpty().SetStr(reason)
	a.PutStr("openai.response.system_fingerprint", "fp_"+c.hex(5))
	a.PutStr("server.address", m.server)
	a.PutInt("server.port", 443)
	times(s, begin, at.Add(c.lognormal(400*time.Microsecond, 0.3)))
	*input += output + c.rng.IntN(900)
	return s.EndTimestamp().AsTime()
}

func (w *writer) tool(parent pcommon.SpanID, at time.Time) time.Time {
	c := w.c
	name := w.s.tools[c.rng.IntN(len(w.s.tools))]
	s := w.span(w.genai, parent, "execute_tool "+name, ptrace.SpanKindInternal)
	a := s.Attributes()
	a.PutStr("gen_ai.operation.name", "execute_tool")
	a.PutStr("gen_ai.tool.name", name)
	a.PutStr("gen_ai.tool.type", "function")
	a.PutStr("gen_ai.tool.call.id", "call_"+c.hex(12))
	a.PutStr("gen_ai.agent.name", w.s.agent)
	a.PutStr("gen_ai.conversation.id", w.conversation)
	end := w.calls(s.SpanID(), at.Add(c.lognormal(200*time.Microsecond, 0.3)), name+".internal", "/v2/"+name, func() time.Duration { return c.lognormal(250*time.Millisecond, 0.9) })
	times(s, at, end.Add(c.lognormal(200*time.Microsecond, 0.3)))
	return s.EndTimestamp().AsTime()
}

// calls writes the HTTP client spans of one operation: one, or with 4 % a failed one before.
func (w *writer) calls(parent pcommon.SpanID, at time.Time, server, path string, took func() time.Duration) time.Time {
	c := w.c
	for resend := 0; ; resend++ {
		failed := resend < 3 && c.rng.Float64() < 0.04
		s := w.span(w.http, parent, "POST", ptrace.SpanKindClient)
		a := s.Attributes()
		a.PutStr("http.request.method", "POST")
		a.PutStr("url.full", fmt.Sprintf("https://%s%s", server, path))
		a.PutStr("server.address", server)
		a.PutInt("server.port", 443)
		a.PutStr("network.protocol.version", "1.1")
		a.PutStr("network.peer.address", fmt.Sprintf("10.%d.%d.%d", c.rng.IntN(4), c.rng.IntN(250), c.rng.IntN(250)))
		a.PutStr("user_agent.original", "openai-python/1.109.1")
		if resend > 0 {
			a.PutInt("http.request.resend_count", int64(resend))
		}
		if !failed {
			a.PutInt("http.response.status_code", 200)
			end := at.Add(took())
			times(s, at, end)
			return end
		}
		status := []int{429, 503, 504}[c.rng.IntN(3)]
		a.PutInt("http.response.status_code", int64(status))
		a.PutStr("error.type", fmt.Sprint(status))
		s.Status().SetCode(ptrace.StatusCodeError)
		end := at.Add(c.lognormal(120*time.Millisecond, 0.8))
		times(s, at, end)
		at = end.Add(c.lognormal(600*time.Millisecond<<resend, 0.2))
	}
}
