package dialects

// Type is what kind of value a fact has.
type Type string

// The types of facts.
const (
	Word     Type = "word"     // a short text
	Count    Type = "count"    // a whole number, not negative
	Number   Type = "number"   // any number
	Flag     Type = "flag"     // yes or no, also as text
	Duration Type = "duration" // needs a unit
	Instant  Type = "instant"  // needs a unit
	JSON     Type = "json"     // JSON text
	ID       Type = "id"       // names somebody; nothing but a keyed hash of it is ever written
)

// Meaning is a fact that an attribute can state.
type Meaning struct {
	Name string
	Type Type
	Doc  string
}

// Meanings are all facts that driftline reads.
var Meanings = []Meaning{
	{"operation", Word, "what the span does, in OpenTelemetry's words"},
	{"openinference_kind", Word, "what the span is, in OpenInference's words"},
	{"traceloop_kind", Word, "what the span is, in OpenLLMetry's words"},
	{"request_type", Word, "what a model was asked for, in OpenLLMetry's old words"},
	{"observation_type", Word, "what the span is, in Langfuse's words"},
	{"ai_operation", Word, "what the span is, in the Vercel AI SDK's words"},
	{"kind", Word, "what the span is, in any other dialect's words"},
	{"mcp_method", Word, "the MCP method called"},
	{"model", Word, "the model asked for"},
	{"response_model", Word, "the model that answered"},
	{"provider", Word, "who serves the model"},
	{"tool", Word, "the tool's name"},
	{"tool_call", Word, "the id the model gave the tool call"},
	{"tool_status", Word, "`error` where a tool failed"},
	{"tool_type", Word, "how the tool is run"},
	{"agent", Word, "the agent's name"},
	{"workflow", Word, "the workflow's name"},
	{"input_tokens", Count, "tokens read"},
	{"output_tokens", Count, "tokens written"},
	{"cached_tokens", Count, "tokens read from a prompt cache"},
	{"reasoning_tokens", Count, "tokens written that a user does not see"},
	{"usage", JSON, "token counts under free names"},
	{"streamed", Flag, "whether the answer was streamed"},
	{"ttft", Duration, "time to the first token or chunk"},
	{"first_token_at", Instant, "when the first token or chunk came"},
	{"error_type", Word, "the instrumentation's word for the error"},
	{"http_status", Count, "the HTTP status"},
	{"http_method", Word, "the HTTP method"},
	{"url", Word, "where an HTTP request went; its query is never kept"},
	{"server_address", Word, "the server's name, or a whole URL"},
	{"server_port", Count, "the server's port"},
	{"region", Word, "the cloud region"},
	{"rpc_system", Word, "the RPC system"},
	{"resend_count", Count, "ordinal of a resend, from 1; counts redirects and auth challenges too"},
	{"retry_count", Count, "ordinal of a try, from 0"},
	{"attempt", Count, "total of attempts, or the ordinal of a try from 1"},
	{"max_retries", Count, "how many retries are allowed"},
	{"max_attempts", Count, "how many attempts are allowed"},
	{"timeout", Duration, "the declared timeout of an attempt or call"},
	{"budget", Duration, "the time a request may take"},
	{"deadline", Instant, "when a request must be done"},
	{"received_at", Instant, "when the request was received"},
	{"perceived_remaining", Duration, "the time an agent believes it has left"},
	{"agent_time", Duration, "the time an agent believes it spent"},
	{"priority", Word, "the request's priority"},
	{"finish_reason", Word, "why the model stopped; a list, also as JSON text"},
	{"queue_time", Duration, "time spent waiting for a free server"},
	{"connect_time", Duration, "time spent getting a connection"},
	{"success", Flag, "`false` where the work failed"},
	{"level", Word, "`ERROR` where the work failed"},
	{"sample_rate", Number, "spans that this one stands for"},
	{"sample_ratio", Number, "the share of traces that is kept"},
	{"backoff", Duration, "the wait before the next try"},
	{"chunk_type", Word, "what a streamed chunk holds"},
	{"read_timeout", Duration, "how long a client waits for the next byte"},
	{"sent_timeout", Duration, "how long a caller waits for the whole answer, as it sends along"},
	{"call_id", Word, "an id that all tries of one call share, and no other call"},
	{"rpc_status", Word, "the status of gRPC or Connect, as a number or a name"},
	{"request_size", Count, "the length of a request's body in bytes; tries of one call send the same"},
	{"user", ID, "who the request was made for"},
	{"tenant", ID, "whose user that is: a customer, team or organisation"},
}

// Unit is a unit of durations or instants.
type Unit struct {
	Name string
	Of   Type
	Doc  string
}

// Units are all units that rows can name.
var Units = []Unit{
	{"ns", Duration, "nanoseconds"},
	{"us", Duration, "microseconds"},
	{"ms", Duration, "milliseconds"},
	{"s", Duration, "seconds"},
	{"grpc", Duration, "digits and a letter of gRPC: H, M, S, m, u or n"},
	{"ns_or_s", Duration, "nanoseconds if a whole number, seconds if a fraction"},
	{"unix_ns", Instant, "nanoseconds since 1970"},
	{"unix_ms", Instant, "milliseconds since 1970"},
	{"unix_s", Instant, "seconds since 1970"},
	{"rfc3339", Instant, "RFC 3339 text, also in quotes"},
}

// Class is what a rule can make of a span.
type Class struct{ Name, Doc string }

// Classes are the words for what a span is.
var Classes = []Class{
	{"chat", "a model call"},
	{"text_completion", "a model call"},
	{"generate_content", "a model call"},
	{"embeddings", "a model call that gives no tokens"},
	{"tool", "a tool call"},
	{"retrieval", "a search or a reranking"},
	{"agent", "an agent's run"},
	{"workflow", "a workflow's run"},
	{"structure", "no call: a step, a group, a repetition"},
	{"undecided", "left to later steps"},
}

// EventMeaning is what a span event can say.
type EventMeaning struct{ Name, Doc string }

// EventMeanings are the words for what an event says.
var EventMeanings = []EventMeaning{
	{"chunk", "a streamed chunk of any kind"},
	{"chunk_role", "a streamed frame that carries no token"},
	{"chunk_hidden", "a chunk of reasoning or of a tool call"},
	{"chunk_visible", "a chunk that a user can see"},
	{"retry", "a try failed here, and the next one follows"},
	{"attempt", "one try, at its start or end"},
	{"nothing", "says nothing of the stream, whatever its name"},
}
