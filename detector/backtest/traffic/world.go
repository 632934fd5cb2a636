package traffic

import "driftline/internal/rows"

// Start is when every run begins, in Unix seconds: a Monday at 00:00 UTC.
const Start = 1772409600

// MaxTools is how many tools an agent may have.
const MaxTools = 4

// Tool is a tool of an agent.
type Tool struct {
	Name string
	// Kind is rows.KindTool or rows.KindRetrieval.
	Kind string
	// Median is its working time in seconds, Sigma the standard deviation of its logarithm.
	Median, Sigma float64
	// Weight is how often it is called beside the others.
	Weight float64
	// FailP is how many attempts fail in healthy times, FailSec how long such a one takes.
	FailP, FailSec float64
	// Cap ends an attempt, in seconds.
	Cap float64
}

// Model is the model that an agent calls.
type Model struct {
	Name   string
	Stream bool
	// TTFT is the median time to the first token in seconds, without prefill and queue.
	TTFT, TTFTSigma float64
	// Prefill is in seconds for 1000 tokens that no cache holds.
	Prefill float64
	// Input is the median of the first call's prompt in tokens; each step adds a tenth.
	Input, Cached float64
	// Output is the median answer in tokens, PerToken the time for one in seconds.
	Output, OutputSigma, PerToken float64
	FailP, FailSec                float64
	Cap                           float64
	// Servers and Rho are the backend's size and its utilisation at load 1.
	Servers, Rho float64
	// Hedge is after how long a second attempt is sent beside the first, in seconds; 0 is never.
	Hedge float64
}

// Agent is one agent and the service that it runs in.
type Agent struct {
	Service, Name string
	// PerMinute is the mean rate of requests at load 1.
	PerMinute float64
	// MeanSteps and MaxSteps shape the number of steps.
	MeanSteps float64
	MaxSteps  int
	Model     Model
	Tools     []Tool
	// Retries is how many attempts may follow the first, Framework how many times the agent's
	// framework calls again after that.
	Retries, Framework int
	// Backoff is the wait before the second attempt in seconds; it doubles.
	Backoff float64
	// Budget is what a request may take, which planners are told; Gateway ends it with a 504.
	// Both are in seconds.
	Budget, Gateway float64
	// Greedy is the share of requests that go on as long as their planner believes that there
	// is time, less Reserve seconds.
	Greedy, Reserve float64
	// Reports says that requests state the agent's own time.
	Reports bool
	// Sub is an agent that some steps call in place of a tool, and SubShare how many.
	Sub      *Agent
	SubShare float64
	Version  string
	// Daily and Weekend shape the load; Noise is the standard deviation of its slow wander.
	Daily, Weekend, Noise float64
	// Peak is the hour of the day with the highest load.
	Peak float64
	// Shape is what happens to it; it may be nil.
	Shape Shape
}

// Sink takes rows. They are valid only during the call.
type Sink interface {
	Request(r *rows.Request)
	Operation(o *rows.Operation)
	Attempt(a *rows.Attempt)
}

// Call says under which conditions calls of one kind are made at a time.
type Call struct {
	// Scale multiplies the working time, and SlowScale that of SlowShare of the calls.
	Scale                float64
	SlowShare, SlowScale float64
	// FailP is the chance that an attempt fails, FailSec how long that takes in seconds, and
	// Status its HTTP status.
	FailP, FailSec float64
	Status         uint16
	// RetryAfter is what a failed attempt's answer asks callers to wait, in seconds.
	RetryAfter float64
	// StallShare of attempts stand still for about StallSec seconds before they begin.
	StallShare, StallSec float64
	// ConnectShare of attempts need about ConnectSec seconds more to connect, which spans show.
	ConnectShare, ConnectSec float64
	// Wait is the backlog's wait in seconds, which spans do not show.
	Wait float64
	Cap  float64
	// NewCap is the cap of requests on the next version, 0 the same.
	NewCap float64
	// The rest is for models. Input and Output multiply tokens, PerToken and Prefill their
	// times; Cached is the share of prompts that caches hold.
	Input, Output, PerToken, Prefill, Cached float64
	// MidShare of answers stand still for about MidSec seconds on their way.
	MidShare, MidSec float64
	// Servers is the backend's size as a share of its usual one, Demand what others ask of it
	// as a multiple of the usual.
	Servers, Demand float64
	Hedge           float64
}

// Conditions are those of one agent at a time.
type Conditions struct {
	// Load multiplies arrivals, Steps the length of tasks.
	Load, Steps float64
	Model       Call
	Tools       [MaxTools]Call
	// Stale is how many seconds too many planners are told they have, ResetP the chance at a
	// step that the remaining time is reset to the whole budget.
	Stale, ResetP float64
	// NewShare of requests run on the next version.
	NewShare float64
	// Outlier is the chance that a request meets a call that takes a hundred times as long.
	Outlier float64
}

// Shape changes an agent's conditions at a time in seconds since the start.
type Shape func(t float64, c *Conditions)

func (a *Agent) conditions() Conditions {
	m := &a.Model
	c := Conditions{Load: 1, Steps: 1, Model: Call{Scale: 1, SlowScale: 1, FailP: m.FailP, FailSec: m.FailSec, Status: 503, Cap: m.Cap,
		Input: 1, Output: 1, PerToken: 1, Prefill: 1, Cached: m.Cached, Servers: 1, Demand: 1, Hedge: m.Hedge}}
	for i, t := range a.Tools {
		c.Tools[i] = Call{Scale: 1, SlowScale: 1, FailP: t.FailP, FailSec: t.FailSec, Status: 503, Cap: t.Cap, Servers: 1, Demand: 1}
	}
	return c
}
