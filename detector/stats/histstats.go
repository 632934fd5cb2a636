package stats

import (
	"cmp"
	"math"
	"slices"
)

// Scale says on which axis a spread or shape is measured.
type Scale int

const (
	// Linear measures in milliseconds.
	Linear Scale = iota
	// Log measures in natural logarithms of milliseconds; values under MinMS
	// are taken as MinMS.
	Log
)

func (s Scale) apply(ms float64) float64 {
	if s == Log {
		return math.Log(math.Max(ms, MinMS))
	}
	return ms
}

const (
	// iqrToSD and madToSD turn the interquartile range and the median absolute
	// deviation of a normal distribution into its standard deviation.
	iqrToSD = 1 / 1.3489795003921634
	madToSD = 1.4826022185056018
)

// Quantile returns the p-quantile in milliseconds, with p in [0, 1]: the bucket
// value of sorted[min(int(n*p), n-1)]. It is within RelativeError of that
// order statistic. An empty histogram is ErrInsufficient.
func (h *Hist) Quantile(p float64) (float64, error) {
	if !(p >= 0 && p <= 1) {
		return 0, invalid("quantile probability %v is not in [0, 1]", p)
	}
	n := h.N()
	if n == 0 {
		return 0, insufficient("quantile of an empty histogram")
	}
	i, _ := h.rank(min(uint64(float64(n)*p), n-1)+1, n)
	return BucketValue(h.Index[i]), nil
}

// moments returns mean and standard deviation (n-1) of the bucket values.
func (h *Hist) moments(s Scale) (mean, sd float64, err error) {
	n := float64(h.N())
	if n == 0 {
		return 0, 0, insufficient("moments of an empty histogram")
	}
	for i, c := range h.Count {
		mean += float64(c) / n * s.apply(BucketValue(h.Index[i]))
	}
	if n < 2 {
		return mean, 0, nil
	}
	var ss float64
	for i, c := range h.Count {
		d := s.apply(BucketValue(h.Index[i])) - mean
		ss += float64(c) * d * d
	}
	return mean, math.Sqrt(ss / (n - 1)), nil
}

// Mean returns the mean in milliseconds, within RelativeError.
func (h *Hist) Mean() (float64, error) {
	m, _, err := h.moments(Linear)
	return m, err
}

// LogMean returns the mean of ln(milliseconds).
func (h *Hist) LogMean() (float64, error) {
	m, _, err := h.moments(Log)
	return m, err
}

// StdDev returns the sample standard deviation in milliseconds. Fewer than two
// values are ErrInsufficient.
func (h *Hist) StdDev() (float64, error) { return h.sd(Linear) }

// LogStdDev returns the sample standard deviation of ln(milliseconds). Fewer
// than two values are ErrInsufficient.
func (h *Hist) LogStdDev() (float64, error) { return h.sd(Log) }

func (h *Hist) sd(s Scale) (float64, error) {
	if n := h.N(); n < 2 {
		return 0, insufficient("standard deviation of %d values", n)
	}
	_, sd, err := h.moments(s)
	return sd, err
}

// RobustSD returns the interquartile range divided by 1.349, which estimates the
// standard deviation of a normal bulk and ignores the outer quarters. Quartiles
// are interpolated inside buckets (log-uniform), so steps of LnGamma are not
// seen, but spreads under about half a bucket (1 % of the value) cannot be told
// apart. Fewer than four values are ErrInsufficient.
func (h *Hist) RobustSD(s Scale) (float64, error) {
	if n := h.N(); n < 4 {
		return 0, insufficient("interquartile range of %d values, need 4", n)
	}
	pts := h.ranks()
	q1, q3 := s.apply(quantileOf(pts, 0.25)), s.apply(quantileOf(pts, 0.75))
	return math.Max(0, q3-q1) * iqrToSD, nil
}

// MADSD returns 1.4826 times the median absolute deviation from the median, on
// the chosen scale. It resists up to half of the values being outliers, but has
// the buckets' resolution. Fewer than four values are ErrInsufficient.
func (h *Hist) MADSD(s Scale) (float64, error) {
	if n := h.N(); n < 4 {
		return 0, insufficient("median absolute deviation of %d values, need 4", n)
	}
	pts := h.Points()
	centre := s.apply(pts.median())
	type deviation struct {
		v float64
		w uint64
	}
	devs := make([]deviation, len(pts.v))
	for i, v := range pts.v {
		devs[i] = deviation{math.Abs(s.apply(v) - centre), pts.w[i]}
	}
	slices.SortFunc(devs, func(a, b deviation) int { return cmp.Compare(a.v, b.v) })
	var of Points
	var cum uint64
	for _, d := range devs {
		cum = satAdd(cum, d.w)
		of.v, of.w, of.cum = append(of.v, d.v), append(of.w, d.w), append(of.cum, cum)
	}
	return madToSD * of.median(), nil
}

// CDFAt returns the share of values at or below ms. Inside a bucket mass is
// taken as log-uniform, so the error is at most the mass of that bucket; at a
// bucket's upper bound it is exact up to rounding.
func (h *Hist) CDFAt(ms float64) (float64, error) {
	if math.IsNaN(ms) {
		return 0, invalid("CDF at NaN")
	}
	n := float64(h.N())
	if n == 0 {
		return 0, insufficient("CDF of an empty histogram")
	}
	if ms < 0 {
		return 0, nil
	}
	ix := BucketIndex(ms)
	var below float64
	for i, c := range h.Count {
		switch {
		case h.Index[i] < ix:
			below += float64(c)
		case h.Index[i] == ix:
			below += float64(c) * bucketShare(ix, ms)
		}
	}
	return clamp(below/n, 0, 1), nil
}

// bucketShare is the share of a bucket's mass at or below ms, which lies in it.
func bucketShare(ix int16, ms float64) float64 {
	if ix == ZeroIndex {
		return ms / MinMS
	}
	if ms >= MaxMS {
		return 1
	}
	return clamp(math.Log(ms)/LnGamma-float64(ix-1), 0, 1)
}

// Above returns the share of values above ms, 1 - CDFAt(ms).
func (h *Hist) Above(ms float64) (float64, error) {
	f, err := h.CDFAt(ms)
	if err != nil {
		return 0, err
	}
	return 1 - f, nil
}
