package traffic

import (
	"math"
	"math/rand/v2"

	"driftline/internal/rows"
)

// Generator plays agents in order of time. It is for one goroutine.
type Generator struct {
	sink    Sink
	rng     *rand.Rand
	members []*member
	// Boost multiplies arrivals without changing conditions, for estimates.
	Boost float64
	n     uint64

	op  rows.Operation
	req rows.Request
	att rows.Attempt
	mem scratch
}

type member struct {
	*Agent
	line *timeline
	sub  *member
}

// scratch is what pointers of the rows above point to.
type scratch struct {
	attempts, leaves, retries, reqAttempts                              uint32
	hidden, path, agent, inference, ttft, perToken                      int64
	input, output, cached, budget, deadline, drift, perceived, remained int64
	timeout, backoff, remaining, attemptTTFT                            int64
	missed                                                              bool
	reqHidden, reqPath, reqAgent                                        int64
	opPerceived, opTrue, opDrift                                        int64
}

// New makes a generator. One seed gives one sequence of rows.
func New(seed uint64, agents []*Agent, sink Sink) *Generator {
	g := &Generator{sink: sink, rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), Boost: 1}
	for i, a := range agents {
		g.members = append(g.members, newMember(a, seed, uint64(i)))
	}
	return g
}

func newMember(a *Agent, seed, stream uint64) *member {
	m := &member{Agent: a, line: newTimeline(a, seed, stream)}
	if a.Sub != nil {
		m.sub = newMember(a.Sub, seed, stream+1000)
	}
	return m
}

// Minute plays the requests that arrive in a minute, counted from the start. Their rows may
// end in later minutes.
func (g *Generator) Minute(minute int) {
	from := float64(minute) * 60
	for _, m := range g.members {
		for at := from; at < from+60; at += tick {
			load := m.line.at(at).Load * g.Boost
			for range g.poisson(m.PerMinute / 60 * tick * load) {
				g.request(m, at+tick*g.rng.Float64())
			}
		}
		for s := m; s != nil; s = s.sub {
			s.line.forget(from - 60)
		}
	}
}

// poisson draws by multiplication, in parts so that exp does not underflow.
func (g *Generator) poisson(mean float64) int {
	n := 0
	for ; mean > 30; mean -= 30 {
		n += g.poisson(30)
	}
	for limit, p := math.Exp(-mean), g.rng.Float64(); p > limit; n++ {
		p *= g.rng.Float64()
	}
	return n
}

func (g *Generator) lognormal(median, sigma float64) float64 {
	return median * math.Exp(sigma*g.rng.NormFloat64())
}

func (g *Generator) chance(p float64) bool { return p > 0 && g.rng.Float64() < p }

// around draws between half and one and a half of x.
func (g *Generator) around(x float64) float64 { return x * (0.5 + g.rng.Float64()) }

func ns(seconds float64) int64 { return int64(seconds * 1e9) }

// instant is t as Unix nanoseconds.
func instant(t float64) int64 { return Start*1e9 + ns(t) }
