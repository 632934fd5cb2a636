package sim

import "time"

// faults tells how likely each fault is at an instant. The zero value has none.
type faults struct {
	scenario Scenario
	tl       Timeline
	t0, end  int64 // Unix nanoseconds
}

func newFaults(c Config) faults {
	t0 := c.Start.Add(c.HealthyFor)
	return faults{scenario: c.Scenario, tl: c.Timeline, t0: t0.UnixNano(), end: t0.Add(c.Timeline.FaultsFor).UnixNano()}
}

// ramp is peak times the part of `over` that has passed since t0+at; 0 before that
// and after the faults end.
func (f *faults) ramp(now int64, at, over time.Duration, peak float64) float64 {
	since := now - f.t0 - int64(at)
	switch {
	case since < 0 || now >= f.end:
		return 0
	case since >= int64(over):
		return peak
	}
	return peak * float64(since) / float64(over)
}

func (f *faults) toolFails(now int64) float64 {
	if f.scenario != ScenarioIncident {
		return 0
	}
	return f.ramp(now, f.tl.ToolAt, f.tl.ToolRamp, f.tl.ToolFailShare)
}

func (f *faults) spreads(now int64) float64 {
	if f.scenario != ScenarioIncident {
		return 0
	}
	return f.ramp(now, f.tl.SpreadAt, f.tl.SpreadRamp, f.tl.SpreadShare)
}

func (f *faults) timesOut(now int64) float64 {
	if f.scenario != ScenarioIncident {
		return 0
	}
	return f.ramp(now, f.tl.TimeoutsAt, f.tl.TimeoutRamp, f.tl.TimeoutShare)
}

func (f *faults) longer(now int64) float64 {
	if f.scenario != ScenarioMoreSteps {
		return 0
	}
	return f.ramp(now, f.tl.LongerAt, f.tl.LongerRamp, 1)
}
