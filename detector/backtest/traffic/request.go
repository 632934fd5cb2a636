package traffic

import (
	"math"
	"strconv"

	"driftline/internal/rows"
)

// state is a request on its way.
type state struct {
	trace, version string
	// start and budget are the request's, limit is when the gateway ends it.
	start, budget, limit         float64
	steps, operations, toolCalls int
	toolErrors, decisions, extra int
	hidden, drift                float64
	forgotten, left, perceived   float64
	timedOut, failed, next       bool
}

func (g *Generator) request(m *member, at float64) {
	g.n++
	st := &state{trace: strconv.FormatUint(g.n, 36), version: m.Version, start: at, budget: m.Budget, limit: at + m.Gateway}
	if g.chance(m.line.at(at).NewShare) {
		st.version, st.next = st.version+".next", true
	}
	end := g.run(m, st, at)
	g.requestRow(m, st, end)
}

// run plays an agent's steps from t on and returns when it is done.
func (g *Generator) run(m *member, st *state, t float64) float64 {
	n := g.steps(m, m.line.at(t).Steps)
	greedy := g.chance(m.Greedy)
	for step := 1; ; step++ {
		c := m.line.at(t)
		last := step >= n && !greedy
		if m.Budget > 0 {
			last = g.decide(m, st, t, c, greedy) < m.Reserve || last
		}
		o := g.call(m, st, 0, t)
		st.steps++
		st.take(o)
		if t = o.end; o.cut {
			st.timedOut = true
			return t
		}
		if o.failed {
			st.failed = true
			return t
		}
		if last || step >= 60 {
			return t
		}
		if m.sub != nil && g.chance(m.SubShare) {
			if t = g.delegate(m, st, t); st.timedOut || st.failed {
				return t
			}
			continue
		}
		o = g.call(m, st, g.pick(m), t)
		st.toolCalls++
		st.take(o)
		if t = o.end; o.cut {
			st.timedOut = true
			return t
		}
		if o.failed {
			st.toolErrors++
			if n < 2*m.MaxSteps && g.chance(0.5) {
				n++ // the planner tries another way
			}
		}
	}
}

// decide tells the planner the time that remains and returns what it believes. It knows of
// the agent's own time alone: what retries hid, it still counts as there.
func (g *Generator) decide(m *member, st *state, t float64, c *Conditions, greedy bool) float64 {
	left := st.start + st.budget - t
	if g.chance(c.ResetP) {
		st.forgotten = st.budget - left
	}
	drift := st.hidden + c.Stale
	if st.forgotten > drift {
		drift = st.forgotten
	}
	st.decisions++
	// Nobody is told less than nothing.
	st.left, st.perceived = left, max(0, left+drift)
	st.drift = max(st.drift, st.perceived-left)
	return left + drift
}

func (st *state) take(o outcome) {
	st.hidden += o.hidden
	st.extra += o.extra
}

// delegate calls the agent below as an operation of its caller. Nothing says how often an agent
// was tried, so its attempts are unknown, and with them what they hide and the agent time.
func (g *Generator) delegate(m *member, st *state, t float64) float64 {
	end := g.run(m.sub, st, t)
	o := &g.op
	*o = rows.Operation{RequestID: st.trace, OperationID: "o", Target: m.sub.Name, Stream: rows.StreamNo, AttemptSource: rows.SourceUnknown, Dialect: "genai", TTFTState: rows.TTFTNotApplicable}
	g.common(m, st, &o.Common, &o.Facts, rows.KindAgent, t, end)
	o.UserTimeNS = o.EndedAt - o.StartedAt
	g.deadline(&o.Times, st, t, end, st.timedOut || st.failed)
	if st.timedOut || st.failed {
		o.Outcome, o.ErrorClass, o.Censored = rows.OutcomeError, rows.ClassCancelled, st.timedOut
		if st.failed {
			o.ErrorClass = rows.ClassServer
		}
	}
	st.operations++
	g.sink.Operation(o)
	return end
}

// steps draws the length of a task: geometric, at least 1.
func (g *Generator) steps(m *member, factor float64) int {
	p := 1 / max(1, m.MeanSteps*factor)
	if p >= 1 {
		return 1
	}
	n := 1 + int(math.Log(1-g.rng.Float64())/math.Log(1-p))
	return min(n, int(float64(m.MaxSteps)*max(1, factor)))
}

func (g *Generator) pick(m *member) int {
	total := 0.0
	for i := range m.Tools {
		total += m.Tools[i].Weight
	}
	u := g.rng.Float64() * total
	for i := range m.Tools {
		if u -= m.Tools[i].Weight; u < 0 {
			return i + 1
		}
	}
	return len(m.Tools)
}
