package rows

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestColumnsAreUniqueAndTagged(t *testing.T) {
	for _, table := range Tables {
		seen := map[string]bool{}
		for _, f := range Fields(table) {
			require.NotEmpty(t, f.Column, "%s: field %v has no column", table, f.Index)
			require.False(t, seen[f.Column], "%s: column %s stands twice", table, f.Column)
			seen[f.Column] = true
		}
		for _, must := range []string{"service_name", "trace_id", "revision", "deleted"} {
			require.True(t, seen[must], "%s lacks %s", table, must)
		}
	}
}

func TestKeyHoldsTheMinuteOfTheEnd(t *testing.T) {
	const minuteNS = 60_000_000_000
	op := &Operation{Facts: Facts{EndedAt: 3*minuteNS - 1}}
	require.EqualValues(t, 2, op.Key().Minute)
	op.EndedAt++
	require.EqualValues(t, 3, op.Key().Minute)
	op.EndedAt = -1
	require.EqualValues(t, -1, op.Key().Minute)
	require.Equal(t, "driftline.open_request", TableOpenRequests.EventName())
	require.Equal(t, "driftline.operation", TableOperations.EventName())
}

func TestSegmentsSum(t *testing.T) {
	s := Segments{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
	require.EqualValues(t, 1023, s.Sum())
}
