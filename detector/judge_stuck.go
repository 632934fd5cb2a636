package detector

import (
	"fmt"
	"math"
	"time"

	"driftline/detector/stats"
	"driftline/detector/store"
)

// lostAsUsual is the share of requests without an end in the baseline from which open
// requests tell nothing: their roots never come.
const lostAsUsual = 0.05

// JudgeStuck judges stuck_ratio by two rules:
//   - the share of work that used more than half of its limit has risen. Work that is open and
//     past half of it counts; what is open and not past it has not decided yet and does not,
//     since leaving out the first would drop the slow, and counting the second dilute them
//     (the reduced sample estimator for right-censored times: Kaplan and Meier 1958, section 4).
//     Requests of more steps take longer for that reason alone, so the usual share is that of
//     tasks so much longer;
//   - OpenShare of an agent's open requests are stuck: past their deadline, or, where none is
//     known, past an inferred limit and silent.
//
// A limit is what is declared or what the deadline left; where less than half of the work has
// one it is inferred, as LimitFactor times the usual P95.
func JudgeStuck(w WorkWindow, b WorkBaseline, cfg StuckConfig, minBlocks int) Verdict {
	v := Verdict{Detection: StuckRatio, Slice: w.Slice, From: w.From, To: w.To, P: 1, Unit: "1", EffectUnit: "1", Severity: Warning}
	inferred := time.Duration(0)
	if b.P95MS > 0 {
		inferred = max(cfg.Limit, time.Duration(cfg.LimitFactor*b.P95MS*1e6))
	}
	s := stuckOf(w.Open, inferred, cfg)
	n, k, baseK, baseN, limit := w.Sum.Limited+s.pastDue, w.Sum.Past+s.pastDue, b.Past, b.Limited, time.Duration(w.Sum.LimitNS)
	if declared := 2*w.Sum.Limited >= w.Sum.N && w.Sum.N > 0; !declared {
		if n, k, baseK, baseN, limit = 0, 0, 0, 0, inferred; limit > 0 {
			user, past := w.user(), uint64(0)
			if above, err := user.Hist.Above(float64(limit) / 2e6); err == nil {
				past = uint64(math.Round(above * float64(user.N)))
			}
			n, k, baseN = user.N+s.pastInferred, past+s.pastInferred, b.N // at a limit far beyond P95 the usual share is none
			v.note(fmt.Sprintf("no limit is declared: %s is taken, %.0f times the usual P95 and at least %s", short(limit), cfg.LimitFactor, short(cfg.Limit)))
		}
	}
	v.Samples = n
	v.number("past_half", float64(k))
	v.number("stuck", float64(s.stuck))
	v.number("open", float64(w.Open.All))
	v.number("lost", float64(w.Sum.Lost))
	v.number("limit_s", limit.Seconds())
	v.number("oldest_open_s", s.oldest.Seconds())
	v.number("longest_silence_s", s.silence.Seconds())
	v.Evidence.TraceIDs = s.traces
	v.Severity = severity(missed(w.Sum.Missed+s.overdue, w.Sum.Known+s.overdue, b.Missed, b.Known, cfg.MissShare))

	if s.stuck > 0 {
		if open, done := judgeOpen(v, w, b, s, cfg, minBlocks); done {
			return open
		}
	}
	if n < cfg.MinWork {
		return v.with(Insufficient, "little_work")
	}
	if baseN < minBaseOperations || b.Blocks < minBlocks {
		return v.with(NoBaseline, "learning")
	}
	r, err := w.riseOf(k, n, baseK, baseN, cfg.MinShare)
	if err != nil {
		return v.with(Insufficient, "little_work")
	}
	if r.now.Lo > risen(cfg.FireRise, r.reference) {
		if more := w.moreSteps(); more > 1 {
			r.reference = longerTasks(r.reference, more)
			v.number("steps_ratio", more)
			v.note(fmt.Sprintf("requests make %.1f times as many calls as usual, which makes more of them take long: %.1f %% would be no surprise", more, 100*r.reference))
		}
		if p, err := stats.BinomialTail(w.clustered(min(k, n)), w.clustered(n), min(r.reference, 1)); err == nil {
			r.p = max(r.p, p)
		}
	}
	v.Value, v.Baseline, v.Threshold, v.Effect, v.P = r.now.Estimate, r.reference, risen(cfg.FireRise, r.reference), r.now, r.p
	v.Text = fmt.Sprintf("%s used more than half of their limit (median %s), usual %.1f %%", percentOf(r.now), short(limit), 100*r.reference)
	if s.oldest > 0 {
		v.Text += fmt.Sprintf("; %d requests are open, the oldest since %s", w.Open.All, short(s.oldest))
	}
	v.Cause = "work takes much more of its time limit than usual: a further slowdown turns into timeouts"
	switch {
	case r.now.Lo > v.Threshold && k >= cfg.MinPast:
		return v.with(Breach, "past_half")
	case r.now.Estimate < cfg.ClearRise*r.reference && s.stuck == 0:
		return v.with(Quiet, "as_usual")
	}
	return v.with(Hold, "between")
}

// longerTasks is which share of tasks lasts over a limit, where that was reference before tasks
// became so many times longer: times whose tail is exponential, exp(-limit/mean), do so to the
// power of 1/more.
func longerTasks(reference, more float64) float64 { return math.Pow(reference, 1/more) }

func (w *WorkWindow) moreSteps() float64 {
	if w.Steps == nil {
		return 1
	}
	return max(1, w.Steps())
}

// judgeOpen judges the stuck ones among the open requests; not done where they are too few
// for that to say anything.
func judgeOpen(v Verdict, w WorkWindow, b WorkBaseline, s stuck, cfg StuckConfig, minBlocks int) (Verdict, bool) {
	open := max(w.Open.All, s.stuck)
	now, err := stats.Wilson(s.stuck, open, 0.95)
	if err != nil || now.Lo <= cfg.OpenShare {
		return v, false
	}
	if b.Blocks < minBlocks || b.N == 0 {
		return v.with(NoBaseline, "learning"), true
	}
	usual := share(b.Lost, b.N)
	if usual > lostAsUsual {
		v.note(fmt.Sprintf("%.0f %% of this agent's requests never end in what is seen: their roots are missing, so that open ones tell nothing", 100*usual))
		return v, false
	}
	// How likely it is that as many as are open hold one that is stuck, if as many get stuck
	// as before; one half is added, since none so far does not prove that none can.
	rate := (float64(b.Lost) + 0.5) / (float64(b.N) + 1)
	v.Samples, v.Value, v.Baseline, v.Threshold, v.Effect = open, now.Estimate, usual, cfg.OpenShare, now
	v.P, v.Lasting = -math.Expm1(-rate*float64(open)), true
	v.Text = fmt.Sprintf("%d of %d open requests are stuck or lost: the oldest is open for %s, and its last sign of life is %s old", s.stuck, open, short(s.oldest), short(s.silence))
	v.Cause = "requests hang, or the process that ran them is gone: nothing has been heard of them"
	if s.overdue == s.stuck {
		v.Cause = "requests are past their deadline and still run: nothing cuts them"
	}
	return v.with(Breach, "open_too_long"), true
}

// stuck is what open requests say.
type stuck struct {
	// stuck counts those past their limit, overdue those among them past a known deadline.
	stuck, overdue uint64
	// pastDue and pastInferred count those past half of a known and of the inferred limit.
	pastDue, pastInferred uint64
	// oldest and silence are of the oldest stuck one, or of the oldest.
	oldest, silence time.Duration
	traces          []string
}

func stuckOf(open OpenWork, inferred time.Duration, cfg StuckConfig) stuck {
	var s stuck
	for i := range open.Oldest { // the oldest first
		o := &open.Oldest[i]
		is := false
		switch {
		case o.Budget > 0:
			if o.Age > o.Budget/2 {
				s.pastDue++
			}
			if is = o.Age > o.Budget; is {
				s.overdue++
			}
		case inferred > 0:
			if o.Age > inferred/2 {
				s.pastInferred++
			}
			is = o.Age > inferred && silent(o, cfg.Silence)
		}
		if s.oldest == 0 || is && s.stuck == 0 {
			s.oldest, s.silence = o.Age, o.Silence
		}
		if is {
			s.stuck++
			if len(s.traces) < 3 {
				s.traces = append(s.traces, o.TraceID)
			}
		}
	}
	return s
}

// silent says whether an open request has said nothing for so long, and for much longer than
// it was used to.
func silent(o *store.OpenRequest, least time.Duration) bool {
	pause := time.Duration(0)
	if o.Spans > 1 {
		pause = o.Lived / time.Duration(o.Spans-1)
	}
	return o.Silence >= least && o.Silence >= 6*pause
}
