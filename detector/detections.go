package detector

import "driftline/detector/store"

// operationDetection is a detection judged per slice of operations.
type operationDetection struct {
	name string
	// examples says which traces show it best.
	examples store.ExampleOrder
	// models says that it is judged for calls of models alone.
	models bool
	// needs is what it decides by. A breach is judged again with all there is.
	needs needs
	judge func(w *OperationWindow, b OperationBaseline, r *Rules, cfg *Config) Verdict
}

// requestDetection is a detection judged per agent, over its requests.
type requestDetection struct {
	name     string
	examples store.ExampleOrder
	judge    func(w *RequestWindow, b RequestBaseline, r *Rules, cfg *Config) Verdict
}

// workDetection is a detection over limits, load and misses.
type workDetection struct {
	name     string
	examples store.ExampleOrder
	// of says of what: operations, requests or both.
	operations, requests bool
	// left says that it looks at what deadlines left, once that it chooses its own time, whatever
	// the window.
	left, once bool
	judge      func(w *WorkWindow, b WorkBaseline, r *Rules, cfg *Config) Verdict
}

// A new detection is a row of one of these tables, in the order of docs/detections.md.
// Each is judged on the short window, or on the long one where that has too few samples.
var (
	operationDetections = []operationDetection{
		{RetryBimodality, store.ByHidden, false, groupTimes, func(w *OperationWindow, b OperationBaseline, r *Rules, _ *Config) Verdict {
			return JudgeRetry(*w, b, r.Retry)
		}},
		{P95Spread, store.ByUserTime, false, ownTimes, func(w *OperationWindow, b OperationBaseline, r *Rules, cfg *Config) Verdict {
			return JudgeSpread(*w, b, r.Spread, cfg.MinBlocks)
		}},
		{P95Surge, store.ByUserTime, false, ownTimes | callTimes, func(w *OperationWindow, b OperationBaseline, r *Rules, cfg *Config) Verdict {
			return JudgeSurge(*w, b, r.Surge, cfg.MinBlocks)
		}},
		{GenerationSlowdown, store.ByTokenTime, true, tokenTimes | ttftTimes, func(w *OperationWindow, b OperationBaseline, r *Rules, cfg *Config) Verdict {
			return JudgeGeneration(*w, b, r.Generation, cfg.MinBlocks)
		}},
		{TTFTShift, store.ByFirstToken, true, ttftTimes, func(w *OperationWindow, b OperationBaseline, r *Rules, cfg *Config) Verdict {
			return JudgeTTFT(*w, b, r.TTFT, cfg.MinBlocks)
		}},
		{RetryAmplification, store.ByHidden, false, tryCounts, func(w *OperationWindow, b OperationBaseline, r *Rules, cfg *Config) Verdict {
			return JudgeAmplification(*w, b, r.Amplification, cfg.MinBlocks)
		}},
		{FirstTimeout, store.ByFirstTimeout, false, tryCounts, func(w *OperationWindow, b OperationBaseline, r *Rules, cfg *Config) Verdict {
			return JudgeFirstTimeout(*w, b, r.FirstTimeout, cfg.MinBlocks)
		}},
		{RetryExhaustion, store.ByExhausted, false, tryCounts, func(w *OperationWindow, b OperationBaseline, r *Rules, cfg *Config) Verdict {
			return JudgeExhaustion(*w, b, r.Exhaustion, cfg.MinBlocks)
		}},
		{CapPileup, store.ByUserTime, false, groupTimes | tryCounts, func(w *OperationWindow, b OperationBaseline, r *Rules, cfg *Config) Verdict {
			return JudgePileUp(*w, b, r.PileUp, cfg.MinBlocks)
		}},
	}
	requestDetections = []requestDetection{
		{RetryBimodality, store.ByHidden, func(w *RequestWindow, b RequestBaseline, r *Rules, _ *Config) Verdict {
			return JudgeRetryRequests(*w, b, r.Retry)
		}},
		{DeadlineDrift, store.ByDrift, func(w *RequestWindow, b RequestBaseline, r *Rules, _ *Config) Verdict {
			return JudgeDrift(*w, b, r.Drift)
		}},
	}
	workDetections = []workDetection{
		{DeadlineDrift, store.ByLeft, true, false, true, false, func(w *WorkWindow, b WorkBaseline, r *Rules, cfg *Config) Verdict {
			return JudgeDispatch(*w, b, r.Drift, cfg.MinBlocks)
		}},
		{StuckRatio, store.ByUserTime, true, true, false, false, func(w *WorkWindow, b WorkBaseline, r *Rules, cfg *Config) Verdict {
			return JudgeStuck(*w, b, r.Stuck, cfg.MinBlocks)
		}},
		{Cascade, store.ByInherited, true, false, false, false, func(w *WorkWindow, b WorkBaseline, r *Rules, cfg *Config) Verdict {
			return JudgeCascade(*w, b, r.Cascade, cfg.MinBlocks)
		}},
		{Saturation, store.ByUserTime, true, true, false, true, func(w *WorkWindow, b WorkBaseline, r *Rules, cfg *Config) Verdict {
			return JudgeSaturation(*w, b, r.Saturation, cfg.MinBlocks)
		}},
		{TimeoutNotEnforced, store.ByOverrun, true, false, false, false, func(w *WorkWindow, b WorkBaseline, r *Rules, _ *Config) Verdict {
			return JudgeTimeout(*w, b, r.Timeout)
		}},
	}
)

// ExampleOrder says which traces of a slice show a detection best; not ok for one without
// examples.
func ExampleOrder(detection string, s Slice) (order store.ExampleOrder, ok bool) {
	if detection == Alert504 {
		return store.By504, true
	}
	for i := range requestDetections {
		if d := &requestDetections[i]; d.name == detection && s.IsRequest() {
			return d.examples, true
		}
	}
	for i := range operationDetections {
		if d := &operationDetections[i]; d.name == detection && !s.IsRequest() {
			return d.examples, true
		}
	}
	for i := range workDetections {
		if d := &workDetections[i]; d.name == detection && (s.IsRequest() && d.requests || !s.IsRequest() && d.operations) {
			return d.examples, true
		}
	}
	return 0, false
}
