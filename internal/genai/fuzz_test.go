package genai

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"
	"testing"

	"driftline/internal/rows"
)

// spansOf makes spans of arbitrary bytes: any times, parents, attributes and events.
func spansOf(data []byte) []Span {
	keys := make([]string, 0, len(defaultDialects().keys))
	for k := range defaultDialects().keys {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	words := []string{"", "chat", "execute_tool", "invoke_agent", "LLM", "error", "POST", "1", "-1", "1e300", "NaN", "timeout", "role", "ai.streamText.doStream", `["stop"]`, `{"input":3}`, "2026-01-01T00:00:00Z", "https://h:1/p?q", "[REDACTED]"}
	next := func() byte {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return b
	}
	number := func() int64 {
		var b [8]byte
		for i := range b {
			b[i] = next()
		}
		return int64(binary.LittleEndian.Uint64(b[:]))
	}
	value := func() Value {
		switch next() % 7 {
		case 0:
			return StringValue(words[int(next())%len(words)])
		case 1:
			return IntValue(number())
		case 2:
			return DoubleValue(math.Float64frombits(uint64(number())))
		case 3:
			return BoolValue(next()%2 == 0)
		case 4:
			return StringsValue(words[int(next())%len(words)])
		case 5:
			return IntValue(int64(next()))
		}
		return Value{Type: ValueType(next())}
	}
	attrs := func(n int) []Attr {
		var out []Attr
		for range n {
			out = append(out, Attr{keys[(int(next())<<8|int(next()))%len(keys)], value()})
		}
		return out
	}
	when := func() int64 {
		if next()%4 == 0 {
			return number()
		}
		return base + int64(next())*sec/4
	}
	names := []string{"gen_ai.retry", "gen_ai.request.attempt", "exception", "First Token Stream Event", "stream.role", "chat", "POST", "raw_gen_ai_request", "claude_code.tool", "claude_code.tool.execution", "http.connect", "x"}
	var spans []Span
	for len(data) > 0 && len(spans) < 200 {
		s := Span{
			SpanID: fmt.Sprint(next() % 32), ParentID: fmt.Sprint(next() % 32), Name: names[int(next())%len(names)], Kind: SpanKind(next() % 7),
		}
		more := next()
		s.Status, s.Scope, s.EventsDropped = Status(more%4), []string{"", "a", "b", "c"}[more/4%4], more/16%2 == 1
		s.Start, s.End = when(), when()
		if next()%3 == 0 {
			s.ParentID = ""
		}
		s.Attrs = attrs(int(next() % 6))
		for range next() % 3 {
			s.Events = append(s.Events, Event{Name: names[int(next())%len(names)], Time: when(), Attrs: attrs(int(next() % 3))})
		}
		spans = append(spans, s)
	}
	return spans
}

func FuzzAnalyze(f *testing.F) {
	for i := range 8 {
		seed := make([]byte, 600)
		for k := range seed {
			seed[k] = byte(k*k*(i+3) + k*7 + i)
		}
		f.Add(seed, i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, data []byte, complete bool) {
		spans := spansOf(data)
		tr := Trace{Spans: spans, Complete: complete, Now: base + 100*sec, AttemptWait: sec, Reason: rows.ReleaseTimeout}
		opt := Options{Attributes: []string{"model", "llm.prompt"}, BudgetKeys: []string{"my_budget_ms"}}
		want := Analyze(tr, opt)
		checkLaws(t, want)
		for i := range spans {
			IsGenAI(&spans[i])
			if w := SampleWeight(&spans[i]); w < 1 || math.IsNaN(w) || math.IsInf(w, 0) {
				t.Fatalf("weight %v", w)
			}
		}
	})
}
