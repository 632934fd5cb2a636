package golden

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/internal/rows"
)

var seedFlag = flag.Uint64("seed", 0, "repeat TestOrderDoesNotMatter with this seed; 0 draws one")

// variants is how often each trace is sent in another order.
const variants = 3

// delivery is one way in which a trace's spans arrive: some in time, some late.
type delivery struct {
	rig         *rig
	trace       string
	seed        uint64
	early, late []ptrace.Traces
}

// Any split into batches, order, duplication and lateness of one trace's spans ends in
// the same rows and the same rollups.
func TestOrderDoesNotMatter(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -seed %d", seed)
	now := t0.Add(4 * 24 * time.Hour)
	s := newStorage(t, now)

	traces := map[string]func() *trace{
		"retried call": retriedCall, "retried stream": func() *trace { return retriedStream(1.2) }, "siblings with a total": siblingsWithTotal,
		"siblings": siblingsUnmarked, "retry events": retryEvents, "openinference": openInference, "openllmetry": openLLMetry,
		"missed deadline": missedDeadline, "skewed": skewed, "two minutes": twoMinutes, "nested": nested,
	}
	var deliveries []*delivery
	for _, name := range sorted(traces) {
		first := len(deliveries)
		for v := range variants + 1 {
			d := &delivery{rig: newRig(t, s), trace: name, seed: seed + uint64(v)}
			rng := rand.New(rand.NewPCG(d.seed, uint64(first)))
			spans := single(traces[name]().td)
			if v > 0 { // the first is in order, at once
				d.early, d.late = scatter(rng, spans)
			} else {
				d.early = []ptrace.Traces{join(spans)}
			}
			d.rig.clock.Advance(2 * time.Minute)
			d.send(rng, d.early, 3)
			deliveries = append(deliveries, d)
		}
	}
	s.store(t, now)
	for _, d := range deliveries {
		d.send(rand.New(rand.NewPCG(d.seed, 7)), d.late, 15)
		d.rig.clock.Advance(15 * time.Second)
	}
	s.store(t, now.Add(time.Minute))

	all, spans := s.outcomes(t)
	for i, d := range deliveries {
		inOrder := deliveries[i-i%(variants+1)].rig.run
		what := fmt.Sprintf("%s, in %d batches and %d late ones, seed %d", d.trace, len(d.early), len(d.late), seed)
		require.NotEmpty(t, all[inOrder])
		require.Equal(t, strings.Join(all[inOrder], "\n"), strings.Join(all[d.rig.run], "\n"), what)
		require.Subset(t, spans[inOrder], spans[d.rig.run], what)
		for _, line := range spans[inOrder] {
			// Only a span that had to be sent before anybody knew that its trace is one of
			// GenAI calls may be missing.
			if !slices.Contains(spans[d.rig.run], line) {
				require.Regexp(t, `"name": "(POST.*|plan)"`, line, what)
			}
		}
	}
}

// send hands batches over with pauses of up to so many seconds between them.
func (d *delivery) send(rng *rand.Rand, batches []ptrace.Traces, pause int) {
	for _, td := range batches {
		d.rig.consume(td)
		d.rig.clock.Advance(time.Duration(rng.IntN(2*pause)) * time.Second / 2)
	}
	d.rig.clock.Advance(settle)
}

// scatter splits spans into random batches, some of them late, with duplicates.
func scatter(rng *rand.Rand, spans []ptrace.Traces) (early, late []ptrace.Traces) {
	for _, td := range slices.Clone(spans) {
		if rng.IntN(3) == 0 {
			spans = append(spans, td)
		}
	}
	rng.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
	cut := 1 + rng.IntN(len(spans))
	return batches(rng, spans[:cut]), batches(rng, spans[cut:])
}

func batches(rng *rand.Rand, spans []ptrace.Traces) (out []ptrace.Traces) {
	for len(spans) > 0 {
		n := 1 + rng.IntN(len(spans))
		out = append(out, join(spans[:n]))
		spans = spans[n:]
	}
	return out
}

// single gives each span of td alone.
func single(td ptrace.Traces) (out []ptrace.Traces) {
	for _, rs := range td.ResourceSpans().All() {
		one := ptrace.NewTraces()
		rs.CopyTo(one.ResourceSpans().AppendEmpty())
		out = append(out, one)
	}
	return out
}

func join(list []ptrace.Traces) ptrace.Traces {
	out := ptrace.NewTraces()
	for _, td := range list {
		for _, rs := range td.ResourceSpans().All() {
			rs.CopyTo(out.ResourceSpans().AppendEmpty())
		}
	}
	return out
}

func sorted[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// outcomes gives each run's final rows and cells as lines, and its thin spans, without
// what tells when and how they came: revision, release reason, snapshots and marks.
func (s *storage) outcomes(t *testing.T) (facts, spans map[int][]string) {
	t.Helper()
	facts, spans = map[int][]string{}, map[int][]string{}
	put := func(into map[int][]string, run int, line string) {
		into[run] = append(into[run], strings.ReplaceAll(line, fmt.Sprintf(`"d1%02x`, run), `"d100`))
	}
	for _, table := range rows.Tables {
		for _, row := range s.view(t, table) {
			if table == rows.TableOpenRequests {
				continue
			}
			row.Head().Revision = 0
			if q, ok := row.(*rows.Request); ok {
				q.ReleaseReason = ""
			}
			run := runOf(t, row.Head().TraceID)
			put(facts, run, string(table)+" "+rowLine(t, t0.Add(time.Duration(run)*time.Hour), row))
		}
	}
	all := s.read(t)
	for run, lines := range all["spans"] {
		for _, line := range lines {
			line, _, _ = strings.Cut(line, `"attributes"`)
			put(spans, run, line)
		}
	}
	for _, table := range rollups {
		for run, lines := range all[table] {
			for _, line := range lines {
				put(facts, run, table+" "+line)
			}
		}
	}
	return facts, spans
}

// twoMinutes is a call whose attempts end in two minutes.
func twoMinutes() *trace {
	b := newTrace(21)
	b.agent(1, 0, 50, 76, attrs{"driftline.request.budget_s": 20})
	fail(b.chat(2, 1, 50, 55, attrs{"error.type": "timeout"}))
	b.chat(3, 1, 61, 75, nil)
	b.post(4, 3, 61, 63, 503)
	b.post(5, 3, 64, 75, 200)
	return b
}

// nested is an agent that calls tools side by side and another agent in another service.
func nested() *trace {
	b := newTrace(22)
	b.agent(1, 0, 0, 30, nil)
	b.chat(2, 1, 1, 4, nil)
	b.tool(3, 1, 4, 9, nil)
	fail(b.tool(4, 1, 4.5, 12, attrs{"error.type": "timeout"}))
	b.in("helper").span(5, 1, "invoke_agent helper", ptrace.SpanKindInternal, 12, 28, attrs{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"})
	fail(b.chat(6, 5, 13, 15, attrs{"error.type": "RateLimitError"}))
	b.chat(7, 5, 16, 20, nil)
	b.chat(8, 5, 20.5, 27, attrs{"gen_ai.request.stream": true, "gen_ai.response.time_to_first_chunk": 0.8})
	return b
}
