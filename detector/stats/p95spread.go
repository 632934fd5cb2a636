package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// SpreadConfig sets up [P95Spread].
type SpreadConfig struct {
	// MinPerWindow is how many values a sub-window needs to count; below about
	// 50 the sampling error of P95 swamps everything.
	MinPerWindow uint64
	// MinWindows is how many such sub-windows are needed, 3 or more; 10 is
	// advised, since 5 give several false x2 ratios per hundred evaluations.
	MinWindows int
}

// Spread is the scatter of P95 over sub-windows, in milliseconds.
type Spread struct {
	// RawSD is the sample standard deviation of the sub-windows' P95.
	RawSD float64
	// SamplingSD is the scatter that finite sub-windows alone would give: the
	// mean of the standard errors of each P95. On lognormal latencies it is
	// about 10 % too large at 50 to 200 values a sub-window, where the order
	// statistics come near the maximum, so that the correction is cautious, and
	// within 2 % at 1000.
	SamplingSD float64
	// CorrectedSD is sqrt(RawSD^2 - SamplingSD^2), 0 if that is negative: the
	// movement of the true P95.
	CorrectedSD float64
	// Windows counts the sub-windows used, Skipped those with too few values.
	Windows, Skipped int
}

// P95Spread measures how much P95 moves over sub-windows, with the sampling error
// of P95 taken out. The standard error of each P95 comes from order statistics
// around it on the log scale, which stands in for sqrt(p(1-p)/n)/f without a
// density estimate and without being led by the largest value. It
// sees transitions: after a step it goes quiet once all sub-windows lie behind
// it. Too few usable sub-windows are ErrInsufficient.
func P95Spread(windows []*Hist, cfg SpreadConfig) (Spread, error) {
	subs := make([]SubP95, len(windows))
	for i, h := range windows {
		if subs[i].N = h.N(); subs[i].N >= max(cfg.MinPerWindow, 1) {
			if s, err := P95Of(h); err == nil {
				subs[i] = s
			}
		}
	}
	return P95SpreadOf(subs, cfg)
}

// SubP95 is the P95 of one sub-window: all that [P95SpreadOf] needs of it.
type SubP95 struct {
	// N counts the sub-window's values.
	N uint64
	// LogMS is the natural logarithm of P95 in milliseconds, LogSE its standard error.
	LogMS, LogSE float64
	// Known says that the values were enough for both.
	Known bool
}

// P95Of is the P95 of a sub-window with the standard error that order statistics around it
// give; too few values for one are ErrInsufficient.
func P95Of(h *Hist) (SubP95, error) {
	r := h.ranks()
	l, se, err := quantileSE(r, 0.95, Log)
	if err != nil {
		return SubP95{N: r.n}, err
	}
	return SubP95{N: r.n, LogMS: l, LogSE: se, Known: true}, nil
}

// P95SpreadOf is [P95Spread] of sub-windows whose P95 is worked out already.
func P95SpreadOf(windows []SubP95, cfg SpreadConfig) (Spread, error) {
	if cfg.MinWindows < 3 {
		return Spread{}, invalid("spread of P95 needs a minimum of 3 or more sub-windows, got %d", cfg.MinWindows)
	}
	var s Spread
	p95s := make([]float64, 0, len(windows))
	var sampling float64
	for _, w := range windows {
		// Some are too thin for a standard error whatever the minimum says.
		if w.N < max(cfg.MinPerWindow, 1) || !w.Known {
			s.Skipped++
			continue
		}
		p := math.Exp(w.LogMS)
		p95s = append(p95s, p)
		sampling += p * w.LogSE
	}
	s.Windows = len(p95s)
	if s.Windows < cfg.MinWindows {
		return s, insufficient("%d sub-windows with enough values for a P95, need %d", s.Windows, cfg.MinWindows)
	}
	k := float64(s.Windows)
	var mean, ss float64
	for _, p := range p95s {
		mean += p / k
	}
	for _, p := range p95s {
		ss += (p - mean) * (p - mean)
	}
	s.RawSD = math.Sqrt(ss / (k - 1))
	s.SamplingSD = sampling / k
	s.CorrectedSD = math.Sqrt(math.Max(0, s.RawSD*s.RawSD-s.SamplingSD*s.SamplingSD))
	return s, nil
}

// SpreadRatioResult compares two spreads. 4 means four times, an increase by
// 300 %.
type SpreadRatioResult struct {
	// Raw is the ratio of the raw standard deviations with the F-distribution's
	// interval, which takes the P95s of sub-windows as independent and normal;
	// they are somewhat skewed, so the interval is a little too narrow.
	Raw Interval
	// Corrected is the ratio of what is left after the sampling error. Its
	// interval scales that of Raw. The denominator is never less than the
	// sampling error of the baseline nor minSD: a baseline that did not move at
	// all must not make the ratio infinite.
	Corrected Interval
	// DenominatorMS is the baseline used for Corrected, and DenominatorFloored
	// tells that it was one of the floors.
	DenominatorMS      float64
	DenominatorFloored bool
}

// SpreadRatio compares the spread now with a baseline; minSD is the least
// baseline in milliseconds. Spreads of fewer than 2 sub-windows, or a baseline
// without any spread and no minSD, are ErrInsufficient.
func SpreadRatio(now, base Spread, minSD, confidence float64) (SpreadRatioResult, error) {
	if err := checkConfidence(confidence); err != nil {
		return SpreadRatioResult{}, err
	}
	if !(minSD >= 0) || math.IsInf(minSD, 1) {
		return SpreadRatioResult{}, invalid("least baseline spread %v ms must be 0 or more", minSD)
	}
	if now.Windows < 2 || base.Windows < 2 {
		return SpreadRatioResult{}, insufficient("spread ratio of %d and %d sub-windows", now.Windows, base.Windows)
	}
	den := math.Max(base.CorrectedSD, math.Max(base.SamplingSD, minSD))
	rawDen := math.Max(base.RawSD, minSD)
	if den == 0 || rawDen == 0 {
		return SpreadRatioResult{}, insufficient("baseline P95 did not move at all and no least spread is set")
	}
	f := distuv.F{D1: float64(now.Windows - 1), D2: float64(base.Windows - 1)}
	down, up := 1/math.Sqrt(f.Quantile(0.5+confidence/2)), 1/math.Sqrt(f.Quantile(0.5-confidence/2))
	scaled := func(x float64) Interval { return Interval{x, x * down, x * up, confidence} }
	return SpreadRatioResult{
		Raw:                scaled(now.RawSD / rawDen),
		Corrected:          scaled(now.CorrectedSD / den),
		DenominatorMS:      den,
		DenominatorFloored: den > base.CorrectedSD,
	}, nil
}

// RobustSDInterval is the robust standard deviation (interquartile range / 1.349) of a
// histogram, on a scale, with an interval from the joint asymptotic variance of the two
// quartiles. A spread of 0 or under 20 values is ErrInsufficient.
func RobustSDInterval(h *Hist, s Scale, confidence float64) (Interval, error) {
	if err := checkConfidence(confidence); err != nil {
		return Interval{}, err
	}
	l, se, err := logIQR(h, s)
	if err != nil {
		return Interval{}, err
	}
	z := zFor(confidence) * se
	sd := math.Exp(l) * iqrToSD
	return Interval{sd, sd * math.Exp(-z), sd * math.Exp(z), confidence}, nil
}

// logIQR returns ln(q3-q1) and its standard error. The quartiles' covariance is
// a third of the product of their standard errors: p1(1-p3)/(n f1 f3).
func logIQR(h *Hist, s Scale) (l, se float64, err error) {
	if n := h.N(); n < 20 {
		return 0, 0, insufficient("interquartile range with interval of %d values, need 20", n)
	}
	pts := h.ranks()
	q1, s1, err := quantileSE(pts, 0.25, s)
	if err != nil {
		return 0, 0, err
	}
	q3, s3, err := quantileSE(pts, 0.75, s)
	if err != nil {
		return 0, 0, err
	}
	iqr := q3 - q1
	if !(iqr > 0) {
		return 0, 0, insufficient("interquartile range is 0")
	}
	return math.Log(iqr), math.Sqrt(s1*s1+s3*s3-2*s1*s3/3) / iqr, nil
}
