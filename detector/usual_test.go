package detector

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector/stats"
	"driftline/detector/store"
)

// A day's baseline says what sorting all that it is made of says, and once there is room for it,
// working it out anew allocates nothing: in the round after a block ends, all slices' are.
func TestBaselinesAreWorkedOutInPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	cfg := DefaultConfig()
	b := NewBaselines(cfg)
	slice := Slice{Service: "shop", Agent: "planner", Kind: "chat", Target: "m", Stream: "yes"}
	t0 := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
	var minutes []store.OperationMinute
	var p95s, logs []float64
	for at := t0; at.Before(t0.Add(cfg.BaselineWindow)); at = at.Add(time.Minute) {
		h := &stats.Hist{}
		for range 60 {
			h.Add(2000 * math.Exp(0.5*rng.NormFloat64()))
		}
		m := store.Measure{N: 60, SumNS: 60, Hist: h}
		minutes = append(minutes, store.OperationMinute{Slice: slice, Minute: at, N: 60, Call: m, Known: 60, Inference: m, TTFT: m, PerToken: m})
		logs = append(logs, math.Log(quantile(h, 0.95)))
		if len(minutes)%10 == 0 {
			block := &stats.Hist{}
			for _, m := range minutes[len(minutes)-10:] {
				block.Merge(m.Inference.Hist)
			}
			p95s = append(p95s, quantile(block, 0.95))
		}
	}
	b.Load(t0, t0.Add(cfg.BaselineWindow), minutes, nil)
	got := b.Operation(slice)
	require.Equal(t, 144, got.Blocks)
	require.Equal(t, 1440, got.Minutes)
	p95, err := stats.Median(p95s)
	require.NoError(t, err)
	center, mad, err := stats.MAD(logs)
	require.NoError(t, err)
	// What is packed is kept to within 2^-16 of itself.
	require.InEpsilon(t, p95, got.P95MS, 0x1p-15)
	require.InEpsilon(t, p95, got.Call.P95MS, 0x1p-15)
	require.InDelta(t, center, got.LogP95, 1e-3)
	require.InDelta(t, 1.4826*mad, got.LogP95SD, 1e-3)

	anew := testing.AllocsPerRun(20, func() {
		b.changed()
		b.Operation(slice)
	})
	require.LessOrEqual(t, anew, 4.0)
}
