package assemble

import (
	"time"

	"driftline/internal/genai"
)

// Settings are the buffer's times, bounds and the domain functions it calls. All
// durations and bounds must be positive.
type Settings struct {
	// CheckpointInterval is how often spans of a trace whose root has not arrived are
	// passed on, with the rows of its finished operations.
	CheckpointInterval time.Duration
	// Linger is the wait for stragglers after a root, or after the first late span.
	Linger time.Duration
	// TraceTimeout is the silence after which a trace without a root is released.
	TraceTimeout time.Duration
	// AttemptWait is how long a failed last attempt is given for a next one, and how long
	// an HTTP or RPC call waits for a GenAI span of its trace.
	AttemptWait time.Duration
	// Remember is how long, from its release or its last late span, a released trace's spans
	// are kept for late ones.
	Remember time.Duration

	// MaxTraces bounds open traces and MaxRemembered those released and remembered.
	MaxTraces     int
	MaxRemembered int
	// MaxSpans and MaxBytes bound open and remembered traces together.
	MaxSpans int
	MaxBytes int64
	// MaxSpansPerTrace bounds the spans of one trace that are analysed; the others are
	// passed on and the trace's rows are flagged truncated.
	MaxSpansPerTrace int
	// MaxForgotten bounds the ids of forgotten traces that are known as such.
	MaxForgotten int
	// MaxLabelValues bounds the distinct values of each label column of the rows.
	MaxLabelValues int
	// CheckpointSpans allows rows that no span of the trace can carry. Without it
	// such rows are not made.
	CheckpointSpans bool

	// Analyze finds a trace's rows: genai.Analyze with the user's options. It must not
	// keep the spans it is given.
	Analyze func(genai.Trace) genai.Result
	// OnLate, if set, is told how long after its trace's release a span arrived.
	OnLate func(age time.Duration)
}

// Memory, in bytes, of what is held besides payloads and packed spans: an entry with
// its places in the map and the queue, and a place in the list of held spans.
const (
	bytesPerTrace = 330
	bytesPerHeld  = 64
)

// extraRoots is how many roots are kept although a trace has too many spans: without
// its root a large trace would never be a request.
const extraRoots = 16
