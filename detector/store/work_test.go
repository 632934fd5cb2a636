package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/dettest"
	"driftline/detector/store"
	"driftline/internal/rows"
)

// call makes an operation of a trace that began so many seconds after its request and took
// so many.
func call(at time.Time, trace, id, agent, kind, target string, began, took float64) *rows.Operation {
	o := &rows.Operation{OperationID: id, RequestID: "r", Target: target, Stream: rows.StreamNo}
	o.ServiceName, o.TraceID, o.Revision, o.Agent, o.Kind, o.Outcome, o.SampleWeight = "shop", trace, 1, agent, kind, rows.OutcomeOK, 1
	o.StartedAt = at.Add(time.Duration(began * 1e9)).UnixNano()
	o.EndedAt, o.UserTimeNS = o.StartedAt+int64(took*1e9), int64(took*1e9)
	return o
}

func due(o *rows.Operation, at time.Time, missed bool, cause string) *rows.Operation {
	o.DeadlineAt, o.DeadlineMissed, o.MissCause = ptr(at.UnixNano()), &missed, cause
	if missed {
		o.Outcome, o.ErrorClass = rows.OutcomeError, rows.ClassTimeout
	}
	return o
}

func TestWork(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	s, err := store.New(conn, db)
	require.NoError(t, err)
	at := time.Now().UTC().Truncate(10 * time.Minute).Add(-20 * time.Minute)
	var all []rows.Row
	for i := range 4 {
		trace := fmt.Sprintf("t%d", i)
		// 30 s of timeout, of which 10, 14, 18 and 22 s are used by the last try.
		o := call(at, trace, "slow", "planner", rows.KindTool, "search", 0, 13+4*float64(i))
		o.TimeoutNS, o.FailedAttemptNS, o.BackoffNS, o.QueueNS = ptr(int64(30e9)), 2e9, 1e9, 5e8
		// Not enforced: 5 s of timeout, 20 s and OK; the last is over by too little.
		c := call(at, trace, "chat", "planner", rows.KindChat, "m1", 0, 20)
		c.TimeoutNS = ptr(int64(5e9))
		if i == 3 {
			c.UserTimeNS = 7e9
		}
		all = append(all, o, c)
	}
	// The deadline is at 15 s. The first agent took 14; the second began with 1 s left and a
	// cap of 12, and failed.
	first := due(call(at, "chain", "a", "planner", rows.KindAgent, "first", 0, 14), at.Add(15*time.Second), false, "")
	second := due(call(at, "chain", "b", "planner", rows.KindAgent, "second", 14, 1), at.Add(15*time.Second), true, rows.MissInherited)
	second.TimeoutNS, second.Attempts = ptr(int64(12e9)), ptr(uint32(1))
	r := &rows.Request{RequestID: "r", Steps: 2, ToolErrors: 1, ReleaseReason: rows.ReleaseRoot}
	r.ServiceName, r.TraceID, r.Revision, r.Agent, r.Kind, r.Outcome, r.SampleWeight = "shop", "chain", 1, "planner", rows.KindAgent, rows.OutcomeError, 1
	r.StartedAt, r.EndedAt, r.UserTimeNS = at.UnixNano(), at.Add(15*time.Second).UnixNano(), 15e9
	r.BudgetNS, r.DeadlineAt, r.DeadlineMissed, r.MissCause = ptr(int64(15e9)), ptr(at.Add(15*time.Second).UnixNano()), ptr(true), rows.MissOwn
	lost := &rows.Request{RequestID: "l", ReleaseReason: rows.ReleaseTimeout}
	lost.Common, lost.Facts = r.Common, r.Facts
	lost.TraceID, lost.Outcome, lost.UserTimeNS, lost.DeadlineAt = "lost", rows.OutcomeOpen, 1e9, ptr(at.Add(60*time.Second).UnixNano())
	all = append(all, first, second, r, lost)
	for _, o := range []struct {
		trace     string
		seen, age time.Duration
		spoke     time.Duration
		due       time.Duration
	}{{"old", 110 * time.Second, 100 * time.Second, 50 * time.Second, 60 * time.Second}, {"young", 115 * time.Second, 5 * time.Second, 114 * time.Second, 0}, {"gone", 80 * time.Second, 70 * time.Second, 79 * time.Second, 0}} {
		q := &rows.OpenRequest{Agent: "planner", ObservedAt: at.Add(o.seen).UnixNano(), StartedAt: at.Add(o.seen - o.age).UnixNano(), LastSpanAt: at.Add(o.spoke).UnixNano(), AgeNS: int64(o.age), Spans: 5}
		q.ServiceName, q.TraceID, q.Revision = "shop", o.trace, 1
		if o.due > 0 {
			q.DeadlineAt = ptr(at.Add(o.seen - o.age + o.due).UnixNano())
		}
		all = append(all, q)
	}
	require.NoError(t, dettest.Insert(ctx, conn, db, at, all...))

	ops, err := s.OperationWork(ctx, at, at.Add(2*time.Minute), time.Minute)
	require.NoError(t, err)
	by := map[string]store.Work{}
	for _, w := range ops {
		require.Equal(t, at, w.At)
		by[w.Target] = w
	}
	search := by["search"]
	require.Equal(t, []uint64{4, 4, 4, 2, 4, 0}, []uint64{search.N, search.OK, search.Limited, search.Past, search.Declared, search.Overran})
	require.Equal(t, []int64{30e9, 30e9, 64e9, 70e9, 2e9}, []int64{search.LimitNS, search.DeclaredNS, search.OKNS, search.BusyNS, search.QueueNS})
	require.InDelta(t, 11.5*11.5+15.5*15.5+19.5*19.5+23.5*23.5, search.BusySquared, 1e-6)
	chat := by["m1"]
	require.Equal(t, []uint64{4, 3}, []uint64{chat.Declared, chat.Overran})
	require.EqualValues(t, 60e9, chat.OverranNS)
	require.Equal(t, []uint64{1, 1, 1, 0, 1}, []uint64{by["second"].Inherited, by["second"].Capped, by["second"].Uncovered, by["second"].Own, by["second"].Left.N})
	left, err := by["second"].Left.Hist.Quantile(0.5)
	require.NoError(t, err)
	require.InEpsilon(t, 1000, left, 0.02)
	require.Equal(t, []uint64{0, 1, 1}, []uint64{by["first"].Uncovered, by["first"].Limited, by["first"].Past})
	blocks, err := s.OperationWork(ctx, at, at.Add(10*time.Minute), 10*time.Minute)
	require.NoError(t, err)
	require.Len(t, blocks, len(ops))

	reqs, err := s.RequestWork(ctx, at, at.Add(time.Minute), time.Minute)
	require.NoError(t, err)
	require.Len(t, reqs, 1)
	require.Equal(t, []uint64{2, 2, 2, 1, 1, 1, 0}, []uint64{reqs[0].N, reqs[0].Limited, reqs[0].Past, reqs[0].Lost, reqs[0].Known, reqs[0].Own, reqs[0].Declared})

	open, err := s.OpenRequests(ctx, at.Add(2*time.Minute))
	require.NoError(t, err)
	require.Equal(t, []store.OpenRequest{
		{Service: "shop", Agent: "planner", TraceID: "old", Age: 110 * time.Second, Silence: 70 * time.Second, Lived: 40 * time.Second, Spans: 5, Budget: 60 * time.Second, Open: 2},
		{Service: "shop", Agent: "planner", TraceID: "young", Age: 10 * time.Second, Silence: 6 * time.Second, Lived: 4 * time.Second, Spans: 5, Open: 2},
	}, open, "the one without a later snapshot has ended")

	at10 := map[string]uint64{}
	for _, w := range blocks {
		at10[w.Target] = w.Most
	}
	require.Equal(t, map[string]uint64{"search": 4, "m1": 4, "first": 1, "second": 1}, at10)
	require.Zero(t, chat.Most, "not known of a minute")

	// S3: who spent it.
	victim := store.Slice{Service: "shop", Agent: "planner", Kind: rows.KindAgent, Target: "second", Stream: rows.StreamNo}
	sp, err := s.Spenders(ctx, store.Slice{Service: "shop", Agent: "planner"}, victim, at, at.Add(time.Minute))
	require.NoError(t, err)
	require.Len(t, sp, 2)
	require.Equal(t, []any{"first", uint64(1), uint64(1), int64(14e9), uint64(1), int64(14e9), int64(15e9)}, []any{sp[0].Target, sp[0].Requests, sp[0].Of, sp[0].TookNS, sp[0].Before, sp[0].BeforeNS, sp[0].BudgetNS})
	require.InDelta(t, 14./15, sp[0].LongestShare, 1e-9)
	require.Equal(t, []uint64{1, 0}, []uint64{sp[0].Alone, sp[1].Alone})
	require.Equal(t, []any{"second", uint64(0), uint64(1), uint32(1)}, []any{sp[1].Target, sp[1].Before, sp[1].Uncovered, sp[1].LongestAttempts})
	none, err := s.Spenders(ctx, store.Slice{Service: "shop", Agent: "other"}, store.Slice{}, at, at.Add(time.Minute))
	require.NoError(t, err)
	require.Empty(t, none)

	table, err := s.MissTable(ctx, store.Slice{Service: "shop", Agent: "planner", Kind: rows.KindAgent}, at, at.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, []store.Misses{{Steps: "1-3", Tokens: "unknown", ToolErrors: true, Known: 1, Missed: 1}}, table)
}
