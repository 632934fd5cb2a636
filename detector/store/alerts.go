package store

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// AlertRow is one transition of one alert as it is stored.
type AlertRow struct {
	// Fingerprint identifies the alert; Transition numbers its changes of state.
	Fingerprint string
	Transition  uint32
	At          time.Time
	Detection   string
	// State is pending, firing or resolved.
	State    string
	Severity string
	Shadow   bool
	Slice
	StartedAt   time.Time
	FiredAt     *time.Time
	ResolvedAt  *time.Time
	Value       float64
	Threshold   float64
	Baseline    float64
	Unit        string
	Window      time.Duration
	Samples     uint64
	Labels      map[string]string
	Annotations map[string]string
	// Evidence is a JSON object (docs/detections.md).
	Evidence string
	// Version settles which of two rows of one transition is the later.
	Version uint64
}

const alertColumns = "fingerprint, transition, at, detection, state, severity, shadow, service_name, agent, kind, target, stream, started_at, fired_at, resolved_at, " +
	"value, threshold, baseline, unit, window_ms, samples, labels, annotations, evidence"

// SaveAlerts stores transitions. Storing one again replaces it if its version is
// not lower.
func (s *Store) SaveAlerts(ctx context.Context, alerts []AlertRow) error {
	if len(alerts) == 0 {
		return nil
	}
	batch, err := s.conn.PrepareBatch(ctx, "INSERT INTO "+s.db+".alerts_base ("+alertColumns+", version)")
	if err != nil {
		return fmt.Errorf("store alerts: %w", err)
	}
	for _, a := range alerts {
		err := batch.Append(a.Fingerprint, a.Transition, a.At, a.Detection, a.State, a.Severity, a.Shadow, a.Service, a.Agent, a.Kind, a.Target, a.Stream,
			a.StartedAt, a.FiredAt, a.ResolvedAt, a.Value, a.Threshold, a.Baseline, a.Unit, uint64(a.Window.Milliseconds()), a.Samples,
			nonNil(a.Labels), nonNil(a.Annotations), a.Evidence, a.Version)
		if err != nil {
			return fmt.Errorf("store alert %s: %w", a.Fingerprint, err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("store alerts: %w", err)
	}
	return nil
}

func nonNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func (s *Store) alerts(ctx context.Context, tail string, args []any) ([]AlertRow, error) {
	var windowMS uint64
	return query(ctx, s, "alerts", "SELECT "+alertColumns+" FROM "+s.db+".alerts "+tail, args, func(a *AlertRow) []any {
		return []any{&a.Fingerprint, &a.Transition, &a.At, &a.Detection, &a.State, &a.Severity, &a.Shadow, &a.Service, &a.Agent, &a.Kind, &a.Target, &a.Stream,
			&a.StartedAt, &a.FiredAt, &a.ResolvedAt, &a.Value, &a.Threshold, &a.Baseline, &a.Unit, &windowMS, &a.Samples, &a.Labels, &a.Annotations, &a.Evidence}
	}, func(a *AlertRow) {
		a.Window = time.Duration(windowMS) * time.Millisecond
		a.At, a.StartedAt = a.At.UTC(), a.StartedAt.UTC()
		for _, t := range []**time.Time{&a.FiredAt, &a.ResolvedAt} {
			if *t != nil {
				utc := (*t).UTC()
				*t = &utc
			}
		}
	})
}

// Alerts lists the latest transition of each alert that changed in [from, to),
// newest first, at most limit.
func (s *Store) Alerts(ctx context.Context, from, to time.Time, limit int) ([]AlertRow, error) {
	args := append(between(from, to), clickhouse.Named("limit", limit))
	return s.alerts(ctx, "WHERE at >= toDateTime(@from, 'UTC') AND at < toDateTime(@to, 'UTC') ORDER BY at DESC, transition DESC, fingerprint LIMIT 1 BY fingerprint LIMIT @limit", args)
}

// AlertTransitions lists all transitions in [from, to), oldest first, at most limit.
func (s *Store) AlertTransitions(ctx context.Context, from, to time.Time, limit int) ([]AlertRow, error) {
	args := append(between(from, to), clickhouse.Named("limit", limit))
	return s.alerts(ctx, "WHERE at >= toDateTime(@from, 'UTC') AND at < toDateTime(@to, 'UTC') ORDER BY at, fingerprint, transition LIMIT @limit", args)
}

// AlertHistory lists all transitions of one alert, oldest first. An unknown
// fingerprint is ErrNotFound.
func (s *Store) AlertHistory(ctx context.Context, fingerprint string) ([]AlertRow, error) {
	got, err := s.alerts(ctx, "WHERE fingerprint = @fingerprint ORDER BY transition, at LIMIT 1000", []any{clickhouse.Named("fingerprint", fingerprint)})
	if err == nil && len(got) == 0 {
		err = fmt.Errorf("alert %q: %w", fingerprint, ErrNotFound)
	}
	return got, err
}

// LoadState reads a state by key, and false when there is none.
func (s *Store) LoadState(ctx context.Context, key string) (string, bool, error) {
	got, err := query(ctx, s, "state "+key, "SELECT state FROM "+s.db+".detector_state WHERE key = @key", []any{clickhouse.Named("key", key)},
		func(v *string) []any { return []any{v} }, nil)
	if err != nil || len(got) == 0 {
		return "", false, err
	}
	return got[0], true, nil
}

// SaveState stores a state; the highest version of a key is the one read back.
func (s *Store) SaveState(ctx context.Context, key, state string, version uint64) error {
	batch, err := s.conn.PrepareBatch(ctx, "INSERT INTO "+s.db+".detector_state_base (key, state, version, deleted)")
	if err != nil {
		return fmt.Errorf("store state %s: %w", key, err)
	}
	if err := batch.Append(key, state, version, false); err != nil {
		return fmt.Errorf("store state %s: %w", key, err)
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("store state %s: %w", key, err)
	}
	return nil
}
