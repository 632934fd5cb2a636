package detector

import "driftline/detector/store"

// workFields packs one minute of limits and load. What windows are not asked for is left out:
// the P95, the number in service, and the sum of what deadlines left. Times are kept to within
// 2^-16 of themselves.
func workFields(w *store.Work, f *coder) {
	f.u(&w.N)
	less(f, w.N, &w.OK, &w.Known, &w.Limited, &w.Left.N)
	limited, declared, known, queued, lost, overran := w.Limited > 0, w.Declared > 0, w.Known > 0, w.QueueNS > 0, w.Lost > 0, w.Overran > 0
	f.b(&limited, &declared, &known, &queued, &lost, &overran)
	countsIf(f, limited, &w.Past)
	timesIf(f, limited, &w.LimitNS)
	countsIf(f, declared, &w.Declared, &w.Capped, &w.Uncovered)
	timesIf(f, declared, &w.DeclaredNS)
	countsIf(f, known, &w.Missed, &w.Inherited, &w.Own)
	timesIf(f, queued, &w.QueueNS)
	countsIf(f, lost, &w.Lost)
	countsIf(f, overran, &w.Overran)
	timesIf(f, overran, &w.OverranNS)
	timesIf(f, true, &w.OKNS, &w.BusyNS)
	squared := float32(w.BusySquared)
	f.f(&squared)
	w.BusySquared = float64(squared)
	f.measured(leftPart, &w.Left)
}

func workBlockFields(b *workBlock, f *coder) {
	f.u(&b.n)
	less(f, b.n, &b.limited, &b.known, &b.left)
	limited, declared, known, left, lost, p95, queued := b.limited > 0, b.declared > 0, b.known > 0, b.left > 0, b.lost > 0, b.p95 > 0, b.queue > 0
	f.b(&limited, &declared, &known, &left, &lost, &p95, &queued)
	countsIf(f, limited, &b.past)
	countsIf(f, declared, &b.declared, &b.overran)
	countsIf(f, known, &b.missed, &b.inherited, &b.own)
	countsIf(f, left, &b.doomed)
	countsIf(f, lost, &b.lost)
	f.u(&b.most)
	f.f(&b.load)
	floatsIf(f, p95, &b.ok, &b.p95)
	floatsIf(f, queued, &b.queue)
}

// quantilesIf codes quantiles of histograms that are zero unless some is true.
func quantilesIf(f *coder, some bool, fields ...*float32) {
	for _, v := range fields {
		if some {
			f.q(v)
		} else {
			*v = 0
		}
	}
}

// less packs counts that are often all of n by what they lack of it.
func less(f *coder, n uint64, fields ...*uint64) {
	for _, c := range fields {
		lack := n - *c
		f.u(&lack)
		*c = n - lack
	}
}

// countsIf packs counts that are zero unless some is true; so do timesIf and floatsIf.
func countsIf(f *coder, some bool, fields ...*uint64) {
	for _, c := range fields {
		if some {
			f.u(c)
		} else {
			*c = 0
		}
	}
}

// timesIf packs times of 0 or more, in nanoseconds, in three bytes each.
func timesIf(f *coder, some bool, fields ...*int64) {
	for _, ns := range fields {
		v := float32(*ns)
		floatsIf(f, some, &v)
		*ns = int64(v)
	}
}

func floatsIf(f *coder, some bool, fields ...*float32) {
	for _, v := range fields {
		if some {
			f.f(v)
		} else {
			*v = 0
		}
	}
}
