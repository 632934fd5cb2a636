package clickhouse

import (
	"time"

	"driftline/detector/store"
	"driftline/internal/ui"
)

func duration(ns *int64) *time.Duration {
	if ns == nil {
		return nil
	}
	d := time.Duration(*ns)
	return &d
}

func alert(a store.AlertRow) ui.Alert {
	return ui.Alert{
		Fingerprint: a.Fingerprint, Transition: a.Transition, At: a.At, Detection: a.Detection, State: a.State, Severity: a.Severity, Shadow: a.Shadow,
		Service: a.Service, Agent: a.Agent, Kind: a.Kind, Target: a.Target, Stream: a.Stream,
		StartedAt: a.StartedAt, FiredAt: a.FiredAt, ResolvedAt: a.ResolvedAt, Value: a.Value, Threshold: a.Threshold, Baseline: a.Baseline, Unit: a.Unit,
		Window: a.Window, Samples: a.Samples, Labels: a.Labels, Annotations: a.Annotations, Evidence: a.Evidence,
	}
}

func request(r store.TraceRequest) ui.Request {
	return ui.Request{
		ID: r.RequestID, Service: r.Service, Agent: r.Agent, Kind: r.Kind, Name: r.Name, StartedAt: r.StartedAt, EndedAt: r.EndedAt,
		Outcome: r.Outcome, ErrorClass: r.ErrorClass, HTTPStatus: r.HTTPStatus, UserTime: time.Duration(r.UserNS),
		AgentTime: duration(r.AgentNS), AgentTimeSource: r.AgentTimeSource, HiddenPath: duration(r.HiddenPathNS), Budget: duration(r.BudgetNS),
		DeadlineMissed: r.DeadlineMissed, Perceived: duration(r.PerceivedNS), Remaining: duration(r.TrueNS), Drift: duration(r.DriftNS),
		Operations: r.Operations, Attempts: r.Attempts, AttemptsUnknown: r.AttemptsUnknown,
		Incomplete: r.Incomplete, Truncated: r.Truncated, LateFragment: r.LateFragment,
	}
}

func operation(o store.TraceOperation) ui.Operation {
	return ui.Operation{
		ID: o.OperationID, ParentID: o.ParentOperationID, RequestID: o.RequestID, Service: o.Service, Kind: o.Kind, Name: o.Name, Target: o.Target,
		StartedAt: o.StartedAt, UserTime: time.Duration(o.UserNS), Outcome: o.Outcome, ErrorClass: o.ErrorClass, HTTPStatus: o.HTTPStatus,
		Attempts: o.Attempts, AttemptSource: o.AttemptSource, LeafAttempts: o.LeafAttempts, MaxRetries: o.MaxRetries, Hidden: duration(o.HiddenNS), TTFT: duration(o.TTFTNS), TTFTState: o.TTFTState,
		Inference: duration(o.InferenceNS), Timeout: duration(o.TimeoutNS), OnPath: o.OnPath,
	}
}

func attempt(a store.TraceAttempt) ui.Attempt {
	return ui.Attempt{
		ID: a.AttemptID, OperationID: a.OperationID, Layer: a.Layer, Source: a.Source, Target: a.Target, Ordinal: a.Ordinal,
		StartedAt: a.StartedAt, Duration: time.Duration(a.DurationNS), Backoff: duration(a.BackoffBeforeNS), Remaining: duration(a.RemainingNS),
		Outcome: a.Outcome, ErrorClass: a.ErrorClass, HTTPStatus: a.HTTPStatus, AtCap: a.AtCap,
	}
}

func segment(g store.TraceSegment) ui.Segment {
	return ui.Segment{RequestID: g.RequestID, OperationID: g.OperationID, Kind: g.Kind, Index: g.Index, AttemptOrdinal: g.AttemptOrdinal,
		StartedAt: g.StartedAt, Duration: time.Duration(g.DurationNS)}
}
