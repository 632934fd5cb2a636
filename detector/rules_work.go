package detector

import "time"

// StuckConfig sets up stuck_ratio.
type StuckConfig struct {
	// MinWork is how much work with a limit a window needs.
	MinWork uint64 `yaml:"min_work"`
	// MinPast is how many must be past half of their limit.
	MinPast uint64 `yaml:"min_past"`
	// MinShare is the least baseline of their share.
	MinShare float64 `yaml:"min_share"`
	// FireRise is the factor over the baseline that fires.
	FireRise float64 `yaml:"fire_rise"`
	// ClearRise is the factor below which it is quiet again.
	ClearRise float64 `yaml:"clear_rise"`
	// Limit is the least limit of work that states none.
	Limit time.Duration `yaml:"limit"`
	// LimitFactor times the usual P95 is that limit where it is more.
	LimitFactor float64 `yaml:"limit_factor"`
	// Silence is how long an open request without deadline must be silent to be stuck; it must
	// also be six times as long as the pauses between its spans so far.
	Silence time.Duration `yaml:"silence"`
	// OpenShare of an agent's open requests that are stuck fires.
	OpenShare float64 `yaml:"open_share"`
	// MissShare of work over deadline, beyond twice the baseline, is critical.
	MissShare float64 `yaml:"miss_share"`
}

// CascadeConfig sets up cascade.
type CascadeConfig struct {
	// MinCalls is how many calls a window needs.
	MinCalls uint64 `yaml:"min_calls"`
	// MinFailures is how many must have failed by an inherited budget.
	MinFailures uint64 `yaml:"min_failures"`
	// MinShare is the least baseline of their share.
	MinShare float64 `yaml:"min_share"`
	// FireRise is the factor over the baseline that fires.
	FireRise float64 `yaml:"fire_rise"`
	// ClearRise is the factor below which it is quiet again.
	ClearRise float64 `yaml:"clear_rise"`
	// OwnRatio is by how much the step's own time may have grown for it to be a victim only.
	OwnRatio float64 `yaml:"own_ratio"`
	// MissShare of calls over deadline, beyond twice the baseline, is critical.
	MissShare float64 `yaml:"miss_share"`
}

// SaturationConfig sets up saturation.
type SaturationConfig struct {
	// Concurrency is how many of a slice can run at once. Set it in an override for the slice;
	// 0 is not known, and then it is inferred where a limit shows.
	Concurrency int `yaml:"concurrency"`
	// Window is over how long load is measured, at most long_window.
	Window time.Duration `yaml:"window"`
	// MinWork is how much work a window needs.
	MinWork uint64 `yaml:"min_work"`
	// Knee is the utilisation that fires.
	Knee float64 `yaml:"knee"`
	// Clear is the utilisation below which it is quiet again.
	Clear float64 `yaml:"clear"`
	// Step is by how much the utilisation must be over the usual one.
	Step float64 `yaml:"step"`
	// MinWait is the least chance that new work has to wait, by Erlang C.
	MinWait float64 `yaml:"min_wait"`
	// MissShare of work over deadline, beyond twice the baseline, is critical.
	MissShare float64 `yaml:"miss_share"`
}

// TimeoutConfig sets up timeout_not_enforced.
type TimeoutConfig struct {
	// MinCalls is how many calls with a declared timeout a window needs.
	MinCalls uint64 `yaml:"min_calls"`
	// MinOverran is how many of them must have run well past it.
	MinOverran uint64 `yaml:"min_overran"`
	// Share of calls that ran well past it is too much.
	Share float64 `yaml:"share"`
	// FireRise is the factor over the baseline that fires.
	FireRise float64 `yaml:"fire_rise"`
	// ClearShare is below which it is quiet again.
	ClearShare float64 `yaml:"clear_share"`
}

func defaultStuck() StuckConfig {
	return StuckConfig{MinWork: 20, MinPast: 5, MinShare: 0.02, FireRise: 3, ClearRise: 1.5, Limit: 5 * time.Minute, LimitFactor: 20, Silence: time.Minute, OpenShare: 0.1, MissShare: 0.02}
}

func defaultCascade() CascadeConfig {
	return CascadeConfig{MinCalls: 20, MinFailures: 5, MinShare: 0.02, FireRise: 2, ClearRise: 1.3, OwnRatio: 1.25, MissShare: 0.02}
}

func defaultSaturation() SaturationConfig {
	return SaturationConfig{Window: 10 * time.Minute, MinWork: 50, Knee: 0.85, Clear: 0.75, Step: 0.05, MinWait: 0.05, MissShare: 0.02}
}

func defaultTimeout() TimeoutConfig {
	return TimeoutConfig{MinCalls: 10, MinOverran: 5, Share: 0.05, FireRise: 2, ClearShare: 0.01}
}

// workProblems lists what cannot work of the detections over limits and load.
func (r *Rules) workProblems(c checks) {
	s := &r.Stuck
	c.atLeast("stuck_ratio.min_work", float64(s.MinWork), 1)
	c.atLeast("stuck_ratio.min_past", float64(s.MinPast), 1)
	c.share("stuck_ratio.min_share", s.MinShare)
	c.factors("stuck_ratio", "fire_rise", "clear_rise", s.FireRise, s.ClearRise)
	c.that(s.Limit > 0, "stuck_ratio.limit %v: want more than 0", s.Limit)
	c.atLeast("stuck_ratio.limit_factor", s.LimitFactor, 1)
	c.length("stuck_ratio.silence", s.Silence)
	c.share("stuck_ratio.open_share", s.OpenShare)
	c.share("stuck_ratio.miss_share", s.MissShare)

	d := &r.Cascade
	c.atLeast("cascade.min_calls", float64(d.MinCalls), 1)
	c.atLeast("cascade.min_failures", float64(d.MinFailures), 1)
	c.share("cascade.min_share", d.MinShare)
	c.factors("cascade", "fire_rise", "clear_rise", d.FireRise, d.ClearRise)
	c.atLeast("cascade.own_ratio", d.OwnRatio, 1)
	c.share("cascade.miss_share", d.MissShare)

	u := &r.Saturation
	c.that(u.Concurrency >= 0 && u.Concurrency <= maxConcurrency, "saturation.concurrency %d: want 0 (not known) to %d", u.Concurrency, maxConcurrency)
	c.that(u.Window >= time.Minute && u.Window%time.Minute == 0, "saturation.window %v: want whole minutes", u.Window)
	c.atLeast("saturation.min_work", float64(u.MinWork), 1)
	c.that(u.Clear > 0 && u.Clear < u.Knee && u.Knee < 1, "saturation.clear %v, saturation.knee %v: want the first below the second, and both between 0 and 1", u.Clear, u.Knee)
	c.share("saturation.step", u.Step)
	c.share("saturation.min_wait", u.MinWait)
	c.share("saturation.miss_share", u.MissShare)

	t := &r.Timeout
	c.atLeast("timeout_not_enforced.min_calls", float64(t.MinCalls), 1)
	c.atLeast("timeout_not_enforced.min_overran", float64(t.MinOverran), 1)
	c.share("timeout_not_enforced.share", t.Share)
	c.that(t.FireRise >= 1, "timeout_not_enforced.fire_rise %v: want 1 or more", t.FireRise)
	c.that(t.ClearShare >= 0 && t.ClearShare <= t.Share, "timeout_not_enforced.clear_share %v: want 0 or more, and not above share %v", t.ClearShare, t.Share)
}

// maxConcurrency bounds what Erlang's formula is worked out for each round.
const maxConcurrency = 1_000_000

// checks are how settings are looked at.
type checks struct {
	that    func(ok bool, format string, args ...any)
	atLeast func(key string, v, least float64)
	share   func(key string, v float64)
	factors func(section, fire, clear string, f, c float64)
	length  func(key string, d time.Duration)
}
