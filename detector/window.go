package detector

import (
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
	User          store.Measure
	Agent         store.Measure
}

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
	g.User.Add(o.User)
	g.Agent.Add(o.Agent)
}

// pool adds up groups; absent ones are empty.
func pool(groups ...*RetryGroup) *RetryGroup {
	g := &RetryGroup{User: store.Measure{Hist: &stats.Hist{}}, Agent: store.Measure{Hist: &stats.Hist{}}}
	for _, o := range groups {
		g.merge(o)
	}
	return g
}

// Minute is inference time in one minute of a window.
type Minute struct {
	At        time.Time
	Inference *stats.Hist
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
	TTFT      store.Measure
	// PerToken is the time per output token.
	PerToken store.Measure
	Tokens   Tokens
	// Minutes are those with inference times, in order. They reach back before
	// From, to the start of the long window, for tests over sub-windows.
	Minutes []Minute
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
	Known           uint64
	Missed          uint64
	User            store.Measure
	Strata          map[string]*Stratum
	// BudgetMS is the median declared budget in milliseconds, 0 when none is known.
	BudgetMS float64
}

// operationWindows builds the windows of all slices in [from, to) out of cells of
// the long window.
func operationWindows(cells []store.OperationCell, from, to time.Time) map[Slice]*OperationWindow {
	out := map[Slice]*OperationWindow{}
	for i := range cells {
		c := &cells[i]
		w := out[c.Slice]
		if w == nil {
			w = &OperationWindow{Slice: c.Slice, From: from, To: to, ByRetries: map[string]*RetryGroup{},
				Inference: store.Measure{Hist: &stats.Hist{}}, TTFT: store.Measure{Hist: &stats.Hist{}}, PerToken: store.Measure{Hist: &stats.Hist{}}}
			out[c.Slice] = w
		}
		if c.Inference.N > 0 {
			if k := len(w.Minutes); k == 0 || !w.Minutes[k-1].At.Equal(c.Minute) {
				w.Minutes = append(w.Minutes, Minute{At: c.Minute, Inference: &stats.Hist{}})
			}
			w.Minutes[len(w.Minutes)-1].Inference.Merge(c.Inference.Hist)
		}
		if c.Minute.Before(from) || !c.Minute.Before(to) {
			continue
		}
		w.N += c.N - c.Late
		w.Status504 += c.Status504
		w.AtCap += c.AtCap
		w.Censored += c.Censored
		w.Known += c.DeadlineKnown
		w.Missed += c.DeadlineMissed
		w.Inference.Add(c.Inference)
		w.TTFT.Add(c.TTFT)
		w.PerToken.Add(c.PerToken)
		w.Tokens.add(Tokens{c.N - c.Late, c.InputTokens, c.OutputTokens, c.CachedTokens})
		g := pool(w.ByRetries[c.Retries], &RetryGroup{N: c.N - c.Late, AgentReported: c.AgentReported, FailedNS: c.FailedNS, BackoffNS: c.BackoffNS,
			Known: c.DeadlineKnown, Missed: c.DeadlineMissed, User: c.User, Agent: c.Agent})
		w.ByRetries[c.Retries] = g
	}
	return out
}

func requestWindows(cells []store.RequestCell, budgets map[Slice]float64, from, to time.Time) map[Slice]*RequestWindow {
	out := map[Slice]*RequestWindow{}
	for i := range cells {
		c := &cells[i]
		w := out[c.Slice]
		if w == nil {
			w = &RequestWindow{Slice: c.Slice, From: from, To: to, Strata: map[string]*Stratum{}, User: store.Measure{Hist: &stats.Hist{}}, BudgetMS: budgets[c.Slice]}
			out[c.Slice] = w
		}
		if c.Minute.Before(from) || !c.Minute.Before(to) {
			continue
		}
		w.N += c.N - c.Late
		w.Status504 += c.Status504
		w.Operations += c.Operations
		w.Attempts += c.Attempts
		w.AttemptsUnknown += c.AttemptsUnknown
		w.ToolCalls += c.ToolCalls
		w.ToolErrors += c.ToolErrors
		w.Known += c.DeadlineKnown
		w.Missed += c.DeadlineMissed
		w.User.Add(c.User)
		s := w.Strata[c.Steps]
		if s == nil {
			s = &Stratum{ByRetries: map[string]*RetryGroup{}, Hidden: store.Measure{Hist: &stats.Hist{}}, Drift: store.Measure{Hist: &stats.Hist{}}}
			w.Strata[c.Steps] = s
		}
		s.N += c.N - c.Late
		s.Operations += c.Operations
		s.Hidden.Add(c.Hidden)
		s.Drift.Add(c.Drift)
		s.ByRetries[c.Retries] = pool(s.ByRetries[c.Retries], &RetryGroup{N: c.N - c.Late, AgentReported: c.AgentReported, FailedNS: c.FailedNS,
			BackoffNS: c.BackoffNS, Known: c.DeadlineKnown, Missed: c.DeadlineMissed, User: c.User, Agent: c.Agent})
	}
	return out
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
	sort.Slice(out, func(i, j int) bool { return sliceKey(out[i]) < sliceKey(out[j]) })
	return out
}

func sliceKey(s Slice) string {
	return s.Service + "\x00" + s.Agent + "\x00" + s.Kind + "\x00" + s.Target + "\x00" + s.Stream
}

func sortMinutes(ms []GatewayMinute) {
	sort.Slice(ms, func(i, j int) bool { return ms[i].At.Before(ms[j].At) })
}

func modelKind(kind string) bool { return rows.IsModelKind(kind) }
