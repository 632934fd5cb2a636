package detector

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Rules are the settings of all detections for one slice.
type Rules struct {
	// Shadow lists detections that are stored and never sent.
	Shadow map[string]bool `yaml:"-"`

	// Retry sets up retry_bimodality.
	Retry RetryConfig `yaml:"retry_bimodality"`
	// Drift sets up deadline_drift.
	Drift DriftConfig `yaml:"deadline_drift"`
	// Spread sets up p95_spread.
	Spread SpreadConfig `yaml:"p95_spread"`
	// Surge sets up p95_surge.
	Surge SurgeConfig `yaml:"p95_surge"`
	// Generation sets up generation_slowdown.
	Generation GenerationConfig `yaml:"generation_slowdown"`
	// TTFT sets up ttft_shift.
	TTFT TTFTConfig `yaml:"ttft_shift"`
	// Amplification sets up retry_amplification.
	Amplification AmplificationConfig `yaml:"retry_amplification"`
	// FirstTimeout sets up first_timeout.
	FirstTimeout DeadConfig `yaml:"first_timeout"`
	// Exhaustion sets up retry_exhaustion.
	Exhaustion DeadConfig `yaml:"retry_exhaustion"`
	// PileUp sets up cap_pileup.
	PileUp PileUpConfig `yaml:"cap_pileup"`
	// Stuck sets up stuck_ratio.
	Stuck StuckConfig `yaml:"stuck_ratio"`
	// Cascade sets up cascade.
	Cascade CascadeConfig `yaml:"cascade"`
	// Saturation sets up saturation.
	Saturation SaturationConfig `yaml:"saturation"`
	// Timeout sets up timeout_not_enforced.
	Timeout TimeoutConfig `yaml:"timeout_not_enforced"`
	// Gate sets up alert_504, the late rule that lead is measured against.
	Gate GatewayConfig `yaml:"alert_504"`
}

// Match says which slices an override is for. An empty part matches every value; one that
// ends in "*" every value that begins so.
type Match struct {
	// Service is the service's name.
	Service string `yaml:"service"`
	// Agent is the agent's name.
	Agent string `yaml:"agent"`
	// Kind is the kind of work, such as chat or tool.
	Kind string `yaml:"kind"`
	// Target is the model's or tool's name; requests have none.
	Target string `yaml:"target"`
	// Stream is yes, no or unknown; requests have none.
	Stream string `yaml:"stream"`
}

// Override is a whole set of rules for the slices that match.
type Override struct {
	Match
	Rules
}

// Matches says whether s is one of the slices.
func (m Match) Matches(s Slice) bool {
	for _, p := range [...][2]string{{m.Service, s.Service}, {m.Agent, s.Agent}, {m.Kind, s.Kind}, {m.Target, s.Target}, {m.Stream, s.Stream}} {
		prefix, open := strings.CutSuffix(p[0], "*")
		if p[0] != "" && p[0] != p[1] && !(open && strings.HasPrefix(p[1], prefix)) {
			return false
		}
	}
	return true
}

// covers says whether m matches every slice that o matches.
func (m Match) covers(o Match) bool {
	return m.Matches(Slice{Service: o.Service, Agent: o.Agent, Kind: o.Kind, Target: o.Target, Stream: o.Stream})
}

// problems names parts that match nothing, each with its key after prefix.
func (m Match) problems(prefix string) (errs []error) {
	for _, p := range [...][2]string{{"service", m.Service}, {"agent", m.Agent}, {"kind", m.Kind}, {"target", m.Target}, {"stream", m.Stream}} {
		if name := strings.TrimSuffix(p[1], "*"); strings.Contains(name, "*") {
			errs = append(errs, fmt.Errorf("%s%s %q: want \"*\" at the end alone, where it matches every value that begins so", prefix, p[0], p[1]))
		}
	}
	return errs
}

// For gives the rules of a slice: those of the first override that matches, or else the
// general ones.
func (c *Config) For(s Slice) *Rules {
	for i := range c.Overrides {
		if c.Overrides[i].Matches(s) {
			return &c.Overrides[i].Rules
		}
	}
	return &c.Rules
}

// RetryConfig sets up retry_bimodality.
type RetryConfig struct {
	// MinOperations is how many operations must know their attempts.
	MinOperations uint64 `yaml:"min_operations"`
	// MinSide is how many must be on each side, with and without retries.
	MinSide uint64 `yaml:"min_side"`
	// FireAUC is the least probability that work with retries is slower; its interval
	// must be above half way between one half and it.
	FireAUC float64 `yaml:"fire_auc"`
	// RequestAUC is the same for requests, within strata of steps.
	RequestAUC float64 `yaml:"request_auc"`
	// MinSeparation is the least difference of medians.
	MinSeparation time.Duration `yaml:"min_separation"`
	// MinSeparationRatio is the same as a share of the median without retries.
	MinSeparationRatio float64 `yaml:"min_separation_ratio"`
	// Margin is the ratio within which agent time counts as close.
	Margin float64 `yaml:"margin"`
	// PriorShare stands for the baseline's retry share until there is one.
	PriorShare float64 `yaml:"prior_share"`
	// MinShare is the least baseline of the retry share.
	MinShare float64 `yaml:"min_share"`
	// FireRise is by which factor the retry share must have risen.
	FireRise float64 `yaml:"fire_rise"`
	// ClearRise is the factor below which it is quiet again.
	ClearRise float64 `yaml:"clear_rise"`
	// Impact is by how much more often, as a share, retried work must miss its deadline to
	// count without a rise.
	Impact float64 `yaml:"impact"`
}

// DriftConfig sets up deadline_drift.
type DriftConfig struct {
	// MinRequests is how many requests must have a decision point.
	MinRequests uint64 `yaml:"min_requests"`
	// BudgetShare of the median budget is a drift that counts.
	BudgetShare float64 `yaml:"budget_share"`
	// UserShare of the median user time is one where no budget is known.
	UserShare float64 `yaml:"user_share"`
	// MinDrift is the least drift that counts.
	MinDrift time.Duration `yaml:"min_drift"`
	// PriorShare stands for the baseline until there is one.
	PriorShare float64 `yaml:"prior_share"`
	// MinShare is the least baseline.
	MinShare float64 `yaml:"min_share"`
	// FireRise is the factor over the baseline that fires.
	FireRise float64 `yaml:"fire_rise"`
	// FireStep is the step in share over the baseline that fires.
	FireStep float64 `yaml:"fire_step"`
	// ClearRise is the factor below which it is quiet again.
	ClearRise float64 `yaml:"clear_rise"`
	// MissShare of requests over deadline, beyond twice the baseline, is critical.
	MissShare float64 `yaml:"miss_share"`
}

// SpreadConfig sets up p95_spread.
type SpreadConfig struct {
	// MinOperations is how many calls a window needs.
	MinOperations uint64 `yaml:"min_operations"`
	// Ratio to the baseline's spread fires.
	Ratio float64 `yaml:"ratio"`
	// ClearRatio is below which it is quiet again, once P95 is too.
	ClearRatio float64 `yaml:"clear_ratio"`
	// ClearP95 is the ratio of P95 to its baseline below which it is quiet again.
	ClearP95 float64 `yaml:"clear_p95"`
	// P95Floor is the least P95 that can fire.
	P95Floor time.Duration `yaml:"p95_floor"`
	// P95Ratio is the least ratio of P95 to its baseline that can fire.
	P95Ratio float64 `yaml:"p95_ratio"`
	// SubWindows is over how many minutes, with min_operations each, P95 scatters.
	SubWindows int `yaml:"sub_windows"`
	// MinBand is the least baseline spread as a share of the baseline's P95.
	MinBand float64 `yaml:"min_band"`
	// MissShare of calls over deadline, beyond twice the baseline, is critical.
	MissShare float64 `yaml:"miss_share"`
}

// SurgeConfig sets up p95_surge.
type SurgeConfig struct {
	// MinOperations is how many calls a window needs.
	MinOperations uint64 `yaml:"min_operations"`
	// Ratio of P95 to its baseline fires at once.
	Ratio float64 `yaml:"ratio"`
	// ClearRatio is below which it is quiet again.
	ClearRatio float64 `yaml:"clear_ratio"`
	// CUSUMK is the sequential test's allowance, in standard deviations of log P95 by minute.
	CUSUMK float64 `yaml:"cusum_k"`
	// CUSUMH is its limit, in the same unit.
	CUSUMH float64 `yaml:"cusum_h"`
	// ExceedFrom is the share of calls above the baseline's P95 that is still usual: 0.05, and
	// what the load of the hour adds.
	ExceedFrom float64 `yaml:"exceed_from"`
	// ExceedTo is the share that a second sequential test looks for.
	ExceedTo float64 `yaml:"exceed_to"`
	// ExceedH is its limit: with independent calls, a false alarm comes in no less than e to
	// the power of it.
	ExceedH float64 `yaml:"exceed_h"`
	// ShiftRatio is the least shift of P95 that the sequential tests may report.
	ShiftRatio float64 `yaml:"shift_ratio"`
	// MinLogSD is the least standard deviation of log P95.
	MinLogSD float64 `yaml:"min_log_sd"`
	// P95Floor is the least P95 that can fire.
	P95Floor time.Duration `yaml:"p95_floor"`
	// ClippedShare of work cut at a cap hides P95 and fires with shift_ratio.
	ClippedShare float64 `yaml:"clipped_share"`
	// MissShare of calls over deadline, beyond twice the baseline, is critical.
	MissShare float64 `yaml:"miss_share"`
}

// GenerationConfig sets up generation_slowdown.
type GenerationConfig struct {
	// MinOperations is how many calls with a time per output token a window needs.
	MinOperations uint64 `yaml:"min_operations"`
	// Ratio of the median time per output token to its baseline fires.
	Ratio float64 `yaml:"ratio"`
	// ClearRatio is below which it is quiet again.
	ClearRatio float64 `yaml:"clear_ratio"`
	// MoreTokens is by which factor answers must have grown for the work itself to have changed.
	MoreTokens float64 `yaml:"more_tokens"`
	// Floor is the least time per output token that can fire.
	Floor time.Duration `yaml:"floor"`
	// MissShare of calls over deadline, beyond twice the baseline, is critical.
	MissShare float64 `yaml:"miss_share"`
}

// TTFTConfig sets up ttft_shift.
type TTFTConfig struct {
	// MinOperations is how many calls with a time to first token a window needs.
	MinOperations uint64 `yaml:"min_operations"`
	// Ratio of P95 to its baseline fires.
	Ratio float64 `yaml:"ratio"`
	// ClearRatio is below which it is quiet again.
	ClearRatio float64 `yaml:"clear_ratio"`
	// MoreTokens is by which factor the tokens that no cache holds must have grown for lost
	// cache hits to be named as the cause.
	MoreTokens float64 `yaml:"more_tokens"`
	// CacheDrop is by how much the share of cached tokens must have fallen for that.
	CacheDrop float64 `yaml:"cache_drop"`
	// Floor is the least P95 that can fire.
	Floor time.Duration `yaml:"floor"`
	// MissShare of calls over deadline, beyond twice the baseline, is critical.
	MissShare float64 `yaml:"miss_share"`
}

// GatewayConfig sets up alert_504.
type GatewayConfig struct {
	// Share of HTTP 504 is too much.
	Share float64 `yaml:"share"`
	// Minutes in a row must have it.
	Minutes int `yaml:"minutes"`
	// MinRequests is how many requests or calls a minute needs.
	MinRequests uint64 `yaml:"min_requests"`
}

// DefaultRules is what docs/detections.md describes.
func DefaultRules() Rules {
	r := Rules{
		Retry: RetryConfig{MinOperations: 50, MinSide: 10, FireAUC: 0.8, RequestAUC: 0.65, MinSeparation: 500 * time.Millisecond, MinSeparationRatio: 0.25,
			Margin: 1.25, PriorShare: 0.05, MinShare: 0.02, FireRise: 2, ClearRise: 1.3, Impact: 0.1},
		Drift: DriftConfig{MinRequests: 30, BudgetShare: 0.1, UserShare: 0.25, MinDrift: time.Second, PriorShare: 0.05, MinShare: 0.02,
			FireRise: 2, FireStep: 0.25, ClearRise: 1.3, MissShare: 0.02},
		Spread: SpreadConfig{MinOperations: 50, Ratio: 4, ClearRatio: 2, ClearP95: 1.3, P95Floor: 500 * time.Millisecond, P95Ratio: 1.3,
			SubWindows: 10, MinBand: 0.05, MissShare: 0.02},
		Surge: SurgeConfig{MinOperations: 50, Ratio: 3, ClearRatio: 1.2, CUSUMK: 0.5, CUSUMH: 8, ExceedFrom: 0.08, ExceedTo: 0.2, ExceedH: 14, ShiftRatio: 1.35, MinLogSD: 0.05,
			P95Floor: 500 * time.Millisecond, ClippedShare: 0.05, MissShare: 0.02},
		Generation: GenerationConfig{MinOperations: 50, Ratio: 1.7, ClearRatio: 1.3, MoreTokens: 1.5, Floor: 5 * time.Millisecond, MissShare: 0.02},
		TTFT:       TTFTConfig{MinOperations: 50, Ratio: 2.5, ClearRatio: 1.3, MoreTokens: 1.3, CacheDrop: 0.2, Floor: 500 * time.Millisecond, MissShare: 0.02},
		Stuck:      defaultStuck(), Cascade: defaultCascade(), Saturation: defaultSaturation(), Timeout: defaultTimeout(),
		Gate: GatewayConfig{Share: 0.05, Minutes: 2, MinRequests: 5},
	}
	attemptDefaults(&r)
	return r
}

// problems lists every setting that cannot work, each with its key after prefix.
func (r *Rules) problems(prefix string) (errs []error) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(prefix+format, args...))
		}
	}
	atLeast := func(key string, v, least float64) { check(v >= least, "%s %v: want %v or more", key, v, least) }
	share := func(key string, v float64) { check(v >= 0 && v <= 1, "%s %v: want a share between 0 and 1", key, v) }
	auc := func(key string, v float64) { check(v > 0.5 && v < 1, "%s %v: want between 0.5 and 1", key, v) }
	factors := func(section, fire, clear string, f, c float64) {
		check(f > c && c >= 1, "%s.%s %v, %s.%s %v: want the first above the second, and that 1 or more", section, fire, f, section, clear, c)
	}
	length := func(key string, d time.Duration) { check(d >= 0, "%s %v: want 0 or more", key, d) }
	for _, name := range slices.Sorted(maps.Keys(r.Shadow)) {
		check(slices.Contains(shadowable, name), "shadow %q: want one of %s", name, strings.Join(shadowable, ", "))
	}
	t := &r.Retry
	atLeast("retry_bimodality.min_operations", float64(t.MinOperations), 1)
	atLeast("retry_bimodality.min_side", float64(t.MinSide), 1)
	auc("retry_bimodality.fire_auc", t.FireAUC)
	auc("retry_bimodality.request_auc", t.RequestAUC)
	length("retry_bimodality.min_separation", t.MinSeparation)
	atLeast("retry_bimodality.min_separation_ratio", t.MinSeparationRatio, 0)
	check(t.Margin > 1, "retry_bimodality.margin %v: want a ratio over 1", t.Margin)
	share("retry_bimodality.prior_share", t.PriorShare)
	share("retry_bimodality.min_share", t.MinShare)
	factors("retry_bimodality", "fire_rise", "clear_rise", t.FireRise, t.ClearRise)
	share("retry_bimodality.impact", t.Impact)

	d := &r.Drift
	atLeast("deadline_drift.min_requests", float64(d.MinRequests), 1)
	share("deadline_drift.budget_share", d.BudgetShare)
	share("deadline_drift.user_share", d.UserShare)
	length("deadline_drift.min_drift", d.MinDrift)
	share("deadline_drift.prior_share", d.PriorShare)
	share("deadline_drift.min_share", d.MinShare)
	factors("deadline_drift", "fire_rise", "clear_rise", d.FireRise, d.ClearRise)
	share("deadline_drift.fire_step", d.FireStep)
	share("deadline_drift.miss_share", d.MissShare)

	s := &r.Spread
	atLeast("p95_spread.min_operations", float64(s.MinOperations), 1)
	factors("p95_spread", "ratio", "clear_ratio", s.Ratio, s.ClearRatio)
	atLeast("p95_spread.clear_p95", s.ClearP95, 1)
	length("p95_spread.p95_floor", s.P95Floor)
	atLeast("p95_spread.p95_ratio", s.P95Ratio, 0)
	check(s.SubWindows >= 3, "p95_spread.sub_windows %d: want 3 or more", s.SubWindows)
	check(s.MinBand > 0 && s.MinBand <= 1, "p95_spread.min_band %v: want a share above 0, at most 1: nothing can be a multiple of no spread at all", s.MinBand)
	share("p95_spread.miss_share", s.MissShare)

	u := &r.Surge
	atLeast("p95_surge.min_operations", float64(u.MinOperations), 1)
	factors("p95_surge", "ratio", "clear_ratio", u.Ratio, u.ClearRatio)
	atLeast("p95_surge.cusum_k", u.CUSUMK, 0)
	check(u.CUSUMH > 0, "p95_surge.cusum_h %v: want more than 0", u.CUSUMH)
	check(u.ExceedFrom > 0 && u.ExceedFrom < u.ExceedTo && u.ExceedTo < 1, "p95_surge.exceed_from %v, p95_surge.exceed_to %v: want shares between 0 and 1, the first below the second", u.ExceedFrom, u.ExceedTo)
	atLeast("p95_surge.exceed_h", u.ExceedH, 1)
	atLeast("p95_surge.shift_ratio", u.ShiftRatio, 1)
	check(u.MinLogSD > 0, "p95_surge.min_log_sd %v: want more than 0", u.MinLogSD)
	length("p95_surge.p95_floor", u.P95Floor)
	share("p95_surge.clipped_share", u.ClippedShare)
	share("p95_surge.miss_share", u.MissShare)

	g := &r.Generation
	atLeast("generation_slowdown.min_operations", float64(g.MinOperations), 1)
	factors("generation_slowdown", "ratio", "clear_ratio", g.Ratio, g.ClearRatio)
	atLeast("generation_slowdown.more_tokens", g.MoreTokens, 1)
	length("generation_slowdown.floor", g.Floor)
	share("generation_slowdown.miss_share", g.MissShare)

	f := &r.TTFT
	atLeast("ttft_shift.min_operations", float64(f.MinOperations), 1)
	factors("ttft_shift", "ratio", "clear_ratio", f.Ratio, f.ClearRatio)
	atLeast("ttft_shift.more_tokens", f.MoreTokens, 1)
	share("ttft_shift.cache_drop", f.CacheDrop)
	length("ttft_shift.floor", f.Floor)
	share("ttft_shift.miss_share", f.MissShare)

	r.attemptProblems(check)
	r.workProblems(checks{check, atLeast, share, factors, length})

	share("alert_504.share", r.Gate.Share)
	check(r.Gate.Minutes >= 1, "alert_504.minutes %d: want 1 or more", r.Gate.Minutes)
	atLeast("alert_504.min_requests", float64(r.Gate.MinRequests), 1)
	return errs
}
