package sim

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// op is a model or tool call with its attempts, as read back from spans alone.
type op struct {
	service, kind, target string
	parent                pcommon.SpanID
	start, end            time.Time
	remaining             int64 // stated, ms
	stated                bool
	failed                bool
	attempts              []try
	output                int64
}

type try struct {
	start, end time.Time
	status     int64
}

// hidden is the time of failed attempts that were retried, and of their backoffs.
func (o *op) hidden() time.Duration {
	return o.attempts[len(o.attempts)-1].start.Sub(o.attempts[0].start)
}

func (o *op) last() try { return o.attempts[len(o.attempts)-1] }

// req is a finished request, as read back from spans alone.
type req struct {
	service          string
	received         time.Time
	start, end       time.Time
	budget, internal time.Duration
	status           int64
	ops              []*op
}

func (r *req) user() time.Duration { return r.end.Sub(r.received) }

func (r *req) hidden() (d time.Duration) {
	for _, o := range r.ops {
		d += o.hidden()
	}
	return d
}

func intAttr(m pcommon.Map, key string) int64 {
	v, _ := m.Get(key)
	return v.Int()
}

func strAttr(m pcommon.Map, key string) string {
	v, ok := m.Get(key)
	if !ok {
		return ""
	}
	return v.Str()
}

// reader puts requests together from spans, as a reader who knows nothing of the
// simulator would.
type reader struct {
	attempts map[pcommon.SpanID][]try
	ops      map[pcommon.TraceID][]*op
	done     []*req
}

func newReader() *reader {
	return &reader{attempts: map[pcommon.SpanID][]try{}, ops: map[pcommon.TraceID][]*op{}}
}

func (r *reader) take(e Emission) {
	eachSpan(e.Traces, func(service string, sp ptrace.Span) {
		a := sp.Attributes()
		start, end := sp.StartTimestamp().AsTime(), sp.EndTimestamp().AsTime()
		kind := strAttr(a, "gen_ai.operation.name")
		switch {
		case kind == "chat" || kind == "execute_tool":
			o := &op{service: service, kind: kind, start: start, end: end, failed: sp.Status().Code() == ptrace.StatusCodeError,
				attempts: r.attempts[sp.SpanID()], output: intAttr(a, "gen_ai.usage.output_tokens")}
			o.target = strAttr(a, "gen_ai.request.model") + strAttr(a, "gen_ai.tool.name")
			delete(r.attempts, sp.SpanID())
			for _, from := range append([]pcommon.Map{a}, eventAttrsOf(sp)...) {
				if v, ok := from.Get("agent.time_remaining_ms"); ok {
					o.remaining, o.stated = v.Int(), true
				}
			}
			r.ops[sp.TraceID()] = append(r.ops[sp.TraceID()], o)
		case sp.Kind() == ptrace.SpanKindClient:
			r.attempts[sp.ParentSpanID()] = append(r.attempts[sp.ParentSpanID()], try{start, end, intAttr(a, "http.response.status_code")})
		case sp.Kind() == ptrace.SpanKindServer:
			// Exports group spans by instrumentation, so operations come out of order.
			slices.SortFunc(r.ops[sp.TraceID()], func(a, b *op) int { return a.start.Compare(b.start) })
			r.done = append(r.done, &req{service: service, start: start, end: end, ops: r.ops[sp.TraceID()],
				received: time.UnixMilli(intAttr(a, "request.received_at_unix_ms")).UTC(),
				budget:   time.Duration(intAttr(a, "request.budget_ms")) * time.Millisecond,
				internal: time.Duration(intAttr(a, "agent.internal_duration_ms")) * time.Millisecond,
				status:   intAttr(a, "http.response.status_code")})
			delete(r.ops, sp.TraceID())
		}
	})
}

func eventAttrsOf(sp ptrace.Span) (out []pcommon.Map) {
	for _, ev := range sp.Events().All() {
		out = append(out, ev.Attributes())
	}
	return out
}

func readAll(t *testing.T, s *Sim, d time.Duration) *reader {
	t.Helper()
	r := newReader()
	play(s, d, 10*time.Second, r.take)
	return r
}

// alert504 is the 504 rule, written anew over what the spans say.
func alert504(ends []ending, upTo time.Time) time.Time {
	n, bad := map[int64]int{}, map[int64]int{}
	var minutes []int64
	for _, e := range ends {
		m := e.at / int64(time.Minute)
		if n[m] == 0 {
			minutes = append(minutes, m)
		}
		n[m]++
		if e.timeout {
			bad[m]++
		}
	}
	slices.Sort(minutes)
	above := func(m int64) bool { return n[m] > 0 && float64(bad[m])/float64(n[m]) > 0.05 }
	for _, m := range minutes {
		if at := time.Unix(0, (m+1)*int64(time.Minute)).UTC(); above(m) && above(m-1) && !at.After(upTo) {
			return at
		}
	}
	return time.Time{}
}

// TestIncidentTruthMatchesSpans plays a whole incident and finds each fact of the
// ground truth again in the spans.
func TestIncidentTruthMatchesSpans(t *testing.T) {
	const healthy = 20 * time.Minute
	s := newSim(t, Config{Seed: freshSeed(t), Scenario: ScenarioIncident, HealthyFor: healthy})
	r := readAll(t, s, healthy+25*time.Minute)
	truth := s.Truth()
	t0 := testStart.Add(healthy)
	if !truth.T0.Equal(t0) || !truth.ToolFlakyAt.Equal(t0) || !truth.InferenceSpreadAt.Equal(t0.Add(4*time.Minute)) ||
		!truth.GatewayTimeoutsAt.Equal(t0.Add(10*time.Minute)) || !truth.FaultsEndAt.Equal(t0.Add(30*time.Minute)) {
		t.Errorf("planned instants are wrong: %+v", truth)
	}

	var reqEnds, callEnds []ending
	first := time.Time{}
	for _, q := range r.done {
		if q.service != truth.Service {
			continue
		}
		reqEnds = append(reqEnds, ending{q.end.UnixNano(), q.status == 504})
		if q.status == 504 && !q.end.Before(truth.GatewayTimeoutsAt) && (first.IsZero() || q.end.Before(first)) {
			first = q.end
		}
		for _, o := range q.ops {
			if o.target == truth.Model {
				callEnds = append(callEnds, ending{o.end.UnixNano(), o.last().status == 504})
			}
		}
	}
	for _, ops := range r.ops { // calls of requests that are still open
		for _, o := range ops {
			if o.target == truth.Model {
				callEnds = append(callEnds, ending{o.end.UnixNano(), o.last().status == 504})
			}
		}
	}
	if !truth.First504At.Equal(first) {
		t.Errorf("First504At %v, the spans say %v", truth.First504At, first)
	}
	if want := alert504(reqEnds, truth.KnownUntil); !truth.Alert504At.Equal(want) || want.IsZero() {
		t.Errorf("Alert504At %v, the spans say %v", truth.Alert504At, want)
	}
	if want := alert504(callEnds, truth.KnownUntil); !truth.ModelAlert504At.Equal(want) || want.IsZero() {
		t.Errorf("ModelAlert504At %v, the spans say %v", truth.ModelAlert504At, want)
	}
	if lead := truth.Alert504At.Sub(t0); lead < 11*time.Minute || lead > 16*time.Minute {
		t.Errorf("the 504 alert comes %v after t0, want 11 to 16 min", lead)
	}

	// Phase by phase, on calls that begin well inside it.
	quiet := window{testStart.Add(2 * time.Minute), t0}
	phase1 := window{t0.Add(3 * time.Minute), t0.Add(4 * time.Minute)}
	phase2 := window{t0.Add(7 * time.Minute), t0.Add(10 * time.Minute)}
	phase3 := window{t0.Add(14 * time.Minute), t0.Add(18 * time.Minute)}
	all := r.allOps()
	before, during := summarise(all, truth.Tool, quiet), summarise(all, truth.Tool, phase1)
	if before.retried > 0.06 || during.retried < 0.30 {
		t.Errorf("%s retried: %.3f before, %.3f in phase 1", truth.Tool, before.retried, during.retried)
	}
	if other := summarise(all, "search_catalog", phase1); other.retried > 0.12 {
		t.Errorf("an innocent tool retried %.3f in phase 1", other.retried)
	}
	if c := summarise(all, truth.Model, window{t0, t0.Add(4 * time.Minute)}); c.p95 > 4.5 {
		t.Errorf("inference P95 is %.2f s in phase 1, before it spreads", c.p95)
	}
	before, during = summarise(all, truth.Model, quiet), summarise(all, truth.Model, phase2)
	if during.p95 < 3*before.p95 || during.errors > 0.01 {
		t.Errorf("phase 2: P95 %.2f s against %.2f s, errors %.3f", during.p95, before.p95, during.errors)
	}
	if other := summarise(all, "gpt-4.1-mini", phase2); other.p95 > 4.5 {
		t.Errorf("the other model's P95 is %.2f s in phase 2", other.p95)
	}
	during = summarise(all, truth.Model, phase3)
	if during.timeouts < 0.05 || during.timeouts > 0.20 {
		t.Errorf("phase 3: %.3f of calls answer 504, want about 0.12", during.timeouts)
	}
	for _, o := range all {
		if l := o.last(); l.status == 504 {
			if d := l.end.Sub(l.start); d < truth.GatewayCap || d > truth.GatewayCap+50*time.Millisecond {
				t.Fatalf("a 504 after %v, the cap is %v", d, truth.GatewayCap)
			}
		}
		if o.service == ServiceBystander && o.start.After(t0) && o.hidden() > 5*time.Second {
			t.Errorf("the bystander has %v of hidden time", o.hidden())
		}
	}
}

type window struct{ from, to time.Time }

func (w window) holds(at time.Time) bool { return !at.Before(w.from) && at.Before(w.to) }

func (r *reader) allOps() (out []*op) {
	for _, q := range r.done {
		out = append(out, q.ops...)
	}
	for _, ops := range r.ops {
		out = append(out, ops...)
	}
	return out
}

// summary is of the operations on one target that began in a window; p95 is of the
// last attempt, in seconds, first answers (which wait for a first token) apart.
type summary struct{ retried, errors, timeouts, p95 float64 }

func summarise(ops []*op, target string, w window) (s summary) {
	var took []time.Duration
	n := 0.0
	for _, o := range ops {
		if o.target != target || !w.holds(o.start) {
			continue
		}
		n++
		if len(o.attempts) > 1 {
			s.retried++
		}
		if o.failed {
			s.errors++
		}
		if o.last().status == 504 {
			s.timeouts++
		}
		took = append(took, o.last().end.Sub(o.last().start))
	}
	slices.Sort(took)
	s.p95 = Quantile(took, 0.95).Seconds()
	s.retried, s.errors, s.timeouts = s.retried/n, s.errors/n, s.timeouts/n
	return s
}

// TestPlannerIsStaleByHiddenTime: what the planner states is right about all it saw,
// and wrong by exactly what was retried below it.
func TestPlannerIsStaleByHiddenTime(t *testing.T) {
	for _, sc := range []Scenario{ScenarioHealthy, ScenarioIncident} {
		s := newSim(t, Config{Seed: freshSeed(t), Scenario: sc, HealthyFor: time.Minute})
		r := readAll(t, s, 25*time.Minute)
		statements, worst := 0, time.Duration(0)
		for _, q := range r.done {
			var hidden time.Duration
			for _, o := range q.ops {
				if o.stated {
					statements++
					truly := q.received.Add(q.budget).Sub(o.start)
					drift := time.Duration(o.remaining)*time.Millisecond - truly
					if (drift - hidden).Abs() > time.Millisecond {
						t.Fatalf("%s: drift %v with %v hidden", sc, drift, hidden)
					}
					worst = max(worst, drift)
				}
				hidden += o.hidden()
			}
			if gap := q.user() - q.internal - hidden; gap.Abs() > time.Millisecond {
				t.Fatalf("%s: user %v, agent %v, hidden %v", sc, q.user(), q.internal, hidden)
			}
		}
		if statements < 1000 {
			t.Fatalf("%s: only %d statements", sc, statements)
		}
		if low, high := time.Duration(0), 15*time.Second; sc == ScenarioHealthy && (worst <= low || worst > high) {
			t.Errorf("healthy: the worst drift is %v", worst)
		} else if sc == ScenarioIncident && worst < 20*time.Second {
			t.Errorf("incident: the worst drift is %v", worst)
		}
	}
}

// TestNothingToReportWhenNothingIsWrong: the two scenarios without a fault have few
// 504s, few misses besides the stuck ones, and calls as fast as ever.
func TestNothingToReportWhenNothingIsWrong(t *testing.T) {
	for _, sc := range []Scenario{ScenarioHealthy, ScenarioMoreSteps} {
		t.Run(string(sc), func(t *testing.T) {
			const healthy, after = time.Hour, 30 * time.Minute
			s := newSim(t, Config{Seed: freshSeed(t), Scenario: sc, HealthyFor: healthy})
			r := readAll(t, s, healthy+after)
			truth := s.Truth()
			if !truth.First504At.IsZero() || !truth.Alert504At.IsZero() || !truth.ModelAlert504At.IsZero() || truth.Tool != "" || truth.Model != "" {
				t.Errorf("truth claims a fault: %+v", truth)
			}
			var ends []ending
			missed, stuck, n, steps := 0, 0, 0, map[bool][2]int{}
			for _, q := range r.done {
				if q.service != ServiceAffected {
					continue
				}
				n++
				ends = append(ends, ending{q.end.UnixNano(), q.status == 504})
				wasStuck := slices.ContainsFunc(q.ops, func(o *op) bool {
					return o.kind == "execute_tool" && o.last().end.Sub(o.last().start) >= time.Minute
				})
				late := q.user() > q.budget
				if wasStuck {
					stuck++
				} else if late {
					missed++
				}
				c := steps[q.start.After(truth.T0.Add(3*time.Minute))]
				steps[q.start.After(truth.T0.Add(3*time.Minute))] = [2]int{c[0] + len(q.ops)/2, c[1] + 1}
			}
			if at := alert504(ends, s.Truth().KnownUntil); !at.IsZero() {
				t.Errorf("504s above 5 %% at %v", at)
			}
			t.Logf("%d requests, %d missed without being stuck, %d stuck", n, missed, stuck)
			if n < 3000 || float64(missed)/float64(n) > 0.02 || stuck < 30 {
				t.Errorf("%d requests, %d missed without being stuck, %d stuck", n, missed, stuck)
			}
			mean := func(late bool) float64 { return float64(steps[late][0]) / float64(steps[late][1]) }
			ratio := mean(true) / mean(false)
			if longer := sc == ScenarioMoreSteps; longer && ratio < 1.25 || !longer && math.Abs(ratio-1) > 0.15 {
				t.Errorf("steps per task went from %.2f to %.2f", mean(false), mean(true))
			}
			all := r.allOps()
			for _, target := range []string{ModelAffected, ToolAffected} {
				old := summarise(all, target, window{testStart, truth.T0})
				now := summarise(all, target, window{truth.T0.Add(3 * time.Minute), truth.T0.Add(after)})
				if got := now.p95 / old.p95; got < 0.85 || got > 1.18 || now.retried > 0.06 {
					t.Errorf("%s: P95 changed by %.2f, retried %.3f", target, got, now.retried)
				}
			}
		})
	}
}

// TestIncidentSlicesByRetries is the signature of the fault: in phase 1 user time
// separates by retries while the agent's own time does not.
func TestIncidentSlicesByRetries(t *testing.T) {
	s := newSim(t, Config{Seed: freshSeed(t), Scenario: ScenarioIncident, HealthyFor: time.Minute})
	r := readAll(t, s, 8*time.Minute)
	type pair struct{ user, agent []time.Duration }
	slices_ := map[int]*pair{}
	for _, o := range r.allOps() {
		if o.target != ToolAffected || o.start.Before(s.Truth().T0.Add(3*time.Minute)) || o.last().end.Sub(o.last().start) > time.Minute || o.failed {
			continue
		}
		n := min(len(o.attempts)-1, 2)
		if slices_[n] == nil {
			slices_[n] = &pair{}
		}
		slices_[n].user = append(slices_[n].user, o.end.Sub(o.start))
		slices_[n].agent = append(slices_[n].agent, o.end.Sub(o.start)-o.hidden())
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return Quantile(d, 0.5).Seconds()
	}
	text := ""
	for n := range 3 {
		if slices_[n] == nil || len(slices_[n].user) < 30 {
			t.Fatalf("too few operations with %d retries", n)
		}
		text += fmt.Sprintf("%d retries: n %d, user %.2f s, agent %.2f s; ", n, len(slices_[n].user), median(slices_[n].user), median(slices_[n].agent))
	}
	t.Log(text)
	if u0, u1, u2 := median(slices_[0].user), median(slices_[1].user), median(slices_[2].user); u1 < u0+3 || u2 < u1+4 {
		t.Errorf("user time does not separate: %s", text)
	}
	if a0, a2 := median(slices_[0].agent), median(slices_[2].agent); a2 > 2*a0 || a0 > 2*a2 {
		t.Errorf("agent time separates: %s", text)
	}
}
