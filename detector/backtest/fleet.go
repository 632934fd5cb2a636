package backtest

import (
	"math"
	"slices"

	"driftline/detector/backtest/traffic"
	"driftline/internal/rows"
)

// agent draws a healthy agent. Its budget and gateway are set by fit.
func (d *draw) agent(service, name string) *traffic.Agent {
	a := &traffic.Agent{
		Service: service, Name: name, PerMinute: d.scale(8, 60), MeanSteps: d.between(2.5, 6), MaxSteps: 16, Retries: 2 + d.rng.IntN(2), Backoff: d.between(0.3, 0.8),
		Reports: d.chance(0.5), Version: "1.0", Daily: d.between(0.2, 0.5), Weekend: d.between(0.1, 0.5), Noise: d.between(0.03, 0.08), Peak: d.between(0, 24),
	}
	a.Model = traffic.Model{Name: "m1", Stream: d.chance(0.85), TTFT: d.scale(0.3, 0.9), TTFTSigma: 0.35, Prefill: d.scale(0.03, 0.1), Input: d.scale(1500, 6000), Cached: d.between(0.3, 0.8),
		Output: d.scale(60, 200), OutputSigma: 0.5, PerToken: d.between(0.01, 0.025), FailP: d.between(0.002, 0.015), FailSec: d.scale(0.3, 2), Servers: math.Round(d.scale(8, 40))}
	a.Model.Rho = d.between(0.4, 0.68) / (1 + a.Daily)
	for i, name := range []string{"search", "fetch", "sql"} {
		t := traffic.Tool{Name: name, Kind: rows.KindTool, Median: d.scale(0.3, 1.6), Sigma: d.between(0.5, 0.85), Weight: []float64{2, 1, 1}[i], FailP: d.between(0.005, 0.025), FailSec: d.scale(0.3, 2)}
		t.Cap = math.Round(max(8, 14*t.Median))
		a.Tools = append(a.Tools, t)
	}
	return a
}

// serviceSec is how long the model works on a usual call.
func serviceSec(m *traffic.Model) float64 {
	return m.TTFT + m.Prefill*m.Input*(1-m.Cached)/1000 + m.Output*m.PerToken
}

// fit sets caps, the budget and the gateway's limit from how long healthy requests take, as a
// team would: the budget somewhat over the 99.5th percentile, the gateway somewhat over that.
func (d *draw) fit(seed uint64, a *traffic.Agent) {
	for s := a; s != nil; s = s.Sub {
		if s.Model.Cap == 0 {
			s.Model.Cap = math.Round(max(20, d.between(7, 10)*serviceSec(&s.Model)))
		}
		s.Budget, s.Reserve = 1e5, 0
	}
	greedy := a.Greedy
	a.Greedy, a.Gateway = 0, 1e6
	c := &userTimes{}
	probe := *a
	probe.Shape, probe.PerMinute = nil, 120
	g := traffic.New(seed, []*traffic.Agent{&probe}, c)
	for m := range 25 {
		g.Minute(m * 60) // an hour apart, over the rhythm of the day
	}
	slices.Sort(c.seconds)
	high := c.seconds[len(c.seconds)*995/1000]
	a.Greedy = greedy
	a.Budget = math.Round(high * d.between(1.1, 1.4))
	a.Gateway = math.Round(a.Budget * d.between(1.15, 1.35))
	a.Reserve = 0.03 * a.Budget
	if greedy > 0 {
		a.Reserve = 0.25 * a.Budget
	}
	for s := a.Sub; s != nil; s = s.Sub {
		s.Budget, s.Reserve = a.Budget, a.Reserve
	}
}

// userTimes keeps how long requests took.
type userTimes struct{ seconds []float64 }

func (u *userTimes) Request(r *rows.Request) {
	u.seconds = append(u.seconds, float64(r.UserTimeNS)/1e9)
}
func (*userTimes) Operation(*rows.Operation) {}
func (*userTimes) Attempt(*rows.Attempt)     {}
