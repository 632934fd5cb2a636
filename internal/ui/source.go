package ui

import (
	"context"
	"errors"
	"time"

	"driftline/detector/stats"
)

// ErrNotFound is what a Source returns for an alert or trace that it does not hold.
var ErrNotFound = errors.New("not found")

// Source answers what the pages ask. All methods may be called at the same time, stop
// when their context ends, and write nothing.
type Source interface {
	// Ping fails when storage cannot be read.
	Ping(ctx context.Context) error
	// Overview returns the state at now, with slices of the window before it.
	Overview(ctx context.Context, now time.Time, window time.Duration) (*Overview, error)
	// Alerts returns the latest transition of each alert, the newest first, at most limit.
	Alerts(ctx context.Context, limit int) ([]Alert, error)
	// Alert returns one alert with its evidence, or ErrNotFound.
	Alert(ctx context.Context, now time.Time, fingerprint string) (*AlertDetail, error)
	// Trace returns all that is stored of a trace, or ErrNotFound. The id is 32
	// lower-case hex digits.
	Trace(ctx context.Context, id string) (*Trace, error)
}

// Overview is what the first page shows.
type Overview struct {
	Pipeline Pipeline
	// Firing are alerts whose latest transition is firing, the newest first.
	Firing []Alert
	// Pending counts alerts that have not held long enough to fire.
	Pending int
	// Transitions are the latest state changes, the newest first.
	Transitions []Alert
	// Operations are slices of model and tool calls, the busiest first.
	Operations []Slice
	// Requests are slices of user-visible tasks, the busiest first.
	Requests []Slice
	// More counts slices that were left out because there are too many.
	More int
}

// Pipeline says how fresh the data is. A zero time means that there is none.
type Pipeline struct {
	// LastEnd is the newest end of a request or operation, in event time.
	LastEnd time.Time
	// LastIngested is the exporter's clock at the newest row.
	LastIngested time.Time
	// LastRollup is the end of the newest minute that has been rolled up.
	LastRollup time.Time
	// Open counts requests seen open in the last minute's snapshots, and OldestOpen
	// is the greatest age among them.
	Open       uint64
	OldestOpen time.Duration
}

// Slice is one line of the overview: counts over the window, summed over retry slices
// and streaming.
type Slice struct {
	Service, Agent, Kind, Target string
	// N counts finished work without late fragments.
	N uint64
	// AttemptsKnown counts work whose retries are known, and Retried those with one or more.
	AttemptsKnown, Retried uint64
	// User and Inference are latencies; Inference is empty for requests and tools.
	User, Inference *stats.Hist
	// Hidden is failed attempts plus backoffs; UserSum is the user time of the same work.
	Hidden, UserSum time.Duration
	Status504       uint64
	// DeadlineKnown counts work with a known deadline, DeadlineMissed those that missed it.
	DeadlineKnown, DeadlineMissed uint64
}

// Alert is one transition of an alert, with the alert's state at that time.
type Alert struct {
	Fingerprint string
	Transition  uint32
	At          time.Time
	Detection   string
	// State is pending, firing or resolved.
	State    string
	Severity string
	// Shadow says that the alert is computed and stored but notifies nobody.
	Shadow                               bool
	Service, Agent, Kind, Target, Stream string
	StartedAt                            time.Time
	FiredAt, ResolvedAt                  *time.Time
	// Value, Threshold and Baseline are in Unit: "1" is a share of 1, "ms" and "s" are
	// times. With unit "ratio", Value and Threshold are multiples of Baseline, which is
	// in milliseconds.
	Value, Threshold, Baseline float64
	Unit                       string
	Window                     time.Duration
	Samples                    uint64
	Labels, Annotations        map[string]string
	// Evidence is the detector's own record, JSON; it may be empty.
	Evidence string
}

// AlertDetail is what an alert's page shows.
type AlertDetail struct {
	// Transitions are all state changes, the oldest first; the last one is the
	// alert's present state. There is at least one.
	Transitions []Alert
	// First504 is when a 504 alert fired in the same service during this alert, or the
	// zero time. Source504 says where that comes from: "alert" or "computed".
	First504  time.Time
	Source504 string
	// EvidenceFrom and EvidenceTo are the window of Retries and Examples.
	EvidenceFrom, EvidenceTo time.Time
	// Retries are the retry slices "0", "1", "2+" and "unknown" that have data.
	Retries []RetrySlice
	// From and To bound Minutes.
	From, To time.Time
	// Minutes are per-minute counts of the alert's slice, in order of time. Minutes
	// without data are absent.
	Minutes []Minute
	// Series names what Minute.Latency is: "inference time" or "user time".
	Series   string
	Examples []Example
	Versions []VersionSeen
}

// Current is the latest transition.
func (d *AlertDetail) Current() Alert { return d.Transitions[len(d.Transitions)-1] }

// RetrySlice is finished work with one number of retries.
type RetrySlice struct {
	// Retries is "0", "1", "2+" or "unknown".
	Retries         string
	User, AgentTime *stats.Hist
	// AgentReported counts agent times that were reported; the rest are derived from
	// user time and prove nothing by themselves.
	AgentReported uint64
}

// Minute is one minute of a slice, beside the 504s of its service.
type Minute struct {
	// At is the minute's start.
	At      time.Time
	Latency *stats.Hist
	// Requests and Status504 count the user-visible requests of the service.
	Requests, Status504 uint64
}

// Example is a trace that shows what the alert is about.
type Example struct {
	TraceID, RequestID string
	EndedAt            time.Time
	UserTime           time.Duration
	Outcome            string
	// Attempts and Hidden are nil where not known.
	Attempts *uint32
	Hidden   *time.Duration
	// Named says that the alert itself names this trace; others were looked up.
	Named    bool
	Segments []Segment
}

// VersionSeen is a service version observed around the alert.
type VersionSeen struct {
	Version     string
	First, Last time.Time
	N           uint64
}

// Trace is all that is stored about one trace.
type Trace struct {
	ID         string
	Requests   []Request
	Operations []Operation
	Attempts   []Attempt
	Segments   []Segment
	Spans      []Span
}

// Request is one user-visible task of a trace. Pointers are nil where not known.
type Request struct {
	ID, Service, Agent, Kind, Name      string
	StartedAt, EndedAt                  time.Time
	Outcome, ErrorClass                 string
	HTTPStatus                          uint16
	UserTime                            time.Duration
	AgentTime                           *time.Duration
	AgentTimeSource                     string
	HiddenPath                          *time.Duration
	Budget                              *time.Duration
	DeadlineMissed                      *bool
	Perceived, Remaining, Drift         *time.Duration
	Operations, AttemptsUnknown         uint32
	Attempts                            *uint32
	Incomplete, Truncated, LateFragment bool
}

// Operation is one logical call. Pointers are nil where not known.
type Operation struct {
	ID, ParentID, RequestID, Service, Kind, Name, Target string
	StartedAt                                            time.Time
	UserTime                                             time.Duration
	Outcome, ErrorClass                                  string
	HTTPStatus                                           uint16
	Attempts                                             *uint32
	AttemptSource                                        string
	// LeafAttempts counts the tries of all layers, MaxRetries is what was configured; nil for unknown.
	LeafAttempts, MaxRetries         *uint32
	Hidden, TTFT, Inference, Timeout *time.Duration
	TTFTState                        string
	OnPath                           bool
}

// Attempt is one try of an operation.
type Attempt struct {
	ID, OperationID, Layer, Source, Target string
	Ordinal                                uint32
	StartedAt                              time.Time
	Duration                               time.Duration
	Backoff, Remaining                     *time.Duration
	Outcome, ErrorClass                    string
	HTTPStatus                             uint16
	AtCap                                  bool
}

// Segment is one slice of a request's wall clock.
type Segment struct {
	RequestID, OperationID, Kind string
	Index, AttemptOrdinal        uint32
	StartedAt                    time.Time
	Duration                     time.Duration
}

// Span is a stored span, without its content.
type Span struct {
	ID, ParentID, Name, Kind, Service, Status string
	StartedAt                                 time.Time
	Duration                                  time.Duration
	Attributes                                map[string]string
}
