package backtest

import (
	"fmt"
	"math"

	"driftline/detector/backtest/traffic"
)

// Scenario is one incident: the traffic before and in it, drawn from a seed.
type Scenario struct {
	Kind Kind
	// Number counts the kind's scenarios from 0, Seed is its own.
	Number int
	Seed   uint64
	// WarmMinutes is how much healthy traffic comes before the onset, MaxMinutes how long the
	// run may last.
	WarmMinutes, MaxMinutes int
	// OnsetSec and RampSec are in seconds since the start; severity 1 is reached at their sum.
	OnsetSec, RampSec float64
	// Step is the severity at the onset.
	Step   float64
	Power  float64
	Hit    *traffic.Agent
	Agents []*traffic.Agent
	effect effect
	target *traffic.Agent
}

// maxAfter bounds an incident: a kind whose 504s need longer shows as one without them.
const maxAfter = 150

// NewScenario draws a scenario. Two of one kind, number and base seed are the same.
func NewScenario(kind Kind, number int, base uint64, held bool) *Scenario {
	seed := seedOf(base, kind.Name, fmt.Sprint(number))
	d := newDraw(seed, held || kind.HeldOut)
	sc := &Scenario{Kind: kind, Number: number, Seed: seed, WarmMinutes: int(d.between(180, 260))}
	sc.OnsetSec = float64(sc.WarmMinutes)*60 + d.between(0, 300)
	sc.RampSec = 60 * d.between(kind.Ramp[0], kind.Ramp[1])
	if d.chance(0.3) {
		sc.Step = d.between(0.05, 0.25)
	}
	sc.Power = d.between(1, 1.4)
	sc.MaxMinutes = sc.WarmMinutes + maxAfter
	a := d.agent("orders", "planner")
	sc.Hit, sc.target = a, a
	sc.effect = kind.setup(d, a)
	for s := a; s != nil; s = s.Sub {
		sc.target = s // the last of a chain
	}
	d.fit(seed, a)
	sc.target.Shape = func(t float64, c *traffic.Conditions) {
		if s := sc.Severity(t); s > 0 {
			sc.effect(s, t, c)
		}
	}
	other := d.agent("support", "helper")
	other.PerMinute = d.scale(6, 20)
	d.fit(seed+1, other)
	sc.Agents = []*traffic.Agent{a, other}
	return sc
}

// Severity is the incident's at a time in seconds since the start.
func (sc *Scenario) Severity(t float64) float64 {
	if t < sc.OnsetSec {
		return 0
	}
	return min(6, sc.Step+math.Pow((t-sc.OnsetSec)/sc.RampSec, sc.Power))
}

// Name is the kind's name and the number.
func (sc *Scenario) Name() string { return fmt.Sprintf("%s/%d", sc.Kind.Name, sc.Number) }
