package demo

import (
	"fmt"
	"strings"
	"time"

	"driftline/detector"
	"driftline/internal/sim"
)

// Line is one alert transition as the demo prints it.
type Line struct {
	Detection string         `json:"detection"`
	State     string         `json:"state"`
	Severity  string         `json:"severity"`
	Slice     detector.Slice `json:"slice"`
	At        time.Time      `json:"at"`
	StartedAt time.Time      `json:"started_at"`
	FiredAt   *time.Time     `json:"fired_at"`
	// First504AlertAt is when the 504 rule fired, and LeadSeconds how much earlier this
	// alert did; both are null if either never fired.
	First504AlertAt *time.Time `json:"first_504_alert_at"`
	LeadSeconds     *float64   `json:"lead_seconds"`
	// Muted is why a firing alert is kept and not sent; empty if it is sent.
	Muted string `json:"muted,omitempty"`
}

// First504 is when the 504 rule first fired in the transitions; zero if it did not.
func First504(transitions []detector.Alert) time.Time {
	var first time.Time
	for _, a := range transitions {
		if a.Detection == detector.Alert504 && a.State == detector.Firing && (first.IsZero() || a.FiredAt.Before(first)) {
			first = a.FiredAt
		}
	}
	return first
}

// NewLine states a transition against the 504 rule's first alert, which may be zero.
func NewLine(a detector.Alert, first504 time.Time) Line {
	l := Line{Detection: a.Detection, State: a.State, Severity: a.Severity, Slice: a.Slice, At: a.At, StartedAt: a.StartsAt, Muted: a.Muted}
	if !a.FiredAt.IsZero() {
		at := a.FiredAt
		l.FiredAt = &at
	}
	if !first504.IsZero() {
		l.First504AlertAt = &first504
		if l.FiredAt != nil {
			lead := first504.Sub(*l.FiredAt).Seconds()
			l.LeadSeconds = &lead
		}
	}
	return l
}

// Early are the detections that must fire before the 504 rule in an incident.
var Early = []string{detector.RetryBimodality, detector.DeadlineDrift, detector.P95Spread}

// Check is nil if the scenario went as it must: in an incident the early detections
// fired before the 504 rule did; otherwise nothing paged. The error says what did not.
func Check(scenario sim.Scenario, transitions []detector.Alert) error {
	if scenario != sim.ScenarioIncident {
		var paged []string
		for _, a := range transitions {
			if a.State == detector.Firing && !a.Shadow && a.Detection != detector.Alert504 {
				paged = append(paged, fmt.Sprintf("%s on %s at %s", a.Detection, a.Slice, a.FiredAt.Format("15:04:05")))
			}
		}
		if len(paged) > 0 {
			return fmt.Errorf("scenario %q has no fault, and yet these paged: %s", scenario, strings.Join(paged, "; "))
		}
		return nil
	}
	first := First504(transitions)
	if first.IsZero() {
		return fmt.Errorf("the 504 rule did not fire in scenario %q, so there is no lead to state", scenario)
	}
	fired := map[string]time.Time{}
	for _, a := range transitions {
		if at, ok := fired[a.Detection]; a.State == detector.Firing && (!ok || a.FiredAt.Before(at)) {
			fired[a.Detection] = a.FiredAt
		}
	}
	var late []string
	for _, name := range Early {
		switch at, ok := fired[name]; {
		case !ok:
			late = append(late, name+" did not fire")
		case !at.Before(first):
			late = append(late, fmt.Sprintf("%s fired %s after the 504 rule", name, at.Sub(first)))
		}
	}
	if len(late) > 0 {
		return fmt.Errorf("not ahead of the 504s: %s", strings.Join(late, "; "))
	}
	return nil
}
