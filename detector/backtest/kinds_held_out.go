package backtest

import (
	"math"

	"driftline/detector/backtest/traffic"
)

// heldOut are kept from everybody who tunes a detection: they say how the detector does on
// what it was not made for.
var heldOut = []Kind{
	{Name: "retry_after_storm", Text: "tools answer 503 and ask to wait long", Ramp: usual, HeldOut: true, setup: retryAfterStorm},
	{Name: "gc_pauses", Text: "everything stands still for a part of each minute", Ramp: usual, HeldOut: true, setup: gcPauses},
	{Name: "hedging_gone_wrong", Text: "hedged calls fill the backend that they are to speed up", Ramp: quick, HeldOut: true, setup: hedging},
	{Name: "partial_backend_loss", Text: "replicas of the model's backend are lost one by one", Ramp: usual, HeldOut: true, setup: backendLoss},
	{Name: "packet_loss", Text: "lost packets delay calls by growing retransmission times", Ramp: usual, HeldOut: true, setup: packetLoss},
	{Name: "auth_refresh", Text: "tokens expire and fetching new ones slows down", Ramp: usual, HeldOut: true, setup: authRefresh},
}

func retryAfterStorm(d *draw, a *traffic.Agent) effect {
	p, wait := d.between(0.2, 0.4), d.between(8, 20)
	return func(s, _ float64, c *traffic.Conditions) {
		if s > 0 {
			for i := range a.Tools {
				c.Tools[i].FailP, c.Tools[i].RetryAfter = share(c.Tools[i].FailP+p*s), wait
			}
		}
	}
}

func gcPauses(d *draw, _ *traffic.Agent) effect {
	period, pause := d.between(45, 90), d.between(8, 16)
	return func(s, t float64, c *traffic.Conditions) {
		if left := min(pause*s, 0.9*period) - math.Mod(t, period); left > 0 {
			c.Model.Wait += left
			for i := range c.Tools {
				c.Tools[i].Wait += left
			}
		}
	}
}

func hedging(d *draw, a *traffic.Agent) effect {
	a.Model.Rho = d.between(0.5, 0.62) / (1 + a.Daily)
	usual, rise := serviceSec(&a.Model), d.between(0.1, 0.2)
	after := d.between(0.8, 1.4)
	return func(s, _ float64, c *traffic.Conditions) {
		if s > 0 {
			c.Model.Hedge = usual * max(0.2, after-0.4*s)
			c.Model.Demand = (1 + rise*s) / c.Load
		}
	}
}

func backendLoss(d *draw, a *traffic.Agent) effect {
	lost := d.between(0.3, 0.5)
	a.Model.Rho = d.between(0.45, 0.6) / (1 + a.Daily)
	return func(s, _ float64, c *traffic.Conditions) { c.Model.Servers = max(0.1, 1-lost*s) }
}

func packetLoss(d *draw, a *traffic.Agent) effect {
	p, sec := d.between(0.05, 0.12), d.between(2, 5)
	return func(s, _ float64, c *traffic.Conditions) {
		hit := 1 - math.Pow(1-min(0.6, p*s), 6)
		c.Model.StallShare, c.Model.StallSec = hit, 1+sec*s
		for i := range a.Tools {
			c.Tools[i].StallShare, c.Tools[i].StallSec = hit/2, 1+sec*s
		}
	}
}

func authRefresh(d *draw, _ *traffic.Agent) effect {
	p, sec := d.between(0.25, 0.5), d.between(2, 6)
	return func(s, _ float64, c *traffic.Conditions) {
		if s > 0 {
			c.Model.FailP, c.Model.FailSec, c.Model.Status = share(c.Model.FailP+p*s), 0.3+sec*s, 401
		}
	}
}
