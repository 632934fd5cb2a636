package genai

import (
	"math"
	"strconv"
	"strings"
)

// maxSampleWeight is the highest weight that is believed. Nobody keeps fewer than one span
// in a million, and a single hostile or broken span must not outweigh a day's traffic.
const maxSampleWeight = 1e6

// SampleWeight is how many spans s stands for: 1 / sampling probability, at least 1.
// It reads the threshold of OpenTelemetry's consistent probability sampling
// (tracestate `ot=th:`), its older form (`ot=p:`), and the attributes by which known
// samplers state their rate. Nonsense counts as 1.
func SampleWeight(s *Span) float64 {
	var f facts
	f.read(defaultDialects(), s.Attrs, nil)
	return sampleWeight(s.TraceState, &f)
}

func sampleWeight(tracestate string, f *facts) float64 {
	if w, ok := thresholdWeight(tracestate); ok && w <= maxSampleWeight {
		return w
	}
	if v := f.val(slotSampleRate); v != nil {
		if n, ok := v.AsFloat(); ok && n >= 1 && n <= maxSampleWeight {
			return n
		}
	}
	if v := f.val(slotSampleRatio); v != nil {
		if p, ok := v.AsFloat(); ok && p > 0 && p <= 1 && 1/p <= maxSampleWeight {
			return 1 / p
		}
	}
	return 1
}

func thresholdWeight(tracestate string) (float64, bool) {
	for tracestate != "" {
		var member string
		member, tracestate, _ = strings.Cut(tracestate, ",")
		key, value, ok := strings.Cut(strings.TrimSpace(member), "=")
		if !ok || key != "ot" {
			continue
		}
		for value != "" {
			var part string
			part, value, _ = strings.Cut(value, ";")
			name, text, _ := strings.Cut(part, ":")
			switch name {
			case "th":
				return weightOfThreshold(text)
			case "p":
				if p, err := strconv.Atoi(text); err == nil && p >= 0 && p <= 56 {
					return math.Pow(2, float64(p)), true
				}
			}
		}
	}
	return 0, false
}

// weightOfThreshold reads 1 to 14 hex digits, right-padded with zeros to 56 bits: the
// share of the randomness space that is rejected.
func weightOfThreshold(text string) (float64, bool) {
	if len(text) == 0 || len(text) > 14 {
		return 0, false
	}
	t, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0, false
	}
	t <<= 4 * uint(14-len(text))
	return float64(uint64(1)<<56) / float64(uint64(1)<<56-t), true
}
