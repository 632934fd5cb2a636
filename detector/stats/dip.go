package stats

import (
	"math"
	"sync"
)

// DipResult is the outcome of [Dip].
type DipResult struct {
	// D is the dip, the largest vertical distance between the empirical
	// distribution function and the nearest unimodal one, 1/(2n) to 1/4.
	D float64
	N uint64
	// P is the p-value against the uniform distribution, which is conservative
	// for bell-shaped data. See [DipPValue].
	P float64
	// ModalLo and ModalHi bound the interval in which the nearest unimodal
	// distribution has its mode, in the unit of the data (ms for HistDip).
	ModalLo, ModalHi float64
}

// Dip computes the dip statistic of Hartigan and Hartigan (Annals of Statistics
// 13, 1985) of a raw sample, ties allowed. It says that a sample has more than
// one mode, not why. An empty sample is ErrInsufficient; with fewer than 4
// values P is 1.
func Dip(p Points) (DipResult, error) {
	n := p.N()
	if n == 0 {
		return DipResult{}, insufficient("dip of an empty sample")
	}
	lo, hi := make([]float64, len(p.v)), make([]float64, len(p.v))
	for i := range p.v {
		hi[i] = float64(p.cum[i])
		lo[i] = float64(p.cum[i] - p.w[i])
	}
	return dipOf(&dipRoom{}, p.v, lo, hi, n), nil
}

// HistDip computes the dip of a histogram on the given scale. A bucket's mass is
// spread evenly over the bucket: taken as point masses, the buckets alone would
// give a dip of half of the largest share, far above the critical value for
// any well filled histogram. Spreading hides structure narrower than a bucket
// (4 %), so the test is slightly conservative. ZeroIndex is spread over the
// bucket below MinIndex on the log scale.
func HistDip(h *Hist, s Scale) (DipResult, error) {
	n := h.N()
	if n == 0 {
		return DipResult{}, insufficient("dip of an empty histogram")
	}
	room := dipRooms.Get().(*dipRoom)
	defer dipRooms.Put(room)
	x, f := room.x[:0], room.f[:0]
	edge := func(at, cum float64) {
		if k := len(x); k > 0 && x[k-1] >= at {
			return
		}
		x, f = append(x, at), append(f, cum)
	}
	var cum float64
	for i, ix := range h.Index {
		lo, hi := float64(ix-1)*LnGamma, float64(ix)*LnGamma
		if ix == ZeroIndex {
			lo, hi = float64(MinIndex-2)*LnGamma, float64(MinIndex-1)*LnGamma
		}
		if s == Linear {
			lo, hi = math.Exp(lo), math.Exp(hi)
		}
		edge(lo, cum)
		cum += float64(h.Count[i])
		edge(hi, cum)
	}
	room.x, room.f = x, f
	r := dipOf(room, x, f, f, n)
	if s == Log {
		r.ModalLo, r.ModalHi = math.Exp(r.ModalLo), math.Exp(r.ModalHi)
	}
	return r, nil
}

// dipRoom is what a dip is worked out in. Rounds ask for one of each slice.
type dipRoom struct {
	x, f []float64
	g, l []int
}

var dipRooms = sync.Pool{New: func() any { return &dipRoom{} }}

func dipOf(room *dipRoom, x, lo, hi []float64, n uint64) DipResult {
	gap, a, b := dipSearch(room, x, lo, hi)
	d := gap / (2 * float64(n))
	return DipResult{D: d, N: n, P: DipPValue(d, n), ModalLo: x[a], ModalHi: x[b]}
}

// dipSearch works on a distribution function given at ascending nodes x by its
// left limits lo and values hi, in counts, linear or constant between nodes.
// It returns 2nD and the nodes that bound the modal interval.
//
// In an interval that must hold the mode, let G be the greatest convex minorant
// of the left limits and L the least concave majorant of the values. A unimodal
// function within gap/2 exists inside if L-G <= gap everywhere. Where it is
// larger, the place of the largest L-G, a contact point of one of the two
// curves, narrows the interval to the next contact point of the other. What is
// cut off must be convex on the left and concave on the right, which costs the
// largest distance to G and to L there.
func dipSearch(room *dipRoom, x, lo, hi []float64) (gap float64, a, b int) {
	a, b = 0, len(x)-1
	gap = 1 // the floor 1/(2n)
	g, l := room.g, room.l
	defer func() { room.g, room.l = g, l }()
	for a < b {
		g = contacts(g[:0], x, lo, a, b, 1)
		l = contacts(l[:0], x, hi, a, b, -1)
		d, na, nb := widest(x, lo, hi, g, l)
		// The tolerance only stops rounding from cutting for nothing.
		if d <= gap*(1+1e-12) {
			break
		}
		// Nodes na and nb stay inside: if one of them ends as the mode, its
		// jump is free.
		for k := 0; g[k] < na; k++ {
			for i := g[k]; i < g[k+1]; i++ {
				gap = math.Max(gap, hi[i]-chord(x, lo, g[k], g[k+1], i))
			}
		}
		for k := len(l) - 1; l[k] > nb; k-- {
			for i := l[k]; i > l[k-1]; i-- {
				gap = math.Max(gap, chord(x, hi, l[k-1], l[k], i)-lo[i])
			}
		}
		a, b = na, nb
	}
	return gap, a, b
}

// widest finds the largest L-G, which is at a contact point of either curve,
// and the narrowed interval that it implies.
func widest(x, lo, hi []float64, g, l []int) (d float64, na, nb int) {
	d = -1
	j := 0
	for _, i := range g {
		for l[j] < i {
			j++
		}
		up := hi[i]
		if l[j] > i {
			up = chord(x, hi, l[j-1], l[j], i)
		}
		if up-lo[i] > d {
			d, na, nb = up-lo[i], i, l[j]
		}
	}
	k := 0
	for _, i := range l {
		for k+1 < len(g) && g[k+1] <= i {
			k++
		}
		down := lo[i]
		if g[k] < i {
			down = chord(x, lo, g[k], g[k+1], i)
		}
		if hi[i]-down > d {
			d, na, nb = hi[i]-down, g[k], i
		}
	}
	return d, na, nb
}

func chord(x, y []float64, i, j, at int) float64 {
	switch at {
	case i:
		return y[i]
	case j:
		return y[j]
	}
	return y[i] + (y[j]-y[i])*((x[at]-x[i])/(x[j]-x[i]))
}

// contacts returns the nodes of a..b at which the convex (sign 1) minorant or
// concave (sign -1) majorant touches y: a monotone chain.
func contacts(out []int, x, y []float64, a, b int, sign float64) []int {
	var px, py, qx, qy float64 // the last contact but one, and the last
	for i := a; i <= b; i++ {
		ix, iy := x[i], y[i]
		for len(out) >= 2 {
			// The last goes unless the slope rises (falls, for sign -1) at it.
			if sign*((qy-py)*(ix-qx)-(iy-qy)*(qx-px)) < 0 {
				break
			}
			out = out[:len(out)-1]
			if qx, qy = px, py; len(out) >= 2 {
				px, py = x[out[len(out)-2]], y[out[len(out)-2]]
			}
		}
		out = append(out, i)
		px, py, qx, qy = qx, qy, ix, iy
	}
	return out
}

// DipPValue returns the probability of a dip of at least d among n uniform
// values, by linear interpolation of sqrt(n)*d between the rows of a simulated
// table (dipTable) and then in probability. It is 1 for n under 4, since the
// dip cannot then tell anything. Outside the table's columns the end values 1
// and 0 are returned; 0 means under 1e-4. Above the table's last n its last row
// is used.
func DipPValue(d float64, n uint64) float64 {
	if n < 4 || !finite(d) {
		return 1
	}
	if d <= (1+1e-9)/(2*float64(n)) {
		return 1 // no dip is under the floor, and it has a probability of its own
	}
	r := 0
	for r+1 < len(dipSizes) && float64(n) >= dipSizes[r+1] {
		r++
	}
	frac := 0.0
	if r+1 < len(dipSizes) && float64(n) > dipSizes[r] {
		frac = (float64(n) - dipSizes[r]) / (dipSizes[r+1] - dipSizes[r])
	}
	at := func(c int) float64 {
		v := dipTable[r][c]
		if frac > 0 {
			v += frac * (dipTable[r+1][c] - v)
		}
		return v
	}
	q := math.Sqrt(float64(n)) * d
	prev := at(0)
	if q < prev {
		return 1
	}
	for c := 1; c < len(dipProbs); c++ {
		v := at(c)
		if q < v {
			return 1 - (dipProbs[c-1] + (q-prev)/(v-prev)*(dipProbs[c]-dipProbs[c-1]))
		}
		prev = v
	}
	return 0
}
