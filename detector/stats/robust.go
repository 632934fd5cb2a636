package stats

import (
	"math"
	"slices"
)

// Median returns the middle value, or the mean of the two middle ones. An empty
// slice is ErrInsufficient, a NaN or infinite value ErrInvalid.
func Median(xs []float64) (float64, error) {
	sorted, err := sortedFinite(xs)
	if err != nil {
		return 0, err
	}
	return medianSorted(sorted), nil
}

func sortedFinite(xs []float64) ([]float64, error) {
	if len(xs) == 0 {
		return nil, insufficient("no values")
	}
	for i, x := range xs {
		if !finite(x) {
			return nil, invalid("value %v at position %d is not finite", x, i)
		}
	}
	sorted := slices.Clone(xs)
	slices.Sort(sorted)
	return sorted, nil
}

func medianSorted(s []float64) float64 {
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return s[n/2-1]/2 + s[n/2]/2
}

// MAD returns the median and the median absolute deviation from it, in the unit
// of xs and not scaled. Errors are those of [Median].
func MAD(xs []float64) (median, mad float64, err error) {
	sorted, err := sortedFinite(xs)
	if err != nil {
		return 0, 0, err
	}
	median = medianSorted(sorted)
	for i, x := range sorted {
		sorted[i] = math.Abs(x - median)
	}
	slices.Sort(sorted)
	return median, medianSorted(sorted), nil
}

// RobustZ returns 0.6745*(x-median)/mad. A mad of 0 gives no scale to judge by
// and is ErrInsufficient.
func RobustZ(x, median, mad float64) (float64, error) {
	if !finite(x) || !finite(median) || !(mad >= 0) || math.IsInf(mad, 1) {
		return 0, invalid("robust z of %v with median %v and MAD %v", x, median, mad)
	}
	if mad == 0 {
		return 0, insufficient("median absolute deviation is 0")
	}
	return (x - median) / (madToSD * mad), nil
}

// HuberLocation returns Huber's M-estimate of location (1964) with k = 1.345 and
// the scale fixed at 1.4826 MAD: 95 % efficient on normal data, with bounded
// influence. It falls back to the median when the MAD is 0. Errors are those of
// [Median].
func HuberLocation(xs []float64) (float64, error) {
	m, mad, err := MAD(xs)
	if err != nil || mad == 0 {
		return m, err
	}
	limit := 1.345 * madToSD * mad
	for range 100 {
		var sum, weight float64
		for _, x := range xs {
			w := 1.0
			if d := math.Abs(x - m); d > limit {
				w = limit / d
			}
			sum, weight = sum+w*x, weight+w
		}
		next := sum / weight
		if math.Abs(next-m) < 1e-9*limit {
			return next, nil
		}
		m = next
	}
	return m, nil
}

// BaselineConfig sets up a [Baseline]. Counts are buckets, for instance minutes.
type BaselineConfig struct {
	// Window is how many clean buckets the baseline remembers, 1 or more.
	Window int
	// Gap is how many of the latest buckets stay out of it: the evaluated window
	// at least, so that a shift cannot become its own baseline.
	Gap int
	// MinCount is how many clean buckets a verdict needs, 2 or more.
	MinCount int
	// MinLogSD is the floor of the spread on the log scale; 0.05 is about 5 %.
	// It keeps a very steady series from alerting on nothing.
	MinLogSD float64
}

// Validate reports the first setting outside its domain as ErrInvalid.
func (c BaselineConfig) Validate() error {
	switch {
	case c.Window < 1:
		return invalid("baseline window %d must be 1 or more", c.Window)
	case c.Gap < 0:
		return invalid("baseline gap %d must be 0 or more", c.Gap)
	case c.MinCount < 2 || c.MinCount > c.Window:
		return invalid("baseline minimum count %d must be between 2 and the window %d", c.MinCount, c.Window)
	case !(c.MinLogSD >= 0) || math.IsInf(c.MinLogSD, 1):
		return invalid("baseline spread floor %v must be 0 or more", c.MinLogSD)
	}
	return nil
}

// BaselineState is what a [Baseline] remembers, oldest first, as ln(ms). It can
// be stored and given back to [RestoreBaseline].
type BaselineState struct {
	Clean    []float64 `json:"clean"`
	Pending  []float64 `json:"pending"`
	Excluded uint64    `json:"excluded"`
	Rejected uint64    `json:"rejected"`
}

// Baseline is a rolling robust centre and spread of a latency statistic on the
// log scale. Contaminated buckets never enter and never push clean ones out, so
// during an incident the baseline stands still instead of growing into it. It
// is not safe for concurrent use.
type Baseline struct {
	cfg BaselineConfig
	st  BaselineState
}

// NewBaseline returns an empty baseline or the error of cfg.Validate.
func NewBaseline(cfg BaselineConfig) (*Baseline, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Baseline{cfg: cfg}, nil
}

// RestoreBaseline returns a baseline with a stored state. If the window became
// smaller since, the oldest buckets go. Values that are not finite are
// ErrInvalid.
func RestoreBaseline(cfg BaselineConfig, st BaselineState) (*Baseline, error) {
	b, err := NewBaseline(cfg)
	if err != nil {
		return nil, err
	}
	for _, xs := range [][]float64{st.Clean, st.Pending} {
		for i, x := range xs {
			if !finite(x) {
				return nil, invalid("stored baseline value %v at position %d is not finite", x, i)
			}
		}
	}
	b.st = st.clone()
	b.settle()
	return b, nil
}

func (s BaselineState) clone() BaselineState {
	s.Clean, s.Pending = slices.Clone(s.Clean), slices.Clone(s.Pending)
	return s
}

// State returns a copy of what is remembered.
func (b *Baseline) State() BaselineState { return b.st.clone() }

// Observe takes the next bucket's value in milliseconds. A contaminated bucket
// (open incident, clipped, known deployment) is counted and left out. It returns
// false, and counts a rejection, for a value that is not a positive finite
// number.
func (b *Baseline) Observe(ms float64, contaminated bool) bool {
	if !(ms > 0) || math.IsInf(ms, 1) {
		b.st.Rejected++
		return false
	}
	if contaminated {
		b.st.Excluded++
		return true
	}
	b.st.Pending = append(b.st.Pending, math.Log(ms))
	b.settle()
	return true
}

// settle moves buckets older than the gap into the window.
func (b *Baseline) settle() {
	if over := len(b.st.Pending) - b.cfg.Gap; over > 0 {
		b.st.Clean = append(b.st.Clean, b.st.Pending[:over]...)
		b.st.Pending = slices.Delete(b.st.Pending, 0, over)
	}
	if over := len(b.st.Clean) - b.cfg.Window; over > 0 {
		b.st.Clean = slices.Delete(b.st.Clean, 0, over)
	}
}

// ExcludePending drops the buckets still inside the gap. Call it when an
// incident opens: it began before it was noticed.
func (b *Baseline) ExcludePending() {
	b.st.Excluded += uint64(len(b.st.Pending))
	b.st.Pending = b.st.Pending[:0]
}

// BaselineEstimate is a baseline at one moment.
type BaselineEstimate struct {
	// CentreMS is the centre in milliseconds, exp(LogCentre).
	CentreMS  float64
	LogCentre float64
	// LogSD is the spread on the log scale, at least MinLogSD; Floored tells
	// that the floor was used.
	LogSD   float64
	Floored bool
	// N is how many clean buckets stand behind it.
	N int
}

// Estimate returns Huber's location and 1.4826 MAD of the clean buckets on the
// log scale. Fewer than MinCount are ErrInsufficient, as is a spread of 0 without
// a floor.
func (b *Baseline) Estimate() (BaselineEstimate, error) {
	n := len(b.st.Clean)
	if n < b.cfg.MinCount {
		return BaselineEstimate{}, insufficient("baseline has %d clean buckets, needs %d", n, b.cfg.MinCount)
	}
	centre, err := HuberLocation(b.st.Clean)
	if err != nil {
		return BaselineEstimate{}, err
	}
	_, mad, err := MAD(b.st.Clean)
	if err != nil {
		return BaselineEstimate{}, err
	}
	e := BaselineEstimate{CentreMS: math.Exp(centre), LogCentre: centre, LogSD: madToSD * mad, N: n}
	if e.LogSD < b.cfg.MinLogSD {
		e.LogSD, e.Floored = b.cfg.MinLogSD, true
	}
	if e.LogSD == 0 {
		return e, insufficient("baseline of %d equal buckets has no spread and no floor is set", n)
	}
	return e, nil
}

// Z returns (ln(ms)-LogCentre)/LogSD. A value that is not positive and finite is
// ErrInvalid.
func (e BaselineEstimate) Z(ms float64) (float64, error) {
	if !(ms > 0) || math.IsInf(ms, 1) {
		return 0, invalid("z score of %v ms", ms)
	}
	if !(e.LogSD > 0) {
		return 0, insufficient("baseline has no spread")
	}
	return (math.Log(ms) - e.LogCentre) / e.LogSD, nil
}
