package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/backtest/traffic"
	"driftline/detector/dettest"
	"driftline/detector/replay"
	"driftline/detector/rollup"
	"driftline/detector/store"
	"driftline/internal/clock"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// byMinute keeps copies of a generator's rows by the minute in which they end.
type byMinute struct {
	t *testing.T
	n int
	// later is how much later than the generator has it all of it is, in ns: what is old is not
	// kept for long.
	later int64
	rows  map[int64][]rows.Row
}

func keep[T any, R interface {
	*T
	rows.Row
}](b *byMinute, endedAt int64, r R, id func(R, string)) {
	text, err := json.Marshal(r)
	require.NoError(b.t, err)
	c := R(new(T))
	require.NoError(b.t, json.Unmarshal(text, c))
	f, times := parts(c)
	f.StartedAt, f.EndedAt = f.StartedAt+b.later, f.EndedAt+b.later
	if times.DeadlineAt != nil {
		*times.DeadlineAt += b.later
	}
	b.n++
	id(c, fmt.Sprint("id", b.n))
	b.rows[endedAt/int64(time.Minute)] = append(b.rows[endedAt/int64(time.Minute)], c)
}

func parts(r any) (*rows.Facts, *rows.Times) {
	switch r := r.(type) {
	case *rows.Request:
		return &r.Facts, &r.Times
	case *rows.Operation:
		return &r.Facts, &r.Times
	case *rows.Attempt:
		return &r.Facts, &rows.Times{}
	}
	panic("a row without times")
}

func (b *byMinute) Request(r *rows.Request) {
	keep(b, r.EndedAt, r, func(r *rows.Request, id string) { r.RequestID, r.TraceID = id, fmt.Sprintf("%032x", b.n) })
}

func (b *byMinute) Operation(o *rows.Operation) {
	keep(b, o.EndedAt, o, func(o *rows.Operation, id string) { o.OperationID, o.TraceID = id, fmt.Sprintf("%032x", b.n) })
}

func (b *byMinute) Attempt(a *rows.Attempt) {
	keep(b, a.EndedAt, a, func(a *rows.Attempt, id string) { a.AttemptID, a.TraceID = id, fmt.Sprintf("%032x", b.n) })
}

// A replay of what is stored in the embedded engine gives the verdicts and the alerts of the
// live engine, which judged while the rows came in; so does the command.
func TestReplayEqualsLiveOnTheRealStore(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	a := &traffic.Agent{Service: "shop", Name: "planner", PerMinute: 12, MeanSteps: 4, MaxSteps: 8, Retries: 4, Backoff: 0.8, Budget: 90, Gateway: 110, Version: "1", Reports: true,
		Model: traffic.Model{Name: "m", Stream: true, TTFT: 0.5, TTFTSigma: 0.35, Prefill: 0.1, Input: 3000, Cached: 0.5, Output: 100, OutputSigma: 0.5, PerToken: 0.015, FailP: 0.01, FailSec: 1, Cap: 30},
		Tools: []traffic.Tool{{Name: "search", Kind: rows.KindTool, Median: 0.8, Sigma: 0.7, Weight: 1, FailP: 0.02, FailSec: 1, Cap: 12}}}
	const first, last = 72, 78
	a.Shape = func(t float64, c *traffic.Conditions) {
		if t > first*60 {
			c.Model.Scale = 6
		}
	}
	start := time.Now().UTC().Truncate(time.Minute).Add(-2 * time.Hour)
	got := &byMinute{t: t, later: start.Sub(time.Unix(traffic.Start, 0)).Nanoseconds(), rows: map[int64][]rows.Row{}}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := traffic.New(seed, []*traffic.Agent{a}, got)
	for m := range last + 1 {
		g.Minute(m)
	}
	var before []rows.Row
	for m := range int64(first) {
		before = append(before, got.rows[traffic.Start/60+m]...)
	}
	require.NoError(t, dettest.Insert(ctx, conn, db, start.Add(first*time.Minute), before...))

	job, err := rollup.New(conn, rollup.Config{Database: db})
	require.NoError(t, err)
	st, err := store.New(conn, db)
	require.NoError(t, err)
	cfg := detector.DefaultConfig()
	cfg.Interval = time.Minute
	live, err := detector.New(cfg, st, job, nil, clock.NewManual(start))
	require.NoError(t, err)
	type transition struct {
		Key, State string
		At         time.Time
	}
	type judged struct {
		At       time.Time
		Verdicts string
	}
	told := func(a detector.Alert) []transition {
		if a.State == detector.Pending || a.FiredAt.IsZero() {
			return nil
		}
		return []transition{{a.Key(), a.State, a.At.UTC()}}
	}
	verdicts := func(now time.Time, r detector.Round) judged {
		text, err := json.Marshal(r.Verdicts)
		require.NoError(t, err)
		return judged{now.UTC(), string(text)}
	}
	var liveAlerts, replayedAlerts, printedAlerts []transition
	var liveVerdicts, replayedVerdicts []judged
	round := func(m int) time.Time { return start.Add(time.Duration(m+1)*time.Minute + 35*time.Second) }
	for m := first; m < last; m++ {
		require.NoError(t, dettest.Insert(ctx, conn, db, start.Add(time.Duration(m+1)*time.Minute+3*time.Second), got.rows[traffic.Start/60+int64(m)]...))
		r, err := live.Evaluate(ctx, round(m))
		require.NoError(t, err)
		for _, a := range r.Changes {
			liveAlerts = append(liveAlerts, told(a)...)
		}
		liveVerdicts = append(liveVerdicts, verdicts(round(m), r))
	}
	require.NotEmpty(t, liveAlerts)
	stored, err := st.AlertTransitions(ctx, start, start.Add(24*time.Hour), 1000)
	require.NoError(t, err)

	o := replay.Options{Config: cfg, From: round(first), To: round(last - 1),
		Transition: func(a detector.Alert) { replayedAlerts = append(replayedAlerts, told(a)...) },
		Round:      func(now time.Time, r detector.Round) { replayedVerdicts = append(replayedVerdicts, verdicts(now, r)) }}
	_, err = replay.Run(ctx, o, st)
	require.NoError(t, err)
	require.Equal(t, liveAlerts, replayedAlerts)
	require.Len(t, replayedVerdicts, len(liveVerdicts))
	for i, v := range liveVerdicts {
		require.Equal(t, v, replayedVerdicts[i])
	}

	config := filepath.Join(t.TempDir(), "detectd.yaml")
	require.NoError(t, os.WriteFile(config, []byte("interval: 1m\n"), 0o600))
	out, errs, err := run(t, "", "replay", "--clickhouse", enginetest.Shared(t).DSNFor(db), "--config", config, "--output", "json", "--speed", "1000000",
		"--from", o.From.Format(time.RFC3339), "--to", o.To.Format(time.RFC3339))
	require.NoError(t, err, errs)
	for line := range strings.Lines(out) {
		var a detector.Alert
		require.NoError(t, json.Unmarshal([]byte(line), &a), line)
		printedAlerts = append(printedAlerts, told(a)...)
	}
	require.Equal(t, liveAlerts, printedAlerts)
	require.Contains(t, errs, fmt.Sprintf("%d rounds from %s", last-first, o.From.Format(time.RFC3339)))
	after, err := st.AlertTransitions(ctx, start, start.Add(24*time.Hour), 1000)
	require.NoError(t, err)
	require.Equal(t, stored, after, "nothing is stored")
}
