package detector

import (
	"context"
	"fmt"
	"math"
	"time"

	"driftline/detector/stats"
	"driftline/detector/store"
)

// workHistory is how far back limits and load are compared: shorter than the baseline's day,
// since they are read from the rows themselves.
const workHistory = 6 * time.Hour

// maxWorkPerRead bounds what is read of the rows in one query.
const maxWorkPerRead = 10 * time.Minute

// littleWork is how many rows may be read in a question without a thought.
const littleWork = 50_000

// OpenWork is what of an agent was open at the end of a window.
type OpenWork struct {
	// All counts them; Oldest are the oldest, at most 20.
	All    uint64
	Oldest []store.OpenRequest
}

// WorkWindow is a slice's limits, load and misses. What has ended is keyed by its end time,
// what is open by when it was looked at.
type WorkWindow struct {
	Slice
	From, To time.Time
	// Sum is over the window.
	Sum store.Work
	// Load is over the last LoadSpan, which saturation needs longer than the short window.
	Load     store.Work
	LoadSpan time.Duration
	// PerRequest is how many of these calls a request that makes them makes on average, or more;
	// 0 and 1 say that each stands for itself.
	PerRequest float64
	// User gives the user time of the window; nil is none.
	User func() store.Measure
	// Steps is how many times as many calls the agent's requests of the window made as usual, 1
	// or more; nil is 1.
	Steps func() float64
	Open  OpenWork
	// hasLeft says that Sum.Left has its times.
	hasLeft bool
}

// WorkBaseline is what was usual: sums over the clean blocks of the last hours.
type WorkBaseline struct {
	Blocks int
	// N to Known are sums, as in store.Work. Doomed counts calls that began with less than
	// the P95 of their kind left, of Left.
	N, Limited, Past, Lost, Declared, Overran, Left, Doomed, Missed, Known, Inherited, Own uint64
	// P95MS is the median over blocks of the P95 of what succeeded, OKMS that of its mean.
	P95MS, OKMS float64
	// Load is the median over blocks of the mean number in service, QueueMS that of the mean
	// time in a queue.
	Load, QueueMS float64
	// Plateau is the concurrency that was reached again and again and never passed; 0 when
	// there is none.
	Plateau uint64
}

// workBlock is a slice's part of one block.
type workBlock struct {
	n, limited, past, lost, declared, overran, left, doomed, missed, known, inherited, own uint64
	// ok, p95 and queue are milliseconds, 0 where there were too few calls.
	ok, p95, queue, load float32
	most                 uint64
}

// works keeps minutes of the long window and blocks of the history between rounds.
type works struct {
	// minutes are of the long window, blocks of the history; which have been read is noted
	// beside them, since a slice has none where it had no work.
	minutes       blocks[store.Work]
	blocks        blocks[workBlock]
	loadedMinutes map[int64]bool
	loaded        map[int64]bool
	length        time.Duration
	open          map[scope]*OpenWork
	// kept are baselines that still hold; see [Engine.workBaseline]. left is used again and again.
	kept map[Slice]keptBaseline
	left stats.Sum
	// rows counts what was read, as cells.rows does.
	rows uint64
}

// keptBaseline is a baseline with the incidents that it leaves out.
type keptBaseline struct {
	WorkBaseline
	without []Interval
}

// workBaseline is what was usual for a slice. It is worked out anew when blocks have come or
// gone, or the incidents of its agent are others.
func (e *Engine) workBaseline(s Slice) WorkBaseline {
	without := e.baselines.incidents[scope{s.Service, s.Agent}]
	if kept, ok := e.works.kept[s]; ok && sameIntervals(kept.without, without) {
		return kept.WorkBaseline
	}
	b := e.works.baseline(s, e.baselines.clean)
	e.works.kept[s] = keptBaseline{b, without}
	return b
}

func newWorks(blockLength time.Duration) *works {
	return &works{minutes: newBlocks(workFields), blocks: newBlocks(workBlockFields), loadedMinutes: map[int64]bool{}, loaded: map[int64]bool{}, length: blockLength, kept: map[Slice]keptBaseline{}}
}

// forget drops minutes (Unix seconds) whose rows have changed. Blocks stay as they were read,
// as those of baselines do.
func (k *works) forget(minutes []int64) {
	rows := map[int64]bool{}
	for _, m := range minutes {
		rows[m] = true
	}
	drop(&k.minutes, k.loadedMinutes, func(at int64) bool { return rows[at] })
}

// drop forgets what started at instants that is tells, of those that are loaded, and says
// whether there was any.
func drop[B any](from *blocks[B], loaded map[int64]bool, is func(at int64) bool) bool {
	starts := map[int64]bool{}
	for at := range loaded {
		if is(at) {
			starts[at] = true
			delete(loaded, at)
		}
	}
	if len(starts) > 0 {
		from.drop(starts)
	}
	return len(starts) > 0
}

// read loads what is missing for windows that end at w.
func (k *works) read(ctx context.Context, st Store, w time.Time, long time.Duration) error {
	from := w.Add(-long)
	drop(&k.minutes, k.loadedMinutes, func(at int64) bool { return at < from.Unix() })
	err := missing(from, w, time.Minute, k.loadedMinutes, func(a, b time.Time) (uint64, error) {
		got, err := readWork(ctx, st, a, b, time.Minute)
		k.rows += uint64(len(got))
		return put(&k.minutes, got, func(w store.Work) store.Work { return w }), err
	})
	if err != nil {
		return err
	}
	last := from.Truncate(k.length)
	first := last.Add(-workHistory)
	if drop(&k.blocks, k.loaded, func(at int64) bool { return at < first.Unix() }) {
		clear(k.kept)
	}
	err = missing(first, last, k.length, k.loaded, func(a, b time.Time) (uint64, error) {
		clear(k.kept)
		got, err := readWork(ctx, st, a, b, k.length)
		k.rows += uint64(len(got))
		return put(&k.blocks, got, func(w store.Work) workBlock { return blockOf(&w, k.length) }), err
	})
	if err != nil {
		return err
	}
	open, err := st.OpenRequests(ctx, w)
	if err != nil {
		return err
	}
	k.rows += uint64(len(open))
	k.open = map[scope]*OpenWork{}
	for _, o := range open {
		key := scope{o.Service, o.Agent}
		if k.open[key] == nil {
			k.open[key] = &OpenWork{All: o.Open}
		}
		k.open[key].Oldest = append(k.open[key].Oldest, o)
	}
	return nil
}

// put keeps what was read and says how much work that is.
func put[B any](in *blocks[B], got []store.Work, of func(store.Work) B) (n uint64) {
	for i := range got {
		n += got[i].N
		b := of(got[i])
		in.put(got[i].Slice, got[i].At.Unix(), &b)
	}
	return n
}

// missing calls load for the stretches of [from, to) that are not there, in whole steps, and
// notes them. How much is read at once grows while a stretch holds little work, since each
// question has its own cost.
func missing(from, to time.Time, step time.Duration, loaded map[int64]bool, load func(a, b time.Time) (uint64, error)) error {
	length := maxWorkPerRead
	for at := from; at.Before(to); {
		if loaded[at.Unix()] {
			at = at.Add(step)
			continue
		}
		end := at.Add(step)
		for end.Before(to) && end.Sub(at) < length && !loaded[end.Unix()] {
			end = end.Add(step)
		}
		n, err := load(at, end)
		if err != nil {
			return err
		}
		for start := at; start.Before(end); start = start.Add(step) {
			loaded[start.Unix()] = true
		}
		if length = maxWorkPerRead; n < littleWork {
			length = 6 * end.Sub(at)
		}
		at = end
	}
	return nil
}

func readWork(ctx context.Context, st Store, from, to time.Time, width time.Duration) ([]store.Work, error) {
	ops, err := st.OperationWork(ctx, from, to, width)
	if err != nil {
		return nil, err
	}
	reqs, err := st.RequestWork(ctx, from, to, width)
	if err != nil {
		return nil, err
	}
	return append(ops, reqs...), nil
}

func blockOf(w *store.Work, length time.Duration) workBlock {
	b := workBlock{n: w.N, limited: w.Limited, past: w.Past, lost: w.Lost, declared: w.Declared, overran: w.Overran,
		missed: w.Missed, known: w.Known, inherited: w.Inherited, own: w.Own, load: float32(float64(w.BusyNS) / float64(length)), most: w.Most}
	if w.OK >= minPerWorkBlock {
		b.ok, b.p95 = float32(float64(w.OKNS)/float64(w.OK)/1e6), float32(float64(w.P95NS)/1e6)
		b.queue = float32(float64(w.QueueNS) / float64(w.N) / 1e6)
		b.left, b.doomed = w.Left.N, doomed(w, float64(w.P95NS)/1e6)
	}
	return b
}

// doomed counts calls that began with less than p95 milliseconds left.
func doomed(w *store.Work, p95 float64) uint64 {
	share, err := w.Left.Hist.CDFAt(p95)
	if err != nil || p95 <= 0 {
		return 0
	}
	return min(uint64(math.Round(share*float64(w.Left.N))), w.Left.N)
}

// window sums a slice's minutes of [from, to), and once more those of the last loadSpan, all
// but how much deadlines left, which [works.addLeft] adds.
func (k *works) window(s Slice, from, to time.Time, loadSpan time.Duration) *WorkWindow {
	w := &WorkWindow{Slice: s, From: from, To: to, LoadSpan: loadSpan}
	first, load := from.Unix(), to.Add(-loadSpan).Unix()
	k.minutes.between(s, min(first, load), to.Unix(), noParts, func(at int64, m *store.Work) {
		if at >= first {
			w.Sum.Add(*m)
		}
		if at >= load {
			w.Load.Add(*m)
		}
	})
	return w
}

// clustered is n calls in numbers of what is independent. Calls of one request share its
// deadline and its troubles: five of one request that runs long say no more than one. This is the
// effective sample size where calls of a request are wholly alike (Kish, Survey Sampling 1965:
// the design effect is the size of clusters).
func (w *WorkWindow) clustered(n uint64) uint64 {
	return uint64(math.Round(float64(n) / math.Max(1, w.PerRequest)))
}

// riseOf compares k of n calls with baseK of baseN, as far as they are independent of each
// other. The reference is at least least.
func (w *WorkWindow) riseOf(k, n, baseK, baseN uint64, least float64) (rise, error) {
	r, err := riseOf(w.clustered(min(k, n)), w.clustered(n), w.clustered(min(baseK, baseN)), w.clustered(baseN), 1, least, least)
	r.now.Estimate = share(min(k, n), n)
	return r, err
}

// addLeft adds what deadlines left, once.
func (k *works) addLeft(w *WorkWindow) {
	if w.hasLeft {
		return
	}
	k.minutes.between(w.Slice, w.From.Unix(), w.To.Unix(), leftPart, func(_ int64, m *store.Work) { k.left.Add(m.Left.Hist) })
	if w.Sum.Left.Hist == nil {
		w.Sum.Left.Hist = &stats.Hist{}
	}
	k.left.Take(w.Sum.Left.Hist)
	w.hasLeft = true
}

func (w *WorkWindow) user() store.Measure {
	if w.User == nil {
		return emptyMeasure()
	}
	return w.User()
}

// baseline is what was usual for a slice in the blocks that clean says are free of incidents.
func (k *works) baseline(s Slice, clean func(Slice, int64) bool) WorkBaseline {
	var all []workBlock
	var out WorkBaseline
	var p95s, means, loads, queues []float64
	k.blocks.each(s, allParts, func(at int64, b *workBlock) {
		all = append(all, *b)
		if !clean(s, at) {
			return
		}
		out.Blocks++
		for _, sum := range []struct {
			to  *uint64
			add uint64
		}{{&out.N, b.n}, {&out.Limited, b.limited}, {&out.Past, b.past}, {&out.Lost, b.lost}, {&out.Declared, b.declared}, {&out.Overran, b.overran}, {&out.Left, b.left},
			{&out.Doomed, b.doomed}, {&out.Missed, b.missed}, {&out.Known, b.known}, {&out.Inherited, b.inherited}, {&out.Own, b.own}} {
			*sum.to += sum.add
		}
		loads = append(loads, float64(b.load))
		if b.p95 > 0 {
			p95s, means, queues = append(p95s, float64(b.p95)), append(means, float64(b.ok)), append(queues, float64(b.queue))
		}
	})
	out.P95MS, out.OKMS, out.Load, out.QueueMS = median(p95s), median(means), median(loads), median(queues)
	out.Plateau = plateau(all) // an incident is when a limit shows
	return out
}

// minPerWorkBlock is how many successes a block needs for a P95 of its own.
const minPerWorkBlock = 20

// plateauBlocks is how many blocks must have touched a limit of concurrency for it to count
// as one.
const plateauBlocks = 3

// plateau is the largest number that ran at once, where that was reached within 3 % (or by
// one less) in plateauBlocks blocks in which it cannot have been chance: without a limit the
// number in service scatters around its mean L like a Poisson variable, with a standard
// deviation of sqrt(L), so that the most of many looks lies well over L + sqrt(L).
func plateau(blocks []workBlock) uint64 {
	var top uint64
	for _, b := range blocks {
		top = max(top, b.most)
	}
	const least = 4 // below, whole numbers are too coarse to tell a limit from chance
	if top < least {
		return 0
	}
	floor := min(top-1, uint64(math.Floor(0.97*float64(top))))
	touched := 0
	for _, b := range blocks {
		load := float64(b.load)
		// Enough turnover for the number in service to have moved several times.
		if b.most >= floor && float64(b.n) >= 10*load && float64(top)-load <= math.Sqrt(load) {
			touched++
		}
	}
	if touched < plateauBlocks {
		return 0
	}
	return top
}

// percentOf writes a share with its interval.
func percentOf(i stats.Interval) string {
	return fmt.Sprintf("%.1f %% (95 %% interval %.1f to %.1f %%)", 100*i.Estimate, 100*i.Lo, 100*i.Hi)
}

// maxStep bounds by how much a share must rise: a factor over a large one can never be reached.
const maxStep = 0.25

// risen is the share that counts as risen over a usual one.
func risen(factor, usual float64) float64 { return math.Min(factor*usual, usual+maxStep) }
