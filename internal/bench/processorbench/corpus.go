package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// spansPerTrace is the same for all traces, and half of them come a step before the root.
const spansPerTrace = 10

// corpus makes traces of ten spans, of agents or of a web shop, with the attributes that
// SDKs and Kubernetes really set and without any content. A trace comes in two batches of
// its service, as from an SDK: what ends first in one step, the root and the rest in the
// next one.
type corpus struct {
	rng      *rand.Rand
	genai    float64 // share of traces with GenAI spans
	services int
	batch    int // spans of one batch, about
	next     uint64
	begun    [][]trace // by service: traces of which half was sent
}

type trace struct {
	id    pcommon.TraceID
	ids   [spansPerTrace]pcommon.SpanID
	genai bool
	retry bool
	start time.Time
}

func newCorpus(seed uint64, genai float64, services, batch int) *corpus {
	return &corpus{
		rng: rand.New(rand.NewPCG(seed, 0x70726f63657373)), genai: genai, services: services, batch: batch,
		begun: make([][]trace, services),
	}
}

// step gives the batches of one step in which so many traces begin, and how many spans
// they hold.
func (c *corpus) step(traces int, now time.Time) (batches []ptrace.Traces, spans int) {
	for s := range c.services {
		second := c.begun[s]
		var first []trace
		for range traces / c.services {
			first = append(first, c.trace(now))
		}
		c.begun[s] = first
		var w *writer
		put := func(list []trace, early bool) {
			for i := range list {
				if w == nil || w.spans >= c.batch {
					w = newWriter(s)
					batches = append(batches, w.td)
				}
				before := w.spans
				w.trace(&list[i], early)
				spans += w.spans - before
			}
		}
		put(second, false)
		put(first, true)
	}
	return batches, spans
}

func (c *corpus) trace(now time.Time) trace {
	t := trace{genai: c.rng.Float64() < c.genai, retry: c.rng.Float64() < 0.1, start: now.Add(-time.Duration(c.rng.IntN(500)) * time.Millisecond)}
	binary.BigEndian.PutUint64(t.id[:8], c.rng.Uint64()|1)
	binary.BigEndian.PutUint64(t.id[8:], c.rng.Uint64())
	for i := range t.ids {
		binary.BigEndian.PutUint64(t.ids[i][:], c.rng.Uint64()|1)
	}
	return t
}

// writer writes one batch: one service with two scopes.
type writer struct {
	td          ptrace.Traces
	app, client ptrace.SpanSlice
	service     int
	spans       int
}

func newWriter(service int) *writer {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.SetSchemaUrl("https://opentelemetry.io/schemas/1.37.0")
	resource(rs.Resource().Attributes(), service)
	app, client := rs.ScopeSpans().AppendEmpty(), rs.ScopeSpans().AppendEmpty()
	app.Scope().SetName("opentelemetry.instrumentation.genai")
	app.Scope().SetVersion("2.3b0")
	client.Scope().SetName("opentelemetry.instrumentation.httpx")
	client.Scope().SetVersion("0.58b0")
	return &writer{td: td, app: app.Spans(), client: client.Spans(), service: service}
}

func resource(a pcommon.Map, service int) {
	a.PutStr("service.name", fmt.Sprintf("shop-%d", service))
	a.PutStr("service.version", "4.11.2")
	a.PutStr("service.namespace", "shop")
	a.PutStr("service.instance.id", fmt.Sprintf("6f1c8a52-0b7e-4a53-9a3f-%012d", service))
	a.PutStr("deployment.environment.name", "production")
	a.PutStr("k8s.cluster.name", "prod-eu-central-1")
	a.PutStr("k8s.namespace.name", "shop")
	a.PutStr("k8s.deployment.name", fmt.Sprintf("shop-%d", service))
	a.PutStr("k8s.pod.name", fmt.Sprintf("shop-%d-7c9d8b6f54-x2v9k", service))
	a.PutStr("k8s.pod.uid", fmt.Sprintf("0d0c3f5e-1f3b-4b1f-8a51-%012d", service))
	a.PutStr("k8s.node.name", "ip-10-3-41-7.eu-central-1.compute.internal")
	a.PutStr("host.name", "ip-10-3-41-7.eu-central-1.compute.internal")
	a.PutStr("cloud.provider", "aws")
	a.PutStr("cloud.region", "eu-central-1")
	a.PutStr("telemetry.sdk.language", "python")
	a.PutStr("telemetry.sdk.name", "opentelemetry")
	a.PutStr("telemetry.sdk.version", "1.39.0")
	a.PutStr("process.runtime.name", "cpython")
	a.PutStr("process.runtime.version", "3.12.8")
	a.PutInt("process.pid", 7)
}

// span writes a span of t; from and to are milliseconds after its start, and parent is
// the index of another span, -1 for none.
func (w *writer) span(to ptrace.SpanSlice, t *trace, id, parent int, name string, kind ptrace.SpanKind, from, till int) ptrace.Span {
	s := to.AppendEmpty()
	s.SetTraceID(t.id)
	s.SetSpanID(t.ids[id])
	if parent >= 0 {
		s.SetParentSpanID(t.ids[parent])
	}
	s.SetName(name)
	s.SetKind(kind)
	s.SetFlags(0x101)
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(t.start.Add(time.Duration(from) * time.Millisecond)))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(t.start.Add(time.Duration(till) * time.Millisecond)))
	w.spans++
	return s
}

// trace writes the half of t that ends early, or the other one with the root.
func (w *writer) trace(t *trace, early bool) {
	switch {
	case t.genai && early:
		w.chat(t, 2, 1, 5, 905)
		w.http(t, 3, 2, "api.openai.com", "/v1/chat/completions", 6, 400, 200)
		if t.retry {
			s := w.http(t, 4, 2, "api.openai.com", "/v1/chat/completions", 6, 106, 503)
			s.Status().SetCode(ptrace.StatusCodeError)
			s.Attributes().PutStr("error.type", "503")
		} else {
			w.db(t, 4, 1, 1, 3)
		}
		w.tool(t, 5, 1, "search_orders", 910, 1100)
		w.http(t, 6, 5, "search.internal", "/v2/search", 912, 1098, 200)
	case t.genai:
		w.chat(t, 7, 1, 1105, 2600)
		w.http(t, 8, 7, "api.openai.com", "/v1/chat/completions", 1106, 2599, 200)
		s := w.span(w.app, t, 1, 0, "invoke_agent planner", ptrace.SpanKindInternal, 1, 2650)
		a := s.Attributes()
		a.PutStr("gen_ai.operation.name", "invoke_agent")
		a.PutStr("gen_ai.provider.name", "openai")
		a.PutStr("gen_ai.agent.name", "planner")
		a.PutStr("gen_ai.agent.id", "agent_planner")
		a.PutStr("gen_ai.conversation.id", "conv_5f2b9c1d7e8a4b60")
		a.PutInt("request.budget_ms", 120_000)
		w.tool(t, 9, 1, "refund", 2601, 2640)
		w.root(t, 2660)
	case early:
		w.db(t, 1, 0, 2, 9)
		w.db(t, 2, 0, 10, 14)
		w.http(t, 3, 0, "stock.internal", "/v2/stock", 15, 40, 200)
		w.inner(t, 4, 0, "render.header", 41, 43)
		w.db(t, 5, 0, 44, 48)
	default:
		w.http(t, 6, 0, "price.internal", "/v1/price", 49, 80, 200)
		w.inner(t, 7, 0, "render.body", 81, 95)
		w.db(t, 8, 7, 83, 90)
		w.inner(t, 9, 0, "render.footer", 96, 99)
		w.root(t, 100)
	}
}

func (w *writer) root(t *trace, till int) {
	a := w.span(w.app, t, 0, -1, "POST /v1/ask", ptrace.SpanKindServer, 0, till).Attributes()
	a.PutStr("http.request.method", "POST")
	a.PutStr("url.path", "/v1/ask")
	a.PutStr("url.scheme", "https")
	a.PutStr("http.route", "/v1/ask")
	a.PutInt("http.response.status_code", 200)
	a.PutStr("server.address", "shop.example")
	a.PutStr("client.address", "10.3.7.19")
	a.PutStr("user_agent.original", "Mozilla/5.0 (X11; Linux x86_64)")
	a.PutStr("network.protocol.version", "1.1")
}

func (w *writer) chat(t *trace, id, parent, from, till int) {
	a := w.span(w.app, t, id, parent, "chat gpt-4o", ptrace.SpanKindClient, from, till).Attributes()
	a.PutStr("gen_ai.operation.name", "chat")
	a.PutStr("gen_ai.provider.name", "openai")
	a.PutStr("gen_ai.request.model", "gpt-4o")
	a.PutStr("gen_ai.response.model", "gpt-4o-2024-11-20")
	a.PutStr("gen_ai.response.id", "chatcmpl-B9Qm2Yt1xv0Pq7")
	a.PutStr("gen_ai.conversation.id", "conv_5f2b9c1d7e8a4b60")
	a.PutDouble("gen_ai.request.temperature", 0.2)
	a.PutInt("gen_ai.request.max_tokens", 4096)
	a.PutInt("gen_ai.usage.input_tokens", int64(1200+from))
	a.PutInt("gen_ai.usage.output_tokens", int64(20+till/10))
	a.PutBool("gen_ai.request.stream", true)
	a.PutDouble("gen_ai.response.time_to_first_chunk", float64(till-from)/5000)
	a.PutEmptySlice("gen_ai.response.finish_reasons").AppendEmpty().SetStr("stop")
	a.PutStr("server.address", "api.openai.com")
	a.PutInt("server.port", 443)
}

func (w *writer) tool(t *trace, id, parent int, name string, from, till int) {
	a := w.span(w.app, t, id, parent, "execute_tool "+name, ptrace.SpanKindInternal, from, till).Attributes()
	a.PutStr("gen_ai.operation.name", "execute_tool")
	a.PutStr("gen_ai.tool.name", name)
	a.PutStr("gen_ai.tool.type", "function")
	a.PutStr("gen_ai.tool.call.id", "call_9d7f3a1c5b2e4860")
	a.PutStr("gen_ai.agent.name", "planner")
	a.PutStr("gen_ai.conversation.id", "conv_5f2b9c1d7e8a4b60")
}

func (w *writer) http(t *trace, id, parent int, server, path string, from, till int, status int64) ptrace.Span {
	s := w.span(w.client, t, id, parent, "POST", ptrace.SpanKindClient, from, till)
	a := s.Attributes()
	a.PutStr("http.request.method", "POST")
	a.PutStr("url.full", "https://"+server+path)
	a.PutStr("server.address", server)
	a.PutInt("server.port", 443)
	a.PutStr("network.protocol.version", "1.1")
	a.PutStr("network.peer.address", "10.1.119.4")
	a.PutStr("user_agent.original", "openai-python/1.109.1")
	a.PutInt("http.response.status_code", status)
	return s
}

func (w *writer) db(t *trace, id, parent, from, till int) {
	a := w.span(w.client, t, id, parent, "SELECT orders", ptrace.SpanKindClient, from, till).Attributes()
	a.PutStr("db.system.name", "postgresql")
	a.PutStr("db.namespace", "shop")
	a.PutStr("db.operation.name", "SELECT")
	a.PutStr("db.collection.name", "orders")
	a.PutStr("db.query.text", "SELECT id, total, state FROM orders WHERE customer = $1 ORDER BY id DESC LIMIT 20")
	a.PutStr("server.address", "orders.db.internal")
	a.PutInt("server.port", 5432)
}

func (w *writer) inner(t *trace, id, parent int, name string, from, till int) {
	a := w.span(w.app, t, id, parent, name, ptrace.SpanKindInternal, from, till).Attributes()
	a.PutStr("code.function.name", "shop.views."+name)
	a.PutInt("code.line.number", 118)
	a.PutStr("thread.name", "MainThread")
	a.PutInt("thread.id", 140_245)
}
