package rows

// Table names a base table and the kind of event that carries its rows.
type Table string

// The base tables that rows are carried to.
const (
	TableRequests     Table = "requests"
	TableOperations   Table = "operations"
	TableAttempts     Table = "attempts"
	TableSegments     Table = "segments"
	TableOpenRequests Table = "open_requests"
)

// Tables lists the carried tables in the order they are written.
var Tables = []Table{TableRequests, TableOperations, TableAttempts, TableSegments, TableOpenRequests}

// Row is one row of a carried table.
type Row interface {
	// Table is the table the row belongs to.
	Table() Table
	// Key identifies the row for ever: two rows with one key are two revisions of
	// one fact. It holds every partition and sort column, so a change of any of
	// them is another key, and the old one needs a tombstone.
	Key() Key
	// Head gives access to what every row has.
	Head() *Common
}

// Key is a row's identity. Minute is the row's key time in whole minutes since the
// Unix epoch: the minute in which the row's `ended_at` (for segments
// `request_ended_at`, for open requests `observed_at`) lies.
type Key struct {
	Table   Table
	Service string
	Minute  int64
	TraceID string
	// ID is the operation, attempt or request id within the trace.
	ID string
	// Index numbers segments within their request; 0 elsewhere.
	Index int32
}

// Common is what every row has.
type Common struct {
	// ServiceName is `service.name` of the resource that emitted the carrier span.
	ServiceName string `row:"service_name"`
	// TraceID is 32 lower-case hex digits.
	TraceID string `row:"trace_id"`
	// Revision counts a trace's releases from 1 on; of two rows with one key the
	// higher revision is right. Late fragments, whose trace is no longer
	// remembered, have revision 0 and so never replace a whole row; so have the first rows of
	// calls that are known by their requests only.
	Revision uint64 `row:"revision"`
	// Deleted marks a tombstone: the key was emitted before and is no longer true.
	Deleted bool `row:"deleted"`
}

// Head returns c itself.
func (c *Common) Head() *Common { return c }

// Facts is what requests, operations and attempts share.
type Facts struct {
	ServiceVersion string `row:"service_version"`
	// Environment is `deployment.environment.name`.
	Environment string `row:"environment"`
	// Agent is the nearest agent or workflow name, else the root span's name.
	Agent string `row:"agent"`
	// Kind is the kind of work: see the Kind constants.
	Kind string `row:"kind"`
	// Name is the name of the span the row is about.
	Name      string `row:"name"`
	StartedAt int64  `row:"started_at,time"`
	EndedAt   int64  `row:"ended_at,time"`
	// Outcome is ok, error or open.
	Outcome string `row:"outcome"`
	// ErrorClass is one of the Class constants; empty when the outcome is ok.
	ErrorClass string `row:"error_class"`
	// ErrorType is the instrumentation's own word (`error.type`), bounded.
	ErrorType string `row:"error_type"`
	// HTTPStatus is the last HTTP status seen; 0 means none was seen.
	HTTPStatus uint16 `row:"http_status"`
	// Censored says that the work was open or was cut: its duration is a lower bound.
	Censored bool `row:"censored"`
	// Incomplete says that spans are missing: the request's root never came, because it
	// timed out, was evicted or was shut down early.
	Incomplete bool `row:"incomplete"`
	// Truncated says that the trace had more spans than the limit.
	Truncated bool `row:"truncated"`
	// LateFragment says that the trace was no longer remembered when this arrived.
	LateFragment bool `row:"late_fragment"`
	// SkewedSpans counts spans that lay outside their parents by clock skew.
	SkewedSpans uint32 `row:"skewed_spans"`
	// SampleWeight is 1 / sampling probability; at least 1.
	SampleWeight float64 `row:"sample_weight"`
	Priority     string  `row:"priority"`
	// Attributes are the few configured attributes, bounded in number and length.
	Attributes map[string]string `row:"attributes"`
}

// Segments holds time by segment kind, in nanoseconds. In a request they sum to
// the wall clock exactly; in an operation to the operation's own wall clock.
type Segments struct {
	FailedAttemptNS    int64 `row:"failed_attempt_ns"`
	BackoffNS          int64 `row:"backoff_ns"`
	QueueNS            int64 `row:"queue_ns"`
	ConnectNS          int64 `row:"connect_ns"`
	TTFTSegmentNS      int64 `row:"ttft_segment_ns"`
	GenerationNS       int64 `row:"generation_ns"`
	InferenceSegmentNS int64 `row:"inference_segment_ns"`
	ToolNS             int64 `row:"tool_ns"`
	AgentNS            int64 `row:"agent_ns"`
	UnattributedNS     int64 `row:"unattributed_ns"`
}

// Sum is the wall clock that the segments partition, in nanoseconds.
func (s Segments) Sum() int64 {
	return s.FailedAttemptNS + s.BackoffNS + s.QueueNS + s.ConnectNS + s.TTFTSegmentNS +
		s.GenerationNS + s.InferenceSegmentNS + s.ToolNS + s.AgentNS + s.UnattributedNS
}

// Times is user time, agent time, hidden time and deadlines, shared by requests and
// operations.
type Times struct {
	// UserTimeNS is wall clock from receipt to completion.
	UserTimeNS int64 `row:"user_time_ns"`
	// AgentTimeNS is what the agent believes it spent; nil when unknown.
	AgentTimeNS *int64 `row:"agent_time_ns"`
	// AgentTimeSource is reported, derived (user time - hidden time) or empty.
	AgentTimeSource string `row:"agent_time_source"`
	// HiddenPathNS is failed attempts and backoffs on the critical path; nil when
	// attempts are unknown.
	HiddenPathNS *int64 `row:"hidden_path_ns"`
	// HiddenTotalNS is all failed attempts and backoffs, on the path or not.
	HiddenTotalNS *int64 `row:"hidden_total_ns"`
	// BudgetNS is the declared time budget of the request or operation.
	BudgetNS *int64 `row:"budget_ns"`
	// DeadlineAt is the instant the budget ends, anchored at receipt.
	DeadlineAt *int64 `row:"deadline_at,time"`
	// DeadlineSource is attribute, header, config, inherited or empty.
	DeadlineSource string `row:"deadline_source"`
	// DeadlineMissed is nil when no deadline is known.
	DeadlineMissed *bool `row:"deadline_missed"`
	// MissCause is own, inherited or empty.
	MissCause string `row:"miss_cause"`
	// PerceivedRemainingNS is what the planner was told it had left, at the decision
	// point with the largest drift.
	PerceivedRemainingNS *int64 `row:"perceived_remaining_ns"`
	// TrueRemainingNS is what was left at that point; negative past the deadline.
	TrueRemainingNS *int64 `row:"true_remaining_ns"`
	// DriftNS is perceived minus true remaining there; nil without a decision point.
	DriftNS *int64 `row:"drift_ns"`
}

// Tokens are token counts; nil is not reported.
type Tokens struct {
	InputTokens     *int64 `row:"input_tokens"`
	OutputTokens    *int64 `row:"output_tokens"`
	CachedTokens    *int64 `row:"cached_tokens"`
	ReasoningTokens *int64 `row:"reasoning_tokens"`
}

// Request is one user-visible task.
type Request struct {
	Common   `row:",inline"`
	Facts    `row:",inline"`
	Times    `row:",inline"`
	Tokens   `row:",inline"`
	Segments `row:",inline"`
	// RequestID is the span id of the request's root span.
	RequestID string `row:"request_id"`
	// Operations counts logical calls; Steps counts model calls among them, and
	// ToolCalls tool calls.
	Operations uint32 `row:"operations"`
	Steps      uint32 `row:"steps"`
	ToolCalls  uint32 `row:"tool_calls"`
	ToolErrors uint32 `row:"tool_errors"`
	// Attempts sums the known attempts; nil when no operation knows its attempts.
	Attempts *uint32 `row:"attempts"`
	// AttemptsUnknown counts operations whose attempts are unknown.
	AttemptsUnknown uint32 `row:"attempts_unknown"`
	// Retries is attempts minus operations over those that know; nil when none does.
	Retries *uint32 `row:"retries"`
	// DecisionPoints counts points where a perceived remaining time was stated.
	DecisionPoints uint32 `row:"decision_points"`
	// ReleaseReason is root, timeout, evicted, shutdown or late.
	ReleaseReason string `row:"release_reason"`
	// RequestKey is the configured id by which requests of several traces are tries of one
	// task, or parts of it; empty where none is configured or stated.
	RequestKey string `row:"request_key"`
	// LinkedTraceID is the trace that the root links to: a root that was detached from its
	// caller's trace. Empty for none.
	LinkedTraceID string `row:"linked_trace_id"`
	// UserHash is a keyed hash of the user that the request was for: 64 bits of HMAC-SHA-256
	// under the processor's identity key. Nil without a key, or where no span says.
	UserHash *int64 `row:"user_hash"`
	// TenantHash is the same of the tenant: the customer, team or organisation.
	TenantHash *int64 `row:"tenant_hash"`
}

// Table is TableRequests.
func (*Request) Table() Table { return TableRequests }

// Key is the request's identity.
func (r *Request) Key() Key {
	return Key{TableRequests, r.ServiceName, minute(r.EndedAt), r.TraceID, r.RequestID, 0}
}

// Operation is one logical call inside a request.
type Operation struct {
	Common   `row:",inline"`
	Facts    `row:",inline"`
	Times    `row:",inline"`
	Tokens   `row:",inline"`
	Segments `row:",inline"`
	// OperationID is the span id of the operation's span; for siblings folded into
	// one operation, that of the first attempt.
	OperationID       string `row:"operation_id"`
	ParentOperationID string `row:"parent_operation_id"`
	// RequestID is empty while the root has not been seen.
	RequestID string `row:"request_id"`
	// Target is the model asked for or the tool's name.
	Target        string `row:"target"`
	ResponseModel string `row:"response_model"`
	Provider      string `row:"provider"`
	// Endpoint is server.address, with the port when it is not the scheme's own.
	Endpoint string `row:"endpoint"`
	Region   string `row:"region"`
	// Dialect is the convention the span was written in.
	Dialect string `row:"dialect"`
	// Stream is yes, no or unknown, never empty; what cannot stream says no.
	Stream string `row:"stream"`
	// Attempts is nil when unknown, never 1 by default.
	Attempts      *uint32 `row:"attempts"`
	AttemptSource string  `row:"attempt_source"`
	// MaxRetries is the configured number, where stated.
	MaxRetries *uint32 `row:"max_retries"`
	// LeafAttempts counts attempts with no attempts below them, over all layers.
	LeafAttempts *uint32 `row:"leaf_attempts"`
	// InferenceTimeNS is the last attempt minus known queue and connect time.
	InferenceTimeNS *int64 `row:"inference_time_ns"`
	// InferenceSource is attempt, operation or empty.
	InferenceSource string `row:"inference_source"`
	// TTFTNS is the last attempt's time to first generated token.
	TTFTNS *int64 `row:"ttft_ns"`
	// TTFTState is known, missing, not_applicable or suspect.
	TTFTState string `row:"ttft_state"`
	// TTFTConflict says that two sources of the first token disagreed.
	TTFTConflict bool `row:"ttft_conflict"`
	// FirstChunkNS is from the operation's start, so it includes earlier attempts.
	FirstChunkNS *int64 `row:"first_chunk_ns"`
	// FirstVisibleNS is to the first token a user can see, from the last attempt's start.
	FirstVisibleNS *int64 `row:"first_visible_ns"`
	// TimePerOutputTokenNS is generation time per output token after the first.
	TimePerOutputTokenNS *int64 `row:"time_per_output_token_ns"`
	// TimeoutNS is the declared timeout of one attempt or of the call.
	TimeoutNS *int64 `row:"timeout_ns"`
	// AtCap says that the last attempt ended at its declared timeout.
	AtCap        bool   `row:"at_cap"`
	FinishReason string `row:"finish_reason"`
	// OnPath says whether any of it lies on the request's critical path.
	OnPath bool `row:"on_path"`
	// PathNS is its time on the critical path.
	PathNS int64 `row:"path_ns"`
	// StepIndex orders the request's operations by start, from 0.
	StepIndex uint32 `row:"step_index"`
	// FallbackOf is the failed operation, of another target, provider or endpoint, that this
	// one took over from; empty for none.
	FallbackOf string `row:"fallback_of"`
	// WastedNS is how long servers went on working after this call had failed; NULL where no
	// server's span lies below it, or it did not fail.
	WastedNS *int64 `row:"wasted_ns"`
}

// Table is TableOperations.
func (*Operation) Table() Table { return TableOperations }

// Key is the operation's identity.
func (o *Operation) Key() Key {
	return Key{TableOperations, o.ServiceName, minute(o.EndedAt), o.TraceID, o.OperationID, 0}
}

// Attempt is one try of an operation.
type Attempt struct {
	Common `row:",inline"`
	Facts  `row:",inline"`
	// AttemptID is the attempt's span id, or operation id + "." + ordinal when it has
	// no span of its own.
	AttemptID       string `row:"attempt_id"`
	ParentAttemptID string `row:"parent_attempt_id"`
	OperationID     string `row:"operation_id"`
	RequestID       string `row:"request_id"`
	// Ordinal counts an operation's attempts of one layer from 1.
	Ordinal uint32 `row:"ordinal"`
	// Last says that no later attempt of its operation is known.
	Last bool `row:"last"`
	// Leaf says that no attempts lie below it.
	Leaf bool `row:"leaf"`
	// Layer is transport, sdk or framework, or client for tries that a server saw. Tries in
	// traces of their own are counted by the view client_tries.
	Layer string `row:"layer"`
	// Source is attribute, event, http_child, sibling, server_child, cross_trace or unknown.
	Source     string `row:"source"`
	Target     string `row:"target"`
	Provider   string `row:"provider"`
	Endpoint   string `row:"endpoint"`
	Stream     string `row:"stream"`
	DurationNS int64  `row:"duration_ns"`
	// BackoffBeforeNS is the gap since the attempt before; nil on the first.
	BackoffBeforeNS *int64 `row:"backoff_before_ns"`
	TTFTNS          *int64 `row:"ttft_ns"`
	TimeoutNS       *int64 `row:"timeout_ns"`
	AtCap           bool   `row:"at_cap"`
	// RemainingNS is what the request's deadline left when the attempt began.
	RemainingNS *int64 `row:"remaining_ns"`
}

// Table is TableAttempts.
func (*Attempt) Table() Table { return TableAttempts }

// Key is the attempt's identity.
func (a *Attempt) Key() Key {
	return Key{TableAttempts, a.ServiceName, minute(a.EndedAt), a.TraceID, a.AttemptID, 0}
}

// Segment is one slice of a request's wall clock.
type Segment struct {
	Common         `row:",inline"`
	RequestID      string `row:"request_id"`
	RequestEndedAt int64  `row:"request_ended_at,time"`
	// SegmentIndex orders the slices in time from 0.
	SegmentIndex uint32 `row:"segment_index"`
	// OperationID is empty for agent and unattributed time.
	OperationID string `row:"operation_id"`
	// AttemptOrdinal is 0 when the slice belongs to no attempt.
	AttemptOrdinal uint32 `row:"attempt_ordinal"`
	// Kind is one of the Segment constants.
	Kind       string `row:"kind"`
	StartedAt  int64  `row:"started_at,time"`
	DurationNS int64  `row:"duration_ns"`
}

// Table is TableSegments.
func (*Segment) Table() Table { return TableSegments }

// Key is the segment's identity.
func (s *Segment) Key() Key {
	return Key{TableSegments, s.ServiceName, minute(s.RequestEndedAt), s.TraceID, s.RequestID, int32(s.SegmentIndex)}
}

// OpenRequest is a snapshot of a request whose root has not ended yet.
type OpenRequest struct {
	Common     `row:",inline"`
	Agent      string `row:"agent"`
	ObservedAt int64  `row:"observed_at,time"`
	StartedAt  int64  `row:"started_at,time"`
	// LastSpanAt is the last sign of life: the latest end of a span, or a heartbeat.
	LastSpanAt int64  `row:"last_span_at,time"`
	AgeNS      int64  `row:"age_ns"`
	DeadlineAt *int64 `row:"deadline_at,time"`
	BudgetNS   *int64 `row:"budget_ns"`
	// Spans and Operations count what has been seen so far. A heartbeat counts as a span.
	Spans      uint32 `row:"spans"`
	Operations uint32 `row:"operations"`
	// FailedOperations counts those whose outcome is error.
	FailedOperations uint32 `row:"failed_operations"`
}

// Table is TableOpenRequests.
func (*OpenRequest) Table() Table { return TableOpenRequests }

// Key is the snapshot's identity.
func (o *OpenRequest) Key() Key {
	return Key{TableOpenRequests, o.ServiceName, minute(o.ObservedAt), o.TraceID, "", int32(o.ObservedAt / 1e9 % 60)}
}

func minute(ns int64) int64 {
	const perMinute = 60 * 1_000_000_000
	if ns < 0 {
		return (ns - perMinute + 1) / perMinute
	}
	return ns / perMinute
}
