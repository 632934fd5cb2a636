package assemble

import (
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"driftline/internal/genai"
)

// drawOdd draws a trace as no instrumentation should write it: several roots, missing
// parents, rings, ends before starts, servers, several services, and spans that come again
// with other values.
func drawOdd(t *rapid.T) []genai.Span {
	var spans []genai.Span
	n := rapid.IntRange(1, 10).Draw(t, "n")
	for i := range n {
		id := i + 1
		parent := 0
		switch rapid.IntRange(0, 9).Draw(t, "where") {
		case 0:
			parent = 0
		case 1:
			parent = rapid.SampledFrom([]int{900, 901}).Draw(t, "missing")
		case 2:
			parent = rapid.IntRange(1, n).Draw(t, "any") // maybe itself, a cycle
		default:
			if i > 0 {
				parent = rapid.IntRange(1, i).Draw(t, "parent")
			}
		}
		from := time.Duration(rapid.IntRange(0, 150).Draw(t, "from")) * time.Second
		to := from + time.Duration(rapid.IntRange(-3, 40).Draw(t, "long"))*time.Second
		kind := rapid.SampledFrom([]string{"chat", "chat", "chat", "execute_tool", "invoke_agent", "POST", "server", "plain"}).Draw(t, "kind")
		s := call(id, parent, kind, from, to, rapid.Bool().Draw(t, "failed"))
		switch kind {
		case "server":
			s.Kind = genai.KindServer
		case "plain":
			s.Kind, s.Name, s.Attrs = genai.KindInternal, "step", nil
		case "chat":
			if rapid.Bool().Draw(t, "m2") {
				s.Attrs[1].Value.Str = "m2"
			}
			if rapid.IntRange(0, 3).Draw(t, "ev") == 0 {
				s.Events = []genai.Event{{Name: "gen_ai.retry", Time: s.Start + int64(time.Second)}}
			}
			if rapid.IntRange(0, 3).Draw(t, "srv") == 0 {
				s.Kind = genai.KindServer
			}
			if rapid.IntRange(0, 3).Draw(t, "num") == 0 {
				s.Attrs = append(s.Attrs, genai.Attr{Key: "attempt", Value: genai.IntValue(int64(rapid.IntRange(0, 3).Draw(t, "attempt")))})
			}
		}
		if rapid.IntRange(0, 5).Draw(t, "res") == 0 {
			s.Resource = &genai.Resource{ServiceName: "other"}
		}
		spans = append(spans, s)
		if kind == "chat" && rapid.IntRange(0, 3).Draw(t, "twin") == 0 {
			other := call(id+100, 1, kind, from+time.Millisecond, to, false)
			other.Status, other.Scope, s.Scope = s.Status, "sdk", "callbacks"
			spans = append(spans, other)
		}
		if rapid.IntRange(0, 6).Draw(t, "version") == 0 {
			v := s
			v.End += int64(rapid.IntRange(0, 70).Draw(t, "later")) * int64(time.Second)
			v.Status = genai.StatusOK
			spans = append(spans, v)
		}
	}
	return spans
}

// However an odd trace is cut into batches and in whatever order they come, what is stored
// in the end is the same.
func TestOrderDoesNotMatterForOddTraces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spans := drawOdd(t)
		set := realSettings()
		set.TraceTimeout, set.Remember = time.Minute, 2*time.Hour
		want := deliver(newReal(set), spans, func(int) time.Duration { return 0 })
		order := append([]genai.Span(nil), spans...)
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "shuffle"))).Shuffle(len(order), func(i, j int) {
			order[i], order[j] = order[j], order[i]
		})
		got := deliver(newReal(set), order, func(int) time.Duration {
			return time.Duration(rapid.SampledFrom([]int{0, 0, 1, 5, 40, 70}).Draw(t, "pause")) * time.Second
		})
		require.Equal(t, want, got)
	})
}
