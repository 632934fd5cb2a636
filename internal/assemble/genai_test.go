package assemble

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"driftline/internal/genai"
	"driftline/internal/rows"
)

func realSettings() Settings {
	set := testSettings()
	set.Analyze = func(t genai.Trace) genai.Result { return genai.Analyze(t, genai.Options{}) }
	return set
}

func newReal(set Settings) toy {
	b := newToy(set)
	b.isGenAI = genai.IsGenAI
	return b
}

func attr(key, value string) genai.Attr {
	return genai.Attr{Key: key, Value: genai.StringValue(value)}
}

// call is a model, tool, agent or plain HTTP span below parent.
func call(id, parent int, kind string, from, to time.Duration, failed bool) genai.Span {
	s := span(7, id, kind, from, to)
	s.ParentID = ""
	if parent > 0 {
		s.ParentID = fmt.Sprintf("%016x", parent)
	}
	s.Kind = genai.KindClient
	switch kind {
	case "chat":
		s.Name = "chat m"
		s.Attrs = []genai.Attr{attr("gen_ai.operation.name", "chat"), attr("gen_ai.request.model", "m"), attr("gen_ai.provider.name", "p")}
	case "execute_tool":
		s.Name = "execute_tool search"
		s.Attrs = []genai.Attr{attr("gen_ai.operation.name", "execute_tool"), attr("gen_ai.tool.name", "search")}
	case "invoke_agent":
		s.Name = "invoke_agent planner"
		s.Attrs = []genai.Attr{attr("gen_ai.operation.name", "invoke_agent"), attr("gen_ai.agent.name", "planner")}
	default:
		s.Name = "POST"
		s.Attrs = []genai.Attr{attr("http.request.method", "POST"), attr("server.address", "api"), attr("url.full", "https://api/v1/chat/completions")}
	}
	if failed {
		s.Status = genai.StatusError
		s.Attrs = append(s.Attrs, attr("error.type", "timeout"))
	}
	return s
}

// The law of the domain and the buffer together: order, batching, duplication,
// checkpoints, timeouts and late releases do not matter.
func TestOrderDoesNotMatterForRealTraces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var spans []genai.Span
		if rapid.Bool().Draw(t, "root") {
			spans = append(spans, call(1, 0, "invoke_agent", 0, 3*time.Minute, false))
		}
		for i := range rapid.IntRange(1, 8).Draw(t, "calls") {
			from := time.Duration(rapid.IntRange(0, 150).Draw(t, "from")) * time.Second
			to := from + time.Duration(rapid.IntRange(0, 30).Draw(t, "long"))*time.Second
			id, parent := 10*(i+1), 1
			kind := rapid.SampledFrom([]string{"chat", "chat", "execute_tool", "invoke_agent"}).Draw(t, "kind")
			failed := rapid.Bool().Draw(t, "failed")
			tries := 0 // at least
			if kind == "chat" && rapid.Bool().Draw(t, "lost") {
				tries = 1
			} else {
				spans = append(spans, call(id, parent, kind, from, to, failed))
			}
			for try := range rapid.IntRange(tries, 3).Draw(t, "tries") {
				begin := from + time.Duration(try)*(to-from)/3
				spans = append(spans, call(id+try+1, id, "POST", begin, begin+(to-from)/4, rapid.Bool().Draw(t, "try failed")))
			}
		}
		set := realSettings()
		set.TraceTimeout, set.Remember = time.Minute, 2*time.Hour
		want := deliver(newReal(set), spans, func(int) time.Duration { return 0 })

		order := append([]genai.Span(nil), spans...)
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(spans)-1), 0, 5).Draw(t, "copies") {
			order = append(order, spans[i])
		}
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "shuffle"))).Shuffle(len(order), func(i, j int) {
			order[i], order[j] = order[j], order[i]
		})
		got := deliver(newReal(set), order, func(int) time.Duration {
			return time.Duration(rapid.SampledFrom([]int{0, 0, 1, 5, 40, 70}).Draw(t, "pause")) * time.Second
		})
		require.Equal(t, want, got)
	})
}

// C40: retries whose backoff outlasts the wait. C47: everything once more.
func TestC40_LateAttemptsEndInOneOperation(t *testing.T) {
	b := newReal(realSettings())
	store := table{}
	now := start
	until := func(d time.Duration) {
		for now.Before(at(d)) {
			now = now.Add(time.Second)
			store.take(b.Tick(now))
		}
	}
	add := func(s genai.Span) { store.take(b.Add(s, 0, 100, now)) }
	tries := []genai.Span{
		call(2, 1, "chat", 0, 5*time.Second, true),
		call(3, 1, "chat", 15*time.Second, 45*time.Second, true),
		call(4, 1, "chat", 80*time.Second, 110*time.Second, false),
	}
	root := call(1, 0, "invoke_agent", 0, 110*time.Second, false)
	until(5 * time.Second)
	add(tries[0])
	until(45 * time.Second)
	require.Equal(t, 1, models(store), "the first try was given its 30 s and stands for the operation")
	add(tries[1])
	until(110 * time.Second)
	add(tries[2])
	add(root)
	until(113 * time.Second)
	check := func() {
		t.Helper()
		require.Equal(t, 1, models(store))
		for _, row := range store {
			if o, ok := row.(*rows.Operation); ok && !o.Deleted && o.Kind == rows.KindChat {
				require.NotNil(t, o.Attempts)
				require.EqualValues(t, 3, *o.Attempts)
			}
		}
	}
	check()
	until(118 * time.Second)
	for _, s := range append(tries, root) {
		add(s)
	}
	until(10 * time.Minute)
	check()
	require.EqualValues(t, 4, b.Stats().Duplicates)
}

func models(store table) int {
	n := 0
	for _, row := range store {
		if o, ok := row.(*rows.Operation); ok && !o.Deleted && o.Kind == rows.KindChat {
			n++
		}
	}
	return n
}

// C44: a trace of 12,000 spans stays quick and is flagged.
func TestTraceOverTheLimitIsQuick(t *testing.T) {
	set := realSettings()
	set.MaxSpansPerTrace = 10_000
	b := newReal(set)
	for i := range 12_000 {
		from := time.Duration(i) * 10 * time.Millisecond
		b.Add(call(i+2, 1, "execute_tool", from, from+10*time.Millisecond, false), i, 300, start)
	}
	b.Add(call(1, 0, "invoke_agent", 0, 2*time.Minute, false), 0, 300, start)
	began := time.Now()
	got := b.Tick(at(2 * time.Second))
	took := time.Since(began)
	t.Logf("release of 12,001 spans took %s", took)
	require.Less(t, took, 10*time.Second)
	require.Len(t, got[0].Spans, 12_001)
	store := table{}.take(got)
	require.Equal(t, 1, store.count(rows.TableRequests))
	for _, row := range store {
		if q, ok := row.(*rows.Request); ok {
			require.True(t, q.Truncated)
		}
	}
}

func BenchmarkAddAndRelease(b *testing.B) {
	b.ReportAllocs()
	set := realSettings()
	set.MaxTraces, set.MaxRemembered, set.MaxSpans, set.MaxBytes = 1<<30, 1<<30, 1<<40, 1<<50
	buffer := newReal(set)
	now := start
	n := 0
	for b.Loop() {
		n++
		for _, s := range []genai.Span{
			call(2, 1, "chat", 0, 2*time.Second, false), call(3, 1, "execute_tool", 2*time.Second, 3*time.Second, false),
			call(4, 1, "chat", 3*time.Second, 4*time.Second, false), call(1, 0, "invoke_agent", 0, 5*time.Second, false),
		} {
			s.TraceID = fmt.Sprintf("%032x", n)
			buffer.Add(s, 0, 500, now)
		}
		now = now.Add(time.Second)
		buffer.Tick(now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(4*n), "ns/span")
}
