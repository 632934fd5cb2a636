// Package notify delivers alerts: to the log, to Alertmanager's API v2, and to
// webhooks in Alertmanager's webhook format. The detector's outbox repeats what
// fails, so a delivery here is one bounded try per receiver.
package notify
