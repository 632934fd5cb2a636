package backtest

import (
	"math"

	"driftline/detector/backtest/traffic"
	"driftline/internal/rows"
)

// effect changes conditions at severity s, which is 0 before the onset, about 1 at the end of
// the ramp, and grows on. t is in seconds since the start.
type effect func(s, t float64, c *traffic.Conditions)

// Kind is a kind of incident: how its agent is made and what its severity does.
type Kind struct {
	Name string
	// Text says in a sentence what goes wrong.
	Text string
	// HeldOut kinds are never looked at while the detector is tuned.
	HeldOut bool
	// Ramp is the range of minutes until severity 1.
	Ramp [2]float64
	// Outage says that rows stop to come: the truth is silence, not latency.
	Outage bool
	setup  func(d *draw, a *traffic.Agent) effect
}

// Kinds lists all kinds of incidents in a fixed order.
func Kinds() []Kind { return append(append([]Kind{}, tuned...), heldOut...) }

var quick, slow, usual = [2]float64{12, 30}, [2]float64{40, 80}, [2]float64{18, 45}

var tuned = []Kind{
	{Name: "tool_503_storm", Text: "attempts of one tool fail with 503, more and more, and slower", Ramp: usual, setup: tool503},
	{Name: "gradual_drift", Text: "all tools fail a little more each minute; retries hide it", Ramp: slow, setup: gradualDrift},
	{Name: "nested_retry_storm", Text: "a failing model is retried by the client and again by the framework", Ramp: usual, setup: nestedRetries},
	{Name: "prefill_growth", Text: "prompts grow without bound", Ramp: usual, setup: prefillGrowth},
	{Name: "queueing", Text: "a model's backend goes from a utilisation of 0.85 past 0.99", Ramp: usual, setup: queueing},
	{Name: "idle_connection_stalls", Text: "calls on connections that a middlebox dropped stand still", Ramp: usual, setup: idleStalls},
	{Name: "dns_tls_stall", Text: "connecting takes seconds for a growing share of calls", Ramp: usual, setup: dnsStall},
	{Name: "bad_region", Text: "one of three regions of a model slows down", Ramp: usual, setup: badRegion},
	{Name: "stale_planner_budgets", Text: "planners are told a remaining time that is old", Ramp: usual, setup: staleBudgets},
	{Name: "budget_reset", Text: "steps get the whole budget again", Ramp: usual, setup: budgetReset},
	{Name: "cascade_three_agents", Text: "the last agent of a chain of three slows down", Ramp: usual, setup: cascade},
	{Name: "cap_lowered_by_deploy", Text: "a deploy lowers the cap of model calls below what they need", Ramp: quick, setup: capLowered},
	{Name: "cold_start", Text: "calls meet replicas that still load their weights", Ramp: usual, setup: coldStart},
	{Name: "cache_hit_collapse", Text: "prompt caches are missed", Ramp: usual, setup: cacheCollapse},
	{Name: "ladder_429", Text: "the provider limits the rate and asks to wait longer and longer", Ramp: usual, setup: ladder429},
	{Name: "streaming_stalls", Text: "answers stand still on their way", Ramp: usual, setup: streamingStalls},
	{Name: "slow_decode", Text: "tokens are generated more slowly", Ramp: usual, setup: slowDecode},
	{Name: "low_traffic_failure", Text: "a tool of an agent with few requests fails", Ramp: usual, setup: lowTraffic},
	{Name: "collector_outage", Text: "no rows come from a service any more", Ramp: quick, Outage: true, setup: outage},
	{Name: "slow_tool", Text: "a tool works more slowly", Ramp: usual, setup: slowTool},
	{Name: "pool_exhaustion", Text: "calls wait for a free connection", Ramp: usual, setup: poolExhaustion},
	{Name: "model_swap", Text: "a deploy routes requests to a slower model with longer answers", Ramp: quick, setup: modelSwap},
	{Name: "noisy_neighbour", Text: "bursts of a neighbour's load slow the model down", Ramp: usual, setup: noisyNeighbour},
	{Name: "retrieval_degradation", Text: "a search index serves more and more queries from disk", Ramp: usual, setup: retrievalDegradation},
}

func share(x float64) float64 { return min(max(x, 0), 0.95) }

func tool503(d *draw, a *traffic.Agent) effect {
	p, slower := d.between(0.35, 0.6), d.between(0.5, 2)
	a.Retries, a.Backoff, a.Tools[0].Weight = 4, d.between(0.6, 1.2), 3
	return func(s, _ float64, c *traffic.Conditions) {
		c.Tools[0].FailP = share(c.Tools[0].FailP + p*s)
		c.Tools[0].FailSec *= 1 + slower*s
	}
}

func gradualDrift(d *draw, a *traffic.Agent) effect {
	p, slower := d.between(0.25, 0.5), d.between(0.5, 2)
	a.Retries, a.Backoff = 4, d.between(0.6, 1.2)
	return func(s, _ float64, c *traffic.Conditions) {
		for i := range a.Tools {
			c.Tools[i].FailP = share(c.Tools[i].FailP + p*s)
			c.Tools[i].FailSec *= 1 + slower*s
		}
	}
}

func nestedRetries(d *draw, a *traffic.Agent) effect {
	p, slower := d.between(0.3, 0.5), d.between(0.3, 1.5)
	a.Framework = 2
	return func(s, _ float64, c *traffic.Conditions) {
		c.Model.FailP = share(c.Model.FailP + p*s)
		c.Model.FailSec *= 1 + slower*s
	}
}

func prefillGrowth(d *draw, a *traffic.Agent) effect {
	more := d.between(3, 8)
	a.Model.Input, a.Model.Prefill, a.Model.Rho = d.scale(5000, 15000), d.between(0.15, 0.4), d.between(0.05, 0.15)
	return func(s, _ float64, c *traffic.Conditions) { c.Model.Input *= 1 + more*s }
}

func queueing(d *draw, a *traffic.Agent) effect {
	from, rise := d.between(0.82, 0.88), d.between(0.1, 0.16)
	return func(s, _ float64, c *traffic.Conditions) {
		if s > 0 {
			c.Model.Demand = (from + rise*s) / (a.Model.Rho * c.Load)
		}
	}
}

func idleStalls(d *draw, _ *traffic.Agent) effect {
	p, sec := d.between(0.08, 0.2), d.between(8, 25)
	return func(s, _ float64, c *traffic.Conditions) {
		c.Model.StallShare, c.Model.StallSec = share(p*s), sec
	}
}

func dnsStall(d *draw, a *traffic.Agent) effect {
	p, sec := d.between(0.2, 0.4), d.between(4, 10)
	return func(s, _ float64, c *traffic.Conditions) {
		c.Model.ConnectShare, c.Model.ConnectSec = share(p*s), sec
		c.Tools[0].ConnectShare, c.Tools[0].ConnectSec = share(p*s), sec
	}
}

func badRegion(d *draw, _ *traffic.Agent) effect {
	rise := d.between(3, 8)
	return func(s, _ float64, c *traffic.Conditions) {
		c.Model.SlowShare, c.Model.SlowScale = 1.0/3, 1+rise*s
	}
}

func staleBudgets(d *draw, a *traffic.Agent) effect {
	rise := d.between(0.3, 0.6)
	a.Greedy = d.between(0.1, 0.25)
	return func(s, _ float64, c *traffic.Conditions) { c.Stale = rise * s * a.Budget }
}

func budgetReset(d *draw, a *traffic.Agent) effect {
	p := d.between(0.015, 0.05)
	a.Greedy = d.between(0.1, 0.25)
	return func(s, _ float64, c *traffic.Conditions) { c.ResetP = share(p * s) }
}

// cascade slows the last agent of a chain; the effect on the first is nothing.
func cascade(d *draw, a *traffic.Agent) effect {
	rise := d.between(4, 10)
	a.MeanSteps, a.SubShare = d.between(2, 3.5), 0.6
	middle, last := d.agent(a.Service, "researcher"), d.agent(a.Service, "reader")
	middle.MeanSteps, middle.SubShare, middle.Sub = d.between(2, 3), 0.6, last
	last.MeanSteps = d.between(2, 3)
	a.Sub = middle
	return func(s, _ float64, c *traffic.Conditions) { c.Tools[0].Scale *= 1 + rise*s }
}

func capLowered(d *draw, a *traffic.Agent) effect {
	usual := serviceSec(&a.Model)
	at, falls := d.between(0.9, 1.2), d.between(0.2, 0.35)
	a.Retries, a.Backoff = 4, d.between(1, 2)
	return func(s, _ float64, c *traffic.Conditions) {
		c.NewShare = min(1, s*1.5)
		c.Model.NewCap = usual * max(0.35, at-falls*s)
	}
}

func coldStart(d *draw, _ *traffic.Agent) effect {
	p, sec, period := d.between(0.06, 0.15), d.between(15, 40), d.between(120, 400)
	return func(s, t float64, c *traffic.Conditions) {
		c.Model.StallShare, c.Model.StallSec = share(p*s*(1+0.7*math.Sin(2*math.Pi*t/period))), sec
	}
}

func cacheCollapse(d *draw, a *traffic.Agent) effect {
	a.Model.Input, a.Model.Prefill, a.Model.Cached, a.Model.Rho = d.scale(15000, 40000), d.between(0.12, 0.3), d.between(0.8, 0.9), d.between(0.05, 0.15)
	crowd := d.between(0.5, 1.5)
	return func(s, _ float64, c *traffic.Conditions) {
		c.Model.Cached *= 1 - min(1, s)
		c.Model.Prefill *= 1 + crowd*max(0, s-1)
	}
}

func ladder429(d *draw, _ *traffic.Agent) effect {
	p, wait := d.between(0.25, 0.45), d.between(4, 9)
	return func(s, _ float64, c *traffic.Conditions) {
		if s > 0 {
			c.Model.FailP, c.Model.FailSec, c.Model.Status, c.Model.RetryAfter = share(c.Model.FailP+p*s), 0.15, 429, 1+wait*s
		}
	}
}

func streamingStalls(d *draw, a *traffic.Agent) effect {
	p, sec := d.between(0.1, 0.3), d.between(8, 20)
	a.Model.Stream = true
	return func(s, _ float64, c *traffic.Conditions) { c.Model.MidShare, c.Model.MidSec = share(p*s), sec }
}

func slowDecode(d *draw, a *traffic.Agent) effect {
	rise := d.between(1.5, 4)
	a.Model.Rho, a.Model.Stream = d.between(0.05, 0.15), true
	return func(s, _ float64, c *traffic.Conditions) { c.Model.PerToken *= 1 + rise*s }
}

func lowTraffic(d *draw, a *traffic.Agent) effect {
	a.PerMinute, a.Noise = d.between(4, 7), 0.03
	return tool503(d, a)
}

func outage(d *draw, a *traffic.Agent) effect {
	a.PerMinute = d.between(10, 60)
	return func(float64, float64, *traffic.Conditions) {}
}

func slowTool(d *draw, a *traffic.Agent) effect {
	rise := d.between(3, 8)
	a.Tools[0].Cap = math.Round(a.Tools[0].Cap * d.between(1.5, 3))
	return func(s, _ float64, c *traffic.Conditions) { c.Tools[0].Scale *= 1 + rise*s }
}

func poolExhaustion(d *draw, a *traffic.Agent) effect {
	p, sec := d.between(0.3, 0.6), d.between(3, 8)
	return func(s, _ float64, c *traffic.Conditions) {
		if s > 0 {
			c.Model.StallShare, c.Model.StallSec = share(p*s), 1+sec*s
		}
	}
}

func modelSwap(d *draw, a *traffic.Agent) effect {
	slower, longer := d.between(1.2, 3), d.between(1.2, 1.8)
	a.Model.Rho = d.between(0.05, 0.15)
	return func(s, _ float64, c *traffic.Conditions) {
		c.NewShare = min(1, s)
		c.Model.SlowShare, c.Model.SlowScale = min(1, s), 1+slower*s
		c.Model.Output *= 1 + (longer-1)*min(1, s)
	}
}

func noisyNeighbour(d *draw, _ *traffic.Agent) effect {
	rise, period, duty := d.between(4, 9), d.between(90, 300), d.between(0.25, 0.5)
	return func(s, t float64, c *traffic.Conditions) {
		if math.Mod(t, period) < duty*period {
			c.Model.Scale *= 1 + rise*s
		}
	}
}

func retrievalDegradation(d *draw, a *traffic.Agent) effect {
	part, rise := d.between(0.3, 0.6), d.between(5, 12)
	t := &a.Tools[0]
	t.Name, t.Kind, t.Cap = "index", rows.KindRetrieval, math.Round(t.Cap*d.between(1.5, 3))
	return func(s, _ float64, c *traffic.Conditions) {
		c.Tools[0].SlowShare, c.Tools[0].SlowScale = part, 1+rise*s
	}
}
