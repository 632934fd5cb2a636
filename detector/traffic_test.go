package detector_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"driftline/detector/memory"
	"driftline/internal/rows"
)

func ptr[T any](v T) *T { return &v }

// conditions say how traffic behaves in one minute.
type conditions struct {
	// toolRetry and chatRetry are the chances that an attempt fails and is retried.
	toolRetry, chatRetry float64
	// slowShare of model calls take slowFactor times as long.
	slowShare, slowFactor float64
	// share504 of requests end with HTTP 504.
	share504 float64
	// stepFactor multiplies the number of steps.
	stepFactor float64
}

var healthy = conditions{toolRetry: 0.025, chatRetry: 0.02, stepFactor: 1}

const perMinute = 40

// traffic makes rows of requests of an agent with a model and three tools. A
// planner is told the remaining time less what the agent knows of: its own time.
type traffic struct {
	rng *rand.Rand
	n   int
}

func (g *traffic) lognormal(mu, sigma float64) float64 {
	return math.Exp(mu + sigma*g.rng.NormFloat64())
}

func (g *traffic) steps(c conditions) int {
	var n int
	switch u := g.rng.Float64(); {
	case u < 0.6:
		n = 3 + g.rng.IntN(4)
	case u < 0.9:
		n = 7 + g.rng.IntN(8)
	default:
		n = 15 + g.rng.IntN(14)
	}
	return max(1, int(float64(n)*c.stepFactor))
}

// retried draws failed attempts before the last: their number, time and backoff in
// seconds.
func (g *traffic) retried(p float64) (n int, failed, backoff float64) {
	for n < 3 && g.rng.Float64() < p {
		n++
		failed += 1 + 2*g.lognormal(0, 0.4)
		backoff += 0.5 * math.Pow(2, float64(n-1))
	}
	return n, failed, backoff
}

func seconds(s float64) int64 { return int64(s * 1e9) }

func (g *traffic) operation(trace string, kind, target, stream string, end time.Time, work, failed, backoff float64, retries int) *rows.Operation {
	g.n++
	o := &rows.Operation{OperationID: fmt.Sprintf("o%d", g.n), RequestID: "r", Target: target, Stream: stream, Attempts: ptr(uint32(retries + 1))}
	o.ServiceName, o.TraceID, o.Revision = "shop", trace, 1
	o.Agent, o.Kind, o.Outcome, o.SampleWeight = "planner", kind, rows.OutcomeOK, 1
	o.EndedAt, o.UserTimeNS = end.UnixNano(), seconds(work+failed+backoff)
	o.StartedAt = o.EndedAt - o.UserTimeNS
	o.FailedAttemptNS, o.BackoffNS = seconds(failed), seconds(backoff)
	o.AgentTimeNS, o.AgentTimeSource = ptr(seconds(work)), rows.AgentTimeDerived
	o.HiddenPathNS, o.HiddenTotalNS = ptr(seconds(failed+backoff)), ptr(seconds(failed+backoff))
	o.InferenceTimeNS, o.TTFTState = ptr(seconds(work)), rows.TTFTNotApplicable
	return o
}

// minute makes the rows of requests that end in one minute.
func (g *traffic) minute(at time.Time, c conditions) (reqs []*rows.Request, ops []*rows.Operation) {
	for range perMinute {
		g.n++
		trace := fmt.Sprintf("%032x", g.n)
		end := at.Add(time.Duration(g.rng.Int64N(int64(time.Minute))))
		steps := g.steps(c)
		var known, hidden float64
		var retries int
		for range steps {
			chat := g.lognormal(0.15, 0.45)
			if g.rng.Float64() < c.slowShare {
				chat *= c.slowFactor
			}
			n, failed, backoff := g.retried(c.chatRetry)
			ops = append(ops, g.operation(trace, rows.KindChat, "m1", rows.StreamYes, end, chat, failed, backoff, n))
			known, hidden, retries = known+chat, hidden+failed+backoff, retries+n
			tool := g.lognormal(0.30, 0.85)
			n, failed, backoff = g.retried(c.toolRetry)
			name := []string{"search", "fetch", "sql"}[g.rng.IntN(3)]
			ops = append(ops, g.operation(trace, rows.KindTool, name, rows.StreamNo, end, tool, failed, backoff, n))
			known, hidden, retries = known+tool, hidden+failed+backoff, retries+n
		}
		r := &rows.Request{RequestID: "r", Operations: uint32(2 * steps), Steps: uint32(steps), ToolCalls: uint32(steps),
			Attempts: ptr(uint32(2*steps + retries)), Retries: ptr(uint32(retries)), DecisionPoints: uint32(steps), ReleaseReason: rows.ReleaseRoot}
		r.ServiceName, r.TraceID, r.Revision = "shop", trace, 1
		r.Agent, r.Kind, r.Outcome, r.SampleWeight = "planner", rows.KindAgent, rows.OutcomeOK, 1
		r.EndedAt, r.UserTimeNS = end.UnixNano(), seconds(known+hidden)
		r.StartedAt = r.EndedAt - r.UserTimeNS
		r.AgentTimeNS, r.AgentTimeSource = ptr(seconds(known)), rows.AgentTimeReported
		r.HiddenPathNS, r.HiddenTotalNS, r.DriftNS = ptr(seconds(hidden)), ptr(seconds(hidden)), ptr(seconds(hidden))
		r.BudgetNS, r.DeadlineMissed = ptr(seconds(120)), ptr(known+hidden > 120)
		if g.rng.Float64() < c.share504 {
			r.Outcome, r.ErrorClass, r.HTTPStatus = rows.OutcomeError, rows.ClassTimeout, 504
		}
		reqs = append(reqs, r)
	}
	return reqs, ops
}

// into makes a minute's rows and stores them.
func (g *traffic) into(s *memory.Store, at time.Time, c conditions) {
	reqs, ops := g.minute(at, c)
	put(s, reqs, ops)
}
