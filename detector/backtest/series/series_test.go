package series_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/backtest/series"
)

func TestRead(t *testing.T) {
	want := time.Date(2026, 3, 2, 10, 0, 1, 500e6, time.UTC)
	text := "timestamp,latency\n2026-03-02T10:00:01.5Z,1.5\n2026-03-02T12:00:01.5+02:00, 1.5\n1772445601.5,1.5\n1772445601500,1.5\n1772445601500000,1.5\n1772445601500000000,1.5\n"
	got, err := series.Read(strings.NewReader(text), "s")
	require.NoError(t, err)
	require.Len(t, got, 6)
	for _, p := range got {
		require.WithinDuration(t, want, p.At, time.Microsecond)
		require.Equal(t, 1500*time.Millisecond, p.Latency)
	}
	for _, text := range []string{"ts_2026,p95\n1772445601,1", "\n\n1772445601,1\n\n", "\ufefftimestamp,value\r\n1772445601,1\r\n", "\ufeff1772445601,1\r\n"} { // as spreadsheets write
		got, err := series.Read(strings.NewReader(text), "s")
		require.NoError(t, err)
		require.Len(t, got, 1)
	}
	for unit, latency := range map[string]time.Duration{"ns": 12, "us": 12 * time.Microsecond, "ms": 12 * time.Millisecond, "s": 12 * time.Second} {
		got, err := series.Read(strings.NewReader("1772445601,12"), unit)
		require.NoError(t, err)
		require.Equal(t, latency, got[0].Latency)
	}
}

func TestErrorsNameLineAndColumn(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "no values",
		"time,value\n":                 "no values",
		"1772445601,1\n1772445602,x\n": `line 2, column 12: value "x"`,
		"1772445601,1\nyesterday,1\n":  `line 2, column 1: timestamp "yesterday"`,
		"yesterday at 5,1\n":           `line 1, column 1: timestamp`,
		"1772445601,1,2\n":             "line 1, column 1: fields: 3",
		"1772445601,-1\n":              "line 1, column 12: value",
		"1772445601,NaN\n":             "line 1, column 12: value",
		"1772445601,9e9\n":             "want 0 or more and less than",
		"1772445600,value\n":           "line 1, column 12: value",
		"nan,1\n":                      `line 1, column 1: timestamp "nan"`,
		"inf,1\n":                      `line 1, column 1: timestamp "inf"`,
		"1772445601,1_0\n":             "want a number",
		"1772445601,0x10\n":            "want a number",
		"1772445601,\n":                `line 1, column 12: value ""`,
		"1772445601;1\n":               "fields: 1; want two with a comma",
		"\n\n1772445601,1\n\n1,Inf\n":  "line 5, column 3: value",
		"-5,1\n":                       "timestamp \"-5\"",
		"\"1772445601,1\n":             "line 1, column",
	} {
		_, err := series.Read(strings.NewReader(text), "s")
		require.ErrorContains(t, err, want, "%q", text)
	}
	_, err := series.Read(strings.NewReader("1,1"), "m")
	require.ErrorContains(t, err, `unit "m"`)
}

// P95 that becomes four times as high is told, and not before.
func TestSurgeIsFound(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	change := start.Add(150 * time.Minute)
	var points []series.Point
	for at := start; at.Before(start.Add(3 * time.Hour)); at = at.Add(time.Duration(500+rng.IntN(500)) * time.Millisecond) {
		v := math.Exp(0.5 * rng.NormFloat64())
		if at.After(change) {
			v *= 4
		}
		points = append(points, series.Point{At: at, Latency: time.Duration(v * 1e9)})
	}
	rng.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	got, err := series.Run(context.Background(), detector.DefaultConfig(), points)
	require.NoError(t, err)
	require.NotEmpty(t, got)
	for _, a := range got {
		require.Contains(t, []string{detector.P95Surge, detector.P95Spread}, a.Detection)
		require.True(t, a.FiredAt.After(change), "%s at %s", a.Detection, a.FiredAt)
		require.Less(t, a.FiredAt.Sub(change), 10*time.Minute)
	}
	_, err = series.Run(context.Background(), detector.DefaultConfig(), points[:1])
	require.ErrorContains(t, err, "no minute of the series, with 1 values", "no alert would look like health")
	points = append(points, series.Point{At: start.Add(2 * 366 * 24 * time.Hour)})
	_, err = series.Run(context.Background(), detector.DefaultConfig(), points)
	require.ErrorContains(t, err, "is a timestamp wrong?")
}

// What is healthy comes in many forms. None of them pages in two days: calls whose times have
// a heavy tail, of which some are always far slower, in two modes, the same to the
// millisecond, rounded to whole seconds, or with the rhythm of a day. Each does when it becomes
// three times as slow, and where P95 lies between two modes, so that the median has to say it, four times.
func TestHealthyFormsPageNobody(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	const rate, before, after = 0.5, 48 * 3600.0, 1800.0 // calls a second, seconds
	from := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for name, draw := range map[string]func(rng *rand.Rand, at float64) float64{
		"lognormal, sigma 0.5": func(rng *rand.Rand, _ float64) float64 { return 1.2 * math.Exp(0.5*rng.NormFloat64()) },
		"lognormal, sigma 1.2": func(rng *rand.Rand, _ float64) float64 { return 1.2 * math.Exp(1.2*rng.NormFloat64()) },
		"3 % eight times as slow": func(rng *rand.Rand, _ float64) float64 {
			v := 1.2 * math.Exp(0.4*rng.NormFloat64())
			if rng.Float64() < 0.03 {
				v *= 8
			}
			return v
		},
		"5 % eight times as slow, P95 between the two": func(rng *rand.Rand, _ float64) float64 {
			v := 1.2 * math.Exp(0.2*rng.NormFloat64())
			if rng.Float64() < 0.05 {
				v *= 8
			}
			return v
		},
		"half from a cache": func(rng *rand.Rand, _ float64) float64 {
			if rng.Float64() < 0.5 {
				return 0.2 * math.Exp(0.3*rng.NormFloat64())
			}
			return 2 * math.Exp(0.3*rng.NormFloat64())
		},
		"constant":      func(*rand.Rand, float64) float64 { return 1.5 },
		"whole seconds": func(rng *rand.Rand, _ float64) float64 { return math.Ceil(1.2 * math.Exp(0.5*rng.NormFloat64())) },
		"a day's rhythm": func(rng *rand.Rand, at float64) float64 {
			return 1.2 * math.Exp(0.4*rng.NormFloat64()) * (1 + 0.3*math.Sin(2*math.Pi*at/86400))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, uint64(len(name))))
			var points []series.Point
			for at := 0.0; at < before+after; at += rng.ExpFloat64() / rate {
				v := draw(rng, at)
				if at >= before {
					v *= 3
					if strings.Contains(name, "between") {
						v *= 4.0 / 3
					}
				}
				points = append(points, series.Point{At: from.Add(time.Duration(at * 1e9)), Latency: time.Duration(v * 1e9)})
			}
			alerts, err := series.Run(context.Background(), detector.DefaultConfig(), points)
			require.NoError(t, err)
			change := from.Add(time.Duration(before) * time.Second)
			found := false
			for _, a := range alerts {
				require.True(t, a.At.After(change), "%s at %s: %s", a.Detection, a.At, a.Annotations["description"])
				found = found || a.State == detector.Firing
			}
			require.True(t, found)
		})
	}
}
