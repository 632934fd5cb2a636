package genaisegment

import (
	"encoding/hex"
	"iter"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/annotate"
	"driftline/internal/assemble"
	"driftline/internal/genai"
	"driftline/internal/rows"
)

// original is a span as it came, with what it came in.
type original struct {
	scope *scopeGroup
	span  ptrace.Span
}

// resourceGroup and scopeGroup are shared by the spans of one received group.
type resourceGroup struct {
	resource  pcommon.Resource
	schemaURL string
	seen      *genai.Resource // what the domain reads of it
}

type scopeGroup struct {
	resource  *resourceGroup
	scope     pcommon.InstrumentationScope
	schemaURL string
	name      string
}

func newGroup(rs ptrace.ResourceSpans) *resourceGroup {
	g := &resourceGroup{resource: pcommon.NewResource(), schemaURL: rs.SchemaUrl(), seen: annotate.ResourceOf(rs.Resource())}
	rs.Resource().MoveTo(g.resource)
	return g
}

func newScope(g *resourceGroup, ss ptrace.ScopeSpans) *scopeGroup {
	s := &scopeGroup{resource: g, scope: pcommon.NewInstrumentationScope(), schemaURL: ss.SchemaUrl(), name: ss.Scope().Name()}
	ss.Scope().MoveTo(s.scope)
	return s
}

// batch is one call of the next component.
type batch struct {
	td ptrace.Traces
	// spans counts received spans, synthetic those made here, rows what they carry.
	spans, synthetic, rows int64
	// size is an estimate of its memory in bytes, known once it waits for a retry.
	size int64
}

// A batch is cut at either number, so that neither the next component nor a retry has
// to handle everything at once.
const (
	batchSpans = 1024
	batchRows  = 4096
)

// batches adds the spans of releases and gives each batch that is full; the rest stays
// for the next call or for cut.
func (w *writer) batches(releases []assemble.Release[original], now time.Time) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		full := func() bool {
			if w.spans+w.synthetic < batchSpans && w.rows < batchRows {
				return true
			}
			b, _ := w.cut()
			return yield(b)
		}
		for i := range releases {
			r := &releases[i]
			for j := range r.Spans {
				w.sent(&r.Spans[j], r.GenAI)
				if !full() {
					return
				}
			}
			if len(r.Loose) > 0 {
				w.checkpoint(r, now)
				if !full() {
					return
				}
			}
		}
	}
}

// cut gives what is in the writer, if there is anything, and empties it.
func (w *writer) cut() (batch, bool) {
	if w.spans+w.synthetic == 0 {
		return batch{}, false
	}
	b := w.batch
	*w = *newWriter()
	return b, true
}

// writer groups spans by the resource and scope they came in.
type writer struct {
	batch
	resources map[*resourceGroup]ptrace.ResourceSpans
	scopes    map[*scopeGroup]ptrace.SpanSlice
	own       *ptrace.SpanSlice
}

func newWriter() *writer {
	return &writer{
		batch:     batch{td: ptrace.NewTraces()},
		resources: map[*resourceGroup]ptrace.ResourceSpans{},
		scopes:    map[*scopeGroup]ptrace.SpanSlice{},
	}
}

// add moves o's span to the batch and returns it.
func (w *writer) add(o original) ptrace.Span {
	w.spans++
	spans, known := w.scopes[o.scope]
	if !known {
		rs, known := w.resources[o.scope.resource]
		if !known {
			rs = w.td.ResourceSpans().AppendEmpty()
			o.scope.resource.resource.CopyTo(rs.Resource()) // other batches need it too
			rs.SetSchemaUrl(o.scope.resource.schemaURL)
			w.resources[o.scope.resource] = rs
		}
		ss := rs.ScopeSpans().AppendEmpty()
		o.scope.scope.CopyTo(ss.Scope())
		ss.SetSchemaUrl(o.scope.schemaURL)
		spans = ss.Spans()
		w.scopes[o.scope] = spans
	}
	span := spans.AppendEmpty()
	o.span.MoveTo(span)
	return span
}

// sent adds a span with its marks and rows.
func (w *writer) sent(s *assemble.Sent[original], isGenAI bool) {
	span := w.add(s.Payload)
	if !isGenAI {
		return
	}
	attrs := span.Attributes()
	m := &s.Marks
	attrs.EnsureCapacity(attrs.Len() + marks(m)) // a list that grows by itself doubles
	attrs.PutBool(annotate.MarkGenAI, true)
	if m.OperationID != "" {
		attrs.PutStr(annotate.MarkOperationID, m.OperationID)
	}
	if m.AttemptOrdinal > 0 {
		attrs.PutInt(annotate.MarkAttemptOrdinal, int64(m.AttemptOrdinal))
	}
	if m.Attempts != nil {
		attrs.PutInt(annotate.MarkAttempts, int64(*m.Attempts))
	}
	putMS(attrs, annotate.MarkHiddenMS, m.HiddenNS)
	putMS(attrs, annotate.MarkDriftMS, m.DriftNS)
	if len(s.Rows) > 0 {
		w.carry(span, s.Rows)
	}
}

// marks is how many attributes m needs.
func marks(m *assemble.Marks) int {
	n := 1
	for _, is := range [...]bool{m.OperationID != "", m.AttemptOrdinal > 0, m.Attempts != nil, m.HiddenNS != nil, m.DriftNS != nil} {
		if is {
			n++
		}
	}
	return n
}

func putMS(attrs pcommon.Map, key string, ns *int64) {
	if ns != nil {
		attrs.PutDouble(key, float64(*ns)/1e6)
	}
}

func (w *writer) carry(span ptrace.Span, list []rows.Row) {
	span.Events().EnsureCapacity(span.Events().Len() + len(list))
	for _, row := range list {
		annotate.Encode(row, span.Events().AppendEmpty())
	}
	w.rows += int64(len(list))
}

// checkpoint adds a synthetic span that carries r's loose rows.
func (w *writer) checkpoint(r *assemble.Release[original], now time.Time) {
	if w.own == nil {
		rs := w.td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", annotate.SyntheticService)
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName(annotate.SyntheticService)
		spans := ss.Spans()
		w.own = &spans
	}
	span := w.own.AppendEmpty()
	span.SetName(annotate.CheckpointName)
	span.SetKind(ptrace.SpanKindInternal)
	span.SetTraceID(traceID(r.TraceID))
	span.SetSpanID(checkpointID(r))
	span.SetStartTimestamp(pcommon.NewTimestampFromTime(now))
	span.SetEndTimestamp(pcommon.NewTimestampFromTime(now))
	span.Attributes().PutBool(annotate.MarkSynthetic, true)
	w.carry(span, r.Loose)
	w.synthetic++
}

func traceID(text string) pcommon.TraceID {
	var id pcommon.TraceID
	// The text was made from a trace id, so it cannot be anything else.
	_, _ = hex.Decode(id[:], []byte(text))
	return id
}

// checkpointID follows from the trace and the release, so that a replay gives the
// same span.
func checkpointID(r *assemble.Release[original]) pcommon.SpanID {
	revision := r.Loose[0].Head().Revision
	h := xxhash.Sum64String(r.TraceID + "/" + strconv.FormatUint(revision, 10))
	var id pcommon.SpanID
	for i := range id {
		id[i] = byte(h >> (8 * i))
	}
	id[0] |= 1 // an id of zeros would be no id
	return id
}
