package notify

import (
	"context"
	"log/slog"

	"driftline/detector"
)

// Log writes alerts to a log.
type Log struct{ logger *slog.Logger }

// NewLog returns a notifier that writes to logger: firing alerts as warnings or, if
// critical, errors; resolved ones as information.
func NewLog(logger *slog.Logger) Log { return Log{logger} }

// Name is "log".
func (Log) Name() string { return "log" }

// Notify writes one record for each alert that changed.
func (l Log) Notify(ctx context.Context, alerts []detector.Alert) error {
	for _, a := range alerts {
		if a.Resend {
			continue
		}
		level := slog.LevelInfo
		if a.State == detector.Firing {
			level = slog.LevelWarn
			if a.Severity == "critical" {
				level = slog.LevelError
			}
		}
		l.logger.LogAttrs(ctx, level, a.Annotations["summary"],
			slog.String("alert", a.Detection), slog.String("state", a.State), slog.String("severity", a.Severity),
			slog.String("description", a.Annotations["description"]), slog.String("cause", a.Annotations["cause"]),
			slog.String("evidence", a.Annotations["evidence_url"]), slog.String("key", a.Key()),
			slog.Time("started_at", a.StartsAt))
	}
	return nil
}
