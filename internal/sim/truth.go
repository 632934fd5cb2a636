package sim

import "time"

// Truth is what a detector is measured against. Instants that do not apply to the
// scenario, or have not happened yet, are zero.
type Truth struct {
	Scenario Scenario
	Seed     uint64
	// T0 is the end of the healthy history.
	T0 time.Time
	// ToolFlakyAt, InferenceSpreadAt and GatewayTimeoutsAt are the starts of the three
	// phases of an incident; LongerTasksAt is that of ScenarioMoreSteps. FaultsEndAt is
	// when all of it stops.
	ToolFlakyAt       time.Time
	InferenceSpreadAt time.Time
	GatewayTimeoutsAt time.Time
	LongerTasksAt     time.Time
	FaultsEndAt       time.Time
	// Service, Agent, Tool, Model and Gateway are what an incident touches, and
	// GatewayCap the time after which the gateway answers 504. Empty without a fault;
	// ScenarioMoreSteps has only Service and Agent.
	Service, Agent, Tool, Model, Gateway string
	GatewayCap                           time.Duration

	// KnownUntil is how far the fields below are known: all that ended before it has
	// been played.
	KnownUntil time.Time
	// First504At is the end of the first request of Service that answered 504 once the
	// gateway's timeouts had begun.
	First504At time.Time
	// Alert504At is when the share of the affected service's requests ending in 504 had
	// exceeded 5 % in each of two consecutive UTC minutes: the end of the second.
	Alert504At time.Time
	// ModelAlert504At is the same for that service's calls of the affected model.
	ModelAlert504At time.Time
}

func plannedTruth(c Config) Truth {
	at := func(d time.Duration) time.Time { return c.Start.Add(c.HealthyFor + d) }
	t := Truth{Scenario: c.Scenario, Seed: c.Seed, T0: at(0), KnownUntil: c.Start}
	tl := c.Timeline
	switch c.Scenario {
	case ScenarioIncident:
		t.ToolFlakyAt, t.InferenceSpreadAt, t.GatewayTimeoutsAt = at(tl.ToolAt), at(tl.SpreadAt), at(tl.TimeoutsAt)
		t.FaultsEndAt = at(tl.FaultsFor)
		t.Service, t.Agent, t.Tool, t.Model = ServiceAffected, AgentAffected, ToolAffected, ModelAffected
		t.Gateway, t.GatewayCap = GatewayAffected, tl.GatewayCap
	case ScenarioMoreSteps:
		t.LongerTasksAt, t.FaultsEndAt = at(tl.LongerAt), at(tl.FaultsFor)
		t.Service, t.Agent = ServiceAffected, AgentAffected
	}
	return t
}

// share504 finds the first two consecutive minutes whose share of 504s is above 5 %.
// It keeps only minutes that are not over yet.
type share504 struct {
	minutes map[int64]*minuteCount
	next    int64 // the first minute not judged yet
	above   int   // consecutive minutes above, up to the last judged
	alertAt int64 // Unix nanoseconds; 0 is never
}

type minuteCount struct{ n, timeouts int }

func newShare504(start int64) *share504 {
	return &share504{minutes: map[int64]*minuteCount{}, next: start / int64(time.Minute)}
}

func (s *share504) add(e ending) {
	m := e.at / int64(time.Minute)
	c := s.minutes[m]
	if c == nil {
		c = &minuteCount{}
		s.minutes[m] = c
	}
	c.n++
	if e.timeout {
		c.timeouts++
	}
}

// advance judges the minutes that ended at or before `known`; nothing that is added
// later may have ended before it.
func (s *share504) advance(known int64) {
	for ; (s.next+1)*int64(time.Minute) <= known; s.next++ {
		c := s.minutes[s.next]
		delete(s.minutes, s.next)
		if c == nil || c.timeouts*20 <= c.n {
			s.above = 0
			continue
		}
		s.above++
		if s.above == 2 && s.alertAt == 0 {
			s.alertAt = (s.next + 1) * int64(time.Minute)
		}
	}
}
