package backtest

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"driftline/detector"
)

// leastHeadroom is the headroom below which lead over headroom says nothing: two rounds.
const leastHeadroom = time.Minute

// outcomeOf is what one method did in one scenario.
type scenarioOutcome struct {
	first   time.Time
	right   int
	wrong   []Page
	by      string
	matched bool
}

// judgePages tells which pages name the service that was hit while it was.
func (r *Result) judgePages(pages []Page) scenarioOutcome {
	var o scenarioOutcome
	for _, p := range pages {
		health := p.Detection == detector.PipelineHealth
		if p.Slice.Service != r.Scenario.Hit.Service || p.At.Before(r.Onset) || p.At.After(r.Ended.Add(time.Minute)) || health != r.Scenario.Kind.Outage {
			o.wrong = append(o.wrong, p)
			continue
		}
		o.right++
		if !o.matched || p.At.Before(o.first) {
			o.first, o.by, o.matched = p.At, p.Detection, true
		}
	}
	return o
}

// rivalPages are those of a rival at a level.
func (r *Result) rivalPages(v rival, level float64) []Page {
	var out []Page
	for _, k := range r.series.keys() {
		for _, m := range pagesOf(votes(v.score(r.series.p95[k], r.Scenario.WarmMinutes)), level) {
			out = append(out, Page{At: start.Add(time.Duration(m+1)*time.Minute + evalAfter), Detection: v.name, Slice: detector.Slice{Service: k.service, Agent: k.agent, Kind: k.kind}})
		}
	}
	return out
}

// calibrate is the lowest level at which a rival pages on no more slice-days of the healthy
// traffic than allowed. Without healthy traffic it is what people use: 3, for both.
func calibrate(peaks []float64, allowed int) float64 {
	if len(peaks) == 0 {
		return 3
	}
	slices.Sort(peaks)
	return peaks[max(0, len(peaks)-1-allowed)]
}

// upper95 is the upper 95 % bound of a Poisson mean after k events.
func upper95(k int) float64 {
	return distuv.ChiSquared{K: 2 * float64(k+1)}.Quantile(0.95) / 2
}

func quantileOf(xs []float64, p float64) *float64 {
	if len(xs) == 0 {
		return nil
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	// Linear between order statistics.
	h := p * float64(len(s)-1)
	lo := int(math.Floor(h))
	v := s[lo]
	if lo+1 < len(s) {
		v += (h - float64(lo)) * (s[lo+1] - s[lo])
	}
	return &v
}

// tally adds up outcomes.
type tally struct {
	scenarios, found, right, wrong int
	detect, lead, leadLong, ratio  []float64
}

func (t *tally) add(r *Result, o scenarioOutcome) {
	t.scenarios++
	t.right += o.right
	t.wrong += len(o.wrong)
	if o.matched {
		t.found++
		t.detect = append(t.detect, o.first.Sub(r.Onset).Seconds())
	}
	if r.Alert504.IsZero() || r.Scenario.Kind.Outage {
		return
	}
	lead := 0.0 // a miss leads by nothing
	if o.matched {
		lead = r.Alert504.Sub(o.first).Seconds()
	}
	t.lead = append(t.lead, lead)
	if r.Oracle.IsZero() {
		return
	}
	headroom := r.Alert504.Sub(r.Oracle)
	if headroom >= 12*time.Minute {
		t.leadLong = append(t.leadLong, lead)
	}
	if headroom >= leastHeadroom {
		t.ratio = append(t.ratio, lead/headroom.Seconds())
	}
}

// Figures are a method's over a number of scenarios; what cannot be known is null.
type Figures struct {
	Scenarios int `json:"scenarios"`
	// Recall is the share of incidents with a page that names them, Precision the share of
	// pages that name an incident.
	Recall    *float64 `json:"recall"`
	Precision *float64 `json:"precision"`
	// MedianDetectSeconds is from the onset to the first right page.
	MedianDetectSeconds *float64 `json:"median_detect_seconds"`
	// Lead is from the first right page to the 504 alert; a miss counts as 0.
	MedianLeadSeconds *float64 `json:"median_lead_seconds"`
	// MedianLeadLongSeconds is the same over scenarios with 12 minutes of headroom or more.
	MedianLeadLongSeconds  *float64 `json:"median_lead_headroom_12m_seconds"`
	LongScenarios          int      `json:"scenarios_headroom_12m"`
	MedianLeadOverHeadroom *float64 `json:"median_lead_over_headroom"`
	P10LeadOverHeadroom    *float64 `json:"p10_lead_over_headroom"`
	RightPages             int      `json:"right_pages"`
	WrongPages             int      `json:"wrong_pages"`
}

func part(k, n int) *float64 {
	if n == 0 {
		return nil
	}
	v := float64(k) / float64(n)
	return &v
}

func (t *tally) figures() Figures {
	return Figures{
		Scenarios: t.scenarios, Recall: part(t.found, t.scenarios), Precision: part(t.right, t.right+t.wrong), RightPages: t.right, WrongPages: t.wrong,
		MedianDetectSeconds: quantileOf(t.detect, 0.5), MedianLeadSeconds: quantileOf(t.lead, 0.5), MedianLeadLongSeconds: quantileOf(t.leadLong, 0.5), LongScenarios: len(t.leadLong),
		MedianLeadOverHeadroom: quantileOf(t.ratio, 0.5), P10LeadOverHeadroom: quantileOf(t.ratio, 0.1),
	}
}
