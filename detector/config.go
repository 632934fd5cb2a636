package detector

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Names of the detections.
const (
	RetryBimodality = "retry_bimodality"
	DeadlineDrift   = "deadline_drift"
	P95Spread       = "p95_spread"
	P95Surge        = "p95_surge"
	// GenerationSlowdown is slower decoding, TTFTShift a later first token.
	GenerationSlowdown = "generation_slowdown"
	TTFTShift          = "ttft_shift"
	// RetryAmplification is many attempts for one operation. FirstTimeout are operations that
	// end with their first attempt's timeout, RetryExhaustion those that fail after more.
	RetryAmplification = "retry_amplification"
	FirstTimeout       = "first_timeout"
	RetryExhaustion    = "retry_exhaustion"
	// CapPileup is work that something ends at one value.
	CapPileup = "cap_pileup"
	// StuckRatio is work past half of its limit, open work included; Cascade failures by a
	// budget that was spent upstream; Saturation load past the knee; TimeoutNotEnforced calls
	// that run on past their declared timeout.
	StuckRatio         = "stuck_ratio"
	Cascade            = "cascade"
	Saturation         = "saturation"
	TimeoutNotEnforced = "timeout_not_enforced"
	// Alert504 is the late rule that lead is measured against. It is stored and
	// never sent.
	Alert504 = "alert_504"
	// PipelineHealth is about driftline's own sight, not about latency.
	PipelineHealth = "pipeline_health"
)

// shadowable are the detections that can be stored without being sent.
var shadowable = []string{RetryBimodality, DeadlineDrift, P95Spread, P95Surge, GenerationSlowdown, TTFTShift, RetryAmplification, FirstTimeout, RetryExhaustion, CapPileup, StuckRatio, Cascade, Saturation, TimeoutNotEnforced, PipelineHealth}

// Shadowable lists the detections that an engine can send, in the order of the docs;
// alert_504 is never sent.
func Shadowable() []string { return slices.Clone(shadowable) }

// Config sets up an engine. Start from [DefaultConfig]. Ratios are factors: 3 is
// "three times", an increase by 200 %. The yaml tags are the keys of detectd.yaml.
type Config struct {
	// Interval is the time between rounds.
	Interval time.Duration `yaml:"interval"`
	// EvalDelay is the least time a minute must be over before it is judged. It grows
	// with the measured ingest lag, up to max_eval_delay.
	EvalDelay time.Duration `yaml:"eval_delay"`
	// MaxEvalDelay is the most that eval_delay grows to.
	MaxEvalDelay time.Duration `yaml:"max_eval_delay"`
	// ExplainTimeout bounds how long a round may ask the store for examples and facts around its
	// new alerts. What is not known by then is left out: an alert comes without, not late.
	ExplainTimeout time.Duration `yaml:"explain_timeout"`
	// ShortWindow is judged when it has enough samples, else long_window.
	ShortWindow time.Duration `yaml:"short_window"`
	// LongWindow is judged where short_window has too few samples.
	LongWindow time.Duration `yaml:"long_window"`
	// BaselineWindow is how far back the baseline looks, in blocks of block_length.
	BaselineWindow time.Duration `yaml:"baseline_window"`
	// BlockLength is the length of the baseline's blocks.
	BlockLength time.Duration `yaml:"block_length"`
	// MinBlocks is how many blocks with enough work a baseline needs.
	MinBlocks int `yaml:"min_blocks"`
	// SeasonDays is over how many days the rhythm of the day is learnt, by which baselines of
	// latency rise and fall; 0 is without.
	SeasonDays int `yaml:"season_days"`
	// MaxExclusion bounds how much of one incident stays out of the baseline. A
	// level that lasts longer becomes the new normal.
	MaxExclusion time.Duration `yaml:"max_exclusion"`
	// FDR is the false discovery rate over the slices judged together.
	FDR float64 `yaml:"fdr"`
	// MaxP is how likely chance alone may give what a breach saw; fdr bounds false alarms
	// within a round, this over all rounds.
	MaxP float64 `yaml:"max_p"`
	// FireVotes is how many of the last fire_rounds minutes must breach before an alert fires.
	FireVotes int `yaml:"fire_votes"`
	// FireRounds is over how many minutes fire_votes are counted.
	FireRounds int `yaml:"fire_rounds"`
	// FastFactor is how many times its firing level the lower bound of an effect must be for
	// the alert to fire in the first minute, without votes.
	FastFactor float64 `yaml:"fast_factor"`
	// ClearRounds is how many quiet minutes in a row resolve an alert.
	ClearRounds int `yaml:"clear_rounds"`
	// ResendEvery is how often a firing alert is sent again, for receivers that expire alerts.
	ResendEvery time.Duration `yaml:"resend_every"`
	// EndsAfter is how far ahead a firing alert says it ends, each time it is sent.
	EndsAfter time.Duration `yaml:"ends_after"`
	// ExpireAfter resolves a firing alert whose slice has had too little traffic to
	// be judged for so long.
	ExpireAfter time.Duration `yaml:"expire_after"`
	// NoDataGrace is how long a service or the store may be silent.
	NoDataGrace time.Duration `yaml:"no_data_grace"`
	// MaxSlices bounds the slices judged, of operations and of requests each, busiest
	// first; the rest are counted.
	MaxSlices int `yaml:"max_slices"`

	// Rules are the detections' own settings where no override matches.
	Rules `yaml:",inline"`
	// Maintenance is planned: alerts of the time are kept and not sent.
	Maintenance []Maintenance `yaml:"maintenance"`
	// Overrides are rules for some slices; the first that matches a slice is used.
	Overrides []Override `yaml:"-"`

	// DashboardURL leads links to the dashboard in annotations; without it there are none.
	DashboardURL string `yaml:"dashboard_url"`
	// EvidenceURL leads links to the alert's page and is followed by the fingerprint.
	EvidenceURL string `yaml:"-"`
	// RunbookURL leads links to a runbook of your own, followed by "#" and the detection;
	// without it they lead to the built-in one.
	RunbookURL string `yaml:"runbook_url"`
	// RunbookPages leads links to the built-in runbook and is followed by the detection.
	RunbookPages string `yaml:"-"`
}

// DefaultConfig is what docs/detections.md describes.
func DefaultConfig() Config {
	return Config{
		Interval: 30 * time.Second, EvalDelay: 30 * time.Second, MaxEvalDelay: 3 * time.Minute, ExplainTimeout: 5 * time.Second,
		ShortWindow: 5 * time.Minute, LongWindow: 30 * time.Minute,
		BaselineWindow: 24 * time.Hour, BlockLength: 10 * time.Minute, MinBlocks: 3, SeasonDays: 14, MaxExclusion: 6 * time.Hour,
		FDR: 0.05, MaxP: 1e-6, FireVotes: 2, FireRounds: 3, FastFactor: 2, ClearRounds: 5,
		ResendEvery: time.Minute, EndsAfter: 10 * time.Minute, ExpireAfter: 24 * time.Hour, NoDataGrace: 10 * time.Minute,
		MaxSlices: 1000,
		Rules:     DefaultRules(),
	}
}

// Bounds of settings beyond which memory or patience would end.
const (
	maxLongWindow     = 24 * time.Hour
	maxBaselineWindow = 31 * 24 * time.Hour
	maxFireRounds     = 60
)

// Validate reports every setting that cannot work, each with its key.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	minute := func(d time.Duration) bool { return d >= time.Minute && d%time.Minute == 0 }
	link := func(key, text string) {
		u, err := url.Parse(text)
		check(text == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", "%s %q: want http:// or https://, a host, and what follows", key, text)
	}
	link("dashboard_url", c.DashboardURL)
	link("runbook_url", c.RunbookURL)
	check(c.Interval >= time.Second && c.Interval <= c.ShortWindow && c.Interval <= c.EndsAfter/2, "interval %v: want 1s or more, and no more than short_window %v and half of ends_after %v", c.Interval, c.ShortWindow, c.EndsAfter)
	check(c.ExplainTimeout > 0, "explain_timeout %v: want more than 0", c.ExplainTimeout)
	check(c.EvalDelay >= 0 && c.MaxEvalDelay >= c.EvalDelay, "eval_delay %v, max_eval_delay %v: want 0 or more, and the second not below the first", c.EvalDelay, c.MaxEvalDelay)
	check(minute(c.ShortWindow) && minute(c.LongWindow) && c.LongWindow >= c.ShortWindow, "short_window %v, long_window %v: want whole minutes, and the second not below the first", c.ShortWindow, c.LongWindow)
	check(c.LongWindow <= maxLongWindow, "long_window %v: want no more than %v", c.LongWindow, maxLongWindow)
	check(c.BaselineWindow <= maxBaselineWindow, "baseline_window %v: want no more than %v", c.BaselineWindow, maxBaselineWindow)
	check(minute(c.BlockLength) && time.Hour%c.BlockLength == 0, "block_length %v: want whole minutes that divide an hour", c.BlockLength)
	check(c.MinBlocks >= 1 && time.Duration(c.MinBlocks)*c.BlockLength <= c.BaselineWindow, "min_blocks %d: want 1 or more, and no more than baseline_window %v holds", c.MinBlocks, c.BaselineWindow)
	check(c.SeasonDays == 0 || c.SeasonDays >= minSeasonDays && c.SeasonDays <= 90, "season_days %d: want 0, or %d to 90", c.SeasonDays, minSeasonDays)
	check(c.MaxExclusion > 0, "max_exclusion %v: want more than 0", c.MaxExclusion)
	check(c.FDR > 0 && c.FDR < 1, "fdr %v: want between 0 and 1", c.FDR)
	check(c.MaxP > 0 && c.MaxP <= 1, "max_p %v: want above 0, and 1 at most", c.MaxP)
	check(c.FireVotes >= 1 && c.FireVotes <= c.FireRounds, "fire_votes %d of fire_rounds %d: want 1 or more, and not above the rounds", c.FireVotes, c.FireRounds)
	check(c.FireRounds <= maxFireRounds, "fire_rounds %d: want no more than %d", c.FireRounds, maxFireRounds)
	check(c.FastFactor >= 1, "fast_factor %v: want 1 or more", c.FastFactor)
	check(c.ClearRounds >= 1, "clear_rounds %d: want 1 or more", c.ClearRounds)
	check(c.ResendEvery > 0 && c.EndsAfter >= 2*c.ResendEvery, "ends_after %v: want at least twice resend_every %v, or receivers let alerts lapse", c.EndsAfter, c.ResendEvery)
	check(c.ExpireAfter > 0, "expire_after %v: want more than 0", c.ExpireAfter)
	check(minute(c.NoDataGrace), "no_data_grace %v: want whole minutes", c.NoDataGrace)
	check(c.NoDataGrace <= c.LongWindow, "no_data_grace %v: want no more than long_window %v", c.NoDataGrace, c.LongWindow)
	check(c.Saturation.Window <= c.LongWindow, "saturation.window %v: want no more than long_window %v", c.Saturation.Window, c.LongWindow)
	check(c.MaxSlices >= 1, "max_slices %d: want 1 or more", c.MaxSlices)
	_, err := c.planned()
	errs = append(append(errs, err), c.Rules.problems("")...)
	for i, o := range c.Overrides {
		at := fmt.Sprintf("overrides[%d].", i)
		if o.Match == (Match{}) {
			errs = append(errs, fmt.Errorf("%s: matches every slice: name at least one of service, agent, kind, target, stream, or set the rule without override", at[:len(at)-1]))
		}
		for j, before := range c.Overrides[:i] {
			if before.Match != (Match{}) && before.covers(o.Match) {
				errs = append(errs, fmt.Errorf("%s: never used: all that it matches matches overrides[%d], and the first counts; put the narrower one first", at[:len(at)-1], j))
				break
			}
		}
		errs = append(append(errs, o.Match.problems(at)...), o.Rules.problems(at)...)
	}
	return errors.Join(errs...)
}

// gatewayMinutes is how far back the late rule of any slice looks.
func (c *Config) gatewayMinutes() time.Duration {
	n := c.Rules.Gate.Minutes
	for i := range c.Overrides {
		n = max(n, c.Overrides[i].Gate.Minutes)
	}
	return time.Duration(n) * time.Minute
}
