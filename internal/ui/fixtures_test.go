package ui

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"driftline/detector/stats"
)

// now is the fixtures' present.
var now = time.Date(2026, 3, 1, 12, 30, 10, 0, time.UTC)

const (
	surgeID  = "a1b2c3d4e5f60718"
	splitID  = "0f0e0d0c0b0a0908"
	evilID   = "e411"
	traceA   = "4bf92f3577b34da6a3ce929d0e0e4736"
	traceOld = "00000000000000000000000000000bad"
	evil     = `<script>alert("x")</script>`
)

func ptr[T any](v T) *T { return &v }

// fixture is a Source with fixed answers.
type fixture struct {
	overview *Overview
	list     []Alert
	details  map[string]*AlertDetail
	traces   map[string]*Trace
	err      error
}

func (f *fixture) Ping(context.Context) error { return f.err }
func (f *fixture) Overview(context.Context, time.Time, time.Duration) (*Overview, error) {
	return f.overview, f.err
}
func (f *fixture) Alerts(context.Context, int) ([]Alert, error) { return f.list, f.err }
func (f *fixture) Alert(_ context.Context, _ time.Time, id string) (*AlertDetail, error) {
	if d, ok := f.details[id]; ok {
		return d, f.err
	}
	return nil, ErrNotFound
}
func (f *fixture) Trace(_ context.Context, id string) (*Trace, error) {
	if t, ok := f.traces[id]; ok {
		return t, f.err
	}
	return nil, ErrNotFound
}

// latencies is a histogram of n lognormal latencies around median, in milliseconds.
func latencies(rng *rand.Rand, n int, median time.Duration, sigma float64) *stats.Hist {
	h := &stats.Hist{}
	for range n {
		x := rng.NormFloat64() * sigma
		h.Add(float64(median.Milliseconds()) * math.Exp(x))
	}
	return h
}

func surge(state string, transition uint32, at time.Time, value float64) Alert {
	a := Alert{
		Fingerprint: surgeID, Transition: transition, At: at, Detection: "p95_surge", State: state, Severity: "warning",
		Service: "shop-assistant", Agent: "planner", Kind: "chat", Target: "gpt-4.1-mini", Stream: "yes",
		StartedAt: now.Add(-22 * time.Minute), Value: value, Threshold: 3, Baseline: 2100, Unit: "ratio", Window: 5 * time.Minute, Samples: 412,
		Annotations: map[string]string{
			"summary":     "P95 of inference time of gpt-4.1-mini is 4.2 times its baseline",
			"description": "P95 over 5 minutes is 8.8 s against a baseline of 2.1 s from 412 samples, while 99.2 % of requests still succeed.",
			"runbook_url": "https://runbooks.example.com/p95",
		},
		Evidence: `{"ratio":4.2,"interval":{"lo":3.6,"hi":4.9},"clipped":0,"baseline_windows":[2.0,2.1,2.2],"note":null,"multi":[{"a":1}]}`,
	}
	if state == "firing" {
		a.FiredAt = ptr(now.Add(-18 * time.Minute))
	}
	return a
}

func newFixture() *fixture {
	rng := rand.New(rand.NewPCG(7, 7))
	split := Alert{
		Fingerprint: splitID, Transition: 2, At: now.Add(-11 * time.Minute), Detection: "retry_bimodality", State: "firing", Severity: "critical",
		Service: "shop-assistant", Agent: "planner", Kind: "tool", Target: "search_orders", Stream: "no", StartedAt: now.Add(-14 * time.Minute), FiredAt: ptr(now.Add(-11 * time.Minute)),
		Value: 0.41, Threshold: 0.1, Baseline: 0.02, Unit: "1", Window: 30 * time.Minute, Samples: 911,
	}
	bad := Alert{Fingerprint: evilID, Transition: 1, At: now.Add(-40 * time.Minute), Detection: evil, State: "resolved", Severity: evil, Service: evil, Agent: evil, Kind: evil, Target: evil, Stream: evil,
		StartedAt: now.Add(-60 * time.Minute), ResolvedAt: ptr(now.Add(-40 * time.Minute)), Unit: evil, Evidence: evil, Annotations: map[string]string{"summary": evil, "cause": evil, "do_first": evil, "runbook_url": "javascript:alert(1)"}}
	f := &fixture{
		overview: &Overview{
			Pipeline: Pipeline{LastEnd: now.Add(-8 * time.Second), LastIngested: now.Add(-3 * time.Second), LastRollup: now.Add(-10 * time.Second), Open: 14, OldestOpen: 73 * time.Second},
			Firing:   []Alert{split, surge("firing", 2, now.Add(-18*time.Minute), 4.19)}, Pending: 1,
			Transitions: []Alert{split, surge("firing", 2, now.Add(-18*time.Minute), 4.19), surge("pending", 1, now.Add(-20*time.Minute), 3.1), bad},
			Operations: []Slice{
				{Service: "shop-assistant", Agent: "planner", Kind: "chat", Target: "gpt-4.1-mini", N: 8123, AttemptsKnown: 8100, Retried: 902, User: latencies(rng, 8000, 1400*time.Millisecond, .9),
					Inference: latencies(rng, 8000, 1200*time.Millisecond, .8), Hidden: 3600 * time.Second, UserSum: 16000 * time.Second, Status504: 41, DeadlineKnown: 8000, DeadlineMissed: 12},
				{Service: "shop-assistant", Agent: "planner", Kind: "tool", Target: "search_orders", N: 2204, AttemptsKnown: 2204, Retried: 411, User: latencies(rng, 2204, 2*time.Second, 1),
					Hidden: 2000 * time.Second, UserSum: 6000 * time.Second, DeadlineKnown: 2204},
				{Service: "mail-triage", Agent: "", Kind: "chat", Target: "claude-sonnet", N: 12, User: latencies(rng, 12, time.Second, .5), UserSum: 20 * time.Second},
				{Service: evil, Agent: evil, Kind: evil, Target: evil, N: 60, User: latencies(rng, 60, time.Second, .5), UserSum: 20 * time.Second},
			},
			Requests: []Slice{{Service: "shop-assistant", Agent: "planner", Kind: "agent", N: 1003, AttemptsKnown: 1003, Retried: 530, User: latencies(rng, 1003, 15*time.Second, .7),
				Hidden: 4100 * time.Second, UserSum: 21000 * time.Second, Status504: 40, DeadlineKnown: 1003, DeadlineMissed: 66}},
		},
		list:    []Alert{split, bad, surge("firing", 2, now.Add(-18*time.Minute), 4.19)},
		details: map[string]*AlertDetail{},
		traces:  map[string]*Trace{traceA: traceFixture()},
	}
	detail := &AlertDetail{
		Transitions:  []Alert{surge("pending", 1, now.Add(-20*time.Minute), 3.1), surge("firing", 2, now.Add(-18*time.Minute), 4.19)},
		EvidenceFrom: now.Add(-23 * time.Minute).Truncate(time.Minute), EvidenceTo: now.Add(-18 * time.Minute).Truncate(time.Minute),
		From: now.Add(-82 * time.Minute).Truncate(time.Minute), To: now.Truncate(time.Minute), Series: "inference time",
		Retries: []RetrySlice{
			{"0", latencies(rng, 700, 1300*time.Millisecond, .5), latencies(rng, 700, 1300*time.Millisecond, .5), 700},
			{"1", latencies(rng, 180, 7*time.Second, .4), latencies(rng, 180, 1400*time.Millisecond, .5), 180},
			{"2+", latencies(rng, 64, 16*time.Second, .3), latencies(rng, 64, 1500*time.Millisecond, .5), 60},
			{"unknown", latencies(rng, 6, 2*time.Second, .3), nil, 0},
		},
		Examples: []Example{
			{TraceID: traceA, RequestID: "r1", EndedAt: now.Add(-19 * time.Minute), UserTime: 31 * time.Second, Outcome: "ok", Attempts: ptr(uint32(4)), Hidden: ptr(18 * time.Second), Named: true, Segments: traceFixture().Segments},
			{TraceID: strings.Repeat("ab", 16), RequestID: "r2", EndedAt: now.Add(-21 * time.Minute), UserTime: 12 * time.Second, Outcome: "error"},
		},
		Versions: []VersionSeen{{"2026.2.27", now.Add(-82 * time.Minute), now.Add(-26 * time.Minute), 1801}, {"2026.3.1", now.Add(-27 * time.Minute), now, 911}},
	}
	for i := range 82 {
		if i == 20 || i == 21 || i >= 30 && i < 37 {
			continue // nothing was stored in these minutes
		}
		at := detail.From.Add(time.Duration(i) * time.Minute)
		median, n504 := 900*time.Millisecond, uint64(0)
		if i > 58 {
			median = time.Duration(900+140*(i-58)) * time.Millisecond
		}
		if i > 72 {
			n504 = uint64(i - 70)
		}
		detail.Minutes = append(detail.Minutes, Minute{at, latencies(rng, 90, median, .55), 40, n504})
	}
	detail.First504, detail.Source504 = First504(detail.Minutes, now.Add(-22*time.Minute)), "computed"
	f.details[surgeID] = detail
	empty := &AlertDetail{Transitions: []Alert{bad}, From: now.Add(-time.Hour), To: now, Series: "user time"}
	f.details[evilID] = empty
	f.details[splitID] = &AlertDetail{Transitions: []Alert{split}, From: now.Add(-time.Hour), To: now, Series: "user time", Retries: detail.Retries[:2]}
	return f
}

func traceFixture() *Trace {
	began := now.Add(-20 * time.Minute)
	t := &Trace{ID: traceA}
	at := time.Duration(0)
	add := func(op, kind string, attempt uint32, d time.Duration) {
		t.Segments = append(t.Segments, Segment{RequestID: "r1", OperationID: op, Kind: kind, AttemptOrdinal: attempt, Index: uint32(len(t.Segments)), StartedAt: began.Add(at), Duration: d})
		at += d
	}
	add("", "agent", 0, 120*time.Millisecond)
	add("o1", "queue", 1, 400*time.Millisecond)
	add("o1", "connect", 1, 90*time.Millisecond)
	add("o1", "ttft", 1, 1300*time.Millisecond)
	add("o1", "generation", 1, 2200*time.Millisecond)
	add("", "agent", 0, 60*time.Millisecond)
	add("o2", "failed_attempt", 1, 10*time.Second)
	add("o2", "backoff", 0, 800*time.Millisecond)
	add("o2", "failed_attempt", 2, 6*time.Second)
	add("o2", "backoff", 0, 1600*time.Millisecond)
	add("o2", "tool", 3, 1900*time.Millisecond)
	add("", "unattributed", 0, 300*time.Millisecond)
	add("o3", "inference", 1, 4100*time.Millisecond)
	add("", "agent", 0, 500*time.Microsecond)
	t.Requests = []Request{{ID: "r1", Service: "shop-assistant", Agent: "planner", Kind: "agent", Name: "handle order question", StartedAt: began, EndedAt: began.Add(at), Outcome: "ok", UserTime: at,
		AgentTime: ptr(at - 18400*time.Millisecond), AgentTimeSource: "derived", HiddenPath: ptr(18400 * time.Millisecond), Budget: ptr(30 * time.Second), DeadlineMissed: ptr(false),
		Perceived: ptr(24 * time.Second), Remaining: ptr(6 * time.Second), Drift: ptr(18 * time.Second), Operations: 3, Attempts: ptr(uint32(4)), AttemptsUnknown: 1, Incomplete: true}}
	t.Operations = []Operation{
		{ID: "o1", RequestID: "r1", Service: "shop-assistant", Kind: "chat", Name: "chat gpt-4.1-mini", Target: "gpt-4.1-mini", StartedAt: began.Add(120 * time.Millisecond), UserTime: 3990 * time.Millisecond, Outcome: "ok", Attempts: ptr(uint32(1)),
			AttemptSource: "http_child", Hidden: ptr(time.Duration(0)), TTFT: ptr(1300 * time.Millisecond), TTFTState: "known", Inference: ptr(3500 * time.Millisecond), Timeout: ptr(30 * time.Second), OnPath: true},
		{ID: "o2", RequestID: "r1", Service: "shop-assistant", Kind: "tool", Name: "execute_tool search_orders", Target: "search_orders", StartedAt: began.Add(4170 * time.Millisecond), UserTime: 20300 * time.Millisecond, Outcome: "ok", Attempts: ptr(uint32(3)),
			AttemptSource: "sibling", LeafAttempts: ptr(uint32(6)), MaxRetries: ptr(uint32(1)), Hidden: ptr(18400 * time.Millisecond), TTFTState: "not_applicable", OnPath: true},
		{ID: "o3", RequestID: "r1", Service: "shop-assistant", Kind: "chat", Name: evil, Target: evil, StartedAt: began.Add(24770 * time.Millisecond), UserTime: 4100 * time.Millisecond, Outcome: "ok", TTFTState: "missing", Inference: ptr(4100 * time.Millisecond), OnPath: true},
	}
	t.Attempts = []Attempt{
		{ID: "t3", OperationID: "o2", Layer: "framework", Source: "sibling", Ordinal: 3, StartedAt: began.Add(22570 * time.Millisecond), Duration: 1900 * time.Millisecond, Backoff: ptr(1600 * time.Millisecond), Outcome: "ok", Remaining: ptr(7430 * time.Millisecond)},
		{ID: "t1", OperationID: "o2", Layer: "framework", Source: "sibling", Ordinal: 1, StartedAt: began.Add(4170 * time.Millisecond), Duration: 10 * time.Second, Outcome: "error", ErrorClass: "timeout", HTTPStatus: 504, AtCap: true},
		{ID: "t2", OperationID: "o2", Layer: "framework", Source: "sibling", Ordinal: 2, StartedAt: began.Add(14970 * time.Millisecond), Duration: 6 * time.Second, Backoff: ptr(800 * time.Millisecond), Outcome: "error", ErrorClass: "overload", HTTPStatus: 503},
	}
	t.Spans = []Span{{ID: "00f067aa0ba902b7", Name: "invoke_agent planner", Kind: "SERVER", Service: "shop-assistant", Status: "UNSET", StartedAt: began, Duration: at, Attributes: map[string]string{"gen_ai.operation.name": "invoke_agent", "x": evil}}}
	return t
}
