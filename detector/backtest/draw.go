package backtest

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strconv"
)

// reserved is the part of every range that tuning never draws from.
const reserved = 0.2

// draw takes a scenario's parameters out of their ranges. The top fifth of each is kept for
// held-out runs, in which every second parameter comes from there.
type draw struct {
	rng  *rand.Rand
	held bool
}

func newDraw(seed uint64, held bool) *draw {
	return &draw{rand.New(rand.NewPCG(seed, 0x5eed)), held}
}

func (d *draw) unit() float64 {
	u := d.rng.Float64()
	if d.held && d.rng.IntN(2) == 0 {
		return 1 - reserved + reserved*u
	}
	return (1 - reserved) * u
}

// between is uniform in [lo, hi), scale uniform on the logarithm.
func (d *draw) between(lo, hi float64) float64 { return lo + (hi-lo)*d.unit() }
func (d *draw) scale(lo, hi float64) float64   { return lo * math.Pow(hi/lo, d.unit()) }
func (d *draw) chance(p float64) bool          { return d.rng.Float64() < p }

// seedOf derives a seed from a base and names, the same on every machine.
func seedOf(base uint64, names ...string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(strconv.FormatUint(base, 10)))
	for _, n := range names {
		h.Write([]byte{0})
		h.Write([]byte(n))
	}
	return h.Sum64()
}
