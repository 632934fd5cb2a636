package traffic

import (
	"math"

	"driftline/internal/rows"
)

// outcome is what came of a call.
type outcome struct {
	end    float64
	failed bool
	// cut says that the request's end came first.
	cut    bool
	hidden float64
	extra  int
}

// try is one attempt.
type try struct {
	connect, wait, work float64
	ttft, perToken      float64
	ok                  bool
	class               string
	status              uint16
	atCap               bool
	hedged              bool
	took                float64
}

func (g *Generator) attempt(m *member, k int, c *Call, limit, input, outlier float64) try {
	var y try
	if g.chance(c.ConnectShare) {
		y.connect = g.around(c.ConnectSec)
	}
	if c.Wait > 0 {
		y.wait = c.Wait * (0.8 + 0.4*g.rng.Float64())
	}
	if g.chance(c.StallShare) {
		y.wait += g.around(c.StallSec)
	}
	scale := c.Scale * outlier
	if g.chance(c.SlowShare) {
		scale *= c.SlowScale
	}
	lead := y.connect + y.wait
	switch {
	case g.chance(c.FailP):
		y.took, y.class, y.status = lead+g.lognormal(c.FailSec, 0.5), rows.ClassOverload, c.Status
		if c.Status == 401 {
			y.class = rows.ClassClient
		}
	case k == 0:
		md := &m.Model
		cached := c.Cached * input
		g.mem.input, g.mem.cached, g.mem.output = int64(input), int64(cached), int64(max(1, g.lognormal(md.Output*c.Output, md.OutputSigma)))
		ttft := g.lognormal(md.TTFT, md.TTFTSigma)*scale + md.Prefill*c.Prefill*(input-cached)/1000*scale
		y.perToken = g.lognormal(md.PerToken*c.PerToken, 0.15) * scale
		gen := float64(g.mem.output) * y.perToken
		if g.chance(c.MidShare) {
			gen += g.around(c.MidSec)
			y.perToken = gen / float64(g.mem.output)
		}
		y.ttft, y.work, y.ok = y.wait+ttft, ttft+gen, true
		y.took = lead + y.work
		if c.Hedge > 0 && y.took > c.Hedge {
			y.hedged = true
			other := c.Hedge + y.wait + y.work*math.Exp(0.5*g.rng.NormFloat64())
			y.took = min(y.took, other)
		}
	default:
		t := &m.Tools[k-1]
		y.work, y.ok = g.lognormal(t.Median, t.Sigma)*scale, true
		y.took = lead + y.work
	}
	if y.took > limit {
		y.took, y.ok, y.atCap, y.class, y.status = limit, false, true, rows.ClassTimeout, 0
	}
	return y
}

// maxAsked is how many times an agent asks its model before it gives up. Calls that follow a
// failed one of the same model at once are its attempts, as the processor sees them.
const maxAsked = 3

// call plays one operation that begins at t and emits its row. k is 0 for the model, else the
// number of a tool.
func (g *Generator) call(m *member, st *state, k int, t float64) outcome {
	o := &g.op
	*o = rows.Operation{RequestID: st.trace, OperationID: "o", Target: m.Model.Name, Stream: rows.StreamNo, AttemptSource: rows.SourceHTTPChild, Dialect: "genai"}
	kind := rows.KindChat
	if k > 0 {
		o.Target, kind = m.Tools[k-1].Name, m.Tools[k-1].Kind
	} else if m.Model.Stream {
		o.Stream = rows.StreamYes
	}
	outlier := 1.0
	if g.chance(m.line.at(t).Outlier) {
		outlier = 100
	}
	var input float64
	if k == 0 {
		input = g.lognormal(m.Model.Input*m.line.at(t).Model.Input, 0.5) * (1 + 0.1*float64(st.steps))
	}
	start, failed, backoff := t, 0.0, 0.0
	tries, leaves, asked := 1, 0, 1
	var y try
	var begun float64
	for inner := 1; ; {
		cond := m.line.at(t)
		c := &cond.Model
		if k > 0 {
			c = &cond.Tools[k-1]
		}
		limit := c.Cap
		if st.next && c.NewCap > 0 {
			limit = c.NewCap
		}
		y = g.attempt(m, k, c, limit, input, outlier)
		leaves++
		if y.hedged {
			leaves++
			tries++
		}
		begun = t
		g.attemptRow(m, st, o, kind, leaves, t, y, limit)
		if t+y.took >= st.limit || y.ok {
			break
		}
		layers := inner
		if inner > m.Retries {
			if k == 0 && m.Framework == 0 && asked < maxAsked {
				asked++
			} else if tries > m.Framework || m.Framework == 0 {
				break
			}
			tries, inner, layers = tries+1, 0, 1
		} else if m.Framework == 0 {
			tries++
		}
		wait := g.around(m.Backoff) * math.Pow(2, float64(layers-1))
		if c.RetryAfter > 0 && !y.atCap {
			wait = c.RetryAfter * (1 + 0.2*g.rng.Float64())
		}
		if t+y.took+wait >= st.limit {
			failed, backoff = failed+y.took, backoff+max(0, st.limit-t-y.took)
			y.took, y.ok, begun = 0, false, st.limit
			t = st.limit
			break
		}
		failed, backoff = failed+y.took, backoff+wait
		t += y.took + wait
		inner++
	}
	out := outcome{end: t + y.took, failed: !y.ok, hidden: failed + backoff, extra: tries - 1}
	if out.end >= st.limit {
		out.end, out.cut, out.failed = st.limit, true, true
	}
	g.operationRow(m, st, o, kind, k, start, begun, failed, backoff, tries, leaves, y, out)
	return out
}
