package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"driftline/detector"
)

// run runs detectd with arguments, in this process.
func run(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	err = root.ExecuteContext(context.Background())
	return out.String(), errs.String(), err
}

func TestBacktestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--workers -1":                           "-1 workers",
		"--healthy-days -1":                      "-1 healthy days",
		"--healthy-slices 1":                     "1 healthy slices",
		"--per-kind 0 --healthy-days 0":          "nothing to play",
		"--scenarios nope":                       `scenario kind "nope": want one of`,
		"--seed x":                               "--seed",
		"--seed -1":                              "--seed",
		"--output xml":                           `--output "xml"`,
		"--csv x --seed 1 --healthy-days 3":      "--seed: is of the simulated suite",
		"--csv x --scenarios y --healthy-days 3": "--healthy-days: is of the simulated suite",
		"--csv=":                                 "--csv: want the name of a file",
		"--unit ms":                              "--unit: is of the values in --csv",
		"more":                                   "more",
	} {
		_, _, err := run(t, "", append([]string{"backtest"}, strings.Fields(args)...)...)
		require.ErrorContains(t, err, want, args)
		var usage usageError
		require.True(t, errors.As(err, &usage), "%s: exit code 2", args)
	}
}

// A seed is printed, and with it the result is the same again; the object has what tools read.
func TestBacktestOutput(t *testing.T) {
	args := []string{"backtest", "--scenarios", "slow_decode", "--per-kind", "1", "--healthy-days", "0", "--output", "json"}
	out, errs, err := run(t, "", args...)
	require.NoError(t, err)
	found := regexp.MustCompile(`repeat it with (--seed \d+)\)`).FindStringSubmatch(errs)
	require.NotNil(t, found, errs)
	again, _, err := run(t, "", append(append(args, strings.Fields(found[1])...), "--workers", "3")...)
	require.NoError(t, err)
	require.Equal(t, out, again)

	var got struct {
		Seed  *uint64
		Total map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got), "one object and nothing else")
	require.Equal(t, found[1], fmt.Sprint("--seed ", *got.Seed))
	for _, key := range []string{"recall", "precision", "median_lead_seconds", "median_lead_over_headroom"} {
		var v *float64
		require.NoError(t, json.Unmarshal(got.Total[key], &v), key)
		require.NotNil(t, v, key)
	}
	require.Equal(t, "null", string(got.Total["false_pages_per_30d"]), "without healthy traffic it is not known")
	var rivals map[string]map[string]any
	require.NoError(t, json.Unmarshal(got.Total["rivals"], &rivals))
	for _, name := range []string{"static_p95", "three_sigma_p95"} {
		require.Contains(t, rivals[name], "median_lead_seconds")
	}
}

// surge is a series of seconds since 1970 whose P95 is four times as high in its last half hour.
func surge(t *testing.T) []string {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var out []string
	for s := range 3 * 3600 {
		v := math.Exp(0.5 * rng.NormFloat64())
		if s > 9000 {
			v *= 4
		}
		out = append(out, fmt.Sprintf("%d,%.4f", 1772445600+s, v))
	}
	return out
}

func TestBacktestCSV(t *testing.T) {
	lines := surge(t)
	file := filepath.Join(t.TempDir(), "series.csv")
	require.NoError(t, os.WriteFile(file, []byte("timestamp,value\n"+strings.Join(lines, "\n")+"\n"), 0o600))
	table, _, err := run(t, "", "backtest", "--csv", file)
	require.NoError(t, err)
	require.Contains(t, table, "p95_surge")
	out, _, err := run(t, "", "backtest", "--csv", file, "--output", "json")
	require.NoError(t, err)
	fired := 0
	for line := range strings.Lines(out) {
		var a detector.Alert
		require.NoError(t, json.Unmarshal([]byte(line), &a), line)
		require.Contains(t, []string{detector.P95Surge, detector.P95Spread}, a.Detection)
		if a.State == detector.Firing {
			fired++
		}
	}
	require.Positive(t, fired)

	// Order, and what stands around the values, changes nothing; nor does a unit.
	rand.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	again, _, err := run(t, strings.Join(lines, "\r\n\r\n"), "backtest", "--csv", "-")
	require.NoError(t, err)
	require.Equal(t, table, again)
	for i, l := range lines {
		at, v, _ := strings.Cut(l, ",")
		lines[i] = at + "000," + v + "e3"
	}
	again, _, err = run(t, strings.Join(lines, "\n"), "backtest", "--csv", "-", "--unit", "ms")
	require.NoError(t, err)
	require.Equal(t, table, again)

	for text, want := range map[string]string{
		"":                                     "-: no values",
		"time,value\n":                         "-: no values",
		"1772445600,1\n":                       "no minute of the series, with 1 values",
		"1772445600,1\n1772445601,NaN\n":       `-: line 2, column 12: value "NaN"`,
		"ts,v\n1772445600,1\n1772445601,-1\n":  `-: line 3, column 12: value "-1"`,
		"1772445600,0\n1772445601,0\n":         "all 2 values are 0",
		"2026-03-02 10:00:00,1\n":              `-: line 1, column 1: timestamp "2026-03-02 10:00:00"`,
		strings.Repeat("1772445600,1\n", 9999): "no minute of the series, with 9999 values",
	} {
		_, _, err := run(t, text, "backtest", "--csv", "-")
		require.ErrorContains(t, err, want, "%.40q", text)
	}
	_, _, err = run(t, "1772445600,1\n", "backtest", "--csv", "-", "--unit", "m")
	require.ErrorContains(t, err, `unit "m": want one of`)
	_, _, err = run(t, "", "backtest", "--csv", filepath.Join(t.TempDir(), "missing.csv"))
	require.ErrorContains(t, err, "missing.csv: no such file")
}

func TestReplayFlags(t *testing.T) {
	const dsn = "http://127.0.0.1:1/x"
	for args, want := range map[string]string{
		"":                      `--from ""`,
		"--from 2026-03-02":     "--from",
		"--from -1h":            "--from",
		"--from 1h --to 2h":     "want the first before the second",
		"--from 1h --to x":      `--to "x"`,
		"--from 1h --speed 0":   `--speed "0"`,
		"--from 1h --speed Inf": `--speed "Inf"`,
		"--from 1h --speed NaN": `--speed "NaN"`,
		"--from 1h --output y":  `--output "y"`,
	} {
		_, _, err := run(t, "", append([]string{"replay", "--clickhouse", dsn}, strings.Fields(args)...)...)
		require.ErrorContains(t, err, want, args)
		var usage usageError
		require.True(t, errors.As(err, &usage), "%s: exit code 2", args)
	}
}
