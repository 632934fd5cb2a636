package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// player plays requests, one after another, into spans. Each request has generators
// of its own, seeded by its number: one for the task, one for everything that can
// happen to it. So the task a request does is the same in every scenario, and up to
// the first fault so is all the rest.
type player struct {
	seed   uint64
	rates  Rates
	faults faults

	taskSrc, luckSrc *rand.PCG
	task, luck       *rand.Rand
	traj             Trajectory

	prof  *profile
	trace pcommon.TraceID
	attrs []attr
	spans []span
	seq   uint64
	// calls are the model calls of the request that the truth counts.
	calls []ending
}

// ending is when something ended, and whether with a 504.
type ending struct {
	at      int64
	timeout bool
}

func newPlayer(c Config, f faults) *player {
	p := &player{seed: c.Seed, rates: c.Rates, faults: f, taskSrc: rand.NewPCG(0, 0), luckSrc: rand.NewPCG(0, 0)}
	p.task, p.luck = rand.New(p.taskSrc), rand.New(p.luckSrc)
	return p
}

const (
	us = int64(time.Microsecond)
	ms = int64(time.Millisecond)
)

// between draws nanoseconds from lo..hi.
func (p *player) between(lo, hi int64) int64 { return lo + int64(p.luck.Float64()*float64(hi-lo)) }

func (p *player) chance(share float64) bool { return p.luck.Float64() < share }

func (p *player) newID() (id pcommon.SpanID) {
	// |1 keeps the id from ever being all zero, which would be invalid.
	binary.BigEndian.PutUint64(id[:], p.luck.Uint64()|1)
	return id
}

// open starts a span's attributes; the slice is handed to add when they are complete.
func (p *player) open() int { return len(p.attrs) }

func (p *player) str(key, v string) { p.attrs = append(p.attrs, attr{key: key, str: v}) }
func (p *player) int(key string, v int64) {
	p.attrs = append(p.attrs, attr{key: key, num: v, kind: attrInt})
}
func (p *player) dbl(key string, v float64) {
	p.attrs = append(p.attrs, attr{key: key, dbl: v, kind: attrDouble})
}
func (p *player) bool(key string, v bool) {
	a := attr{key: key, kind: attrBool}
	if v {
		a.num = 1
	}
	p.attrs = append(p.attrs, a)
}
func (p *player) strs(key, v string) {
	p.attrs = append(p.attrs, attr{key: key, str: v, kind: attrStrings})
}

func (p *player) since(mark int) []attr { return p.attrs[mark:len(p.attrs):len(p.attrs)] }

func (p *player) add(s span) {
	s.trace, s.seq = p.trace, p.seq
	p.seq++
	p.spans = append(p.spans, s)
}

// call is how one operation went below the planner.
type call struct {
	end    int64
	hidden int64 // failed attempts that were retried, and their backoffs
	status int   // of the last attempt
}

func (c *call) failed() bool { return c.status >= 400 }

// request plays request number n, received by a process at `arrival`. The spans,
// children before parents, stay valid until they are no longer referenced.
func (p *player) request(prof *profile, n uint64, arrival int64) (spans []span, end ending) {
	p.taskSrc.Seed(mix(p.seed^0x7461736b), mix(n))
	p.luckSrc.Seed(mix(p.seed^0x6c75636b), mix(n))
	bands := prof.model.Steps
	if u := p.task.Float64(); prof.affected && u < p.faults.longer(arrival) {
		bands = longSteps()
	}
	prof.model.sampleInto(&p.traj, p.task, bands)

	p.prof, p.calls = prof, p.calls[:0]
	steps := len(p.traj.Steps)
	p.attrs = make([]attr, 0, 40*steps+32)
	p.spans = make([]span, 0, 4*steps+8)
	binary.BigEndian.PutUint64(p.trace[:8], p.luck.Uint64()|1)
	binary.BigEndian.PutUint64(p.trace[8:], p.luck.Uint64())

	rootID, agentID := p.newID(), p.newID()
	// The ingress stamped the request a little before this process saw it, in whole
	// milliseconds.
	received := (arrival - p.between(1*ms, 8*ms)) / ms * ms
	agentStart := arrival + p.between(1*ms, 6*ms)
	now := agentStart + p.between(500*us, 2*ms)
	var hidden int64
	status := 200
	input := p.between(600, 1800) // input tokens; the context grows with each step
	for i, step := range p.traj.Steps {
		perceived := (int64(prof.budget) - (now - received - hidden)) / ms
		c := p.chat(agentID, now, i, step, perceived, &input)
		now, hidden = c.end+p.between(200*us, 2*ms), hidden+c.hidden
		if c.failed() {
			status = c.status
			break
		}
		// A tool that fails goes back to the model, which carries on.
		t := p.tool(agentID, now, step.Tool)
		now, hidden = t.end+p.between(200*us, 2*ms), hidden+t.hidden
	}
	if status == 400 {
		status = 500
	}
	agentEnd := now + p.between(200*us, 2*ms)
	rootEnd := agentEnd + p.between(500*us, 4*ms)
	failed := status >= 500

	mark := p.open()
	p.str("gen_ai.operation.name", "invoke_agent")
	p.str("gen_ai.agent.name", prof.agent)
	p.int("agent.internal_duration_ms", (agentEnd-agentStart-hidden)/ms)
	if failed {
		p.str("error.type", statusText(status))
	}
	p.add(span{id: agentID, parent: rootID, name: prof.spanAgent, kind: ptrace.SpanKindInternal, scope: scopeAgent,
		start: agentStart, end: agentEnd, failed: failed, attrs: p.since(mark)})

	mark = p.open()
	p.str("http.request.method", "POST")
	p.str("http.route", prof.route)
	p.str("url.scheme", "http")
	p.int("http.response.status_code", int64(status))
	p.int("request.budget_ms", int64(prof.budget)/ms)
	p.int("request.received_at_unix_ms", received/ms)
	p.int("agent.internal_duration_ms", (rootEnd-received-hidden)/ms)
	if failed {
		p.str("error.type", statusText(status))
	}
	p.add(span{id: rootID, name: prof.spanRoot, kind: ptrace.SpanKindServer, scope: scopeServer,
		start: arrival, end: rootEnd, failed: failed, attrs: p.since(mark)})
	return p.spans, ending{at: rootEnd, timeout: status == 504}
}

// chat plays one model call: step number i of the task.
func (p *player) chat(parent pcommon.SpanID, start int64, i int, step Step, perceived int64, input *int64) call {
	prof := p.prof
	m := pick(prof.models, p.luck.Float64())
	id := p.newID()
	streamed := i == 0 // only the first answer is streamed to the user
	var ttft int64
	work := int64(step.Generation)
	if streamed {
		ttft = int64(p.traj.TTFT)
	}
	c, at := p.background(id, m, start+p.between(300*us, 3*ms))

	cap504 := int64(p.faults.tl.GatewayCap)
	clientError, stalled := p.chance(p.rates.ModelErrorShare), p.chance(p.rates.Model504Share)
	// These two are drawn whether or not there is a fault, so that the scenarios of a
	// seed stay alike; see player.
	u, v := p.luck.Float64(), p.luck.Float64()
	if m.slow {
		stalled = stalled || u < p.faults.timesOut(at)
		if share := p.faults.spreads(at); v < share {
			tl := &p.faults.tl
			f := tl.SpreadMin + (tl.SpreadMax-tl.SpreadMin)*(v/share)
			// Slow is not yet dead: what the spread makes of a call stays under the cap.
			f = max(1, min(f, (0.80+0.15*u)*float64(cap504)/float64(ttft+work)))
			ttft, work = int64(float64(ttft)*f), int64(float64(work)*f)
		}
	}
	took := ttft + work
	switch {
	case stalled:
		c.status, took = 504, cap504+p.between(1*ms, 40*ms)
	case clientError:
		c.status, took = 400, p.between(40*ms, 300*ms)
	}
	p.attempt(id, m, at, at+took, c.status)
	c.end = at + took + p.between(200*us, 2*ms)

	mark := p.open()
	p.str("gen_ai.operation.name", "chat")
	p.str("gen_ai.provider.name", m.provider)
	p.str("gen_ai.request.model", m.name)
	p.bool("gen_ai.request.stream", streamed)
	p.str("server.address", m.address)
	if !prof.remainingAsEvent {
		p.int("agent.time_remaining_ms", perceived)
	}
	// A model writes about 60 tokens a second; a slow server does not write more.
	output := max(1, int64(step.Generation.Seconds()*60*(0.8+0.4*p.luck.Float64())))
	if c.failed() {
		p.str("error.type", statusText(c.status))
	} else {
		finish := "tool_calls"
		p.str("gen_ai.response.model", m.name)
		p.strs("gen_ai.response.finish_reasons", finish)
		p.int("gen_ai.usage.input_tokens", *input)
		p.int("gen_ai.usage.output_tokens", output)
		if streamed {
			p.dbl("gen_ai.response.time_to_first_chunk", time.Duration(at+ttft-start).Seconds())
		}
	}
	*input += output + p.between(100, 900) // its own words and the tool's result
	s := span{id: id, parent: parent, name: m.spanName, kind: ptrace.SpanKindClient, scope: scopeModel,
		start: start, end: c.end, failed: c.failed(), attrs: p.since(mark)}
	if prof.remainingAsEvent {
		mark = p.open()
		p.int("agent.time_remaining_ms", perceived)
		s.event, s.eventAttrs = "agent.plan", p.since(mark)
	}
	p.add(s)
	if prof.affected && m.slow {
		p.calls = append(p.calls, ending{at: c.end, timeout: c.status == 504})
	}
	return c
}

// tool plays one tool call whose last attempt takes `work`.
func (p *player) tool(parent pcommon.SpanID, start int64, work time.Duration) call {
	t := pick(p.prof.tools, p.luck.Float64())
	id := p.newID()
	c, at := p.background(id, t, start+p.between(100*us, 1*ms))
	toolError := p.chance(p.rates.ToolErrorShare)
	took := int64(work)
	if t.flaky {
		tl := &p.faults.tl
		backoff := int64(tl.ToolBackoff)
		for try := 0; ; try++ {
			share := p.faults.toolFails(at)
			if share == 0 || !p.chance(share) {
				break
			}
			// An overloaded upstream needs a while to say so.
			lost := p.between(1500*ms, 3500*ms)
			if try == tl.ToolRetries {
				c.status, took = 503, lost
				break
			}
			p.attempt(id, t, at, at+lost, 503)
			next := at + lost + p.between(backoff*3/4, backoff*5/4)
			c.hidden += next - at
			at, backoff = next, 2*backoff
		}
	}
	if toolError && c.status == 200 {
		c.status, took = 404, p.between(20*ms, 200*ms)
	}
	p.attempt(id, t, at, at+took, c.status)
	c.end = at + took + p.between(100*us, 1*ms)

	mark := p.open()
	p.str("gen_ai.operation.name", "execute_tool")
	p.str("gen_ai.tool.name", t.name)
	p.str("gen_ai.tool.type", "function")
	if c.failed() {
		p.str("error.type", statusText(c.status))
	}
	p.add(span{id: id, parent: parent, name: t.spanName, kind: ptrace.SpanKindInternal, scope: scopeAgent,
		start: start, end: c.end, failed: c.failed(), attrs: p.since(mark)})
	return c
}

// background plays the one retry that any call may meet, and returns when the next
// attempt begins.
func (p *player) background(parent pcommon.SpanID, e *endpoint, at int64) (call, int64) {
	c := call{status: 200}
	if !p.chance(p.rates.RetryShare) {
		return c, at
	}
	status := 503
	if p.chance(0.6) {
		status = 429
	}
	lost := p.between(50*ms, 400*ms)
	p.attempt(parent, e, at, at+lost, status)
	next := at + lost + p.between(500*ms, 2000*ms)
	c.hidden = next - at
	return c, next
}

// attempt writes the HTTP client span of one try.
func (p *player) attempt(parent pcommon.SpanID, e *endpoint, start, end int64, status int) {
	mark := p.open()
	p.str("http.request.method", e.method)
	p.str("server.address", e.address)
	p.int("server.port", 443)
	p.int("http.response.status_code", int64(status))
	if status >= 400 {
		p.str("error.type", statusText(status))
	}
	p.add(span{id: p.newID(), parent: parent, name: e.method, kind: ptrace.SpanKindClient, scope: scopeHTTP,
		start: start, end: end, failed: status >= 400, attrs: p.since(mark)})
}

func statusText(status int) string {
	switch status { // those that occur, without an allocation
	case 503:
		return "503"
	case 429:
		return "429"
	case 504:
		return "504"
	}
	return strconv.Itoa(status)
}
