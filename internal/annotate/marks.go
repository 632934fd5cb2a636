package annotate

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/rows"
)

// Marks that the processor writes on spans.
const (
	// MarkGenAI says that the span belongs to a trace with GenAI spans.
	MarkGenAI = rows.AttributePrefix + "genai"
	// MarkSynthetic says that driftline made the span to carry rows.
	MarkSynthetic = rows.AttributePrefix + "synthetic"
	// MarkOperationID names the operation that the span belongs to.
	MarkOperationID = rows.AttributePrefix + "operation.id"
	// MarkAttemptOrdinal counts an operation's tries from 1.
	MarkAttemptOrdinal = rows.AttributePrefix + "attempt.ordinal"
	// MarkAttempts is the number of known attempts of an operation.
	MarkAttempts = rows.AttributePrefix + "attempts"
	// MarkHiddenMS is failed attempts and backoffs, in milliseconds.
	MarkHiddenMS = rows.AttributePrefix + "hidden_ms"
	// MarkDriftMS is the largest deadline drift, in milliseconds.
	MarkDriftMS = rows.AttributePrefix + "drift_ms"
)

// CheckpointName is the name of the synthetic spans, and SyntheticService the
// service.name of the resource they come from.
const (
	CheckpointName   = rows.AttributePrefix + "checkpoint"
	SyntheticService = "driftline"
)

// IsMarked says whether a driftline processor handled the span before: it carries
// MarkGenAI or MarkSynthetic.
func IsMarked(span ptrace.Span) bool {
	return boolAttr(span.Attributes(), MarkGenAI) || IsSynthetic(span)
}

// IsSynthetic says whether driftline made the span itself.
func IsSynthetic(span ptrace.Span) bool {
	return boolAttr(span.Attributes(), MarkSynthetic)
}

func boolAttr(attrs pcommon.Map, key string) bool {
	v, ok := attrs.Get(key)
	return ok && v.Type() == pcommon.ValueTypeBool && v.Bool()
}
