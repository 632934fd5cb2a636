package detector_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/memory"
	"driftline/internal/clock"
	"driftline/internal/rows"
)

// oneCall stores a request with one call of a model that takes so many milliseconds.
func oneCall(st *memory.Store, n int, end time.Time, ms float64) {
	o, r := call(n, end, ms)
	st.AddOperations(o)
	st.AddRequests(3*time.Second, r)
}

func call(n int, end time.Time, ms float64) (*rows.Operation, *rows.Request) {
	took := int64(ms * 1e6)
	o := &rows.Operation{OperationID: "o", RequestID: "r", Target: "m1", Stream: rows.StreamYes, Attempts: ptr(uint32(1)), InferenceTimeNS: ptr(took)}
	o.ServiceName, o.TraceID, o.Revision, o.Agent, o.Kind, o.Outcome, o.SampleWeight = "shop", fmt.Sprintf("%032x", n+1), 1, "planner", rows.KindChat, rows.OutcomeOK, 1
	o.EndedAt, o.UserTimeNS = end.UnixNano(), took
	o.HiddenTotalNS, o.AgentTimeNS = ptr(int64(0)), ptr(took)
	r := &rows.Request{RequestID: "r", Operations: 1, Steps: 1, Attempts: ptr(uint32(1)), Retries: ptr(uint32(0)), ReleaseReason: rows.ReleaseRoot}
	r.ServiceName, r.TraceID, r.Revision, r.Agent, r.Kind, r.Outcome, r.SampleWeight = "shop", o.TraceID, 1, "planner", rows.KindAgent, rows.OutcomeOK, 1
	r.EndedAt, r.UserTimeNS = o.EndedAt, took
	r.HiddenPathNS, r.HiddenTotalNS, r.DriftNS, r.DeadlineMissed = ptr(int64(0)), ptr(int64(0)), ptr(int64(0)), ptr(false)
	return o, r
}

// C66: four operations in five minutes, one of them of 40 s, page nobody, whether the slice has
// always had so few or has gone nearly silent, and by no detection.
func TestC66FourOperationsPageNobody(t *testing.T) {
	const history, live = 180, 40
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for name, usual := range map[string]time.Duration{"always few": 75 * time.Second, "busy before": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			st, sink, n := memory.New(), &collect{name: "sink"}, 0
			for at := time.Duration(0); at < (history+live)*time.Minute; n++ {
				ms := 900 + float64(n%7)*50
				if at >= history*time.Minute && n%4 == 0 {
					ms = 40_000
				}
				oneCall(st, n, start.Add(at), ms)
				if at += usual; at >= history*time.Minute {
					at += 75*time.Second - usual
				}
			}
			e, err := detector.New(detector.DefaultConfig(), st, st, []detector.Notifier{sink}, clock.NewManual(start))
			require.NoError(t, err)
			for now := start.Add((history + 1) * time.Minute); now.Before(start.Add((history + 6) * time.Minute)); now = now.Add(30 * time.Second) {
				r, err := e.Evaluate(context.Background(), now)
				require.NoError(t, err)
				for _, v := range r.Verdicts {
					require.NotEqual(t, detector.Breach, v.Level, "%s on %s at %s: %s", v.Detection, v.Slice, now.Sub(start), v.Text)
				}
			}
			require.Empty(t, sink.got)
		})
	}
}

// S4: the standard deviation of inference time is five times as large for 8 minutes, while its
// mean is as ever and nothing fails; the first 504 would come then. A warning is out before.
func TestS4TheWarningComesBeforeTheFirst504(t *testing.T) {
	const history, live = 120, 8
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	st, sink := memory.New(), &collect{name: "sink"}
	for n := range (history + live) * 60 {
		sd := 300.0
		if n >= history*60 {
			sd *= 5
		}
		oneCall(st, n, start.Add(time.Duration(n)*time.Second), max(100, 2000+sd*rng.NormFloat64()))
	}
	e, err := detector.New(detector.DefaultConfig(), st, st, []detector.Notifier{sink}, clock.NewManual(start))
	require.NoError(t, err)
	for now := start.Add((history - 10) * time.Minute); now.Before(start.Add((history + live) * time.Minute)); now = now.Add(30 * time.Second) {
		_, err := e.Evaluate(context.Background(), now)
		require.NoError(t, err)
	}
	require.NotEmpty(t, sink.news(), "nothing is sent before the first 504")
	first := sink.news()[0]
	require.Equal(t, []string{detector.Firing, detector.Warning, "m1"}, []string{first.State, first.Severity, first.Slice.Target})
	require.True(t, first.At.After(start.Add(history*time.Minute)))
	found := map[string]bool{}
	for _, a := range sink.news() {
		found[a.Detection] = true
	}
	require.True(t, found[detector.P95Spread], "%v", found)
	t.Logf("%s is sent %s after the change began", first.Detection, first.At.Sub(start.Add(history*time.Minute)))
}

// C87: 30 calls in five minutes of which 60 % fail are too few for a ratio of five minutes; the
// window of half an hour holds enough, and pages a quiet service too.
func TestC87TheQuietPathFiresLater(t *testing.T) {
	const history, live = 180, 30
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	st, sink := memory.New(), &collect{name: "sink"}
	for n := range (history + live) * 6 {
		at := start.Add(time.Duration(n) * 10 * time.Second)
		o, r := call(n, at, 900+float64(n%7)*50)
		if n >= history*6 && n%5 < 3 {
			o.Outcome, o.ErrorClass = rows.OutcomeError, rows.ClassTimeout
		}
		st.AddOperations(o)
		st.AddRequests(3*time.Second, r)
	}
	e, err := detector.New(detector.DefaultConfig(), st, st, []detector.Notifier{sink}, clock.NewManual(start))
	require.NoError(t, err)
	for now := start.Add(history * time.Minute); len(sink.news()) == 0; now = now.Add(30 * time.Second) {
		require.Less(t, now.Sub(start), (history+live)*time.Minute, "nothing is sent")
		r, err := e.Evaluate(context.Background(), now)
		require.NoError(t, err)
		for _, v := range r.Verdicts {
			if v.Detection == detector.FirstTimeout && v.Level == detector.Breach {
				require.Equal(t, 30*time.Minute, v.To.Sub(v.From), "five minutes hold 30 calls")
			}
		}
	}
	a := sink.news()[0]
	require.Equal(t, detector.FirstTimeout, a.Detection)
	require.Equal(t, 30*time.Minute, a.Window)
	require.GreaterOrEqual(t, a.Samples, uint64(100))
	require.Less(t, a.At.Sub(start), (history+15)*time.Minute)
	t.Logf("sent %s after the change began", a.At.Sub(start)-history*time.Minute)
}
