package detector

import (
	"time"

	"driftline/detector/stats"
	"driftline/detector/store"
	"driftline/internal/rows"
)

// needs are what a detection looks at in a window beyond its counts. Only that is unpacked.
type needs uint8

const (
	// ownTimes and callTimes are for Own and Call, groupTimes for the times of ByRetries.
	ownTimes needs = 1 << iota
	callTimes
	groupTimes
	ttftTimes
	tokenTimes
	// tryCounts is for Attempts and Alone.
	tryCounts

	onlyCounts needs = 0
	allNeeds   needs = 0xff
)

// parts are those of a slice's cells. Calls' times are put together from those of users and
// agents, by their number of retries.
func (n needs) parts(kind string) (out parts) {
	if n&groupTimes != 0 || n&callTimes != 0 {
		out |= userPart | agentPart
	}
	if n&ownTimes != 0 {
		switch {
		case modelKind(kind):
			out |= inferencePart
		case kind != rows.KindAgent && kind != rows.KindWorkflow:
			out |= userPart | agentPart
		}
	}
	if n&ttftTimes != 0 {
		out |= ttftPart
	}
	if n&tokenTimes != 0 {
		out |= perTokenPart
	}
	return out
}

// windowSums add up the times of a window.
type windowSums struct {
	inference, call, ttft, perToken, cut stats.Sum
	user, agent                          [len(retryNames)]stats.Sum
}

// retryNames are the numbers of retries in the order of retryOrder.
var retryNames = [...]string{"0", "1", "2+", "unknown"}

func retryAt(name string) int {
	for i := range retryNames[:3] {
		if retryNames[i] == name {
			return i
		}
	}
	return 3
}

// callTime is [store.OperationCell.Call] of a group that stands there in retryNames.
func (g *RetryGroup) callTime(at int) store.Measure {
	if at == 1 || at == 2 {
		return g.Agent
	}
	return g.User
}

// operationRoom is a window of a slice of operations with all that it is made of, so that the
// next slice's can be put in its place. A window says nothing after that.
type operationRoom struct {
	w        OperationWindow
	groups   [len(retryNames)]RetryGroup
	attempts AttemptWindow
	// call is the calls' own time, see store.OperationCell.Call.
	call     store.Measure
	has      parts
	hasTries bool
}

// emptied is a histogram without values, in the room of h.
func emptied(h *stats.Hist) *stats.Hist {
	if h == nil {
		return &stats.Hist{}
	}
	h.Index, h.Count = h.Index[:0], h.Count[:0]
	return h
}

// count adds what measures count and leaves their histograms alone.
func count(to *store.Measure, m store.Measure) { to.N, to.SumNS = to.N+m.N, to.SumNS+m.SumNS }

// operationWindow is the slice's window [from, to). Its minutes reach back to long.
func (c *cells) operationWindow(s Slice, from, to, long time.Time) *OperationWindow {
	x := &operationRoom{}
	c.open(x, s, from, to, long, allNeeds)
	return &x.w
}

// open puts the slice's window [from, to) into x, with what is needed. Its minutes reach back
// to long.
func (c *cells) open(x *operationRoom, s Slice, from, to, long time.Time, need needs) {
	old := &x.w
	fresh := OperationWindow{Slice: s, From: from, To: to, ByRetries: old.ByRetries, Minutes: old.Minutes[:0], Alone: true}
	fresh.Inference.Hist, x.call = emptied(old.Inference.Hist), store.Measure{Hist: emptied(x.call.Hist)}
	fresh.TTFT.Hist, fresh.PerToken.Hist = emptied(old.TTFT.Hist), emptied(old.PerToken.Hist)
	if fresh.ByRetries == nil {
		fresh.ByRetries = map[string]*RetryGroup{}
	}
	clear(fresh.ByRetries)
	x.w, x.has, x.hasTries = fresh, noParts, false
	for i := range x.groups {
		g := &x.groups[i]
		*g = RetryGroup{User: store.Measure{Hist: emptied(g.User.Hist)}, Agent: store.Measure{Hist: emptied(g.Agent.Hist)}}
	}
	w := &x.w
	w.Minutes = c.ops.summaries(w.Minutes, s, long, to)
	w.Above = func(call bool, ms float64) (above, all []float64) { return c.above(s, long, to, call, ms) }
	w.LateTokens = func(ms float64) []Share { return c.lateTokens(s, from, to, ms) }
	c.pass(x, need.parts(s.Kind), true)
	if need&tryCounts != 0 {
		c.addTries(x)
	}
}

// fill adds what is needed and not there yet.
func (c *cells) fill(x *operationRoom, need needs) {
	if lack := need.parts(x.w.Kind) &^ x.has; lack != 0 {
		c.pass(x, lack, false)
	}
	if need&tryCounts != 0 && !x.hasTries {
		c.addTries(x)
	}
}

// pass goes over the window's cells once, for their counts or for parts of their times.
func (c *cells) pass(x *operationRoom, need parts, counts bool) {
	w, sums := &x.w, c.sums
	c.ops.each(w.Slice, w.From, w.To, need, func(o *store.OperationCell) {
		at := retryAt(o.Retries)
		if counts {
			w.count(o)
			count(&x.call, o.Call())
			g := &x.groups[at]
			g.count(o)
			w.ByRetries[retryNames[at]] = g
		}
		if need&inferencePart != 0 {
			sums.inference.Add(o.Inference.Hist)
		}
		if need&(userPart|agentPart) != 0 {
			sums.user[at].Add(o.User.Hist)
			sums.agent[at].Add(o.Agent.Hist)
		}
		if need&ttftPart != 0 {
			sums.ttft.Add(o.TTFT.Hist)
		}
		if need&perTokenPart != 0 {
			sums.perToken.Add(o.PerToken.Hist)
		}
	})
	if need&inferencePart != 0 {
		sums.inference.Take(w.Inference.Hist)
	}
	if need&(userPart|agentPart) != 0 {
		for i := range x.groups {
			sums.user[i].Take(x.groups[i].User.Hist)
			sums.agent[i].Take(x.groups[i].Agent.Hist)
			sums.call.Add(x.groups[i].callTime(i).Hist)
		}
		sums.call.Take(x.call.Hist)
	}
	if need&ttftPart != 0 {
		sums.ttft.Take(w.TTFT.Hist)
	}
	if need&perTokenPart != 0 {
		sums.perToken.Take(w.PerToken.Hist)
	}
	x.has |= need
	switch {
	case modelKind(w.Kind):
		w.Own, w.Call = w.Inference, x.call
	case w.Kind == rows.KindAgent || w.Kind == rows.KindWorkflow:
		w.Own, w.Call = emptyMeasure(), emptyMeasure()
	default:
		w.Own, w.Call = x.call, emptyMeasure()
	}
}

// addTries adds the tries of the window's calls.
func (c *cells) addTries(x *operationRoom) {
	w := &x.w
	x.hasTries = true
	if c.attemptsIn(&x.attempts, w.Slice, w.From, w.To) {
		w.Attempts = &x.attempts
	}
	for _, stream := range streamKinds {
		other := w.Slice
		other.Stream = stream
		if stream == w.Stream {
			continue
		}
		if of := c.ops.bySlice[other]; of != nil && of.n(w.From.Unix(), w.To.Unix())*20 > w.N {
			w.Alone = false
		}
	}
}

// streamKinds are the values of a slice's Stream.
var streamKinds = [...]string{rows.StreamYes, rows.StreamNo, rows.StreamUnknown}

// count adds what a cell counts.
func (w *OperationWindow) count(c *store.OperationCell) {
	w.N += c.N - c.Late
	w.Status504 += c.Status504
	w.AtCap += c.AtCap
	w.Censored += c.Censored
	w.Known += c.DeadlineKnown
	w.Missed += c.DeadlineMissed
	count(&w.Inference, c.Inference)
	count(&w.TTFT, c.TTFT)
	count(&w.PerToken, c.PerToken)
	w.Tokens.add(Tokens{c.N - c.Late, c.InputTokens, c.OutputTokens, c.CachedTokens})
}

func (g *RetryGroup) count(c *store.OperationCell) {
	g.N += c.N - c.Late
	g.AgentReported += c.AgentReported
	g.FailedNS += c.FailedNS
	g.BackoffNS += c.BackoffNS
	g.Known += c.DeadlineKnown
	g.Missed += c.DeadlineMissed
	g.LeafAttempts += c.LeafAttempts
	g.Failed.add(Failures{c.N - c.Late - c.OK, c.Timeouts, c.Overloads, c.ClientErrors, c.Cancelled, c.AtCap})
	count(&g.User, c.User)
	count(&g.Agent, c.Agent)
}
