package genaiclickhouse

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"driftline/internal/clock"
	"driftline/internal/rows"
)

func TestEveryTableIsWrittenOnce(t *testing.T) {
	require.ElementsMatch(t, append([]rows.Table{tableSpans}, rows.Tables...), writeOrder)
}

func TestRareDaysLeaveFewDays(t *testing.T) {
	keptOf := func(perDay ...int) (kept map[int64]bool) {
		var at []int64
		for day, n := range perDay {
			for range n {
				at = append(at, int64(day)*dayNS+5)
			}
		}
		var counted days
		for _, ns := range at {
			counted.add(ns)
		}
		rare := counted.rare()
		kept = map[int64]bool{}
		for _, ns := range at {
			if rare == nil || !rare(ns) {
				kept[ns/dayNS] = true
			}
		}
		return kept
	}
	even := make([]int, maxDays)
	for i := range even {
		even[i] = 1
	}
	require.Len(t, keptOf(even...), maxDays, "within the limit nothing is rare")
	require.Equal(t, map[int64]bool{int64(maxDays): true}, keptOf(append(even, 100)...))
	for i := range even {
		even[i] = 1 + i%4
	}
	require.LessOrEqual(t, len(keptOf(append(even, 1, 1, 1)...)), maxDays)
}

func TestSamplesAreFewAndCountTheRest(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	clk := clock.NewManual(time.Unix(1_800_000_000, 0))
	s := newSampler(zap.New(core), clk)
	bad := &badRow{table: rows.TableAttempts, reason: reasonBadTime, service: "shop", traceID: "abc", err: errBadTime}
	for range 100 {
		s.log(bad)
	}
	s.log(&badRow{table: rows.TableAttempts, reason: reasonBadRow, err: errNoID})
	require.Equal(t, 2, logs.Len(), "one per table and reason")
	clk.Advance(sampleInterval)
	s.log(bad)
	last := logs.All()[2].ContextMap()
	require.EqualValues(t, 99, last["others_since_last_line"])
	require.Equal(t, "abc", last["trace_id"])
}

func TestWhatIsWrongWithASpanHasASubject(t *testing.T) {
	reason, err := badSpan(ptrace.NewSpan(), testNow)
	require.Equal(t, reasonBadTime, reason)
	require.ErrorIs(t, err, errBadTime)
	require.ErrorContains(t, err, "started_at is before the year 2000")
}
