package ui

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// unknown is shown for what is not known. It is never 0.
const unknown = "unknown"

// formatDuration renders d with about three digits: 0.42 ms, 340 ms, 12.3 s, 3 min 12 s.
func formatDuration(d time.Duration) string {
	if d < 0 {
		return "-" + formatDuration(-d)
	}
	s := d.Seconds()
	switch {
	case d == 0:
		return "0 ms"
	case d < 10*time.Millisecond:
		return trim(fmt.Sprintf("%.2f", s*1e3)) + " ms"
	case d < 999500*time.Microsecond:
		return fmt.Sprintf("%.0f ms", s*1e3)
	case d < 10*time.Second-5*time.Millisecond:
		return trim(fmt.Sprintf("%.2f", s)) + " s"
	case d < time.Minute-50*time.Millisecond:
		return trim(fmt.Sprintf("%.1f", s)) + " s"
	}
	d = d.Round(time.Second)
	if d < time.Hour {
		return unitPair(d, time.Minute, "min", time.Second, "s")
	}
	d = d.Round(time.Minute)
	if d < 48*time.Hour {
		return unitPair(d, time.Hour, "h", time.Minute, "min")
	}
	return unitPair(d, 24*time.Hour, "d", time.Hour, "h")
}

func unitPair(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	if rest := d % big / small; rest > 0 {
		return fmt.Sprintf("%d %s %d %s", d/big, bigName, rest, smallName)
	}
	return fmt.Sprintf("%d %s", d/big, bigName)
}

func trim(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func formatMS(ms float64) string {
	if math.IsNaN(ms) || math.IsInf(ms, 0) {
		return unknown
	}
	return formatDuration(time.Duration(ms * 1e6))
}

func formatDurationPtr(d *time.Duration) string {
	if d == nil {
		return unknown
	}
	return formatDuration(*d)
}

// formatShare renders a fraction as per cent, with a digit more where it is small.
func formatShare(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return unknown
	}
	p := x * 100
	switch {
	case p == 0:
		return "0 %"
	case math.Abs(p) < 0.1:
		return "under 0.1 %"
	case math.Abs(p) < 10:
		return fmt.Sprintf("%.1f %%", p)
	}
	return fmt.Sprintf("%.0f %%", p)
}

// ratio is a cell with part over whole and its counts; an empty whole is unknown.
func ratio(part, whole uint64) Cell {
	if whole == 0 {
		return number(unknown)
	}
	c := number(formatShare(float64(part) / float64(whole)))
	c.Note = fmt.Sprintf("%d of %d", part, whole)
	return c
}

// formatValue renders an alert's number in its unit.
func formatValue(v float64, unit string) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return unknown
	}
	switch unit {
	case "ratio", "x":
		return trim(fmt.Sprintf("%.2f", v)) + "×"
	case "ms":
		return formatMS(v)
	case "s":
		return formatMS(v * 1e3)
	case "share", "1":
		return formatShare(v)
	case "%":
		return formatShare(v / 100)
	case "":
		return trim(fmt.Sprintf("%.3f", v))
	}
	return trim(fmt.Sprintf("%.3f", v)) + " " + unit
}

// formatBaseline renders an alert's baseline: with unit ratio it is in milliseconds.
func formatBaseline(a Alert) string {
	if a.Unit == "ratio" || a.Unit == "x" {
		if a.Baseline <= 0 {
			return unknown
		}
		return formatMS(a.Baseline)
	}
	return formatValue(a.Baseline, a.Unit)
}

const timeLayout = "2006-01-02 15:04:05 UTC"

func formatTime(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return t.UTC().Format(timeLayout)
}

// formatAgo says how long before now t lies.
func formatAgo(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	switch {
	case d < -time.Second:
		return "in " + formatDuration(coarse(-d))
	case d < time.Second:
		return "just now"
	}
	return formatDuration(coarse(d)) + " ago"
}

func coarse(d time.Duration) time.Duration {
	if d < time.Minute {
		return d.Round(time.Second)
	}
	return d
}

func formatBool(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// words turns an identifier into words: p95_spread is "p95 spread".
func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return s
}
