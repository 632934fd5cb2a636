package notify

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"driftline/detector"
)

// Alertmanager posts alerts to one Alertmanager by its API v2. Give each member of an
// Alertmanager cluster a notifier of its own: they deduplicate among themselves, also
// what several detectors send.
type Alertmanager struct{ to endpoint }

// NewAlertmanager returns a notifier for the Alertmanager at base, such as
// http://127.0.0.1:9093, with an optional path prefix.
func NewAlertmanager(base string) (*Alertmanager, error) {
	to, err := newEndpoint(base, "Alertmanager")
	if err != nil {
		return nil, err
	}
	if to.url, err = url.JoinPath(to.url, "api/v2/alerts"); err != nil {
		return nil, fmt.Errorf("Alertmanager URL: %w", err)
	}
	return &Alertmanager{to}, nil
}

// Name names the receiver without its path.
func (a *Alertmanager) Name() string { return a.to.name("alertmanager") }

type postableAlert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// Notify posts all alerts in one request; Alertmanager takes all or none.
func (a *Alertmanager) Notify(ctx context.Context, alerts []detector.Alert) error {
	out := make([]postableAlert, 0, len(alerts))
	for _, al := range alerts {
		out = append(out, postableAlert{
			Labels: al.Labels, Annotations: al.Annotations,
			StartsAt: al.StartsAt, EndsAt: al.EndsAt, GeneratorURL: al.Annotations["evidence_url"],
		})
	}
	if len(out) == 0 {
		return nil
	}
	if err := a.to.post(ctx, out, nil); err != nil {
		return fmt.Errorf("alertmanager: %w", err)
	}
	return nil
}
