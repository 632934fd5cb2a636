package detector_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/memory"
	"driftline/detector/notify"
	"driftline/detector/rollup"
	"driftline/detector/store"
	"driftline/internal/alertmanagertest"
	"driftline/internal/clock"
	"driftline/internal/rows"
)

// drifting is two hours of one agent's requests; from minute begin on, for so many minutes,
// planners believe in half a minute too much.
func drifting(start time.Time, begin, length int) *memory.Store {
	st := memory.New()
	n := 0
	for m := range 150 {
		for i := range 20 {
			n++
			end := start.Add(time.Duration(m)*time.Minute + time.Duration(3*i)*time.Second)
			drift := int64(i) * 1e6
			if m >= begin && m < begin+length && i%2 == 0 {
				drift = 30e9
			}
			r := &rows.Request{RequestID: "r", Operations: 4, Steps: 2, Attempts: ptr(uint32(4)), Retries: ptr(uint32(0)), DecisionPoints: 2, ReleaseReason: rows.ReleaseRoot}
			r.ServiceName, r.TraceID, r.Revision, r.Agent, r.Kind, r.Outcome, r.SampleWeight = "shop", fmt.Sprintf("%032x", n), 1, "planner", rows.KindAgent, rows.OutcomeOK, 1
			r.EndedAt, r.StartedAt, r.UserTimeNS = end.UnixNano(), end.UnixNano()-40e9, 40e9
			r.HiddenPathNS, r.HiddenTotalNS, r.DriftNS, r.BudgetNS, r.DeadlineMissed = ptr(drift), ptr(drift), ptr(drift), ptr(int64(120e9)), ptr(false)
			st.AddRequests(3*time.Second, r)
		}
	}
	return st
}

var errDead = errors.New("the process is dead")

// mortal is a process's hold on storage and receivers. At its n-th step it dies, before or
// after the step has had its effect; a dead process has no effect on anything.
type mortal struct {
	*memory.Store
	disk  *disk
	dieAt int
	after bool
	mu    sync.Mutex
	step  int
	dead  bool
	died  string
	got   *[]detector.Alert
	far   detector.Notifier
}

// disk is what outlives processes.
type disk struct {
	states map[string]string
	alerts []store.AlertRow
}

func (p *mortal) do(what string, effect func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errDead
	}
	p.step++
	if p.step != p.dieAt {
		return effect()
	}
	p.dead, p.died = true, what
	if p.after {
		_ = effect()
	}
	return errDead
}

func (p *mortal) Run(ctx context.Context, now time.Time) (rollup.Stats, error) {
	return rollup.Stats{}, p.do("observe", func() error { return nil })
}

func (p *mortal) SaveAlerts(_ context.Context, alerts []store.AlertRow) error {
	if len(alerts) == 0 {
		return nil
	}
	return p.do("save alerts", func() error { p.disk.alerts = append(p.disk.alerts, alerts...); return nil })
}

func (p *mortal) SaveState(_ context.Context, key, state string, _ uint64) error {
	return p.do("save state", func() error { p.disk.states[key] = state; return nil })
}

func (p *mortal) LoadState(_ context.Context, key string) (string, bool, error) {
	v, ok := p.disk.states[key]
	return v, ok, nil
}

func (p *mortal) Name() string { return "receiver" }

func (p *mortal) Notify(ctx context.Context, alerts []detector.Alert) error {
	return p.do("notify", func() error {
		for _, a := range alerts {
			if !a.Resend {
				*p.got = append(*p.got, a)
			}
		}
		return p.far.Notify(ctx, alerts)
	})
}

// labelled gives the alerts of each run a label of its own, so that one Alertmanager can
// show all runs.
type labelled struct {
	detector.Notifier
	run string
}

func (l labelled) Notify(ctx context.Context, alerts []detector.Alert) error {
	out := make([]detector.Alert, len(alerts))
	for i, a := range alerts {
		a.Labels = maps.Clone(a.Labels)
		a.Labels["run"] = l.run
		out[i] = a
	}
	return l.Notifier.Notify(ctx, out)
}

// story is one alert from before it begins to after it ends, on a real Alertmanager.
type story struct {
	begin, length int
	start         time.Time
	rows          *memory.Store
	am            *alertmanagertest.Alertmanager
	far           detector.Notifier
}

func newStory(t *testing.T) *story {
	s := &story{begin: 100, length: 12}
	// All of it has ended just before now, so that Alertmanager, which goes by its own clock,
	// sees the end as an end; until then alerts end half an hour ahead.
	s.start = time.Now().UTC().Truncate(time.Minute).Add(-time.Duration(s.begin+s.length+14) * time.Minute)
	s.rows = drifting(s.start, s.begin, s.length)
	s.am = alertmanagertest.Start(t)
	far, err := notify.NewAlertmanager(s.am.URL, notify.Access{})
	require.NoError(t, err)
	s.far = far
	return s
}

// shown counts the alerts of a run that Alertmanager shows.
func (s *story) shown(t *testing.T, run string) (n int) {
	got, err := s.am.Alerts(context.Background())
	require.NoError(t, err)
	for _, a := range got {
		if a.Labels["run"] == run {
			n++
		}
	}
	return n
}

// tell plays the story by minutes. Where the process dies, or restart says so, another
// takes its place in the next minute; away leaves minutes out. It returns what the receiver
// got that was no repeat, and at which step the process died.
func (s *story) tell(t *testing.T, run string, dieAt int, after bool, away func(m int) bool) (got []detector.Alert, died string) {
	cfg := detector.DefaultConfig()
	cfg.EndsAfter = 40 * time.Minute
	d := &disk{states: map[string]string{}}
	var e *detector.Engine
	var p *mortal
	born := func(dieAt int) {
		p = &mortal{Store: s.rows, disk: d, dieAt: dieAt, after: after, got: &got, far: labelled{s.far, run}}
		var err error
		e, err = detector.New(cfg, p, p, []detector.Notifier{p}, clock.NewManual(s.start))
		require.NoError(t, err)
	}
	born(dieAt)
	for m := s.begin - 1; m < s.begin+s.length+13; m++ {
		if away(m - s.begin) {
			born(0)
			continue
		}
		_, err := e.Evaluate(context.Background(), s.start.Add(time.Duration(m+1)*time.Minute+35*time.Second))
		if p.dead {
			died = p.died
			born(0)
		} else {
			require.NoError(t, err)
		}
		if m == s.begin+s.length-1 {
			require.Equal(t, 1, s.shown(t, run), "while it fires, after a death at %q", died)
		}
	}
	require.Zero(t, s.shown(t, run), "after its end")
	return got, died
}

func never(int) bool { return false }

// A process that is killed at any step of the life of an alert loses none, and repeats at
// most one notification, with the key it had.
func TestKilledAtEveryStep(t *testing.T) {
	s := newStory(t)
	whole, _ := s.tell(t, "whole", 0, false, never)
	require.Len(t, whole, 2)
	require.Equal(t, detector.Firing, whole[0].State)
	require.Equal(t, detector.Resolved, whole[1].State)
	at := map[string]int{}
	duplicates := 0
	for dieAt := 1; ; dieAt++ {
		done := false
		for _, after := range []bool{false, true} {
			got, died := s.tell(t, fmt.Sprint(dieAt, after), dieAt, after, never)
			if died == "" {
				done = true
				break
			}
			at[died]++
			// A death before the first window was judged may skip pending, so keys are compared
			// by state: one alert, sent with one key when it fired and one when it ended.
			keys := map[string]map[string]bool{}
			for _, a := range got {
				if keys[a.State] == nil {
					keys[a.State] = map[string]bool{}
				}
				keys[a.State][a.Key()] = true
			}
			for _, state := range []string{detector.Firing, detector.Resolved} {
				require.Len(t, keys[state], 1, "%s notifications after a death at step %d, %s", state, dieAt, died)
			}
			require.LessOrEqual(t, len(got), 3, "a death at step %d, %s", dieAt, died)
			duplicates += len(got) - 2
		}
		if done {
			break
		}
	}
	t.Logf("deaths by step: %v; %d of them repeated a notification", at, duplicates)
	for _, step := range []string{"observe", "save alerts", "save state", "notify"} {
		require.Positive(t, at[step], step)
	}
	require.Positive(t, duplicates, "a death between sending and noting it must repeat, or it would lose")
}

// C63: the condition holds for 20 minutes and the detector is away in minutes 5 to 9.
func TestC63OneFiringNotification(t *testing.T) {
	s := newStory(t)
	s.length = 20
	s.start = s.start.Add(-8 * time.Minute)
	s.rows = drifting(s.start, s.begin, s.length)
	got, _ := s.tell(t, "c63", 0, false, func(m int) bool { return m >= 5 && m <= 9 })
	require.Len(t, got, 2)
	require.Equal(t, detector.Firing, got[0].State)
	require.Equal(t, detector.Resolved, got[1].State)
	require.True(t, got[1].ResolvedAt.After(s.start.Add(time.Duration(s.begin+s.length)*time.Minute)))
}

// A notification leaves at most eval_delay, hold and two intervals after the end of the
// first window that breaches, whenever in the interval rounds happen to run.
func TestNotificationsLeaveInTime(t *testing.T) {
	const begin = 100
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	rows := drifting(start, begin, 20)
	cfg := detector.DefaultConfig()
	hold := time.Duration(cfg.FireVotes-1) * time.Minute
	var worst time.Duration
	for phase := time.Duration(0); phase < cfg.Interval; phase += 3 * time.Second {
		sink := &collect{name: "sink"}
		e, err := detector.New(cfg, &mortal{Store: rows, disk: &disk{states: map[string]string{}}}, rows, []detector.Notifier{sink}, clock.NewManual(start))
		require.NoError(t, err)
		var first, sent time.Time
		for now := start.Add((begin-2)*time.Minute + phase); sent.IsZero(); now = now.Add(cfg.Interval) {
			require.Less(t, now.Sub(start), (begin+20)*time.Minute, "nothing was sent")
			r, err := e.Evaluate(context.Background(), now)
			require.NoError(t, err)
			for _, v := range r.Verdicts {
				if v.Detection == detector.DeadlineDrift && v.Level == detector.Breach && first.IsZero() {
					first = v.To
				}
			}
			if len(sink.news()) > 0 {
				sent = now
			}
		}
		worst = max(worst, sent.Sub(first))
	}
	t.Logf("at most %s after the window's end", worst)
	require.LessOrEqual(t, worst, cfg.EvalDelay+hold+2*cfg.Interval)
}

// C62: three operations an hour; a store that is away for 40 s is no alert, for 10 minutes
// one.
func TestC62AQuietServiceAndAStoreThatIsAway(t *testing.T) {
	ctx := context.Background()
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	mem := memory.New()
	for i := range 12 {
		o := &rows.Operation{OperationID: "o", RequestID: "r", Target: "m1", Stream: rows.StreamYes, Attempts: ptr(uint32(1)), InferenceTimeNS: ptr(int64(2e9))}
		o.ServiceName, o.TraceID, o.Revision, o.Agent, o.Kind, o.Outcome, o.SampleWeight = "shop", fmt.Sprintf("%032x", i+1), 1, "planner", rows.KindChat, rows.OutcomeOK, 1
		o.EndedAt, o.UserTimeNS = start.Add(time.Duration(20*i+1)*time.Minute).UnixNano(), 2e9
		o.HiddenTotalNS, o.AgentTimeNS = ptr(int64(0)), ptr(int64(2e9))
		mem.AddOperations(o)
	}
	st, sink := &failing{Store: mem}, &collect{name: "sink"}
	e, err := detector.New(detector.DefaultConfig(), st, st, []detector.Notifier{sink}, clock.NewManual(start))
	require.NoError(t, err)
	at := start.Add(2 * time.Hour)
	during := func(d time.Duration, away bool) {
		st.err = nil
		if away {
			st.err = errors.New("connection refused")
		}
		for end := at.Add(d); at.Before(end); at = at.Add(20 * time.Second) {
			_, err := e.Evaluate(ctx, at)
			require.Equal(t, away, err != nil)
		}
	}
	during(10*time.Minute, false)
	during(40*time.Second, true)
	during(10*time.Minute, false)
	require.Empty(t, sink.news())
	during(10*time.Minute, true)
	require.Len(t, sink.news(), 1)
	require.Equal(t, detector.PipelineHealth, sink.news()[0].Detection)
	require.Equal(t, detector.Warning, sink.news()[0].Severity)
	during(10*time.Minute, false)
	require.Len(t, sink.news(), 2, "one alert and its end")
	require.Equal(t, detector.Resolved, sink.news()[1].State)
}

// C68: slow operations arrive at once and fast ones 90 s later. No window is judged before
// all of it is there, and complete ones are quiet.
func TestC68NoWindowIsJudgedBeforeItsDataIsIn(t *testing.T) {
	const late, perMinute = 90 * time.Second, 60
	ctx := context.Background()
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	st, sink := memory.New(), &collect{name: "sink"}
	n := 0
	minute := func(m int, slow bool) {
		for i := range perMinute {
			if (i%10 == 0) != slow {
				continue
			}
			n++
			took := map[bool]int64{true: 20e9, false: 1e9}[slow] + int64(i)*1e6
			end := start.Add(time.Duration(m)*time.Minute + time.Duration(i)*time.Second)
			o := &rows.Operation{OperationID: "o", RequestID: "r", Target: "m1", Stream: rows.StreamYes, Attempts: ptr(uint32(1)), InferenceTimeNS: ptr(took)}
			o.ServiceName, o.TraceID, o.Revision, o.Agent, o.Kind, o.Outcome, o.SampleWeight = "shop", fmt.Sprintf("%032x", n), 1, "planner", rows.KindChat, rows.OutcomeOK, 1
			o.EndedAt, o.UserTimeNS = end.UnixNano(), took
			o.HiddenTotalNS, o.AgentTimeNS = ptr(int64(0)), ptr(took)
			r := &rows.Request{RequestID: "r", Operations: 1, Steps: 1, Attempts: ptr(uint32(1)), Retries: ptr(uint32(0)), ReleaseReason: rows.ReleaseRoot}
			r.ServiceName, r.TraceID, r.Revision, r.Agent, r.Kind, r.Outcome, r.SampleWeight = "shop", o.TraceID, 1, "planner", rows.KindAgent, rows.OutcomeOK, 1
			r.EndedAt, r.UserTimeNS = o.EndedAt, took
			r.HiddenPathNS, r.HiddenTotalNS, r.DriftNS, r.DeadlineMissed = ptr(int64(0)), ptr(int64(0)), ptr(int64(0)), ptr(false)
			st.AddOperations(o)
			st.AddRequests(map[bool]time.Duration{true: 3 * time.Second, false: late}[slow], r)
		}
	}
	const history, live = 100, 30
	for m := range history {
		minute(m, true)
		minute(m, false)
	}
	e, err := detector.New(detector.DefaultConfig(), st, st, []detector.Notifier{sink}, clock.NewManual(start))
	require.NoError(t, err)
	judged := 0
	for now := start.Add(history * time.Minute); now.Before(start.Add((history + live) * time.Minute)); now = now.Add(30 * time.Second) {
		since := now.Sub(start)
		// The minute that has just ended: its slow operations are there at once.
		if m := int(since/time.Minute) - 1; since%time.Minute == 0 && m >= history {
			minute(m, true)
		}
		if m := int((since-late)/time.Minute) - 1; (since-late)%time.Minute == 0 && m >= history {
			minute(m, false)
		}
		r, err := e.Evaluate(ctx, now)
		require.NoError(t, err)
		for _, v := range r.Verdicts {
			require.NotEqual(t, detector.Breach, v.Level, "%s at %s: %s", v.Detection, since, v.Text)
			if v.Detection == detector.P95Surge && v.Slice.Target == "m1" && v.To.Sub(v.From) == 5*time.Minute && v.From.Sub(start) >= (history+1)*time.Minute {
				require.EqualValues(t, 5*perMinute, v.Samples, "the window to %s was judged at %s", v.To.Sub(start), since)
				judged++
			}
		}
	}
	require.Positive(t, judged)
	require.Empty(t, sink.got)
}
