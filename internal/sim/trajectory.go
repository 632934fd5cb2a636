package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// StepBand is one band of the mixture that a task's number of steps is drawn from:
// with probability Share the number is uniform on Min..Max, both included.
type StepBand struct {
	Share    float64
	Min, Max int
}

// LogNormal is a duration in seconds whose logarithm is normal. Samples below Floor
// are raised to it.
type LogNormal struct {
	Mu, Sigma float64
	Floor     time.Duration
}

func (l LogNormal) sample(r *rand.Rand) time.Duration {
	return max(l.Floor, seconds(math.Exp(l.Mu+l.Sigma*r.NormFloat64())))
}

// Model says how long tasks take when nothing is wrong with the services: one wait
// for the first token, then in each step one generation and one tool call. With
// probability StuckShare one tool call of the task hangs for a time uniform on
// StuckMin..StuckMax; that is a mechanism of its own, not the tail of Tool.
type Model struct {
	Steps              []StepBand
	TTFT               LogNormal
	Generation         LogNormal
	Tool               LogNormal
	StuckShare         float64
	StuckMin, StuckMax time.Duration
}

// StandardModel is the standard trajectory model: steps 60 % U{3..6}, 30 % U{7..14},
// 10 % U{15..28}; first token lognormal(0.35, 0.55) s; generation
// lognormal(0.15, 0.45) s; tool lognormal(0.30, 0.85) s; 3 % of tasks stuck for
// U(60, 600) s.
func StandardModel() Model {
	return Model{
		Steps:      []StepBand{{0.60, 3, 6}, {0.30, 7, 14}, {0.10, 15, 28}},
		TTFT:       LogNormal{0.35, 0.55, 150 * time.Millisecond},
		Generation: LogNormal{0.15, 0.45, 100 * time.Millisecond},
		Tool:       LogNormal{0.30, 0.85, 50 * time.Millisecond},
		StuckShare: 0.03,
		StuckMin:   60 * time.Second,
		StuckMax:   600 * time.Second,
	}
}

// longSteps is what tasks become in ScenarioMoreSteps: the same kinds of task, with
// the long ones three times as common.
func longSteps() []StepBand {
	return []StepBand{{0.30, 3, 6}, {0.40, 7, 14}, {0.30, 15, 28}}
}

// Step is one turn of an agent: the model generates, then one tool runs.
type Step struct {
	Generation time.Duration
	Tool       time.Duration
}

// Trajectory is what one task does, in order, before any fault or retry.
type Trajectory struct {
	TTFT  time.Duration
	Steps []Step
	// Stuck is the index of the step whose tool call hangs, or -1.
	Stuck int
}

// Total is the time the task takes when it meets no fault and no retry.
func (t *Trajectory) Total() time.Duration {
	sum := t.TTFT
	for _, s := range t.Steps {
		sum += s.Generation + s.Tool
	}
	return sum
}

// Sample draws one task. The draws depend on nothing but r.
func (m *Model) Sample(r *rand.Rand) Trajectory {
	var t Trajectory
	m.sampleInto(&t, r, m.Steps)
	return t
}

// sampleInto is Sample with other step bands, reusing t's memory.
func (m *Model) sampleInto(t *Trajectory, r *rand.Rand, bands []StepBand) {
	n := sampleSteps(r, bands)
	t.Stuck = -1
	if r.Float64() < m.StuckShare {
		t.Stuck = r.IntN(n)
	}
	t.TTFT = m.TTFT.sample(r)
	t.Steps = t.Steps[:0]
	for i := range n {
		s := Step{Generation: m.Generation.sample(r)}
		if i == t.Stuck {
			s.Tool = uniform(r, m.StuckMin, m.StuckMax)
		} else {
			s.Tool = m.Tool.sample(r)
		}
		t.Steps = append(t.Steps, s)
	}
}

func sampleSteps(r *rand.Rand, bands []StepBand) int {
	u := r.Float64()
	last := bands[len(bands)-1]
	for _, b := range bands {
		if u < b.Share {
			last = b
			break
		}
		u -= b.Share
	}
	return last.Min + r.IntN(last.Max-last.Min+1)
}

// Trajectories draws n tasks from the standard model. The same seed gives the same
// tasks.
func Trajectories(n int, seed uint64) []Trajectory {
	m := StandardModel()
	r := rand.New(rand.NewPCG(mix(seed), mix(seed+1)))
	out := make([]Trajectory, n)
	for i := range out {
		out[i] = m.Sample(r)
	}
	return out
}

// Quantile is the element of an ascending slice at index min(int(n*p), n-1), the
// rule all reference figures of the standard model use. It panics on an empty slice,
// whose quantile is unknown rather than zero.
func Quantile(sorted []time.Duration, p float64) time.Duration {
	n := len(sorted)
	if n == 0 {
		panic("sim: quantile of no samples")
	}
	return sorted[min(int(float64(n)*p), n-1)]
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// uniform draws from lo..hi.
func uniform(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Float64()*float64(hi-lo))
}

// mix spreads the bits of a seed or counter (the SplitMix64 finaliser), so that
// neighbouring seeds give unrelated generators.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}
