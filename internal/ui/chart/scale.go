package chart

import (
	"math"
	"time"
)

// Scale maps a domain linearly to a range.
type Scale struct {
	// D0 and D1 are the ends of the domain, R0 and R1 what they map to.
	D0, D1, R0, R1 float64
}

// At maps v. A domain of zero width maps everything to the middle of the range,
// and NaN stays NaN.
func (s Scale) At(v float64) float64 {
	if math.IsNaN(v) {
		return v
	}
	if s.D1 == s.D0 {
		return (s.R0 + s.R1) / 2
	}
	return s.R0 + (v-s.D0)/(s.D1-s.D0)*(s.R1-s.R0)
}

// Clamped maps v and keeps the result inside the range.
func (s Scale) Clamped(v float64) float64 {
	r := s.At(v)
	lo, hi := math.Min(s.R0, s.R1), math.Max(s.R0, s.R1)
	return math.Max(lo, math.Min(hi, r))
}

// NiceMax returns a round number at or above v, for the top of an axis that starts
// at 0, and 1 where v is not a positive finite number.
func NiceMax(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 1) {
		return 1
	}
	step := niceStep(v / 4)
	return step * math.Ceil(v/step-1e-9)
}

// niceStep returns 1, 2 or 5 times a power of ten at or above v.
func niceStep(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 1) {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*p >= v*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// Ticks returns round values from 0 to top, at most about n+1 of them, for an axis
// that starts at 0.
func Ticks(top float64, n int) []float64 {
	if !(top > 0) || math.IsInf(top, 1) || n < 1 {
		return []float64{0}
	}
	step := niceStep(top / float64(n))
	var out []float64
	for i := 0; ; i++ {
		v := float64(i) * step
		if v > top*(1+1e-9) {
			return out
		}
		out = append(out, v)
	}
}

var timeSteps = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// TimeTicks returns round instants in [from, to], at most n of them.
func TimeTicks(from, to time.Time, n int) []time.Time {
	if !to.After(from) || n < 1 {
		return nil
	}
	step := timeSteps[len(timeSteps)-1]
	for _, s := range timeSteps {
		if to.Sub(from)/s < time.Duration(n) {
			step = s
			break
		}
	}
	for to.Sub(from)/step >= time.Duration(n) {
		step *= 2
	}
	var out []time.Time
	for t := from.Truncate(step); !t.After(to); t = t.Add(step) {
		if !t.Before(from) {
			out = append(out, t)
		}
	}
	return out
}

// LogTicks returns 1, 2 or 5 times powers of ten inside [lo, hi] for a logarithmic
// axis, thinned to at most n.
func LogTicks(lo, hi float64, n int) []float64 {
	if !(lo > 0) || !(hi >= lo) || math.IsInf(hi, 1) || n < 1 {
		return nil
	}
	for _, steps := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		if out := logTicks(lo, hi, steps, 1); len(out) <= n {
			return out
		}
	}
	for every := 2; ; every++ {
		if out := logTicks(lo, hi, []float64{1}, every); len(out) <= n {
			return out
		}
	}
}

func logTicks(lo, hi float64, steps []float64, every int) []float64 {
	var out []float64
	for e := int(math.Floor(math.Log10(lo))); float64(e) <= math.Log10(hi)+1e-9; e++ {
		if e%every != 0 {
			continue
		}
		for _, s := range steps {
			if v := s * math.Pow(10, float64(e)); v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
				out = append(out, v)
			}
		}
	}
	return out
}
