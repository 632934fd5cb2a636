package detector

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"driftline/detector/stats"
	"driftline/detector/store"
	"driftline/internal/rows"
)

// Slice names what is judged together.
type Slice = store.Slice

// RetryGroup is a window's work with one number of retries.
type RetryGroup struct {
	N             uint64
	AgentReported uint64
	FailedNS      int64
	BackoffNS     int64
	Known, Missed uint64
	// LeafAttempts are those without attempts below them, over all layers.
	LeafAttempts uint64
	Failed       Failures
	User         store.Measure
	Agent        store.Measure
}

// Failures count work that failed: all of it, and by what ended it. AtCap are those that
// ended at their declared timeout, whatever their class.
type Failures struct{ All, Timeout, Overload, Client, Cancelled, AtCap uint64 }

func (f *Failures) add(o Failures) {
	f.All += o.All
	f.Timeout += o.Timeout
	f.Overload += o.Overload
	f.Client += o.Client
	f.Cancelled += o.Cancelled
	f.AtCap += o.AtCap
}

// timedOut is how many ran into a timeout, known by their class or by their length. A call may
// count for both, so the larger number is a lower bound.
func (f Failures) timedOut() uint64 { return max(f.Timeout, f.AtCap) }

// cut is how many something ended before they were done.
func (f Failures) cut() uint64 { return max(f.Timeout+f.Cancelled, f.AtCap) }

func (g *RetryGroup) merge(o *RetryGroup) {
	if o == nil {
		return
	}
	g.N += o.N
	g.AgentReported += o.AgentReported
	g.FailedNS += o.FailedNS
	g.BackoffNS += o.BackoffNS
	g.Known += o.Known
	g.Missed += o.Missed
	g.LeafAttempts += o.LeafAttempts
	g.Failed.add(o.Failed)
	g.User.Add(o.User)
	g.Agent.Add(o.Agent)
}

// tally adds up what groups count, without their histograms.
func tally(groups ...*RetryGroup) (sum RetryGroup) {
	for _, g := range groups {
		if g != nil {
			counts := *g
			counts.User, counts.Agent = store.Measure{}, store.Measure{}
			sum.merge(&counts)
		}
	}
	return sum
}

// pool adds up groups; absent ones are empty. A single one is given as it is, so the sum must
// not be changed.
func pool(groups ...*RetryGroup) *RetryGroup {
	if len(groups) == 1 && groups[0] != nil {
		return groups[0]
	}
	g := &RetryGroup{User: store.Measure{Hist: &stats.Hist{}}, Agent: store.Measure{Hist: &stats.Hist{}}}
	for _, o := range groups {
		g.merge(o)
	}
	return g
}

// Minute is one minute of a window.
type Minute struct {
	At time.Time
	// Own and Call are of the window's measures of these names.
	Own, Call MinuteP95
	// Known counts work that knows its attempts, Retried that with more than one.
	Known, Retried uint64
}

// MinuteP95 is how many values a minute has, and their P95 in milliseconds.
type MinuteP95 struct {
	N     uint64
	P95MS float64
	Sub   stats.SubP95
}

// OperationWindow is a slice of operations in [From, To).
type OperationWindow struct {
	Slice
	From, To time.Time
	// N leaves out late fragments.
	N         uint64
	Status504 uint64
	AtCap     uint64
	Censored  uint64
	Known     uint64
	Missed    uint64
	// ByRetries has keys 0, 1, 2+ and unknown.
	ByRetries map[string]*RetryGroup
	Inference store.Measure
	// Own is what the slice's latency is judged by: of models inference time, of tools and
	// other leaves the time of calls without what retries hid; nothing of agents.
	Own store.Measure
	// Call is, of models, the time of calls without what retries hid: inference time, and
	// connecting and queueing too.
	Call store.Measure
	TTFT store.Measure
	// PerToken is the time per output token.
	PerToken store.Measure
	Tokens   Tokens
	// Above gives, for each minute since the start of the long window that has any, how many of its values of Own (or of Call) are
	// above a number of milliseconds, and how many there are. It unpacks the minutes each time.
	Above func(call bool, ms float64) (above, all []float64)
	// LateTokens gives, for each minute of the window that has any, how many of its times to
	// the first token are above a number of milliseconds. It unpacks the minutes each time.
	LateTokens func(ms float64) []Share
	// Minutes are those with work, in order. They reach back before From, to the start of
	// the long window, for tests over sub-windows and for when a change began.
	Minutes []Minute
	// Attempts are those of all calls to the target, streamed or not; nil when none are known.
	Attempts *AttemptWindow
	// Alone says that nearly all of these calls are this slice's.
	Alone bool
}

// Tokens are what a number of operations read and wrote.
type Tokens struct{ Operations, Input, Output, Cached uint64 }

func (t *Tokens) add(o Tokens) {
	t.Operations += o.Operations
	t.Input += o.Input
	t.Output += o.Output
	t.Cached += o.Cached
}

// perOperation is a mean, 0 without operations.
func (t Tokens) perOperation(n uint64) float64 { return share(n, t.Operations) }

// Stratum is the requests of one step-count stratum.
type Stratum struct {
	N uint64
	// Operations counts their operations, which tells how long the tasks are.
	Operations uint64
	ByRetries  map[string]*RetryGroup
	Hidden     store.Measure
	Drift      store.Measure
}

// RequestWindow is an agent's requests in [From, To).
type RequestWindow struct {
	Slice
	From, To        time.Time
	N               uint64
	Status504       uint64
	Operations      uint64
	Attempts        uint64
	AttemptsUnknown uint64
	ToolCalls       uint64
	ToolErrors      uint64
	// DecisionPoints counts where a planner was told a remaining time.
	DecisionPoints uint64
	Known          uint64
	Missed         uint64
	User           store.Measure
	Strata         map[string]*Stratum
	// Minutes are as in OperationWindow, without latencies; Known counts operations, Retried
	// attempts beyond the first.
	Minutes []Minute
	// BudgetMS is the median declared budget in milliseconds, 0 when none is known.
	BudgetMS float64
	// Drifting gives, for each minute since the start of the long window that has decision
	// points in the named strata, how many drift by more than that many milliseconds. It unpacks the
	// minutes each time.
	Drifting func(strata map[string]bool, ms float64) []Share
}

// Share is K of N, neither need be whole.
type Share struct{ K, N float64 }

func emptyMeasure() store.Measure { return store.Measure{Hist: &stats.Hist{}} }

func (c *cells) above(s Slice, from, to time.Time, call bool, ms float64) (above, all []float64) {
	need := ownTimes.parts(s.Kind)
	if call {
		need = callTimes.parts(s.Kind)
	}
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		var k, n float64
		c.ops.each(s, at, at.Add(time.Minute), need, func(o *store.OperationCell) {
			m := ownTime(s.Kind, o.Inference, o.Call())
			if call {
				m = callTime(s.Kind, o.Call())
			}
			if part, err := m.Hist.Above(ms); err == nil {
				size := float64(m.Hist.N())
				k, n = k+part*size, n+size
			}
		})
		if n > 0 {
			above, all = append(above, k), append(all, n)
		}
	}
	return above, all
}

func (c *cells) lateTokens(s Slice, from, to time.Time, ms float64) []Share {
	return sharesAbove(from, to, ms, func(from, to time.Time, add func(store.Measure)) {
		c.ops.each(s, from, to, ttftPart, func(o *store.OperationCell) { add(o.TTFT) })
	})
}

// sharesAbove gives, for each minute of [from, to) that has values, how many of those that each
// adds are above a number of milliseconds.
func sharesAbove(from, to time.Time, ms float64, each func(from, to time.Time, add func(store.Measure))) (out []Share) {
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		var minute Share
		each(at, at.Add(time.Minute), func(m store.Measure) {
			if part, err := m.Hist.Above(ms); err == nil {
				n := float64(m.N)
				minute.K, minute.N = minute.K+part*n, minute.N+n
			}
		})
		if minute.N > 0 {
			out = append(out, minute)
		}
	}
	return out
}

// requestWindow is the agent's window [from, to).
func (c *cells) requestWindow(s Slice, from, to, long time.Time, budgetMS float64) *RequestWindow {
	w := &RequestWindow{Slice: s, From: from, To: to, Strata: map[string]*Stratum{}, User: emptyMeasure(), BudgetMS: budgetMS}
	w.Minutes = c.reqs.summaries(nil, s, long, to)
	c.reqs.each(s, from, to, allParts, w.add)
	w.Drifting = func(strata map[string]bool, ms float64) []Share { return c.drifting(s, long, to, strata, ms) }
	return w
}

func (c *cells) drifting(s Slice, from, to time.Time, strata map[string]bool, ms float64) []Share {
	return sharesAbove(from, to, ms, func(from, to time.Time, add func(store.Measure)) {
		c.reqs.each(s, from, to, driftPart, func(r *store.RequestCell) {
			if strata[r.Steps] {
				add(r.Drift)
			}
		})
	})
}

func (w *RequestWindow) add(c *store.RequestCell) {
	w.N += c.N - c.Late
	w.Status504 += c.Status504
	w.Operations += c.Operations
	w.Attempts += c.Attempts
	w.AttemptsUnknown += c.AttemptsUnknown
	w.ToolCalls += c.ToolCalls
	w.ToolErrors += c.ToolErrors
	w.DecisionPoints += c.DecisionPoints
	w.Known += c.DeadlineKnown
	w.Missed += c.DeadlineMissed
	w.User.Add(c.User)
	s := w.Strata[c.Steps]
	if s == nil {
		s = &Stratum{ByRetries: map[string]*RetryGroup{}, Hidden: emptyMeasure(), Drift: emptyMeasure()}
		w.Strata[c.Steps] = s
	}
	s.N += c.N - c.Late
	s.Operations += c.Operations
	s.Hidden.Add(c.Hidden)
	s.Drift.Add(c.Drift)
	groupOf(s.ByRetries, c.Retries).merge(&RetryGroup{N: c.N - c.Late, AgentReported: c.AgentReported, FailedNS: c.FailedNS,
		BackoffNS: c.BackoffNS, Known: c.DeadlineKnown, Missed: c.DeadlineMissed, User: c.User, Agent: c.Agent})
}

// groupOf is the group of that name, which it makes when there is none.
func groupOf(by map[string]*RetryGroup, name string) *RetryGroup {
	g := by[name]
	if g == nil {
		g = pool()
		by[name] = g
	}
	return g
}

// retries is how many attempts were beyond the first, among how many operations
// that know their attempts.
func (w *RequestWindow) retries() (extra, known uint64) {
	return extraAttempts(w.Attempts, w.Operations, w.AttemptsUnknown)
}

func extraAttempts(attempts, operations, unknown uint64) (extra, known uint64) {
	if operations > unknown {
		known = operations - unknown
	}
	if attempts > known {
		extra = attempts - known
	}
	return extra, known
}

// sortedSlices orders the keys of windows, so that rounds are reproducible.
func sortedSlices[W any](m map[Slice]W) []Slice {
	out := make([]Slice, 0, len(m))
	for s := range m {
		out = append(out, s)
	}
	slices.SortFunc(out, compareSlices)
	return out
}

func compareSlices(a, b Slice) int {
	return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Stream, b.Stream))
}

func sliceKey(s Slice) string {
	return s.Service + "\x00" + s.Agent + "\x00" + s.Kind + "\x00" + s.Target + "\x00" + s.Stream
}

func sortMinutes(ms []GatewayMinute) {
	sort.Slice(ms, func(i, j int) bool { return ms[i].At.Before(ms[j].At) })
}

func modelKind(kind string) bool { return rows.IsModelKind(kind) }
