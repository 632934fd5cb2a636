package genai

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"driftline/internal/rows"
)

// randomTrace draws a trace: a tree of every kind of span, some failing, some outside
// their parents, some without a parent, with random facts and events.
func randomTrace(t *rapid.T) Trace {
	count := rapid.IntRange(1, 40).Draw(t, "spans")
	spans := make([]Span, 0, count)
	for i := range count {
		spans = append(spans, randomSpan(t, i, spans))
	}
	tr := Trace{
		Spans:       spans,
		Complete:    rapid.IntRange(0, 3).Draw(t, "complete") > 0,
		Reason:      rapid.SampledFrom([]string{rows.ReleaseRoot, rows.ReleaseTimeout, rows.ReleaseEvicted}).Draw(t, "reason"),
		Now:         at(rapid.Float64Range(0, 200).Draw(t, "now")),
		AttemptWait: 10 * sec,
	}
	return tr
}

func randomSpan(t *rapid.T, i int, before []Span) Span {
	parent, lo, hi := "", 0.0, 60.0
	switch pick := rapid.IntRange(0, 9).Draw(t, "parent"); {
	case i == 0 && pick < 8:
	case pick == 9:
		parent = rapid.SampledFrom([]string{"", "gone1", "gone2"}).Draw(t, "orphan")
	case len(before) > 0:
		p := before[rapid.IntRange(max(0, len(before)-8), len(before)-1).Draw(t, "which")]
		parent, lo, hi = p.SpanID, secs(p.Start-base), secs(p.End-base)
	}
	if rapid.IntRange(0, 9).Draw(t, "skew") == 0 {
		lo, hi = lo-2, hi+2
	}
	from := grid(rapid.Float64Range(lo, max(hi, lo)).Draw(t, "from"))
	to := grid(rapid.Float64Range(from, max(hi, from)).Draw(t, "to"))
	var opts []any
	if rapid.IntRange(0, 2).Draw(t, "failed") == 0 {
		opts = append(opts, StatusError, kv("error.type", rapid.SampledFrom([]string{"timeout", "429", "500", "400", "cancelled", "odd"}).Draw(t, "error")))
	}
	for _, a := range []Attr{
		kv("budget", 10.0), kv("timeout", 5.0), kv("remaining", 7.0), firstChunk(to - from - 0.5), firstChunk(0.2), streamed, output(200),
		kv("attempt", 2), kv("http.request.resend_count", 1), kv("driftline.queue_ms", 300), kv("agent.duration", 3.0),
		kv("gen_ai.request.stream", false), kv("http.request.header.x-stainless-retry-count", []string{"1"}),
		kv("gen_ai.usage.input_tokens", 70), kv("max_retries", 2), kv("request.received_at_unix_ms", at(-1)/ms),
	} {
		if rapid.IntRange(0, 11).Draw(t, a.Key) == 0 {
			opts = append(opts, a)
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "events") - 1 {
		name := rapid.SampledFrom([]string{"gen_ai.retry", "First Token Stream Event", "stream.role", "stream.content", "gen_ai.request.attempt"}).Draw(t, "event")
		opts = append(opts, ev(name, grid(rapid.Float64Range(from, max(to, from)).Draw(t, "when")), kv("backoff_seconds", 0.3)))
	}
	if rapid.Bool().Draw(t, "host") {
		opts = append(opts, hostB)
	}
	s := spanOfClass(t, fmt.Sprintf("%016x", i+1), parent, from, to, opts)
	s.Scope = rapid.SampledFrom([]string{"", "sdk", "callbacks"}).Draw(t, "scope")
	s.EventsDropped = rapid.IntRange(0, 3).Draw(t, "dropped") == 0
	return s
}

func spanOfClass(t *rapid.T, id, parent string, from, to float64, opts []any) Span {
	model := rapid.SampledFrom([]string{"m1", "m2"}).Draw(t, "model")
	switch rapid.IntRange(0, 9).Draw(t, "class") {
	case 0, 1, 2:
		return chat(id, parent, model, from, to, opts...)
	case 3:
		return tool(id, parent, model, from, to, opts...)
	case 4:
		return agent(id, parent, model, from, to, opts...)
	case 5, 6:
		return post(id, parent, from, to, rapid.SampledFrom([]int{0, 200, 429, 503, 504}).Draw(t, "status"), opts...)
	case 7:
		return sp(id, parent, "POST /x", from, to, append(opts, KindServer, kv("http.request.method", "POST"))...)
	case 8:
		s := chat(id, parent, model, from, to, opts...)
		s.Kind = KindServer
		return s
	}
	return sp(id, parent, rapid.SampledFrom([]string{"step", "try", "http.connect"}).Draw(t, "name"), from, to, opts...)
}

// grid makes equal instants likely, so that ties are tested.
func grid(s float64) float64 { return float64(int64(s*4)) / 4 }

func TestProperty_Laws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkLaws(t, Analyze(randomTrace(t), Options{}))
	})
}

func TestProperty_OrderAndDuplicatesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := randomTrace(t)
		want := Analyze(tr, Options{})
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		other := tr
		other.Spans = append([]Span(nil), tr.Spans...)
		for range rng.IntN(4) {
			other.Spans = append(other.Spans, tr.Spans[rng.IntN(len(tr.Spans))])
		}
		rng.Shuffle(len(other.Spans), func(i, j int) { other.Spans[i], other.Spans[j] = other.Spans[j], other.Spans[i] })
		if got := Analyze(other, Options{}); !reflect.DeepEqual(got, want) {
			t.Fatalf("another order gives other rows:\n%+v\n%+v", got, want)
		}
	})
}

// TestProperty_TimeShift moves a trace in time: only instants may change.
func TestProperty_TimeShift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := randomTrace(t)
		tr.Complete = true
		moved := tr
		moved.Spans = append([]Span(nil), tr.Spans...)
		const by = 3 * sec
		for i := range moved.Spans {
			s := &moved.Spans[i]
			s.Start, s.End = s.Start+by, s.End+by
			s.Events = append([]Event(nil), s.Events...)
			for k := range s.Events {
				s.Events[k].Time += by
			}
			s.Attrs = append([]Attr(nil), s.Attrs...)
			for k := range s.Attrs {
				if s.Attrs[k].Key == "request.received_at_unix_ms" {
					s.Attrs[k].Value.Int += by / ms
				}
			}
		}
		a, b := Analyze(tr, Options{}), Analyze(moved, Options{})
		if len(a.Operations) != len(b.Operations) || len(a.Segments) != len(b.Segments) {
			t.Fatalf("%d operations and %d segments became %d and %d", len(a.Operations), len(a.Segments), len(b.Operations), len(b.Segments))
		}
		for i := range a.Operations {
			x, y := a.Operations[i], b.Operations[i]
			if x.Segments != y.Segments || x.PathNS != y.PathNS || !reflect.DeepEqual(x.TTFTNS, y.TTFTNS) || !reflect.DeepEqual(x.DriftNS, y.DriftNS) {
				t.Fatalf("operation %s changed:\n%+v\n%+v", x.OperationID, x, y)
			}
		}
	})
}

// TestProperty_OwnerOfEachInstant checks the critical path against a slow walk that
// knows nothing of the fast one: on traces where calls do not overlap, each instant
// belongs to the call that runs then, and the rest to the agent.
func TestProperty_OwnerOfEachInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spans := []Span{agent("root", "", "planner", 0, 100)}
		cursor, busy := 0.0, int64(0)
		for i := range rapid.IntRange(1, 20).Draw(t, "calls") {
			from := cursor + float64(rapid.IntRange(0, 3).Draw(t, "gap"))
			to := min(from+float64(rapid.IntRange(1, 3).Draw(t, "length")), 100)
			if from >= 100 {
				break
			}
			id := fmt.Sprintf("%04x", i)
			if rapid.Bool().Draw(t, "tool") {
				spans = append(spans, tool(id, "root", fmt.Sprint(i), from, to))
			} else {
				spans = append(spans, chat(id, "root", "m1", from, to))
			}
			busy += at(to) - at(from)
			cursor = to
		}
		res := Analyze(Trace{Spans: spans, Complete: true, Now: at(200)}, Options{})
		checkLaws(t, res)
		r := res.Requests[0]
		if r.ToolNS+r.InferenceSegmentNS != busy || r.AgentNS != r.UserTimeNS-busy {
			t.Fatalf("tools %d and inference %d, want together %d; agent %d", r.ToolNS, r.InferenceSegmentNS, busy, r.AgentNS)
		}
		for _, o := range res.Operations {
			if o.PathNS != o.UserTimeNS || !o.OnPath {
				t.Fatalf("operation %s has %d of %d on the path", o.OperationID, o.PathNS, o.UserTimeNS)
			}
		}
	})
}

func TestSampleWeight(t *testing.T) {
	for _, c := range []struct {
		state string
		attrs []Attr
		want  float64
	}{
		{"ot=th:8", nil, 2}, {"ot=th:c", nil, 4}, {"ot=th:0", nil, 1}, {"vendor=x,ot=rv:abc;th:e", nil, 8},
		{"ot=p:3", nil, 8}, {"ot=th:zz", nil, 1}, {"ot=th:", nil, 1}, {"ot=th:fffffffffffffff", nil, 1}, {"", nil, 1},
		{"", []Attr{kv("SampleRate", 20)}, 20}, {"", []Attr{kv("sampling.probability", 0.25)}, 4}, {"", []Attr{kv("sampler.param", true)}, 1},
		{"", []Attr{kv("SampleRate", -3)}, 1}, {"ot", []Attr{kv("sampling.ratio", 0.0)}, 1},
	} {
		if got := SampleWeight(&Span{TraceState: c.state, Attrs: c.attrs}); got != c.want {
			t.Errorf("tracestate %q, attributes %v: weight %v, want %v", c.state, c.attrs, got, c.want)
		}
	}
	// One span in a million is the least that is believed.
	for state, want := range map[string]float64{"ot=th:fffff": 1 << 20, "ot=th:ffffffffffffff": 1, "ot=p:19": 1 << 19, "ot=p:56": 1} {
		if want > maxSampleWeight {
			want = 1
		}
		if got := SampleWeight(&Span{TraceState: state}); got != want {
			t.Errorf("tracestate %q: weight %v, want %v", state, got, want)
		}
	}
}

// TestProperty_PathAgainstASlowWalk checks the critical path of overlapping calls under
// one agent against the rule in its plainest form, instant by instant.
func TestProperty_PathAgainstASlowWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type call struct {
			from, to int
			tool     bool
		}
		spans := []Span{agent("root", "", "planner", 0, 20)}
		var calls []call
		for i := range rapid.IntRange(1, 12).Draw(t, "calls") {
			c := call{from: rapid.IntRange(0, 19).Draw(t, "from"), tool: rapid.Bool().Draw(t, "tool")}
			c.to = rapid.IntRange(c.from, 20).Draw(t, "to")
			calls = append(calls, c)
			id := fmt.Sprintf("%04x", i)
			if c.tool {
				spans = append(spans, tool(id, "root", fmt.Sprint(i), float64(c.from), float64(c.to)))
			} else {
				spans = append(spans, chat(id, "root", fmt.Sprint(i), float64(c.from), float64(c.to)))
			}
		}
		var tools, models, self int64
		for cursor := 20; cursor > 0; {
			best := -1
			for i, c := range calls { // a call that runs at the cursor: models before tools, then the earliest start
				if c.from >= cursor || c.to < cursor {
					continue
				}
				if best < 0 || c.tool != calls[best].tool && !c.tool || c.tool == calls[best].tool && c.from < calls[best].from {
					best = i
				}
			}
			if best < 0 {
				self++
				cursor--
				continue
			}
			took := int64(cursor - calls[best].from)
			if calls[best].tool {
				tools += took
			} else {
				models += took
			}
			cursor = calls[best].from
		}
		r := Analyze(Trace{Spans: spans, Complete: true}, Options{}).Requests[0]
		if r.ToolNS != tools*sec || r.InferenceSegmentNS != models*sec || r.AgentNS != self*sec {
			t.Fatalf("%+v: tools %d, models %d, agent %d s; want %d, %d, %d", calls, r.ToolNS/sec, r.InferenceSegmentNS/sec, r.AgentNS/sec, tools, models, self)
		}
	})
}

// wildTrace draws spans that no clock and no tracer should make: far outside their
// parents, ending before they start, without length, parents in rings or of their own
// id, several spans of one id with other content, and times at the ends of the range.
func wildTrace(t *rapid.T) Trace {
	tr := randomTrace(t)
	count := len(tr.Spans)
	for i := range tr.Spans {
		s := &tr.Spans[i]
		switch rapid.IntRange(0, 13).Draw(t, "wild") {
		case 0:
			s.Start, s.End = s.End, s.Start
		case 1:
			s.End = s.Start
		case 2:
			s.ParentID = fmt.Sprintf("%016x", rapid.IntRange(1, count).Draw(t, "any parent"))
		case 3:
			s.ParentID = s.SpanID
		case 4:
			s.SpanID = fmt.Sprintf("%016x", rapid.IntRange(1, count).Draw(t, "another's id"))
		case 5:
			by := rapid.Int64Range(-3600, 3600).Draw(t, "clock") * sec
			s.Start, s.End = s.Start+by, s.End+by
		case 6:
			s.Start = rapid.SampledFrom([]int64{-1 << 63, -1, 0, 1<<63 - 1}).Draw(t, "start")
		case 7:
			s.End = rapid.SampledFrom([]int64{-1 << 63, -1, 0, 1<<63 - 1}).Draw(t, "end")
		}
	}
	return tr
}

func TestProperty_LawsHoldForWildTraces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := wildTrace(t)
		want := Analyze(tr, Options{})
		checkLaws(t, want)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		other := tr
		other.Spans = append([]Span(nil), tr.Spans...)
		rng.Shuffle(len(other.Spans), func(i, j int) { other.Spans[i], other.Spans[j] = other.Spans[j], other.Spans[i] })
		if got := Analyze(other, Options{}); !reflect.DeepEqual(got, want) {
			t.Fatalf("another order gives other rows:\n%+v\n%+v", got, want)
		}
	})
}

// TestProperty_PlainSpansChangeNothing adds spans that are no operation inside others:
// they own no time and prove no attempt.
func TestProperty_PlainSpansChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := randomTrace(t)
		tr.Complete = true
		more := tr
		more.Spans = append([]Span(nil), tr.Spans...)
		for i := range rapid.IntRange(1, 5).Draw(t, "more") {
			p := tr.Spans[rapid.IntRange(0, len(tr.Spans)-1).Draw(t, "below")]
			s := sp(fmt.Sprintf("f%015x", i), p.SpanID, "SELECT", 0, 0)
			s.Start, s.End = p.Start+(p.End-p.Start)/4, p.End-(p.End-p.Start)/4
			more.Spans = append(more.Spans, s)
		}
		a, b := Analyze(tr, Options{}), Analyze(more, Options{})
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("plain spans changed the rows:\n%+v\n%+v", a, b)
		}
	})
}

// TestProperty_TreesAgainstASlowWalk checks the critical path of nested agents, steps,
// tools and calls against the rule in its plainest form: go back from a span's end; where
// a child runs, its path is walked, by rank and then the one that began first; where none
// does, the time up to the last child's end is the span's own.
func TestProperty_TreesAgainstASlowWalk(t *testing.T) {
	const agents, tools, models, none = 0, 1, 2, 3
	type item struct {
		from, to int
		kind     int
		kids     []int
		rank     int
		work     bool // an operation lies in the subtree
	}
	rapid.Check(t, func(t *rapid.T) {
		items := []*item{{from: 0, to: 30, kind: agents}}
		spans := []Span{agent("0000", "", "planner", 0, 30)}
		for i := range rapid.IntRange(1, 14).Draw(t, "spans") {
			var inner []int
			for k, it := range items {
				if it.kind == agents || it.kind == none {
					inner = append(inner, k)
				}
			}
			up := rapid.SampledFrom(inner).Draw(t, "parent")
			p := items[up]
			it := &item{kind: rapid.IntRange(0, 3).Draw(t, "kind")}
			it.from = rapid.IntRange(max(p.from-1, 0), p.to).Draw(t, "from")
			it.to = rapid.IntRange(it.from, p.to+1).Draw(t, "to")
			p.kids = append(p.kids, i+1)
			items = append(items, it)
			id, parent, from, to := fmt.Sprintf("%04x", i+1), fmt.Sprintf("%04x", up), float64(it.from), float64(it.to)
			switch it.kind {
			case agents:
				spans = append(spans, agent(id, parent, id, from, to))
			case tools:
				spans = append(spans, tool(id, parent, id, from, to))
			case models:
				spans = append(spans, chat(id, parent, id, from, to))
			default:
				spans = append(spans, sp(id, parent, "step", from, to))
			}
		}
		ranks := map[int]int{models: int(segInference), tools: int(segTool), agents: int(segAgent), none: int(segUnattributed)}
		for k := len(items) - 1; k >= 0; k-- {
			it := items[k]
			it.rank, it.work = int(segUnattributed), it.kind != none
			if it.work && it.to > it.from { // work without length has no time to rank
				it.rank = ranks[it.kind]
			}
			for _, c := range it.kids {
				it.work = it.work || items[c].work
				it.rank = min(it.rank, items[c].rank)
			}
		}
		var sums [4]int64
		var walk func(it *item, owner, lo, hi int)
		walk = func(it *item, owner, lo, hi int) {
			for cursor := hi; cursor > lo; {
				best, last := (*item)(nil), lo
				for _, c := range it.kids {
					k := items[c]
					switch {
					case !k.work:
					case k.to < cursor:
						last = max(last, k.to)
					case k.from < cursor && (best == nil || k.rank < best.rank || k.rank == best.rank && (k.from < best.from || k.from == best.from && k.to > best.to)):
						best = k
					}
				}
				if best == nil {
					sums[owner] += int64(cursor - last)
					cursor = last
					continue
				}
				start, own := max(best.from, lo), owner
				if best.kind != none {
					own = best.kind
				}
				walk(best, own, start, cursor)
				cursor = start
			}
		}
		walk(items[0], agents, 0, 30)
		res := Analyze(Trace{Spans: spans, Complete: true}, Options{})
		checkLaws(t, res)
		r := res.Requests[0]
		if r.AgentNS != sums[agents]*sec || r.ToolNS != sums[tools]*sec || r.InferenceSegmentNS != sums[models]*sec || r.UnattributedNS != 0 {
			for i, s := range spans {
				t.Logf("%s below %s: %s %d to %d", s.SpanID, s.ParentID, s.Name, items[i].from, items[i].to)
			}
			t.Fatalf("agent %d, tools %d, models %d, unattributed %d s; want %v", r.AgentNS/sec, r.ToolNS/sec, r.InferenceSegmentNS/sec, r.UnattributedNS/sec, sums)
		}
	})
}
