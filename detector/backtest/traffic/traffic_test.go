package traffic_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/backtest/traffic"
	"driftline/internal/rows"
)

func agent() *traffic.Agent {
	return &traffic.Agent{Service: "shop", Name: "planner", PerMinute: 60, MeanSteps: 4, MaxSteps: 16, Retries: 3, Backoff: 0.5, Budget: 100, Gateway: 120, Version: "1",
		Model: traffic.Model{Name: "m", Stream: true, TTFT: 0.5, TTFTSigma: 0.35, Prefill: 0.1, Input: 3000, Cached: 0.5, Output: 100, OutputSigma: 0.5, PerToken: 0.015, FailP: 0.01, FailSec: 1, Cap: 30, Servers: 16, Rho: 0.5},
		Tools: []traffic.Tool{{Name: "search", Kind: rows.KindTool, Median: 0.8, Sigma: 0.7, Weight: 2, FailP: 0.02, FailSec: 1, Cap: 12}, {Name: "sql", Kind: rows.KindTool, Median: 0.4, Sigma: 0.6, Weight: 1, FailP: 0.01, FailSec: 0.5, Cap: 12}}}
}

// counting adds up what it gets.
type counting struct {
	ops, reqs, attempts, status504, failed int
	longest                                int64
	sum                                    uint64
}

func (c *counting) Operation(o *rows.Operation) {
	c.ops++
	c.sum = c.sum*31 + uint64(o.UserTimeNS) + uint64(*o.Attempts)
	if o.Outcome != rows.OutcomeOK {
		c.failed++
	}
}

func (c *counting) Attempt(*rows.Attempt) { c.attempts++ }

func (c *counting) Request(r *rows.Request) {
	c.reqs++
	c.sum = c.sum*31 + uint64(r.UserTimeNS)
	c.longest = max(c.longest, r.UserTimeNS)
	if r.HTTPStatus == 504 {
		c.status504++
	}
}

func play(seed uint64, minutes int, a *traffic.Agent) *counting {
	c := &counting{}
	g := traffic.New(seed, []*traffic.Agent{a}, c)
	for m := range minutes {
		g.Minute(m)
	}
	return c
}

func TestOneSeedOneTraffic(t *testing.T) {
	require.Equal(t, play(7, 30, agent()), play(7, 30, agent()))
	require.NotEqual(t, play(7, 30, agent()).sum, play(8, 30, agent()).sum)
}

func BenchmarkOperations(b *testing.B) {
	a := agent()
	a.PerMinute = 1000
	c := &counting{}
	g := traffic.New(1, []*traffic.Agent{a}, c)
	started := time.Now()
	for m := 0; c.ops < b.N; m++ {
		g.Minute(m)
	}
	b.ReportMetric(float64(c.ops)/time.Since(started).Seconds(), "ops/s")
}

// Nothing says that a request ends with 504: it does when its time reaches the gateway's limit.
func TestHealthyTrafficHasNo504sAndTimeoutsMakeThem(t *testing.T) {
	c := play(3, 120, agent())
	require.Greater(t, c.reqs, 3000)
	require.Less(t, float64(c.status504), 0.002*float64(c.reqs))
	require.Greater(t, c.attempts, c.ops, "some attempts are retried")

	slow := agent()
	slow.Shape = func(_ float64, c *traffic.Conditions) { c.Tools[0].FailP, c.Tools[0].FailSec = 0.9, 6 }
	c = play(3, 60, slow)
	require.Greater(t, float64(c.status504), 0.05*float64(c.reqs))
	require.EqualValues(t, 120e9, c.longest, "none is longer than the gateway waits")

	loaded := agent()
	loaded.Shape = func(_ float64, c *traffic.Conditions) { c.Model.Demand = 2.2 }
	c = play(3, 60, loaded)
	require.Greater(t, float64(c.status504+c.failed), 0.05*float64(c.reqs), "an overloaded backend queues")
}
