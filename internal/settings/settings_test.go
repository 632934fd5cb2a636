package settings

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
)

func TestThePageIsCurrent(t *testing.T) {
	want, err := Page("../../detector")
	require.NoError(t, err)
	got, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	require.Equal(t, want, string(got), "docs/configuration.md is stale: run `go generate ./internal/settings`")
}

func TestEveryKeyIsExplained(t *testing.T) {
	page, err := Page("../../detector")
	require.NoError(t, err)
	for key, f := range fieldsOf[document]() {
		require.Contains(t, page, "`"+key+"`")
		for inner := range f.of {
			require.Contains(t, page, "`"+inner+"`")
		}
	}
	require.NotContains(t, page, "|  |\n", "a key without a meaning")
}

func TestWhatIsNotSetKeepsItsDefault(t *testing.T) {
	for _, text := range []string{"", "# only a comment\n", "---\n", "{}"} {
		got, err := Parse([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, detector.DefaultConfig(), got, text)
	}
	got, err := Load("")
	require.NoError(t, err)
	require.Equal(t, detector.DefaultConfig(), got)
}

func TestTheExampleOfTheDocs(t *testing.T) {
	got, err := Parse([]byte(Example))
	require.NoError(t, err)
	want := detector.DefaultConfig()
	want.EvalDelay = 45 * time.Second
	want.Shadow = map[string]bool{"p95_surge": true}
	want.Drift.MinDrift = 2 * time.Second
	billing, nightly := want.Rules, want.Rules
	billing.Spread.MinOperations, billing.Spread.Ratio = 200, 6
	nightly.Shadow = map[string]bool{"retry_bimodality": true, "deadline_drift": true, "p95_spread": true, "p95_surge": true}
	want.Overrides = []detector.Override{
		{Match: detector.Match{Service: "billing-*"}, Rules: billing},
		{Match: detector.Match{Service: "nightly-batch"}, Rules: nightly},
	}
	want.Maintenance = []detector.Maintenance{
		{Match: detector.Match{Service: "billing-*"}, Weekly: "Sat,Sun 22:00-02:00", Zone: "Europe/Berlin", Reason: "database backup"},
		{From: "2026-03-07T22:00:00Z", To: "2026-03-08T02:00:00Z", Reason: "move to the new cluster"},
	}
	require.Equal(t, want, got)

	text, err := Text(got)
	require.NoError(t, err)
	again, err := Parse(text)
	require.NoError(t, err, string(text))
	require.Equal(t, got, again, "what check prints gives the same settings")
}

// An override may take detections out of shadow again.
func TestAnOverridesShadowReplacesTheGeneralOne(t *testing.T) {
	got, err := Parse([]byte("shadow: [p95_surge]\noverrides:\n  - {agent: a, shadow: []}\n  - {agent: b, fdr: 1}\n"))
	require.ErrorContains(t, err, "line 4: overrides[1].fdr is no setting")
	got, err = Parse([]byte("shadow: [p95_surge]\noverrides:\n  - {agent: a, shadow: []}\n  - {agent: b}\n"))
	require.NoError(t, err)
	require.Empty(t, got.For(detector.Slice{Agent: "a"}).Shadow)
	require.True(t, got.For(detector.Slice{Agent: "b"}).Shadow["p95_surge"])
	require.True(t, got.For(detector.Slice{Agent: "c"}).Shadow["p95_surge"])
}

func TestEveryProblemIsNamedAtOnce(t *testing.T) {
	_, err := Parse([]byte(`interval: soon
eval_dealy: 3s
deadline_drift:
  min_drift: 2s
  min_requests: many
p95_spread: 4
overrides:
  - service: a
    p95_surge: {ration: 2}
  - 7
  - p95_surge: {ratio: x}
  - servce: b
interval: 3s
max_eval_delay: 1s
fdr: 2
p95_surge: {ration: 1.3, clear_ratio: 9, p95_floor: -1s}
short_window: {a: 1}
`))
	require.Error(t, err)
	for _, want := range []string{
		"line 1: interval: cannot read the text `soon` as a duration such as 30s or 5m",
		"line 2: eval_dealy is no setting; did you mean eval_delay?",
		"line 5: deadline_drift.min_requests: cannot read the text `many` as a whole number of 0 or more",
		"line 6: p95_spread: cannot read the number `4` as settings",
		"line 9: overrides[0].p95_surge.ration is no setting; did you mean ratio?",
		"line 10: overrides[1]: want a mapping of settings",
		"line 11: overrides[2].p95_surge.ratio: cannot read the text `x` as a number",
		"line 12: overrides[3].servce is no setting; did you mean service?",
		"line 13: interval stands twice, first on line 1",
		"line 16: p95_surge.ration is no setting; did you mean ratio?",
		"line 17: short_window: cannot read a mapping as a duration such as 30s or 5m",
		// Values are judged in the same round, but for those that rest on one which is not known:
		// eval_delay, p95_surge.ratio, and what the first, second and fourth override match.
		"overrides[2]: matches every slice",
		"fdr 2: want between 0 and 1",
		"p95_surge.p95_floor -1s: want",
		"overrides[0].p95_surge.p95_floor -1s: want",
		"overrides[2].p95_surge.p95_floor -1s: want",
		"overrides[3].p95_surge.p95_floor -1s: want",
	} {
		require.ErrorContains(t, err, want)
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 17, err.Error())
}

func TestValuesThatCannotWork(t *testing.T) {
	_, err := Parse([]byte("interval: 0s\nshadow: [p95]\np95_surge: {ratio: 1}\noverrides:\n  - retry_bimodality: {margin: 1}\n"))
	for _, want := range []string{
		"interval 0s: want 1s or more", `shadow "p95": want one of`, "p95_surge.ratio 1, p95_surge.clear_ratio 1.2: want the first above the second",
		"overrides[0]: matches every slice", "overrides[0].retry_bimodality.margin 1: want a ratio over 1", `overrides[0].shadow "p95"`,
	} {
		require.ErrorContains(t, err, want)
	}
}

// A fraction of a count is a mistake: cut off, 1.5 votes would be one, which fires at once.
func TestFractionsAreNotCutOff(t *testing.T) {
	_, err := Parse([]byte("fire_votes: 1.5\np95_surge: {min_operations: 30.7}\noverrides:\n  - {service: a, p95_surge: {min_operations: 9.5}}\n"))
	for _, want := range []string{
		"line 1: fire_votes: cannot read the number `1.5` as a whole number",
		"line 2: p95_surge.min_operations: cannot read the number `30.7` as a whole number",
		"line 4: overrides[0].p95_surge.min_operations: cannot read the number `9.5` as a whole number",
	} {
		require.ErrorContains(t, err, want)
	}
	got, err := Parse([]byte("fire_votes: 3.0\np95_surge: {ratio: 2.5}\n"))
	require.NoError(t, err)
	require.Equal(t, 3, got.FireVotes)
}

// Each mistake is told with its key, wherever on a line it stands, and so are numbers with which
// nothing would ever fire, memory would not do, or receivers would let alerts lapse.
func TestMistakesAreToldWithTheirKeys(t *testing.T) {
	for text, want := range map[string]string{
		"interval: 5":                      "line 1: interval: cannot read the number `5` as a duration such as 30s or 5m",
		"interval: 9999999h":               "line 1: interval: cannot read the text `9999999h` as a duration",
		"max_p: '0.1'":                     "line 1: max_p: cannot read the text `0.1` as a number",
		"fdr: [1]":                         "line 1: fdr: cannot read a list as a number",
		"shadow: p95_surge":                "line 1: shadow: cannot read the text `p95_surge` as a list of names",
		"shadow: [{a: b}]":                 "line 1: shadow: cannot read a mapping as text",
		"fire_votes: 99999999999999999999": "line 1: fire_votes: cannot read the number `9999999...` as a whole number",
		"p95_surge: {ratio: soon, cusum_h: 8, cusum_k: often}":  "line 1: p95_surge.ratio: cannot read the text `soon` as a number",
		"stuck_ratio: {limit: 5}":                               "line 1: stuck_ratio.limit: cannot read the number `5` as a duration",
		"maintenance: [5]":                                      "line 1: maintenance[0]: want a mapping of settings",
		"overrides: [null]":                                     "line 1: overrides[0]: want a mapping of settings",
		"cascade: 3":                                            "line 1: cascade: cannot read the number `3` as settings",
		"maintenance: [{from: 2026-01-01, weekly: {a: b}}]":     "line 1: maintenance[0].weekly: cannot read a mapping as text",
		"overrides: [{service: {a: b}, p95_surge: {ratio: 4}}]": "line 1: overrides[0].service: cannot read a mapping as text",
		"p95_surge: {ratio: .inf}":                              "line 1: p95_surge.ratio: want a finite number",
		"overrides: [{service: a, p95_surge: {cusum_h: .inf}}]": "line 1: overrides[0].p95_surge.cusum_h: want a finite number",
		"fdr: .nan":                      "fdr NaN: want between 0 and 1",
		"p95_spread: {ratio: -3}":        "p95_spread.ratio -3",
		"interval: 1ns":                  "interval 1ns: want 1s or more, and no more than short_window 5m0s and half of ends_after 10m0s",
		"interval: 6m":                   "interval 6m0s: want 1s or more, and no more than short_window 5m0s and half of ends_after 10m0s",
		"{interval: 2m, ends_after: 3m}": "interval 2m0s: want 1s or more, and no more than short_window 5m0s and half of ends_after 3m0s",
		"baseline_window: 1000000h":      "baseline_window 1000000h0m0s: want no more than 744h0m0s",
		"long_window: 1000h":             "long_window 1000h0m0s: want no more than 24h0m0s",
		"fire_rounds: 1000000":           "fire_rounds 1000000: want no more than 60",
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
	_, err := Parse([]byte("p95_surge: {ratio: soon, cusum_h: 8, cusum_k: often}"))
	require.ErrorContains(t, err, "line 1: p95_surge.cusum_k: cannot read the text `often` as a number")
	require.Len(t, strings.Split(err.Error(), "\n"), 2)
	_, err = Parse([]byte("maintenance: [5]\noverrides: [x]"))
	require.Len(t, strings.Split(err.Error(), "\n"), 2, err.Error())
	got, err := Parse([]byte("p95_surge: &a {miss_share: 0.5}\np95_spread: *a\noverrides: [&o {service: a}]\n"))
	require.NoError(t, err)
	require.Equal(t, 0.5, got.Spread.MissShare)
}

func TestFilesThatAreNoSettings(t *testing.T) {
	for text, want := range map[string]string{
		"- a\n":                 "line 1: want a mapping of settings at the top",
		"a: [":                  "this is no YAML",
		"fdr: 0.1\n---\nfdr: 1": "more than one document",
		"overrides: 3":          "line 1: overrides: want a list",
		"\x00":                  "this is no YAML",
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
	_, err := Load("no-such-file.yaml")
	require.ErrorContains(t, err, "no-such-file.yaml")
}

func FuzzParse(f *testing.F) {
	f.Add(Example)
	f.Add("overrides: [{service: '*', p95_spread: {ratio: .inf}}]")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := Parse([]byte(text))
		if err == nil {
			require.NoError(t, cfg.Validate())
		}
	})
}
