package detector

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"driftline/detector/store"
)

// OperationChange is one kind of call of an agent now, beside its baseline. Times are in
// milliseconds; what is not known is 0.
type OperationChange struct {
	Slice
	N uint64
	// Known calls know their attempts, Retried had more than one; Base is the baseline.
	Known, Retried, BaseKnown, BaseRetried uint64
	// Hidden is the sum of failed attempts and backoffs.
	Hidden float64
	// RetryP95 is how much retries add at P95 of user time.
	RetryP95 float64
	// User is the mean user time.
	User float64
	// Work is the typical time of the attempt that counted: inference, or the tool's own.
	Work, BaseWork         float64
	TTFT, BaseTTFT         float64
	PerToken, BasePerToken float64
	// Output and Input are tokens per call, Input those that no cache held.
	Output, BaseOutput float64
	Input, BaseInput   float64
}

// CauseInput is what is known of one agent.
type CauseInput struct {
	From, To   time.Time
	Operations []OperationChange
	// Attempts reach back an hour before To.
	Attempts []store.AttemptMinute
	// Calls and BaseCalls are operations per request; Requests is how many there were.
	Calls, BaseCalls float64
	Requests         uint64
	// Changes are what was deployed nearby.
	Changes []Change
}

// Candidate is one possible cause.
type Candidate struct {
	// What is the finding, as the beginning of a sentence.
	What string
	// AddedMS is the time it explains, over all calls of the window.
	AddedMS float64
	// Share is AddedMS of that of all candidates.
	Share float64

	kind    string
	slice   Slice
	since   time.Time
	p95     float64
	failing float64
}

// Bounds of a cause line.
const (
	// unchanged is the ratio within which a time counts as it was.
	unchanged = 1.15
	// moved is the ratio from which it counts as changed.
	moved = 1.25
	// leastShare of all user time must have been added for a cause to be named.
	leastShare = 0.05
	// failingShare of attempts is named even where failures add no time.
	failingShare = 0.2
)

// typical stands for a mean that giant outliers do not move: P50 and P95 weighted so that a
// slow minority counts about as it does in a mean.
func typical(p50, p95 float64) float64 { return 0.7*p50 + 0.3*p95 }

// rate is a/b, 0 where either is not known.
func rate(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return a / b
}

// Causes ranks what may explain an agent's added time, the one that explains most first.
//
// Added time is, per kind of call: hidden time beyond what the baseline's share of retries
// would cost; (time to first token - baseline) x calls; (time per token - baseline) x tokens;
// baseline time per token x added tokens; and what is left of (typical time of the attempt
// that counted - baseline) x calls. More calls per request add the mean time of a call each.
func Causes(in CauseInput) []Candidate {
	failing := failures(in)
	var out []Candidate
	total := 0.0
	for _, o := range in.Operations {
		total += o.User * float64(o.N)
		out = append(out, hiddenCandidate(o, failing)...)
		out = append(out, workCandidates(o)...)
	}
	if r := rate(in.Calls, in.BaseCalls); r >= moved && in.Requests > 0 {
		n := 0.0
		for _, o := range in.Operations {
			n += float64(o.N)
		}
		out = append(out, Candidate{What: fmt.Sprintf("requests make %.1f times as many calls (%.1f each, usually %.1f)", r, in.Calls, in.BaseCalls), kind: "calls",
			AddedMS: (in.Calls - in.BaseCalls) * float64(in.Requests) * rate(total, n)})
	}
	sum := 0.0
	for _, c := range out {
		sum += c.AddedMS
	}
	if sum < leastShare*total || sum == 0 {
		out = nil
		for _, f := range failing {
			if f.failing >= failingShare {
				out = append(out, f)
			}
		}
		slices.SortStableFunc(out, func(a, b Candidate) int { return cmp.Compare(b.failing, a.failing) })
		return out
	}
	for i := range out {
		out[i].Share = out[i].AddedMS / sum
	}
	slices.SortStableFunc(out, func(a, b Candidate) int { return cmp.Compare(b.AddedMS, a.AddedMS) })
	return out
}

func hiddenCandidate(o OperationChange, failing []Candidate) []Candidate {
	now, base := share(o.Retried, o.Known), share(o.BaseRetried, o.BaseKnown)
	if now <= 0 || o.Hidden <= 0 {
		return nil
	}
	c := Candidate{kind: "retries", slice: o.Slice, p95: o.RetryP95, AddedMS: o.Hidden * math.Max(0, 1-base/now)}
	if now < unchanged*base {
		return nil
	}
	c.What = fmt.Sprintf("%s is retried in %.0f %% of calls, usually %.0f %%", named(o.Slice), 100*now, 100*base)
	for _, f := range failing {
		if f.slice.Kind == o.Kind && f.slice.Target == o.Target {
			c.What, c.since, c.failing, c.kind = f.What, f.since, f.failing, f.kind
			break
		}
	}
	return []Candidate{c}
}

func workCandidates(o OperationChange) []Candidate {
	added := (o.Work - o.BaseWork) * float64(o.N)
	if o.BaseWork <= 0 || o.Work < unchanged*o.BaseWork {
		return nil
	}
	var out []Candidate
	left := added
	take := func(kind, what string, ms float64) {
		if ms = math.Min(ms, left); ms > 0 {
			out = append(out, Candidate{What: what, AddedMS: ms, kind: kind, slice: o.Slice})
			left -= ms
		}
	}
	name := named(o.Slice)
	if r := rate(o.TTFT, o.BaseTTFT); r >= moved {
		ms := (o.TTFT - o.BaseTTFT) * float64(o.N)
		if in := rate(o.Input, o.BaseInput); in >= moved && r/in < moved {
			take("prompts", fmt.Sprintf("prompts to %s are %.1f times as long where no cache holds them, and the first token comes %.1f times as late", name, in, r), ms)
		} else {
			take("ttft", fmt.Sprintf("%s sends its first token %.1f times as late (%s, usually %s)%s", name, r, inSeconds(o.TTFT), inSeconds(o.BaseTTFT), asLong(in)), ms)
		}
	}
	if r := rate(o.PerToken, o.BasePerToken); r >= moved {
		take("tokens", fmt.Sprintf("%s takes %.1f times as long per token (%.0f ms, usually %.0f ms)", name, r, o.PerToken, o.BasePerToken), (o.PerToken-o.BasePerToken)*o.Output*float64(o.N))
	}
	if r := rate(o.Output, o.BaseOutput); r >= moved && o.BasePerToken > 0 {
		take("answers", fmt.Sprintf("answers of %s are %.1f times as long", name, r), o.BasePerToken*(o.Output-o.BaseOutput)*float64(o.N))
	}
	if left > added/4 {
		take("work", fmt.Sprintf("%s itself takes %.1f times as long (%s, usually %s)", name, o.Work/o.BaseWork, inSeconds(o.Work), inSeconds(o.BaseWork)), left)
	}
	return out
}

func asLong(in float64) string {
	if in > 0 && in < unchanged && in > 1/unchanged {
		return ", with prompts as long as usual"
	}
	return ""
}

// CauseLine is one sentence, without its full stop: the most likely cause and what supports
// it. It is empty where nothing explains a part worth naming.
func CauseLine(in CauseInput) string {
	all := Causes(in)
	if len(all) == 0 {
		return ""
	}
	top := all[0]
	others, part := together(all)
	parts := []string{top.What + others}
	switch {
	case top.p95 > 0:
		parts = append(parts, fmt.Sprintf("hidden retries add %s at P95", inSeconds(top.p95)))
	case top.AddedMS == 0:
		parts = append(parts, "calls fail at once, so that little time is added")
	}
	if part > 0 && part < 0.95 {
		parts = append(parts, fmt.Sprintf("this is %.0f %% of the added time", 100*part))
	}
	parts = append(parts, contrast(in, top)...)
	if c := before(in.Changes, top.since, in); c != "" {
		parts = append(parts, c)
	}
	return strings.Join(parts, "; ")
}

// together names others that the same befell, since what several share is not in one, and
// gives the share of the added time that all of them explain.
func together(all []Candidate) (text string, part float64) {
	var names []string
	part = all[0].Share
	for _, c := range all[1:] {
		if c.kind == all[0].kind {
			part += c.Share
		}
		if n := named(c.slice); c.kind == all[0].kind && c.kind != "calls" && c.AddedMS >= all[0].AddedMS/10 && c.AddedMS > 0 && n != named(all[0].slice) && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	switch len(names) {
	case 0:
		return "", part
	case 1:
		return ", and so with " + names[0], part
	}
	return fmt.Sprintf(", and so with %s and %d more", names[0], len(names)-1), part
}

// contrast says what did not change, which rules other causes out.
func contrast(in CauseInput, top Candidate) []string {
	var models, steady, retrying int
	for _, o := range in.Operations {
		if modelKind(o.Kind) && o.BaseWork > 0 && o.Work > 0 {
			models++
			if r := o.Work / o.BaseWork; r < unchanged && r > 1/unchanged {
				steady++
			}
		}
		if now := share(o.Retried, o.Known); now > 0.02 && now > unchanged*share(o.BaseRetried, o.BaseKnown) {
			retrying++
		}
	}
	if models > 0 && models == steady {
		return []string{"model inference unchanged"}
	}
	var out []string
	for _, o := range in.Operations {
		if o.Slice != top.slice {
			continue
		}
		if r := rate(o.TTFT, o.BaseTTFT); top.kind == "tokens" && r > 0 && r < unchanged {
			out = append(out, "the first token comes as fast as usual")
		}
		if r := rate(o.PerToken, o.BasePerToken); (top.kind == "ttft" || top.kind == "prompts" || top.kind == "answers") && r > 0 && r < unchanged {
			out = append(out, "time per token unchanged")
		}
	}
	if retrying == 0 && top.kind != "retries" && !strings.HasPrefix(top.kind, "failing") {
		out = append(out, "no more retries than usual")
	}
	return out
}

// before names a change that was seen shortly before the cause began.
func before(changes []Change, since time.Time, in CauseInput) string {
	if since.IsZero() {
		since = in.From
	}
	for _, c := range changes {
		if lead := since.Sub(c.At); lead >= -2*time.Minute && lead <= 20*time.Minute {
			return fmt.Sprintf("%s shortly before", c.Text())
		}
	}
	return ""
}

// failures finds, for each target, how its attempts fail most, how often in the window, and
// since when.
func failures(in CauseInput) []Candidate {
	type target struct{ kind, name string }
	type ending struct {
		class  string
		status uint16
	}
	totals := map[target]map[time.Time]uint64{}
	failed := map[target]map[ending]map[time.Time]uint64{}
	var order []target
	for _, a := range in.Attempts {
		t := target{a.Kind, a.Target}
		if totals[t] == nil {
			totals[t], failed[t] = map[time.Time]uint64{}, map[ending]map[time.Time]uint64{}
			order = append(order, t)
		}
		totals[t][a.At] += a.N
		if a.Failed {
			e := ending{a.Class, a.Status}
			if failed[t][e] == nil {
				failed[t][e] = map[time.Time]uint64{}
			}
			failed[t][e][a.At] += a.N
		}
	}
	within := func(m map[time.Time]uint64) (n uint64) {
		for at, k := range m {
			if !at.Before(in.From) && at.Before(in.To) {
				n += k
			}
		}
		return n
	}
	var out []Candidate
	for _, t := range order {
		var worst ending
		most := uint64(0)
		for e, by := range failed[t] {
			if n := within(by); n > most || n == most && n > 0 && (e.class+fmt.Sprint(e.status)) < (worst.class+fmt.Sprint(worst.status)) {
				worst, most = e, n
			}
		}
		total := within(totals[t])
		if most < 3 || share(most, total) < 0.01 {
			continue
		}
		since := failingSince(failed[t][worst], totals[t], share(most, total), in.To)
		c := Candidate{slice: Slice{Kind: t.kind, Target: t.name}, since: since, failing: share(most, total), kind: "failing " + answer(worst.class, worst.status)}
		c.What = fmt.Sprintf("%s %s%s (%.0f %% of attempts)", named(c.slice), answer(worst.class, worst.status), sinceText(since, in.To), 100*c.failing)
		out = append(out, c)
	}
	return out
}

func sinceText(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	if now.Sub(since) >= 59*time.Minute {
		return " for an hour or longer"
	}
	return " since " + since.UTC().Format("15:04")
}

// failingSince is the first minute from which on attempts failed at half their present share or
// more, over three minutes each.
func failingSince(failed, total map[time.Time]uint64, level float64, to time.Time) time.Time {
	var begin time.Time
	for at := to.Add(-time.Minute); to.Sub(at) <= time.Hour; at = at.Add(-time.Minute) {
		var k, n uint64
		for i := range 3 {
			m := at.Add(time.Duration(i) * time.Minute)
			k, n = k+failed[m], n+total[m]
		}
		if n > 0 && share(k, n) < level/2 {
			return begin
		}
		if failed[at] > 0 && share(failed[at], total[at]) >= level/2 {
			begin = at
		}
	}
	return begin
}

func answer(class string, status uint16) string {
	switch {
	case status == 429:
		return "answers 429 (too many requests)"
	case status >= 400:
		return fmt.Sprintf("answers %d", status)
	case class == "timeout":
		return "times out"
	case class == "overload":
		return "refuses calls as overloaded"
	case class == "":
		return "fails"
	}
	return "fails (" + class + ")"
}

// named is how people speak of what is called.
func named(s Slice) string {
	switch {
	case modelKind(s.Kind):
		return "model `" + s.Target + "`"
	case s.Target == "":
		return s.Kind
	}
	return s.Kind + " `" + s.Target + "`"
}

func inSeconds(ms float64) string {
	switch {
	case ms >= 10_000:
		return fmt.Sprintf("%.0f s", ms/1e3)
	case ms >= 100:
		return fmt.Sprintf("%.1f s", ms/1e3)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

// Change is a setting that was seen to change.
type Change struct {
	Name, From, To string
	At             time.Time
}

// Text says it in words.
func (c Change) Text() string {
	return fmt.Sprintf("%s changed from %s to %s at %s", c.Name, c.From, c.To, c.At.UTC().Format("15:04"))
}

// Changes finds what changed in what was seen from a moment on: a value that came up after
// another of the same name had been there, the newest first. In the first two minutes every
// value comes up.
func Changes(seen []store.Setting, from time.Time) []Change {
	var out []Change
	for i, v := range seen {
		if v.First.Sub(from) < 2*time.Minute || v.N < 2 {
			continue
		}
		var last *store.Setting
		for j := range seen {
			if o := &seen[j]; j != i && o.Name == v.Name && o.First.Before(v.First) && (last == nil || o.Last.After(last.Last)) {
				last = o
			}
		}
		if last != nil {
			out = append(out, Change{v.Name, last.Value, v.Value, v.First})
		}
	}
	slices.SortStableFunc(out, func(a, b Change) int { return b.At.Compare(a.At) })
	return out
}
