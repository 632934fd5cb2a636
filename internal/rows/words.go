package rows

// Kinds of work, the values of `kind` in requests, operations and attempts.
const (
	KindChat       = "chat"
	KindCompletion = "text_completion"
	KindGenerate   = "generate_content"
	KindEmbeddings = "embeddings"
	KindRetrieval  = "retrieval"
	KindTool       = "tool"
	KindAgent      = "agent"
	KindWorkflow   = "workflow"
	// KindHTTP is a request whose root is a plain HTTP or RPC server span.
	KindHTTP = "http"
	// KindOther is a request whose root is none of the above.
	KindOther = "other"
)

// IsModelKind says whether kind is a call to a model.
func IsModelKind(kind string) bool {
	switch kind {
	case KindChat, KindCompletion, KindGenerate, KindEmbeddings:
		return true
	}
	return false
}

// Outcomes.
const (
	OutcomeOK    = "ok"
	OutcomeError = "error"
	OutcomeOpen  = "open"
)

// Error classes. HTTP 408, 504 and 524 and client timeouts are one class, timeout;
// 429, 503 and 529 are overload (docs/detections.md says why).
const (
	ClassTimeout   = "timeout"
	ClassOverload  = "overload"
	ClassServer    = "server"
	ClassClient    = "client"
	ClassNetwork   = "network"
	ClassCancelled = "cancelled"
	ClassOther     = "other"
)

// Layers that retry.
const (
	LayerTransport = "transport"
	LayerSDK       = "sdk"
	LayerFramework = "framework"
	LayerClient    = "client"
)

// Sources of what is known of attempts.
const (
	SourceAttribute   = "attribute"
	SourceEvent       = "event"
	SourceHTTPChild   = "http_child"
	SourceSibling     = "sibling"
	SourceServerChild = "server_child"
	SourceCrossTrace  = "cross_trace"
	SourceUnknown     = "unknown"
)

// Segment kinds, highest first in the order that settles ties of the critical path.
const (
	SegmentFailedAttempt = "failed_attempt"
	SegmentBackoff       = "backoff"
	SegmentQueue         = "queue"
	SegmentConnect       = "connect"
	SegmentTTFT          = "ttft"
	SegmentGeneration    = "generation"
	SegmentInference     = "inference"
	SegmentTool          = "tool"
	SegmentAgent         = "agent"
	SegmentUnattributed  = "unattributed"
)

// SegmentKinds lists the segment kinds, highest priority first.
var SegmentKinds = []string{
	SegmentFailedAttempt, SegmentBackoff, SegmentQueue, SegmentConnect, SegmentTTFT,
	SegmentGeneration, SegmentInference, SegmentTool, SegmentAgent, SegmentUnattributed,
}

// Agent time sources.
const (
	AgentTimeReported = "reported"
	AgentTimeDerived  = "derived"
)

// TTFT states.
const (
	TTFTKnown         = "known"
	TTFTMissing       = "missing"
	TTFTNotApplicable = "not_applicable"
	TTFTSuspect       = "suspect"
)

// Stream flags.
const (
	StreamYes     = "yes"
	StreamNo      = "no"
	StreamUnknown = "unknown"
)

// Sources of deadlines, in the order in which they are believed: an attribute, a header
// by which a caller says how long it waits, the configuration, and the deadline of the
// work around.
const (
	DeadlineAttribute = "attribute"
	DeadlineHeader    = "header"
	DeadlineConfig    = "config"
	DeadlineInherited = "inherited"
)

// Causes of a missed deadline.
const (
	MissOwn       = "own"
	MissInherited = "inherited"
)

// Reasons for which a request's rows were released.
const (
	ReleaseRoot     = "root"
	ReleaseTimeout  = "timeout"
	ReleaseEvicted  = "evicted"
	ReleaseShutdown = "shutdown"
	ReleaseLate     = "late"
)
