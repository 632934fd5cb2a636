package store

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"driftline/detector/stats"
)

func TestHistogramsAreReadFromTheTextOfArrays(t *testing.T) {
	var m Measure
	dest := m.dest()
	type scanner interface{ Scan(any) error }
	read := func(buckets, counts any) error {
		if err := dest[2].(scanner).Scan(buckets); err != nil {
			return err
		}
		return dest[3].(scanner).Scan(counts)
	}
	require.NoError(t, read("[-32768,-172,0,519]", "[1,2,3,18446744073709551615]"))
	require.Equal(t, &stats.Hist{Index: []int16{-32768, -172, 0, 519}, Count: []uint64{1, 2, 3, math.MaxUint64}}, m.Hist)
	m = Measure{}
	dest = m.dest()
	require.NoError(t, read("[]", "[]"))
	require.Equal(t, &stats.Hist{}, m.Hist, "an empty one is a zero one, as before")
	for _, bad := range []any{"", "[", "12", "[1,]", "[a]", "[40000]", "[-32769]", "[-]", "[1,,2]", "[,1]", "[1 ]", "[+1]", "[1.5]", "[1-]", []int16{1}, nil} {
		require.ErrorContains(t, read(bad, "[]"), "histogram column", "%v", bad)
	}
	for _, bad := range []string{"[-1]", "[18446744073709551616]", "[99999999999999999999]", "[184467440737095516150]"} {
		require.ErrorContains(t, read("[1]", bad), "value 1 of", bad)
	}
	// What judges relies on the form of the whole.
	for want, bad := range map[string][2]string{
		"2 buckets with 1 counts": {"[1,2]", "[5]"}, "0 buckets with 1 counts": {"[]", "[5]"}, "bucket 1 is counted with nothing in it": {"[1,2]", "[0,3]"},
		"bucket 1 comes after bucket 2": {"[2,1]", "[1,1]"}, "bucket 2 comes after bucket 2": {"[2,2]", "[1,1]"}, "bucket 520 is neither": {"[520]", "[1]"}, "bucket -173 is neither": {"[-173]", "[1]"},
	} {
		m = Measure{}
		dest = m.dest()
		require.ErrorContains(t, read(bad[0], bad[1]), want)
	}
}
