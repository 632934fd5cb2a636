package ui

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEvaluationsOfOneDetectionAndOfAll(t *testing.T) {
	asked := ""
	list := []Evaluation{
		{At: now, Watermark: now.Add(-time.Minute), Detection: "p95_surge", Took: 3 * time.Millisecond, Round: 210 * time.Millisecond, Rows: 77, Slices: 12, Breaching: 1,
			Worst: "chat m1 of " + evil, Service: "shop", Level: "breach", Reason: "surge", Value: 3.4, Threshold: 3, Unit: "ratio", Samples: 412},
		{At: now.Add(-30 * time.Second), Error: "read rollups: secret", Round: time.Second},
	}
	h := handler(t, Options{Evaluations: func(d string) []Evaluation { asked = d; return list }})
	r := get(h, "/evaluations")
	require.Equal(t, 200, r.StatusCode)
	text := body(t, r)
	for _, want := range []string{"3.4×", "412", "12, 1 breach", "77", `href="/evaluations/p95_surge"`, "the round failed", `aria-current="page">Evaluations`} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "<script>", "names are escaped")
	require.NotContains(t, text, "secret", "causes of failures are in the log")
	require.Equal(t, 200, get(h, "/evaluations/p95_surge").StatusCode)
	require.Equal(t, "p95_surge", asked)
	require.Equal(t, 404, get(h, "/evaluations/nope").StatusCode)
}

func TestWhatIsKnownOfAnAlertIsShown(t *testing.T) {
	f := newFixture()
	a := &f.details[surgeID].Transitions[1]
	a.Annotations["muted"], a.Annotations["requests_hit"], a.Annotations["changes"] = "inhibited by deadline_drift", "12.0 % (24 of 200 requests)", "service.version changed from 1 to 2 at 12:01"
	a.Annotations["cause"], a.Annotations["cause_detail"], a.Annotations["normal_trace_id"] = "Tool `search` answers 503.", "calls queue", traceA
	h, err := New(Options{Source: f})
	require.NoError(t, err)
	text := body(t, get(h, "/alerts/"+surgeID))
	f.list = []Alert{*a}
	require.Contains(t, body(t, get(h, "/alerts")), "firing (not sent: inhibited)")
	for _, want := range []string{"Not sent", "inhibited by deadline_drift", "24 of 200 requests", "service.version changed", "answers 503", "By the rule itself: calls queue", `went as usual`, `href="/traces/` + traceA} {
		require.Contains(t, text, want)
	}
}
