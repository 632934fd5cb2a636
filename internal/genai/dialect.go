package genai

import (
	"strings"

	"driftline/internal/rows"
)

// class is what a span is to driftline.
type class uint8

const (
	classPlain class = iota
	classModel
	classTool
	classRetrieval
	classAgent // agents and workflows
	classHTTPClient
	classHTTPServer
	classNet // DNS, connect, TLS and pool spans below an HTTP client span
)

// operation says whether spans of this class can be an operation.
func (c class) operation() bool { return c >= classModel && c <= classAgent }

// Dialects by which a span betrays itself; the lowest bit that is set names it.
const (
	seenClaudeCode keySet = 1 << iota
	seenVercel
	seenOpenInference
	seenLangfuse
	seenLiteLLM
	seenADK
	seenStrands
	seenPydantic
	seenOpenLLMetry
	seenMCP
	seenOTel
)

var dialectNames = []struct {
	bit  keySet
	name string
}{
	{seenClaudeCode, "claude_code"}, {seenVercel, "vercel"}, {seenOpenInference, "openinference"},
	{seenLangfuse, "langfuse"}, {seenLiteLLM, "litellm"}, {seenADK, "adk"}, {seenStrands, "strands"},
	{seenPydantic, "pydantic_ai"}, {seenOpenLLMetry, "openllmetry"}, {seenMCP, "mcp"}, {seenOTel, "otel"},
}

func (s keySet) name() string {
	for _, d := range dialectNames {
		if s&d.bit != 0 {
			return d.name
		}
	}
	return ""
}

var keyPrefixes = []struct {
	prefix string
	bit    keySet
}{
	{"gen_ai.usage.cache_read_input_tokens", seenOpenLLMetry}, {"gen_ai.is_streaming", seenOpenLLMetry},
	{"gen_ai.openai.api_base", seenOpenLLMetry}, {"gen_ai.", seenOTel}, {"mcp.", seenMCP}, {"ai.", seenVercel},
	{"openinference.", seenOpenInference}, {"llm.token_count.", seenOpenInference}, {"llm.model_name", seenOpenInference},
	{"llm.provider", seenOpenInference}, {"llm.system", seenOpenInference}, {"traceloop.", seenOpenLLMetry},
	{"llm.request.type", seenOpenLLMetry}, {"llm.is_streaming", seenOpenLLMetry}, {"llm.usage.", seenOpenLLMetry},
	{"langfuse.", seenLangfuse}, {"litellm.", seenLiteLLM}, {"gcp.vertex.agent.", seenADK}, {"ttft_ms", seenClaudeCode},
}

func dialectOfKey(key string) keySet {
	for _, p := range keyPrefixes {
		if strings.HasPrefix(key, p.prefix) {
			return p.bit
		}
	}
	return 0
}

// scopePrefixes name the dialects that hide behind standard keys.
var scopePrefixes = []struct {
	prefix string
	bit    keySet
}{
	{"pydantic-ai", seenPydantic}, {"strands", seenStrands}, {"gcp.vertex.agent", seenADK},
	{"com.anthropic.claude_code", seenClaudeCode}, {"litellm", seenLiteLLM}, {"langfuse", seenLangfuse},
	{"openinference.", seenOpenInference}, {"@arizeai/openinference", seenOpenInference}, {"@traceloop/", seenOpenLLMetry},
}

// verdict is a span's class and, for operations, its kind (a rows.Kind constant).
type verdict struct {
	class class
	kind  string
}

// classify tells what the span is. f.seen is completed with what scope and name betray.
func classify(s *Span, f *facts) verdict {
	for _, p := range scopePrefixes {
		if strings.HasPrefix(s.Scope, p.prefix) {
			f.seen |= p.bit
		}
	}
	for _, try := range [...]func(*Span, *facts) (verdict, bool){
		classifyOther, classifyVercel, classifyOTel, classifyOpenInference, classifyOpenLLMetry, classifyByModel, classifyTransport,
	} {
		if v, ok := try(s, f); ok {
			return v
		}
	}
	return verdict{}
}

// classifyByModel takes a model's name beside usage or a provider as a weak sign of a
// model call; it is not believed on server and internal spans that state nothing else.
func classifyByModel(s *Span, f *facts) (verdict, bool) {
	switch {
	case s.Kind == KindServer || s.Kind == KindConsumer:
		return verdict{}, false
	case f.has(slotToolCall) || f.has(slotTool) && !f.has(slotModel):
		return verdict{classTool, rows.KindTool}, true
	case f.has(slotModel) && (f.has(slotProvider) || f.has(slotOutputTokens)):
		return verdict{classModel, rows.KindChat}, true
	}
	return verdict{}, false
}

// classifyTransport knows HTTP and RPC spans, and the spans of getting a connection.
func classifyTransport(s *Span, f *facts) (verdict, bool) {
	wire := f.has(slotHTTPMethod) || f.has(slotRPC) || f.has(slotResend) || isHTTPMethod(s.Name) || f.has(slotHTTPStatus)
	switch {
	case wire && s.Kind == KindClient:
		return verdict{classHTTPClient, rows.KindHTTP}, true
	case s.Kind == KindServer:
		return verdict{classHTTPServer, rows.KindHTTP}, true
	case netSpan(s.Name) != netNone:
		return verdict{classNet, ""}, true
	}
	return verdict{}, false
}

func isHTTPMethod(name string) bool {
	word, _, _ := strings.Cut(name, " ")
	word = strings.TrimPrefix(word, "HTTP")
	switch word {
	case "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS":
		return true
	}
	return false
}

type netPart uint8

const (
	netNone netPart = iota
	netConnect
	netQueue // waiting for a connection of the pool
)

// netSpan knows the names that Go's otelhttptrace and .NET give to the parts of
// getting a connection.
func netSpan(name string) netPart {
	switch name {
	case "http.dns", "http.connect", "http.tls", "HTTP connection_setup", "dns.lookup", "tcp.connect",
		"tls.connect", "tls.handshake", "TLS handshake":
		return netConnect
	case "http.getconn", "HTTP wait_for_connection":
		return netQueue
	}
	if strings.HasPrefix(name, "DNS lookup") || strings.HasPrefix(name, "socket connect") || strings.HasPrefix(name, "TLS client handshake") {
		return netConnect
	}
	return netNone
}

// IsGenAI says whether s is a model call, a tool call, a retrieval, an agent or a
// workflow in any dialect. It looks at s alone.
func IsGenAI(s *Span) bool {
	var f facts
	f.read(s.Attrs, nil)
	return classify(s, &f).class.operation()
}
