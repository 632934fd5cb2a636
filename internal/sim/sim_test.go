package sim

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

var testStart = time.Date(2026, 3, 2, 9, 0, 30, 0, time.UTC)

func newSim(t testing.TB, c Config) *Sim {
	t.Helper()
	if c.Start.IsZero() {
		c.Start = testStart
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// play runs a Sim from its start for d in steps and hands over each emission.
func play(s *Sim, d, step time.Duration, each func(Emission)) {
	end := s.cfg.Start.Add(d)
	for now := s.cfg.Start; now.Before(end); {
		now = now.Add(step)
		if now.After(end) {
			now = end
		}
		for _, e := range s.Next(now) {
			each(e)
		}
	}
}

func eachSpan(td ptrace.Traces, f func(service string, sp ptrace.Span)) {
	for _, rs := range td.ResourceSpans().All() {
		service, _ := rs.Resource().Attributes().Get("service.name")
		for _, ss := range rs.ScopeSpans().All() {
			for _, sp := range ss.Spans().All() {
				f(service.Str(), sp)
			}
		}
	}
}

// digest is the hash of all bytes exported in d, stepping by step.
func digest(t *testing.T, c Config, d, step time.Duration) [32]byte {
	t.Helper()
	h := sha256.New()
	var m ptrace.ProtoMarshaler
	play(newSim(t, c), d, step, func(e Emission) {
		b, err := m.MarshalTraces(e.Traces)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(h, e.At.UnixNano(), len(b))
		h.Write(b)
	})
	return [32]byte(h.Sum(nil))
}

func TestSeedDecidesEveryByte(t *testing.T) {
	c := Config{Seed: freshSeed(t), Scenario: ScenarioIncident, HealthyFor: 3 * time.Minute}
	const d = 20 * time.Minute
	want := digest(t, c, d, 5*time.Second)
	if digest(t, c, d, 5*time.Second) != want {
		t.Error("the same config gave other bytes")
	}
	if digest(t, c, d, d) != want || digest(t, c, d, 777*time.Millisecond) != want {
		t.Error("the size of the steps changed the bytes")
	}
	c.Seed++
	if digest(t, c, d, 5*time.Second) == want {
		t.Error("another seed gave the same bytes")
	}
}

func TestScenariosAgreeUntilTheFault(t *testing.T) {
	c := Config{Seed: freshSeed(t), HealthyFor: 15 * time.Minute}
	run := func(sc Scenario, d time.Duration) [32]byte {
		c.Scenario = sc
		return digest(t, c, d, 5*time.Second)
	}
	before, after := c.HealthyFor, c.HealthyFor+6*time.Minute
	for _, sc := range []Scenario{ScenarioIncident, ScenarioMoreSteps} {
		if run(ScenarioHealthy, before) != run(sc, before) {
			t.Errorf("%s differs from healthy before its fault", sc)
		}
		if run(ScenarioHealthy, after) == run(sc, after) {
			t.Errorf("%s does not differ from healthy after its fault began", sc)
		}
	}
}

type seenSpan struct {
	id, parent pcommon.SpanID
	start, end pcommon.Timestamp
	at         time.Time
	order      int
	name       string
}

// TestTraceShape checks what every SDK promises: valid unique ids, children inside
// their parents and exported before them, one root per trace and it last, no span
// exported before its end or long after it.
func TestTraceShape(t *testing.T) {
	for _, sc := range Scenarios() {
		t.Run(string(sc), func(t *testing.T) {
			s := newSim(t, Config{Seed: freshSeed(t), Scenario: sc, HealthyFor: 2 * time.Minute})
			traces := map[pcommon.TraceID][]seenSpan{}
			ids := map[pcommon.SpanID]bool{}
			last, n := time.Time{}, 0
			play(s, 30*time.Minute, 10*time.Second, func(e Emission) {
				if e.At.Before(last) {
					t.Fatalf("emission at %v after one at %v", e.At, last)
				}
				last = e.At
				if e.Traces.SpanCount() == 0 || e.Traces.SpanCount() > maxBatch {
					t.Fatalf("a batch of %d spans", e.Traces.SpanCount())
				}
				eachSpan(e.Traces, func(_ string, sp ptrace.Span) {
					if sp.TraceID().IsEmpty() || sp.SpanID().IsEmpty() || ids[sp.SpanID()] {
						t.Fatalf("span %q has an empty or repeated id", sp.Name())
					}
					ids[sp.SpanID()] = true
					if delay := e.At.Sub(sp.EndTimestamp().AsTime()); delay <= 0 || delay > 1500*time.Millisecond {
						t.Fatalf("span %q exported %v after its end", sp.Name(), delay)
					}
					if sp.EndTimestamp() <= sp.StartTimestamp() {
						t.Fatalf("span %q ends before it starts", sp.Name())
					}
					n++
					traces[sp.TraceID()] = append(traces[sp.TraceID()], seenSpan{sp.SpanID(), sp.ParentSpanID(),
						sp.StartTimestamp(), sp.EndTimestamp(), e.At, n, sp.Name()})
				})
			})
			complete := 0
			for id, spans := range traces {
				root := spans[len(spans)-1]
				byID := map[pcommon.SpanID]seenSpan{}
				roots := 0
				for _, sp := range spans {
					byID[sp.id] = sp
					if sp.parent.IsEmpty() {
						roots++
					}
				}
				if roots == 0 {
					continue // still open at the end of the play
				}
				complete++
				if roots != 1 || !root.parent.IsEmpty() {
					t.Fatalf("trace %s: %d roots, the last span is %q", id, roots, root.name)
				}
				for _, sp := range spans[:len(spans)-1] {
					parent, ok := byID[sp.parent]
					if !ok {
						t.Fatalf("trace %s: span %q has no parent", id, sp.name)
					}
					if sp.start < parent.start || sp.end > parent.end {
						t.Fatalf("trace %s: %q is not inside %q", id, sp.name, parent.name)
					}
					if sp.order > parent.order {
						t.Fatalf("trace %s: %q was exported after its parent %q", id, sp.name, parent.name)
					}
				}
			}
			st := s.Stats()
			if complete < 900 || st.SpansExported != int64(n) || st.SpansPlayed != st.SpansExported+st.SpansInFlight {
				t.Errorf("%d complete traces, %d spans seen, stats %+v", complete, n, st)
			}
			if st.SpansInFlight > 6000 {
				t.Errorf("%d spans in flight at 48 requests a minute", st.SpansInFlight)
			}
		})
	}
}

// TestNoContent pins the attributes that spans may carry: names, sizes, times and
// codes. A new key must be added here by someone who has looked at its values.
func TestNoContent(t *testing.T) {
	allowed := map[string]bool{}
	for _, k := range strings.Fields(`gen_ai.operation.name gen_ai.provider.name gen_ai.request.model gen_ai.request.stream gen_ai.response.model
		gen_ai.response.finish_reasons gen_ai.response.time_to_first_chunk gen_ai.usage.input_tokens gen_ai.usage.output_tokens gen_ai.tool.name
		gen_ai.tool.type gen_ai.agent.name server.address server.port error.type agent.time_remaining_ms agent.internal_duration_ms
		request.budget_ms request.received_at_unix_ms http.request.method http.route url.scheme http.response.status_code`) {
		allowed[k] = true
	}
	seen := map[string]bool{}
	check := func(m pcommon.Map) {
		for k, v := range m.All() {
			seen[k] = true
			if !allowed[k] {
				t.Fatalf("unexpected attribute %q", k)
			}
			if len(v.AsString()) > 40 {
				t.Fatalf("attribute %q holds %d bytes", k, len(v.AsString()))
			}
		}
	}
	s := newSim(t, Config{Seed: freshSeed(t), Scenario: ScenarioIncident})
	play(s, 20*time.Minute, time.Minute, func(e Emission) {
		eachSpan(e.Traces, func(_ string, sp ptrace.Span) {
			check(sp.Attributes())
			for _, ev := range sp.Events().All() {
				check(ev.Attributes())
			}
		})
	})
	for k := range allowed {
		if !seen[k] {
			t.Errorf("attribute %q was never written", k)
		}
	}
}

func TestConfigNamesAllProblems(t *testing.T) {
	tl := DefaultTimeline()
	tl.ToolFailShare, tl.GatewayCap, tl.SpreadMin, tl.TimeoutsAt = 1.5, 0, 0.5, -1
	r := DefaultRates()
	r.RetryShare, r.RequestsPerMinute = -0.1, -1
	_, err := New(Config{Scenario: "storm", HealthyFor: -1, Timeline: tl, Rates: r, Budget: 1, Instances: -1, ExportEvery: time.Hour})
	if err == nil {
		t.Fatal("no error")
	}
	for _, key := range []string{"Start", "Scenario", "HealthyFor", "Timeline.ToolFailShare", "Timeline.GatewayCap", "Timeline.SpreadMin",
		"Timeline.TimeoutsAt", "Rates.RetryShare", "Rates.RequestsPerMinute", "Budget", "Instances", "ExportEvery"} {
		if !strings.Contains(err.Error(), key+":") && !strings.Contains(err.Error(), key+",") {
			t.Errorf("the error does not name %s: %v", key, err)
		}
	}
}

func TestArrivalRate(t *testing.T) {
	s := newSim(t, Config{Seed: freshSeed(t), Scenario: ScenarioHealthy, ExportEvery: 5 * time.Second})
	play(s, 2*time.Hour, time.Minute, func(Emission) {})
	// Poisson, 5,760 expected: five standard deviations are 379.
	if n := s.Stats().RequestsPlayed; n < 5381 || n > 6139 {
		t.Errorf("%d requests in 2 h at 48 a minute", n)
	}
}

func TestQuietServiceSendsNothing(t *testing.T) {
	r := DefaultRates()
	r.RequestsPerMinute, r.BystanderPerMinute = 0, 0
	s := newSim(t, Config{Scenario: ScenarioHealthy, Rates: r})
	play(s, time.Hour, time.Minute, func(Emission) { t.Fatal("an emission without traffic") })
}

func BenchmarkNext(b *testing.B) {
	s := newSim(b, Config{Seed: 1, Scenario: ScenarioIncident, HealthyFor: time.Hour})
	now := s.cfg.Start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(10 * time.Second)
		s.Next(now)
	}
	b.ReportMetric(float64(s.Stats().SpansExported)/b.Elapsed().Seconds(), "spans/s")
}
