package genai

import (
	"time"

	"driftline/internal/identity"
	"driftline/internal/rows"
)

// Trace is what is known of one trace at one moment.
type Trace struct {
	// Spans are the trace's spans in any order, possibly with duplicates.
	Spans []Span
	// Complete says that no more spans are expected: the root ended and the linger
	// time is over, or the trace timed out, was evicted or is being shut down.
	Complete bool
	// Reason is why the trace is released (rows.ReleaseRoot and so on).
	Reason string
	// Truncated says that spans over the limit were left out.
	Truncated bool
	// LateFragment says that the trace was released and forgotten before.
	LateFragment bool
	// HadPartial says that an earlier release had Partial calls, which are not to be taken
	// back for the release's reason alone.
	HadPartial bool
	// Running is a span of the trace that has not ended, as its heartbeats show it, the one that
	// began first; nil for none. It makes the trace one of GenAI work. Heartbeats is how many came, of any span, and LastHeartbeat
	// when the last one was sent, in Unix nanoseconds.
	Running       *Span
	Heartbeats    int
	LastHeartbeat int64
	// LastArrival is when the last of Spans came, in Unix nanoseconds; 0 for unknown.
	LastArrival int64
	// Now is the instant of the release in Unix nanoseconds; open work is censored here.
	Now int64
	// AttemptWait is how long, in nanoseconds, a failed last attempt is given for a
	// next one before its operation counts as finished. It does not apply when Complete.
	AttemptWait int64
}

// Options are the settings of an analysis that a user can change.
type Options struct {
	// Dialects are what spans are read by; nil for the built-in ones.
	Dialects *Dialects
	// Attributes are the keys copied to the rows' attributes map, at most 8.
	Attributes []string
	// MaxAttributeLength bounds each copied value, in bytes.
	MaxAttributeLength int
	// BudgetKeys, ReceivedAtKeys, PerceivedRemainingKeys, AgentTimeKeys, PriorityKeys are
	// more attribute keys to read budgets, receipt instants, perceived remaining times,
	// agent-internal times and priorities from, besides the built-in ones.
	BudgetKeys, ReceivedAtKeys, PerceivedRemainingKeys, AgentTimeKeys, PriorityKeys []string
	// RequestKeys are attribute keys whose value is one for all requests, of several traces,
	// that are tries of one task; a plus joins keys that make it together. The first wins.
	RequestKeys []string
	// UserKeys and TenantKeys are more attribute keys to read from whom a request was for.
	UserKeys, TenantKeys []string
	// Identity hashes users and tenants; nil leaves them unknown.
	Identity *identity.Hasher
	// Timeouts are what services declare outside their spans, by service name; AnyService
	// holds for services without an entry. What a span states wins.
	Timeouts map[string]Timeouts
}

// AnyService is the entry of Options.Timeouts for services without one of their own.
const AnyService = "*"

// Timeouts are one service's declared limits; 0 is none known.
type Timeouts struct {
	// Attempt is the timeout of one attempt of a model call.
	Attempt time.Duration
	// Tool is the timeout of a tool call or retrieval.
	Tool time.Duration
	// Request is the budget of a whole request, from receipt.
	Request time.Duration
}

// timeouts are the limits configured for the service of n.
func (o *Options) timeouts(n *node) Timeouts {
	if len(o.Timeouts) == 0 {
		return Timeouts{}
	}
	if t, ok := o.Timeouts[n.resource().ServiceName]; ok {
		return t
	}
	return o.Timeouts[AnyService]
}

// timeout is the limit configured for work of n's class, where there is one.
func (o *Options) timeout(n *node) (int64, bool) {
	t := o.timeouts(n)
	d := time.Duration(0)
	switch n.class {
	case classModel:
		d = t.Attempt
	case classTool, classRetrieval:
		d = t.Tool
	}
	return int64(d), d > 0
}

// Result is every row that follows from a trace. Revision is left 0: the caller
// numbers releases.
type Result struct {
	// Requests are present only for finished requests.
	Requests   []*rows.Request
	Operations []*rows.Operation
	Attempts   []*rows.Attempt
	Segments   []*rows.Segment
	// Open are snapshots of requests whose root has not ended.
	Open []*rows.OpenRequest
	// Absorbed are the ids of spans that say the same call as a span around them, so that no
	// operation has their id. They are listed for traces that are not complete.
	Absorbed []string
	// Partial are the ids of calls whose own span never came, put together from their
	// requests. Rows with such an id yield to those made of the span itself.
	Partial []string
	// GenAI says whether the trace holds any GenAI span; without one there are no rows.
	GenAI bool
	// SkewedSpans counts spans outside their parents.
	SkewedSpans int
}
