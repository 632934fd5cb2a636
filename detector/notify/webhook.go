package notify

import (
	"context"
	"time"

	"driftline/detector"
)

// Webhook posts alerts in the body format of Alertmanager's webhook receiver, version
// 4, one request per alert. The header Idempotency-Key names alert and transition, so
// that a receiver can drop a repeat.
type Webhook struct {
	to          endpoint
	externalURL string
}

// NewWebhook returns a notifier for url. externalURL is what the body says of where
// detectd's own pages are; it may be empty.
func NewWebhook(url, externalURL string, access Access) (*Webhook, error) {
	to, err := newEndpoint(url, "webhook", access)
	if err != nil {
		return nil, err
	}
	return &Webhook{to, externalURL}, nil
}

// Name names the receiver without its path, which may be secret.
func (w *Webhook) Name() string { return w.to.name("webhook") }

type webhookAlert struct {
	Status       string            `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint"`
}

type webhookBody struct {
	Version           string            `json:"version"`
	GroupKey          string            `json:"groupKey"`
	TruncatedAlerts   int               `json:"truncatedAlerts"`
	Status            string            `json:"status"`
	Receiver          string            `json:"receiver"`
	GroupLabels       map[string]string `json:"groupLabels"`
	CommonLabels      map[string]string `json:"commonLabels"`
	CommonAnnotations map[string]string `json:"commonAnnotations"`
	ExternalURL       string            `json:"externalURL"`
	Alerts            []webhookAlert    `json:"alerts"`
}

// Notify posts each alert that changed. Its error says which were taken.
func (w *Webhook) Notify(ctx context.Context, alerts []detector.Alert) error {
	return each("webhook", news(alerts), func(a detector.Alert) error {
		return w.to.post(ctx, w.body(a), map[string]string{"Idempotency-Key": a.Key()})
	})
}

func (w *Webhook) body(a detector.Alert) webhookBody {
	one := webhookAlert{
		Status: "firing", Labels: a.Labels, Annotations: a.Annotations, StartsAt: a.StartsAt,
		GeneratorURL: a.Annotations["evidence_url"], Fingerprint: a.Fingerprint,
	}
	if a.State == detector.Resolved {
		one.Status, one.EndsAt = "resolved", a.ResolvedAt
	}
	return webhookBody{
		Version: "4", GroupKey: "driftline/" + a.Fingerprint, Status: one.Status, Receiver: "driftline",
		GroupLabels: map[string]string{"alertname": a.Detection}, CommonLabels: a.Labels, CommonAnnotations: a.Annotations,
		ExternalURL: w.externalURL, Alerts: []webhookAlert{one},
	}
}
