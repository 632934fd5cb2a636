package assemble

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/internal/rows"
)

func at(d time.Duration) time.Time { return start.Add(d) }

func TestC41_ChildAfterItsRootIsIncludedSoon(t *testing.T) {
	b := newToy(testSettings())
	require.Empty(t, b.Add(span(1, 1, "root", 0, 3*time.Second), 0, 100, at(3100*time.Millisecond)))
	require.Empty(t, b.Add(span(1, 2, "chat", 0, time.Second), 1, 100, at(4*time.Second)))
	require.Empty(t, b.Tick(at(5*time.Second)))
	got := b.Tick(at(5100 * time.Millisecond))
	require.Len(t, got, 1)
	require.Equal(t, rows.ReleaseRoot, got[0].Reason)
	require.True(t, got[0].GenAI)
	require.Len(t, got[0].Spans, 2)
	require.Empty(t, got[0].Loose)
	require.Len(t, got[0].Spans[0].Rows, 2, "request and segment ride on the root")
	require.Len(t, got[0].Spans[1].Rows, 2, "operation and attempt ride on the call")
	require.Equal(t, "0000000000000002", got[0].Spans[1].Marks.OperationID)
	require.EqualValues(t, 1, got[0].Spans[1].Marks.AttemptOrdinal)
}

func TestCheckpointSendsFinishedWorkAndSnapshots(t *testing.T) {
	b := newToy(testSettings())
	b.Add(span(1, 2, "chat", 0, time.Second), 1, 100, at(time.Second))
	require.Empty(t, b.Tick(at(10*time.Second)))
	first := b.Tick(at(11 * time.Second))
	require.Len(t, first, 1)
	require.Equal(t, ReleaseCheckpoint, first[0].Reason)
	require.Len(t, first[0].Spans[0].Rows, 3, "operation, attempt, snapshot")

	second := b.Tick(at(21 * time.Second))
	require.Len(t, second, 1)
	require.Empty(t, second[0].Spans)
	require.Len(t, second[0].Loose, 1, "only the snapshot is new, and no span carries it")
	require.Equal(t, rows.TableOpenRequests, second[0].Loose[0].Table())
	require.EqualValues(t, 2, second[0].Loose[0].Head().Revision)
}

func TestWithoutCheckpointSpansNothingIsLoose(t *testing.T) {
	set := testSettings()
	set.CheckpointSpans = false
	b := newToy(set)
	b.Add(span(1, 2, "chat", 0, time.Second), 1, 100, at(time.Second))
	require.Len(t, b.Tick(at(11*time.Second)), 1)
	for d := 12 * time.Second; d < 20*time.Minute; d += time.Second {
		for _, r := range b.Tick(at(d)) {
			require.Empty(t, r.Loose)
		}
	}
	require.Zero(t, b.Stats().Traces)
}

func TestPlainTracesPassUntouched(t *testing.T) {
	b := newToy(testSettings())
	b.Add(span(1, 2, "plain", 0, time.Second), 7, 100, at(time.Second))
	got := b.Tick(at(11 * time.Second))
	require.Len(t, got, 1)
	require.False(t, got[0].GenAI)
	require.Equal(t, []int{7}, payloads(got[0].Spans))
	require.Empty(t, b.Tick(at(21*time.Second)), "nothing to say of a plain trace")
}

func TestLateSpanRevisesAndTombstones(t *testing.T) {
	b := newToy(testSettings())
	store := table{}
	b.Add(span(1, 1, "root", 0, 3*time.Second), 0, 100, at(3*time.Second))
	b.Add(span(1, 3, "chat", 2*time.Second, 3*time.Second), 1, 100, at(3*time.Second))
	store.take(b.Tick(at(5 * time.Second)))
	require.Equal(t, 1, store.count(rows.TableOperations))

	// An earlier try arrives late: the operation takes its id and ends a minute later.
	b.Add(span(1, 2, "chat", time.Second, 61*time.Second), 2, 100, at(70*time.Second))
	require.Empty(t, b.Tick(at(71*time.Second)))
	late := b.Tick(at(72 * time.Second))
	require.Len(t, late, 1)
	require.Equal(t, rows.ReleaseLate, late[0].Reason)
	require.Len(t, late[0].Spans, 1, "what was sent is not sent again")
	var deleted int
	for _, row := range late[0].Spans[0].Rows {
		require.EqualValues(t, 2, row.Head().Revision)
		require.NotEqual(t, rows.TableRequests, row.Table(), "the request did not change")
		if row.Head().Deleted {
			deleted++
			require.Equal(t, "0000000000000003", row.Key().ID)
		}
	}
	require.Equal(t, 1, deleted)
	store.take(late)
	require.Equal(t, 1, store.count(rows.TableOperations))
	require.Equal(t, 2, store.count(rows.TableAttempts))
	require.EqualValues(t, 1, b.Stats().Late)
}

func TestDuplicatesAreSentAndChangeNothing(t *testing.T) {
	b := newToy(testSettings())
	store := table{}
	for round := range 2 {
		now := at(time.Duration(5*round) * time.Second)
		b.Add(span(1, 1, "root", 0, 3*time.Second), 0, 100, now)
		for id := 2; id <= 4; id++ {
			b.Add(span(1, id, "chat", time.Duration(id)*time.Second, time.Duration(id+1)*time.Second), id, 100, now)
		}
		got := b.Tick(now.Add(2 * time.Second))
		require.Len(t, got[0].Spans, 4)
		if round == 1 {
			require.Zero(t, got[0].RowCount())
		}
		store.take(got)
	}
	require.Equal(t, 3, store.count(rows.TableAttempts))
	require.EqualValues(t, 4, b.Stats().Duplicates)
	require.EqualValues(t, 0, b.Stats().Held)
}

func TestForgottenTracesLeaveFragments(t *testing.T) {
	b := newToy(testSettings())
	store := table{}
	b.Add(span(1, 1, "root", 0, 3*time.Second), 0, 100, at(0))
	b.Add(span(1, 2, "chat", 0, 2*time.Second), 0, 100, at(0))
	store.take(b.Tick(at(2 * time.Second)))
	require.Empty(t, b.Tick(at(6*time.Minute)))
	require.Zero(t, b.Stats().Traces)

	b.Add(span(1, 2, "chat", 0, 2*time.Second), 0, 100, at(7*time.Minute))
	got := b.Tick(at(7*time.Minute + 2*time.Second))
	require.Len(t, got, 1)
	for _, row := range got[0].Spans[0].Rows {
		require.Zero(t, row.Head().Revision)
	}
	store.take(got)
	for _, row := range store {
		if op, ok := row.(*rows.Operation); ok {
			require.False(t, op.LateFragment, "a fragment never replaces a whole row")
		}
	}
	require.EqualValues(t, 1, b.Stats().LateFragments)
	require.Empty(t, b.Tick(at(20*time.Minute)))
	b.Add(span(1, 3, "chat", 0, 2*time.Second), 0, 100, at(21*time.Minute))
	require.EqualValues(t, 2, b.Stats().LateFragments, "a fragment stays known as forgotten")
}

func TestHugeTracesAreCutButKeepTheirRoot(t *testing.T) {
	set := testSettings()
	set.MaxSpansPerTrace = 100
	b := newToy(set)
	for id := 2; id < 202; id++ {
		b.Add(span(1, id, "tool", time.Duration(id)*time.Millisecond, time.Duration(id+10)*time.Millisecond), id, 100, at(0))
	}
	b.Add(span(1, 1, "root", 0, time.Second), 1, 100, at(time.Second))
	got := b.Tick(at(3 * time.Second))
	require.Len(t, got, 1)
	require.Len(t, got[0].Spans, 201, "spans over the limit pass all the same")
	store := table{}.take(got)
	require.Equal(t, 1, store.count(rows.TableRequests))
	require.Equal(t, 100, store.count(rows.TableAttempts))
	for _, row := range store {
		if q, ok := row.(*rows.Request); ok {
			require.True(t, q.Truncated)
		}
	}
	require.EqualValues(t, 100, b.Stats().Truncated)
	require.EqualValues(t, 101, b.Stats().Spans)
}

func TestEachBoundReleasesOpenTracesWithTheirRows(t *testing.T) {
	for _, c := range []struct {
		bound Bound
		limit func(*Settings)
	}{
		{BoundTraces, func(s *Settings) { s.MaxTraces = 3 }},
		{BoundSpans, func(s *Settings) { s.MaxSpans = 3 }},
		{BoundBytes, func(s *Settings) { s.MaxBytes = 2000 }},
	} {
		t.Run(string(c.bound), func(t *testing.T) {
			set := testSettings()
			c.limit(&set)
			b := newToy(set)
			var got []Release[load]
			for trace := 1; len(got) == 0; trace++ {
				require.Less(t, trace, 10, "the bound must hold")
				got = b.Add(span(trace, 2, "chat", 0, time.Second), trace, 100, at(time.Second))
			}
			require.Equal(t, 1, got[0].Spans[0].Payload.n, "of equally heavy ones the oldest")
			require.Equal(t, rows.ReleaseEvicted, got[0].Reason)
			store := table{}.take(got)
			require.Equal(t, 1, store.count(rows.TableOperations))
			for _, row := range store {
				if o, ok := row.(*rows.Operation); ok {
					require.True(t, o.Incomplete)
				}
			}
			require.EqualValues(t, 1, b.Stats().EvictedOpen[c.bound])
		})
	}
}

func TestTheHeaviestTraceGivesWay(t *testing.T) {
	for _, c := range []struct {
		bound Bound
		limit func(*Settings)
	}{
		{BoundSpans, func(s *Settings) { s.MaxSpans = 60 }},
		{BoundBytes, func(s *Settings) { s.MaxBytes = 30_000 }},
	} {
		t.Run(string(c.bound), func(t *testing.T) {
			set := testSettings()
			c.limit(&set)
			b := newToy(set)
			for trace := 1; trace <= 20; trace++ {
				require.Empty(t, b.Add(span(trace, 2, "chat", 0, time.Second), trace, 100, at(0)))
			}
			var got []Release[load]
			for id := 3; len(got) == 0; id++ {
				require.Less(t, id, 200, "the bound must hold")
				got = b.Add(span(7, id, "chat", 0, time.Second), 7, 100, at(0))
			}
			require.Len(t, got, 1)
			require.Equal(t, "00000000000000000000000000000007", got[0].TraceID)
			require.EqualValues(t, 1, b.Stats().EvictedOpen[c.bound])
			require.EqualValues(t, 19, b.Stats().Open, "all others stay open")
		})
	}
}

// With the processor's own times a trace is silent for longer than it is remembered before
// it times out. It is remembered from then on, each late span prolongs that, and its end is
// kept in sight.
func TestATimedOutTraceIsRememberedFromItsRelease(t *testing.T) {
	b := newToy(testSettings())
	store := table{}
	now := start
	until := func(d time.Duration) {
		for now.Before(at(d)) {
			now = now.Add(500 * time.Millisecond)
			store.take(b.Tick(now))
		}
	}
	b.Add(span(1, 3, "chat", 2*time.Second, 3*time.Second), 0, 100, now)
	until(10 * time.Minute)
	require.EqualValues(t, 1, b.Stats().Releases[rows.ReleaseTimeout])
	require.EqualValues(t, 1, b.Stats().Remembered)

	until(14*time.Minute + 50*time.Second)
	b.Add(span(1, 2, "chat", 0, time.Second), 1, 100, now) // an earlier try
	until(14*time.Minute + 53*time.Second)
	s := b.Stats()
	require.EqualValues(t, 1, s.Late)
	require.Zero(t, s.LateFragments)
	require.Equal(t, 1, store.count(rows.TableOperations), "the late try joins the call, which moves to its id")
	require.Equal(t, 2, store.count(rows.TableAttempts))

	until(19*time.Minute + 40*time.Second)
	require.EqualValues(t, 1, b.Stats().Traces, "the late span prolonged it")
	until(20 * time.Minute)
	require.Zero(t, b.Stats().Traces)
	b.Add(span(1, 4, "chat", 5*time.Second, 6*time.Second), 2, 100, now)
	require.EqualValues(t, 1, b.Stats().LateFragments)
}

// Traces that time out together do not stay beyond what may be remembered.
func TestTimedOutTracesAreBounded(t *testing.T) {
	set := testSettings()
	set.MaxRemembered = 20
	b := newToy(set)
	for i := range 100 {
		b.Add(span(i+1, 2, "chat", 0, time.Second), i, 100, start)
	}
	b.Tick(at(10 * time.Minute))
	s := b.Stats()
	require.EqualValues(t, 100, s.Releases[rows.ReleaseTimeout])
	require.EqualValues(t, 20, s.Remembered)
	require.EqualValues(t, 80, s.EvictedRemembered[BoundRemembered])
	b.Tick(at(15 * time.Minute))
	require.Zero(t, b.Stats().Traces)
	require.Zero(t, b.Stats().Bytes)
}

// An evicted trace is still remembered while there is room: what comes later revises it.
func TestEvictedTraceIsRevised(t *testing.T) {
	set := testSettings()
	set.MaxTraces = 1
	b := newToy(set)
	store := table{}
	b.Add(span(1, 2, "chat", 0, time.Second), 0, 100, at(0))
	store.take(b.Add(span(2, 2, "chat", 0, time.Second), 0, 100, at(0)))
	require.EqualValues(t, 1, b.Stats().EvictedOpen[BoundTraces])
	b.Add(span(1, 3, "chat", time.Second, 2*time.Second), 0, 100, at(time.Second))
	b.Add(span(1, 1, "root", 0, 3*time.Second), 0, 100, at(time.Second))
	late := b.Tick(at(3 * time.Second))
	require.Len(t, late, 1)
	require.Equal(t, rows.ReleaseLate, late[0].Reason)
	store.take(late)
	require.Equal(t, 1, store.count(rows.TableOperations))
	require.Equal(t, 2, store.count(rows.TableAttempts))
	require.Equal(t, 1, store.count(rows.TableRequests))
	for _, row := range store {
		if o, ok := row.(*rows.Operation); ok {
			require.False(t, o.Incomplete, "the root came")
			require.EqualValues(t, 2, o.Revision)
		}
	}
}

func TestRememberedTracesGiveWayFirst(t *testing.T) {
	set := testSettings()
	set.MaxRemembered, set.MaxSpans = 2, 4
	b := newToy(set)
	for trace := 1; trace <= 3; trace++ {
		b.Add(span(trace, 1, "root", 0, time.Second), 0, 100, at(0))
		require.Len(t, b.Tick(at(2*time.Second)), 1)
	}
	require.EqualValues(t, 1, b.Stats().EvictedRemembered[BoundRemembered], "the oldest memory is given up")
	for trace := 4; trace <= 6; trace++ {
		require.Empty(t, b.Add(span(trace, 2, "chat", 0, time.Second), 0, 100, at(3*time.Second)), "only memory of released traces is given up")
	}
	require.EqualValues(t, 1, b.Stats().EvictedRemembered[BoundSpans])
	require.EqualValues(t, 3, b.Stats().Open)
	require.Empty(t, b.Stats().EvictedOpen)
}

// Traces without GenAI spans, which are most of a shop's, do not push out the others.
func TestPlainTracesHaveTheirShareOfMemory(t *testing.T) {
	set := testSettings()
	set.MaxRemembered = 8
	b := newToy(set)
	now := at(0)
	for trace := 1; trace <= 6; trace++ {
		b.Add(span(trace, 1, "root", 0, time.Second), 0, 100, now)
	}
	for trace := 100; trace < 200; trace++ {
		b.Add(span(trace, 1, "plain root", 0, time.Second), 0, 100, now)
	}
	b.Tick(at(2 * time.Second))
	s := b.Stats()
	require.EqualValues(t, 8, s.Remembered)
	require.Equal(t, 6, b.remembered.len)
	require.Equal(t, 2, b.plain.len)
	require.EqualValues(t, 98, s.EvictedRemembered[BoundRemembered])
}

// An HTTP try that ends long before its model call is sent with it, not before.
func TestCallsWaitForTheirGenAISpan(t *testing.T) {
	b := newToy(testSettings())
	b.Add(span(1, 3, "plain POST", 0, time.Second), 1, 100, at(time.Second))
	b.Add(span(1, 4, "plain step", 0, time.Second), 2, 100, at(time.Second))
	first := b.Tick(at(11 * time.Second))
	require.Len(t, first, 1)
	require.Equal(t, []int{2}, payloads(first[0].Spans), "only the call waits")
	require.Empty(t, b.Tick(at(20*time.Second)))
	b.Add(span(1, 2, "chat", 0, 24*time.Second), 3, 100, at(25*time.Second))
	second := b.Tick(at(31 * time.Second))
	require.Len(t, second, 1)
	require.True(t, second[0].GenAI)
	require.Equal(t, []int{1, 3}, payloads(second[0].Spans))

	// Without one it is sent soon after the wait.
	b.Add(span(2, 3, "plain POST", 0, time.Second), 9, 100, at(31*time.Second))
	var sent time.Duration
	for d := 32 * time.Second; sent == 0; d += time.Second {
		for _, r := range b.Tick(at(d)) {
			if !r.GenAI && len(r.Spans) > 0 {
				sent = d
			}
		}
	}
	require.Equal(t, 61*time.Second, sent)
	require.EqualValues(t, 4, b.Stats().Sent)
	require.Zero(t, b.Stats().Held)
}

// A GenAI span that comes after its trace's plain root was released still finds it.
func TestGenAISpanAfterAPlainRoot(t *testing.T) {
	b := newToy(testSettings())
	store := table{}
	b.Add(span(1, 1, "plain root", 0, 3*time.Second), 0, 100, at(0))
	store.take(b.Tick(at(2 * time.Second)))
	require.Empty(t, store)
	b.Add(span(1, 2, "chat", 0, time.Second), 0, 100, at(5*time.Second))
	store.take(b.Tick(at(7 * time.Second)))
	require.Equal(t, 1, store.count(rows.TableRequests))
	require.Equal(t, 1, store.count(rows.TableOperations))
	require.Equal(t, 1, b.remembered.len)
	require.Zero(t, b.plain.len)
}

// C42: a flood of traces that never get a root.
func TestC42_FloodOfRootlessTraces(t *testing.T) {
	set := testSettings()
	set.MaxTraces, set.MaxForgotten = 20_000, 100_000
	set.CheckpointInterval = time.Hour // so that each trace is evicted with its span unsent
	b := newToy(set)
	sent, incomplete := 0, 0
	var peak int64
	take := func(releases []Release[load]) {
		for i := range releases {
			sent += len(releases[i].Spans)
			if releases[i].Reason != rows.ReleaseEvicted {
				continue
			}
			for _, row := range releases[i].Spans {
				for _, r := range row.Rows {
					if o, ok := r.(*rows.Operation); ok && o.Incomplete {
						incomplete++
					}
				}
			}
		}
	}
	for i := range 100_000 {
		now := at(time.Duration(i) * 600 * time.Microsecond)
		take(b.Add(span(i+1, 2, "chat", 0, time.Second), i, 300, now))
		if i%1000 == 0 {
			take(b.Tick(now))
			peak = max(peak, b.Stats().Bytes)
		}
	}
	require.EqualValues(t, 80_000, b.Stats().EvictedOpen[BoundTraces])
	require.Equal(t, 80_000, incomplete)
	require.Equal(t, 80_000, sent)
	require.EqualValues(t, 20_000, b.Stats().Held)
	require.Less(t, peak, int64(40<<20))
}

func TestForgottenIsBounded(t *testing.T) {
	f := newForgotten(3)
	for _, id := range []byte("abbcd") {
		f.add([16]byte{id})
	}
	require.False(t, f.has([16]byte{'a'}))
	for _, id := range []byte("bcd") {
		require.True(t, f.has([16]byte{id}))
	}
	require.Len(t, f.ids, 3)
}

// C46: names without end.
func TestC46_LabelValuesAreBounded(t *testing.T) {
	set := testSettings()
	set.MaxLabelValues, set.MaxSpansPerTrace = 100, 100_000
	b := newToy(set)
	distinct := map[string]bool{}
	for i := range 50_000 {
		s := span(i+1, 2, "chat "+time.Duration(i).String(), 0, time.Second)
		for _, r := range b.Add(s, i, 100, at(0)) {
			for _, sent := range r.Spans {
				for _, row := range sent.Rows {
					if o, ok := row.(*rows.Operation); ok {
						distinct[o.Target] = true
					}
				}
			}
		}
	}
	require.Len(t, distinct, 101)
	require.True(t, distinct[Other])
	require.NotZero(t, b.Stats().OverflowLabels)
}

func TestIdleLabelsGiveWay(t *testing.T) {
	l := newLabels(2)
	for _, v := range []string{"a", "b"} {
		l.bound("target", &v, at(0))
	}
	c := "c"
	l.bound("target", &c, at(time.Minute))
	require.Equal(t, Other, c)
	a := "a"
	l.bound("target", &a, at(40*time.Minute))
	c = "c"
	l.bound("target", &c, at(61*time.Minute))
	require.Equal(t, "c", c, "b was idle for an hour")
	require.EqualValues(t, 1, l.overflow)
}

func TestAttributesAreBoundedOnACopy(t *testing.T) {
	l := newLabels(1)
	shared := map[string]string{"tenant": "b"}
	l.apply(&rows.Operation{Facts: rows.Facts{Attributes: map[string]string{"tenant": "a"}}}, at(0))
	op := &rows.Operation{Facts: rows.Facts{Attributes: shared}}
	l.apply(op, at(0))
	require.Equal(t, Other, op.Attributes["tenant"])
	require.Equal(t, "b", shared["tenant"])
}

func TestDrainReleasesEverything(t *testing.T) {
	b := newToy(testSettings())
	b.Add(span(1, 1, "root", 0, time.Second), 0, 100, at(0))
	b.Tick(at(2 * time.Second))
	b.Add(span(1, 2, "chat", 0, time.Second), 0, 100, at(3*time.Second))
	b.Add(span(2, 2, "chat", 0, time.Second), 0, 100, at(3*time.Second))
	n := 0
	for r := range b.Drain(at(3 * time.Second)) {
		require.Equal(t, rows.ReleaseShutdown, r.Reason)
		n += len(r.Spans)
	}
	require.Equal(t, 2, n)
	s := b.Stats()
	require.Zero(t, s.Held+s.Traces+s.Spans+s.Bytes+s.Open)
}

func TestRowHashSeesEveryContentField(t *testing.T) {
	var d digest
	n := uint32(1)
	base := func() *rows.Operation { return &rows.Operation{OperationID: "a"} }
	h := d.rowHash(base())
	other := base()
	other.Attempts = &n
	require.NotEqual(t, h, d.rowHash(other))
	other = base()
	other.Revision = 9
	require.Equal(t, h, d.rowHash(other))
	request := &rows.Request{ReleaseReason: rows.ReleaseLate}
	require.Equal(t, d.rowHash(&rows.Request{}), d.rowHash(request))
}
