package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/store"
)

// Busy slices are made once, with histograms of as many values as there were calls, and a start
// of the detector on them reads them all.
func TestLoadOfBusySlices(t *testing.T) {
	ctx := context.Background()
	d := &db{dir: t.TempDir()}
	s := shape{seed: 7, to: time.Now().UTC().Truncate(time.Hour), days: 3, attempts: 6000, slices: 97}
	require.NoError(t, d.buildDense(ctx, s, t.Logf))
	require.NoError(t, d.buildDense(ctx, s, func(string, ...any) { t.Error("made again") }))

	var out bytes.Buffer
	l, err := d.load(ctx, s, dense, t.Logf)
	require.NoError(t, err)
	renderLoad(&out, l, s)
	require.Contains(t, out.String(), "| OperationHistory |")
	require.Equal(t, s.slices, l.slices)
	require.InDelta(t, 24*60*s.slices, l.kind["OperationHistory"].rows, 0.25*24*60*float64(s.slices), "minutes with calls of a day")
	require.Len(t, l.rounds, loadRounds)

	st, err := store.New(d.conn, dense)
	require.NoError(t, err)
	cells, err := st.OperationCells(ctx, s.to.Add(-10*time.Minute), s.to)
	require.NoError(t, err)
	require.NotEmpty(t, cells)
	for _, c := range cells {
		require.Equal(t, c.N, c.User.Hist.N())
		require.Equal(t, c.N, c.TTFT.Hist.N())
	}
	d.stop()
}
