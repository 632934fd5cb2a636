package sim

import (
	"errors"
	"fmt"
	"time"
)

// Scenario names what happens after the healthy history.
type Scenario string

// The scenarios. In all of them stuck tool calls and a little background trouble
// exist, as in any real service.
const (
	// ScenarioHealthy stays healthy.
	ScenarioHealthy Scenario = "healthy"
	// ScenarioIncident plays the three phases of Timeline.
	ScenarioIncident Scenario = "incident"
	// ScenarioMoreSteps makes tasks longer; every call stays as fast as before, so an
	// alert on it is a false one.
	ScenarioMoreSteps Scenario = "more-steps"
)

// Scenarios lists every scenario.
func Scenarios() []Scenario {
	return []Scenario{ScenarioHealthy, ScenarioIncident, ScenarioMoreSteps}
}

// Rates says how much traffic there is and how much ordinary trouble it meets. A
// Rates that is wholly zero means DefaultRates; to set one field to zero, change a
// copy of DefaultRates. Shares are of calls, from 0 to 1.
type Rates struct {
	// RequestsPerMinute and BystanderPerMinute are Poisson arrival rates of the
	// affected service and of the one that has nothing to do with the fault.
	RequestsPerMinute  float64
	BystanderPerMinute float64
	// RetryShare of the calls get one 429 or 503 and succeed on the second attempt,
	// after a backoff of 0.5 to 2 s.
	RetryShare float64
	// ToolErrorShare of the tool calls end with a 404 that the agent sees.
	ToolErrorShare float64
	// ModelErrorShare of the model calls end with a 400, which fails the request.
	ModelErrorShare float64
	// Model504Share of the model calls end with a 504 at the gateway's cap, faults apart.
	Model504Share float64
}

// DefaultRates are 40 requests a minute (and 8 to the bystander), 2.5 % of calls
// retried once, and rare errors.
func DefaultRates() Rates {
	return Rates{
		RequestsPerMinute:  40,
		BystanderPerMinute: 8,
		RetryShare:         0.025,
		ToolErrorShare:     0.002,
		ModelErrorShare:    0.0002,
		Model504Share:      0.0001,
	}
}

// Timeline says when, how fast and how hard the faults of a scenario come. Offsets
// count from the end of the healthy history (t0). A Timeline that is wholly zero means
// DefaultTimeline.
type Timeline struct {
	// Phase 1: attempts of one tool answer 503 with a probability that climbs from 0 at
	// ToolAt to ToolFailShare within ToolRamp. Its client retries, hidden from the
	// planner, with a backoff of ToolBackoff doubling each time, at most ToolRetries.
	ToolAt        time.Duration
	ToolRamp      time.Duration
	ToolFailShare float64
	ToolRetries   int
	ToolBackoff   time.Duration
	// Phase 2: from SpreadAt a share of one model's calls, climbing to SpreadShare
	// within SpreadRamp, takes SpreadMin to SpreadMax times as long. None fails.
	SpreadAt             time.Duration
	SpreadRamp           time.Duration
	SpreadShare          float64
	SpreadMin, SpreadMax float64
	// Phase 3: from TimeoutsAt a share of that model's calls, climbing to TimeoutShare
	// within TimeoutRamp, hangs until the gateway answers 504 at GatewayCap.
	TimeoutsAt   time.Duration
	TimeoutRamp  time.Duration
	TimeoutShare float64
	GatewayCap   time.Duration
	// LongerAt and LongerRamp are for ScenarioMoreSteps: when tasks start to become
	// longer and until when all new tasks are.
	LongerAt   time.Duration
	LongerRamp time.Duration
	// FaultsFor after t0 every fault ends at once.
	FaultsFor time.Duration
}

// DefaultTimeline has the tool turn flaky at t0 (half of its attempts after 3 min),
// inference spread from +4 min, 504s from +10 min and the end at +30 min.
func DefaultTimeline() Timeline {
	return Timeline{
		ToolRamp:      3 * time.Minute,
		ToolFailShare: 0.50,
		ToolRetries:   3,
		ToolBackoff:   2 * time.Second,
		SpreadAt:      4 * time.Minute,
		SpreadRamp:    3 * time.Minute,
		SpreadShare:   0.40,
		SpreadMin:     4,
		SpreadMax:     10,
		TimeoutsAt:    10 * time.Minute,
		TimeoutRamp:   4 * time.Minute,
		TimeoutShare:  0.12,
		GatewayCap:    30 * time.Second,
		LongerRamp:    3 * time.Minute,
		FaultsFor:     30 * time.Minute,
	}
}

// DefaultBudget is the request budget that callers of the agent promise their users.
// With it about 5 healthy requests in 10,000 miss, and nearly all of the stuck ones.
const DefaultBudget = 120 * time.Second

// Config is all that a simulation depends on.
type Config struct {
	Seed uint64
	// Start is the instant of the first possible arrival.
	Start    time.Time
	Scenario Scenario
	// HealthyFor is the length of the healthy history before t0. Zero means that the
	// faults begin at Start.
	HealthyFor time.Duration
	Rates      Rates
	Timeline   Timeline
	// Budget is the request budget of the affected service; zero means DefaultBudget.
	Budget time.Duration
	// Instances is how many processes the affected service has, each with its own span
	// exporter; zero means 2.
	Instances int
	// ExportEvery is how often a process exports the spans that have ended; zero means
	// 1 s.
	ExportEvery time.Duration
}

func (c Config) withDefaults() Config {
	if c.Rates == (Rates{}) {
		c.Rates = DefaultRates()
	}
	if c.Timeline == (Timeline{}) {
		c.Timeline = DefaultTimeline()
	}
	if c.Budget == 0 {
		c.Budget = DefaultBudget
	}
	if c.Instances == 0 {
		c.Instances = 2
	}
	if c.ExportEvery == 0 {
		c.ExportEvery = time.Second
	}
	return c
}

// validate names every problem of a config whose defaults are filled in.
func (c Config) validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{key}, args...)...))
	}
	if c.Start.IsZero() {
		bad("Start", "is not set; give the instant of the first arrival")
	} else if y := c.Start.Year(); y < 1970 || y > 2200 {
		bad("Start", "year %d does not fit Unix nanoseconds; use 1970 to 2200", y)
	}
	switch c.Scenario {
	case ScenarioHealthy, ScenarioIncident, ScenarioMoreSteps:
	default:
		bad("Scenario", "%q is unknown; use one of %v", c.Scenario, Scenarios())
	}
	r, t := c.Rates, c.Timeline
	for _, x := range []struct {
		key   string
		value float64
	}{
		{"Rates.RetryShare", r.RetryShare}, {"Rates.ToolErrorShare", r.ToolErrorShare}, {"Rates.ModelErrorShare", r.ModelErrorShare},
		{"Rates.Model504Share", r.Model504Share}, {"Timeline.ToolFailShare", t.ToolFailShare},
		{"Timeline.SpreadShare", t.SpreadShare}, {"Timeline.TimeoutShare", t.TimeoutShare},
	} {
		if !(x.value >= 0 && x.value <= 1) {
			bad(x.key, "%v is not a share; use 0 to 1", x.value)
		}
	}
	for _, x := range []struct {
		key   string
		value float64
	}{{"Rates.RequestsPerMinute", r.RequestsPerMinute}, {"Rates.BystanderPerMinute", r.BystanderPerMinute}} {
		if !(x.value >= 0 && x.value <= 1e6) {
			bad(x.key, "%v is out of range; use 0 to 1000000", x.value)
		}
	}
	for _, x := range []struct {
		key   string
		value time.Duration
	}{
		{"HealthyFor", c.HealthyFor}, {"Timeline.ToolAt", t.ToolAt}, {"Timeline.ToolRamp", t.ToolRamp}, {"Timeline.ToolBackoff", t.ToolBackoff},
		{"Timeline.SpreadAt", t.SpreadAt}, {"Timeline.SpreadRamp", t.SpreadRamp}, {"Timeline.TimeoutsAt", t.TimeoutsAt},
		{"Timeline.TimeoutRamp", t.TimeoutRamp}, {"Timeline.LongerAt", t.LongerAt}, {"Timeline.LongerRamp", t.LongerRamp},
		{"Timeline.FaultsFor", t.FaultsFor},
	} {
		if x.value < 0 {
			bad(x.key, "%v is negative; use 0 or more", x.value)
		}
	}
	if t.GatewayCap < time.Second {
		bad("Timeline.GatewayCap", "%v is too short; use 1s or more", t.GatewayCap)
	}
	if t.ToolRetries < 0 || t.ToolRetries > 10 {
		bad("Timeline.ToolRetries", "%d is out of range; use 0 to 10", t.ToolRetries)
	}
	if !(t.SpreadMin >= 1 && t.SpreadMax >= t.SpreadMin && t.SpreadMax <= 1000) {
		bad("Timeline.SpreadMin, Timeline.SpreadMax", "%v, %v are not factors; use 1 <= min <= max <= 1000", t.SpreadMin, t.SpreadMax)
	}
	if c.Budget < time.Second {
		bad("Budget", "%v is too short; use 1s or more", c.Budget)
	}
	if c.Instances < 1 || c.Instances > 1000 {
		bad("Instances", "%d is out of range; use 1 to 1000", c.Instances)
	}
	if c.ExportEvery < 100*time.Millisecond || c.ExportEvery > time.Minute {
		bad("ExportEvery", "%v is out of range; use 100ms to 1m", c.ExportEvery)
	}
	if len(errs) > 0 {
		return fmt.Errorf("simulator config: %w", errors.Join(errs...))
	}
	return nil
}
