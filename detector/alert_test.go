package detector

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// C69: whatever fires says what it means, how much, over which window, against what, what to
// do first and what not, and where to read on.
func TestC69EveryDetectionSaysWhatItMust(t *testing.T) {
	cfg := DefaultConfig()
	cfg.EvidenceURL, cfg.RunbookPages, cfg.DashboardURL = "https://d.example.com/alerts/", "https://d.example.com/runbooks/", "https://g.example.com/d?x=1"
	for _, name := range Detections() {
		v := Verdict{Detection: name, Slice: planner, From: t0.Add(-5 * time.Minute), To: t0, Samples: 123, Value: 0.25, Threshold: 0.1, Baseline: 0.02, Unit: "1", Text: "it is so", Cause: "a queue"}
		a := cfg.annotations(v, "f00")
		for key, want := range map[string]string{"value": "25.0 %", "threshold": "10.0 %", "baseline": "2.0 %", "unit": "1", "samples": "123", "cause": "a queue",
			"window": v.From.Format("15:04") + " to " + v.To.Format("15:04") + " UTC (5m)", "evidence_url": "https://d.example.com/alerts/f00", "runbook_url": "https://d.example.com/runbooks/" + name,
			"dashboard_url": "https://g.example.com/d?x=1&var-agent=planner&var-service=shop"} {
			require.Equal(t, want, a[key], "%s of %s", key, name)
		}
		for _, key := range []string{"do_first", "do_not"} {
			require.NotEmpty(t, a[key], "%s of %s", key, name)
		}
		title, ok := Title(name)
		require.True(t, ok)
		require.Contains(t, a["summary"], title+": ")
		require.Contains(t, a["description"], "it is so. Window "+a["window"][:5])
		require.Contains(t, a["description"], "123 samples, value 25.0 %, threshold 10.0 %, baseline 2.0 %")

		v.annotate("cause_line", "tool `search` answers 503")
		a = cfg.annotations(v, "f00")
		require.Equal(t, "Tool `search` answers 503.", a["cause"])
		require.Equal(t, "a queue", a["cause_detail"])
	}
}

// Rounds explain what may change an alert, no more than their bound, and not what goes on.
func TestWhatIsExplained(t *testing.T) {
	e := posting(t, 0)
	for _, severity := range []string{Warning, Critical} {
		require.True(t, e.changesAlert(breach(P95Surge, planner, 1, severity)))
	}
	for m := 1; m < 3; m++ {
		play(e.book, e.cfg, nil, m, breach(P95Surge, planner, m, Warning))
	}
	require.False(t, e.changesAlert(breach(P95Surge, planner, 3, Warning)))
	require.True(t, e.changesAlert(breach(P95Surge, planner, 3, Critical)))
}

func TestSlicesThatDiffer(t *testing.T) {
	of := func(target string, l Level) Verdict {
		s := planner
		s.Target = target
		return Verdict{Detection: P95Surge, Slice: s, Level: l}
	}
	all := []Verdict{of("m1", Breach), of("m2", Breach), of("m3", Quiet), of("m4", Hold), {Detection: P95Spread, Slice: Slice{Service: "shop"}, Level: Breach}, {Detection: P95Surge, Slice: Slice{Service: "mail"}, Level: Quiet}}
	require.Equal(t, "also: chat m2 (streamed) of planner; as usual: chat m3 (streamed) of planner", differs(all[0], all))
	require.Equal(t, "also: none; as usual: none", differs(all[4], all))
}

// Receivers tell alerts apart by labels: slices whose long names differ at their end only are two.
func TestLongNamesStayApart(t *testing.T) {
	long := strings.Repeat("ä", 150)
	a, b := labels(P95Surge, Warning, Slice{Service: "x" + long + "a"}), labels(P95Surge, Warning, Slice{Service: "x" + long + "b"})
	require.NotEqual(t, a, b)
	require.True(t, utf8.ValidString(a["service"]))
	require.LessOrEqual(t, len(a["service"]), maxLabel)
	require.Equal(t, a, labels(P95Surge, Warning, Slice{Service: "x" + long + "a"}))
	require.Equal(t, strings.Repeat("n", maxLabel), bounded(strings.Repeat("n", maxLabel)))
}
