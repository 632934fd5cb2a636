package detector

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// spreadOut draws n values around a median, lognormal with sigma.
func spreadOut(rng *rand.Rand, n int, median, sigma float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = median * math.Exp(sigma*rng.NormFloat64())
	}
	return out
}

// streams is a window of streamed calls.
func streams(ttft, perToken []float64, t Tokens) OperationWindow {
	w := opWindow(nil)
	w.N, w.TTFT, w.PerToken = uint64(len(ttft)), measure(ttft...), measure(perToken...)
	t.Operations = w.N
	w.Tokens = t
	return w
}

// usualStreams is the baseline of blocks of such calls.
func usualStreams(w OperationWindow, blocks int) OperationBaseline {
	b := OperationBaseline{Tokens: w.Tokens}
	for range blocks {
		b.TTFT.Blocks++
		b.PerToken.Blocks++
	}
	b.TTFT.P50MS, b.TTFT.P95MS = quantile(w.TTFT.Hist, 0.5), quantile(w.TTFT.Hist, 0.95)
	b.PerToken.P50MS, b.PerToken.P95MS = quantile(w.PerToken.Hist, 0.5), quantile(w.PerToken.Hist, 0.95)
	return b
}

// C86: decoding at half speed, with the first token as soon as ever: 300 tokens, total
// 10.1 s before and 19.4 s after.
func TestC86SlowDecode(t *testing.T) {
	cfg := DefaultConfig()
	perToken := func(total float64) []float64 { return fixed(200, (total-800)/299) }
	tokens := Tokens{Input: 200 * 1000, Output: 200 * 300}
	before, after := streams(fixed(200, 800), perToken(10_100), tokens), streams(fixed(200, 800), perToken(19_400), tokens)
	b := usualStreams(before, 3)

	v := JudgeGeneration(after, b, cfg.Generation, cfg.MinBlocks)
	require.Equal(t, Breach, v.Level, v.Reason)
	require.InDelta(t, 18_600./299, v.Value, 2)
	require.InDelta(t, 2, v.Effect.Estimate, 0.1)
	require.Contains(t, v.Cause, "time to the first token is as usual")
	require.Equal(t, Quiet, JudgeTTFT(after, b, cfg.TTFT, cfg.MinBlocks).Level, "no TTFT alert")

	require.Equal(t, Quiet, JudgeGeneration(before, b, cfg.Generation, cfg.MinBlocks).Level)
	require.Equal(t, NoBaseline, JudgeGeneration(after, usualStreams(before, 2), cfg.Generation, cfg.MinBlocks).Level)
	few := streams(fixed(49, 800), fixed(49, 62), Tokens{})
	require.Equal(t, Insufficient, JudgeGeneration(few, b, cfg.Generation, cfg.MinBlocks).Level)
	longer := after
	longer.Tokens.Output *= 2
	v = JudgeGeneration(longer, b, cfg.Generation, cfg.MinBlocks)
	require.Equal(t, Hold, v.Level)
	require.Equal(t, "more_tokens", v.Reason)
}

// Both sides of the level, and a rate that scatters by itself does not fire.
func TestGenerationSlowdownLevels(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig()
	tokens := Tokens{Input: 1000 * 800, Output: 800 * 300}
	usual := streams(spreadOut(rng, 800, 600, 0.5), spreadOut(rng, 800, 30, 0.3), tokens)
	b := usualStreams(usual, 10)
	for _, c := range []struct {
		factor float64
		want   Level
	}{{1, Quiet}, {1.15, Quiet}, {1.5, Hold}, {1.85, Breach}, {4, Breach}} {
		v := JudgeGeneration(streams(spreadOut(rng, 800, 600, 0.5), spreadOut(rng, 800, 30*c.factor, 0.3), tokens), b, cfg.Generation, cfg.MinBlocks)
		require.Equal(t, c.want, v.Level, "%.2f times: %s", c.factor, v.Text)
	}
	fires := 0
	for range 500 {
		if JudgeGeneration(streams(spreadOut(rng, 60, 600, 0.5), spreadOut(rng, 60, 30, 0.5), tokens), b, cfg.Generation, cfg.MinBlocks).Level == Breach {
			fires++
		}
	}
	require.Zero(t, fires, "of 500 quiet windows of 60 calls")
}

func TestTTFTShiftNamesItsReason(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig()
	const n = 400
	usual := streams(spreadOut(rng, n, 900, 0.4), fixed(n, 30), Tokens{Input: n * 4000, Output: n * 300, Cached: n * 3000})
	b := usualStreams(usual, 10)
	judge := func(factor float64, t Tokens) Verdict {
		return JudgeTTFT(streams(spreadOut(rng, n, 900*factor, 0.4), fixed(n, 30), t), b, cfg.TTFT, cfg.MinBlocks)
	}
	same := Tokens{Input: n * 4000, Output: n * 300, Cached: n * 3000}
	require.Equal(t, Quiet, judge(1, same).Level)
	require.Equal(t, Hold, judge(1.9, same).Level)

	v := judge(3.5, same)
	require.Equal(t, Breach, v.Level)
	require.Equal(t, reasonQueue, v.Reason)

	v = judge(3.5, Tokens{Input: n * 4000, Output: n * 300, Cached: n * 200})
	require.Equal(t, Breach, v.Level)
	require.Equal(t, reasonCacheHits, v.Reason)
	require.Contains(t, v.Cause, "75 % of input tokens came from it, now 5 %")

	// Without tokens nothing is explained away.
	b.Tokens = Tokens{}
	require.Equal(t, Breach, judge(3.5, Tokens{}).Level)
}

// C72, seen from above: prompts four times as long explain a wait four times as long.
func TestC72LongPromptsExplainALateFirstToken(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig()
	const n = 400
	b := usualStreams(streams(spreadOut(rng, n, 900, 0.4), fixed(n, 30), Tokens{Input: n * 4000, Output: n * 300, Cached: n * 3000}), 10)
	judge := func(factor float64, t Tokens) Verdict {
		return JudgeTTFT(streams(spreadOut(rng, n, 900*factor, 0.4), fixed(n, 30), t), b, cfg.TTFT, cfg.MinBlocks)
	}
	v := judge(4, Tokens{Input: n * 16_000, Output: n * 300, Cached: n * 12_000})
	require.Equal(t, Hold, v.Level)
	require.Equal(t, reasonPrefill, v.Reason)
	require.Contains(t, v.Cause, "prompts have become longer")
	v = judge(14, Tokens{Input: n * 16_000, Output: n * 300, Cached: n * 12_000})
	require.Equal(t, Breach, v.Level, "but not one fourteen times as long")
}

// C22: calls that are not streamed have no time to first token: there is no verdict on it, and
// their whole time is judged all the same.
func TestC22NotStreamedHasNoFirstToken(t *testing.T) {
	cfg := DefaultConfig()
	slow := inference(t0, fixed(200, 25_000))
	slow.Stream = "no"
	base := calm(source(t), 2000, 200)
	base.TTFT = LevelBaseline{Blocks: 100, P50MS: 900, P95MS: 1500} // as of a slice that once was streamed
	require.Equal(t, Insufficient, JudgeTTFT(slow, base, cfg.TTFT, cfg.MinBlocks).Level)
	require.Equal(t, Insufficient, JudgeGeneration(slow, base, cfg.Generation, cfg.MinBlocks).Level)
	require.Equal(t, Breach, JudgeSurge(slow, base, cfg.Surge, cfg.MinBlocks).Level)
}

func TestTTFTShiftTellsAQueueFromOneWay(t *testing.T) {
	late := func(service, target string) Verdict {
		return Verdict{Detection: TTFTShift, Slice: Slice{Service: service, Target: target}, Level: Breach, Reason: reasonQueue, Cause: "?"}
	}
	fine := func(service, target string) Verdict {
		v := late(service, target)
		v.Level, v.Reason = Quiet, "as_usual"
		return v
	}
	cause := func(vs ...Verdict) string {
		nameTTFTCauses(vs)
		return vs[0].Cause
	}
	require.Contains(t, cause(late("a", "m"), late("b", "m"), late("c", "m"), fine("c", "n")), "3 of 3 kinds of calls to m wait longer")
	require.Contains(t, cause(late("a", "m"), late("a", "n"), late("a", "o"), fine("b", "m")), "3 of 3 kinds of calls of a wait longer")
	require.Contains(t, cause(late("a", "m"), fine("a", "n"), fine("a", "o")), "only this kind of call waits longer")
	require.Equal(t, "?", cause(late("a", "m"), late("b", "m")), "two are no pattern")
	silent := fine("b", "m")
	silent.Level = Insufficient
	require.Equal(t, "?", cause(late("a", "m"), silent, silent, silent), "those that are not judged say nothing")
}

// A burst of two minutes in which all calls wait is no queue yet; three minutes of them are,
// whether there are few calls in a minute or many.
func TestTTFTShiftWaitsForABurstToPass(t *testing.T) {
	rng := source(t)
	cfg := DefaultConfig()
	b := usualStreams(streams(spreadOut(rng, 400, 900, 0.4), fixed(400, 30), Tokens{}), 10)
	judge := func(minutes ...Share) Verdict {
		w := streams(append(spreadOut(rng, 60, 900, 0.4), spreadOut(rng, 60, 5000, 0.4)...), fixed(120, 30), Tokens{})
		w.LateTokens = func(ms float64) []Share {
			require.InDelta(t, 1.5*b.TTFT.P95MS, ms, 1e-9)
			return minutes
		}
		return JudgeTTFT(w, b, cfg.TTFT, cfg.MinBlocks)
	}
	v := judge(Share{0, 20}, Share{1, 20}, Share{0, 20}, Share{30, 30}, Share{30, 30})
	require.Equal(t, Hold, v.Level)
	require.Equal(t, "passing", v.Reason)
	require.Equal(t, Breach, judge(Share{0, 20}, Share{0, 20}, Share{5, 20}, Share{30, 30}, Share{30, 30}).Level)
	v = judge(Share{2, 15}, Share{3, 35}, Share{17, 30}, Share{3, 13}, Share{1, 7})
	require.Equal(t, "passing", v.Reason, "two of fifteen and one of seven are chance")
	require.Equal(t, Breach, judge(Share{3, 15}, Share{3, 35}, Share{17, 30}, Share{3, 13}, Share{1, 7}).Level)
	require.Equal(t, Breach, judge(Share{1, 1}, Share{30, 30}, Share{2, 2}, Share{30, 30}).Level, "two minutes alone have calls enough")
	require.Equal(t, Breach, judge(Share{1, 3}, Share{1, 3}, Share{0, 3}, Share{1, 3}).Level)
	w := streams(spreadOut(rng, 120, 5000, 0.4), fixed(120, 30), Tokens{})
	require.Equal(t, Breach, JudgeTTFT(w, b, cfg.TTFT, cfg.MinBlocks).Level, "nothing is known of minutes")
}
