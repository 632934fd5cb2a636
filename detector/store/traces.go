package store

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// ExampleOrder says which traces are the best examples.
type ExampleOrder int

const (
	// ByHidden wants the most hidden time.
	ByHidden ExampleOrder = iota
	// ByUserTime wants the slowest.
	ByUserTime
	// ByDrift wants the largest deadline drift.
	ByDrift
	// By504 wants those that ended with HTTP 504, slowest first.
	By504
	// ByInherited wants failures by a budget that was spent before, the latest first.
	ByInherited
	// ByOverrun wants successes furthest over their declared timeout. Operations only.
	ByOverrun
	// ByFirstToken wants the latest first token. Operations only.
	ByFirstToken
	// ByTokenTime wants the most time per output token. Operations only.
	ByTokenTime
	// ByFirstTimeout wants those that ended with the timeout of their only attempt, slowest
	// first. Operations only.
	ByFirstTimeout
	// ByExhausted wants failures after more than one attempt, the most hidden time first.
	// Operations only.
	ByExhausted
	// ByLeft wants those that began with the least left of their deadline.
	ByLeft
)

// showing says in SQL which work shows a finding.
type showing struct {
	// shows is its condition; above, if any, a further one that compares with @above.
	shows, above string
	// sort puts the best examples first.
	sort string
}

// left is what a deadline leaves when work begins, in nanoseconds.
const left = "toUnixTimestamp64Nano(deadline_at) - toUnixTimestamp64Nano(started_at)"

// lastTry is the time of an operation's last attempt, which its timeout bounds.
const lastTry = "greatest(user_time_ns - failed_attempt_ns - backoff_ns, 0)"

// overran is what counts as past a declared timeout.
const overran = "outcome = 'ok' AND timeout_ns > 0 AND " + lastTry + " > 1.5 * timeout_ns AND " + lastTry + " > timeout_ns + 1000000000"

var showings = map[ExampleOrder]showing{
	ByHidden:       {shows: "hidden_total_ns > 0", sort: "hidden_total_ns DESC"},
	ByUserTime:     {shows: "user_time_ns >= 0", above: "user_time_ns > @above", sort: "user_time_ns DESC"},
	ByDrift:        {shows: "drift_ns > 0", sort: "drift_ns DESC"},
	By504:          {shows: "http_status = 504", sort: "user_time_ns DESC"},
	ByInherited:    {shows: "deadline_missed AND miss_cause = 'inherited' AND outcome != 'ok'", sort: "ended_at DESC"},
	ByOverrun:      {shows: overran, sort: lastTry + " - timeout_ns DESC"},
	ByFirstToken:   {shows: "ttft_state = 'known'", above: "ttft_ns > @above", sort: "ttft_ns DESC"},
	ByTokenTime:    {shows: "ttft_state != 'suspect' AND time_per_output_token_ns > 0", above: "time_per_output_token_ns > @above", sort: "time_per_output_token_ns DESC"},
	ByFirstTimeout: {shows: "outcome = 'error' AND attempts = 1 AND (error_class = 'timeout' OR at_cap)", sort: "user_time_ns DESC"},
	ByExhausted:    {shows: "outcome = 'error' AND attempts > 1 AND error_class != 'client'", sort: "hidden_total_ns DESC"},
	ByLeft:         {shows: "isNotNull(deadline_at)", above: left + " < @above", sort: left},
}

// Compares says whether work shows the finding only beyond a level, as slow work does.
func (o ExampleOrder) Compares() bool { return showings[o].above != "" }

// found is the condition of work that shows the finding, beyond @above where the order compares.
func (o ExampleOrder) found() string {
	if !o.Compares() {
		return showings[o].shows
	}
	return showings[o].shows + " AND " + showings[o].above
}

// Example is one request or operation that shows what an alert means.
type Example struct {
	TraceID   string
	RequestID string
	StartedAt time.Time
	EndedAt   time.Time
	UserNS    int64
	AgentNS   *int64
	HiddenNS  *int64
	DriftNS   *int64
	Attempts  *uint32
	Outcome   string
}

// Examples lists up to limit traces of a slice that ended in [from, to).
func (s *Store) Examples(ctx context.Context, slice Slice, from, to time.Time, order ExampleOrder, limit int) ([]Example, error) {
	where, args := slice.where()
	view := "operations"
	if slice.IsRequest() {
		view = "requests"
	}
	sql := "SELECT trace_id, request_id, started_at, ended_at, user_time_ns, agent_time_ns, hidden_total_ns, drift_ns, attempts, outcome FROM " + s.db + "." + view +
		" WHERE " + where + " AND " + endedBetween + " AND NOT late_fragment AND " + showings[order].shows + " ORDER BY " + showings[order].sort + ", trace_id LIMIT 1 BY trace_id LIMIT @limit"
	args = append(append(args, between(from, to)...), clickhouse.Named("limit", limit))
	return query(ctx, s, "example traces", sql, args, func(e *Example) []any {
		return []any{&e.TraceID, &e.RequestID, &e.StartedAt, &e.EndedAt, &e.UserNS, &e.AgentNS, &e.HiddenNS, &e.DriftNS, &e.Attempts, &e.Outcome}
	}, func(e *Example) { e.StartedAt, e.EndedAt = e.StartedAt.UTC(), e.EndedAt.UTC() })
}

// TraceRequest is a request of a trace.
type TraceRequest struct {
	Slice
	RequestID       string
	Name            string
	StartedAt       time.Time
	EndedAt         time.Time
	Outcome         string
	ErrorClass      string
	HTTPStatus      uint16
	UserNS          int64
	AgentNS         *int64
	AgentTimeSource string
	HiddenPathNS    *int64
	BudgetNS        *int64
	DeadlineMissed  *bool
	PerceivedNS     *int64
	TrueNS          *int64
	DriftNS         *int64
	Operations      uint32
	Steps           uint32
	Attempts        *uint32
	AttemptsUnknown uint32
	Incomplete      bool
	Truncated       bool
	LateFragment    bool
}

// Requests lists a trace's requests. An unknown trace is an empty list.
func (s *Store) Requests(ctx context.Context, traceID string) ([]TraceRequest, error) {
	args, err := s.ofTraceArgs(ctx, traceID)
	if err != nil {
		return nil, err
	}
	sql := "SELECT service_name, agent, kind, request_id, name, started_at, ended_at, outcome, error_class, http_status, user_time_ns, agent_time_ns, agent_time_source, hidden_path_ns, " +
		"budget_ns, deadline_missed, perceived_remaining_ns, true_remaining_ns, drift_ns, operations, steps, attempts, attempts_unknown, incomplete, truncated, late_fragment FROM " +
		s.db + ".requests WHERE " + ofTrace("ended_at") + " ORDER BY started_at, request_id LIMIT 1000"
	return query(ctx, s, "requests of a trace", sql, args, func(r *TraceRequest) []any {
		return []any{&r.Service, &r.Agent, &r.Kind, &r.RequestID, &r.Name, &r.StartedAt, &r.EndedAt, &r.Outcome, &r.ErrorClass, &r.HTTPStatus, &r.UserNS, &r.AgentNS,
			&r.AgentTimeSource, &r.HiddenPathNS, &r.BudgetNS, &r.DeadlineMissed, &r.PerceivedNS, &r.TrueNS, &r.DriftNS, &r.Operations, &r.Steps, &r.Attempts,
			&r.AttemptsUnknown, &r.Incomplete, &r.Truncated, &r.LateFragment}
	}, func(r *TraceRequest) { r.StartedAt, r.EndedAt = r.StartedAt.UTC(), r.EndedAt.UTC() })
}

// TraceOperation is an operation of a trace.
type TraceOperation struct {
	Slice
	OperationID       string
	ParentOperationID string
	RequestID         string
	Name              string
	StartedAt         time.Time
	EndedAt           time.Time
	Outcome           string
	ErrorClass        string
	HTTPStatus        uint16
	UserNS            int64
	HiddenNS          *int64
	InferenceNS       *int64
	TTFTNS            *int64
	TTFTState         string
	TimeoutNS         *int64
	Attempts          *uint32
	AttemptSource     string
	// LeafAttempts counts the tries of all layers, MaxRetries is the configured number.
	LeafAttempts *uint32
	MaxRetries   *uint32
	OnPath       bool
}

// Operations lists a trace's operations by start.
func (s *Store) Operations(ctx context.Context, traceID string) ([]TraceOperation, error) {
	args, err := s.ofTraceArgs(ctx, traceID)
	if err != nil {
		return nil, err
	}
	sql := "SELECT service_name, agent, kind, target, stream, operation_id, parent_operation_id, request_id, name, started_at, ended_at, outcome, error_class, http_status, user_time_ns, " +
		"hidden_total_ns, inference_time_ns, ttft_ns, ttft_state, timeout_ns, attempts, attempt_source, leaf_attempts, max_retries, on_path FROM " + s.db +
		".operations WHERE " + ofTrace("ended_at") + " ORDER BY started_at, operation_id LIMIT 20000"
	return query(ctx, s, "operations of a trace", sql, args, func(o *TraceOperation) []any {
		return []any{&o.Service, &o.Agent, &o.Kind, &o.Target, &o.Stream, &o.OperationID, &o.ParentOperationID, &o.RequestID, &o.Name, &o.StartedAt, &o.EndedAt, &o.Outcome,
			&o.ErrorClass, &o.HTTPStatus, &o.UserNS, &o.HiddenNS, &o.InferenceNS, &o.TTFTNS, &o.TTFTState, &o.TimeoutNS, &o.Attempts, &o.AttemptSource, &o.LeafAttempts, &o.MaxRetries, &o.OnPath}
	}, func(o *TraceOperation) { o.StartedAt, o.EndedAt = o.StartedAt.UTC(), o.EndedAt.UTC() })
}

// TraceAttempt is an attempt of a trace.
type TraceAttempt struct {
	AttemptID       string
	OperationID     string
	RequestID       string
	Ordinal         uint32
	Layer           string
	Source          string
	Target          string
	Endpoint        string
	StartedAt       time.Time
	DurationNS      int64
	BackoffBeforeNS *int64
	Outcome         string
	ErrorClass      string
	HTTPStatus      uint16
	AtCap           bool
	RemainingNS     *int64
}

// Attempts lists a trace's attempts by start.
func (s *Store) Attempts(ctx context.Context, traceID string) ([]TraceAttempt, error) {
	args, err := s.ofTraceArgs(ctx, traceID)
	if err != nil {
		return nil, err
	}
	sql := "SELECT attempt_id, operation_id, request_id, ordinal, layer, source, target, endpoint, started_at, duration_ns, backoff_before_ns, outcome, error_class, http_status, at_cap, remaining_ns FROM " +
		s.db + ".attempts WHERE " + ofTrace("ended_at") + " ORDER BY started_at, attempt_id LIMIT 20000"
	return query(ctx, s, "attempts of a trace", sql, args, func(a *TraceAttempt) []any {
		return []any{&a.AttemptID, &a.OperationID, &a.RequestID, &a.Ordinal, &a.Layer, &a.Source, &a.Target, &a.Endpoint, &a.StartedAt, &a.DurationNS, &a.BackoffBeforeNS,
			&a.Outcome, &a.ErrorClass, &a.HTTPStatus, &a.AtCap, &a.RemainingNS}
	}, func(a *TraceAttempt) { a.StartedAt = a.StartedAt.UTC() })
}

// TraceSegment is one slice of a request's wall clock.
type TraceSegment struct {
	RequestID      string
	Index          uint32
	OperationID    string
	AttemptOrdinal uint32
	Kind           string
	StartedAt      time.Time
	DurationNS     int64
}

// Segments lists a trace's segments, by request and in order of time.
func (s *Store) Segments(ctx context.Context, traceID string) ([]TraceSegment, error) {
	args, err := s.ofTraceArgs(ctx, traceID)
	if err != nil {
		return nil, err
	}
	sql := "SELECT request_id, segment_index, operation_id, attempt_ordinal, kind, started_at, duration_ns FROM " + s.db +
		".segments WHERE " + ofTrace("request_ended_at") + " ORDER BY request_id, segment_index LIMIT 50000"
	return query(ctx, s, "segments of a trace", sql, args, func(g *TraceSegment) []any {
		return []any{&g.RequestID, &g.Index, &g.OperationID, &g.AttemptOrdinal, &g.Kind, &g.StartedAt, &g.DurationNS}
	}, func(g *TraceSegment) { g.StartedAt = g.StartedAt.UTC() })
}

// Span is a thin span: enough to draw a trace, no content.
type Span struct {
	Service      string
	SpanID       string
	ParentSpanID string
	Name         string
	Kind         string
	StartedAt    time.Time
	DurationNS   int64
	Status       string
	Attributes   map[string]string
}

// Spans lists a trace's spans by start. A trace without any is ErrNotFound.
func (s *Store) Spans(ctx context.Context, traceID string) ([]Span, error) {
	args, err := s.ofTraceArgs(ctx, traceID)
	if err != nil {
		return nil, err
	}
	sql := "SELECT service_name, span_id, parent_span_id, name, kind, started_at, duration_ns, status_code, attributes FROM " + s.db +
		".spans WHERE " + ofTrace("started_at") + " ORDER BY started_at, span_id LIMIT 20000"
	got, err := query(ctx, s, "spans of a trace", sql, args, func(p *Span) []any {
		return []any{&p.Service, &p.SpanID, &p.ParentSpanID, &p.Name, &p.Kind, &p.StartedAt, &p.DurationNS, &p.Status, &p.Attributes}
	}, func(p *Span) { p.StartedAt = p.StartedAt.UTC() })
	if err == nil && len(got) == 0 {
		err = fmt.Errorf("spans of trace %q: %w", traceID, ErrNotFound)
	}
	return got, err
}
