package detector

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Names of the detections.
const (
	RetryBimodality = "retry_bimodality"
	DeadlineDrift   = "deadline_drift"
	P95Spread       = "p95_spread"
	P95Surge        = "p95_surge"
	// Alert504 is the late rule that lead is measured against. It is stored and
	// never sent.
	Alert504 = "alert_504"
	// PipelineHealth is about driftline's own sight, not about latency.
	PipelineHealth = "pipeline_health"
)

// shadowable are the detections that can be stored without being sent.
var shadowable = []string{RetryBimodality, DeadlineDrift, P95Spread, P95Surge, PipelineHealth}

// Config sets up an engine. Start from [DefaultConfig]. Ratios are factors: 3 is
// "three times", an increase by 200 %.
type Config struct {
	// Interval is the time between rounds.
	Interval time.Duration
	// EvalDelay is the least time a minute must be over before it is judged. The
	// delay grows with the measured ingest lag, up to MaxEvalDelay.
	EvalDelay    time.Duration
	MaxEvalDelay time.Duration
	// ShortWindow is judged when it has enough samples, else LongWindow.
	ShortWindow time.Duration
	LongWindow  time.Duration
	// BaselineWindow is how far back the baseline looks, in blocks of BlockLength;
	// MinBlocks of them are needed.
	BaselineWindow time.Duration
	BlockLength    time.Duration
	MinBlocks      int
	// MaxExclusion bounds how much of one incident stays out of the baseline. A
	// level that lasts longer becomes the new normal.
	MaxExclusion time.Duration
	// FDR is the false discovery rate over the slices judged together.
	FDR float64
	// FireVotes of the last FireRounds minutes must breach before an alert fires.
	FireVotes  int
	FireRounds int
	// ClearRounds quiet minutes in a row resolve it.
	ClearRounds int
	// ResendEvery and EndsAfter are for receivers that expire alerts: a firing alert
	// is sent again each ResendEvery and says it ends EndsAfter from then.
	ResendEvery time.Duration
	EndsAfter   time.Duration
	// ExpireAfter resolves a firing alert whose slice has had too little traffic to
	// be judged for so long.
	ExpireAfter time.Duration
	// NoDataGrace is how long a service or the store may be silent.
	NoDataGrace time.Duration
	// MaxSlices bounds the slices judged; the rest are counted.
	MaxSlices int
	// Shadow lists detections that are stored and never sent.
	Shadow map[string]bool

	Retry  RetryConfig
	Drift  DriftConfig
	Spread SpreadConfig
	Surge  SurgeConfig
	Gate   GatewayConfig

	// DashboardURL, EvidenceURL and RunbookURL lead the links in annotations; an
	// empty one leaves its annotation out. EvidenceURL is followed by the
	// fingerprint, RunbookURL by "#" and the detection.
	DashboardURL string
	EvidenceURL  string
	RunbookURL   string
}

// RetryConfig sets up retry_bimodality.
type RetryConfig struct {
	// MinOperations must know their attempts, MinSide of them on each side.
	MinOperations uint64
	MinSide       uint64
	// FireAUC is the least probability that work with retries is slower; its interval
	// must be above half way between one half and it. RequestAUC is the same
	// within step strata.
	FireAUC    float64
	RequestAUC float64
	// MinSeparation and MinSeparationRatio bound the difference of medians below.
	MinSeparation      time.Duration
	MinSeparationRatio float64
	// Margin is the ratio within which agent time counts as close.
	Margin float64
	// PriorShare stands for the baseline's retry share until there is one;
	// MinShare is the least baseline.
	PriorShare float64
	MinShare   float64
	// FireRise is by how much the retry share must have risen, ClearRise where it is
	// quiet again.
	FireRise  float64
	ClearRise float64
	// Impact is by how much more often retried work must miss its deadline to count
	// without a rise.
	Impact float64
}

// DriftConfig sets up deadline_drift.
type DriftConfig struct {
	// MinRequests must have a decision point.
	MinRequests uint64
	// BudgetShare of the median budget, or UserShare of the median user time where no
	// budget is known, and at least MinDrift, is a drift that counts.
	BudgetShare float64
	UserShare   float64
	MinDrift    time.Duration
	// PriorShare stands for the baseline until there is one; MinShare is the least.
	PriorShare float64
	MinShare   float64
	// FireRise is the factor, FireStep the step in share, that fires; ClearRise
	// clears.
	FireRise  float64
	FireStep  float64
	ClearRise float64
	// MissShare of requests over deadline, beyond twice the baseline, is critical.
	MissShare float64
}

// SpreadConfig sets up p95_spread.
type SpreadConfig struct {
	MinOperations uint64
	// Ratio fires; ClearRatio clears, once P95 is back under ClearP95 too.
	Ratio      float64
	ClearRatio float64
	ClearP95   float64
	// P95Floor and P95Ratio are the least P95, absolute and against the baseline.
	P95Floor time.Duration
	P95Ratio float64
	// SubWindows minutes with MinOperations each give the scatter of P95.
	SubWindows int
	// MinBand is the least baseline spread as a share of the baseline's P95.
	MinBand   float64
	MissShare float64
}

// SurgeConfig sets up p95_surge.
type SurgeConfig struct {
	MinOperations uint64
	// Ratio fires at once; ClearRatio clears.
	Ratio      float64
	ClearRatio float64
	// CUSUMK and CUSUMH are the sequential test's allowance and limit in standard
	// deviations of log P95 by minute; ShiftRatio is the least shift it may report.
	CUSUMK     float64
	CUSUMH     float64
	ShiftRatio float64
	// MinLogSD is the least standard deviation of log P95.
	MinLogSD float64
	P95Floor time.Duration
	// ClippedShare of work cut at a cap hides P95 and fires with ShiftRatio.
	ClippedShare float64
	MissShare    float64
}

// GatewayConfig sets up alert_504.
type GatewayConfig struct {
	Share       float64
	Minutes     int
	MinRequests uint64
}

// DefaultConfig is what docs/detections.md describes.
func DefaultConfig() Config {
	return Config{
		Interval: 30 * time.Second, EvalDelay: 30 * time.Second, MaxEvalDelay: 3 * time.Minute,
		ShortWindow: 5 * time.Minute, LongWindow: 30 * time.Minute,
		BaselineWindow: 24 * time.Hour, BlockLength: 10 * time.Minute, MinBlocks: 3, MaxExclusion: 6 * time.Hour,
		FDR: 0.05, FireVotes: 2, FireRounds: 3, ClearRounds: 5,
		ResendEvery: time.Minute, EndsAfter: 10 * time.Minute, ExpireAfter: 24 * time.Hour, NoDataGrace: 10 * time.Minute,
		MaxSlices: 1000,
		Retry: RetryConfig{MinOperations: 50, MinSide: 10, FireAUC: 0.8, RequestAUC: 0.65, MinSeparation: 500 * time.Millisecond, MinSeparationRatio: 0.25,
			Margin: 1.25, PriorShare: 0.05, MinShare: 0.02, FireRise: 2, ClearRise: 1.3, Impact: 0.1},
		Drift: DriftConfig{MinRequests: 30, BudgetShare: 0.1, UserShare: 0.25, MinDrift: time.Second, PriorShare: 0.05, MinShare: 0.02,
			FireRise: 2, FireStep: 0.25, ClearRise: 1.3, MissShare: 0.02},
		Spread: SpreadConfig{MinOperations: 50, Ratio: 4, ClearRatio: 2, ClearP95: 1.3, P95Floor: 500 * time.Millisecond, P95Ratio: 1.3,
			SubWindows: 10, MinBand: 0.05, MissShare: 0.02},
		Surge: SurgeConfig{MinOperations: 50, Ratio: 3, ClearRatio: 1.3, CUSUMK: 0.5, CUSUMH: 8, ShiftRatio: 1.5, MinLogSD: 0.05,
			P95Floor: 500 * time.Millisecond, ClippedShare: 0.05, MissShare: 0.02},
		Gate: GatewayConfig{Share: 0.05, Minutes: 2, MinRequests: 5},
	}
}

// Validate reports every setting that cannot work, each with its key.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	minute := func(d time.Duration) bool { return d >= time.Minute && d%time.Minute == 0 }
	check(c.Interval > 0, "interval %v: want more than 0", c.Interval)
	check(c.EvalDelay >= 0 && c.MaxEvalDelay >= c.EvalDelay, "eval_delay %v, max_eval_delay %v: want 0 or more, and the second not below the first", c.EvalDelay, c.MaxEvalDelay)
	check(minute(c.ShortWindow) && minute(c.LongWindow) && c.LongWindow >= c.ShortWindow, "short_window %v, long_window %v: want whole minutes, and the second not below the first", c.ShortWindow, c.LongWindow)
	check(minute(c.BlockLength) && time.Hour%c.BlockLength == 0, "block_length %v: want whole minutes that divide an hour", c.BlockLength)
	check(c.MinBlocks >= 1 && time.Duration(c.MinBlocks)*c.BlockLength <= c.BaselineWindow, "min_blocks %d: want 1 or more, and no more than baseline_window %v holds", c.MinBlocks, c.BaselineWindow)
	check(c.MaxExclusion > 0, "max_exclusion %v: want more than 0", c.MaxExclusion)
	check(c.FDR > 0 && c.FDR < 1, "fdr %v: want between 0 and 1", c.FDR)
	check(c.FireVotes >= 1 && c.FireVotes <= c.FireRounds, "fire_votes %d of fire_rounds %d: want 1 or more, and not above the rounds", c.FireVotes, c.FireRounds)
	check(c.ClearRounds >= 1, "clear_rounds %d: want 1 or more", c.ClearRounds)
	check(c.ResendEvery > 0 && c.EndsAfter >= 2*c.ResendEvery, "ends_after %v: want at least twice resend_every %v, or receivers let alerts lapse", c.EndsAfter, c.ResendEvery)
	check(c.ExpireAfter > 0, "expire_after %v: want more than 0", c.ExpireAfter)
	check(minute(c.NoDataGrace), "no_data_grace %v: want whole minutes", c.NoDataGrace)
	check(c.NoDataGrace <= c.LongWindow, "no_data_grace %v: want no more than long_window %v", c.NoDataGrace, c.LongWindow)
	for _, name := range slices.Sorted(maps.Keys(c.Shadow)) {
		check(slices.Contains(shadowable, name), "shadow %q: want one of %s", name, strings.Join(shadowable, ", "))
	}
	check(c.MaxSlices >= 1, "max_slices %d: want 1 or more", c.MaxSlices)
	check(c.Retry.FireAUC > 0.5 && c.Retry.FireAUC < 1 && c.Retry.RequestAUC > 0.5 && c.Retry.RequestAUC < 1, "retry.fire_auc %v, retry.request_auc %v: want between 0.5 and 1", c.Retry.FireAUC, c.Retry.RequestAUC)
	check(c.Retry.Margin > 1, "retry.margin %v: want a ratio over 1", c.Retry.Margin)
	check(c.Retry.FireRise > c.Retry.ClearRise && c.Retry.ClearRise >= 1, "retry.fire_rise %v, retry.clear_rise %v: want fire above clear, clear 1 or more", c.Retry.FireRise, c.Retry.ClearRise)
	check(c.Drift.FireRise > c.Drift.ClearRise && c.Drift.ClearRise >= 1, "drift.fire_rise %v, drift.clear_rise %v: want fire above clear, clear 1 or more", c.Drift.FireRise, c.Drift.ClearRise)
	check(c.Spread.Ratio > c.Spread.ClearRatio && c.Spread.ClearRatio >= 1, "spread.ratio %v, spread.clear_ratio %v: want fire above clear, clear 1 or more", c.Spread.Ratio, c.Spread.ClearRatio)
	check(c.Spread.SubWindows >= 3, "spread.sub_windows %d: want 3 or more", c.Spread.SubWindows)
	check(c.Surge.Ratio > c.Surge.ClearRatio && c.Surge.ClearRatio >= 1, "surge.ratio %v, surge.clear_ratio %v: want fire above clear, clear 1 or more", c.Surge.Ratio, c.Surge.ClearRatio)
	check(c.Surge.CUSUMH > 0 && c.Surge.CUSUMK >= 0, "surge.cusum_h %v, surge.cusum_k %v: want h above 0 and k not below", c.Surge.CUSUMH, c.Surge.CUSUMK)
	check(c.Gate.Minutes >= 1, "gate.minutes %d: want 1 or more", c.Gate.Minutes)
	return errors.Join(errs...)
}
