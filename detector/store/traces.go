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
)

var exampleOrders = map[ExampleOrder]string{
	ByHidden:    "hidden_total_ns > 0 ORDER BY hidden_total_ns DESC, trace_id",
	ByUserTime:  "user_time_ns >= 0 ORDER BY user_time_ns DESC, trace_id",
	ByDrift:     "drift_ns > 0 ORDER BY drift_ns DESC, trace_id",
	By504:       "http_status = 504 ORDER BY user_time_ns DESC, trace_id",
	ByInherited: "deadline_missed AND miss_cause = 'inherited' AND outcome != 'ok' ORDER BY ended_at DESC, trace_id",
	ByOverrun:   "outcome = 'ok' AND timeout_ns > 0 AND user_time_ns > timeout_ns ORDER BY user_time_ns - timeout_ns DESC, trace_id",
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
		" WHERE " + where + " AND " + endedBetween + " AND NOT late_fragment AND " + exampleOrders[order] + " LIMIT 1 BY trace_id LIMIT @limit"
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
