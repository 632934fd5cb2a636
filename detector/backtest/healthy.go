package backtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"driftline/detector"
	"driftline/detector/backtest/traffic"
)

// Healthy traffic is played in chunks of days, each after a day that does not count: the
// baseline's. Chunks do not depend on how many run at once.
const (
	healthyChunkDays = 10
	warmMinutes      = 1440
	// slicesPerAgent are an agent's requests, its model and its three tools.
	slicesPerAgent = 5
)

// chunk is a part of the healthy soak.
type chunk struct {
	seed uint64
	// warm minutes do not count, the minutes after them do; agents are the whole fleet.
	warm, minutes int
	agents        []*traffic.Agent
	// slow is how many agents have fewer than one request a minute.
	slow int
}

// chunks cuts the soak.
func chunks(base uint64, days, wanted int) []chunk {
	var out []chunk
	for n := 0; days > 0; n++ {
		c := fleet(seedOf(base, "healthy", fmt.Sprint(n)), min(days, healthyChunkDays)*1440, wanted)
		out = append(out, c)
		days -= healthyChunkDays
	}
	return out
}

// fleet draws the agents of a chunk of so many minutes.
func fleet(seed uint64, minutes, wanted int) chunk {
	c := chunk{seed: seed, warm: warmMinutes, minutes: minutes}
	d := newDraw(c.seed, false)
	for i := range max(1, wanted/slicesPerAgent) {
		a := d.agent(fmt.Sprintf("service-%02d", i), "agent")
		// Every fifth agent is quiet, and most are not busy.
		switch {
		case i%5 == 0:
			a.PerMinute = d.scale(0.1, 0.8)
			c.slow++
		case i%5 < 4:
			a.PerMinute = d.scale(2, 8)
		default:
			a.PerMinute = d.scale(10, 30)
		}
		a.Peak = d.between(9, 17)
		d.fit(c.seed+uint64(i), a)
		a.Shape = d.events(a, (c.minutes+c.warm)*60)
		c.agents = append(c.agents, a)
	}
	return c
}

// event is something that happens in healthy traffic and is no incident.
type event struct {
	from, to float64
	apply    func(c *traffic.Conditions)
}

// events draws what happens to an agent: a deploy every third day, half of them with more
// tokens or steps; a load test or a batch job every other day; and giant outliers now and then.
// A team that makes answers longer, tests, or runs batches has sized its backend for it: what
// overloads one is an incident, and its queue a finding. (More steps are no more load on it here.)
func (d *draw) events(a *traffic.Agent, seconds int) traffic.Shape {
	var all []event
	end := float64(seconds)
	for t := d.between(0, 3*86400); t < end; t += d.between(1*86400, 5*86400) {
		more := d.between(1.1, 1.6)
		e := event{from: t, to: end}
		switch d.rng.IntN(4) {
		case 0:
			e.apply = func(c *traffic.Conditions) {
				c.NewShare, c.Model.Output = 1, c.Model.Output*more
				c.Model.Servers *= more
			}
		case 1:
			e.apply = func(c *traffic.Conditions) { c.NewShare, c.Steps = 1, c.Steps*more }
		default:
			e.apply = func(c *traffic.Conditions) { c.NewShare = 1 }
		}
		e.to = t + d.between(0.5*86400, 2*86400)
		all = append(all, e)
	}
	for t := d.between(0, 2*86400); t < end; t += d.between(1*86400, 3*86400) {
		factor, length := d.between(1.5, 3), d.between(20*60, 3*3600)
		all = append(all, event{from: t, to: t + length, apply: func(c *traffic.Conditions) {
			c.Load *= factor
			c.Model.Demand /= factor
		}})
	}
	outliers := d.scale(1e-5, 2e-4)
	return func(t float64, c *traffic.Conditions) {
		c.Outlier = outliers
		for i := range all {
			if t >= all[i].from && t < all[i].to {
				all[i].apply(c)
			}
		}
	}
}

// healthyResult is what a chunk gave.
type healthyResult struct {
	minutes, slow, slices int
	pages                 []Page
	alerts504             int
	operations            uint64
	// peaks are, for each rival, the highest vote of each day of each series.
	peaks map[string][]float64
}

// soak plays a chunk. It calls progress after each day that counts, the first of them 1, with
// what paged in it.
func soak(ctx context.Context, cfg detector.Config, c chunk, progress func(day int, pages []Page)) (*healthyResult, error) {
	sink := &stored{}
	d, err := newDrive(cfg, c.seed, c.agents, sink)
	if err != nil {
		return nil, err
	}
	res := &healthyResult{minutes: c.minutes, slow: c.slow * slicesPerAgent, slices: len(c.agents) * slicesPerAgent, peaks: map[string][]float64{}}
	counted, told := start.Add(time.Duration(c.warm)*time.Minute), 0
	counts := func() (out []Page) {
		for _, p := range d.pager.pages {
			if p.At.After(counted) {
				out = append(out, p)
			}
		}
		return out
	}
	for d.minute < c.minutes+c.warm {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		changes, err := d.step(ctx)
		if err != nil {
			return nil, fmt.Errorf("healthy traffic, minute %d: %w", d.minute, err)
		}
		for _, a := range changes {
			if a.Detection == detector.Alert504 && a.State == detector.Firing {
				res.alerts504++
			}
		}
		if d.minute%1440 == 0 && d.minute > c.warm {
			pages := counts()
			progress((d.minute-c.warm)/1440, pages[told:])
			told = len(pages)
		}
	}
	res.pages = counts()
	for _, r := range rivals {
		for _, p95 := range d.rivals.p95 {
			v := votes(r.score(p95, c.warm))
			for day := range slices.Chunk(v[min(len(v), c.warm):], 1440) {
				res.peaks[r.name] = append(res.peaks[r.name], slices.Max(day))
			}
		}
	}
	return res, nil
}
