package detector

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/store"
)

// attemptsOf gives an hour of attempts on a target, of which from minute begin before the
// end on so many of a hundred fail.
func attemptsOf(kind, target, class string, status uint16, begin, percent int) []store.AttemptMinute {
	var out []store.AttemptMinute
	for m := 60; m > 0; m-- {
		failed := 1
		if m <= begin {
			failed = percent
		}
		at := t0.Add(-time.Duration(m) * time.Minute)
		out = append(out, store.AttemptMinute{Kind: kind, Target: target, At: at, N: uint64(100 - failed)},
			store.AttemptMinute{Kind: kind, Target: target, Class: class, Status: status, At: at, Failed: true, N: uint64(failed)})
	}
	return out
}

// steadyModel and steadyTool are calls as they always were.
func steadyModel(target string) OperationChange {
	return OperationChange{Slice: Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: target, Stream: "yes"}, N: 200, Known: 200, Retried: 4, BaseKnown: 9000, BaseRetried: 180,
		Hidden: 4 * 3000, User: 2000, Work: 2000, BaseWork: 2000, TTFT: 500, BaseTTFT: 500, PerToken: 20, BasePerToken: 20, Output: 100, BaseOutput: 100, Input: 1000, BaseInput: 1000}
}

func steadyTool(target string) OperationChange {
	o := steadyModel(target)
	o.Kind, o.Stream, o.TTFT, o.BaseTTFT, o.PerToken, o.BasePerToken, o.Output, o.BaseOutput = "tool", "no", 0, 0, 0, 0, 0, 0
	return o
}

func retriedMore(o OperationChange) OperationChange {
	o.Retried, o.Hidden, o.User, o.RetryP95 = 80, 80*6000, 4400, 11_000
	return o
}

func TestCauseLines(t *testing.T) {
	clock := t0.Add(-20 * time.Minute).Format("15:04")
	slowTTFT := func(o OperationChange) OperationChange {
		o.TTFT, o.Work, o.User = 2000, 3500, 3500
		return o
	}
	for name, c := range map[string]struct {
		in   CauseInput
		want string
	}{
		"nothing has changed": {CauseInput{Operations: []OperationChange{steadyModel("m1"), steadyTool("search")}}, ""},
		"a tool answers 503 and retries hide it": {CauseInput{Operations: []OperationChange{steadyModel("m1"), retriedMore(steadyTool("search"))}, Attempts: attemptsOf("tool", "search", "overload", 503, 20, 40)},
			"tool `search` answers 503 since " + clock + " (40 % of attempts); hidden retries add 11 s at P95; model inference unchanged"},
		"a model refuses with 429": {CauseInput{Operations: []OperationChange{retriedMore(steadyModel("m1"))}, Attempts: attemptsOf("chat", "m1", "overload", 429, 20, 40)},
			"model `m1` answers 429 (too many requests) since " + clock + " (40 % of attempts); hidden retries add 11 s at P95; model inference unchanged"},
		"attempts time out for over an hour": {CauseInput{Operations: []OperationChange{retriedMore(steadyTool("sql"))}, Attempts: attemptsOf("tool", "sql", "timeout", 0, 60, 30)},
			"tool `sql` times out for an hour or longer (30 % of attempts); hidden retries add 11 s at P95"},
		"retries whose failures nobody recorded": {CauseInput{Operations: []OperationChange{steadyModel("m1"), retriedMore(steadyTool("search"))}},
			"tool `search` is retried in 40 % of calls, usually 2 %; hidden retries add 11 s at P95; model inference unchanged"},
		"calls fail at once and are not retried": {CauseInput{Operations: []OperationChange{steadyModel("m1"), steadyTool("search")}, Attempts: attemptsOf("tool", "search", "server", 500, 20, 60)},
			"tool `search` answers 500 since " + clock + " (60 % of attempts); calls fail at once, so that little time is added; model inference unchanged"},
		"the first token is late": {CauseInput{Operations: []OperationChange{slowTTFT(steadyModel("m1")), steadyModel("m2")}},
			"model `m1` sends its first token 4.0 times as late (2.0 s, usually 0.5 s), with prompts as long as usual; time per token unchanged; no more retries than usual"},
		"all models' first tokens are late": {CauseInput{Operations: []OperationChange{slowTTFT(steadyModel("m1")), slowTTFT(steadyModel("m2")), slowTTFT(steadyModel("m3"))}},
			"model `m1` sends its first token 4.0 times as late (2.0 s, usually 0.5 s), with prompts as long as usual, and so with model `m2` and 1 more; time per token unchanged; no more retries than usual"},
		"prompts grew": {CauseInput{Operations: []OperationChange{func() OperationChange { o := slowTTFT(steadyModel("m1")); o.Input = 4000; return o }()}},
			"prompts to model `m1` are 4.0 times as long where no cache holds them, and the first token comes 4.0 times as late; time per token unchanged; no more retries than usual"},
		"tokens come slower": {CauseInput{Operations: []OperationChange{func() OperationChange {
			o := steadyModel("m1")
			o.PerToken, o.Work, o.User = 40, 4000, 4000
			return o
		}()}}, "model `m1` takes 2.0 times as long per token (40 ms, usually 20 ms); the first token comes as fast as usual; no more retries than usual"},
		"answers are longer": {CauseInput{Operations: []OperationChange{func() OperationChange {
			o := steadyModel("m1")
			o.Output, o.Work, o.User = 250, 5000, 5000
			return o
		}()}}, "answers of model `m1` are 2.5 times as long; time per token unchanged; no more retries than usual"},
		"a tool itself is slow": {CauseInput{Operations: []OperationChange{steadyModel("m1"), func() OperationChange {
			o := steadyTool("sql")
			o.Work, o.User = 6000, 6000
			return o
		}()}}, "tool `sql` itself takes 3.0 times as long (6.0 s, usually 2.0 s); model inference unchanged"},
		"requests make more calls": {CauseInput{Operations: []OperationChange{steadyModel("m1"), steadyTool("sql")}, Calls: 20, BaseCalls: 8, Requests: 20},
			"requests make 2.5 times as many calls (20.0 each, usually 8.0); model inference unchanged"},
		"two causes, the larger first": {CauseInput{Operations: []OperationChange{slowTTFT(steadyModel("m1")), retriedMore(steadyTool("search"))}, Attempts: attemptsOf("tool", "search", "overload", 503, 20, 40)},
			"tool `search` answers 503 since " + clock + " (40 % of attempts); hidden retries add 11 s at P95; this is 60 % of the added time"},
		"a deployment shortly before": {CauseInput{Operations: []OperationChange{steadyModel("m1"), retriedMore(steadyTool("search"))}, Attempts: attemptsOf("tool", "search", "overload", 503, 20, 40),
			Changes: []Change{{"service.version", "1.3", "1.4", t0.Add(-22 * time.Minute)}}},
			"tool `search` answers 503 since " + clock + " (40 % of attempts); hidden retries add 11 s at P95; model inference unchanged; service.version changed from 1.3 to 1.4 at " + t0.Add(-22*time.Minute).Format("15:04") + " shortly before"},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.From, c.in.To = t0.Add(-5*time.Minute), t0
			require.Equal(t, c.want, CauseLine(c.in))
		})
	}
}

func TestChangesNearby(t *testing.T) {
	at := func(m int) time.Time { return t0.Add(time.Duration(m) * time.Minute) }
	seen := []store.Setting{
		{Name: "service.version", Value: "1.3", First: at(0), Last: at(40), N: 90},
		{Name: "service.version", Value: "1.4", First: at(38), Last: at(60), N: 50},
		{Name: "timeout of tool search", Value: "10000 ms", First: at(0), Last: at(60), N: 90},
		{Name: "timeout of chat m1", Value: "30000 ms", First: at(0), Last: at(50), N: 90},
		{Name: "timeout of chat m1", Value: "60000 ms", First: at(51), Last: at(59), N: 1},
		{Name: "config.hash", Value: "new", First: at(50), Last: at(60), N: 9}, // nothing is known from before
	}
	require.Equal(t, []Change{{"service.version", "1.3", "1.4", at(38)}}, Changes(seen, t0), "a value seen once, or first, is no change")
}
