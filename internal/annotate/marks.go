package annotate

import (
	"slices"
	"strings"

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

// marks are the keys of all marks, as opposed to driftline.* attributes that an
// application may set itself, such as driftline.timeout_ms.
var marks = []string{MarkGenAI, MarkSynthetic, MarkOperationID, MarkAttemptOrdinal, MarkAttempts, MarkHiddenMS, MarkDriftMS}

// Strip takes marks and rows off a span that did not come from a driftline processor
// and says whether there were any. MarkSynthetic stays: without it a checkpoint span
// would pass for a root.
func Strip(span ptrace.Span) bool {
	attrs, events := span.Attributes(), span.Events()
	before := attrs.Len() + events.Len()
	synthetic := IsSynthetic(span)
	attrs.RemoveIf(func(key string, _ pcommon.Value) bool {
		return strings.HasPrefix(key, rows.AttributePrefix) && slices.Contains(marks, key) && !(synthetic && key == MarkSynthetic)
	})
	events.RemoveIf(func(e ptrace.SpanEvent) bool {
		_, isRow := TableOf(e.Name())
		return isRow
	})
	return attrs.Len()+events.Len() < before
}

func boolAttr(attrs pcommon.Map, key string) bool {
	v, ok := attrs.Get(key)
	return ok && v.Type() == pcommon.ValueTypeBool && v.Bool()
}
