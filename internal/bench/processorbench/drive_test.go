package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A small run: both processors give back every span, after the same time, and only ours
// finds something.
func TestBothProcessorsTakePartAlike(t *testing.T) {
	o := options{seed: 7, steps: 6, rate: 20, services: 2, batch: 50, senders: 2, hold: time.Second, peerWorkers: 1}
	heap := newHeapWatch()
	defer heap.close()
	peer := o.run(t, namePeer, 0.3, heap)
	ours := o.run(t, nameOurs, 0.3, heap)
	require.EqualValues(t, 6*20*spansPerTrace, peer.spans)
	require.Equal(t, peer.spans, ours.spans)
	require.Zero(t, peer.rows)
	require.Positive(t, ours.rows)
	for _, r := range []result{peer, ours} {
		require.Positive(t, r.wall, r.name)
		require.Positive(t, r.peak, r.name)
		require.Positive(t, r.spansPerSecond(), r.name)
	}
}

func TestRatiosAreMediansWithinRounds(t *testing.T) {
	figure := func(r result) float64 { return float64(r.peak) }
	ours := []result{{peak: 10}, {peak: 90}, {peak: 40}}
	peer := []result{{peak: 20}, {peak: 30}, {peak: 40}}
	require.Equal(t, 40.0, middle(ours, figure))
	require.Equal(t, 1.0, ratio(ours, peer, figure))
}
