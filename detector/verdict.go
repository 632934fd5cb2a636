package detector

import (
	"math"
	"time"

	"driftline/detector/stats"
)

// Level is what a window says about one detection.
type Level string

// Levels. Insufficient and NoBaseline say nothing: they neither fire nor clear.
const (
	Insufficient Level = "insufficient_traffic"
	NoBaseline   Level = "no_baseline"
	// Quiet is below the clear level, Hold between clear and fire.
	Quiet  Level = "quiet"
	Hold   Level = "hold"
	Breach Level = "breach"
)

// Severities.
const (
	Warning  = "warning"
	Critical = "critical"
)

// Verdict is the outcome of judging one window of one slice.
type Verdict struct {
	Detection string
	Slice     Slice
	Level     Level
	// Reason is one word on why, for instance no_retries or fdr.
	Reason   string
	From, To time.Time
	// Since is when the change began, as far as the long window shows; zero when unknown.
	Since   time.Time
	Samples uint64
	// Strength is how many times its firing level the lower bound of the effect is, where the
	// detection says so; see [Config.FastFactor].
	Strength float64
	// Value, Threshold and Baseline are in Unit: 1 for shares, ms.
	Value     float64
	Threshold float64
	Baseline  float64
	Unit      string
	// Effect is the effect's size with its interval, in EffectUnit.
	Effect     stats.Interval
	EffectUnit string
	// P is one-sided against "nothing changed"; 1 where nothing was tested.
	P float64
	// Lasting says that the finding is of the same work in each round, such as requests that
	// hang: rounds are then no new chances.
	Lasting  bool
	Severity string
	// Text says in a sentence what was seen; Cause names the likely reason.
	Text     string
	Cause    string
	Evidence Evidence
	// notes become annotations of the alert.
	notes map[string]string
}

// annotate keeps a text for the alert's annotations; an empty one is left out.
func (v *Verdict) annotate(key, text string) {
	if text == "" {
		return
	}
	if v.notes == nil {
		v.notes = map[string]string{}
	}
	v.notes[key] = text
}

// Evidence is what an alert page shows and what is stored as JSON.
type Evidence struct {
	Reason string    `json:"reason,omitempty"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	// Since is when the change began, where the minutes before show it.
	Since      *time.Time      `json:"since,omitempty"`
	Samples    uint64          `json:"samples"`
	EffectUnit string          `json:"effect_unit,omitempty"`
	Effect     *stats.Interval `json:"effect,omitempty"`
	Numbers    Numbers         `json:"numbers,omitempty"`
	Groups     []Group         `json:"groups,omitempty"`
	// Notes say what limits the finding, such as a derived agent time.
	Notes    []string `json:"notes,omitempty"`
	TraceIDs []string `json:"trace_ids,omitempty"`
}

// Group is a retry group's figures in milliseconds.
type Group struct {
	Retries    string  `json:"retries"`
	N          uint64  `json:"n"`
	UserP50MS  float64 `json:"user_p50_ms"`
	UserP95MS  float64 `json:"user_p95_ms"`
	AgentN     uint64  `json:"agent_n"`
	AgentP50MS float64 `json:"agent_p50_ms"`
	FailedMS   float64 `json:"failed_attempt_mean_ms"`
	BackoffMS  float64 `json:"backoff_mean_ms"`
}

// retryOrder is the order of retry groups wherever they are listed.
var retryOrder = []string{"0", "1", "2+", "unknown"}

func groupsOf(by map[string]*RetryGroup) []Group {
	var out []Group
	for _, name := range retryOrder {
		g := by[name]
		if g == nil || g.N == 0 {
			continue
		}
		out = append(out, Group{Retries: name, N: g.N, UserP50MS: quantile(g.User.Hist, 0.5), UserP95MS: quantile(g.User.Hist, 0.95),
			AgentN: g.Agent.N, AgentP50MS: quantile(g.Agent.Hist, 0.5),
			FailedMS: float64(g.FailedNS) / float64(g.N) / 1e6, BackoffMS: float64(g.BackoffNS) / float64(g.N) / 1e6})
	}
	return out
}

// quantile is 0 for an empty histogram; where that matters, counts are shown.
func quantile(h *stats.Hist, p float64) float64 {
	v, err := h.Quantile(p)
	if err != nil {
		return 0
	}
	return v
}

func (v *Verdict) number(name string, x float64) { v.Evidence.Numbers.set(name, x) }

func (v *Verdict) note(text string) { v.Evidence.Notes = append(v.Evidence.Notes, text) }

// with ends the judging of v.
func (v Verdict) with(l Level, reason string) Verdict {
	v.Level, v.Reason = l, reason
	v.Evidence.Reason, v.Evidence.From, v.Evidence.To, v.Evidence.Samples = reason, v.From, v.To, v.Samples
	if v.Effect.Confidence > 0 {
		e := v.Effect
		v.Evidence.Effect, v.Evidence.EffectUnit = &e, v.EffectUnit
	}
	return v
}

// normSF is the upper tail of the standard normal distribution.
func normSF(z float64) float64 { return 0.5 * math.Erfc(z/math.Sqrt2) }

// z95 is the two-sided 95 % point of the standard normal distribution.
const z95 = 1.959963984540054

// missed tells whether deadlines are missed more than share, and more than twice
// the baseline, beyond doubt. Only that makes an early warning critical.
func missed(k, n, baseK, baseN uint64, share float64) bool {
	w, err := stats.Wilson(k, n, 0.95)
	if err != nil {
		return false
	}
	if baseN > 0 {
		share = math.Max(share, 2*float64(baseK)/float64(baseN))
	}
	return k >= 5 && w.Lo > share
}

func severity(critical bool) string {
	if critical {
		return Critical
	}
	return Warning
}

func share(k, n uint64) float64 {
	if n == 0 {
		return 0
	}
	return float64(k) / float64(n)
}
