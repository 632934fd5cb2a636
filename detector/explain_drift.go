package detector

import (
	"fmt"
	"slices"

	"driftline/detector/stats"
	"driftline/detector/store"
)

// explainDrift says of an agent's requests that missed their deadline what took their time,
// and by which odds they miss it.
func explainDrift(v *Verdict, all []store.Spender, misses []store.Misses) {
	if text := spentBy(v, all); text != "" {
		v.Cause += "; " + text
	}
	odds(v, misses)
}

// spentBy names the kind of call that took most of the time of missed requests, and how: in
// one call, in tries on one route, or with timeouts that are more than what is left.
func spentBy(v *Verdict, all []store.Spender) string {
	if len(all) == 0 {
		return ""
	}
	// An agent's own operation holds its calls: what took the time is the longest that is not
	// one, where there is any.
	top := &all[0]
	for i := range all {
		if s := &all[i]; !composite(s.Kind) {
			top = s
			break
		}
	}
	v.number("longest_call_share", top.LongestShare)
	v.number("spender_tries_per_call", share(top.Attempts, top.Known))
	v.number("timeout_over_left_share", share(top.Uncovered, top.Calls))
	tries := share(top.Attempts, top.Known)
	// One hung call among many requests is not what they have in common.
	alone := 2*top.Alone >= max(top.Of, 1)
	retries := ""
	if top.LongestAttempts == 1 {
		retries = ", with 0 retries"
	}
	switch {
	case alone && top.Of == 1:
		return fmt.Sprintf("a single call, %s, took %.0f %% of the budget%s", top.Slice, 100*top.LongestShare, retries)
	case alone:
		return fmt.Sprintf("in %d of %d requests that missed it a single call, %s, took nearly all of the budget or more%s", top.Alone, top.Of, top.Slice, retries)
	case tries >= 1.5 && top.Fallbacks == 0:
		text := fmt.Sprintf("%s was tried %.1f times per call on the same route and never fell back to another", top.Slice, tries)
		if 2*top.Uncovered >= top.Calls {
			text += ", each time with a timeout that is more than what was left"
		}
		return text
	}
	return fmt.Sprintf("most of the time went to %s", top.Slice)
}

func composite(kind string) bool { return kind == "agent" || kind == "workflow" }

// odds puts the odds ratios of a miss into the evidence: by tool errors within strata of
// length and tokens, by many steps within strata of tool errors and tokens, and by many
// tokens within strata of tool errors and length (see stats.MantelHaenszel).
func odds(v *Verdict, misses []store.Misses) {
	ratio := func(name string, exposed func(store.Misses) (yes, known bool), stratum func(store.Misses) string) {
		by := map[string]*stats.Table2{}
		for _, m := range misses {
			yes, known := exposed(m)
			if !known {
				continue
			}
			t := by[stratum(m)]
			if t == nil {
				t = &stats.Table2{}
				by[stratum(m)] = t
			}
			if yes {
				t.K1, t.N1 = t.K1+m.Missed, t.N1+m.Known
			} else {
				t.K2, t.N2 = t.K2+m.Missed, t.N2+m.Known
			}
		}
		strata := make([]stats.Table2, 0, len(by))
		for _, t := range by {
			strata = append(strata, *t)
		}
		slices.SortFunc(strata, func(a, b stats.Table2) int { return int(int64(a.N1+a.N2) - int64(b.N1+b.N2)) })
		i, err := stats.MantelHaenszel(strata, 0.95)
		if err != nil {
			return
		}
		v.number("miss_odds_"+name, i.Estimate)
		v.number("miss_odds_"+name+"_lo", i.Lo)
		v.number("miss_odds_"+name+"_hi", i.Hi)
	}
	ratio("tool_errors", func(m store.Misses) (bool, bool) { return m.ToolErrors, true },
		func(m store.Misses) string { return m.Steps + " " + m.Tokens })
	ratio("many_steps", func(m store.Misses) (bool, bool) { return m.Steps == "8-14" || m.Steps == "15+", true },
		func(m store.Misses) string { return fmt.Sprint(m.ToolErrors, m.Tokens) })
	ratio("many_tokens", func(m store.Misses) (bool, bool) { return m.Tokens == "16k+", m.Tokens != "unknown" },
		func(m store.Misses) string { return fmt.Sprint(m.ToolErrors, m.Steps) })
}
