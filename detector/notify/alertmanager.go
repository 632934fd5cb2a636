package notify

import (
	"context"
	"errors"
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
func NewAlertmanager(base string, access Access) (*Alertmanager, error) {
	to, err := newEndpoint(base, "Alertmanager", access)
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

// Notify posts all alerts in one request, and one by one if Alertmanager refuses that, since
// it does so for a single one that is not to its liking.
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
	err := a.to.post(ctx, out, nil)
	var f *failure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f) && !f.refusal:
		return &detector.DeliveryError{Reason: f.reason, Err: fmt.Errorf("alertmanager: %w", err)}
	}
	i := -1
	return each("alertmanager", alerts, func(detector.Alert) error {
		i++
		return a.to.post(ctx, out[i:i+1], nil)
	})
}
