package traffic

import (
	"math"
	"math/rand/v2"
)

// tick is how long conditions stay the same, in seconds.
const tick = 5.0

// timeline computes an agent's conditions in order of time and keeps those of the last
// minutes: a request reads them at its own pace, never far ahead of the arrivals.
type timeline struct {
	agent *Agent
	rng   *rand.Rand
	base  int
	ticks []Conditions
	// wander is the slow movement of the load, backlog the work in seconds that waits.
	wander, backlog float64
}

func newTimeline(a *Agent, seed, stream uint64) *timeline {
	return &timeline{agent: a, rng: rand.New(rand.NewPCG(seed, stream^0x7157))}
}

// at gives the conditions at t seconds since the start.
func (l *timeline) at(t float64) *Conditions {
	i := int(t/tick) - l.base
	for i >= len(l.ticks) {
		l.ticks = append(l.ticks, l.next(float64(l.base+len(l.ticks))*tick))
	}
	return &l.ticks[max(0, i)]
}

// forget drops what lies before t.
func (l *timeline) forget(t float64) {
	if n := int(t/tick) - l.base; n > 256 {
		l.ticks = append(l.ticks[:0], l.ticks[n:]...)
		l.base += n
	}
}

func (l *timeline) next(t float64) Conditions {
	a := l.agent
	c := a.conditions()
	// An autoregressive wander with a memory of about 20 minutes.
	const keep = 1 - tick/1200
	l.wander = keep*l.wander + math.Sqrt(1-keep*keep)*a.Noise*l.rng.NormFloat64()
	c.Load = cycle(a, t) * math.Exp(l.wander-a.Noise*a.Noise/2)
	if a.Shape != nil {
		a.Shape(t, &c)
	}
	l.queue(&c)
	return c
}

// cycle is the load's daily and weekly rhythm, on average about 1.
func cycle(a *Agent, t float64) float64 {
	hour := math.Mod(t/3600, 24)
	v := 1 + a.Daily*math.Cos((hour-a.Peak)/24*2*math.Pi)
	if day := int(t/86400) % 7; day >= 5 {
		v *= 1 - a.Weekend
	}
	return max(v, 0.05)
}

// serviceSec is the mean time that the model's backend works on a call.
func (a *Agent) serviceSec(c *Call) float64 {
	m := &a.Model
	return m.TTFT*c.Scale + m.Prefill*c.Prefill*m.Input*c.Input*(1-c.Cached)/1000 + m.Output*c.Output*m.PerToken*c.PerToken*c.Scale
}

// queue moves the backlog of the model's backend on by a tick: Lindley's recursion in slots of
// a second over the work of all its callers, whose number per slot is Poisson. An attempt that
// its cap ends before it is served leaves its work and comes again, which is how an overload
// feeds itself.
func (l *timeline) queue(c *Conditions) {
	m := &l.agent.Model
	if m.Rho <= 0 {
		return
	}
	healthy := l.agent.conditions()
	servers := m.Servers * max(c.Model.Servers, 0.05)
	usual, service := l.agent.serviceSec(&healthy.Model), l.agent.serviceSec(&c.Model)
	calls := m.Rho * m.Servers / usual * c.Load * c.Model.Demand // per second
	for range int(tick) {
		wait := l.backlog / servers
		again := 0.0
		if late := (wait + 2*service) / c.Model.Cap; late > 1 {
			again = min(late-1, 1) * float64(l.agent.Retries)
		}
		rate := calls * (1 + again) * (1 + c.Model.FailP)
		if c.Model.Hedge > 0 {
			rate *= 1 + min(1, math.Exp(-max(0, c.Model.Hedge-wait)/service))
		}
		// The work of a call is about exponential: variance twice the square of its mean.
		work := rate*service + math.Sqrt(2*rate)*service*l.rng.NormFloat64()
		l.backlog = min(max(0, l.backlog+max(0, work)-servers), 300*servers)
	}
	c.Model.Wait += l.backlog / servers
}
