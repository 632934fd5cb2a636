package detector

import (
	"context"
	"fmt"
	"strings"
	"time"

	"driftline/detector/store"
)

// facts are what a store can say about an alert beyond what it is judged by. A store that
// cannot leaves those annotations out.
type facts interface {
	AttemptMinutes(ctx context.Context, service, agent string, from, to time.Time) ([]store.AttemptMinute, error)
	Settings(ctx context.Context, service string, from, to time.Time) ([]store.Setting, error)
	NormalExample(ctx context.Context, s Slice, from, to time.Time, nearNS int64) (store.Example, bool, error)
	ConfiguredRetries(ctx context.Context, s Slice, from, to time.Time) (store.ConfiguredRetries, error)
	Coverage(ctx context.Context, s Slice, from, to time.Time, order store.ExampleOrder, aboveNS int64) (store.Coverage, error)
	UsersHit(ctx context.Context, s Slice, from, to time.Time, order store.ExampleOrder, aboveNS int64) (store.Users, error)
}

// Bounds of asking.
const (
	// maxExplained verdicts are explained in a round; the rest say only what was judged.
	maxExplained = 20
	// nearby is how far back changes are looked for.
	nearby = time.Hour
)

// explaining is what one round has asked already.
type explaining struct {
	e        *Engine
	verdicts []Verdict
	left     int
	until    time.Time
	lines    map[scope]string
	changes  map[string][]Change
	known    map[string]bool
}

func (e *Engine) explainer(verdicts []Verdict) *explaining {
	return &explaining{e: e, verdicts: verdicts, left: maxExplained, until: time.Now().Add(e.cfg.ExplainTimeout), lines: map[scope]string{}, changes: map[string][]Change{}, known: map[string]bool{}}
}

// changesAlert says whether a breach may begin its alert, or change it.
func (e *Engine) changesAlert(v Verdict) bool {
	t := e.book.Tracks[Fingerprint(v.Detection, v.Slice)]
	return t == nil || t.Alert.State != Firing || v.Severity == Critical && t.Alert.Severity != Critical
}

// explain adds examples and annotations to a breach that changes its alert. What cannot be
// read is left out and logged: an alert without is better than none.
func (x *explaining) explain(ctx context.Context, v *Verdict) {
	blind := v.Detection == PipelineHealth && v.Slice.Service == ownService // there is nothing to ask
	if v.Level != Breach || blind || x.left == 0 || time.Now().After(x.until) || !x.e.changesAlert(*v) {
		return
	}
	x.left--
	ctx, cancel := context.WithDeadline(ctx, x.until)
	defer cancel()
	failed := func(what string, err error) bool {
		if err != nil {
			x.e.log.Warn("an alert goes without "+what, "detection", v.Detection, "slice", v.Slice.String(), "error", err)
		}
		return err != nil
	}
	f, can := x.e.store.(facts)
	if v.Detection == PipelineHealth { // nothing is left to show, but what came up before
		v.annotate("completeness", fmt.Sprintf("0 of %d minutes have data", int(v.To.Sub(v.From).Minutes())))
		if can {
			v.annotate("changes", x.nearby(ctx, f, *v, failed))
		}
		return
	}
	order, ok := ExampleOrder(v.Detection, v.Slice)
	if ok && len(v.Evidence.TraceIDs) == 0 { // open requests are their own examples
		found, err := x.e.store.Examples(ctx, v.Slice, v.From, v.To, order, 3)
		failed("example traces", err)
		for _, f := range found {
			v.Evidence.TraceIDs = append(v.Evidence.TraceIDs, f.TraceID)
		}
	}
	if v.Detection == CapPileup { // timeouts are not rolled up
		if d, err := x.e.store.Timeouts(ctx, v.Slice, v.From, v.To); !failed("declared timeouts", err) {
			declareCap(v, d)
		}
	}
	failed("what spent its time", x.e.explainWork(ctx, v))
	v.annotate("differs", differs(*v, x.verdicts))
	if !can {
		return
	}
	if v.Detection == RetryAmplification {
		if r, err := f.ConfiguredRetries(ctx, v.Slice, v.From, v.To); !failed("configured retries", err) {
			beyondConfigured(v, r)
		}
	}
	p50, level := x.usual(*v, order)
	unknown := order.Compares() && level == 0
	if normal, found, err := f.NormalExample(ctx, v.Slice, v.From, v.To, int64(p50*1e6)); !failed("a normal trace", err) && found {
		v.annotate("normal_trace_id", normal.TraceID)
	}
	if c, err := f.Coverage(ctx, v.Slice, v.From, v.To, order, int64(level*1e6)); !failed("how complete its data is", err) {
		v.annotate("requests_hit", hit(c, unknown))
		v.annotate("completeness", x.completeness(*v, c))
	}
	if !unknown {
		if u, err := f.UsersHit(ctx, v.Slice, v.From, v.To, order, int64(level*1e6)); !failed("whom it hits", err) {
			v.annotate("users_hit", usersHit(u))
		}
	}
	v.annotate("changes", x.nearby(ctx, f, *v, failed))
	v.annotate("cause_line", x.line(ctx, f, *v, failed))
}

// usual is a slice's typical time, and the level beyond which work shows the finding, both in
// milliseconds and 0 where the baseline does not say.
func (x *explaining) usual(v Verdict, order store.ExampleOrder) (p50, level float64) {
	if v.Slice.IsRequest() {
		work := x.e.workBaseline(v.Slice)
		return work.OKMS, work.P95MS
	}
	b, work := x.e.baselines.Operation(v.Slice), x.e.workBaseline(v.Slice)
	if b.P50MS == 0 { // an agent has no time of its own
		b.P50MS, b.P95MS = work.OKMS, work.P95MS
	}
	switch order {
	case store.ByFirstToken:
		b.P95MS = b.TTFT.P95MS
	case store.ByTokenTime:
		b.P95MS = b.PerToken.P95MS
	case store.ByLeft:
		b.P95MS = work.P95MS
	}
	return b.P50MS, b.P95MS
}

func hit(c store.Coverage, unknown bool) string {
	if unknown || c.Requests == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.1f %% (%d of %d requests)", 100*share(c.Hit, c.Requests), c.Hit, c.Requests)
}

// usersHit says how many of the users and tenants are hit, and by how many requests they are
// known where that is not all. It is empty where nobody is known.
func usersHit(u store.Users) string {
	var who, stated []string
	for _, k := range []struct {
		of   store.Affected
		name string
	}{{u.Users, "user"}, {u.Tenants, "tenant"}} {
		if k.of.All == 0 {
			continue
		}
		who = append(who, fmt.Sprintf("%d of %d %ss (%.1f %%)", k.of.Hit, k.of.All, k.name, 100*share(k.of.Hit, k.of.All)))
		if k.of.Stated < u.Requests {
			stated = append(stated, fmt.Sprintf("%.1f %% of requests state a %s", 100*share(k.of.Stated, u.Requests), k.name))
		}
	}
	return strings.Join(append([]string{strings.Join(who, ", ")}, stated...), "; ")
}

// completeness says how much of what was judged is there.
func (x *explaining) completeness(v Verdict, c store.Coverage) string {
	minutes := uint64(v.To.Sub(v.From) / time.Minute)
	parts := []string{fmt.Sprintf("%d of %d minutes have data", c.Minutes, minutes)}
	usual := 0.0
	for s := range x.e.cells.reqs.bySlice {
		if s.Service == v.Slice.Service && s.Agent == v.Slice.Agent {
			usual += x.e.baselines.Request(s).PerMinute * float64(minutes)
		}
	}
	if usual > 0 {
		parts = append(parts, fmt.Sprintf("%.0f %% of the usual number of requests", 100*float64(c.Requests)/usual))
	}
	if x.e.lag > 0 {
		parts = append(parts, "ingest lag P95 "+inSeconds(float64(x.e.lag.Milliseconds())))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d late fragments left out", c.Late)), ", ")
}

// differs lists the slices of the same agent that the detection judged, by outcome.
func differs(v Verdict, all []Verdict) string {
	var with, without []string
	for _, o := range all {
		if o.Detection != v.Detection || o.Slice.Service != v.Slice.Service || o.Slice == v.Slice {
			continue
		}
		switch o.Level {
		case Breach:
			with = append(with, o.Slice.String())
		case Quiet:
			without = append(without, o.Slice.String())
		}
	}
	list := func(names []string) string {
		if len(names) > 5 {
			names = append(names[:5:5], fmt.Sprintf("%d more", len(names)-5))
		}
		if len(names) == 0 {
			return "none"
		}
		return strings.Join(names, ", ")
	}
	return "also: " + list(with) + "; as usual: " + list(without)
}

func (x *explaining) nearby(ctx context.Context, f facts, v Verdict, failed func(string, error) bool) string {
	service := v.Slice.Service
	if !x.known[service] {
		from := v.To.Add(-nearby)
		seen, err := f.Settings(ctx, service, from, v.To)
		if failed("changes nearby", err) {
			return "unknown"
		}
		x.changes[service], x.known[service] = Changes(seen, from), true
	}
	var out []string
	for _, c := range x.changes[service] {
		if out = append(out, c.Text()); len(out) == 5 {
			break
		}
	}
	if len(out) == 0 {
		return "none seen in the last 60 minutes"
	}
	return strings.Join(out, "; ")
}

// line is the cause line of the verdict's agent, worked out once a round.
func (x *explaining) line(ctx context.Context, f facts, v Verdict, failed func(string, error) bool) string {
	k := scope{v.Slice.Service, v.Slice.Agent}
	if text, ok := x.lines[k]; ok {
		return text
	}
	attempts, err := f.AttemptMinutes(ctx, k.Service, k.Agent, v.To.Add(-nearby), v.To)
	failed("failures by target", err)
	in := x.e.causeInput(k, v.From, v.To)
	in.Attempts, in.Changes = attempts, x.changes[k.Service]
	x.lines[k] = CauseLine(in)
	return x.lines[k]
}

// causeInput puts together what the round holds of an agent.
func (e *Engine) causeInput(k scope, from, to time.Time) CauseInput {
	in := CauseInput{From: from, To: to}
	long := to.Add(-e.cfg.LongWindow)
	for _, s := range e.cells.ops.slicesWithin(from, to) {
		if (scope{s.Service, s.Agent}) == k {
			in.Operations = append(in.Operations, changeOf(e.cells.operationWindow(s, from, to, long), e.baselines.Operation(s).at(e.seasons.factor(s, to))))
		}
	}
	var ops, baseOps, baseReqs uint64
	for _, s := range e.cells.reqs.slicesWithin(from, to) {
		if (scope{s.Service, s.Agent}) != k {
			continue
		}
		w, b := e.cells.requestWindow(s, from, to, long, 0), e.baselines.Request(s)
		in.Requests, ops = in.Requests+w.N, ops+w.Operations
		for _, st := range b.Strata {
			baseReqs, baseOps = baseReqs+st.Requests, baseOps+st.Operations
		}
	}
	in.Calls, in.BaseCalls = share(ops, in.Requests), share(baseOps, baseReqs)
	return in
}

// changeOf compares a window with its baseline.
func changeOf(w *OperationWindow, b OperationBaseline) OperationChange {
	zero, all := pool(w.ByRetries["0"]), pool(w.ByRetries["0"], w.ByRetries["1"], w.ByRetries["2+"], w.ByRetries["unknown"])
	known := pool(w.ByRetries["0"], w.ByRetries["1"], w.ByRetries["2+"])
	o := OperationChange{Slice: w.Slice, N: w.N, Known: known.N, Retried: known.N - zero.N, BaseKnown: b.Known, BaseRetried: b.Retried,
		Hidden: float64(all.FailedNS+all.BackoffNS) / 1e6, User: all.User.MeanMS()}
	if zero.N >= 10 && known.N > zero.N {
		o.RetryP95 = max(0, quantile(known.User.Hist, 0.95)-quantile(zero.User.Hist, 0.95))
	}
	level := func(m store.Measure) float64 {
		if m.N < 10 {
			return 0
		}
		return typical(quantile(m.Hist, 0.5), quantile(m.Hist, 0.95))
	}
	o.Work, o.BaseWork = level(w.Own), typical(b.P50MS, b.P95MS)
	o.TTFT, o.BaseTTFT = level(w.TTFT), typical(b.TTFT.P50MS, b.TTFT.P95MS)
	o.PerToken, o.BasePerToken = quantile(w.PerToken.Hist, 0.5), b.PerToken.P50MS
	o.Output, o.BaseOutput = w.Tokens.perOperation(w.Tokens.Output), b.Tokens.perOperation(b.Tokens.Output)
	fresh := func(t Tokens) float64 {
		if t.Cached > t.Input {
			return 0
		}
		return t.perOperation(t.Input - t.Cached)
	}
	o.Input, o.BaseInput = fresh(w.Tokens), fresh(b.Tokens)
	return o
}
