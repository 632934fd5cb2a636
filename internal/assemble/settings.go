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
	// AttemptWait is how long a failed last attempt is given for a next one.
	AttemptWait time.Duration
	// Remember is how long a released trace's spans are kept for late ones.
	Remember time.Duration

	// MaxTraces, MaxSpans and MaxBytes bound open and remembered traces together.
	MaxTraces int
	MaxSpans  int
	MaxBytes  int64
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

	// Analyze finds a trace's rows, and IsGenAI tells spans that make a trace worth
	// analysing: genai.Analyze and genai.IsGenAI with the user's options.
	Analyze func(genai.Trace) genai.Result
	IsGenAI func(*genai.Span) bool
	// OnLate, if set, is told how long after its trace's release a span arrived.
	OnLate func(age time.Duration)
}

// Approximate memory, in bytes, of what is held besides spans and payloads.
const (
	bytesPerTrace = 768
	bytesPerSeen  = 24
	bytesPerHeld  = 64
	bytesPerKey   = 160
)

// extraRoots is how many roots are kept although a trace has too many spans: without
// its root a large trace would never be a request.
const extraRoots = 16
