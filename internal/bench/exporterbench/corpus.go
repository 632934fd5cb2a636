package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// corpus makes traces of agents without any content: an agent's root, model calls and tool
// calls, each with its HTTP client span, some of them retried. Attributes are those that SDKs
// and Kubernetes really set, with ids that never repeat.
type corpus struct {
	rng      *rand.Rand
	services []service
	at       time.Time
	// gap is the mean time between two requests.
	gap time.Duration
}

type service struct {
	name, version, namespace, region, agent string
	pods                                    []pod
	tools                                   []string
	model                                   int
}

type pod struct{ name, uid, node, host, instance string }

var models = []struct{ provider, name, server string }{
	{"openai", "gpt-4o-2024-11-20", "api.openai.com"}, {"openai", "gpt-4o-mini", "api.openai.com"},
	{"openai", "o4-mini", "api.openai.com"}, {"anthropic", "claude-sonnet-4-20250514", "api.anthropic.com"},
	{"anthropic", "claude-3-5-haiku-20241022", "api.anthropic.com"}, {"gcp.vertex_ai", "gemini-2.5-pro", "us-central1-aiplatform.googleapis.com"},
	{"gcp.vertex_ai", "gemini-2.5-flash", "europe-west4-aiplatform.googleapis.com"}, {"aws.bedrock", "meta.llama3-3-70b-instruct-v1:0", "bedrock-runtime.eu-central-1.amazonaws.com"},
	{"azure.ai.openai", "gpt-4.1", "tenant-eastus2.openai.azure.com"}, {"mistral_ai", "mistral-large-2411", "api.mistral.ai"},
}

var toolNames = []string{"search_orders", "get_customer", "refund", "web_search", "run_sql", "read_file", "send_email", "create_ticket", "get_weather", "calendar_lookup", "vector_search", "translate", "summarise_page", "list_invoices"}

func newCorpus(seed uint64, start time.Time, gap time.Duration) *corpus {
	c := &corpus{rng: rand.New(rand.NewPCG(seed, 0x64726966746c696e)), at: start, gap: gap}
	areas := []string{"support", "billing", "search", "ops", "sales", "legal", "travel", "fraud", "hr", "docs"}
	for i := range 40 {
		s := service{
			name: fmt.Sprintf("%s-agent-%d", areas[i%len(areas)], i/len(areas)), version: fmt.Sprintf("%d.%d.%d", 1+i%4, i%13, i%7),
			namespace: areas[i%len(areas)], region: []string{"eu-central-1", "us-east-1", "ap-southeast-2"}[i%3],
			agent: areas[(i*3)%len(areas)] + "_planner", model: i % len(models),
		}
		for p := range 3 + i%5 {
			s.pods = append(s.pods, pod{
				name: fmt.Sprintf("%s-%08x-%05x", s.name, c.rng.Uint32(), c.rng.Uint32()&0xfffff), uid: c.uuid(),
				node: fmt.Sprintf("ip-10-%d-%d-%d.%s.compute.internal", i, p, c.rng.IntN(250), s.region), host: c.hex(8), instance: c.uuid(),
			})
		}
		for t := range 3 + i%4 {
			s.tools = append(s.tools, toolNames[(i+t*5)%len(toolNames)])
		}
		c.services = append(c.services, s)
	}
	return c
}

func (c *corpus) hex(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(c.rng.Uint32())
	}
	return fmt.Sprintf("%x", b)
}

func (c *corpus) uuid() string {
	h := c.hex(16)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

func (c *corpus) spanID() (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], c.rng.Uint64()|1)
	return id
}

// lognormal draws a duration with this median and this spread of its logarithm.
func (c *corpus) lognormal(median time.Duration, sigma float64) time.Duration {
	return time.Duration(float64(median) * math.Exp(sigma*c.rng.NormFloat64()))
}

// trace appends one whole trace to td and returns when it ended.
func (c *corpus) trace(td ptrace.Traces) time.Time {
	c.at = c.at.Add(time.Duration(float64(c.gap) * c.rng.ExpFloat64()))
	// Some services have far more traffic than others.
	s := &c.services[int(float64(len(c.services))*c.rng.Float64()*c.rng.Float64())]
	p := &s.pods[c.rng.IntN(len(s.pods))]
	rs := td.ResourceSpans().AppendEmpty()
	resource(rs.Resource().Attributes(), s, p)
	w := writer{c: c, s: s, conversation: "conv_" + c.hex(12)}
	agent, http := rs.ScopeSpans().AppendEmpty(), rs.ScopeSpans().AppendEmpty()
	agent.Scope().SetName("opentelemetry.instrumentation.genai")
	agent.Scope().SetVersion("2.3b0")
	http.Scope().SetName("opentelemetry.instrumentation.httpx")
	http.Scope().SetVersion("0.58b0")
	w.genai, w.http = agent.Spans(), http.Spans()
	binary.BigEndian.PutUint64(w.trace[:8], c.rng.Uint64()|1)
	binary.BigEndian.PutUint64(w.trace[8:], c.rng.Uint64())
	return w.request(c.at)
}

func resource(a pcommon.Map, s *service, p *pod) {
	a.PutStr("service.name", s.name)
	a.PutStr("service.version", s.version)
	a.PutStr("service.namespace", s.namespace)
	a.PutStr("service.instance.id", p.instance)
	a.PutStr("deployment.environment.name", "production")
	a.PutStr("k8s.cluster.name", "prod-"+s.region)
	a.PutStr("k8s.namespace.name", s.namespace)
	a.PutStr("k8s.deployment.name", s.name)
	a.PutStr("k8s.pod.name", p.name)
	a.PutStr("k8s.pod.uid", p.uid)
	a.PutStr("k8s.node.name", p.node)
	a.PutStr("host.name", p.node)
	a.PutStr("host.id", p.host)
	a.PutStr("cloud.provider", "aws")
	a.PutStr("cloud.region", s.region)
	a.PutStr("telemetry.sdk.language", "python")
	a.PutStr("telemetry.sdk.name", "opentelemetry")
	a.PutStr("telemetry.sdk.version", "1.39.0")
	a.PutStr("process.runtime.name", "cpython")
	a.PutStr("process.runtime.version", "3.12.8")
	a.PutInt("process.pid", 7)
}
